"""Clients that stall inside a terminated tunnel, and what they hold meanwhile: chapter 30 section 8."""

import ssl
import time

from harness import TlsCase, TlsSocket, answer, quick
from harness.resources import SANITIZED, anonymous, calm_environment, settled, until

SHORT = 300
SOON = 20  # seconds; what the timers are without settings is more


class Timers(TlsCase):
    def start(self, respond=None, **kw):
        self.upstream = self.https(respond)
        self.proxy_ = self.gateway(self.upstream, **kw)
        return self.inside(self.proxy_, self.upstream)

    def took(self, step):
        begun = time.monotonic()
        step()
        return time.monotonic() - begun

    def is_cut(self, client):
        """An end without close_notify."""
        with self.assertRaises((ssl.SSLEOFError, ConnectionResetError)):
            while client.sock.recv(65536):
                pass

    @quick
    def test_a_handshake_that_is_never_done(self):
        proxy = self.gateway(tls={"handshakeTimeoutMs": SHORT})

        def begin(n):
            client = self.opened(proxy, "ok.test:443")
            hello = TlsSocket(client.sock, self.context(), "ok.test").hello
            client.send(hello[:n])
            if n is None:
                client.exactly(100)  # the server's flight; no Finished follows
            client.rest()

        for n in (0, 3, 60, None):
            self.assertTrue(0.2 < self.took(lambda n=n: begin(n)) < SOON)
        self.assertEqual([r["close"] for r in proxy.records(4)], 4 * ["client-tls-timeout"])

    def test_the_deadline_ends_with_the_handshake(self):
        self.upstream = self.https(lambda r: (time.sleep(2 * SHORT / 1000), answer())[1])
        proxy = self.gateway(self.upstream, tls={"handshakeTimeoutMs": SHORT})
        client = self.inside(proxy, self.upstream)
        time.sleep(1.5 * SHORT / 1000)
        self.assertEqual(self.ask(client).status, 200)

    @quick
    def test_no_request(self):
        self.start(timeouts={"firstRequestMs": SHORT})
        self.assertTrue(0.2 < self.took(lambda: self.orderly_end(
            self.inside(self.proxy_, self.upstream))) < SOON)

    def test_half_a_first_request(self):
        client = self.start(timeouts={"firstRequestMs": 2 * SHORT})

        def drip():
            for c in "GET / HTTP/1.1\r\nHost: x\r\nX: " + "x" * 100:
                try:
                    client.send(c)
                except (BrokenPipeError, ConnectionResetError):
                    break
                if until(lambda: self.proxy_.records() and any(
                        r["close"] == "idle" for r in self.proxy_.records()), 0.02):
                    break

        self.assertTrue(0.4 < self.took(drip) < SOON)
        self.orderly_end(client)
        self.assertEqual(self.upstream.requests, [])

    def test_after_that_it_is_cut(self):
        for timeouts in ({"firstRequestMs": SHORT}, {"keepAliveMs": SHORT}):
            client = self.start(timeouts=timeouts, tls={"maxTunnels": 1})
            if "keepAliveMs" in timeouts:
                self.ask(client)
            self.orderly_end(client)
            other = self.client(self.proxy_)
            other_port = self.upstream.port
            self.assertEqual(other.connect(f"ok.test:{other_port}").status, 503)
            # it never closes its own side, and goes on sending
            def drips():
                try:
                    client.send("x")
                except (BrokenPipeError, ConnectionResetError):
                    pass
                return self.client(self.proxy_).connect(f"ok.test:{other_port}").status == 200

            self.assertTrue(until(drips))

    @quick
    def test_idle_between_requests(self):
        client = self.start(timeouts={"keepAliveMs": 4 * SHORT, "firstRequestMs": 60000})
        for _ in range(3):
            self.assertEqual(self.ask(client).status, 200)
            time.sleep(2 * SHORT / 1000)
        self.assertTrue(0.3 < self.took(lambda: self.orderly_end(client)) < SOON)

    def test_half_a_later_request(self):
        client = self.start(timeouts={"requestHeadMs": SHORT})
        self.ask(client)
        client.send("GET / HTTP/1.1\r\nHo")
        r = client.response()
        self.assertEqual((r.status, r.text, r.closes),
                         (400, "malformed request (request head not complete in time)\n", True))
        self.orderly_end(client)

    def test_a_body_that_stops(self):
        client = self.start(timeouts={"requestBodyMs": SHORT})
        head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhello"
        self.assertTrue(0.2 < self.took(lambda: self.is_cut(client.send(head))) < SOON)
        self.assertEqual(self.proxy_.records(2)[1]["close"], "body-timeout")

    def test_a_body_that_moves(self):
        client = self.start(timeouts={"requestBodyMs": SHORT})
        client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n")
        for _ in range(8):
            time.sleep(SHORT / 4000)
            client.send("x")
        self.assertEqual(client.response().status, 200)

    def test_a_response_that_takes_long(self):
        client = self.start(lambda r: (time.sleep(3 * SHORT / 1000), answer())[1],
                            timeouts={"requestBodyMs": SHORT, "keepAliveMs": SHORT,
                                      "requestHeadMs": SHORT, "firstRequestMs": SHORT})
        self.assertEqual(self.ask(client).status, 200)

    def endless(self, **kw):
        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.send(f"HTTP/1.1 200 OK\r\nContent-Length: {1 << 40}\r\n\r\n")
            while True:
                conn.send(bytes(65536))

        origin = self.tls_origin(handler)
        self.proxy_ = self.gateway(origin, timeouts={"requestBodyMs": 2 * SHORT}, **kw)
        client = self.inside(self.proxy_, origin)
        client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        return client

    def test_a_reader_that_stops(self):
        client = self.endless()
        self.assertEqual(self.proxy_.records(2)[1]["close"], "stalled")
        self.is_cut(client)

    def test_a_slow_reader_is_not_one(self):
        client = self.endless()
        client.sock.setsockopt(1, 8, 4096)  # SO_RCVBUF
        end = time.monotonic() + 6 * SHORT / 1000
        while time.monotonic() < end:
            time.sleep(0.05)
            self.assertTrue(client.sock.recv(20000))
        self.assertEqual(len(self.proxy_.records(1)), 1)

    def test_an_upgraded_tunnel_that_is_stuck_and_one_that_is_quiet(self):
        switch = (b"HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: w\r\n\r\n")

        def flood(conn):
            conn.until(b"\r\n\r\n")
            conn.send(switch)
            while True:
                conn.send(bytes(65536))

        def quiet(conn):
            conn.until(b"\r\n\r\n")
            conn.send(switch)
            conn.exactly(1)
            conn.send("x")
            conn.rest()

        for handler in (flood, quiet):
            origin = self.tls_origin(handler)
            proxy = self.gateway(origin, timeouts={"requestBodyMs": SHORT})
            client = self.inside(proxy, origin)
            client.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: w\r\n\r\n")
            if handler is flood:
                self.assertEqual(proxy.records(2)[1]["close"], "stalled")
                self.is_cut(client)
            else:
                self.assertEqual(client.response().status, 101)
                time.sleep(4 * SHORT / 1000)
                client.send("x")
                self.assertEqual(client.exactly(1), b"x")


class Memory(TlsCase):
    """What clients hold of the gateway while they stall, a client."""

    COUNT = 40 if SANITIZED else 200

    def held(self, step, idle=False):
        """KiB a client after step(client)."""
        origin = self.https()
        proxy = self.gateway(origin, tls={"maxTunnels": 1000, "handshakeTimeoutMs": 60000},
                             timeouts={"firstRequestMs": 60000, "keepAliveMs": 60000,
                                       "clientHelloMs": 60000},
                             env=calm_environment())
        warm = self.inside(proxy, origin)
        self.ask(warm)
        before = settled(lambda: anonymous(proxy))
        clients = []
        for _ in range(self.COUNT):
            client = self.opened(proxy, f"ok.test:{origin.port}")
            step(client)
            clients.append(client)
        after = settled(lambda: anonymous(proxy))
        self.assertEqual(self.ask(warm).status, 200)
        return (after - before) / self.COUNT / 1024

    def at_most(self, kib, step):
        held = self.held(step)
        self.assertLess(held, kib * (3 if SANITIZED else 1))

    def test_after_the_200(self):
        self.at_most(4, lambda client: None)

    def test_in_the_hello(self):
        def step(client):
            client.send(b"\x16\x03\x01\x3f\xff\x01\x00\x3f\xfb" + bytes(16000))

        self.at_most(30, step)

    def test_before_finished(self):
        def step(client):
            client.send(TlsSocket(client.sock, self.context(), "ok.test").hello)
            client.exactly(100)

        self.at_most(64, step)

    @quick
    def test_idle_before_and_after_a_request(self):
        self.at_most(40, lambda client: self.secure(client))

        def step(client):
            self.secure(client)
            self.assertEqual(self.ask(client).status, 200)

        self.at_most(40, step)

    def test_in_a_head(self):
        def step(client):
            self.secure(client)
            client.send("GET / HTTP/1.1\r\nHost: x\r\nX: " + "x" * 60000)

        self.at_most(160, step)
