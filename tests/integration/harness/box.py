"""A box under test: `srt -c` by an ordinary user, with either way of mounting.

A test class derives from BoxCase, and once more from that class with `mounts = "bwrap"`: so each
test runs with both executors of the plan. The programs are copied to a directory that the user can
reach, whatever the rights of the build folder. The user is the one that runs the tests, or `nobody`
when that is root; with `as_root` it is root all the same.
"""

import atexit
import json
import os
import pathlib
import pwd
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import typing

from .case import NAMES, Case
from .client import WAIT
from .proxy import REPORT, SRT

ORDINARY = "nobody"
LINGER = 5.0  # seconds in which what belongs to a run has gone after its end
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Done(typing.NamedTuple):
    status: int
    out: str
    err: str
    seconds: float


def _installed():
    """A directory with copies of the programs, for everybody to execute."""
    global _programs
    if _programs is None:
        _programs = pathlib.Path(tempfile.mkdtemp(prefix="srt-bin-"))
        atexit.register(shutil.rmtree, _programs, ignore_errors=True)
        _programs.chmod(0o755)
        srt = pathlib.Path(SRT).resolve()
        for source in (srt, srt.with_name("srt-inside"), srt.with_name("srt-proxy-agent.jar")):
            if source.exists():
                shutil.copy(source, _programs)
                (_programs / source.name).chmod(0o755)
    return _programs


_programs = None


class Running:
    """srt, started; its output is collected while it runs."""

    def __init__(self, process):
        self.process = process
        self.pid = process.pid
        self.begun = time.monotonic()
        self.streams = {"out": b"", "err": b""}
        self.changed = threading.Condition()
        self.threads = []
        for name, pipe in (("out", process.stdout), ("err", process.stderr)):
            if pipe is not None:
                thread = threading.Thread(target=self._collect, args=(name, pipe), daemon=True)
                thread.start()
                self.threads.append(thread)

    def _collect(self, name, pipe):
        with pipe:
            while data := os.read(pipe.fileno(), 65536):
                with self.changed:
                    self.streams[name] += data
                    self.changed.notify_all()

    def says(self, text, seconds=WAIT):
        """Waits for a text on standard output."""
        with self.changed:
            if not self.changed.wait_for(lambda: text.encode() in self.streams["out"], seconds):
                raise AssertionError(f"{text!r} never came; had {self.streams}")
        return self

    def signal(self, number):
        self.process.send_signal(number)

    def signal_group(self, number):
        os.killpg(self.pid, number)

    def wait(self, seconds=WAIT):
        """The end of it, with what it said. What it left behind must not hold its output open."""
        status = self.process.wait(seconds)
        took = time.monotonic() - self.begun
        for thread in self.threads:
            thread.join(LINGER)
            if thread.is_alive():
                raise AssertionError("something holds the output open after the end")
        if REPORT.search(self.streams["err"]):
            raise AssertionError(self.streams["err"].decode("utf-8", "replace"))
        return Done(status, self.streams["out"].decode("utf-8", "replace"),
                    self.streams["err"].decode("utf-8", "replace"), took)

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class BoxCase(Case):
    mounts = None     # "bwrap": bubblewrap applies the mounts
    as_root = False

    def setUp(self):
        super().setUp()
        self.directory = self.directory.resolve()
        self.directory.chmod(0o755)
        self.programs = _installed()
        self.srt = self.programs / pathlib.Path(SRT).name
        self.account = pwd.getpwuid(os.geteuid())
        if os.geteuid() == 0 and not self.as_root:
            self.account = pwd.getpwnam(ORDINARY)
        self.work = self.folder("work")
        self.home = self.folder("home")
        self._settings_files = 0

    # Files of the user's.

    def own(self, path):
        if os.geteuid() == 0:
            os.lchown(path, self.account.pw_uid, self.account.pw_gid)
        return path

    def folder(self, path):
        """A directory of the user's, below the test's own, with its parents."""
        path = self.directory / path
        missing = [p for p in (path, *path.parents) if not p.exists()]
        for parent in reversed(missing):
            parent.mkdir()
            self.own(parent)
        return path

    def file(self, path, text="", mode=0o644):
        """A file of the user's, below the work directory unless the path is absolute."""
        path = self.work / path
        self.folder(path.parent)
        path.write_text(text)
        path.chmod(mode)
        return self.own(path)

    # Running.

    def settings(self, *origins, write=(".",), deny_write=(), deny_read=(), allow_read=(),
                 allowed=NAMES, denied=(), proxy=None, network=None, filesystem=None, **more):
        """A settings document: names of the test's DNS server, these origins; the rest as given."""
        return {"network": {"allowedDomains": [*allowed, *(getattr(o, "literal", o) for o in origins)],
                            "deniedDomains": list(denied), **(network or {})},
                "filesystem": {"denyRead": list(deny_read), "allowRead": list(allow_read),
                               "allowWrite": list(write), "denyWrite": list(deny_write),
                               **(filesystem or {})},
                "proxy": {"dns": {"servers": [self.dns.address]}, **(proxy or {})}, **more}

    def settings_file(self, document):
        self._settings_files += 1
        path = self.directory / f"settings{self._settings_files}.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        path.chmod(0o644)
        return path

    def environment(self, env=None):
        whole = {"PATH": PATH, "HOME": str(self.home), "LANG": "C.UTF-8",
                 "USER": self.account.pw_name, "SHELL": "/bin/sh",
                 # no repository but a test's own
                 "GIT_CEILING_DIRECTORIES": str(self.directory)}
        whole.update((k, v) for k, v in os.environ.items() if k.endswith("SAN_OPTIONS"))
        if self.mounts:
            whole["SRT_MOUNTS"] = self.mounts
        for name, value in (env or {}).items():
            if value is None:
                whole.pop(name, None)
            else:
                whole[name] = str(value)
        return whole

    def as_user(self, *command):
        """The command line that runs a command as the user."""
        if self.account.pw_uid == os.geteuid():
            return [*map(str, command)]
        return [self.tool("setpriv"), f"--reuid={self.account.pw_uid}",
                f"--regid={self.account.pw_gid}", "--clear-groups", *map(str, command)]

    def start(self, *args, cwd=None, env=None, stdin=subprocess.DEVNULL, before=(),
              stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw):
        """srt with these arguments, in a process group of its own. `before`: a command that runs
        srt as its last arguments say."""
        running = Running(subprocess.Popen(
            self.as_user(*before, self.srt, *args), cwd=cwd or self.work,
            env=self.environment(env), stdin=stdin, stdout=stdout, stderr=stderr,
            start_new_session=True, **kw))
        self.addCleanup(running.stop)
        return running

    def start_box(self, command, document=None, options=(), **kw):
        """srt -c COMMAND with those settings."""
        path = self.settings_file(self.settings() if document is None else document)
        return self.start(*options, "--settings", path, "-c", command, **kw)

    def box(self, command, document=None, options=(), seconds=WAIT, **kw):
        """The same to its end."""
        running = self.start_box(command, document, options, **kw)
        return running.wait(seconds)

    def succeeds(self, command, document=None, **kw):
        """What a command that must succeed printed."""
        done = self.box(command, document, **kw)
        self.assertEqual(done.status, 0, done)
        return done.out

    def host(self, command, cwd=None, env=None, seconds=2 * WAIT):
        """A shell command of the user's outside the box."""
        begun = time.monotonic()
        done = subprocess.run(self.as_user("/bin/bash", "-c", command), cwd=cwd or self.work,
                              env=self.environment(env), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=seconds)
        return Done(done.returncode, done.stdout.decode("utf-8", "replace"),
                    done.stderr.decode("utf-8", "replace"), time.monotonic() - begun)

    def python(self, text):
        """A command that runs that program with the system's Python."""
        return f"/usr/bin/python3 -c {shlex.quote(text)}"

    # What is left.

    def listing(self, directory=None):
        """Every path below a directory, with its type."""
        found = set()
        for parent, folders, files in os.walk(directory or self.work):
            found.update(os.path.join(parent, name) for name in folders + files)
        return found

    def processes(self, mark):
        """Processes of the machine whose arguments hold this text, the test's own left out."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if mark.encode() in path.read_bytes() and int(path.parent.name) != os.getpid():
                    found.append(int(path.parent.name))
            except OSError:
                pass  # it is gone
        return found

    def vanishes(self, mark, seconds=WAIT):
        """Waits until no process has the mark in its arguments."""
        end = time.monotonic() + seconds
        while left := self.processes(mark):
            if time.monotonic() > end:
                for pid in left:
                    os.kill(pid, signal.SIGKILL)
                raise AssertionError(f"still there after {seconds} s: {left}")
            time.sleep(0.02)
