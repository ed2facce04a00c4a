"""One verdict, whatever the way in: plain requests, CONNECT, SOCKS by name and by address.
Chapter 10 sections 3 to 5."""

import ipaddress
import json

from harness import Case, quick, run_srt, settings


class Paths(Case):
    """Asks for one destination on every path and compares the verdicts."""

    def verdicts(self, proxy, host, port):
        """{path: "allow", "deny", "malformed" or what else came}"""
        found = {}
        bracketed = f"[{host}]" if ":" in host else host
        with proxy.client() as client:
            found["connect"] = self.name(client.connect(f"{bracketed}:{port}"))
        with proxy.client() as client:
            found["http"] = self.name(client.get(f"http://{bracketed}:{port}/"))
        with proxy.client() as client:
            client.socks_greet()
            found["socks name"] = self.code(client.socks(host, port))
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return found
        with proxy.client() as client:
            client.socks_greet()
            found["socks address"] = self.code(client.socks(address, port))
        return found

    @staticmethod
    def name(r):
        return {200: "allow", 403: "deny"}.get(r.status, r.status)

    @staticmethod
    def code(reply):
        return {0: "allow", 2: "deny"}.get(reply[1], reply[1])

    def expect(self, proxy, host, port, verdict):
        with self.subTest(host=host, port=port):
            self.assertEqual(set(self.verdicts(proxy, host, port).values()), {verdict})


class Matrix(Paths):
    def setUp(self):
        super().setUp()
        self.upstream = self.http()
        self.port = self.upstream.port

    @quick
    def test_listed_not_listed_denied(self):
        proxy = self.proxy(self.upstream, denied=["two.test", "bad.wild.test"])
        for host, verdict in (("ok.test", "allow"), ("a.wild.test", "allow"), ("no.test", "deny"),
                              ("two.test", "deny"), ("bad.wild.test", "deny"),
                              ("127.0.0.5", "allow"), ("127.0.0.6", "deny"), ("::1", "deny")):
            self.expect(proxy, host, self.port, verdict)

    def test_an_empty_list_allows_nothing(self):
        proxy = self.proxy(allowed=[])
        for host in ("ok.test", "127.0.0.5", "localhost"):
            self.expect(proxy, host, self.port, "deny")

    def test_ports(self):
        other = self.http()
        proxy = self.proxy(self.upstream, other, allowed=[f"ok.test:{self.port}"],
                           denied=[f"two.test:{other.port}"])
        self.expect(proxy, "ok.test", self.port, "allow")
        self.expect(proxy, "ok.test", other.port, "deny")

    @quick
    def test_wildcards_have_a_label_border(self):
        for name in ("a.wild.test", "a.b.wild.test", "wild.test", "notwild.test",
                     "a.wild.test.evil.example"):
            self.dns.add(name, "127.0.0.5")
        proxy = self.proxy(self.upstream, allowed=["*.wild.test"])
        for host, verdict in (("a.wild.test", "allow"), ("a.b.wild.test", "allow"),
                              ("A.B.WILD.TEST.", "allow"), ("wild.test", "deny"),
                              ("notwild.test", "deny"), ("a.wild.test.evil.example", "deny"),
                              ("1.2.3.4", "deny")):
            self.expect(proxy, host, self.port, verdict)

    @quick
    def test_spellings_of_a_name(self):
        proxy = self.proxy(self.upstream, allowed=["ok.test", "*.wild.test", "ok_1.test"])
        self.dns.add("ok_1.test", "127.0.0.5")
        self.dns.add("xn--bcher-kva.wild.test", "127.0.0.5")
        for host, verdict in (("ok.test", "allow"), ("OK.TEST", "allow"), ("ok.test.", "allow"),
                              ("oK.tEsT.", "allow"), ("ok_1.test", "allow"),
                              ("XN--bcher-kva.wild.test", "allow"), ("ok.test..", "deny"),
                              ("a..wild.test", "deny"), (".wild.test", "deny"),
                              ("ok%2etest", "deny"), ("ok.test%00", "deny"), ("256.0.0.1", "deny")):
            self.expect(proxy, host, self.port, verdict)

    def test_spellings_of_an_address(self):
        proxy = self.proxy(self.upstream)
        for host in ("127.0.0.5", "127.5", "0x7f.5", "0177.0.0.5", "2130706437", "0x7f000005",
                     "127.0.0.5.", "::ffff:127.0.0.5", "::FFFF:7F00:5"):
            self.expect(proxy, host, self.port, "allow")
        for host in ("127.0.0.1", "127.1", "0x7f000001", "2130706433", "0", "0.0.0.0",
                     "::ffff:127.0.0.1", "64:ff9b::7f00:1", "::127.0.0.5", "2002:7f00:5::"):
            self.expect(proxy, host, self.port, "deny")

    def test_a_deny_entry_cannot_be_spelled_around(self):
        proxy = self.proxy(self.upstream, allowed=["*.test.example", "ok.test"],
                           denied=["ok.test", "127.0.0.5"])
        for host in ("ok.test", "OK.TEST", "ok.test.", "127.0.0.5", "127.5", "0x7f.0.0.5",
                     "::ffff:127.0.0.5"):
            self.expect(proxy, host, self.port, "deny")

    def test_names_with_bytes_no_name_has(self):
        """SOCKS carries any byte; the HTTP forms are 400 or 403, and nothing is looked up."""
        proxy = self.proxy(self.upstream, allowed=["ok.test", "*.wild.test"])
        for raw in (b"no.test\0.wild.test", b"ok.test\0", b"\0ok.test", b"ok.test\n", b"ok .test",
                    b"ok.test\t", b"ok.test/", b"ok.test:80", b"u@ok.test", b"ok.test#", b"ok.test\\",
                    "\uff4f\uff4b.test".encode(), "ok\u3002test".encode(), b"ok.test\xff",
                    b"*.wild.test", b"[*]", b"::1%1", b"a" * 250 + b".test"):
            with self.subTest(raw):
                with proxy.client() as client:
                    client.socks_greet()
                    self.assertEqual(client.socks(raw, self.port)[1], 2)
                with proxy.client() as client:
                    client.send(b"CONNECT " + raw + b":%d HTTP/1.1\r\nHost: x\r\n\r\n" % self.port)
                    self.assertIn(client.response("CONNECT").status, (400, 403))
                with proxy.client() as client:
                    client.send(b"GET http://" + raw + b":%d/ HTTP/1.1\r\nHost: x\r\n\r\n" % self.port)
                    status = client.response().status
                    # userinfo is legal there, and the path, port and fragment end an authority
                    legal = raw in (b"u@ok.test", b"ok.test/", b"ok.test:80", b"ok.test#")
                    self.assertIn(status, (200, 400, 403, 502) if legal else (400, 403))
        names = {q[0] for q in self.dns.queries}
        self.assertLessEqual(names, {"ok.test"})

    def test_strict_allowlist(self):
        proxy = self.proxy(self.upstream, strictAllowlist=True)
        self.expect(proxy, "ok.test", self.port, "allow")
        self.expect(proxy, "no.test", self.port, "deny")

    def test_deny_all(self):
        proxy = self.proxy(self.upstream, denied=["*"])
        self.expect(proxy, "ok.test", self.port, "deny")
        self.expect(proxy, "127.0.0.5", self.port, "deny")
        self.assertRegex(proxy.stderr(), r"srt.*: warning: .*deniedDomains")

    def test_many_entries(self):
        proxy = self.proxy(self.upstream, allowed=[
            *(f"h{i}.example.com" for i in range(5000)), *(f"*.w{i}.example.com" for i in range(5000)),
            "ok.test"])
        self.expect(proxy, "ok.test", self.port, "allow")
        self.expect(proxy, "no.test", self.port, "deny")


class Entries(Case):
    """List entries that are refused by name when the proxy starts."""

    @quick
    def test_bad_entries(self):
        for entry in ("*", "*.", "*.test", "a.*.test", "::1", "http://x", "ok.test:0",
                      "ok.test:99999", "intranet", "LOCALHOST", "10.0.0.0/8", "", "ok.test/",
                      "[ok.test]", "[::1", "ok.test.", ".ok.test"):
            with self.subTest(entry):
                path = self.directory / "s.json"
                path.write_text(json.dumps(settings(["ok.test", entry], [])))
                status, _, err = run_srt("proxy", "--settings", path, "--listen", "127.0.0.1:0")
                self.assertEqual(status, 1, err)
                self.assertIn("network.allowedDomains.1: Invalid domain pattern.", err)

    def test_good_entries(self):
        self.proxy(allowed=["localhost", "ok.test", "*.wild.test", "wild.test:443", "[::1]:443",
                            "[::1]", "10.0.0.1", "10.0.0.1:80", "*.a.b:1"],
                   denied=["*:22", "[2001:db8::1]:443"])

    def test_entries_that_match_nothing_are_warned_of(self):
        proxy = self.proxy(allowed=["ok.test", "ok test.example", "b\u00fccher.example"],
                           denied=["a..example", "u@ok.example"])
        text = proxy.stderr()
        for entry in ("ok test.example", "b\u00fccher.example", "a..example", "u@ok.example"):
            self.assertIn(f'entry "{entry}" can match no host', text)
        self.assertEqual(text.count("can match no host"), 4)
