"""What is expected of a run: its status, its output, and what the host's directories hold."""

import os
import pathlib
import re
import stat

SHOWN = 600
TYPES = ((stat.S_ISLNK, "symlink"), (stat.S_ISDIR, "dir"), (stat.S_ISREG, "file"))


def check_host(items, when):
    """A problem for each item that is not as it says."""
    return [f"{when}: {item['path']} {problem}" for item in items for problem in _node(item)]


def _node(item):
    path = pathlib.Path(item["path"])
    try:
        status = path.lstat()
    except OSError:
        if item.get("exists", True):
            yield "is missing"
        return
    if not item.get("exists", True):
        yield "is there"
        return
    if "type" in item:
        kind = next((name for test, name in TYPES if test(status.st_mode)), "other")
        if kind != item["type"]:
            yield f"is of type {kind}, not {item['type']}"
    if "mode" in item and stat.S_IMODE(status.st_mode) != int(item["mode"], 8):
        yield f"has mode {stat.S_IMODE(status.st_mode):o}, not {item['mode']}"
    if "entries" in item and sorted(os.listdir(path)) != sorted(item["entries"]):
        yield f"has the entries {sorted(os.listdir(path))}"
    if "content" in item or "contains" in item:
        text = path.read_text("utf-8", "replace")
        if text != item.get("content", text) or item.get("contains", "") not in text:
            yield f"holds {text[:SHOWN]!r}"


def check_run(expected, status, out, err):
    """Problems with what the run gave: its status, and the bytes of its two streams."""
    problems = list(_status(expected, status))
    texts = {"stdout": out.decode("utf-8", "replace"), "stderr": err.decode("utf-8", "replace")}
    if texts["stdout"] != expected.get("stdout", texts["stdout"]):
        problems.append(f"stdout is not {expected['stdout'][:SHOWN]!r}")
    if len(out) != expected.get("stdout_bytes", len(out)):
        problems.append(f"stdout has {len(out)} bytes, not {expected['stdout_bytes']}")
    for name, text in texts.items():
        problems += [f"{name} lacks {part!r}" for part in expected.get(name + "_contains", ())
                     if part not in text]
        problems += [f"{name} holds {part!r}" for part in expected.get(name + "_lacks", ())
                     if part in text]
        problems += [f"{name} does not match {pattern!r}"
                     for pattern in expected.get(name + "_matches", ())
                     if not re.search(pattern, text, re.M)]
    return problems


def _status(expected, status):
    wanted = expected.get("exit", status)
    if status not in (wanted if isinstance(wanted, list) else [wanted]):
        yield f"the exit status is {status}, not {wanted}"


def shown(name, data):
    text = data.decode("utf-8", "replace")
    return f"{name}: {text[:SHOWN]!r}" + (f" ... {text[-SHOWN:]!r}" if len(text) > 2 * SHOWN else "")
