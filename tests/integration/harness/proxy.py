"""A gateway under test: `srt proxy` with a settings file of the test's."""

import json
import os
import pathlib
import re
import signal
import subprocess
import time

from .client import WAIT, Client

SRT = os.environ.get("SRT_BIN") or str(pathlib.Path(__file__).parents[3] / "build" / "srt")
REPORT = re.compile(rb"AddressSanitizer|LeakSanitizer|runtime error:|Assertion .* failed")
TOKEN = "00112233445566778899aabbccddeeff"


def run_srt(*args, env=None, stdin=subprocess.DEVNULL, timeout=WAIT, **kw):
    """Runs srt to its end: (status, stdout, stderr), text."""
    whole = clean_environment()
    whole.update(env or {})
    done = subprocess.run([SRT, *map(str, args)], stdin=stdin, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=whole, timeout=timeout, **kw)
    if REPORT.search(done.stderr):
        raise AssertionError(done.stderr.decode("utf-8", "replace"))
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def clean_environment():
    """What a program needs of ours; nothing that names a proxy, a root or an option."""
    return {k: v for k, v in os.environ.items()
            if k in ("PATH", "HOME", "USER", "TMPDIR", "LD_LIBRARY_PATH") or k.endswith("SAN_OPTIONS")}


def settings(allowed=(), denied=(), proxy=None, **network):
    """A settings document; `proxy` is its key of that name, the rest goes under network."""
    document = {"network": {"allowedDomains": list(allowed), "deniedDomains": list(denied),
                            **network}}
    if proxy is not None:
        document["proxy"] = proxy
    return document


def port_of(path):
    """The port of the first TCP listener in a port file: an address a line."""
    found = re.search(r":(\d+)$", path.read_text(), re.M)
    return int(found.group(1)) if found else None


class Proxy:
    """Started by the constructor; ready when it returns."""

    def __init__(self, document, directory, listen=("127.0.0.1:0",), args=(), env=None,
                 pass_fds=()):
        self.directory = pathlib.Path(directory)
        self.settings_path = self.directory / "settings.json"
        self.settings_path.write_text(json.dumps(document))
        self.port_path = self.directory / "port"
        self.log_path = self.directory / "decisions.log"
        self.stderr_path = self.directory / "stderr"
        self.stdout_path = self.directory / "stdout"
        command = [SRT, "proxy", "--settings", str(self.settings_path),
                   "--port-file", str(self.port_path), "--log", str(self.log_path)]
        for address in listen:
            command += ["--listen", address]
        environment = clean_environment()
        environment.update(env or {})
        with open(self.stderr_path, "wb") as err, open(self.stdout_path, "wb") as out:
            self.process = subprocess.Popen([*command, *args], stdin=subprocess.DEVNULL,
                                            stdout=out, stderr=err, env=environment,
                                            pass_fds=pass_fds)
        self.port = self._wait_for_port()
        self.address = ("127.0.0.1", self.port)

    def _wait_for_port(self):
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            if self.port_path.exists() and " serving " in self.stderr():
                return port_of(self.port_path)
            if self.process.poll() is not None:
                raise AssertionError(f"srt proxy ended with {self.process.returncode}:\n"
                                     + self.stderr())
            time.sleep(0.01)
        self.process.kill()
        raise AssertionError("srt proxy wrote no port file:\n" + self.stderr())

    def stderr(self):
        return self.stderr_path.read_text("utf-8", "replace")

    def client(self):
        return Client(self.address)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def records(self, wanted=0):
        """The decision log, waited for until it holds `wanted` records."""
        end = time.monotonic() + WAIT
        while True:
            lines = self.log_path.read_text().splitlines() if self.log_path.exists() else []
            if len(lines) >= wanted or time.monotonic() > end:
                return [json.loads(line) for line in lines]
            time.sleep(0.02)

    def stop(self, sign=signal.SIGTERM):
        """Ends it in order and fails on anything that was not: status, sanitizer reports."""
        if self.process.poll() is None:
            self.process.send_signal(sign)
        try:
            status = self.process.wait(WAIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("srt proxy did not stop:\n" + self.stderr()) from None
        text = self.stderr()
        if status != 0 or REPORT.search(text.encode()) or "srt proxy: stopped (SIG" not in text:
            raise AssertionError(f"srt proxy ended with status {status}:\n{text}")

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
