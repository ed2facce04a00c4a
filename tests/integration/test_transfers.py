"""Long transfers arrive complete and equal, whatever the sizes of reads and writes: row C20."""

import hashlib
import random
import socket
import threading

from harness import WAIT, Case
from harness.resources import MIB

BOUNDARY = b"----transfer"
PART = (b"--" + BOUNDARY + b"\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n"
        b"Content-Type: application/octet-stream\r\n\r\n")
LAST = b"\r\n--" + BOUNDARY + b"--\r\n"


class Stream:
    """`size` bytes that depend on the seed, cut into pieces of random sizes; the digest of what
    was taken so far."""

    def __init__(self, size, seed, most=300000):
        self.size = size
        self.most = most
        self.random = random.Random(seed)
        self.block = self.random.randbytes(MIB)
        self.digest = hashlib.sha256()

    def pieces(self):
        left = self.size
        while left:
            at = self.random.randrange(len(self.block))
            n = min(left, len(self.block) - at, self.random.randint(1, self.most))
            piece = memoryview(self.block)[at : at + n]
            self.digest.update(piece)
            left -= n
            yield piece


def drink(sock, ahead, size, seed, most=300000):
    """Takes exactly that many bytes in reads of random sizes; gives their digest."""
    digest = hashlib.sha256(ahead[:size])
    left = size - len(ahead[:size])
    sizes = random.Random(seed)
    while left:
        data = sock.recv(min(left, sizes.randint(1, most)))
        if not data:
            raise AssertionError(f"ended {left} bytes early")
        digest.update(data)
        left -= len(data)
    return digest.hexdigest()


class Uploads(Case):
    """A multipart POST; the origin answers with the digest of what it got."""

    def setUp(self):
        super().setUp()
        self.upstream = self.origin(self.take)
        self.gateway = self.proxy(self.upstream)
        self.target = f"ok.test:{self.upstream.port}"

    def take(self, conn):
        conn.sock.settimeout(2 * WAIT)
        while True:
            head = conn.until(b"\r\n\r\n").lower()
            if b"transfer-encoding: chunked" in head:
                digest, size = self.take_chunks(conn.reader)
            else:
                size = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
                ahead, conn.reader.ahead = conn.reader.ahead, b""
                digest = drink(conn.sock, ahead, size, size)
            body = f"{size} {digest}".encode()
            conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    @staticmethod
    def take_chunks(reader):
        digest, total = hashlib.sha256(), 0
        while size := int(reader.until(b"\r\n"), 16):
            digest.update(reader.exactly(size))
            total += size
            reader.exactly(2)
        reader.exactly(2)
        return digest.hexdigest(), total

    def upload(self, client, target, size, seed, chunked=False):
        stream = Stream(size, seed)
        stream.digest.update(PART)
        total = len(PART) + size + len(LAST)
        framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {total}"
        client.send(f"POST {target}/f HTTP/1.1\r\nHost: ok.test\r\n{framing}\r\n"
                    f"Content-Type: multipart/form-data; boundary={BOUNDARY.decode()}\r\n\r\n")

        def send(data):
            if chunked:
                client.sock.sendall(b"%x\r\n" % len(data))
            client.sock.sendall(data)
            if chunked:
                client.sock.sendall(b"\r\n")

        send(PART)
        for piece in stream.pieces():
            send(piece)
        send(LAST)
        stream.digest.update(LAST)
        if chunked:
            client.send("0\r\n\r\n")
        r = client.response()
        self.assertEqual(r.body.decode(), f"{total} {stream.digest.hexdigest()}")

    def client_with_time(self):
        client = self.client(self.gateway)
        client.sock.settimeout(2 * WAIT)
        return client

    def test_plain(self):
        client = self.client_with_time()
        for seed, size in enumerate((200 * MIB, 3 * MIB + 1, 65536, 1)):
            self.upload(client, f"http://{self.target}", size, seed)

    def test_plain_chunked(self):
        client = self.client_with_time()
        for seed, size in enumerate((60 * MIB, MIB + 1, 1)):
            self.upload(client, f"http://{self.target}", size, seed, chunked=True)

    def test_connect(self):
        client = self.client_with_time()
        self.assertEqual(client.connect(self.target).status, 200)
        for seed, size in enumerate((200 * MIB, MIB + 1)):
            self.upload(client, "", size, seed)

    def test_socks(self):
        client = self.client_with_time()
        client.socks_greet()
        self.assertEqual(client.socks("ok.test", self.upstream.port)[1], 0)
        self.upload(client, "", 50 * MIB, 7)

    def test_several_at_once(self):
        errors = []

        def run(seed):
            try:
                client = self.client_with_time()
                self.upload(client, f"http://{self.target}", 10 * MIB, seed, chunked=seed % 2 == 0)
                client = self.client_with_time()
                client.connect(self.target)
                self.upload(client, "", 10 * MIB, seed + 100)
            except Exception as error:  # for the test to see
                errors.append(error)

        threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(6 * WAIT)
        self.assertEqual(errors, [])


class BothWays(Case):
    """As much each way at once as C20 asks for in proportion, on each kind of tunnel."""

    SIZE = 60 * MIB

    def setUp(self):
        super().setUp()
        self.failures = []
        self.upstream = self.origin(self.exchange)
        self.gateway = self.proxy(self.upstream)

    def exchange(self, conn):
        conn.sock.settimeout(2 * WAIT)
        head = conn.until(b"\r\n\r\n")
        if b"Upgrade" in head:
            conn.send("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
        seed = int(head.split(b" ")[1].rsplit(b"/", 1)[-1])
        self.both(conn.sock, conn.reader.ahead, seed, seed + 1)
        conn.half_close()

    def both(self, sock, ahead, sends, expects):
        """Sends one stream while another is read, and compares that."""
        def send():
            try:
                for piece in Stream(self.SIZE, sends).pieces():
                    sock.sendall(piece)
            except OSError as error:
                self.failures.append(error)

        sender = threading.Thread(target=send)
        sender.start()
        wanted = Stream(self.SIZE, expects)
        for _ in wanted.pieces():
            pass
        digest = drink(sock, ahead, self.SIZE, sends)
        sender.join()
        if digest != wanted.digest.hexdigest():
            self.failures.append("the bytes differ")

    def test_upgrade_and_tunnels(self):
        target = f"ok.test:{self.upstream.port}"
        for seed, way in enumerate(("upgrade", "connect", "socks")):
            with self.subTest(way):
                client = self.client(self.gateway)
                client.sock.settimeout(2 * WAIT)
                if way == "upgrade":
                    client.send(f"GET http://{target}/{10 * seed} HTTP/1.1\r\nHost: x\r\n"
                                "Connection: Upgrade\r\nUpgrade: x\r\n\r\n")
                    self.assertEqual(client.head().status, 101)
                else:
                    if way == "connect":
                        self.assertEqual(client.connect(target).status, 200)
                    else:
                        client.socks_greet()
                        self.assertEqual(client.socks("ok.test", self.upstream.port)[1], 0)
                    client.send(f"GET /{10 * seed}\r\n\r\n")
                self.both(client.sock, client.reader.ahead, 10 * seed + 1, 10 * seed)
                client.sock.shutdown(socket.SHUT_WR)
                self.assertEqual(client.sock.recv(1), b"")
                self.assertEqual(self.failures, [])

    def test_tiny_pieces(self):
        """Pieces of a few bytes, read in a few bytes."""
        self.SIZE = 300000
        client = self.client(self.gateway)
        self.assertEqual(client.connect(f"ok.test:{self.upstream.port}").status, 200)
        client.send("GET /0\r\n\r\n")
        stream = Stream(self.SIZE, 1, most=60)

        def send():
            for piece in stream.pieces():
                client.sock.sendall(piece)

        # the origin expects the stream of seed 1 as it cuts it: bytes, not pieces, are compared
        sender = threading.Thread(target=send)
        sender.start()
        down = Stream(self.SIZE, 0)
        for _ in down.pieces():
            pass
        self.assertEqual(drink(client.sock, client.reader.ahead, self.SIZE, 5, most=60),
                         down.digest.hexdigest())
        sender.join()


class Downloads(Case):
    def test_every_framing_with_random_reads(self):
        size = 40 * MIB

        def handler(conn):
            conn.sock.settimeout(2 * WAIT)
            while True:
                kind = conn.until(b"\r\n\r\n").split(b" ")[1].strip(b"/").decode()
                head = {"length": f"Content-Length: {size}\r\n",
                        "chunked": "Transfer-Encoding: chunked\r\n", "close": ""}[kind]
                conn.send(f"HTTP/1.1 200 OK\r\n{head}\r\n")
                for piece in Stream(size, 3).pieces():
                    if kind == "chunked":
                        conn.sock.sendall(b"%x;ext\r\n" % len(piece))
                    conn.sock.sendall(piece)
                    if kind == "chunked":
                        conn.sock.sendall(b"\r\n")
                if kind == "chunked":
                    conn.send("0\r\n\r\n")
                if kind == "close":
                    return

        origin = self.origin(handler)
        gateway = self.proxy(origin)
        wanted = Stream(size, 3)
        for _ in wanted.pieces():
            pass
        for kind in ("length", "chunked", "close"):
            for version in ("1.1", "1.0"):
                with self.subTest(kind=kind, version=version):
                    client = self.client(gateway)
                    client.sock.settimeout(2 * WAIT)
                    client.send(f"GET http://ok.test:{origin.port}/{kind} HTTP/{version}\r\n"
                                "Host: x\r\n\r\n")
                    head = client.head()
                    self.assertEqual(head.status, 200)
                    if head.get("Transfer-Encoding"):
                        body = client.reader.chunked()[0]
                        digest = hashlib.sha256(body).hexdigest()
                    else:
                        digest = drink(client.sock, client.reader.ahead, size, 4)
                    self.assertEqual(digest, wanted.digest.hexdigest())
