"""Thousands of connections that never finish a handshake: each ends at its deadline and gives its
slot and its memory back, and whoever behaves is served meanwhile. Chapter 30 sections 3, 8, 9."""

import random
import selectors
import socket
import struct
import threading
import time

from harness import TlsCase, TlsSocket
from harness.resources import (MIB, SANITIZED, anonymous, calm_environment, descriptors,
                               own_descriptors, settled, until)

COUNT = 400 if SANITIZED else 2000
DEADLINE = 1.0
LATE = 5  # this machine may be busy
PATIENT = 20 if SANITIZED else 5  # the longest a neighbour may wait for an answer


class Flood:
    """`count` connections at once, each with a CONNECT and at once what data(n) gives; run() looks
    on until all have ended."""

    def __init__(self, proxy, target, count, data):
        self.address, self.count, self.data = proxy.address, count, data
        self.head = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode()
        self.selector = selectors.DefaultSelector()
        self.open = 0
        self.answers = []  # the first line of each that has ended
        self.lasted = []   # seconds from CONNECT to the end, of those with a 200

    def _start(self, n):
        sock = socket.create_connection(self.address)
        sock.setblocking(False)
        sock.send(self.head + self.data(n))
        self.selector.register(sock, selectors.EVENT_READ, [time.monotonic(), b""])
        self.open += 1

    def _look(self, seconds):
        for key, _ in self.selector.select(seconds):
            try:
                data = key.fileobj.recv(65536)
            except ConnectionResetError:
                data = b""
            key.data[1] += data[:64]
            if data:
                continue
            self.selector.unregister(key.fileobj)
            key.fileobj.close()
            self.open -= 1
            line = key.data[1].split(b"\r\n")[0].decode()
            self.answers.append(line)
            if " 200 " in line:
                self.lasted.append(time.monotonic() - key.data[0])

    def run(self):
        for n in range(self.count):
            self._start(n)
            self._look(0)
        end = time.monotonic() + DEADLINE + 4 * LATE
        while self.open:
            if time.monotonic() > end:
                raise AssertionError(f"{self.open} connections are never ended")
            self._look(0.1)
        self.selector.close()
        return self


class Neighbour(threading.Thread):
    """A client that asks one thing after another in its own tunnel while the block runs."""

    def __init__(self, case, client):
        super().__init__()
        self.case, self.client = case, client
        self.over = threading.Event()
        self.longest, self.served, self.error = 0, 0, None

    def run(self):
        try:
            while not self.over.wait(0.02):
                begun = time.monotonic()
                self.case.assertEqual(self.case.ask(self.client).status, 200)
                self.longest = max(self.longest, time.monotonic() - begun)
                self.served += 1
        except Exception as error:  # for the test to see
            self.error = error

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()
        if self.error:
            raise self.error


class Floods(TlsCase):
    def setUp(self):
        super().setUp()
        own_descriptors()
        self.upstream = self.https()

    def start(self, slots=2 * COUNT, tls=None, **kw):
        kw.setdefault("refuseOpaqueTunnels", True)
        self.proxy_ = self.gateway(
            self.upstream, env=calm_environment(),
            tls={"maxTunnels": slots, "handshakeTimeoutMs": int(DEADLINE * 1000), **(tls or {})},
            timeouts={"clientHelloMs": 60000, "keepAliveMs": 60000, "upstreamIdleMs": 200,
                      **kw.pop("timeouts", {})}, **kw)
        self.good = self.inside(self.proxy_, self.upstream)
        self.assertEqual(self.ask(self.good).status, 200)
        self.target = f"ok.test:{self.upstream.port}"

    def hello(self):
        a, b = socket.socketpair()
        with a, b:
            return TlsSocket(a, self.context(), "ok.test").hello

    def flood(self, data, count=COUNT, target=None):
        """The flood, with the neighbour served meanwhile."""
        with Neighbour(self, self.good) as neighbour:
            flood = Flood(self.proxy_, target or self.target, count, data).run()
        self.assertGreater(neighbour.served, 0)
        self.assertLess(neighbour.longest, PATIENT)
        return flood

    def newcomer(self):
        client = self.inside(self.proxy_, self.upstream)
        self.assertEqual(self.ask(client).status, 200)
        client.close()

    def held_until_the_deadline(self, data, kib, count=COUNT):
        """All are taken in, held until the deadline and no longer, twice; kib: what one may cost."""
        self.start()
        files, memory = settled(lambda: descriptors(self.proxy_)), anonymous(self.proxy_)
        kib *= 3 if SANITIZED else 1
        left = []
        for _ in range(2):
            most, over = [0], threading.Event()

            def sample():
                while not over.wait(0.05):
                    most[0] = max(most[0], anonymous(self.proxy_))

            sampler = threading.Thread(target=sample)
            sampler.start()
            flood = self.flood(data, count)
            over.set()
            sampler.join()
            self.assertEqual(set(flood.answers), {"HTTP/1.1 200 Connection Established"})
            self.assertGreater(min(flood.lasted), DEADLINE * 0.9)
            self.assertLess(max(flood.lasted), DEADLINE + LATE)
            self.assertLess(most[0] - memory, count * kib * 1024 + 4 * MIB)
            self.assertTrue(until(lambda: descriptors(self.proxy_) <= files))
            left.append(settled(lambda: anonymous(self.proxy_)))
            self.newcomer()
        self.assertLess(left[1] - left[0], MIB, "each wave leaves something behind")
        closes = [r["close"] for r in self.proxy_.records(2 * count)]
        self.assertEqual(closes.count("client-tls-timeout"), 2 * count)

    def test_silence(self):
        self.held_until_the_deadline(lambda n: b"", 4)

    def test_half_a_hello(self):
        hello = self.hello()
        self.held_until_the_deadline(lambda n: hello[: 3 + n % (len(hello) - 4)], 4)

    def test_a_hello_that_says_it_is_long(self):
        self.held_until_the_deadline(
            lambda n: b"\x16\x03\x01\x3f\xff\x01\x00\x3f\xfb" + bytes(16000), 26)

    def test_a_whole_hello_and_silence(self):
        hello = self.hello()
        self.held_until_the_deadline(lambda n: hello, 60, COUNT // 2)

    def test_garbage(self):
        """Ended at once: it is no TLS, or none that OpenSSL reads."""
        noise = random.Random(3)

        def data(n):
            body = noise.randbytes(noise.randrange(4, 600))
            if n % 2:
                return b"\x16\x03\x01" + struct.pack(">H", len(body)) + body
            return bytes([body[0] | 0x80]) + body

        self.start(slots=COUNT // 4)
        files = settled(lambda: descriptors(self.proxy_))
        flood = self.flood(data)
        self.assertEqual(len(flood.answers), COUNT)
        self.assertLess(max(flood.lasted), DEADLINE + LATE)
        self.assertTrue(until(lambda: descriptors(self.proxy_) <= files))
        self.newcomer()

    def test_past_the_last_slot(self):
        """Of what holds slots as many as there are get in; the others are told, none waits."""
        slots, hello = COUNT // 10, self.hello()
        kinds = (hello[:100], hello, hello[:3], b"\x16\x03\x01\x00\x80" + b"\x01" * 50)
        self.start(slots=slots)
        files = settled(lambda: descriptors(self.proxy_))
        for _ in range(2):
            flood = self.flood(lambda n: kinds[n % len(kinds)])
            said = {line.split(" ")[1] for line in flood.answers}
            self.assertEqual(said, {"200", "503"})
            self.assertLess(max(flood.lasted), DEADLINE + LATE)
            self.assertTrue(until(lambda: descriptors(self.proxy_) <= files))
            self.newcomer()
        closes = [r["close"] for r in self.proxy_.records(2 * COUNT)]
        self.assertGreater(closes.count("too-many-tunnels"), COUNT // 2)
        self.assertGreaterEqual(closes.count("client-tls-timeout"), slots)

    def test_silence_where_the_server_may_speak_first(self):
        """The server is dialled for each, and let go with it."""
        with socket.create_server(("127.0.0.5", 0), backlog=4096) as silent:
            self.start(refuseOpaqueTunnels=False, timeouts={"serverFirstMs": 200})
            files = settled(lambda: descriptors(self.proxy_))
            count = min(COUNT, 1000)
            flood = self.flood(lambda n: b"", count, f"two.test:{silent.getsockname()[1]}")
            self.assertEqual(len(flood.lasted), count)
            self.assertGreater(min(flood.lasted), DEADLINE * 0.9)
            self.assertLess(max(flood.lasted), DEADLINE + LATE)
            self.assertTrue(until(lambda: descriptors(self.proxy_) <= files))
            self.newcomer()

    def test_clients_that_reset(self):
        """At every point of a handshake, more than there are slots."""
        hello = self.hello()
        self.start(slots=COUNT // 10)
        files = settled(lambda: descriptors(self.proxy_))
        head = f"CONNECT {self.target} HTTP/1.1\r\n\r\n".encode()
        with Neighbour(self, self.good) as neighbour:
            for n in range(COUNT):
                sock = socket.create_connection(self.proxy_.address)
                sock.sendall(head + hello[: n * 7 % (len(hello) + 20)])
                if n % 3 == 0:
                    sock.recv(64)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.close()
        self.assertGreater(neighbour.served, 0)
        self.assertLess(neighbour.longest, PATIENT)
        self.assertTrue(until(lambda: descriptors(self.proxy_) <= files))
        self.newcomer()

    def test_whole_handshakes(self):
        """One after the other from several clients, each thrown away."""
        self.start()
        files = settled(lambda: descriptors(self.proxy_))
        end = time.monotonic() + 2
        done, errors = [], []

        def attack(how):
            try:
                while time.monotonic() < end:
                    client = self.secure(self.opened(self.proxy_, self.target))
                    getattr(client, how)()
                    done.append(how)
            except Exception as error:  # for the test to see
                errors.append(error)

        attackers = [threading.Thread(target=attack, args=(how,)) for how in ("close", "reset")]
        with Neighbour(self, self.good) as neighbour:
            for attacker in attackers:
                attacker.start()
            while time.monotonic() < end:
                self.newcomer()
                time.sleep(0.2)
            for attacker in attackers:
                attacker.join()
        self.assertEqual(errors, [])
        self.assertGreater(len(done), 20)
        self.assertGreater(neighbour.served, 0)
        self.assertLess(neighbour.longest, PATIENT)
        self.assertTrue(until(lambda: descriptors(self.proxy_) <= files))
