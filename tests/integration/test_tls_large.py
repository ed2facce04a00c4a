"""4 GiB each way through a terminated tunnel arrive complete and equal, and the gateway holds none
of it. A build with sanitizers moves less, unless SRT_TEST_LARGE is set."""

import os
import random
import ssl
import threading
import time

from harness import WAIT, TlsCase, answer
from harness.resources import MIB, SANITIZED, anonymous, calm_environment, processor_seconds

SIZE = (256 if SANITIZED and not os.environ.get("SRT_TEST_LARGE") else 4096) * MIB
ALLOWED = (8 if SANITIZED else 2) * MIB


class Bytes:
    """An endless sequence that no shift of less than its period maps onto itself."""

    PERIOD = MIB + 7  # odd against every size of records, reads and chunks
    LONGEST = 256 * 1024

    def __init__(self, seed):
        block = random.Random(seed).randbytes(self.PERIOD)
        self.twice = memoryview(block + block[: self.LONGEST])

    def at(self, offset, length):
        start = offset % self.PERIOD
        return self.twice[start : start + length]

    def send(self, sock, size):
        for offset in range(0, size, self.LONGEST):
            sock.sendall(self.at(offset, min(self.LONGEST, size - offset)))

    def receive(self, sock, size, ahead=b""):
        """Takes `size` bytes; gives the offset of the first piece that differs, or None."""
        if self.at(0, len(ahead)) != ahead:
            return 0
        buffer = memoryview(bytearray(self.LONGEST))
        have = len(ahead)
        while have < size:
            n = sock.recv_into(buffer, min(self.LONGEST, size - have))
            if n == 0:
                raise AssertionError(f"ended {size - have} bytes early")
            if buffer[:n] != self.at(have, n):
                return have
            have += n
        return None


class Sampled:
    """The most that the gateway held at once while the block ran, beyond what it held before."""

    def __init__(self, proxy):
        self.proxy = proxy
        self.before = self.most = anonymous(proxy)
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._sample)

    def _sample(self):
        while not self.over.wait(0.02):
            self.most = max(self.most, anonymous(self.proxy))

    def __enter__(self):
        self.begun, self.spent = time.monotonic(), processor_seconds(self.proxy)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        took = time.monotonic() - self.begun
        spent = processor_seconds(self.proxy) - self.spent
        self.said = (f"{SIZE / MIB:.0f} MiB in {took:.1f} s, {spent:.1f} s of the gateway's, "
                     f"{(self.most - self.before) / 1024:.0f} KiB more held")

    @property
    def growth(self):
        return self.most - self.before


class Large(TlsCase):
    def start(self, handler):
        origin = self.tls_origin(handler)
        proxy = self.gateway(origin, env=calm_environment())
        client = self.opened(proxy, f"ok.test:{origin.port}")
        tls = self.context().wrap_socket(client.sock, server_hostname="ok.test")
        self.addCleanup(tls.close)
        tls.settimeout(WAIT)
        return proxy, tls

    @staticmethod
    def head(sock):
        """(head, what came after it)"""
        data = b""
        while b"\r\n\r\n" not in data:
            more = sock.recv(16384)
            if not more:
                raise AssertionError(f"ended inside a head: {data!r}")
            data += more
        head, _, ahead = data.partition(b"\r\n\r\n")
        return head, ahead

    def test_a_download(self):
        sequence = Bytes(1)

        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.send(f"HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n")
            sequence.send(conn.sock, SIZE)
            conn.rest()

        proxy, tls = self.start(handler)
        with Sampled(proxy) as sampled:
            tls.sendall(b"GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n")
            head, ahead = self.head(tls)
            self.assertIn(f"Content-Length: {SIZE}".encode(), head)
            self.assertIsNone(sequence.receive(tls, SIZE, ahead))
        self.assertLess(sampled.growth, ALLOWED, sampled.said)

    def test_an_upload(self):
        sequence = Bytes(2)
        differs = []

        def handler(conn):
            conn.until(b"\r\n\r\n")
            ahead, conn.reader.ahead = conn.reader.ahead, b""
            differs.append(sequence.receive(conn.sock, SIZE, ahead))
            conn.send(answer(b"all"))
            try:
                conn.rest()
            except ssl.SSLError:
                pass

        proxy, tls = self.start(handler)
        with Sampled(proxy) as sampled:
            tls.sendall(f"PUT / HTTP/1.1\r\nHost: ok.test\r\nContent-Length: {SIZE}\r\n\r\n".encode())
            sequence.send(tls, SIZE)
            head, _ = self.head(tls)
        self.assertIn(b"200 OK", head)
        self.assertEqual(differs, [None])
        self.assertLess(sampled.growth, ALLOWED, sampled.said)
