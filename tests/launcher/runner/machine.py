"""What the machine gives: requirements of cases, and another user to run as."""

import os
import pathlib
import pwd
import shutil
import subprocess
import sys
import tempfile


def _private_temporary():
    """Whether the box's usual temporary directory is, or can be made, this user's."""
    path = pathlib.Path("/tmp/claude")
    try:
        path.mkdir(mode=0o700)
        path.rmdir()
        return True
    except FileExistsError:
        return path.lstat().st_uid == os.geteuid() and os.access(path, os.W_OK)
    except OSError:
        return False


def _holds(need):
    kind, _, name = need.partition(":")
    if kind == "tool":
        return shutil.which(name) is not None
    return {"root": lambda: os.geteuid() == 0,
            "nonroot": lambda: os.geteuid() != 0,
            "tmp_claude": _private_temporary,
            "ipv6": lambda: os.path.exists("/proc/net/if_inet6")}[kind]()


def unmet(needs):
    return [need for need in needs if not _holds(need)]


def _as_user(user, command, **kw):
    entry = pwd.getpwnam(user)
    return subprocess.run(["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}",
                           "--clear-groups", *map(str, command)], **kw)


def _reachable(user, path):
    return _as_user(user, ["test", "-x", path]).returncode == 0


def run_as(user, here, srt, args):
    """Runs the cases again as that user, who may see neither this tree nor the build's: what is
    needed is copied to where anybody can read it."""
    with tempfile.TemporaryDirectory(prefix="srt-cases-") as stage:
        stage = pathlib.Path(stage)
        stage.chmod(0o755)
        shutil.copytree(here, stage / "launcher", ignore=shutil.ignore_patterns("__pycache__"))
        files = []
        for number, path in enumerate(args.files):
            files.append(stage / f"{number}.jsonl")
            shutil.copy(path, files[-1])
        if not _reachable(user, srt):
            inside = srt.with_name("srt-inside")
            for program in (p for p in (srt, inside) if p.exists()):
                shutil.copy(program, stage / program.name)
                (stage / program.name).chmod(0o755)
            srt = stage / srt.name
        subprocess.run(["chmod", "-R", "a+rX", stage], check=True)
        python = sys.executable if _reachable(user, sys.executable) else "/usr/bin/python3"
        command = [python, "-B", stage / "launcher" / "run-cases", "--srt", srt,
                   "--match", args.match, "--jobs", args.jobs]
        if args.keep:
            command.append("--keep")
        return _as_user(user, command + files, cwd=stage).returncode
