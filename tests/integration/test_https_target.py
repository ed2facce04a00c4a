"""Absolute https:// targets: fetched over verified TLS. Chapter 20 section 6.2."""

import socket
import threading

from harness import Authority, Case, HttpOrigin, quick


class HttpsTarget(Case):
    def setUp(self):
        super().setUp()
        self.ca = Authority(self.directory)
        self.env = {"SSL_CERT_FILE": str(self.ca.cert), "SSL_CERT_DIR": "/nonexistent"}

    def tls(self, *names, **kw):
        return self.http(tls=self.ca.server_context(*names, **kw))

    @quick
    def test_fetched_over_tls(self):
        origin = self.tls("ok.test")
        seen = []
        origin.tls.sni_callback = lambda sock, name, context: seen.append(name)
        client = self.client(self.proxy(origin, env=self.env))
        for path in ("/a", "/b"):
            r = client.get(f"https://ok.test:{origin.port}{path}", "Proxy-Connection: keep-alive\r\n")
            self.assertEqual((r.status, r.body), (200, b"hello\n"))
        self.assertEqual(origin.targets(), ["/a", "/b"])
        self.assertEqual(set(seen), {"ok.test"})
        self.assertEqual(origin.requests[0].get("Host"), f"ok.test:{origin.port}")

    def test_an_address_is_verified_as_one(self):
        origin = self.tls("127.0.0.5")
        r = self.client(self.proxy(origin, env=self.env)).get(f"https://127.0.0.5:{origin.port}/")
        self.assertEqual(r.status, 200)

    def refused(self, origin, kind, env=None):
        proxy = self.proxy(origin, env=env or self.env)
        r = self.client(proxy).get(f"https://ok.test:{origin.port}/",
                                   "Authorization: Bearer s3cret\r\n")
        self.assertEqual((r.status, r.get("X-Proxy-Error")), (502, f"upstream-{kind}"), r)
        if isinstance(origin, HttpOrigin):
            self.assertEqual(origin.requests, [])
        return proxy

    @quick
    def test_another_name(self):
        self.refused(self.tls("two.test"), "certificate")

    def test_an_expired_certificate(self):
        proxy = self.refused(self.tls("ok.test", days=0), "certificate")
        self.assertEqual(proxy.records(1)[0]["error"], "upstream-certificate")

    def test_a_root_that_is_not_trusted(self):
        other = self.directory / "other"
        other.mkdir()
        root = Authority(other)
        self.refused(self.tls("ok.test"), "certificate",
                     {"SSL_CERT_FILE": str(root.cert), "SSL_CERT_DIR": "/nonexistent"})

    def test_a_server_that_speaks_no_tls(self):
        def handler(conn):
            conn.sock.recv(5)
            conn.send("HTTP/1.1 400 Bad Request\r\n\r\n")

        self.refused(self.origin(handler), "tls")

    def test_never_in_clear_text(self):
        def handler(conn):
            first.append(conn.sock.recv(1))

        first = []
        origin = self.origin(handler)
        self.refused(origin, "tls")
        origin.finished()
        self.assertEqual(first[0], b"\x16")

    def test_policy_is_for_port_443(self):
        proxy = self.proxy(allowed=["ok.test:80"])
        self.assertEqual(self.client(proxy).get("https://ok.test/").status, 403)
        self.assertEqual(self.client(proxy).get("https://no.test/").status, 403)

    def through_a_parent(self, scheme, **kw):
        origin = self.tls("ok.test")

        def parent(conn):
            head = conn.until(b"\r\n\r\n")
            heads.append(head)
            up = socket.create_connection((origin.host, origin.port))
            conn.send("HTTP/1.1 200 OK\r\n\r\n")

            def pump(a, b):
                try:
                    while data := a.recv(65536):
                        b.sendall(data)
                    b.shutdown(socket.SHUT_WR)
                except OSError:
                    pass

            back = threading.Thread(target=pump, args=(up, conn.sock), daemon=True)
            back.start()
            pump(conn.sock, up)
            back.join()

        heads = []
        hop = self.origin(parent, host="127.0.0.7", **kw)
        proxy = self.proxy(env=self.env, parentProxy={"http": f"{scheme}://127.0.0.7:{hop.port}"})
        client = self.client(proxy)
        for path in ("/p", "/q"):
            r = client.get(f"https://ok.test:{origin.port}{path}")
            self.assertEqual((r.status, r.body), (200, b"hello\n"))
        client.close()
        self.assertEqual(heads[0].split(b"\r\n")[0],
                         f"CONNECT ok.test:{origin.port} HTTP/1.1".encode())
        self.assertEqual(origin.targets(), ["/p", "/q"])
        return heads

    def test_through_a_parent_by_connect_and_tls(self):
        self.assertEqual(len(self.through_a_parent("http")), 1)

    def test_through_an_https_parent(self):
        self.through_a_parent("https", tls=self.ca.server_context("127.0.0.7"))
