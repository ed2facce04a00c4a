"""Deciders from a script: what the proxy sends is held against the contract and kept, answers come
from a function, and anything at all can be sent at any time.

Frames that break the contract end up in `errors`, which DeciderCase looks at in the end.
"""

import array
import base64
import fcntl
import json
import os
import re
import select
import socket
import struct
import sys
import tempfile
import termios
import textwrap
import threading
import time

from .client import WAIT

FRAME_MAX = 1 << 20
BODY_FRAME_MAX = 44739302
HELLO = {1: b'{"t":"hello","proto":1}', 2: b'{"t":"hello","proto":2}'}
NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9a-z]+")
CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f]")
REQUEST = {"t", "id", "method", "host", "port", "path"}
REQUEST_MORE = {"hostHeader", "sni", "query", "headers"}
CONNECTION = {"t", "id", "via", "host", "port", "client"}


def frame(message):
    """bytes: a payload as it is."""
    payload = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">I", len(payload)) + payload


def allow(message, **more):
    return {"t": "verdict", "id": message["id"], "action": "allow", **more}


def deny(message, status=403, **more):
    return {"t": "verdict", "id": message["id"], "action": "deny", "status": status, **more}


def need_body(message, most):
    return {"t": "verdict", "id": message["id"], "action": "need_body", "max": most}


def shown(message):
    """The bytes of a body message."""
    return base64.b64decode(message["data"], validate=True)


def _no_duplicates(pairs):
    keys = [k for k, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError(f"duplicate key in {keys}")
    return dict(pairs)


def _constant(text):
    raise ValueError(f"{text} is not JSON")


def strict(payload):
    """The object in a frame, or ValueError."""
    value = json.loads(payload.decode("utf-8"), object_pairs_hook=_no_duplicates,
                       parse_constant=_constant)
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def _need(condition, what):
    if not condition:
        raise ValueError(what)


def _text(value):
    return isinstance(value, str) and value != "" and not CONTROL.search(value)


def check(payload, proto):
    """A message of the proxy's, once it is found to be what the contract says."""
    m = strict(payload)
    kind = m.get("t")
    _need(type(m.get("id")) is int and 1 <= m["id"] < 2**53, "id")
    if kind == "req":
        _need(REQUEST <= set(m) <= REQUEST | REQUEST_MORE, f"fields {sorted(m)}")
        for name in ("method", "host", "path", "hostHeader", "sni", "query"):
            _need(name not in m or _text(m[name]), name)
        _need("?" not in m["path"], "path")
        headers = m.get("headers")
        _need(headers is None or isinstance(headers, dict) and headers, "headers")
        for name, values in (headers or {}).items():
            _need(NAME.fullmatch(name) and name != "host", f"header {name!r}")
            _need(isinstance(values, list) and values, f"values of {name}")
            _need(all(isinstance(v, str) and not CONTROL.search(v) for v in values), name)
    elif kind == "conn" and proto == 2:
        _need(CONNECTION <= set(m) <= CONNECTION | {"user"}, f"fields {sorted(m)}")
        _need(m["via"] in ("connect", "socks", "http"), "via")
        for name in ("host", "client", "user"):
            _need(name not in m or _text(m[name]), name)
    elif kind == "body":
        _need({"t", "id", "data"} <= set(m) <= {"t", "id", "data", "cut"}, f"fields {sorted(m)}")
        _need(m.get("cut", True) is True, "cut")
        _need(base64.b64encode(shown(m)).decode() == m["data"], "data is not plain base64")
    else:
        raise ValueError(f"t is {kind!r}")
    if kind != "body":
        _need(type(m["port"]) is int and 1 <= m["port"] <= 65535, "port")
        _need(len(payload) <= FRAME_MAX, "a frame over 1 MiB")
    return m


class Link:
    """One connection to a proxy. Its thread reads, and calls the decider's `decide`."""

    def __init__(self, owner, fd_in, fd_out):
        self.owner = owner
        self.fd_in = fd_in
        self.fd_out = fd_out
        self.raw = b""  # every byte that came, but those of bodies
        self.newest = 0
        self.ended = threading.Event()
        self.sending = threading.Lock()
        self.wake, self.waker = os.pipe()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _read(self, n):
        """None once the link is closed, or the proxy has ended."""
        data = bytearray()
        while len(data) < n:
            while True:
                watched = [self.wake] + ([self.fd_in] if self.owner.reading.is_set() else [])
                ready, _, _ = select.select(watched, [], [], 0.02 if len(watched) == 1 else None)
                if self.wake in ready:
                    return None
                if ready:
                    break
            try:
                piece = os.read(self.fd_in, min(n - len(data), 1 << 20))
            except OSError:
                return None
            if not piece:
                return None
            data += piece
        return bytes(data)

    def _run(self):
        owner = self.owner
        try:
            while True:
                head = self._read(4)
                if head is None:
                    return
                (size,) = struct.unpack(">I", head)
                _need(size <= BODY_FRAME_MAX, f"a frame of {size} bytes")
                payload = self._read(size)
                if payload is None:
                    return
                owner.take(self, payload)
        except ValueError as error:
            owner.errors.append(f"{error}: {payload[:300]!r}")
        except Exception as error:  # of a test's decide, for the test to see
            owner.errors.append(repr(error))
        finally:
            self.ended.set()
            with owner.changed:
                owner.changed.notify_all()

    def send(self, *messages):
        """dict: a message, framed; bytes: as they are."""
        data = b"".join(m if isinstance(m, bytes) else frame(m) for m in messages)
        with self.sending:
            view = memoryview(data)
            while view:
                try:
                    view = view[os.write(self.fd_out, view):]
                except OSError:
                    return  # the proxy is gone, which the test sees elsewhere

    def close(self):
        if self.waker < 0:
            return
        os.write(self.waker, b"x")
        if threading.current_thread() is not self.thread:
            self.thread.join(WAIT)
        for fd in {self.fd_in, self.fd_out, self.wake, self.waker}:
            os.close(fd)
        self.waker = -1


class Decider:
    """A decider that is given to a proxy by `args` and `pass_fds`, then told with started().

    decide(message): a verdict, several, bytes, or None: nothing yet. `hello` replaces the one
    made of the lists; False: none is sent. pipes: two pipes instead of a socket.
    """

    def __init__(self, decide=allow, allowed=(), denied=(), proto=1, asks=None, hello=None,
                 pipes=False):
        self.decide = decide
        self.proto = proto
        self.hello = hello
        if hello is None:
            self.hello = {"t": "hello", "proto": proto}
            if proto == 2:
                self.hello["asks"] = list(asks or ("connection", "request"))
            self.hello.update(allowedDomains=list(allowed), deniedDomains=list(denied))
        self.messages = []
        self.errors = []
        self.links = []
        self.hellos = 0
        self.reading = threading.Event()
        self.reading.set()
        self.changed = threading.Condition()
        self._open(pipes)

    def _open(self, pipes):
        if pipes:
            read, child_out = os.pipe()
            child_in, write = os.pipe()
            self.pass_fds = (child_in, child_out)
            self.args = ["--decider-in", str(child_in), "--decider-out", str(child_out)]
        else:
            ours, theirs = socket.socketpair()
            read = ours.detach()
            write = os.dup(read)
            fd = theirs.detach()
            self.pass_fds = (fd,)
            self.args = ["--decider-fd", str(fd)]
        if self.proto != 1:
            self.args += ["--decider-proto", str(self.proto)]
        self._link(read, write)

    def _link(self, fd_in, fd_out):
        link = Link(self, fd_in, fd_out)
        with self.changed:
            self.links.append(link)
            self.changed.notify_all()

    def started(self):
        for fd in self.pass_fds:
            os.close(fd)
        self.pass_fds = ()

    def take(self, link, payload):
        if link.newest == 0 and not link.raw:
            _need(payload == HELLO[self.proto], "hello")
            link.raw = frame(payload)
            self.hellos += 1
            with self.changed:
                self.changed.notify_all()
            if self.hello:
                link.send(self.hello)
            return
        m = check(payload, self.proto)
        if m["t"] == "body":
            _need(m["id"] <= link.newest, "a body of no request")
        else:
            link.raw += frame(payload)
            _need(m["id"] > link.newest and (link.newest or m["id"] == 1), "ids")
            link.newest = m["id"]
        with self.changed:
            self.messages.append(m)
            self.changed.notify_all()
        verdicts = self.decide(m)
        if verdicts is not None:
            link.send(*(verdicts if isinstance(verdicts, list) else [verdicts]))

    def of(self, kind):
        with self.changed:
            return [m for m in self.messages if m["t"] == kind]

    def wait(self, count=1, kind="req"):
        """The messages of a kind, once so many came."""
        with self.changed:
            if not self.changed.wait_for(lambda: len(self.of(kind)) >= count, WAIT):
                raise AssertionError(f"{count} × {kind} did not come: {self.messages} {self.errors}")
        return self.of(kind)

    def wait_hellos(self, count):
        with self.changed:
            if not self.changed.wait_for(lambda: self.hellos >= count, WAIT):
                raise AssertionError(f"{count} hellos did not come")

    @property
    def link(self):
        """The newest."""
        return self.links[-1]

    def send(self, *messages):
        self.link.send(*messages)

    def stop_reading(self):
        self.reading.clear()

    def wait_unread(self):
        """Until the proxy has written something that is not read."""
        waiting = array.array("i", [0])
        end = time.monotonic() + WAIT
        while waiting[0] == 0 and time.monotonic() < end:
            time.sleep(0.01)
            fcntl.ioctl(self.link.fd_in, termios.FIONREAD, waiting)
        if waiting[0] == 0:
            raise AssertionError("nothing was written")

    def end(self):
        """Closes what is open, as a decider that dies."""
        for link in self.links:
            link.close()

    def close(self):
        if self.pass_fds:
            self.started()
        self.reading.set()
        self.end()


class UnixDecider(Decider):
    """Listens on a Unix socket; `directory` is for it. away(): nobody listens any more; back()."""

    def __init__(self, directory, **kw):
        self.path = tempfile.mkdtemp(dir=directory) + "/decider.sock"
        os.chmod(os.path.dirname(self.path), 0o755)  # srt may run as somebody else
        self.listener = None
        super().__init__(**kw)

    def _open(self, pipes):
        self.pass_fds = ()
        self.args = ["--decider-unix", self.path, "--decider-proto", str(self.proto)]
        self.back()

    def back(self):
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.path)
        self.listener.listen(64)
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def _accept(self, listener):
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            self._accepted(sock)

    def _accepted(self, sock):
        fd = sock.detach()
        self._link(fd, os.dup(fd))

    def away(self):
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        if os.path.exists(self.path):
            os.unlink(self.path)
        self.end()

    def close(self):
        super().close()
        self.away()


class ExecDecider(UnixDecider):
    """Started by the proxy: a program that hands its standard input and output over to us, and ends
    when we say so. `runs` counts; `quits`: it ends at once, from the next start on."""

    PROGRAM = textwrap.dedent("""\
        import array, os, socket, sys
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.connect(sys.argv[1])
        fds = array.array("i", [0, 1])
        about = repr((os.getpid(), sys.argv[2:])).encode()
        s.sendmsg([about], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        os.close(0)
        os.close(1)
        s.recv(1)
        """)

    def __init__(self, directory, **kw):
        self.program = directory / "decider program.py"
        self.program.write_text(self.PROGRAM)
        self.runs = 0
        self.quits = False
        self.about = None
        self.held = []
        super().__init__(directory, **kw)
        self.command = f"{sys.executable} -S -E '{self.program}' {self.path} \"two words\" a\\ b"
        self.args = ["--decider-exec", self.command, "--decider-proto", str(self.proto)]

    def _accepted(self, sock):
        data, ancillary, _, _ = sock.recvmsg(4096, socket.CMSG_SPACE(8))
        fds = array.array("i")
        fds.frombytes(ancillary[0][2][:8])
        self.runs += 1
        self.about = data.decode()
        if self.quits:
            for fd in fds:
                os.close(fd)
            sock.close()
        else:
            self.held.append(sock)
            self._link(fds[0], fds[1])

    def end(self):
        super().end()
        for sock in self.held:
            sock.close()
