"""Requests that share connections, wait for 100, or turn into tunnels. Chapter 20 section 6."""

import threading
import time

from harness import Forward, quick


class Connections(Forward):
    """One client connection, several requests; one upstream connection, several answers."""

    def sequence(self, url):
        return [f"POST {url}/a HTTP/1.1\r\nHost: evil.test\r\nContent-Length: 5\r\n\r\nhello",
                f"GET {url.replace('ok.test', 'two.test')}/t HTTP/1.1\r\nHost: ok.test\r\n\r\n",
                "GET http://no.test/ HTTP/1.1\r\nHost: ok.test\r\n\r\n",
                f"GET {url}/b HTTP/1.1\r\nHost: no.test\r\n\r\n"]

    def check(self, statuses):
        self.assertEqual(statuses, [200, 200, 403, 200])
        self.assertEqual([(r.target, r.get("Host").split(":")[0]) for r in self.upstream.requests],
                         [("/a", "ok.test"), ("/t", "two.test"), ("/b", "ok.test")])

    @quick
    def test_step_by_step(self):
        client = self.start()
        statuses = []
        for text in self.sequence(self.url):
            client.send(text)
            statuses.append(client.response().status)
        self.check(statuses)

    @quick
    def test_pipelined(self):
        client = self.start()
        client.send("".join(self.sequence(self.url)))
        self.check([client.response().status for _ in range(4)])

    @quick
    def test_a_refusal_keeps_the_connection(self):
        client = self.start()
        r = self.post(client, "Content-Length: 5\r\n", b"hello")
        for path in ("1", "2"):
            client.send(f"POST http://no.test/{path} HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n"
                        "\r\nabc")
            r = client.response()
            self.assertEqual(r.status, 403)
            self.assertFalse(r.closes)
        client.send("POST http://no.test/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "3\r\nabc\r\n0\r\n\r\n")
        self.assertEqual(client.response().status, 403)
        self.assertEqual(client.get(self.url + "/z").status, 200)

    def test_idle_connections_are_closed(self):
        client = self.start(timeouts={"keepAliveMs": 300})
        self.assertEqual(client.get(self.url + "/").status, 200)
        self.assertTrue(client.ended())

    def test_the_clients_wish_to_close(self):
        client = self.start()
        r = client.get(self.url + "/", "Connection: close\r\n")
        self.assertTrue(r.closes)
        self.assertIsNone(r.get("Keep-Alive"))
        self.assertTrue(client.ended())

    def test_many_requests_in_a_row(self):
        client = self.start()
        for i in range(50):
            self.assertEqual(client.get(f"{self.url}/{i}").status, 200)
        self.assertEqual(self.upstream.targets(), [f"/{i}" for i in range(50)])

    def test_an_upstream_that_closes_after_each_answer(self):
        for how in ("fin", "reset"):
            with self.subTest(how):
                posts = []

                def handler(conn, how=how, posts=posts):
                    head = conn.until(b"\r\n\r\n")
                    if head.startswith(b"POST"):
                        posts.append(conn.exactly(2))
                    conn.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                    time.sleep(0.02)
                    if how == "reset":
                        conn.reset()

                origin = self.origin(handler)
                client = self.client(self.proxy(origin))
                url = f"http://ok.test:{origin.port}/"
                for text in ("GET", "GET", "POST", "POST", "GET"):
                    body = "Content-Length: 2\r\n\r\nhi" if text == "POST" else "\r\n"
                    client.send(f"{text} {url} HTTP/1.1\r\nHost: x\r\n{body}")
                    self.assertEqual(client.response().body, b"ok")
                    time.sleep(0.05)
                self.assertEqual(len(posts), 2)

    def test_a_post_on_a_dying_connection_is_never_sent_twice(self):
        posts = []

        def handler(conn):
            if conn.until(b"\r\n\r\n").startswith(b"POST"):
                posts.append(conn.exactly(2))
                conn.reset()
                return
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            if conn.until(b"\r\n\r\n").startswith(b"POST"):
                posts.append(conn.exactly(2))
            conn.reset()

        origin = self.origin(handler)
        proxy = self.proxy(origin)
        url = f"http://ok.test:{origin.port}/"
        client = self.client(proxy)
        self.assertEqual(client.get(url).status, 200)
        client.send(f"POST {url} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi")
        r = client.response()
        self.assertEqual(r.status, 502)
        self.assertEqual(posts, [b"hi"])
        client = self.client(proxy)
        self.assertEqual(client.get(url).status, 200)
        self.assertEqual(client.get(url).status, 200, "an idempotent request is tried once more")

    def test_early_answers(self):
        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.send("HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")
            conn.half_close()

        origin = self.origin(handler)
        proxy = self.proxy(origin)
        client = self.client(proxy)
        client.send(f"POST http://ok.test:{origin.port}/ HTTP/1.1\r\nHost: x\r\n"
                    "Content-Length: 50000000\r\n\r\n")
        broken = []

        def upload():
            try:
                for _ in range(50):
                    client.send(bytes(1000000))
            except OSError as error:
                broken.append(error)

        sender = threading.Thread(target=upload)
        sender.start()
        r = client.response()
        self.assertEqual((r.status, r.body), (413, b"big"))
        client.close()
        sender.join()


class Expect(Forward):
    def run_origin(self, handler):
        origin = self.origin(handler)
        client = self.client(self.proxy(origin))
        client.send(f"PUT http://ok.test:{origin.port}/ HTTP/1.1\r\nHost: x\r\n"
                    "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n")
        return origin, client

    @quick
    def test_the_upstreams_100_is_relayed(self):
        def handler(conn):
            head = conn.until(b"\r\n\r\n")
            self.assertIn(b"100-continue", head)
            conn.send("HTTP/1.1 100 Continue\r\n\r\n")
            conn.exactly(5)
            conn.send("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")

        origin, client = self.run_origin(handler)
        self.assertEqual(client.response(interim=True).status, 100)
        client.send("hello")
        self.assertEqual(client.response(interim=True).status, 201)
        self.assertTrue(origin.finished().received.endswith(b"hello"))

    def test_a_final_answer_instead(self):
        for status in (417, 413, 401):
            with self.subTest(status):
                def handler(conn, status=status):
                    conn.until(b"\r\n\r\n")
                    conn.send(f"HTTP/1.1 {status} No\r\nContent-Length: 2\r\n\r\nno")
                    conn.rest()

                origin, client = self.run_origin(handler)
                r = client.response(interim=True)
                self.assertEqual((r.status, r.body), (status, b"no"))
                client.close()
                self.assertTrue(origin.finished().received.endswith(b"\r\n\r\n"))

    def test_an_upstream_that_does_not_know_the_field(self):
        def handler(conn):
            conn.until(b"\r\n\r\n")
            self.assertEqual(conn.exactly(5), b"hello")
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        _, client = self.run_origin(handler)
        self.assertEqual(client.response(interim=True).status, 100)
        client.send("hello")
        self.assertEqual(client.response(interim=True).status, 200)

    @quick
    def test_a_refused_destination_is_not_asked_for_its_body(self):
        client = self.client(self.proxy())
        client.send("PUT http://no.test/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                    "Content-Length: 5\r\n\r\n")
        self.assertEqual(client.response(interim=True).status, 403)

    def test_a_client_that_does_not_wait(self):
        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.send("HTTP/1.1 100 Continue\r\n\r\n")
            conn.exactly(5)
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        _, client = self.run_origin(handler)
        client.send("hello")
        self.assertEqual(client.response().status, 200)


class Upgrade(Forward):
    FIELDS = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n"

    def request(self, handler, fields=FIELDS, **kw):
        origin = self.origin(handler)
        client = self.client(self.proxy(origin, **kw))
        client.send(f"GET http://ok.test:{origin.port}/ws HTTP/1.1\r\nHost: x\r\n{fields}\r\n")
        return origin, client

    @quick
    def test_101_opens_a_tunnel(self):
        def handler(conn):
            head = conn.until(b"\r\n\r\n").lower()
            self.assertIn(b"upgrade: websocket", head)
            self.assertIn(b"connection: upgrade", head)
            conn.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                      "Connection: Upgrade\r\nSec-WebSocket-Accept: a\r\n\r\n\x81\x02hi")
            conn.send(conn.exactly(300)[::-1])
            self.assertEqual(conn.rest(), b"last")
            conn.send("after the end")

        _, client = self.request(handler)
        r = client.response()
        self.assertEqual(r.status, 101)
        self.assertEqual(r.get("Upgrade"), "websocket")
        self.assertEqual(r.get("Sec-WebSocket-Accept"), "a")
        self.assertEqual(client.exactly(4), b"\x81\x02hi")
        data = bytes(range(256)) + bytes(44)
        client.send(data)
        self.assertEqual(client.exactly(300), data[::-1])
        client.send("last").half_close()
        self.assertEqual(client.rest(), b"after the end")

    def test_another_answer_is_an_ordinary_one(self):
        for status in (200, 426):
            with self.subTest(status):
                def handler(conn, status=status):
                    conn.until(b"\r\n\r\n")
                    conn.send(f"HTTP/1.1 {status} x\r\nContent-Length: 2\r\n\r\nno")
                    conn.rest()

                _, client = self.request(handler)
                r = client.response()
                self.assertEqual((r.status, r.body), (status, b"no"))
                client.send("GET http://no.test/ HTTP/1.1\r\nHost: x\r\n\r\n")
                self.assertEqual(client.response().status, 403)

    def test_h2c_is_not_passed_on(self):
        def handler(conn):
            head = conn.until(b"\r\n\r\n").lower()
            self.assertNotIn(b"upgrade", head)
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            conn.rest()

        _, client = self.request(handler, "Connection: Upgrade, HTTP2-Settings\r\n"
                                          "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAA\r\n")
        self.assertEqual(client.response().status, 200)

    def test_upgrade_without_connection_upgrade(self):
        def handler(conn):
            self.assertNotIn(b"\r\nupgrade", conn.until(b"\r\n\r\n").lower())
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            conn.rest()

        _, client = self.request(handler, "Upgrade: websocket\r\n")
        self.assertEqual(client.response().status, 200)

    def test_no_upgrade_where_tunnels_are_refused(self):
        def handler(conn):
            self.assertNotIn(b"\r\nupgrade", conn.until(b"\r\n\r\n").lower())
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            conn.rest()

        _, client = self.request(handler, refuseOpaqueTunnels=True)
        self.assertEqual(client.response().status, 200)
