"""Long bodies, slow sides, upgrades and ends inside a terminated tunnel: chapter 30 sections 6, 7,
9 and 13."""

import hashlib
import random
import ssl
import threading
import time

from harness import TlsCase, answer, quick
from harness.resources import MIB, SANITIZED, anonymous, calm_environment, settled, until

BIG = 64 * MIB
EVENTS = 10


class Bodies(TlsCase):
    def test_a_large_upload(self):
        block = random.randbytes(MIB)
        digest = hashlib.sha256(block * (BIG // MIB)).hexdigest()

        def handler(conn):
            conn.until(b"\r\n\r\n")
            whole, have = hashlib.sha256(conn.reader.ahead), len(conn.reader.ahead)
            while have < BIG:
                data = conn.sock.recv(65536)
                if not data:
                    return
                whole.update(data)
                have += len(data)
            conn.send(answer(whole.hexdigest().encode()))

        origin = self.tls_origin(handler)
        proxy = self.gateway(origin, env=calm_environment())
        client = self.inside(proxy, origin)
        before = anonymous(proxy)
        client.send(f"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: {BIG}\r\n\r\n")
        most = 0
        for n in range(BIG // MIB):
            client.send(block)
            most = max(most, anonymous(proxy)) if n % 8 == 0 else most
        self.assertEqual(client.response().text, digest)
        self.assertLess(most - before, (8 if SANITIZED else 2) * MIB)

    def download(self, head, encode):
        block = random.randbytes(MIB)
        whole = hashlib.sha256(block * (BIG // MIB)).hexdigest()

        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.send(head)
            for _ in range(BIG // MIB):
                conn.send(encode(block))
            conn.send(encode(b""))
            if b"Content-Length" not in head and b"chunked" not in head:
                conn.sock.unwrap()

        origin = self.tls_origin(handler)
        proxy = self.gateway(origin, env=calm_environment())
        client = self.inside(proxy, origin)
        before = anonymous(proxy)
        client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        r = client.head()
        digest, have, most = hashlib.sha256(), 0, 0
        while have < BIG:
            if r.get("Transfer-Encoding"):
                data = client.exactly(int(client.until(b"\r\n"), 16) + 2)[:-2]
            else:
                data = client.reader.ahead or client.sock.recv(65536)
                client.reader.ahead = b""
            self.assertTrue(data)
            digest.update(data)
            have += len(data)
            most = max(most, anonymous(proxy)) if random.random() < 0.01 else most
        self.assertEqual(digest.hexdigest(), whole)
        self.assertLess(most - before, (8 if SANITIZED else 2) * MIB)

    def test_a_large_download(self):
        self.download(f"HTTP/1.1 200 OK\r\nContent-Length: {BIG}\r\n\r\n".encode(), lambda b: b)

    def test_a_large_download_in_chunks(self):
        self.download(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                      lambda b: f"{len(b):x}\r\n".encode() + b + b"\r\n")

    def test_a_large_download_to_the_close(self):
        self.download(b"HTTP/1.1 200 OK\r\n\r\n", lambda b: b)

    def test_a_reader_that_stops(self):
        sent = [0]

        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.send(f"HTTP/1.1 200 OK\r\nContent-Length: {1 << 40}\r\n\r\n")
            while True:
                conn.send(bytes(65536))
                sent[0] += 65536

        origin = self.tls_origin(handler)
        proxy = self.gateway(origin, env=calm_environment())
        clients = [self.inside(proxy, origin) for _ in range(8)]
        before = anonymous(proxy)
        for client in clients:
            client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        settled(lambda: sent[0], quiet=1.0)
        self.assertLess(anonymous(proxy) - before, len(clients) * (1024 if SANITIZED else 300) * 1024)
        neighbour = self.https()
        other = self.gateway(neighbour)
        self.assertEqual(self.ask(self.inside(other, neighbour)).status, 200)

    def test_a_server_that_takes_nothing(self):
        origin = self.tls_origin(lambda conn: (conn.until(b"\r\n\r\n"), time.sleep(20)))
        proxy = self.gateway(origin, env=calm_environment())
        client = self.inside(proxy, origin)
        before = anonymous(proxy)
        client.send(f"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: {1 << 40}\r\n\r\n")
        client.sock.settimeout(1)
        with self.assertRaises(TimeoutError):
            while True:
                client.send(bytes(65536))
        self.assertLess(anonymous(proxy) - before, MIB)


class Chunks(TlsCase):
    def test_trailers_both_ways(self):
        origin = self.https(lambda r: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
                            b"Trailer: X-Sum\r\n\r\n2\r\nab\r\n0\r\nX-Sum: 1\r\n\r\n")
        client = self.inside(self.gateway(origin), origin)
        r = self.ask(client, fields="Transfer-Encoding: chunked\r\n", method="POST",
                     body=b"1\r\nx\r\n0\r\nX-In: 2\r\n\r\n")
        self.assertEqual((r.body, r.trailers), (b"ab", [("X-Sum", "1")]))
        self.assertEqual((origin.requests[0].body, origin.requests[0].trailers),
                         (b"x", [("X-In", "2")]))

    @quick
    def test_chunks_go_on_as_they_come(self):
        got = []

        def handler(conn):
            conn.until(b"\r\n\r\n")
            for n in range(3):
                got.append((conn.exactly(8), time.monotonic()))
            conn.exactly(5)
            conn.send(answer())

        origin = self.tls_origin(handler)
        client = self.inside(self.gateway(origin), origin)
        client.send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        for n in range(3):
            sent = time.monotonic()
            client.send("3\r\nabc\r\n")
            self.assertTrue(until(lambda n=n: len(got) > n))
            self.assertLess(got[n][1] - sent, 0.1)
        client.send("0\r\n\r\n")
        self.assertEqual(client.response().status, 200)

    @quick
    def test_events_without_delay(self):
        for chunked in (True, False):
            sent = []

            def handler(conn, chunked=chunked, sent=sent):
                conn.until(b"\r\n\r\n")
                conn.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                          + ("Transfer-Encoding: chunked\r\n\r\n" if chunked else "\r\n"))
                for n in range(EVENTS):
                    time.sleep(0.03)
                    event = f"data: {n:05}\n\n"
                    sent.append(time.monotonic())
                    conn.send(f"{len(event):x}\r\n{event}\r\n" if chunked else event)
                if chunked:
                    conn.send("0\r\n\r\n")
                else:
                    conn.sock.unwrap()

            origin = self.tls_origin(handler)
            client = self.inside(self.gateway(origin), origin)
            client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            client.head()
            late = []
            for n in range(EVENTS):
                client.until(b"\n\n")
                late.append(time.monotonic() - sent[n])
            self.assertLess(sorted(late)[EVENTS // 2], 0.02, late)


class Expectations(TlsCase):
    @quick
    def test_the_servers_100(self):
        def handler(conn):
            conn.until(b"\r\n\r\n")
            time.sleep(0.1)
            conn.send("HTTP/1.1 100 Continue\r\n\r\n")
            conn.exactly(5)
            conn.send(answer())

        origin = self.tls_origin(handler)
        client = self.inside(self.gateway(origin), origin)
        client.send("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        self.assertEqual(client.head().status, 100)
        self.assertEqual(client.send("hello").response().status, 200)

    def test_a_final_answer_instead(self):
        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.send(answer(b"no", "413 Too Large"))
            conn.rest()

        origin = self.tls_origin(handler)
        client = self.inside(self.gateway(origin), origin)
        client.send("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        r = client.response(interim=True)
        self.assertEqual((r.status, r.closes), (413, True))
        self.orderly_end(client)

    def test_a_server_that_does_not_know_it(self):
        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.exactly(5)
            conn.send(answer())

        origin = self.tls_origin(handler)
        client = self.inside(self.gateway(origin, timeouts={"expectContinueMs": 100}), origin)
        client.send("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        self.assertEqual(client.head().status, 100)
        self.assertEqual(client.send("hello").response().status, 200)

    @quick
    def test_an_answer_before_the_upload_is_in(self):
        """The rest is dropped and the connection serves the next request."""
        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.send(answer(b"no", "413 Too Large"))
            if len(origin.connections) == 1:
                conn.rest()

        origin = self.tls_origin(handler)
        client = self.inside(self.gateway(origin), origin)
        size = 8 * MIB
        client.send(f"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n" + 1000 * "x")
        r = client.response()
        self.assertEqual((r.status, r.closes), (413, False))
        client.send(b"x" * (size - 1000))
        self.assertEqual(self.ask(client, "/next").status, 413)
        self.assertEqual(len(origin.connections), 2)

    def test_interim_answers(self):
        origin = self.https(lambda r: b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
                            b"HTTP/1.1 102 Processing\r\n\r\n" + answer())
        client = self.inside(self.gateway(origin), origin)
        client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        first = client.head()
        self.assertEqual((first.status, first.get("Link")), (103, "x"))
        self.assertEqual(client.response(interim=True).status, 200)


class Upgrades(TlsCase):
    ASK = ("GET /ws HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
           "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
           "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n")
    SWITCH = (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
              b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
              b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n")

    def open(self, handler, **kw):
        self.upstream = self.tls_origin(handler)
        self.proxy_ = self.gateway(self.upstream, **kw)
        client = self.inside(self.proxy_, self.upstream)
        client.send(self.ASK)
        return client

    @quick
    def test_an_echo(self):
        def handler(conn):
            head.append(conn.until(b"\r\n\r\n"))
            conn.send(self.SWITCH + b"first frame")
            while data := conn.sock.recv(65536):
                conn.send(data)
            conn.sock.unwrap()

        head = []
        client = self.open(handler)
        r = client.response()
        self.assertEqual((r.status, r.get("Upgrade"), r.get("Sec-WebSocket-Extensions")),
                         (101, "websocket", "permessage-deflate"))
        self.assertIn("upgrade", r.get("Connection").lower())
        for field in (b"\r\nUpgrade: websocket\r\n", b"\r\nConnection: upgrade\r\n",
                      b"\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"):
            self.assertIn(field, head[0])
        self.assertEqual(client.exactly(11), b"first frame")
        for size in (1, 125, 126, 65535, MIB):
            data = random.randbytes(size)
            client.send(data)
            self.assertEqual(client.exactly(size), data)
        client.sock.close_notify()
        self.orderly_end(client)
        record = self.proxy_.records(2)[1]
        self.assertEqual((record["via"], record["status"], record["close"]), ("https", 101, "done"))

    def test_the_servers_end(self):
        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.send(self.SWITCH + b"bye")
            conn.sock.unwrap()

        client = self.open(handler)
        self.assertEqual(client.response().status, 101)
        self.assertEqual(client.exactly(3), b"bye")
        self.assertEqual(client.sock.recv(1), b"")

    @quick
    def test_an_answer_instead(self):
        client = self.open(lambda conn: (conn.until(b"\r\n\r\n"),
                                         conn.send(answer(b"no", "426 Upgrade Required")),
                                         conn.rest()))
        self.assertEqual(client.response().status, 426)

    @quick
    def test_unasked_for(self):
        origin = self.https(lambda r: self.SWITCH)
        client = self.inside(self.gateway(origin), origin)
        for fields in ("", "Upgrade: websocket\r\n", "Connection: Upgrade\r\nUpgrade: h2c\r\n"):
            r = self.ask(client, fields=fields)
            self.assertEqual((r.status, r.get("X-Proxy-Error")), (502, "upstream-protocol"))
        self.assertNotIn("upgrade", [n for q in origin.requests for n in q.names])

    def test_refused_with_an_answer(self):
        origin = self.https()
        proxy = self.gateway(origin, rules=[{"host": "ok.test", "paths": ["/ws"],
                                             "action": "deny"}])
        client = self.inside(proxy, origin)
        self.assertEqual(client.send(self.ASK).response().status, 403)
        self.assertEqual(origin.requests, [])

    def test_a_slot_is_held(self):
        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.send(self.SWITCH)
            conn.rest()

        client = self.open(handler, tls={"maxTunnels": 1})
        self.assertEqual(client.response().status, 101)
        refused = self.client(self.proxy_)
        self.assertEqual(refused.connect(f"ok.test:{self.upstream.port}").status, 503)
        client.reset()
        self.assertTrue(until(lambda: self.client(self.proxy_).connect(
            f"ok.test:{self.upstream.port}").status == 200))


class Ends(TlsCase):
    @quick
    def test_half_close_after_a_request(self):
        def respond(request):
            time.sleep(0.2)
            return answer(b"x" * 100000)

        origin = self.https(respond)
        client = self.inside(self.gateway(origin), origin)
        client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab")
        client.sock.close_notify()
        r = client.response()
        self.assertEqual((r.status, len(r.body), r.closes), (200, 100000, True))
        self.orderly_end(client)

    def test_half_close_after_several(self):
        origin = self.https()
        client = self.inside(self.gateway(origin), origin)
        client.send("GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n")
        client.sock.close_notify()
        self.assertEqual([client.response().status for _ in range(2)], [200, 200])
        self.orderly_end(client)

    def test_half_close_in_a_body(self):
        origin = self.tls_origin(lambda conn: conn.rest())
        client = self.inside(self.gateway(origin), origin)
        client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab")
        client.sock.close_notify()
        with self.assertRaises((ssl.SSLEOFError, ConnectionResetError)):
            client.sock.recv(1)

    @quick
    def test_a_client_that_goes_takes_its_request_along(self):
        def handler(conn):
            conn.until(b"\r\n\r\n")
            try:
                conn.rest()
            except (ConnectionError, ssl.SSLError):
                pass
            gone.set()

        for how in ("close", "reset"):
            gone = threading.Event()
            origin = self.tls_origin(handler)
            client = self.inside(self.gateway(origin), origin)
            client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            origin.connection()
            time.sleep(0.1)
            getattr(client, how)()
            self.assertTrue(gone.wait(10), how)

    def test_draining(self):
        def respond(request):
            time.sleep(0.3)
            return answer()

        origin = self.https(respond)
        proxy = self.gateway(origin, timeouts={"drainMs": 5000})
        idle, busy = self.inside(proxy, origin), self.inside(proxy, origin)
        busy.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        origin.connection()
        time.sleep(0.1)
        stopping = threading.Thread(target=proxy.stop)
        stopping.start()
        self.orderly_end(idle)
        r = busy.response()
        self.assertEqual((r.status, r.closes), (200, True))
        self.orderly_end(busy)
        idle.close()
        busy.close()
        stopping.join(10)
