"""One case: a scene is set, srt runs in it, and what came of it is compared.

Keys of a case:
  id, tags        its name and groups
  requires        "root", "nonroot", "tool:NAME", "tmp_claude", "ipv6"
  settings        the settings file: an object, or a string that is its text; home_settings: the
                  same for ~/.srt-settings.json; no_settings: --settings is not given
  setup           steps {"op", "path", ...}, each with its parents: dir, file (content, mode),
                  symlink and hardlink (target), fifo, chmod (mode)
  command         for -c; or args: everything after the program's name
  cwd, env        env is added; null takes a name away
  stdin           text, or {"repeat", "count"}
  open_fds        [{"fd", "path"}]: files that srt inherits under these numbers
  http            two servers on the host's loopback, ports $P and $Q
  control         {"fd", "kind", "lines"}: kind is pipe, socket, writeonly or closed; a line is an
                  object or text to write, or {"wait_stdout"}, {"sleep"}, {"raw"}, {"close"}
  signal          {"name", "after_stdout", "delay", "group"}
  during          [{"at_stdout", "host"}]: looked at while it runs
  timeout         seconds
  alone           looks at what other cases share
  expect          exit, stdout, stdout_bytes, {stdout,stderr}_{contains,lacks,matches}, host_after

Placeholders: $W work, $H home and $O another directory, all in $B; $P, $Q ports; $S the settings
file; $PY this Python; $U the user's id; $N a name of this case alone; $$W is $W itself.
"""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

from .expect import check_host, check_run, shown
from .scene import WAIT, Scene, set_up

SECONDS = 30
PASSED_ON = ("SRT_MOUNTS", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS")
# Puts descriptors where a case wants them: in this process those numbers may be in use. They go
# out of the way of all wanted numbers first.
PLACE_DESCRIPTORS = """
import os, sys
pairs = [[int(n) for n in pair.split(":")] for pair in sys.argv[1].split(",")]
above = 1 + max(max(pair) for pair in pairs)
for i, (have, want) in enumerate(pairs):
    os.dup2(have, above + i)
    os.close(have)
for i, (have, want) in enumerate(pairs):
    os.dup2(above + i, want)
    os.close(above + i)
os.execv(sys.argv[2], sys.argv[2:])
"""


class Stream:
    """Collects what a stream gives and lets others wait for a text in it."""

    def __init__(self, pipe):
        self.pipe = pipe
        self.data = b""
        self.ended = False
        self.changed = threading.Condition()
        self.thread = threading.Thread(target=self._collect, daemon=True)
        self.thread.start()

    def _collect(self):
        while True:
            data = os.read(self.pipe.fileno(), 65536)
            with self.changed:
                self.data += data
                self.ended = not data
                self.changed.notify_all()
            if not data:
                return

    def wait(self, text):
        wanted = text.encode()
        with self.changed:
            self.changed.wait_for(lambda: wanted in self.data or self.ended, WAIT)
            return wanted in self.data


class Control:
    """The writer's side of --control-fd."""

    def __init__(self, script):
        self.lines = script.get("lines", [])
        self.wanted = script["fd"]
        self.given = self.end = self.problem = None
        kind = script.get("kind", "pipe")
        if kind == "pipe":
            self.given, self.end = os.pipe()
        elif kind == "socket":
            self.given, self.end = (s.detach() for s in socket.socketpair())
        elif kind == "writeonly":
            self.given = os.open(os.devnull, os.O_WRONLY)
        elif kind != "closed":
            raise ValueError(f"control of kind {kind}")

    def play(self, out):
        """What was wrong is left in `problem`."""
        try:
            for line in self.lines:
                self._step(line, out)
        except (OSError, AssertionError) as error:
            self.problem = f"control: {error}"

    def _step(self, line, out):
        if isinstance(line, dict) and "wait_stdout" in line:
            if not out.wait(line["wait_stdout"]):
                raise AssertionError(f"{line['wait_stdout']!r} never came on stdout")
        elif isinstance(line, dict) and "sleep" in line:
            time.sleep(line["sleep"])
        elif isinstance(line, dict) and "raw" in line:
            os.write(self.end, line["raw"].encode())
        elif isinstance(line, dict) and line.get("close"):
            self.close()
        else:
            text = line if isinstance(line, str) else json.dumps(line)
            os.write(self.end, text.encode() + b"\n")

    def close(self):
        if self.end is not None:
            os.close(self.end)
            self.end = None


def _environment(case, scene):
    environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(scene.home),
                   "LANG": "C.UTF-8", "TERM": "dumb"}
    environment.update((n, os.environ[n]) for n in PASSED_ON if n in os.environ)
    for name, value in case.get("env", {}).items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    return environment


def _arguments(case, scene):
    if "args" in case:
        return case["args"]
    settings = [] if case.get("no_settings") else ["--settings", str(scene.settings)]
    return [*settings, "-c", case["command"]]


def _write_settings(value, path):
    if value is not None:
        path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")


def _feed(pipe, text):
    try:
        with pipe:
            pipe.write(text.encode())
    except OSError:
        pass  # the command reads no more


def _start(case, scene, srt, control):
    command = [str(srt), *_arguments(case, scene)]
    placed = [(os.open(item["path"], os.O_RDWR | os.O_CREAT, 0o644), item["fd"])
              for item in case.get("open_fds", ())]
    if control and control.given is not None:
        placed.append((control.given, control.wanted))
    if placed:
        command = [sys.executable, "-c", PLACE_DESCRIPTORS,
                   ",".join(f"{have}:{want}" for have, want in placed), *command]
    process = subprocess.Popen(
        command, cwd=case.get("cwd", scene.work), env=_environment(case, scene),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        pass_fds=[have for have, _ in placed], start_new_session=True)
    for have, _ in placed:
        os.close(have)
    return process


def _signal(script, process, out):
    """A list with what went wrong before it could be sent."""
    problems = []
    if "after_stdout" in script and not out.wait(script["after_stdout"]):
        problems.append(f"signal: {script['after_stdout']!r} never came on stdout")
    time.sleep(script.get("delay", 0.1))
    number = getattr(signal, "SIG" + script["name"])
    if script.get("group"):
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    return problems


def _play(case, scene, srt, control):
    problems = []
    process = _start(case, scene, srt, control)
    try:
        out, err = Stream(process.stdout), Stream(process.stderr)
        stdin = case.get("stdin", "")
        if isinstance(stdin, dict):
            stdin = stdin["repeat"] * stdin["count"]
        threading.Thread(target=_feed, args=(process.stdin, stdin), daemon=True).start()
        if control:
            threading.Thread(target=control.play, args=(out,), daemon=True).start()
        for step in case.get("during", ()):
            if out.wait(step["at_stdout"]):
                problems += check_host(step["host"], "during")
            else:
                problems.append(f"during: {step['at_stdout']!r} never came on stdout")
        if "signal" in case:
            problems += _signal(case["signal"], process, out)
        seconds = case.get("timeout", SECONDS)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            return problems + [f"it still ran after {seconds} s", shown("stdout", out.data),
                               shown("stderr", err.data)]
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    for stream in (out, err):
        stream.thread.join(5)
        if stream.thread.is_alive():
            problems.append("something that the run left behind holds its output open")
    problems += check_run(case["expect"], status, out.data, err.data)
    problems += check_host(case["expect"].get("host_after", ()), "after")
    if control and control.problem:
        problems.append(control.problem)
    if problems:
        problems += [shown("stdout", out.data), shown("stderr", err.data)]
    return problems


def run_case(case, srt, keep=False):
    """Problems; none when the case holds."""
    problems = []
    scene = control = None
    try:
        scene = Scene(case.get("http"))
        case = scene.fill(case)
        set_up(case.get("setup", ()))
        _write_settings(case.get("settings"), scene.settings)
        _write_settings(case.get("home_settings"), pathlib.Path(scene.home, ".srt-settings.json"))
        control = Control(case["control"]) if case.get("control") else None
        problems = _play(case, scene, srt, control)
    except Exception as error:  # a case that is broken has failed, and the others go on
        problems = [f"{type(error).__name__}: {error}"]
    finally:
        if control:
            control.close()
        if scene:
            scene.close(keep and bool(problems))
            if keep and problems:
                problems.append(f"kept: {scene.base}")
    return problems
