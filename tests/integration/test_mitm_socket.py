"""The MITM socket: chapter 20 section 8.3."""

from harness import Forward


class MitmSocket(Forward):
    def through(self, handler):
        path = str(self.directory / "mitm")
        self.hop = self.origin(handler, host=path)
        return self.proxy(mitmProxy={"socketPath": path, "domains": ["ok.test", "*.wild.test"]})

    def test_connect(self):
        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.send("HTTP/1.1 200 fine\r\n\r\nhello")
            conn.send(conn.exactly(4))

        client = self.client(self.through(handler))
        self.assertEqual(client.connect("a.wild.TEST:8443", ahead=b"ping").status, 200)
        self.assertEqual(client.exactly(9), b"helloping")
        self.assertEqual(self.hop.finished().received.split(b"ping")[0],
                         b"CONNECT a.wild.test:8443 HTTP/1.1\r\nHost: a.wild.test:8443\r\n\r\n")
        self.assertEqual(self.dns.asked("a.wild.test"), [])

    def test_plain_requests_each_on_a_connection_of_its_own(self):
        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            conn.rest()

        client = self.client(self.through(handler))
        for path in ("/a", "/b"):
            self.assertEqual(client.get(f"http://ok.test{path}").body, b"ok")
        heads = [c.received.decode() for c in self.hop.connections]
        self.assertEqual(len(heads), 2)
        for head in heads:
            self.assertTrue(head.startswith("GET http://ok.test/"), head)
            self.assertIn("Connection: close\r\n", head)

    def test_a_host_with_that_route_is_reached_in_no_other_way(self):
        origin = self.http()
        proxy = self.proxy(origin, mitmProxy={"socketPath": str(self.directory / "absent"),
                                              "domains": ["ok.test"]})
        r = self.client(proxy).get(f"http://ok.test:{origin.port}/")
        self.assertEqual((r.status, r.get("X-Proxy-Error")), (502, "upstream-parent"))
        self.assertEqual(self.client(proxy).connect(f"ok.test:{origin.port}").status, 502)
        self.assertEqual(origin.connections, [])
        self.assertEqual(self.client(proxy).get(f"http://two.test:{origin.port}/").status, 200)

    def test_policy_comes_first(self):
        client = self.client(self.through(lambda conn: None))
        self.assertEqual(client.get("http://no.test/").status, 403)
        self.assertEqual(self.hop.connections, [])
