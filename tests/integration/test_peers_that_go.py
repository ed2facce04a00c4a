"""Peers that go while nothing is awaited from them, and what they leave behind."""

import socket
import threading

from harness import Forward
from harness.resources import descriptors, until


class PeersThatGo(Forward):
    """Chapter 20 sections 4, 6.3 and 13: an error ends both sides, an orderly end loses nothing."""

    def setUp(self):
        super().setUp()
        self.silence = threading.Event()
        self.addCleanup(self.silence.set)

    def silent(self, conn):
        conn.until(b"\r\n\r\n")
        self.silence.wait(60)

    def gateway(self, *origins, **timeouts):
        return self.proxy(*origins, timeouts={"deadPeerMs": 50, **timeouts})

    def freed(self, proxy, before):
        self.assertTrue(until(lambda: descriptors(proxy) <= before),
                        f"{descriptors(proxy)} descriptors, {before} before")

    def test_a_client_that_resets_after_its_request(self):
        """Half-closed first, so that nothing more is read from it."""
        origin = self.origin(self.silent)
        proxy = self.gateway(origin)
        before = descriptors(proxy)
        for kind in ("plain", "tunnel"):
            with self.subTest(kind):
                clients = [self.client(proxy) for _ in range(5)]
                for client in clients:
                    if kind == "tunnel":
                        self.assertEqual(client.connect(f"ok.test:{origin.port}").status, 200)
                    client.send(f"GET http://ok.test:{origin.port}/ HTTP/1.1\r\nHost: x\r\n\r\n")
                    client.half_close()
                self.assertTrue(until(lambda: descriptors(proxy) >= before + 10))
                for client in clients:
                    client.reset()
                self.freed(proxy, before)

    def test_a_client_that_resets_while_its_upload_is_stuck(self):
        origin = self.origin(self.silent)
        proxy = self.gateway(origin)
        before = descriptors(proxy)
        for kind in ("plain", "tunnel"):
            with self.subTest(kind):
                client = self.client(proxy)
                if kind == "tunnel":
                    self.assertEqual(client.connect(f"ok.test:{origin.port}").status, 200)
                client.send(f"POST http://ok.test:{origin.port}/ HTTP/1.1\r\nHost: x\r\n"
                            "Content-Length: 100000000\r\n\r\n")
                client.sock.settimeout(1)
                try:
                    while True:
                        client.sock.sendall(bytes(1 << 20))
                except TimeoutError:
                    pass  # everything on the way is full
                client.reset()
                self.freed(proxy, before)

    def test_an_upload_survives_the_end_of_its_client(self):
        """The origin has ended its side and reads late; the client sends all and ends in order."""
        size = 1 << 22
        got = []

        def handler(conn):
            conn.half_close()
            self.silence.wait(60)
            got.append(len(conn.rest()))

        origin = self.origin(handler)
        proxy = self.gateway(origin)
        client = self.client(proxy)
        self.assertEqual(client.connect(f"ok.test:{origin.port}").status, 200)
        self.assertTrue(client.ended())
        sender = threading.Thread(target=lambda: (client.send(bytes(size)), client.half_close()))
        sender.start()
        # Many looks at a connection that is shut on both sides and still holds bytes.
        self.silence.wait(1)
        self.silence.set()
        sender.join()
        origin.finished()
        self.assertEqual(got, [size])

    def test_no_lingering_is_an_end_too(self):
        proxy = self.gateway(lingerMs=0)
        before = descriptors(proxy)
        clients = [self.client(proxy) for _ in range(5)]
        for client in clients:
            self.assertEqual(client.connect("no.test:1").status, 403)
        self.freed(proxy, before)


class LeftBehind(Forward):
    def test_excess_bytes_are_never_anothers_answer(self):
        """Section 6.6: bytes past the declared length end the connection's use."""
        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\n"
                      "Content-Length: 6\r\n\r\npoison")
            conn.rest()

        origin = self.origin(handler)
        proxy = self.proxy(origin)
        for _ in range(3):
            with self.client(proxy) as client:
                self.assertEqual(client.get(f"http://ok.test:{origin.port}/").body, b"hello")
        self.assertEqual(len(origin.connections), 3)

    def test_trailers_named_by_connection(self):
        """Sections 6.4 and 6.6, either way."""
        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.until(b"\r\n\r\n")
            conn.send("HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nTransfer-Encoding: chunked\r\n\r\n"
                      "2\r\nok\r\n0\r\nX-Hop: secret\r\n\r\n")

        origin = self.origin(handler)
        client = self.client(self.proxy(origin))
        client.send(f"POST http://ok.test:{origin.port}/ HTTP/1.1\r\nHost: x\r\nConnection: X-One\r\n"
                    "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-One: secret\r\n\r\n")
        response = client.response()
        self.assertEqual(response.body, b"ok")
        self.assertEqual(response.trailers, [])
        self.assertNotIn(b"secret", origin.connection().received)

    def test_a_refused_body_of_unknown_length_says_close(self):
        client = self.client(self.proxy())
        client.send("POST http://no.test/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "5\r\nhello\r\n")
        response = client.response("POST")
        self.assertEqual(response.status, 403)
        self.assertTrue(response.closes)
        # One that is in whole keeps its connection.
        client = self.client(self.proxy())
        client.send("POST http://no.test/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "5\r\nhello\r\n0\r\n\r\n")
        self.assertFalse(client.response("POST").closes)
        self.assertEqual(client.get("http://no.test/").status, 403)

    def test_connect_and_fin_in_one_packet(self):
        """Section 4: nothing is dialled, and no verdict is written."""
        origin = self.http()
        proxy = self.proxy(origin)
        for target in (f"127.0.0.5:{origin.port}", "no.test:1"):
            with self.subTest(target):
                client = self.client(proxy)
                client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
                client.send(f"CONNECT {target} HTTP/1.1\r\n\r\n")
                client.half_close()
                self.assertEqual(client.rest(), b"")
        self.assertEqual(origin.connections, [])
