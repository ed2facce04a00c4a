"""Origins: servers in threads that record what reaches them and answer from a script."""

import errno
import socket
import ssl
import struct
import threading

from .client import WAIT, Closed, Reader


def half_close(sock):
    """Ends what is sent. That the peer reset the connection before is a ConnectionError too."""
    try:
        sock.shutdown(socket.SHUT_WR)
    except OSError as error:
        if error.errno == errno.ENOTCONN:
            raise ConnectionResetError(*error.args) from None
        raise


class Conn:
    """One accepted connection, as the handler sees it."""

    def __init__(self, sock):
        self.sock = sock
        self.sock.settimeout(WAIT)
        self.reader = Reader(sock)
        self.received = b""
        self.done = threading.Event()

    def send(self, data):
        self.sock.sendall(data if isinstance(data, bytes) else data.encode("latin-1"))

    def until(self, mark):
        data = self.reader.until(mark)
        self.received += data
        return data

    def exactly(self, n):
        data = self.reader.exactly(n)
        self.received += data
        return data

    def rest(self):
        data = self.reader.rest()
        self.received += data
        return data

    def half_close(self):
        half_close(self.sock)

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def close(self):
        self.sock.close()


class Request:
    """One request as it arrived at the origin."""

    def __init__(self, head):
        self.head = head
        lines = head.split(b"\r\n")
        self.method, self.target, self.version = lines[0].decode("latin-1").split(" ")
        self.fields = []
        for line in lines[1:]:
            if line:
                name, _, value = line.partition(b":")
                self.fields.append((name.decode("latin-1"), value.strip(b" \t").decode("latin-1")))
        self.body = b""
        self.trailers = []

    def all(self, name):
        return [v for n, v in self.fields if n.lower() == name.lower()]

    def get(self, name):
        values = self.all(name)
        return values[0] if values else None

    @property
    def names(self):
        return [n.lower() for n, _ in self.fields]

    def __repr__(self):
        return f"<{self.head!r} {self.body[:200]!r}>"


class Origin:
    """Accepts on HOST (an address, or the path of a Unix socket), runs `handler(conn)` in a thread for each connection."""

    def __init__(self, handler, host="127.0.0.5", port=0, tls=None):
        if host.startswith("/"):
            self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.listener.bind(host)
            self.port = 0
        else:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self.listener = socket.socket(family, socket.SOCK_STREAM)
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.listener.bind((host, port))
            self.port = self.listener.getsockname()[1]
        self.listener.listen(128)
        self.host = host
        self.handler = handler
        self.tls = tls
        self.connections = []
        self.errors = []
        self.closing = False
        self.changed = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def literal(self):
        """The allow entry that lets names reach this origin."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        conn = None
        try:
            if self.port:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.tls is not None:
                sock.settimeout(WAIT)
                sock = self.tls.wrap_socket(sock, server_side=True)
            conn = Conn(sock)
            with self.changed:
                self.connections.append(conn)
                self.changed.notify_all()
            self.handler(conn)
        except (Closed, ConnectionError, ssl.SSLError, BrokenPipeError):
            pass  # the client's way to end it; what came is recorded
        except Exception as error:  # for the test to see
            if not self.closing:
                self.errors.append(error)
        finally:
            if conn is not None:
                conn.done.set()
            sock.close()
            with self.changed:
                self.changed.notify_all()

    def wait(self, condition):
        """Until condition() holds; false when it does not in WAIT seconds."""
        with self.changed:
            return self.changed.wait_for(condition, WAIT)

    def connection(self, index=0):
        """The index-th connection, waited for."""
        if not self.wait(lambda: len(self.connections) > index):
            raise AssertionError(f"no connection {index} came to the origin")
        return self.connections[index]

    def finished(self, index=0):
        """The same, once its handler is through."""
        conn = self.connection(index)
        if not conn.done.wait(WAIT):
            raise AssertionError("the origin's handler did not end")
        return conn

    def close(self):
        self.closing = True
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        for conn in self.connections:
            conn.close()


class HttpOrigin(Origin):
    """HTTP/1.1 with keep-alive; `respond(request)` gives the bytes of the answer, or None to
    close. Requests are kept in `requests`, in the order they were read."""

    def __init__(self, respond=None, **kw):
        self.respond = respond or hello
        self.requests = []
        super().__init__(self._http, **kw)

    def _http(self, conn):
        while True:
            try:
                request = Request(conn.until(b"\r\n\r\n"))
            except Closed:
                return
            if "100-continue" in (request.get("Expect") or ""):
                conn.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            if (request.get("Transfer-Encoding") or "").lower() == "chunked":
                request.body, request.trailers = conn.reader.chunked()
            elif request.get("Content-Length"):
                request.body = conn.exactly(int(request.get("Content-Length")))
            with self.changed:
                self.requests.append(request)
                self.changed.notify_all()
            answer = self.respond(request)
            if answer is None:
                return
            conn.send(answer)
            if b"connection: close" in answer.split(b"\r\n\r\n")[0].lower():
                return

    def targets(self):
        return [r.target for r in self.requests]


def answer(body=b"hello\n", status="200 OK", fields=""):
    return (f"HTTP/1.1 {status}\r\n{fields}Content-Length: {len(body)}\r\n\r\n".encode("latin-1")
            + body)


def hello(request):
    return answer(b"" if request.method == "HEAD" else b"hello\n")


def echo(conn):
    """Sends back what comes, passes the end on."""
    while True:
        data = conn.reader.ahead or conn.sock.recv(65536)
        conn.reader.ahead = b""
        if not data:
            conn.half_close()
            return
        conn.received += data
        conn.send(data)
