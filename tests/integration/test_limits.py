"""Limits and deadlines: chapter 20 section 13, row C19."""

import socket
import time

from harness import DROP, Case, Client, Closed, echo
from harness.client import WAIT, Reader
from harness.resources import (descriptors, limit_descriptors, own_descriptors, processor_seconds,
                               settled, until)


class Limited(Case):
    def setUp(self):
        super().setUp()
        own_descriptors()
        self.upstream = self.http()
        self.url = f"http://ok.test:{self.upstream.port}/"

    def served(self, gateway):
        with gateway.client() as client:
            self.assertEqual(client.get(self.url).status, 200)

    def answers(self, client):
        """Whether the gateway serves this connection at all; never waits for a full one."""
        try:
            return client.get(self.url).status == 200
        except (Closed, ConnectionError):
            return False

    def open(self, gateway, count, data=b""):
        clients = []
        for _ in range(count):
            client = self.client(gateway)
            if data:
                client.send(data)
            clients.append(client)
        return clients

    def back_to(self, gateway, count):
        self.assertTrue(until(lambda: descriptors(gateway) <= count),
                        f"{descriptors(gateway)} descriptors, {count} at the start")


class Connections(Limited):
    def test_past_the_limit_new_ones_wait(self):
        gateway = self.proxy(self.upstream, limits={"connections": 4})
        first = self.open(gateway, 4)
        for client in first:
            self.assertEqual(client.get(self.url).status, 200)
        waiting = self.client(gateway)
        waiting.send(f"GET {self.url} HTTP/1.1\r\nHost: x\r\n\r\n")
        waiting.sock.settimeout(0.3)
        with self.assertRaises(TimeoutError):
            waiting.head()
        waiting.sock.settimeout(WAIT)
        for client in first:
            self.assertEqual(client.get(self.url).status, 200, "those inside are served on")
        first[0].close()
        self.assertEqual(waiting.response().status, 200)
        self.assertEqual(gateway.stderr().count("accepting pauses"), 1)

    def test_each_kind_of_end_makes_room(self):
        """Whatever a connection was when it ended, its place is free again."""
        echo_origin = self.origin(echo)
        gateway = self.proxy(self.upstream, echo_origin, limits={"connections": 1},
                             timeouts={"lingerMs": 50})

        def half_head(client):
            client.send("GET ht").close()

        def refused(client):
            self.assertEqual(client.connect("no.test:443").status, 403)
            client.close()

        def malformed(client):
            client.send("nonsense\r\n\r\n")
            self.assertEqual(client.response().status, 400)
            client.close()

        def tunnel(client):
            self.assertEqual(client.connect(f"ok.test:{echo_origin.port}").status, 200)
            client.half_close()
            self.assertEqual(client.rest(), b"")
            client.close()

        def reset_tunnel(client):
            self.assertEqual(client.connect(f"ok.test:{echo_origin.port}").status, 200)
            client.reset()

        def socks(client):
            client.socks_greet()
            self.assertEqual(client.socks("ok.test", echo_origin.port)[1], 0)
            client.reset()

        def socks_refused(client):
            client.socks_greet()
            self.assertEqual(client.socks("no.test", 1)[1], 2)
            client.close()

        def leaves_during_the_dial(client):
            client.send(f"CONNECT ok.test:{echo_origin.port} HTTP/1.1\r\n\r\n").reset()

        def half_body(client):
            client.send(f"POST {self.url} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf")
            client.reset()

        for end in (half_head, refused, malformed, tunnel, reset_tunnel, socks, socks_refused,
                    leaves_during_the_dial, half_body, lambda client: client.close(),
                    lambda client: client.reset()):
            for _ in range(3):
                end(self.client(gateway))
            self.served(gateway)

    def test_upstream_ends_make_room(self):
        def handler(conn):
            conn.until(b"\r\n\r\n")

        origin = self.origin(handler)
        gateway = self.proxy(origin, self.upstream, limits={"connections": 1})
        for _ in range(3):
            with gateway.client() as client:
                self.assertEqual(client.get(f"http://ok.test:{origin.port}/").status, 502)
        self.served(gateway)


class From(Client):
    """A connection from a source address of its own."""

    def __init__(self, family, source, address):
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        self.sock.settimeout(WAIT)
        if source:
            self.sock.bind((source, 0))
        self.sock.connect(address)
        self.reader = Reader(self.sock)


class PerClient(Limited):
    def expect(self, clients, wanted):
        self.assertEqual([ok for _, ok in clients], wanted)

    def test_ipv4_addresses_count_each_for_itself(self):
        gateway = self.proxy(self.upstream, limits={"connectionsPerClient": 3},
                             listen=("127.0.0.1:0",))
        address = gateway.address
        a = self.crowd(address, "127.0.0.2")
        self.expect(a, [True] * 3 + [False] * 2)
        self.expect(self.crowd(address, "127.0.0.3"), [True] * 3 + [False] * 2)
        a[0][0].close()
        self.assertTrue(until(lambda: self.crowd(address, "127.0.0.2", 1)[0][1]))
        self.assertEqual(gateway.stderr().count("connectionsPerClient"), 1)
        self.assertIn("client 127.0.0.2 has", gateway.stderr())

    def test_ipv6_addresses(self):
        gateway = self.proxy(self.upstream, limits={"connectionsPerClient": 3}, listen=("[::1]:0",))
        self.expect(self.crowd(("::1", gateway.port)), [True] * 3 + [False] * 2)

    def test_unix_sockets_have_no_address(self):
        path = str(self.directory / "s")
        gateway = self.proxy(self.upstream, limits={"connectionsPerClient": 3},
                             listen=("127.0.0.1:0", f"unix:{path}"))
        clients = [Client(path) for _ in range(5)]
        for client in clients:
            self.addCleanup(client.close)
        self.assertEqual([self.answers(c) for c in clients], [True] * 5)
        self.expect(self.crowd(gateway.address), [True] * 3 + [False] * 2)

    def crowd(self, address, source=None, count=5):
        """(client, served) of so many connections from one address, all kept open."""
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        clients = []
        for _ in range(count):
            client = From(family, source, address)
            self.addCleanup(client.close)
            clients.append((client, self.answers(client)))
        return clients


class Descriptors(Limited):
    def test_half_heads_by_the_thousand(self):
        """3,000 connections that send `GET ht` and stop, with a file limit of 1,024."""
        gateway = self.proxy(self.upstream, timeouts={"requestHeadMs": 1500, "acceptPauseMs": 50})
        self.served(gateway)
        start = settled(lambda: descriptors(gateway))
        limit_descriptors(gateway, 1024)
        socks = []
        self.addCleanup(lambda: [s.close() for s in socks])
        for i in range(3000):
            sock = socket.socket()
            sock.setblocking(False)
            socks.append(sock)
            sock.connect_ex(gateway.address)
            if i % 200 == 199:
                time.sleep(0.01)
        for sock in socks:
            sock.setblocking(True)
            sock.settimeout(WAIT)
            try:
                sock.send(b"GET ht")
            except OSError:
                pass  # it was refused or is still in the queue
        self.served(gateway)
        for sock in socks:
            sock.close()
        self.back_to(gateway, start)
        warnings = gateway.stderr().count("out of file descriptors")
        self.assertGreaterEqual(warnings, 1)
        self.assertLessEqual(warnings, 6)
        self.served(gateway)

    def test_out_of_descriptors_accepting_rests_and_resumes(self):
        gateway = self.proxy(self.upstream, timeouts={"firstByteMs": 600000, "acceptPauseMs": 20})
        self.served(gateway)
        start = settled(lambda: descriptors(gateway))
        limit_descriptors(gateway, start + 20)
        clients = self.open(gateway, 60)
        self.assertTrue(until(lambda: "out of file descriptors" in gateway.stderr()))
        before, begun = processor_seconds(gateway), time.monotonic()
        time.sleep(1.0)
        spent, passed = processor_seconds(gateway) - before, time.monotonic() - begun
        self.assertLess(spent, passed * 0.5, "accepting spins")
        self.assertEqual(gateway.stderr().count("out of file descriptors"), 1)
        for client in clients:
            client.close()
        self.served(gateway)
        self.back_to(gateway, start)

    def test_no_descriptor_for_the_upstream(self):
        """A request that finds none is answered, and the gateway goes on."""
        gateway = self.proxy(self.upstream, timeouts={"firstByteMs": 600000, "dnsQueryMs": 300},
                             limits={"dnsTries": 1})
        self.served(gateway)
        self.assertTrue(until(lambda: len(self.upstream.connections) == 1))
        clients = [self.client(gateway) for _ in range(8)]
        start = settled(lambda: descriptors(gateway))
        limit_descriptors(gateway, start)
        for client in clients:
            client.send(f"CONNECT two.test:{self.upstream.port} HTTP/1.1\r\n\r\n")
        for client in clients:
            self.assertIn(client.response("CONNECT").status, (200, 502, 503))
        limit_descriptors(gateway, 1024)
        self.served(gateway)


class Deadlines(Limited):
    """What never comes to an end holds a place for a bounded time only."""

    def freed(self, gateway, data, count=40, answer=None):
        start = settled(lambda: descriptors(gateway))
        clients = self.open(gateway, count, data)
        for client in clients:
            got = client.rest()
            if answer is not None:
                self.assertTrue(got.startswith(answer), got)
        self.back_to(gateway, start)
        self.served(gateway)

    def test_first_byte(self):
        self.freed(self.proxy(self.upstream, timeouts={"firstByteMs": 200}), b"", answer=b"")

    def test_heads(self):
        gateway = self.proxy(self.upstream, timeouts={"requestHeadMs": 200, "lingerMs": 50})
        for data in (b"G", b"GET ht", b"GET http://ok.test/ HTTP/1.1\r\nHost: x\r\n",
                     b"CONNECT ok.test:443 HTTP/1.1\r\n"):
            with self.subTest(data):
                self.freed(gateway, data, answer=b"HTTP/1.1 400 ")

    def test_a_head_that_drips(self):
        """The deadline is for the head, not for its next byte."""
        gateway = self.proxy(self.upstream, timeouts={"requestHeadMs": 300})
        client = self.client(gateway)
        try:
            for _ in range(500):
                client.send("G")
                time.sleep(0.02)
            self.fail("a head that never ends is read for ever")
        except ConnectionError:
            pass

    def test_socks_handshakes(self):
        gateway = self.proxy(self.upstream, timeouts={"socksHandshakeMs": 200, "lingerMs": 50})
        for data in (b"\x05", b"\x05\x01", b"\x05\x02\x00", b"\x05\x01\x00", b"\x05\x01\x00\x05",
                     b"\x05\x01\x00\x05\x01\x00\x03\x07ok."):
            with self.subTest(data):
                self.freed(gateway, data)

    def test_request_bodies(self):
        gateway = self.proxy(self.upstream, timeouts={"requestBodyMs": 200, "lingerMs": 50})
        for framing, body in (("Content-Length: 10", "half"), ("Transfer-Encoding: chunked", "4\r\nha"),
                              ("Transfer-Encoding: chunked", "4\r\nhalf\r\n0\r\nX: ")):
            with self.subTest((framing, body)):
                self.freed(gateway, f"POST {self.url} HTTP/1.1\r\nHost: x\r\n{framing}\r\n\r\n{body}"
                           .encode(), 10)

    def test_a_slow_body_that_moves(self):
        gateway = self.proxy(self.upstream, timeouts={"requestBodyMs": 1500})
        client = self.client(gateway)
        client.send(f"POST {self.url} HTTP/1.1\r\nHost: x\r\nContent-Length: 25\r\n\r\n")
        for _ in range(25):
            client.send("x")
            time.sleep(0.1)
        self.assertEqual(client.response().status, 200)

    def test_early_data(self):
        """More than the limit before the tunnel stands closes the connection; nothing is dialled
        later."""
        for kind in ("A", "AAAA"):
            self.dns.script("slow.wild.test", kind, DROP)
        gateway = self.proxy(self.upstream, limits={"earlyDataBytes": 4096},
                             timeouts={"dnsQueryMs": 20000})
        start = settled(lambda: descriptors(gateway))
        for socks in (False, True):
            client = self.client(gateway)
            if socks:
                client.socks_greet()
                client.send(b"\x05\x01\x00\x03\x0eslow.wild.test\x01\xbb")
            else:
                client.send("CONNECT slow.wild.test:443 HTTP/1.1\r\n\r\n")
            try:
                for _ in range(64):
                    client.send(bytes(4096))
                    time.sleep(0.001)
            except ConnectionError:
                pass
            self.assertTrue(client.ended())
            client.close()
        self.assertTrue(until(lambda: descriptors(gateway) <= start + 2))
        self.served(gateway)

    def test_idle_tunnels_live(self):
        """300 idle tunnels, and one where something comes late."""
        origin = self.origin(echo)
        gateway = self.proxy(origin, self.upstream, timeouts={
            "requestHeadMs": 700, "firstByteMs": 700, "keepAliveMs": 700, "requestBodyMs": 700,
            "upstreamIdleMs": 700, "lingerMs": 700})
        clients = self.open(gateway, 300, f"CONNECT ok.test:{origin.port} HTTP/1.1\r\n\r\n".encode())
        for client in clients:
            self.assertEqual(client.head().status, 200)
        time.sleep(1.2)
        for client in clients:
            client.send("alive")
        for client in clients:
            self.assertEqual(client.exactly(5), b"alive")

    def test_a_quiet_event_stream_lives(self):
        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            for i in range(2):
                time.sleep(0.6)
                conn.send(f"data: {i}\n\n")

        origin = self.origin(handler)
        gateway = self.proxy(origin, timeouts={
            "requestHeadMs": 100, "keepAliveMs": 100, "requestBodyMs": 100, "upstreamIdleMs": 100})
        r = self.client(gateway).get(f"http://ok.test:{origin.port}/")
        self.assertEqual(r.body, b"data: 0\n\ndata: 1\n\n")
