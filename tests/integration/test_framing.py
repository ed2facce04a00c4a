"""Where a request ends, and everything that could be read two ways. Chapter 20 section 6.1."""

import time

from harness import Case, quick

EVIL = "GET http://ok.test:PORT/evil HTTP/1.1\r\nHost: x\r\n\r\n"


class Framing(Case):
    def setUp(self):
        super().setUp()
        self.upstream = self.http()
        self.gateway = self.proxy(self.upstream)

    def base(self):
        return f"http://ok.test:{self.upstream.port}"

    def send(self, head, body=""):
        """A head of lines (the request line's URL made absolute) and a body, in one write."""
        text = head.replace("URL", self.base()) + body.replace("PORT", str(self.upstream.port))
        return self.client(self.gateway).send(text.encode("latin-1"))

    def rejected(self, client):
        """400 with Connection: close and nothing behind it."""
        r = client.response()
        self.assertEqual(r.status, 400, r)
        self.assertTrue(r.closes, r)
        self.assertEqual(r.body, b"")
        self.assertEqual(client.rest(), b"")

    def post(self, fields, body, method="POST"):
        return self.send(f"{method} URL/a HTTP/1.1\r\nHost: ok.test\r\n{fields}\r\n", body)

    @quick
    def test_ambiguous_framing_fields(self):
        for fields in (
            "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
            "Content-Length: 4\r\nContent-Length: 5\r\n",
            "Content-Length: 4\r\nContent-Length: 4\r\n",
            "Content-Length: 4, 4\r\n",
            "Content-Length: 4, 5\r\n",
            "Content-Length: +4\r\n",
            "Content-Length: -4\r\n",
            "Content-Length: 0x4\r\n",
            "Content-Length: 4 4\r\n",
            "Content-Length: \r\n",
            "Content-Length: 4.0\r\n",
            "Content-Length: 18446744073709551620\r\n",
            "Content-Length: 99999999999999999999999999\r\n",
            "Transfer-Encoding: chunked,\r\n",
            "Transfer-Encoding: ,chunked\r\n",
            "Transfer-Encoding: chunked, chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: chunked, gzip\r\n",
            "Transfer-Encoding: gzip\r\n",
            "Transfer-Encoding: identity\r\n",
            "Transfer-Encoding: xchunked\r\n",
            "Transfer-Encoding: \x0bchunked\r\n",
            "Transfer-Encoding: chunked;q=1\r\n",
            "Transfer-Encoding: \"chunked\"\r\n",
            "Transfer-Encoding:\r\n",
            "Transfer-Encoding : chunked\r\n",
            "Content-Length : 4\r\n",
            "Transfer-Encoding:\r\n chunked\r\n",
        ):
            with self.subTest(fields):
                self.rejected(self.post(fields, "0\r\n\r\n" + EVIL))
        self.assertEqual(self.upstream.requests, [])

    @quick
    def test_malformed_lines(self):
        for head in (
            "GET URL/a HTTP/1.1\nHost: x\n\n",
            "GET URL/a HTTP/1.1\r\nHost: x\nX: 1\r\n\r\n",
            "GET URL/a HTTP/1.1\r\nHost: x\r\nX: 1\rY: 2\r\n\r\n",
            "GET URL/a HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n",
            "GET URL/a HTTP/1.1\r\nHost: x\r\n\tX: a\r\n\r\n",
            "GET URL/a HTTP/1.1\r\n Host: x\r\n\r\n",
            "GET URL/a HTTP/1.1\r\nHost: x\r\n: a\r\n\r\n",
            "GET URL/a HTTP/1.1\r\nHost: x\r\nX Y: a\r\n\r\n",
            "GET URL/a HTTP/1.1\r\nHost: x\r\nX(: a\r\n\r\n",
            "GET URL/a HTTP/1.1\r\nHost: x\r\nX\xe9: a\r\n\r\n",
            "GET URL/a HTTP/1.1\r\nHost: x\r\nnocolon\r\n\r\n",
            "GET URL/a HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n",
            "GET URL/a HTTP/1.1\r\nHost: x\r\nX: a\x01b\r\n\r\n",
            "GET URL/a HTTP/1.1\r\nHost: x\r\nX: a\x7fb\r\n\r\n",
            "GET URL/a HTTP/1.2\r\nHost: x\r\n\r\n",
            "GET URL/a HTTP/2.0\r\nHost: x\r\n\r\n",
            "GET URL/a HTTP/0.9\r\nHost: x\r\n\r\n",
            "GET URL/a http/1.1\r\nHost: x\r\n\r\n",
            "GET URL/a HTTP/1.1 \r\nHost: x\r\n\r\n",
            "GET URL/a HTTP/1.10\r\nHost: x\r\n\r\n",
            "GET URL/a\r\nHost: x\r\n\r\n",
            "GET  URL/a HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET URL/a  HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET\tURL/a HTTP/1.1\r\nHost: x\r\n\r\n",
            " GET URL/a HTTP/1.1\r\nHost: x\r\n\r\n",
            "G(T URL/a HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET URL/a b HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET URL/\xe9 HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET URL/\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET URL/\x7f HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET URL/a HTTP/1.1\r\n\r\n",
        ):
            with self.subTest(head):
                self.rejected(self.send(head, EVIL))
        self.assertEqual(self.upstream.requests, [])

    def test_authority_characters(self):
        for c in '"<>\\^{|}`':
            with self.subTest(c):
                client = self.send(f"GET http://ok{c}.test/ HTTP/1.1\r\nHost: x\r\n\r\n")
                self.rejected(client)

    @quick
    def test_malformed_chunks(self):
        for body in ("0x5\r\nhello\r\n0\r\n\r\n", " 5\r\nhello\r\n0\r\n\r\n", "-1\r\n\r\n",
                     "+5\r\nhello\r\n0\r\n\r\n", "5\nhello\n0\n\n", "5\r\nhelloX\r\n0\r\n\r\n",
                     "5\r\nhello\n0\r\n\r\n", "\r\n", "g\r\n", "5;a\nhello\r\n0\r\n\r\n",
                     "00000000000000005\r\nhello\r\n0\r\n\r\n".replace("0000", "ffff", 1),
                     "10000000000000000\r\nhello\r\n0\r\n\r\n", "5;\x00\r\nhello\r\n0\r\n\r\n",
                     "5\r\nhello\r\n0\r\nBad Trailer: 1\r\n\r\n"):
            with self.subTest(body):
                client = self.post("Transfer-Encoding: chunked\r\n", body + EVIL)
                answer = client.rest()
                if answer:
                    self.assertTrue(answer.startswith(b"HTTP/1.1 400 "), answer)
                    self.assertEqual(answer.count(b"HTTP/1.1"), 1)
        self.assertNotIn("/evil", self.upstream.targets())

    def test_legal_spellings(self):
        for fields in ("Transfer-Encoding: chunked\r\n", "Transfer-Encoding: Chunked\r\n",
                       "transfer-encoding: CHUNKED\r\n", "Transfer-Encoding: \t chunked \t \r\n",
                       "TRANSFER-ENCODING:chunked\r\n"):
            for body in ("5\r\nhello\r\n0\r\n\r\n", "05\r\nhello\r\n000\r\n\r\n",
                         "5;ext\r\nhello\r\n0;x=\"y z\"\r\n\r\n", "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"):
                with self.subTest((fields, body)):
                    client = self.post(fields, body)
                    self.assertEqual(client.response().status, 200)
                    self.assertEqual(self.upstream.requests[-1].body, b"hello")

    def test_leading_empty_lines_are_no_licence_to_wait_forever(self):
        client = self.client(self.gateway).send("\r\n" * 40000)
        try:
            client.send("\r\n" * 40000)
        except ConnectionError:
            pass
        answer = client.rest()
        self.assertTrue(answer.startswith(b"HTTP/1.1 4") or answer == b"", answer[:80])

    def test_bodies_on_any_method(self):
        for method in ("GET", "HEAD", "DELETE", "OPTIONS", "PURGE", "get", "M-SEARCH"):
            with self.subTest(method):
                client = self.post("Content-Length: 5\r\n", "hello", method)
                self.assertEqual(client.response(method).status, 200)
                self.assertEqual(self.upstream.requests[-1].method, method)
                self.assertEqual(self.upstream.requests[-1].body, b"hello")

    def test_a_body_is_never_a_request(self):
        hidden = EVIL.replace("PORT", str(self.upstream.port))
        client = self.post(f"Content-Length: {len(hidden)}\r\n", hidden)
        self.assertEqual(client.response().status, 200)
        self.assertEqual(client.get(self.base() + "/b").status, 200)
        self.assertEqual(self.upstream.targets(), ["/a", "/b"])

    def test_no_length_means_no_body(self):
        client = self.post("", "")
        self.assertEqual(client.response().status, 200)
        r = self.upstream.requests[0]
        self.assertEqual((r.get("Content-Length"), r.body), ("0", b""))

    def test_a_length_named_in_connection_is_still_framed(self):
        client = self.post("Content-Length: 5\r\nConnection: content-length\r\n", "hello")
        self.assertEqual(client.response().status, 200)
        r = self.upstream.requests[0]
        self.assertEqual(r.body, b"hello")
        self.assertEqual(r.get("Transfer-Encoding"), "chunked")

    def test_a_parse_error_waits_for_the_answer_before_it(self):
        def slow(request):
            time.sleep(0.3)
            return b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst"

        origin = self.http(slow)
        proxy = self.proxy(origin)
        url = f"http://ok.test:{origin.port}/"
        client = self.client(proxy).send(
            f"GET {url} HTTP/1.1\r\nHost: x\r\n\r\nnonsense\r\n\r\n")
        r = client.response()
        self.assertEqual((r.status, r.body), (200, b"first"))
        left = client.rest()
        self.assertTrue(left == b"" or left.startswith(b"HTTP/1.1 400 "), left)

    def test_expect_other_than_100_continue(self):
        client = self.post("Expect: 200-ok\r\nContent-Length: 2\r\n", "hi")
        r = client.response()
        self.assertEqual((r.status, r.body), (417, b""))
        self.assertTrue(client.ended())
        self.assertEqual(self.upstream.requests, [])


class Heads(Case):
    """Long heads and slow ones."""

    def setUp(self):
        super().setUp()
        self.upstream = self.http()
        self.gateway = self.proxy(self.upstream)
        self.url = f"http://ok.test:{self.upstream.port}"

    def test_long_ones_below_the_limit(self):
        client = self.client(self.gateway)
        self.assertEqual(client.get(self.url + "/", "Cookie: " + "c" * 20000 + "\r\n").status, 200)
        self.assertEqual(client.get(self.url + "/", "Cookie: " + "c" * 60000 + "\r\n").status, 200)
        self.assertEqual(client.get(self.url + "/" + "u" * 8000).status, 200)
        self.assertEqual(client.get(self.url + "/" + "u" * 60000).status, 200)
        lines = "".join(f"X-{i}: {i}\r\n" for i in range(300))
        self.assertEqual(client.get(self.url + "/", lines).status, 200)
        self.assertEqual(len([n for n in self.upstream.requests[-1].names if n[:2] == "x-"]), 300)
        self.assertEqual(len(self.upstream.requests[1].get("Cookie")), 60000)

    @quick
    def test_over_the_limit_is_431_with_a_body(self):
        for fields, path in (("Cookie: " + "c" * 70000 + "\r\n", "/"), ("", "/" + "u" * 200000)):
            client = self.client(self.gateway)
            head = f"GET {self.url}{path} HTTP/1.1\r\nHost: x\r\n{fields}\r\n"
            client.send(head)
            r = client.response()
            self.assertEqual(r.status, 431)
            self.assertEqual(r.text.strip(), "request head larger than 65536 bytes")
            self.assertTrue(r.closes)
            self.assertEqual(client.rest(), b"")
        self.assertEqual(self.upstream.requests, [])

    def test_the_limit_is_a_setting(self):
        proxy = self.proxy(self.upstream, limits={"requestHeadBytes": 2048})
        self.assertEqual(self.client(proxy).get(self.url + "/" + "u" * 1000).status, 200)
        r = self.client(proxy).get(self.url + "/" + "u" * 3000)
        self.assertEqual((r.status, r.text.strip()), (431, "request head larger than 2048 bytes"))

    def test_one_byte_at_a_time(self):
        client = self.client(self.gateway)
        client.send_slowly(f"GET {self.url}/slow HTTP/1.1\r\nHost: x\r\nX-A: b\r\n\r\n".encode())
        self.assertEqual(client.response().status, 200)
        self.assertEqual(self.upstream.targets(), ["/slow"])
