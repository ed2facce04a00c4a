"""A refusal says that it is one: what clients read, and what the decision log keeps."""

import re

from harness import TOKEN, Answer, Case, echo, quick

SECOND = re.compile(r"srt: (\S+) is blocked by policy, not by a network fault \((.*)\); do not retry")


class Refusal(Case):
    @quick
    def test_a_plain_request(self):
        client = self.client(self.proxy())
        r = client.get("http://no.test/path?secret")
        self.assertEqual((r.status, r.phrase), (403, "Forbidden"))
        self.assertEqual(r.get("X-Proxy-Error"), "blocked-by-allowlist")
        self.assertTrue(r.get("Content-Type").startswith("text/plain"))
        first, second, end = r.text.split("\n")
        self.assertEqual(first, "Connection blocked by network allowlist")
        self.assertEqual(SECOND.fullmatch(second).group(1), "no.test:80")
        self.assertEqual(end, "")
        self.assertNotIn("secret", r.text)
        self.assertFalse(r.closes)

    @quick
    def test_the_rule_is_named(self):
        proxy = self.proxy(allowed=["ok.test"], denied=["*.bad.test", "worse.test:80"])
        for url, rule in (("http://a.bad.test/", "*.bad.test"), ("http://worse.test/", "worse.test:80")):
            text = self.client(proxy).get(url).text
            found = SECOND.search(text).group(2)
            self.assertIn("network.deniedDomains", found)
            self.assertIn(rule, found)
        found = SECOND.search(self.client(proxy).get("http://no.test/").text).group(2)
        self.assertNotIn("deniedDomains", found)

    def test_a_head_request_gets_no_body(self):
        client = self.client(self.proxy())
        r = client.get("http://no.test/", method="HEAD")
        self.assertEqual(r.status, 403)
        self.assertEqual(client.get("http://no.test/").status, 403)

    def test_policy_and_network_are_told_apart(self):
        port = self.closed_port()
        self.dns.script("gone.wild.test", "A", Answer(rcode=3))
        proxy = self.proxy(allowed=["ok.test", "*.wild.test", f"127.0.0.5:{port}"])
        seen = {}
        for name, url in (("policy", "http://no.test/"), ("refused", f"http://ok.test:{port}/"),
                          ("dns", "http://gone.wild.test/"), ("address", "http://inside.wild.test/")):
            self.dns.add("inside.wild.test", "127.0.0.9")
            r = self.client(proxy).get(url)
            seen[name] = (r.status, r.get("X-Proxy-Error"))
        self.assertEqual(seen, {"policy": (403, "blocked-by-allowlist"),
                                "address": (403, "blocked-by-sandbox-runtime"),
                                "refused": (502, "upstream-refused"), "dns": (502, "upstream-dns")})

    def test_a_destination_cannot_forge_lines(self):
        proxy = self.proxy()
        client = self.client(proxy)
        client.socks_greet()
        client.socks(b"a\n{\"verdict\":\"allow\"}\x1b[2J.test", 443)
        client.close()
        record = proxy.records(1)[-1]
        self.assertEqual(record["verdict"], "deny")
        self.assertNotIn("\x1b", record["host"])
        self.assertNotIn(b"\x1b", proxy.stderr_path.read_bytes())


class DecisionLog(Case):
    """One JSON line for each connection or request."""

    def setUp(self):
        super().setUp()
        self.upstream = self.http()

    @quick
    def test_allowed_and_denied(self):
        proxy = self.proxy(self.upstream)
        port = self.upstream.port
        with proxy.client() as client:
            client.get(f"http://OK.test:{port}/path?secret=1")
            client.get(f"http://no.test:{port}/path?secret=1")
        with proxy.client() as client:
            self.assertEqual(client.connect(f"ok.test:{port}").status, 200)
        with proxy.client() as client:
            client.connect(f"no.test:{port}")
        with proxy.client() as client:
            client.socks_greet()
            client.socks("no.test", port)
        records = proxy.records(5)
        self.assertEqual(len(records), 5)
        got = sorted((r["via"], r["host"], r["port"], r["verdict"]) for r in records)
        self.assertEqual(got, sorted([
            ("http", "ok.test", port, "allow"), ("http", "no.test", port, "deny"),
            ("connect", "ok.test", port, "allow"), ("connect", "no.test", port, "deny"),
            ("socks5", "no.test", port, "deny")]))
        for r in records:
            self.assertRegex(r["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            self.assertTrue(r["client"].startswith("127.0.0.1:"))
            if r["verdict"] == "allow":
                self.assertEqual((r["rule"], r["entry"]), ("network.allowedDomains[0]", "ok.test"))
                self.assertNotIn("reason", r)
            else:
                self.assertEqual(r["reason"], "host is not on the allow list")
                self.assertIsNone(r["rule"])
        text = proxy.log_path.read_text()
        self.assertNotIn("secret", text)
        self.assertNotIn("127.0.0.5", text)

    def test_bytes_and_failures(self):
        origin = self.origin(echo)
        port = self.closed_port()
        proxy = self.proxy(origin, allowed=["ok.test", f"127.0.0.5:{port}"])
        with proxy.client() as client:
            client.connect(f"ok.test:{origin.port}", ahead=b"x" * 1000)
            client.half_close()
            self.assertEqual(len(client.rest()), 1000)
        record = proxy.records(1)[0]
        self.assertEqual((record["bytesUp"], record["bytesDown"]), (1000, 1000))
        with proxy.client() as client:
            client.connect(f"ok.test:{port}")
        record = proxy.records(2)[1]
        self.assertEqual((record["verdict"], record["error"], record["status"]),
                         ("allow", "upstream-refused", 502))

    def test_refused_addresses_by_class_only(self):
        self.dns.add("inside.wild.test", "127.0.0.9", "169.254.1.1")
        proxy = self.proxy()
        with proxy.client() as client:
            client.connect("inside.wild.test:443")
        record = proxy.records(1)[0]
        self.assertEqual(record["verdict"], "deny")
        self.assertEqual(record["addressClass"], "loopback,link-local")
        self.assertNotIn("169.254", proxy.log_path.read_text())
        self.assertNotIn("127.0.0.9", proxy.log_path.read_text())

    def test_the_attribution_key(self):
        proxy = self.proxy(token=TOKEN)
        with proxy.client() as client:
            client.socks_greet(b"srt.bWFrZSBhbGw=", TOKEN.encode())
            client.socks("no.test", 443)
        self.assertEqual(proxy.records(1)[0]["user"], "make all")
        self.assertNotIn(TOKEN, proxy.log_path.read_text() + proxy.stderr())

    def test_the_debug_log_goes_to_stderr(self):
        self.dns.add("inside.wild.test", "127.0.0.9")
        proxy = self.proxy(args=["--debug"])
        with proxy.client() as client:
            client.connect("inside.wild.test:443")
        proxy.records(1)
        self.assertIn("[SandboxDebug] ", proxy.stderr())
        self.assertIn("Denied address(es) for inside.wild.test:443: 127.0.0.9 ", proxy.stderr())
