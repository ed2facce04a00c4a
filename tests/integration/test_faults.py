"""Whatever breaks, it breaks one connection and leaves nothing behind: chapter 20 sections 4 to 7
and 13."""

import socket
import struct
import threading
import time

from harness import DROP, NXDOMAIN, WAIT, Answer, Case, Client, Closed, answer, echo
from harness.resources import (MIB, SANITIZED, anonymous, calm_environment, descriptors,
                               own_descriptors, settled, until)

ROUNDS = 4
BIG = bytes(400000)


def reset(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


class Faults(Case):
    """Each test leaves the gateway as it found it: descriptors, memory, service."""

    def setUp(self):
        super().setUp()
        own_descriptors()
        self.healthy = self.http()
        self.url = f"http://ok.test:{self.healthy.port}/"

    def start(self, *origins, timeouts=None, **kw):
        """A gateway with short times, and what it holds once it has served."""
        self.gateway = self.proxy(self.healthy, *origins, env=calm_environment(), timeouts={
            "upstreamIdleMs": 100, "lingerMs": 50, "dnsQueryMs": 200, **(timeouts or {})}, **kw)
        for _ in range(3):
            self.served()
        self.assertTrue(until(lambda: all(c.done.is_set() for c in self.healthy.connections)))
        self.before = settled(lambda: descriptors(self.gateway))
        self.memory = anonymous(self.gateway)

    def served(self):
        with self.gateway.client() as client:
            self.assertEqual(client.get(self.url).status, 200)
        with self.gateway.client() as client:
            self.assertEqual(client.connect(f"ok.test:{self.healthy.port}").status, 200)
            client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertEqual(client.response().status, 200)

    def rests(self, extra=0):
        self.served()
        extra += 2  # a pipe that is kept for the next long transfer
        self.assertTrue(until(lambda: descriptors(self.gateway) <= self.before + extra),
                        f"{descriptors(self.gateway)} descriptors, {self.before} at the start")
        grown = anonymous(self.gateway) - self.memory
        self.assertLess(grown, 12 * MIB if SANITIZED else 2 * MIB)


class Clients(Faults):
    def stages(self, origin):
        """What a client has sent when it breaks off: (bytes, what it waits for before)."""
        target = f"ok.test:{origin.port}"
        base = f"http://{target}/"
        greet = b"\x05\x01\x00"
        request = b"\x05\x01\x00\x03\x07ok.test" + origin.port.to_bytes(2, "big")
        return {
            "nothing": [b""],
            "half a head": [b"GET ht"],
            "half a CONNECT": [f"CONNECT {target} HTTP/1.1\r\n".encode()],
            "a CONNECT": [f"CONNECT {target} HTTP/1.1\r\n\r\n".encode()],
            "a CONNECT and early data": [f"CONNECT {target} HTTP/1.1\r\n\r\n".encode() + BIG[:30000]],
            "a tunnel": [f"CONNECT {target} HTTP/1.1\r\n\r\n".encode(), b"\r\n\r\n"],
            "a busy tunnel": [f"CONNECT {target} HTTP/1.1\r\n\r\n".encode(), b"\r\n\r\n", BIG],
            "a refused CONNECT": [b"CONNECT no.test:1 HTTP/1.1\r\n\r\n"],
            "half a greeting": [b"\x05\x02\x00"],
            "a greeting": [greet, b"\x05\x00"],
            "half a SOCKS request": [greet, b"\x05\x00", request[:9]],
            "a SOCKS request": [greet, b"\x05\x00", request],
            "a SOCKS tunnel": [greet, b"\x05\x00", request, b"\x05\x00\x00\x01", BIG],
            "a request": [f"GET {base} HTTP/1.1\r\nHost: x\r\n\r\n".encode()],
            "an answer's head": [f"GET {base} HTTP/1.1\r\nHost: x\r\n\r\n".encode(), b"\r\n\r\n"],
            "half a body": [f"POST {base} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
                            .encode() + BIG],
            "half a chunk": [f"POST {base} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                             .encode() + b"ffff\r\nhalf"],
            "a pipeline": [f"GET {base} HTTP/1.1\r\nHost: x\r\n\r\n".encode() * 20],
            "a refused body": [b"POST http://no.test/ HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n"
                               b"\r\nhalf", b"403"],
            "an unresolved name": [b"CONNECT silent.wild.test:1 HTTP/1.1\r\n\r\n"],
            "an upgrade": [f"GET {base}up HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\n"
                           "Upgrade: x\r\n\r\n".encode(), b"101", BIG],
        }

    def serve(self, conn):
        try:
            self.speak(conn)
        except OSError:
            pass  # what this is about

    def speak(self, conn):
        first = conn.sock.recv(1, socket.MSG_PEEK)
        if first in (b"G", b"P"):
            head = conn.until(b"\r\n\r\n")
            if b"Upgrade" in head:
                conn.send("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
                echo(conn)
                return
            if head.startswith(b"P"):
                conn.rest()
                return
            while True:
                conn.send(answer(BIG))
                conn.until(b"\r\n\r\n")
        elif first:
            echo(conn)

    def test_break_off_at_each_stage(self):
        for kind in ("A", "AAAA"):
            self.dns.script("silent.wild.test", kind, DROP)
        origin = self.origin(self.serve)
        self.start(origin)
        for name, steps in self.stages(origin).items():
            for how in ("reset", "close", "half_close", "shutdown both"):
                with self.subTest(stage=name, how=how):
                    for _ in range(ROUNDS):
                        client = Client(self.gateway.address)
                        for i, step in enumerate(steps):
                            if i % 2 == 0 or len(step) > 100:
                                client.send(step)
                            else:
                                client.until(step)
                        if how == "half_close":
                            client.half_close()
                        elif how == "shutdown both":
                            client.shutdown(socket.SHUT_RDWR)
                        if how == "reset":
                            client.reset()
                        else:
                            client.close()
        self.rests()

    def test_half_heads_by_the_thousand(self):
        """The memory of a crowd is given back when it has left."""
        self.start(timeouts={"requestHeadMs": 600000})
        for _ in range(3):
            clients = []
            for i in range(1000):
                client = Client(self.gateway.address)
                client.send(b"GET http://ok.test/" + b"a" * (i % 5 * 1500))
                clients.append(client)
            self.served()
            for i, client in enumerate(clients):
                if i % 2:
                    client.reset()
                client.close()
            self.served()
        self.rests()

    def test_pipelined_requests_and_a_fin(self):
        """Each of them was sent in whole, and is answered."""
        origin = self.http(lambda request: time.sleep(0.05) or answer(request.target.encode()))
        self.start(origin)
        client = self.client(self.gateway)
        client.send("".join(f"GET http://ok.test:{origin.port}/{i} HTTP/1.1\r\nHost: x\r\n\r\n"
                            for i in range(3))).half_close()
        got = client.rest()
        self.assertEqual([t in got for t in (b"/0", b"/1", b"/2")], [True] * 3, got)

    def test_a_whole_request_with_a_body_and_a_fin(self):
        """Even while its name is still looked up."""
        self.dns.script("late.wild.test", "A", Answer("127.0.0.5", delay=0.1))
        self.dns.script("late.wild.test", "AAAA", Answer())
        self.start()
        for framing, body in (("Content-Length: 5", "hello"),
                              ("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n")):
            with self.subTest(framing):
                client = self.client(self.gateway)
                client.send(f"POST http://late.wild.test:{self.healthy.port}/ HTTP/1.1\r\nHost: x\r\n"
                            f"{framing}\r\n\r\n{body}").half_close()
                self.assertTrue(client.rest().startswith(b"HTTP/1.1 200 "))


class Origins(Faults):
    """An origin that ends a connection at each moment."""

    HEADS = (b"", b"H", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n",
             b"HTTP/1.1 200 OK\r\nContent-Length: 400001\r\n\r\n" + BIG,
             b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
             b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
             b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
             b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
             b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense",
             b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
             b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n",
             b"HTTP/1.1 101 Nobody asked\r\n\r\n", b"HTTP/2.0 200 OK\r\n\r\n", b"\x16\x03\x01",
             b"HTTP/1.1 200 OK\r\n" + b"X: " + b"x" * 70000)

    def test_break_off_in_an_answer(self):
        way = {}

        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.send(way["head"])
            if way["how"] == "reset":
                reset(conn.sock)

        origin = self.origin(handler)
        self.start(origin)
        for head in self.HEADS:
            for how in ("fin", "reset"):
                way.update(head=head, how=how)
                for request in ("GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                                "GET / HTTP/1.0\r\n\r\n",
                                "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"):
                    with self.subTest(head=head[:80], how=how, request=request):
                        client = self.client(self.gateway)
                        client.send(request.replace(" /", f" http://ok.test:{origin.port}/", 1))
                        self.broken(client)
                        client.close()
        self.rests()

    def broken(self, client):
        """A 502, or a cut answer that does not look complete."""
        try:
            r = client.head()
            while r.status == 103:
                r = client.head()
        except (Closed, ConnectionError):
            return
        if r.status == 502:
            return
        self.assertEqual(r.status, 200, r)
        with self.assertRaises((Closed, ConnectionError, ValueError)):
            if r.get("Transfer-Encoding"):
                client.reader.chunked()
            elif r.get("Content-Length"):
                client.exactly(int(r.get("Content-Length")))
            else:
                client.reader.rest()  # only a reset tells a cut body from a whole one

    def test_break_off_in_an_upload(self):
        """A client that is still sending gets an answer or the end; it never hangs."""
        way = {}

        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.exactly(way["read"])
            conn.send(way["says"])
            if way["how"] == "reset":
                reset(conn.sock)

        origin = self.origin(handler)
        self.start(origin)
        for read in (1, 100000):
            for says in (b"", answer(b"early", fields="Connection: close\r\n")):
                for how in ("fin", "reset"):
                    way.update(read=read, says=says, how=how)
                    for _ in range(ROUNDS):
                        client = self.client(self.gateway)
                        client.send(f"POST http://ok.test:{origin.port}/ HTTP/1.1\r\nHost: x\r\n"
                                    f"Content-Length: {50 * len(BIG)}\r\n\r\n")
                        try:
                            for _ in range(50):
                                client.send(BIG)
                            client.rest()
                        except ConnectionError:
                            pass
                        client.close()
        self.rests()

    def test_tunnels(self):
        way = {}

        def handler(conn):
            conn.exactly(way["read"])
            conn.send(BIG[: way["write"]])
            if way["how"] == "reset":
                reset(conn.sock)

        origin = self.origin(handler)
        self.start(origin)
        for read, write in ((0, 0), (1, 0), (0, 5), (1, 5), (50000, 50000)):
            for how in ("fin", "reset") if read else ("fin",):  # a reset at once may come first
                way.update(read=read, write=write, how=how)
                for socks in (False, True):
                    with self.subTest(read=read, write=write, how=how, socks=socks):
                        client = self.client(self.gateway)
                        if socks:
                            client.socks_greet()
                            self.assertEqual(client.socks("ok.test", origin.port)[1], 0)
                        else:
                            self.assertEqual(client.connect(f"ok.test:{origin.port}").status, 200)
                        try:
                            client.send(BIG[:read] if read else b"")
                            got = client.reader.rest()
                            if how == "fin":
                                self.assertEqual(len(got), write)
                        except ConnectionError:
                            self.assertEqual(how, "reset", "a FIN became a reset")
                        client.close()
        self.rests()

    def test_a_dead_origin(self):
        closed = self.closed_port()
        self.healthy.port, port = closed, self.healthy.port
        literal = self.healthy.literal
        self.healthy.port = port
        self.start(allowed=["ok.test", literal])
        for _ in range(50):
            with self.gateway.client() as client:
                r = client.get(f"http://ok.test:{closed}/")
                self.assertEqual((r.status, r.get("X-Proxy-Error")), (502, "upstream-refused"))
            with self.gateway.client() as client:
                self.assertEqual(client.connect(f"ok.test:{closed}").status, 502)
        self.rests()

    def test_slow_ones(self):
        """Both ends by a few bytes at a time, one end only, all at once with fast ones."""
        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n")
            for _ in range(60):
                conn.send(b"x")
                time.sleep(0.01)

        origin = self.origin(handler)
        self.start(origin)
        got = []

        def run(slowly):
            with Client(self.gateway.address) as client:
                text = f"GET http://ok.test:{origin.port}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode()
                for byte in text:
                    client.send(bytes([byte]))
                    time.sleep(0.002 if slowly else 0)
                client.head()
                body = b""
                while len(body) < 60:
                    body += client.exactly(1 if slowly else min(20, 60 - len(body)))
                got.append(body)

        threads = [threading.Thread(target=run, args=(i % 2 == 0,)) for i in range(30)]
        for thread in threads:
            thread.start()
        self.served()
        for thread in threads:
            thread.join(WAIT)
        self.assertEqual(got, [b"x" * 60] * 30)
        self.rests()


class Resolvers(Faults):
    def ask(self, name, statuses):
        for _ in range(3):
            with self.gateway.client() as client:
                r = client.connect(f"{name}:443")
                self.assertIn(r.status, statuses)
                self.assertNotEqual(r.status, 200)

    def test_silent_lying_and_gone(self):
        self.start(allowed=["ok.test", "*.wild.test"], limits={"dnsTries": 1})
        cases = {
            "silent": (DROP, (502,)), "nx": (Answer(rcode=NXDOMAIN), (502,)),
            "servfail": (Answer(rcode=2), (502,)), "odd": (Answer(rcode=11), (502,)),
            "empty": (Answer(), (502,)), "truncated": (Answer("127.0.0.9", truncated=True), (403,)),
            "inner": (Answer("169.254.169.254"), (403,)), "late": (Answer("127.0.0.9", delay=1), (502,)),
            "loop": (Answer(cname="loop.wild.test"), (502,)),
        }
        for name, (said, statuses) in cases.items():
            with self.subTest(name):
                self.dns.script(f"{name}.wild.test", "A", said)
                self.dns.script(f"{name}.wild.test", "AAAA", said if said.addresses == () else Answer())
                self.ask(f"{name}.wild.test", statuses)
        self.rests(extra=2)  # the channel's own sockets
        self.dns.close()
        self.ask("x.wild.test", (502,))

    def test_many_waiting_clients_that_leave(self):
        for kind in ("A", "AAAA"):
            self.dns.script("*.wild.test", kind, DROP)
        self.start(timeouts={"dnsQueryMs": 60000})
        for _ in range(3):
            clients = []
            for i in range(100):
                client = Client(self.gateway.address)
                client.send(f"CONNECT n{i}.wild.test:443 HTTP/1.1\r\n\r\n" if i % 2 else
                            f"GET http://n{i}.wild.test/ HTTP/1.1\r\nHost: x\r\n\r\n")
                clients.append(client)
            self.served()
            for client in clients:
                client.reset()
        self.rests(extra=4)

    def test_garbage_from_a_resolver(self):
        """Datagrams that answer nothing, or not what was asked."""
        garbage = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        garbage.bind(("127.0.0.1", 0))
        garbage.settimeout(WAIT)
        self.addCleanup(garbage.close)

        def answer_all():
            replies = (lambda q: b"", lambda q: q[:2], lambda q: q, lambda q: b"\xff" * 600,
                       lambda q: bytes([q[0] ^ 1]) + q[1:2] + b"\x81\x80" + q[4:],
                       lambda q: q[:2] + b"\x81\x80\x00\x01\xff\xff\x00\x00\x00\x00" + q[12:],
                       lambda q: q[:2] + b"\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00" + q[12:]
                       + b"\xc0\x0c" * 30)
            number = 0
            try:
                while True:
                    query, peer = garbage.recvfrom(4096)
                    garbage.sendto(replies[number % len(replies)](query), peer)
                    number += 1
            except OSError:
                return

        threading.Thread(target=answer_all, daemon=True).start()
        port = garbage.getsockname()[1]
        gateway = self.proxy(self.healthy, dns={"servers": [f"127.0.0.1:{port}", self.dns.address]},
                             timeouts={"dnsQueryMs": 100}, limits={"dnsTries": 4})
        for i in range(10):
            self.dns.add(f"g{i}.wild.test", "127.0.0.5")
            with gateway.client() as client:
                r = client.connect(f"g{i}.wild.test:{self.healthy.port}")
                self.assertIn(r.status, (200, 502))
        with gateway.client() as client:
            self.assertEqual(client.get(f"http://127.0.0.5:{self.healthy.port}/").status, 200)
