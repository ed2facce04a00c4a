"""Parent proxies: chapter 20 section 8."""

from harness import Forward


class NextHops(Forward):
    def parent(self, handler, **kw):
        self.hop = self.origin(handler, host="127.0.0.7")
        network = {"http": f"http://u%3A1:p%40@127.0.0.7:{self.hop.port}"}
        network.update(kw)
        return self.proxy(parentProxy=network)

    def test_connect(self):
        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.send("HTTP/1.0 299 fine\r\nX: y\r\n\r\nhello")
            conn.send(conn.exactly(4))

        proxy = self.parent(handler)
        client = self.client(proxy)
        self.assertEqual(client.connect("OK.test:8443", ahead=b"ping").status, 200)
        self.assertEqual(client.exactly(9), b"helloping")
        self.assertEqual(self.hop.finished().received.split(b"ping")[0],
                         b"CONNECT ok.test:8443 HTTP/1.1\r\nHost: ok.test:8443\r\n"
                         b"Proxy-Authorization: Basic dToxOnBA\r\n\r\n")
        self.assertEqual(self.dns.asked("ok.test"), [])

    def test_plain_requests_in_absolute_form(self):
        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            conn.rest()

        proxy = self.parent(handler)
        r = self.client(proxy).get("http://ok.test/x/../y?z", "Proxy-Authorization: Basic bXk=\r\n")
        self.assertEqual(r.body, b"ok")
        head = self.hop.connection().received.decode()
        self.assertTrue(head.startswith("GET http://ok.test/y?z HTTP/1.1\r\n"), head)
        self.assertIn("Host: ok.test\r\n", head)
        self.assertIn("Proxy-Authorization: Basic dToxOnBA\r\n", head)
        self.assertNotIn("bXk=", head)

    def test_policy_comes_first(self):
        proxy = self.parent(lambda conn: None)
        self.assertEqual(self.client(proxy).connect("no.test:443").status, 403)
        self.assertEqual(self.client(proxy).get("http://no.test/").status, 403)
        self.assertEqual(self.hop.connections, [])

    def test_a_parent_that_refuses(self):
        for raw in ("HTTP/1.1 407 Auth\r\nProxy-Authenticate: Basic\r\n\r\n", "HTTP/1.1 403 No\r\n\r\n",
                    "nonsense\r\n\r\n", "", "HTTP/1.1 200 OK\r\nX: " + "x" * 70000):
            with self.subTest(raw[:40]):
                def handler(conn, raw=raw):
                    conn.until(b"\r\n\r\n")
                    conn.send(raw)

                proxy = self.parent(handler)
                r = self.client(proxy).connect("ok.test:443")
                self.assertEqual((r.status, r.get("X-Proxy-Error")), (502, "upstream-parent"))

    def test_a_parents_407_to_a_plain_request(self):
        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.send("HTTP/1.1 407 Auth\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n")

        r = self.client(self.parent(handler)).get("http://ok.test/")
        self.assertEqual((r.status, r.get("X-Proxy-Error")), (502, "upstream-parent"))
        self.assertIsNone(r.get("Proxy-Authenticate"))

    def test_a_dead_parent_is_no_reason_to_go_directly(self):
        origin = self.http()
        proxy = self.proxy(origin, parentProxy={"http": f"http://127.0.0.7:{self.closed_port('127.0.0.7')}"})
        r = self.client(proxy).get(f"http://ok.test:{origin.port}/")
        self.assertEqual(r.status, 502)
        r = self.client(proxy).connect(f"ok.test:{origin.port}")
        self.assertEqual(r.status, 502)
        self.assertEqual(origin.connections, [])

    def test_no_proxy(self):
        origin = self.http()
        hop = self.origin(lambda conn: None, host="127.0.0.7")
        proxy = self.proxy(origin, parentProxy={
            "http": f"http://127.0.0.7:{hop.port}", "noProxy": "two.test, .wild.test:1,127.0.0.0/8"})
        client = self.client(proxy)
        for host in ("two.test", "a.wild.test", "127.0.0.5"):
            self.assertEqual(client.get(f"http://{host}:{origin.port}/").status, 200)
        self.assertEqual(self.client(proxy).connect(f"two.test:{origin.port}").status, 200)
        self.assertEqual(hop.connections, [])

    def test_the_parent_of_the_environment(self):
        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

        hop = self.origin(handler, host="127.0.0.7")
        proxy = self.proxy(env={"HTTP_PROXY": f"127.0.0.7:{hop.port}", "http_proxy": "bad"})
        self.assertEqual(self.client(proxy).get("http://ok.test/").status, 200)
        self.assertEqual(len(hop.connections), 1)
