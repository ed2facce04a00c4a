"""A raw client: bytes out, bytes in, and the few protocol steps every test needs.

Every wait has one generous bound (WAIT); a test that runs into it fails, none relies on it.
"""

import errno
import socket
import struct

WAIT = 30.0


class Closed(AssertionError):
    """The peer ended the connection where more was expected."""


class Response:
    """One HTTP response: status, phrase, header fields in order, body, and the head as it came."""

    def __init__(self, head, body=b""):
        self.head = head
        self.body = body
        lines = head.split(b"\r\n")
        version, _, rest = lines[0].partition(b" ")
        code, _, phrase = rest.partition(b" ")
        self.version = version.decode("latin-1")
        self.status = int(code)
        self.phrase = phrase.decode("latin-1")
        self.fields = []
        for line in lines[1:]:
            if line:
                name, _, value = line.partition(b":")
                self.fields.append((name.decode("latin-1"), value.strip(b" \t").decode("latin-1")))
        self.trailers = []

    def all(self, name):
        return [v for n, v in self.fields if n.lower() == name.lower()]

    def get(self, name):
        values = self.all(name)
        return values[0] if values else None

    @property
    def text(self):
        return self.body.decode("utf-8")

    @property
    def closes(self):
        return "close" in (self.get("Connection") or "").lower()

    def __repr__(self):
        return f"<{self.head!r} {self.body[:200]!r}>"


class Reader:
    """Reads a socket through a buffer of its own, so that nothing read ahead is lost."""

    def __init__(self, sock):
        self.sock = sock
        self.ahead = b""

    def fill(self):
        data = self.sock.recv(65536)
        self.ahead += data
        return bool(data)

    def until(self, mark):
        while mark not in self.ahead:
            if not self.fill():
                raise Closed(f"ended before {mark!r}; had {self.ahead!r}")
        head, _, self.ahead = self.ahead.partition(mark)
        return head + mark

    def exactly(self, n):
        parts, have = [self.ahead], len(self.ahead)
        while have < n:
            data = self.sock.recv(65536)
            if not data:
                raise Closed(f"ended after {have} of {n} bytes: {b''.join(parts)[:200]!r}")
            parts.append(data)
            have += len(data)
        whole = b"".join(parts)
        self.ahead = whole[n:]
        return whole[:n]

    def rest(self):
        """Everything up to the end; what had come before a reset stays in `ahead`."""
        parts = [self.ahead]
        self.ahead = b""
        try:
            while data := self.sock.recv(65536):
                parts.append(data)
        except ConnectionResetError:
            self.ahead = b"".join(parts)
            raise
        return b"".join(parts)

    def chunked(self):
        """Body and trailer fields of a chunked message."""
        body = []
        while True:
            size = int(self.until(b"\r\n").split(b";")[0], 16)
            if size == 0:
                break
            body.append(self.exactly(size))
            end = self.exactly(2)
            if end != b"\r\n":
                raise AssertionError(f"chunk ends in {end!r}")
        trailers = []
        while True:
            line = self.until(b"\r\n")[:-2]
            if not line:
                return b"".join(body), trailers
            name, _, value = line.partition(b":")
            trailers.append((name.decode("latin-1"), value.strip().decode("latin-1")))


class Client:
    """A TCP (or Unix) connection to the proxy."""

    def __init__(self, address):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        self.sock.settimeout(WAIT)
        if family == socket.AF_INET:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.connect(address)
        self.reader = Reader(self.sock)

    def send(self, data):
        self.sock.sendall(data if isinstance(data, bytes) else data.encode("latin-1"))
        return self

    def send_slowly(self, data):
        """One byte a packet, as far as the kernel lets us."""
        for i in range(len(data)):
            self.sock.sendall(data[i : i + 1])
        return self

    def until(self, mark):
        return self.reader.until(mark)

    def exactly(self, n):
        return self.reader.exactly(n)

    def rest(self):
        """Everything up to the peer's end; a reset counts as the end."""
        try:
            return self.reader.rest()
        except ConnectionResetError:
            return self.reader.ahead

    def head(self):
        return Response(self.reader.until(b"\r\n\r\n"))

    def response(self, method="GET", interim=False):
        """The next response with its body. Interim ones (but 101) are skipped, unless asked for."""
        while True:
            r = self.head()
            if r.status >= 200 or r.status == 101 or interim:
                break
        if r.status < 200 or method == "HEAD" or r.status in (204, 304):
            return r
        if (r.get("Transfer-Encoding") or "").lower() == "chunked":
            r.body, r.trailers = self.reader.chunked()
        elif r.get("Content-Length") is not None:
            r.body = self.reader.exactly(int(r.get("Content-Length")))
        elif not (method == "CONNECT" and r.status < 300):
            r.body = self.reader.rest()
        return r

    def ended(self):
        """True when the peer ends the connection (FIN or reset) without another byte."""
        try:
            return not self.reader.ahead and self.sock.recv(1) == b""
        except ConnectionResetError:
            return True

    def half_close(self):
        return self.shutdown(socket.SHUT_WR)

    def shutdown(self, how):
        """Ends that side, unless the peer reset the connection before."""
        try:
            self.sock.shutdown(how)
        except OSError as error:
            if error.errno != errno.ENOTCONN:
                raise
        return self

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # Protocol steps.

    def connect(self, target, fields="", ahead=b""):
        """CONNECT; gives the response head (with the body of a refusal)."""
        self.send(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{fields}\r\n".encode("latin-1")
                  + ahead)
        return self.response("CONNECT")

    def get(self, url, fields="", method="GET"):
        host = url.split("/")[2] if "//" in url else "ok.test"
        self.send(f"{method} {url} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n")
        return self.response(method)

    def socks_greet(self, user=None, password=None):
        if user is None:
            self.send(b"\x05\x01\x00")
            return self.exactly(2)
        self.send(b"\x05\x01\x02")
        if self.exactly(2) != b"\x05\x02":
            raise AssertionError("the proxy does not want RFC 1929")
        self.send(bytes([1, len(user)]) + user + bytes([len(password)]) + password)
        return self.exactly(2)

    def socks(self, host, port, ahead=b""):
        """A SOCKS5 CONNECT after the greeting; gives the whole reply."""
        self.send(socks_request(host, port) + ahead)
        return self.exactly(10)


def socks_request(host, port, command=1):
    """host: a name (str or bytes), or an address to be sent as one (ipaddress)."""
    if hasattr(host, "packed"):
        where = bytes([1 if host.version == 4 else 4]) + host.packed
    else:
        name = host if isinstance(host, bytes) else host.encode("latin-1")
        where = bytes([3, len(name)]) + name
    return bytes([5, command, 0]) + where + struct.pack(">H", port)
