"""Tunnels in proxy-only mode: every CONNECT is opened, or refused (chapter 35 section 6, chapter 30
section 10)."""

import subprocess
import sys

from harness import DeciderCase, allow, deny, need_body, quick, shown
from harness.resources import until


class Tunnels(DeciderCase):
    def begin(self, decide=allow, **kw):
        self.start(decide, tls=True, **kw)

    def tunnel(self, **kw):
        return self.inside(self.srt, self.upstream, **kw)

    def connect_refused(self, r, status, code):
        self.assertEqual((r.status, r.get("X-Deny-Reason"), r.get("X-Proxy-Error")), (status, code, None), r)

    @quick
    def test_a_request(self):
        self.begin()
        client = self.tunnel()
        r = self.ask(client, "/a/../b?c=%20d", "Accept: */*\r\n", host=self.at)
        self.assertEqual((r.status, r.body), (200, b"hello\n"))
        self.assertEqual(self.peer.messages, [{
            "t": "req", "id": 1, "method": "GET", "host": "ok.test", "port": self.upstream.port,
            "hostHeader": self.at, "sni": "ok.test", "path": "/a/../b", "query": "c=%20d",
            "headers": {"accept": ["*/*"]}}])
        self.assertEqual((self.last().target, self.last().get("Host")), ("/a/../b?c=%20d", self.at))

    @quick
    def test_nothing_is_asked_or_dialled_for_the_tunnel_itself(self):
        self.begin()
        self.tunnel()
        self.assertEqual(self.peer.messages, [])
        self.nothing_out()

    @quick
    def test_server_names(self):
        self.begin()
        client = self.tunnel(name="OK.test")
        self.assertEqual(self.ask(client, host=self.at).status, 200)
        client = self.tunnel(name=False)
        self.assertEqual(self.ask(client, host=self.at).status, 200)
        self.assertEqual([m.get("sni") for m in self.peer.messages], ["ok.test", None])

    @quick
    def test_each_request_is_asked_about(self):
        self.begin(lambda m: deny(m, 409, reason="enough") if m["id"] == 3 else allow(m))
        client = self.tunnel()
        for _ in range(2):
            self.assertEqual(self.ask(client, host=self.at).status, 200)
        r = self.ask(client, host=self.at)
        self.refused(r, 409, "decider", "enough")
        self.orderly_end(client)
        self.assertEqual(len(self.upstream.requests), 2)

    @quick
    def test_a_deny_before_anything_is_dialled(self):
        self.begin(lambda m: deny(m, 403, reason="no"))
        self.refused(self.ask(self.tunnel(), host=self.at), 403, "decider", "no")
        self.nothing_out()

    @quick
    def test_bodies(self):
        self.begin(lambda m: need_body(m, 3) if m["t"] == "req" else allow(m))
        r = self.ask(self.tunnel(), method="POST", fields="Content-Length: 5\r\n", body=b"hello", host=self.at)
        self.assertEqual(r.status, 200)
        body = self.peer.of("body")[0]
        self.assertEqual((shown(body), body["cut"], self.last().body), (b"hel", True, b"hello"))

    @quick
    def test_50_at_once(self):
        """Row F3: 50 tunnels to one new host, and a decider that never answers."""
        self.begin(lambda m: None, timeoutMs=400)
        clients = [self.tunnel() for _ in range(50)]
        for client in clients:
            client.send(f"GET / HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
        asked = self.peer.wait(50)
        self.assertEqual({(m["host"], m["port"]) for m in asked}, {("ok.test", self.upstream.port)})
        for client in clients:
            self.unavailable(client.response())
        self.nothing_out()
        self.peer.send(*map(allow, asked))
        self.peer.decide = allow
        self.assertEqual(self.ask(self.tunnel(), host=self.at).status, 200)
        self.assertEqual(len(self.upstream.requests), 1)

    @quick
    def test_the_decider_dies(self):
        self.begin(lambda m: None)
        client = self.tunnel()
        client.send(f"GET / HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
        self.peer.wait(1)
        self.peer.end()
        self.unavailable(client.response())
        self.srt.stopped("decider")
        self.nothing_out()

    @quick
    def test_no_tls_inside(self):
        self.begin()
        for data in (b"SSH-2.0-x\r\n", f"GET / HTTP/1.1\r\nHost: {self.at}\r\n\r\n".encode(), b"\x16\x02\x01"):
            client = self.opened(self.srt, self.at)
            client.send(data)
            self.assertEqual(client.rest(), b"")
        self.nothing_out()
        self.assertEqual(self.peer.messages, [])

    @quick
    def test_hosts_that_are_not_allowed(self):
        self.begin()
        for target in (f"no.test:{self.upstream.port}", "127.0.0.1:443"):
            self.connect_refused(self.client(self.srt).connect(target), 403, "host_not_allowed")
        self.nothing_out()

    @quick
    def test_connect_targets(self):
        self.begin()
        for target in ("ok.test", "ok.test:0", "ok.test:65536", f"x@ok.test:{self.upstream.port}",
                       f"[ok.test]:{self.upstream.port}"):
            with self.subTest(target):
                self.connect_refused(self.client(self.srt).connect(target), 400, "bad_request")
        self.nothing_out()

    @quick
    def test_misdirected(self):
        self.begin()
        for host in ("two.test", "ok.test", f"two.test:{self.upstream.port}", f"ok.test.:{self.upstream.port}"):
            with self.subTest(host):
                self.refused(self.ask(self.tunnel(), host=host), 421, "misdirected")
        for fields, target in ((f"Host: {self.at}\r\n", "/"), ("", f"https://two.test:{self.upstream.port}/")):
            with self.subTest(target + fields):
                r = self.ask(self.tunnel(), target, fields, host=self.at)
                # Two Host fields, or (the target's form is looked at first) an absolute target.
                self.assertIn((r.status, r.get("X-Deny-Reason")), ((421, "misdirected"), (400, "bad_request")))
        client = self.tunnel(name="two.test", context=self.lenient())
        self.refused(self.ask(client, host=self.at), 421, "misdirected",
                     "TLS server name does not match the request target")
        self.assertEqual(self.peer.messages, [])
        self.nothing_out()

    @quick
    def test_targets_are_in_exact_origin_form(self):
        self.begin()
        for target in (f"https://{self.at}/", "*", "//a", "/\\a", "/a#b", "a"):
            with self.subTest(target):
                self.refused(self.ask(self.tunnel(), target, host=self.at), 400, "bad_request")
        self.assertEqual(self.peer.messages, [])
        self.nothing_out()

    @quick
    def test_trace(self):
        self.begin()
        for method in ("TRACE", "TRACK"):
            self.refused(self.ask(self.tunnel(), method=method, host=self.at), 405, "method_refused")
        self.assertEqual(self.peer.messages, [])
        self.nothing_out()

    def test_what_does_not_parse(self):
        self.begin()
        client = self.tunnel()
        client.send(f"GET / HTTP/1.1\r\nHost: {self.at}\r\nX : y\r\n\r\n")
        self.refused(client.response(), 400, "bad_request")
        for fields in (b"X: y\r\n" * 191, b"X: \xff\r\n"):
            client = self.tunnel()
            client.send(f"GET / HTTP/1.1\r\nHost: {self.at}\r\n".encode() + fields + b"\r\n")
            self.refused(client.response(), 400, "bad_request")
        self.assertEqual(self.peer.messages, [])
        self.nothing_out()

    @quick
    def test_folded_hop_by_hop_fields_and_trailers(self):
        self.begin()
        fields = ("Keep_Alive: 1\r\nProxy.Authorization: a\r\nX-Keep: 1\r\nTransfer-Encoding: chunked\r\n"
                  "Trailer: X-T\r\n")
        r = self.ask(self.tunnel(), fields=fields, method="POST", host=self.at,
                     body=b"5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n")
        self.assertEqual(r.status, 200)
        got = self.last()
        self.assertEqual((got.body, got.trailers), (b"hello", []))
        self.assertFalse({"keep_alive", "proxy.authorization", "trailer"} & set(got.names))
        self.assertEqual(got.get("X-Keep"), "1")

    @quick
    def test_addresses(self):
        self.begin(allowed_by=["ok.test", "two.test"])
        self.dns.add("two.test", "10.1.2.3")
        client = self.secure(self.opened(self.srt, "two.test:443"), "two.test")
        self.refused(self.ask(client, host="two.test"), 403, "address_not_allowed")

    @quick
    def test_256_tunnels(self):
        self.begin()
        open_ = [self.opened(self.srt, self.at) for _ in range(256)]
        for client in open_:
            client.send(b"\x16\x03\x01")
        # A slot is taken when TLS is seen.
        refused = []

        def full():
            client = self.client(self.srt)
            r = client.connect(self.at)
            if r.status == 200:
                client.close()
                return False
            refused.append(r)
            return True

        self.assertTrue(until(full))
        r = refused[0]
        self.connect_refused(r, 503, "too_many_tunnels")
        self.assertTrue(r.closes)
        self.assertEqual(r.text, "too many TLS-terminated tunnels at once")
        open_[0].close()
        self.assertTrue(until(lambda: self.client(self.srt).connect(self.at).status == 200))

    def test_certificates_of_origins_are_verified(self):
        self.begin()
        other = self.https(names=("two.test",))
        self.srt.stop()
        peer = self.decider(allow, self.upstream, other)
        self.srt = self.decided(peer, ca=True)
        client = self.inside(self.srt, other)
        r = self.ask(client, host=f"ok.test:{other.port}")
        self.assertEqual((r.status, r.get("X-Deny-Reason")), (502, None))
        self.assertEqual(other.requests, [])

    def test_no_crl_is_handed_out_by_name_of_the_host(self):
        """GET /srt.crl in origin form is the one request that is not asked about."""
        self.begin()
        client = self.client(self.srt)
        client.send("GET /srt.crl HTTP/1.1\r\nHost: x\r\n\r\n")
        r = client.response()
        self.assertIn(r.status, (200, 400), r)
        self.assertEqual(self.peer.messages, [])
        self.nothing_out()


class Clients(DeciderCase):
    """Programs that verify what the proxy shows them."""

    def begin(self):
        self.start(lambda m: allow(m) if m["path"] == "/a" else deny(m, 403, reason="not this one"), tls=True)
        self.https_url = f"https://{self.at}"

    @quick
    def test_curl(self):
        self.begin()
        curl = [self.tool("curl"), "-sS", "-m", "20", "-x", self.srt.url, "--cacert", str(self.ca_cert)]
        done = subprocess.run([*curl, f"{self.https_url}/a"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, "hello\n"), done.stderr)
        done = subprocess.run([*curl, "-w", "%{http_code}", "-d", "x=y", f"{self.https_url}/b"],
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, "not this one\n403"), done.stderr)
        self.assertEqual([(m["method"], m["sni"], m["headers"]["user-agent"][0][:5]) for m in self.peer.messages],
                         [("GET", "ok.test", "curl/"), ("POST", "ok.test", "curl/")])
        done = subprocess.run([*curl, "https://no.test/"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 56, done.stderr)
        self.assertIn("403", done.stderr)

    @quick
    def test_python(self):
        self.begin()
        program = ("import sys, ssl, urllib.request as u\n"
                   "o = u.build_opener(u.ProxyHandler({'https': sys.argv[1]}), "
                   "u.HTTPSHandler(context=ssl.create_default_context(cafile=sys.argv[2])))\n"
                   "print(o.open(sys.argv[3], timeout=20).read())\n")
        done = subprocess.run([sys.executable, "-c", program, self.srt.url, self.ca_cert, f"{self.https_url}/a"],
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, "b'hello\\n'\n"), done.stderr)
        done = subprocess.run([sys.executable, "-c", program, self.srt.url, self.ca_cert, f"{self.https_url}/b"],
                              capture_output=True, text=True)
        self.assertIn("HTTP Error 403", done.stderr)
