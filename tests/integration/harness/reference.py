"""The proxy's side of a link, and programs of ours that decide: srt-decider and examples/decider.py."""

import base64
import contextlib
import json
import os
import pathlib
import select
import socket
import struct
import subprocess
import threading
import time

from .case import Case
from .client import WAIT
from .decider import frame
from .proxy import REPORT, SRT, clean_environment

DECIDER = str(pathlib.Path(SRT).with_name("srt-decider"))
HELLO = {1: {"t": "hello", "proto": 1}, 2: {"t": "hello", "proto": 2}}


def rules(*items, allowed=("a.test",), **more):
    return {"allowedDomains": list(allowed), "deniedDomains": [], "rules": list(items), **more}


def req(number, method="GET", path="/", host="a.test", **more):
    return {"t": "req", "id": number, "method": method, "host": host, "port": 443, "path": path,
            **more}


def conn(number, via="connect", host="a.test", port=443, **more):
    return {"t": "conn", "id": number, "via": via, "host": host, "port": port, "client": "local",
            **more}


def body(number, data, cut=False):
    message = {"t": "body", "id": number, "data": base64.b64encode(data).decode()}
    return {**message, "cut": True} if cut else message


class Link:
    """A proxy's end of a stream: one socket, or two pipes."""

    def __init__(self, out, into=None):
        self.out = out
        self.into = into if into is not None else out
        self.data = b""

    def send(self, *messages):
        self.raw(b"".join(frame(m) for m in messages))

    def raw(self, data):
        view = memoryview(data)
        while view:
            if not select.select([], [self.out], [], WAIT)[1]:
                raise AssertionError(f"{len(view)} bytes are not taken")
            view = view[os.write(self.out, view):]

    @contextlib.contextmanager
    def sending(self, *messages):
        """Sends while answers are read."""
        thread = threading.Thread(target=self.send, args=messages, daemon=True)
        thread.start()
        yield
        thread.join()

    def read(self, most=1 << 20):
        """Some bytes; b"" at the end."""
        if not select.select([self.into], [], [], WAIT)[0]:
            raise AssertionError(f"nothing came; there is {self.data[:200]!r}")
        try:
            return os.read(self.into, most)
        except ConnectionResetError:
            return b""

    def get(self):
        """The next message, None at the end."""
        while len(self.data) < 4 or len(self.data) < 4 + struct.unpack(">I", self.data[:4])[0]:
            more = self.read()
            if not more:
                if self.data:
                    raise AssertionError(f"ends inside a frame: {self.data!r}")
                return None
            self.data += more
        size = struct.unpack(">I", self.data[:4])[0]
        message, self.data = json.loads(self.data[4:4 + size]), self.data[4 + size:]
        return message

    def ask(self, message):
        """The verdict, without what every one has."""
        self.send(message)
        answer = self.get()
        if answer is None:
            raise AssertionError(f"no answer to {message}")
        if (answer.pop("t"), answer.pop("id")) != ("verdict", message["id"]):
            raise AssertionError(f"{answer} to {message}")
        return answer

    def hello(self, proto=2):
        self.send(HELLO[proto])
        return self.get()

    def end(self):
        for fd in {self.out, self.into}:
            with contextlib.suppress(OSError):
                os.close(fd)


class ReferenceCase(Case):
    def rules_file(self, document):
        path = self.directory / "rules.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return path

    def spawn(self, command, **kw):
        err = open(self.directory / "stderr", "wb")
        self.addCleanup(err.close)
        process = subprocess.Popen(command, stderr=err, env=clean_environment(), **kw)
        self.addCleanup(self.reap, process)
        return process

    def reap(self, process):
        process.kill()
        process.wait()
        text = self.stderr()
        self.assertIsNone(REPORT.search(text.encode()), text)

    def stderr(self):
        return (self.directory / "stderr").read_text("utf-8", "replace")

    def said(self, text, times=1):
        end = time.monotonic() + WAIT
        while self.stderr().count(text) < times:
            self.assertLess(time.monotonic(), end, f"{text!r} was not said: {self.stderr()}")
            time.sleep(0.01)

    def piped(self, command):
        """(process, link) over two pipes."""
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        process = self.spawn(command, stdin=theirs_in, stdout=theirs_out)
        os.close(theirs_in)
        os.close(theirs_out)
        link = Link(ours_out, ours_in)
        self.addCleanup(link.end)
        return process, link

    def start(self, document, *args):
        return self.piped([DECIDER, *map(str, args), str(self.rules_file(document))])

    def serve(self, document, *args):
        """(process, path of its socket)"""
        path = self.directory / "d.sock"
        process = self.spawn([DECIDER, *map(str, args), "--listen", str(path),
                              str(self.rules_file(document))], stdin=subprocess.DEVNULL)
        self.said("serving")
        return process, path

    def connect(self, path):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(path))
        link = Link(sock.detach())
        self.addCleanup(link.end)
        return link

    def ended(self, process, status):
        self.assertEqual(process.wait(WAIT), status, self.stderr())

    def log(self, path, count):
        end = time.monotonic() + WAIT
        while True:
            lines = path.read_text().splitlines() if path.exists() else []
            if len(lines) >= count or time.monotonic() > end:
                return [json.loads(line) for line in lines]
            time.sleep(0.01)
