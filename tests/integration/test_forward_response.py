"""What comes back from an origin, and what is answered instead. Chapter 20 section 6.6."""

import threading

from harness import Forward, quick


class Responses(Forward):
    def through(self, raw, method="GET", close=True, version="1.1", fields="", **kw):
        """One request to an origin that answers with these bytes; the client and what it reads."""
        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.send(raw)
            if not close:
                conn.rest()

        origin = self.origin(handler)
        client = self.client(self.proxy(origin, **kw))
        client.send(f"{method} http://ok.test:{origin.port}/ HTTP/{version}\r\nHost: x\r\n"
                    f"{fields}\r\n")
        return client

    @quick
    def test_status_phrase_and_fields(self):
        client = self.through(
            "HTTP/1.1 299 Odd Thing\r\nx-Lower: 1\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n"
            "Connection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=99\r\nProxy-Authenticate: Basic\r\n"
            "Server: one\r\nServer: two\r\nContent-Length: 2\r\n\r\nok")
        r = client.response()
        self.assertEqual((r.status, r.phrase, r.body), (299, "Odd Thing", b"ok"))
        self.assertIn(("x-Lower", "1"), r.fields)
        self.assertEqual(r.all("Set-Cookie"), ["a", "b"])
        self.assertEqual(r.all("Server"), ["one"])
        self.assertIsNone(r.get("X-Hop"))
        self.assertIsNone(r.get("Proxy-Authenticate"))
        self.assertEqual(r.get("Keep-Alive"), "timeout=5")
        self.assertEqual(r.get("Connection").lower(), "keep-alive")
        self.assertEqual(len(r.all("Date")), 1)

    def test_the_upstreams_date_stays(self):
        client = self.through("HTTP/1.1 200 OK\r\nDate: then\r\nContent-Length: 0\r\n\r\n")
        self.assertEqual(client.response().all("Date"), ["then"])

    def test_an_empty_phrase_and_unusual_codes(self):
        for line, status in (("HTTP/1.1 204 ", 204), ("HTTP/1.0 999 x", 999), ("HTTP/1.1 200", 200)):
            with self.subTest(line):
                r = self.through(line + "\r\nContent-Length: 0\r\n\r\n").response()
                self.assertEqual(r.status, status)

    @quick
    def test_a_body_that_runs_to_the_end(self):
        client = self.through("HTTP/1.1 200 OK\r\n\r\nuntil the end")
        r = client.response()
        self.assertEqual(r.get("Transfer-Encoding"), "chunked")
        self.assertEqual(r.body, b"until the end")
        client = self.through("HTTP/1.1 200 OK\r\n\r\nuntil the end", version="1.0")
        r = client.response()
        self.assertIsNone(r.get("Transfer-Encoding"))
        self.assertEqual(r.body, b"until the end")

    def test_chunked_with_trailers(self):
        raw = ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
               "3;e=1\r\nabc\r\n0\r\nX-T: 1\r\nConnection: no\r\n\r\n")
        r = self.through(raw, close=False).response()
        self.assertEqual((r.body, r.trailers), (b"abc", [("X-T", "1")]))
        r = self.through(raw, version="1.0").response()
        self.assertEqual(r.body, b"abc")
        self.assertIsNone(r.get("Transfer-Encoding"))

    @quick
    def test_no_body(self):
        for method, raw in (("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"),
                            ("GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 1000\r\n\r\n"),
                            ("GET", "HTTP/1.1 204 No Content\r\n\r\n")):
            with self.subTest((method, raw)):
                client = self.through(raw, method=method, close=False)
                r = client.response(method)
                if "1000" in raw:
                    self.assertEqual(r.get("Content-Length"), "1000")
                # the connection is ready for the next request at once
                client.send("GET http://no.test/ HTTP/1.1\r\nHost: x\r\n\r\n")
                self.assertEqual(client.response().status, 403)

    @quick
    def test_heads_that_cannot_be_relayed(self):
        for raw in ("HTTP/1.1 99 x\r\n\r\n", "HTTP/1.1 1000 x\r\n\r\n", "HTTP/1.1 2OO x\r\n\r\n",
                    "HTTP/2 200 x\r\n\r\n", "nonsense\r\n\r\n", "HTTP/1.1 200 OK\n\n",
                    "HTTP/1.1 200 OK\r\nX: a\n\r\n", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
                    "HTTP/1.1 200 OK\r\nX : a\r\n\r\n", "HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n",
                    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
                    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "0\r\n\r\n",
                    "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nx",
                    "HTTP/1.1 200 OK\r\nX: " + "x" * 70000 + "\r\n\r\n",
                    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
                    ""):
            with self.subTest(raw[:90]):
                r = self.through(raw).response()
                self.assertEqual(r.status, 502, r)
                self.assertEqual(r.body, b"Bad Gateway")
                self.assertEqual(r.get("Content-Type"), "text/plain")
                self.assertEqual(r.get("X-Proxy-Error"), "upstream-protocol")

    @quick
    def test_a_truncated_body_never_looks_complete(self):
        for raw in (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
                    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
                    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nzz\r\n",
                    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf"):
            with self.subTest(raw):
                data = self.through(raw).rest()
                self.assertTrue(data == b"" or data.startswith(b"HTTP/1.1 200 OK\r\n"), data)
                self.assertFalse(data.endswith(b"0\r\n\r\n"), data)
                self.assertNotIn(b"Content-Length: 4\r\n", data)

    def test_interim_responses(self):
        raw = ("HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </s>\r\n\r\n"
               "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        client = self.through(raw)
        r = client.response(interim=True)
        self.assertEqual((r.status, r.get("Link")), (103, "</s>"))
        self.assertEqual(client.response(interim=True).status, 200)
        client = self.through(raw, version="1.0")
        self.assertEqual(client.response(interim=True).status, 200)

    def test_interim_responses_are_bounded(self):
        client = self.through("HTTP/1.1 103 Early Hints\r\n\r\n" * 200
                              + "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        self.assertEqual(client.response().status, 502)

    def test_bytes_behind_the_answer_are_not_the_next_one(self):
        client = self.through("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n"
                              "Content-Length: 4\r\n\r\nevil", close=False)
        self.assertEqual(client.response().body, b"ok")
        client.send("GET http://no.test/ HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertEqual(client.response().status, 403)

    def test_strip_response_headers(self):
        r = self.through("HTTP/1.1 200 OK\r\nX-Internal: 1\r\nx_internal: 2\r\nX.INTERNAL: 3\r\n"
                         "X-Other: 4\r\nContent-Length: 0\r\n\r\n",
                         stripResponseHeaders=["X-Internal"]).response()
        self.assertNotIn("internal", r.head.decode().lower())
        self.assertEqual(r.get("X-Other"), "4")

    def test_events_come_one_by_one(self):
        go = threading.Semaphore(0)

        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                      "Transfer-Encoding: chunked\r\n\r\n")
            for _ in range(5):
                conn.send("8\r\ndata: x\n\r\n")
                if not go.acquire(timeout=30):
                    return
            conn.send("0\r\n\r\n")

        origin = self.origin(handler)
        client = self.client(self.proxy(origin))
        client.send(f"GET http://ok.test:{origin.port}/ HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertEqual(client.head().status, 200)
        for _ in range(5):
            client.until(b"data: x\n")  # the next is sent only after this one was read
            go.release()
        client.until(b"0\r\n\r\n")


class Trouble(Forward):
    def test_502_by_class(self):
        port = self.closed_port()
        proxy = self.proxy(allowed=["ok.test", "*.wild.test", f"127.0.0.5:{port}"])
        client = self.client(proxy)
        r = client.get(f"http://ok.test:{port}/")
        self.assertEqual((r.status, r.phrase, r.body), (502, "Bad Gateway", b"Bad Gateway"))
        self.assertEqual(r.get("X-Proxy-Error"), "upstream-refused")
        self.assertNotIn(b"127.0.0.5", r.head + r.body)

    def test_a_client_that_leaves_ends_its_request(self):
        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.rest()

        origin = self.origin(handler)
        proxy = self.proxy(origin)
        client = self.client(proxy)
        client.send(f"GET http://ok.test:{origin.port}/ HTTP/1.1\r\nHost: x\r\n\r\n")
        origin.connection()
        client.reset()
        origin.finished()

    def test_a_body_that_stops_moving(self):
        client = self.start(timeouts={"requestBodyMs": 300})
        client.send(f"POST {self.url}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")
        data = client.rest()
        self.assertTrue(data == b"" or data.startswith(b"HTTP/1.1 400 "), data)

    def test_host_mismatch(self):
        client = self.start(requireHostMatch=True)
        port = self.upstream.port
        for host in ("two.test", "ok.test", f"OK.TEST:{port}", f"ok.test:{port}1", "", "ok.test:",
                     f"ok.test.:{port}"):
            with self.subTest(host):
                client.send(f"GET {self.url}/ HTTP/1.1\r\nHost: {host}\r\n\r\n")
                r = client.response()
                if host == f"OK.TEST:{port}":
                    self.assertEqual(r.status, 200)
                else:
                    self.assertEqual(r.status, 421)
                    self.assertEqual(r.get("X-Proxy-Error"), "blocked-by-sandbox-runtime")
                    self.assertEqual(r.text, "Host header does not match the request target\n")
