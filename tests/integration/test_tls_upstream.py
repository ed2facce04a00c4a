"""The leg to the server of a terminated tunnel: chapter 30 sections 7 and 13."""

import socket
import ssl
import threading
import time

from harness import Authority, Nginx, TlsCase, answer, quick
from harness.certs import openssl


class Upstream(TlsCase):
    def through(self, proxy, port, host="ok.test", target="/", **kw):
        client = self.secure(self.opened(proxy, f"{host}:{port}"), host)
        return self.ask(client, target, **kw), client

    def failure(self, r, kind):
        self.assertEqual((r.status, r.body, r.get("X-Proxy-Error"), r.closes),
                         (502, b"Bad Gateway", f"upstream-{kind}", False), r)

    def nginx(self, certificate=None, options=""):
        directory = self.directory / f"nginx{len(list(self.directory.iterdir()))}"
        nginx = Nginx(directory, certificate=certificate or self.root.leaf("ok.test"),
                      options=options)
        self.addCleanup(nginx.close)
        (nginx.root / "file").write_bytes(b"x" * 100000)
        return nginx


class Verification(Upstream):
    @quick
    def test_versions(self):
        for version in ("TLSv1.2", "TLSv1.3"):
            with self.subTest(version):
                nginx = self.nginx(options=f"ssl_protocols {version};")
                r, _ = self.through(self.gateway(nginx), nginx.tls_port, target="/file")
                self.assertEqual((r.status, len(r.body)), (200, 100000))

    def test_an_old_version(self):
        nginx = self.nginx(options="ssl_protocols TLSv1.1; ssl_ciphers ALL:@SECLEVEL=0;")
        r, _ = self.through(self.gateway(nginx), nginx.tls_port)
        self.failure(r, "tls")

    def refused(self, certificate, detail, **kw):
        nginx = self.nginx(certificate)
        proxy = self.gateway(nginx, args=["--debug"], **kw)
        r, client = self.through(proxy, nginx.tls_port, fields="Authorization: Bearer s3cret\r\n")
        self.failure(r, "certificate")
        self.failure(self.ask(client), "certificate")
        self.assertEqual((nginx.directory / "access.log").read_text(), "")
        record = proxy.records(2)[1]
        self.assertEqual((record["error"], record["status"]), ("upstream-certificate", 502))
        self.assertIn(detail, record["reason"])

    @quick
    def test_another_name(self):
        self.refused(self.root.leaf("two.test"), "hostname mismatch")

    def test_the_host_field_changes_nothing(self):
        nginx = self.nginx(self.root.leaf("two.test"))
        client = self.secure(self.opened(self.gateway(nginx), f"ok.test:{nginx.tls_port}"),
                             "two.test")
        self.failure(self.ask(client, host="two.test"), "certificate")
        self.failure(self.ask(client, "https://two.test/"), "certificate")

    def test_expired(self):
        certificate = self.root.leaf("ok.test", not_after="20200201000000Z") \
            if self.can_backdate() else self.root.leaf("ok.test", days=0)
        self.refused(certificate, "expired")

    def can_backdate(self):
        """Whether openssl x509 takes dates (3.4 and later)."""
        try:
            self.root.leaf("x.test", not_after="20200201000000Z")
            return True
        except Exception:
            return False

    def test_self_signed(self):
        cert, key = self.directory / "self.pem", self.directory / "self.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", key, "-out", cert, "-days", "30", "-subj", "/CN=ok.test", "-addext",
                "subjectAltName=DNS:ok.test")
        self.refused((cert, key), "self-signed certificate")

    def test_without_its_intermediate(self):
        sub = self.directory / "sub"
        sub.mkdir()
        other = Authority(sub, "Sub")
        self.refused(other.leaf("ok.test"), "unable to get local issuer certificate")

    def test_signed_by_the_gateways_own_authority(self):
        # It is for clients: a server that shows such a certificate is somebody else.
        import types
        mine = types.SimpleNamespace(directory=self.directory, cert=self.ca_cert, key=self.ca_key)
        self.refused(Authority.leaf(mine, "ok.test"), "issuer")

    def test_only_a_common_name(self):
        cert, key = self.directory / "cn.pem", self.directory / "cn.key"
        request = self.directory / "cn.csr"
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                key, "-out", request, "-subj", "/CN=ok.test")
        openssl("x509", "-req", "-in", request, "-CA", self.root.cert, "-CAkey", self.root.key,
                "-CAcreateserial", "-days", "5", "-out", cert)
        self.refused((cert, key), "hostname mismatch")

    @quick
    def test_nothing_turns_it_off(self):
        self.refused(self.root.leaf("two.test"), "hostname mismatch",
                     env={"NODE_TLS_REJECT_UNAUTHORIZED": "0", "SSL_NO_VERIFY": "1"})

    def test_a_company_root(self):
        directory = self.directory / "company"
        directory.mkdir()
        company = Authority(directory)
        nginx = self.nginx(company.leaf("ok.test"))
        for env in ({"NODE_EXTRA_CA_CERTS": str(company.cert)},
                    {"SSL_CERT_FILE": str(company.cert)}, {"SSL_CERT_DIR": str(directory)}):
            r, _ = self.through(self.gateway(nginx, env=env), nginx.tls_port, target="/file")
            self.assertEqual(r.status, 200, env)

    def test_client_certificates(self):
        cert, key, request = (self.directory / f"client.{x}" for x in ("pem", "key", "csr"))
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                key, "-out", request, "-subj", "/CN=someone")
        openssl("x509", "-req", "-in", request, "-CA", self.root.cert, "-CAkey", self.root.key,
                "-CAcreateserial", "-days", "5", "-out", cert)
        for version, kind in ((ssl.TLSVersion.TLSv1_2, "tls"),
                              (ssl.TLSVersion.TLSv1_3, "protocol")):
            context = self.root.server_context("ok.test")
            context.maximum_version = version
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.root.cert)
            origin = self.http(tls=context)
            r, _ = self.through(self.gateway(origin), origin.port)
            self.failure(r, kind)
            client = self.opened(self.gateway(origin, tls={"excludeDomains": ["ok.test"]}),
                                 f"ok.test:{origin.port}")
            context = ssl.create_default_context(cafile=str(self.root.cert))
            context.load_cert_chain(cert, key)
            self.assertEqual(self.ask(self.secure(client, context=context)).status, 200)

    def test_the_name_that_is_sent(self):
        seen = []
        origin = self.https(names=("ok.test", "127.0.0.5"))
        origin.tls.sni_callback = lambda sock, name, context: seen.append(name)
        self.addCleanup(setattr, origin.tls, "sni_callback", None)
        proxy = self.gateway(origin)
        client = self.secure(self.opened(proxy, f"OK.test.:{origin.port}"), "other.test")
        self.assertEqual(self.ask(client).status, 200)
        client = self.secure(self.opened(proxy, f"127.0.0.5:{origin.port}"), None,
                             self.lenient())
        self.assertEqual(self.ask(client).status, 200)
        self.assertEqual(seen, ["ok.test", None])


class Failures(Upstream):
    def fails(self, handler, kind, **kw):
        origin = self.tls_origin(handler)
        r, client = self.through(self.gateway(origin, **kw), origin.port)
        self.failure(r, kind)
        return client

    @quick
    def test_no_answer_to_relay(self):
        for raw in (b"", b"nonsense\r\n\r\n", b"HTTP/1.1 099 x\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " +
                    b"x" * 65536 + b"\r\n\r\n", b"HTTP/1.1 200 OK\r\nX : y\r\n\r\n",
                    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n"):
            def handler(conn, raw=raw):
                conn.until(b"\r\n\r\n")
                conn.send(raw)

            self.fails(handler, "protocol")

    def test_nobody_there(self):
        port = self.closed_port()
        proxy = self.gateway(allowed=["ok.test", f"127.0.0.5:{port}"])
        r, client = self.through(proxy, port)
        self.failure(r, "refused")
        self.failure(self.ask(client), "refused")

    def test_no_such_name(self):
        proxy = self.gateway(allowed=["nowhere.test"])
        r, _ = self.through(proxy, 443, "nowhere.test")
        self.failure(r, "dns")

    def test_no_tls(self):
        origin = self.origin(lambda conn: (conn.sock.recv(5), conn.send("HTTP/1.1 400 x\r\n\r\n")))
        r, _ = self.through(self.gateway(origin), origin.port)
        self.failure(r, "tls")

    def test_no_handshake_in_time(self):
        origin = self.origin(lambda conn: conn.rest())
        r, _ = self.through(self.gateway(origin, timeouts={"dialMs": 300}), origin.port)
        self.failure(r, "timeout")

    @quick
    def test_addresses_that_are_not_allowed(self):
        proxy = self.gateway(args=["--debug"])
        r, client = self.through(proxy, 443)
        self.assertEqual((r.status, r.get("X-Proxy-Error")), (403, "blocked-by-sandbox-runtime"))
        self.assertTrue(r.text.startswith(
            "Connection to ok.test blocked: resolved to a loopback address\n"), r)
        self.assertEqual(self.ask(client).status, 403)
        self.assertEqual(proxy.stderr().count(
            "deny network-outbound ok.test:443 (resolved to a loopback address)"), 2)

    def test_a_cut_after_the_head(self):
        for raw in (b"Content-Length: 10\r\n\r\nhello",
                    b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
                    b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nz"):
            def handler(conn, raw=raw):
                conn.until(b"\r\n\r\n")
                conn.send(b"HTTP/1.1 200 OK\r\n" + raw)

            origin = self.tls_origin(handler)
            client = self.secure(self.opened(self.gateway(origin), f"ok.test:{origin.port}"))
            client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertEqual(client.head().status, 200)
            with self.assertRaises((ssl.SSLEOFError, ConnectionResetError)):
                while client.sock.recv(100):
                    pass

    @quick
    def test_a_body_to_the_close(self):
        def handler(conn, orderly=True):
            conn.until(b"\r\n\r\n")
            conn.send(b"HTTP/1.1 200 OK\r\n\r\nhello")
            if orderly:
                conn.sock.unwrap()

        origin = self.tls_origin(handler)
        r, client = self.through(self.gateway(origin), origin.port)
        self.assertEqual((r.body, r.get("Transfer-Encoding"), r.closes), (b"hello", "chunked", False))
        self.assertEqual(self.ask(client).status, 200)
        # cut off it is not a whole one
        origin = self.tls_origin(lambda conn: handler(conn, False))
        client = self.secure(self.opened(self.gateway(origin), f"ok.test:{origin.port}"))
        client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertEqual(client.head().status, 200)
        with self.assertRaises((ssl.SSLEOFError, ConnectionResetError)):
            while client.sock.recv(100):
                pass

    def test_more_than_was_announced(self):
        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 evil\r\n\r\n")
            conn.rest()

        origin = self.tls_origin(handler)
        r, client = self.through(self.gateway(origin), origin.port)
        self.assertEqual(r.body, b"hello")
        self.assertEqual(self.ask(client).body, b"hello")
        self.assertEqual(len(origin.connections), 2)


class Reuse(Upstream):
    @quick
    def test_across_tunnels(self):
        origin = self.https()
        proxy = self.gateway(origin)
        for _ in range(3):
            r, client = self.through(proxy, origin.port)
            self.assertEqual(r.status, 200)
            client.close()
        self.assertEqual(len(origin.connections), 1)

    def test_sessions_are_resumed(self):
        resumed = []

        def handler(conn):
            resumed.append(conn.sock.session_reused)
            conn.until(b"\r\n\r\n")
            conn.send(answer(fields="Connection: close\r\n"))

        origin = self.tls_origin(handler)
        proxy = self.gateway(origin)
        for _ in range(3):
            self.assertEqual(self.through(proxy, origin.port)[0].status, 200)
        self.assertEqual(resumed, [False, True, True])

    def closing(self, first):
        """An origin that closes a kept connection as the second request comes."""
        count = []

        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.send(answer())
            if len(origin.connections) == 1:
                count.append(conn.until(b"\r\n\r\n"))
                if first == "reset":
                    conn.reset()
                return
            conn.rest()

        origin = self.tls_origin(handler)
        origin.lost = count
        return origin

    @quick
    def test_what_may_be_repeated_is(self):
        for how in ("fin", "reset"):
            origin = self.closing(how)
            r, client = self.through(self.gateway(origin), origin.port)
            self.assertEqual(self.ask(client, "/2").status, 200)
            self.assertEqual(len(origin.connections), 2)
            self.assertEqual(len(origin.lost), 1)

    @quick
    def test_the_rest_is_the_clients_to_repeat(self):
        def handler(conn):
            for _ in range(2):
                conn.until(b"\r\n\r\n")
                conn.send(answer())
            lost.append(conn.until(b"\r\n\r\n"))

        lost = []
        origin = self.tls_origin(handler)
        proxy = self.gateway(origin)
        _, client = self.through(proxy, origin.port)
        self.assertEqual(self.ask(client).status, 200)  # a connection that has proved itself
        client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        self.orderly_end(client)
        self.assertEqual(len(origin.connections), 1)
        self.assertEqual(len(lost), 1)

    def test_a_connection_that_ended_while_idle(self):
        origin = self.tls_origin(lambda conn: (conn.until(b"\r\n\r\n"), conn.send(answer())))
        _, client = self.through(self.gateway(origin), origin.port)
        for method in ("GET", "POST", "POST"):
            time.sleep(0.1)
            self.assertEqual(self.ask(client, method=method).status, 200)
        self.assertEqual(len(origin.connections), 4)


class Parents(Upstream):
    def parent(self, origin, **kw):
        """A parent proxy that leads everything to the origin."""
        def serve(conn):
            heads.append(conn.until(b"\r\n\r\n"))
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
        hop = self.origin(serve, host="127.0.0.7", **kw)
        hop.heads = heads
        return hop

    @quick
    def test_terminated_requests_go_through_it(self):
        origin = self.https()
        hop = self.parent(origin)
        proxy = self.gateway(parentProxy={"http": f"http://u:p@127.0.0.7:{hop.port}"})
        r, client = self.through(proxy, 8443)
        self.assertEqual(r.status, 200)
        self.assertEqual(self.ask(client, "/b").status, 200)
        self.assertEqual(hop.heads, [b"CONNECT ok.test:8443 HTTP/1.1\r\nHost: ok.test:8443\r\n"
                                     b"Proxy-Authorization: Basic dTpw\r\n\r\n"])
        self.assertEqual(origin.targets(), ["/", "/b"])
        self.assertEqual(self.dns.asked("ok.test"), [])

    def test_and_opaque_ones_too(self):
        origin = self.https()
        hop = self.parent(origin)
        proxy = self.gateway(parentProxy={"https": f"http://127.0.0.7:{hop.port}"},
                             tls={"excludeDomains": ["two.test"]})
        client = self.opened(proxy, "two.test:443")
        self.secure(client, "two.test",
                    ssl.create_default_context(cafile=str(self.root.cert)))
        self.assertEqual(self.ask(client).status, 200)
        client = self.opened(proxy, "ok.test:443")
        self.assertEqual(self.ask(self.secure(client)).status, 200)
        self.assertEqual(len(hop.heads), 2)

    def test_over_tls(self):
        origin = self.https()
        hop = self.parent(origin, tls=self.root.server_context("127.0.0.7"))
        proxy = self.gateway(parentProxy={"http": f"https://127.0.0.7:{hop.port}"})
        self.assertEqual(self.through(proxy, 8443)[0].status, 200)

    def test_one_that_refuses_or_is_dead(self):
        origin = self.https()
        hop = self.origin(lambda conn: (conn.until(b"\r\n\r\n"), conn.send("HTTP/1.1 407 x\r\n\r\n")),
                          host="127.0.0.7")
        dead = self.closed_port("127.0.0.7")
        for port in (hop.port, dead):
            proxy = self.gateway(origin, parentProxy={"http": f"http://127.0.0.7:{port}"})
            r, _ = self.through(proxy, origin.port)
            self.failure(r, "parent")
        self.assertEqual(origin.connections, [])

    def test_not_for_those_exempt(self):
        origin = self.https()
        hop = self.parent(origin)
        proxy = self.gateway(origin, parentProxy={"http": f"http://127.0.0.7:{hop.port}",
                                                  "noProxy": "ok.test"})
        self.assertEqual(self.through(proxy, origin.port)[0].status, 200)
        self.assertEqual(hop.heads, [])
