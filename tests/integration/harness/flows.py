"""One large transfer through each way in, that either end can stop and let go on."""

import hashlib
import socket
import struct
import threading

from .client import WAIT, Client

DOWNLOADS = ("connect", "socks", "upgrade", "length", "chunked", "close")
UPLOADS = ("connect", "socks", "upgrade", "length", "chunked")
PIECE = 65536
SMALL_BUFFER = 262144  # a few packets of the loopback interface: less makes TCP wait for probes


class Gate:
    """What a stopped end waits at."""

    def __init__(self):
        self.event = threading.Event()

    def open(self):
        self.event.set()

    def wait(self):
        if not self.event.wait(2 * WAIT):
            raise AssertionError("the gate was never opened")


class Flow:
    """`size` bytes of `data`, beginning at `index`, in one direction through one connection.

    Both ends run in threads of their own. `sent` and `digest` tell how far it came; `error` holds
    what went wrong. With `stopped`, the receiving end reads nothing until release()."""

    def __init__(self, gateway, origin, way, up, data, index, stopped=True):
        self.gateway = gateway
        self.client = None
        self.way = way
        self.up = up
        at = index * 4099 % len(data)
        self.pieces = (memoryview(data)[at:], memoryview(data)[:at])
        self.size = len(data)
        self.index = index
        self.port = origin.port
        self.gate = Gate()
        if not stopped:
            self.gate.open()
        self.sent = 0
        self.received = 0
        self.digest = hashlib.sha256()
        self.error = None
        self.ended = threading.Event()
        origin.flows[index] = self
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def release(self):
        self.gate.open()

    def drop(self):
        """The client goes away; its error is of no more interest."""
        try:
            # Its thread may be inside a call on the socket, where a close would not be noticed.
            self.client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.client.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it has just ended by itself
        self.gate.open()

    @property
    def expected(self):
        whole = hashlib.sha256()
        for piece in self.pieces:
            whole.update(piece)
        return whole.digest()

    def _run(self):
        try:
            self._client()
        except Exception as error:  # for the test to see
            self.error = error
        finally:
            self.ended.set()

    # The client's end.

    def _client(self):
        client = Client(self.gateway.address)
        client.sock.settimeout(3 * WAIT)
        with client:
            self.client = client
            # What the kernel stores is not what is measured: both ends keep little.
            client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF if self.up
                                   else socket.SO_RCVBUF, SMALL_BUFFER)
            self._open(client)
            if self.up:
                self._send(client.sock, self.way == "chunked")
                self._confirm(client)
            else:
                self.gate.wait()
                self._receive(client)

    def _open(self, client):
        target = f"ok.test:{self.port}"
        if self.way == "connect":
            self._expect(client.connect(target).status, 200)
        elif self.way == "socks":
            client.socks_greet()
            self._expect(client.socks("ok.test", self.port)[1], 0)
        if self.way in ("connect", "socks"):
            client.send(f"{'UP' if self.up else 'DOWN'} {self.index}\r\n\r\n")
            return
        fields = {"upgrade": "Connection: upgrade\r\nUpgrade: x\r\n",
                  "length": f"Content-Length: {self.size}\r\n" if self.up else "",
                  "chunked": "Transfer-Encoding: chunked\r\n" if self.up else "",
                  "close": ""}[self.way]
        method = "GET" if self.way == "upgrade" or not self.up else "POST"
        client.send(f"{method} http://{target}/{self.index} HTTP/1.1\r\nHost: x\r\n{fields}\r\n")
        if self.way == "upgrade":
            self._expect(client.head().status, 101)

    def _receive(self, client):
        if self.way in ("length", "chunked", "close"):
            r = client.response()
            self._expect(r.status, 200)
            self._take(r.body)
            return
        self._read(client.reader)

    def _confirm(self, client):
        if self.way in ("length", "chunked"):
            self._expect(client.response().status, 200)
        else:
            client.half_close()
            self._expect(client.rest(), b"whole")

    # The origin's end, in its thread.

    def serve(self, conn):
        conn.sock.settimeout(3 * WAIT)
        if self.way == "upgrade":
            conn.send("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
        if self.up:
            self._serve_upload(conn)
        else:
            conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER)
            head = {"length": f"HTTP/1.1 200 OK\r\nContent-Length: {self.size}\r\n\r\n",
                    "chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                    "close": "HTTP/1.1 200 OK\r\n\r\n"}.get(self.way, "")
            conn.send(head)
            self._send(conn.sock, self.way == "chunked")

    def _serve_upload(self, conn):
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        self.gate.wait()
        if self.way == "length":
            self._take(conn.reader.exactly(self.size))
        elif self.way == "chunked":
            self._take(conn.reader.chunked()[0])
        else:
            self._read(conn.reader)
        if self.way in ("length", "chunked"):
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        else:
            conn.send(b"whole" if self.received == self.size else b"cut")

    # Both.

    def _send(self, sock, chunked):
        for data in self.pieces:
            for at in range(0, len(data), PIECE):
                piece = data[at : at + PIECE]
                if chunked:
                    sock.sendall(b"%x\r\n" % len(piece))
                sock.sendall(piece)
                if chunked:
                    sock.sendall(b"\r\n")
                self.sent += len(piece)
        if chunked:
            sock.sendall(b"0\r\n\r\n")

    def _read(self, reader):
        self._take(reader.ahead)
        reader.ahead = b""
        while data := reader.sock.recv(PIECE):
            self._take(data)

    def _take(self, data):
        self.digest.update(data)
        self.received += len(data)

    @staticmethod
    def _expect(got, wanted):
        if got != wanted:
            raise AssertionError(f"{got!r} instead of {wanted!r}")


def flow_handler(flows):
    """An origin's handler that finds the flow a connection belongs to by its number."""
    def handle(conn):
        first = conn.until(b"\r\n\r\n").split(b"\r\n")[0].split(b" ")[1]
        flows[int(first.rsplit(b"/", 1)[-1])].serve(conn)

    return handle
