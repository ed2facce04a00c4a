"""Plain requests in absolute form: what goes out. Chapter 20 sections 6.1 to 6.4."""

import hashlib
import threading

from harness import Forward, answer, quick


class Request(Forward):
    @quick
    def test_origin_form_and_the_right_host(self):
        client = self.start()
        r = client.get(self.url.replace("ok.test", "OK.Test.") + "/p/q?x=1&y=%20#frag")
        self.assertEqual((r.status, r.body), (200, b"hello\n"))
        self.assertEqual(self.last().target, "/p/q?x=1&y=%20")
        self.assertEqual(self.last().version, "HTTP/1.1")
        self.assertEqual(self.last().all("Host"), [f"ok.test:{self.upstream.port}"])

    def test_targets(self):
        client = self.start()
        for sent, got in (("", "/"), ("/", "/"), ("?q", "/?q"), ("/a/../b", "/b"),
                          ("/a/./b/", "/a/b/"), ("/a/%2e%2E/b", "/b"), ("/../../x", "/x"),
                          ("/a/b/..", "/a/"), ("/a%2Fb", "/a%2Fb"), ("/a;b//c", "/a;b//c"),
                          ("//a", "//a"), ("/a?b/../c", "/a?b/../c"), ("/%zz", "/%zz"),
                          ("/a?", "/a"), ("#f", "/"), ("/a\\b", "/a/b")):
            with self.subTest(sent):
                self.assertEqual(client.get(self.url + sent).status, 200)
                self.assertEqual(self.last().target, got)

    def test_userinfo_is_not_passed_on(self):
        client = self.start()
        client.get(self.url.replace("ok.test", "user:pa@ss@ok.test") + "/u")
        self.assertEqual(self.last().target, "/u")
        self.assertNotIn("pa@ss", repr(self.last()))
        self.assertEqual(self.last().get("Authorization"), None)

    @quick
    def test_hop_by_hop_fields_stay_here(self):
        client = self.start()
        r = client.get(self.url + "/", (
            "Proxy-Authorization: Basic c3J0OnNlY3JldA==\r\nPROXY_AUTHORIZATION: secret\r\n"
            "proxy.authorization: secret\r\nProxy-Connection: keep-alive\r\nKeep-Alive: 300\r\n"
            "TE: trailers\r\nTrailer: X\r\nUpgrade: foo\r\nConnection: close, X-One ,x-two\r\n"
            "Proxy-Authenticate: x\r\nX-One: 1\r\nX-TWO: 2\r\nX-Three: 3\r\n"))
        self.assertEqual(r.status, 200)
        self.assertTrue(r.closes)
        self.assertEqual([n for n in self.last().names if n != "connection"], ["host", "x-three"])
        self.assertNotIn(b"secret", self.last().head)

    def test_nothing_is_added_and_order_and_spelling_stay(self):
        client = self.start()
        client.get(self.url + "/", "X-b: 1\r\naCCept: */*\r\nX-A: 2\r\nX-b: 3\r\nX-Bytes: \xe9\xff\r\n")
        fields = [(n, v) for n, v in self.last().fields if n.lower() not in ("host", "connection")]
        self.assertEqual([n for n, _ in fields if n != "X-b"], ["aCCept", "X-A", "X-Bytes"])
        self.assertEqual(", ".join(v for n, v in fields if n == "X-b"), "1, 3")
        self.assertEqual(dict(fields)["X-Bytes"], "\xe9\xff")
        for name in ("via", "x-forwarded-for", "forwarded", "x-real-ip"):
            self.assertNotIn(name, self.last().names)

    def test_fields_that_may_occur_once(self):
        client = self.start()
        client.get(self.url + "/", "Authorization: a\r\nauthorization: b\r\nUser-Agent: one\r\n"
                                   "User-Agent: two\r\nCookie: a=1\r\nCookie: b=2\r\n")
        self.assertEqual(self.last().all("Authorization"), ["a"])
        self.assertEqual(self.last().all("User-Agent"), ["one"])
        self.assertEqual(self.last().all("Cookie"), ["a=1; b=2"])

    def test_http_1_0_client(self):
        client = self.start()
        client.send(f"GET {self.url}/ HTTP/1.0\r\n\r\n")
        r = client.response()
        self.assertEqual((r.status, r.body), (200, b"hello\n"))
        self.assertTrue(r.closes)
        self.assertTrue(client.ended())

    def test_methods_that_usually_have_a_body(self):
        client = self.start()
        for method, length in (("POST", "0"), ("PUT", "0"), ("PATCH", "0"), ("GET", None),
                               ("HEAD", None)):
            with self.subTest(method):
                client.get(self.url + "/", method=method)
                self.assertEqual(self.last().get("Content-Length"), length)
                self.assertEqual(self.last().get("Transfer-Encoding"), None)

    @quick
    def test_targets_that_are_refused(self):
        proxy = self.proxy()
        for line in ("GET /path HTTP/1.1", "GET * HTTP/1.1", "OPTIONS * HTTP/1.1",
                     "GET ftp://ok.test/ HTTP/1.1", "GET ws://ok.test/ HTTP/1.1",
                     "GET http:///a HTTP/1.1", "GET http:/ok.test/ HTTP/1.1",
                     "GET http://:80/ HTTP/1.1", "GET http://ok.test:0/ HTTP/1.1",
                     "GET http://ok.test:65536/ HTTP/1.1", "GET http://ok.test:a/ HTTP/1.1",
                     "GET http://[::1/ HTTP/1.1", "GET http://::1/ HTTP/1.1",
                     "GET http://[ok.test]/ HTTP/1.1", "GET http://[::1%25lo]/ HTTP/1.1",
                     "GET ok.test:80 HTTP/1.1"):
            with self.subTest(line):
                client = self.client(proxy).send(f"{line}\r\nHost: ok.test\r\n\r\n")
                self.assertEqual(client.response().status, 400)

    def test_ipv6_literal_in_the_target(self):
        origin = self.http(host="::1")
        r = self.client(self.proxy(origin)).get(f"http://[0:0::1]:{origin.port}/")
        self.assertEqual(r.status, 200)
        self.assertEqual(origin.requests[0].get("Host"), f"[::1]:{origin.port}")

    def test_scheme_in_any_case(self):
        client = self.start()
        self.assertEqual(client.get(self.url.replace("http", "HTTP") + "/").status, 200)


class Bodies(Forward):
    @quick
    def test_chunked_with_trailers(self):
        client = self.start()
        r = self.post(client, "Transfer-Encoding: chunked\r\n",
                      b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX-Sum: 5\r\nContent-Length: 9\r\n\r\n")
        self.assertEqual(r.status, 200)
        self.assertEqual(self.last().body, b"abcde")
        self.assertEqual(self.last().trailers, [("X-Sum", "5")])
        r = self.post(client, "Transfer-Encoding: chunked\r\n", b"0\r\n\r\n", method="OPTIONS")
        self.assertEqual(r.status, 200)
        self.assertEqual(self.last().body, b"")

    def test_a_body_streams_as_it_comes(self):
        seen = []

        def handler(conn):
            conn.until(b"\r\n\r\n")
            for _ in range(3):
                conn.until(b"part\r\n")
                seen.append("part")
                arrived.release()
            conn.until(b"0\r\n\r\n")
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        arrived = threading.Semaphore(0)
        origin = self.origin(handler)
        client = self.client(self.proxy(origin))
        client.send(f"POST http://ok.test:{origin.port}/ HTTP/1.1\r\nHost: x\r\n"
                    "Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(3):
            client.send("4\r\npart\r\n")
            self.assertTrue(arrived.acquire(timeout=30), "the chunk did not arrive by itself")
        client.send("0\r\n\r\n")
        self.assertEqual(client.response().status, 200)

    def test_many_small_chunks(self):
        client = self.start()
        data = bytes(i % 251 for i in range(100000))
        wire = b"".join(b"1\r\n" + data[i : i + 1] + b"\r\n" for i in range(len(data)))
        r = self.post(client, "Transfer-Encoding: chunked\r\n", wire + b"0\r\n\r\n")
        self.assertEqual(r.status, 200)
        self.assertEqual(self.last().body, data)

    def test_a_large_upload_and_download(self):
        body = bytes(range(256)) * 80000
        client = self.start(lambda r: answer(r.body))
        sender = threading.Thread(target=lambda: client.send(
            f"PUT {self.url}/ HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body))
        sender.start()
        r = client.response()
        sender.join()
        self.assertEqual(hashlib.sha256(r.body).digest(), hashlib.sha256(body).digest())

    def test_a_client_that_half_closes_gets_its_answer(self):
        client = self.start()
        client.send(f"GET {self.url}/ HTTP/1.1\r\nHost: x\r\n\r\n").half_close()
        self.assertEqual(client.response().body, b"hello\n")

    def test_a_body_cut_short_is_not_completed(self):
        ended = []

        def handler(conn):
            conn.until(b"\r\n\r\n")
            ended.append(conn.rest())

        origin = self.origin(handler)
        client = self.client(self.proxy(origin))
        client.send(f"POST http://ok.test:{origin.port}/ HTTP/1.1\r\nHost: x\r\n"
                    "Transfer-Encoding: chunked\r\n\r\n5\r\nhel")
        origin.connection()
        client.half_close()
        client.rest()
        origin.finished()
        self.assertNotIn(b"0\r\n\r\n", b"".join(ended))
