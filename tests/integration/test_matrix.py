"""One verdict on every way in, for each spelling, rule and resolver answer; and nothing is dialled
that was not judged. Chapter 10 sections 3 to 6, chapter 20 sections 4 to 6."""

import ipaddress
import threading

from harness import DROP, NXDOMAIN, REFUSED, SERVFAIL, Answer, Case, Origin, free_port, socks_request
from harness.resources import until

# Verdicts: what each way in says, as (HTTP statuses, X-Proxy-Error tokens, SOCKS replies).
ALLOW = "allow"
POLICY = ((403,), ("blocked-by-allowlist",), (2,))
ADDRESS = ((403,), ("blocked-by-sandbox-runtime",), (2,))
MALFORMED = ((400, 403), (None, "blocked-by-allowlist", "blocked-by-sandbox-runtime"), (2,))
UNRESOLVED = ((502,), ("upstream-dns",), (4,))
SILENT = ((502,), ("upstream-dns", "upstream-timeout"), (4,))
DEAD = ((502,), ("upstream-refused",), (5,))

class Counted(Origin):
    """Counts who gets through. Speaks HTTP to those who do, ends what is not HTTP."""

    def __init__(self, **kw):
        self.lock = threading.Lock()
        self.count = 0
        super().__init__(self.serve, **kw)

    def serve(self, conn):
        with self.lock:
            self.count += 1
        first = conn.exactly(1)
        if first == b"\x16":
            return
        if b"upgrade:" in conn.until(b"\r\n\r\n").lower():
            conn.send("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
        else:
            conn.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")


class Ways(Case):
    def setUp(self):
        super().setUp()
        # Where nothing may ever arrive: the same port of addresses that no rule lets through.
        forbidden = ("127.0.0.1", "127.0.0.9", "::1")
        self.port = free_port("127.0.0.5", "127.0.0.6", *forbidden)
        self.upstream = self.counted(port=self.port)
        self.forbidden = [self.counted(host=host, port=self.port) for host in forbidden]

    def counted(self, **kw):
        origin = Counted(**kw)
        self.addCleanup(self._close_origin, origin)
        return origin

    def gateway(self, *origins, **kw):
        limits = {"idleUpstreams": 0, "dnsTries": 1, **kw.pop("limits", {})}
        timeouts = {"dnsQueryMs": 150, "attemptDelayMs": 20, **kw.pop("timeouts", {})}
        return self.proxy(*(origins or (self.upstream,)), limits=limits, timeouts=timeouts, **kw)

    # One try on each way; gives (True: got through, HTTP status or SOCKS reply, token).

    def by_connect(self, gateway, host):
        client = self.client(gateway)
        client.send(b"CONNECT " + bracketed(host) + b":%d HTTP/1.1\r\nHost: x\r\n\r\n" % self.port)
        r = client.response("CONNECT")
        if r.status == 200:
            client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertEqual(client.response().status, 200)
        return r.status == 200, r.status, r.get("X-Proxy-Error")

    def by_http(self, gateway, host, fields=b"", scheme=b"http"):
        client = self.client(gateway)
        client.send(b"GET " + scheme + b"://" + bracketed(host)
                    + b":%d/ HTTP/1.1\r\nHost: x\r\n%s\r\n" % (self.port, fields))
        r = client.response()
        through = r.status in (200, 101)
        if scheme == b"https":  # the origin speaks no TLS: that it was reached shows in the class
            through = r.get("X-Proxy-Error") in ("upstream-tls", "upstream-certificate")
        return through, r.status, r.get("X-Proxy-Error")

    def by_socks(self, gateway, host):
        client = self.client(gateway)
        client.socks_greet()
        code = client.socks(host, self.port)[1]
        if code == 0:
            client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertEqual(client.response().status, 200)
        return code == 0, code, None

    def ways(self, gateway, host):
        """(name, call) of each way that can carry this host."""
        raw = host if isinstance(host, bytes) else host.encode("latin-1")
        yield "connect", lambda: self.by_connect(gateway, raw)
        yield "http", lambda: self.by_http(gateway, raw)
        yield "https", lambda: self.by_http(gateway, raw, scheme=b"https")
        yield "upgrade", lambda: self.by_http(gateway, raw,
                                              b"Connection: upgrade\r\nUpgrade: x\r\n")
        if len(raw) > 255:
            return  # more than a SOCKS name can be
        yield "socks name", lambda: self.by_socks(gateway, raw)
        try:
            address = ipaddress.ip_address(raw.decode("latin-1"))
        except ValueError:
            return
        yield "socks address", lambda: self.by_socks(gateway, address)

    def expect(self, gateway, host, verdict, reached=None):
        """The verdict on every way, and as many connections as were let through."""
        reached = reached or self.upstream
        for name, call in self.ways(gateway, host):
            with self.subTest(host=host, way=name):
                before = reached.count
                through, said, token = call()
                if verdict == ALLOW:
                    self.assertTrue(through, (said, token))
                    self.assertTrue(until(lambda b=before: reached.count == b + 1))
                    continue
                statuses, tokens, replies = verdict
                self.assertFalse(through)
                if name.startswith("socks"):
                    self.assertIn(said, replies)
                else:
                    self.assertIn(said, statuses)
                    self.assertIn(token, tokens)
                self.assertEqual(reached.count, before)
        for origin in self.forbidden:
            self.assertEqual(origin.count, 0 if origin is not reached else origin.count)


def bracketed(raw):
    bare = raw.count(b":") > 1 and not raw.startswith(b"[")
    return b"[" + raw + b"]" if bare else raw


class Rules(Ways):
    """Hosts against lists; what policy refuses is not even looked up."""

    TABLE = (
        # allowed, denied, strict, {verdict: hosts}
        (["ok.test"], [], False, {
            ALLOW: ["ok.test", "OK.TEST", "oK.tEst.", "ok.test."],
            POLICY: ["no.test", "a.ok.test", "ok.test.no.test", "ok.tes", "xok.test", "127.0.0.9",
                     "127.1", "[::1]", "::ffff:127.0.0.1", "localhost", "ok_.test"],
        }),
        (["*.wild.test"], [], False, {
            ALLOW: ["a.wild.test", "a.b.wild.test", "A.WILD.TEST.", "_x.wild.test", "a_b.wild.test",
                    "xn--bcher-kva.wild.test", "-.wild.test"],
            POLICY: ["wild.test", "wild.test.", "awild.test", "a.wild.test.no.test", "1.2.3.4",
                     "ok.test"],
        }),
        (["ok.test:PORT", "two.test:1"], [], False, {
            ALLOW: ["ok.test", "OK.test."], POLICY: ["two.test", "no.test"],
        }),
        (["ok.test", "*.wild.test"], ["bad.wild.test", "*.worse.wild.test", "two.test:PORT"], False, {
            ALLOW: ["ok.test", "good.wild.test", "worse.wild.test"],
            POLICY: ["bad.wild.test", "BAD.wild.test.", "a.worse.wild.test", "two.test"],
        }),
        (["ok.test"], ["ok.test:1", "ok.test:PORT"], False, {POLICY: ["ok.test", "OK.TEST."]}),
        (["ok.test", "two.test"], ["*"], False, {POLICY: ["ok.test", "two.test", "127.0.0.5"]}),
        (["ok.test"], ["*:1"], False, {ALLOW: ["ok.test", "127.0.0.5"]}),
        (["ok.test"], [], True, {ALLOW: ["ok.test"], POLICY: ["no.test", "two.test"]}),
        ([], [], True, {POLICY: ["ok.test", "localhost", "127.0.0.9"]}),
    )

    def test_lists(self):
        for name in ("a.b.wild.test", "ok_.test"):
            self.dns.add(name, "127.0.0.5")
        for allowed, denied, strict, verdicts in self.TABLE:
            there = [[e.replace("PORT", str(self.port)) for e in entries]
                     for entries in (allowed, denied)]
            gateway = self.gateway(allowed=there[0], denied=there[1], strictAllowlist=strict)
            for verdict, hosts in verdicts.items():
                for host in hosts:
                    self.dns.queries.clear()
                    with self.subTest(allowed=allowed, denied=denied):
                        self.expect(gateway, host, verdict)
                        if verdict == POLICY:
                            self.assertEqual(self.dns.queries, [])

    def test_spellings_of_an_address(self):
        gateway = self.gateway()
        for host in ("127.0.0.5", "127.0.0.5.", "127.5", "127.0.5", "0x7f.0.0.5", "0177.0.0.5",
                     "2130706437", "0x7f000005", "017700000005", "::ffff:127.0.0.5",
                     "[::ffff:7f00:5]", "0:0:0:0:0:FFFF:7F00:0005"):
            self.expect(gateway, host, ALLOW)
        for host in ("127.0.0.9", "127.9", "0x7f.9", "2130706441", "127.1", "0", "0.0.0.0", "::1",
                     "::", "::ffff:127.0.0.9", "::127.0.0.5", "64:ff9b::7f00:5", "2002:7f00:5::",
                     "::ffff:0:127.0.0.5"):
            self.expect(gateway, host, POLICY)
        self.assertEqual(self.dns.queries, [])

    def test_malformed_hosts(self):
        gateway = self.gateway(allowed=["ok.test", "*.wild.test", "*.test.example"])
        for host in (b"256.0.0.1", b"1.2.3.4.5", b"1.2.3.08", b"127.0.0.0x", b"ok..test",
                     b"a..wild.test", b".wild.test", b"ok.test..", b".", b"..", b"ok%2etest",
                     b"ok.test%00", b"%6fk.test", b"ok.test%2e", "\u00f6k.wild.test".encode(),
                     "ok\u3002test".encode(), "\uff4fk.test".encode(), b"a.wild.test\xff",
                     b"*.wild.test", b"[::1%251]", b"[::1", b"[]", b"[[::1]]",
                     b"a" * 63 + b"." + b"a" * 182 + b".wild.test"):
            self.expect(gateway, host, MALFORMED)
        self.assertEqual(self.dns.queries, [])


    def test_brackets_around_a_name(self):
        """No form of HTTP has them; a SOCKS name loses one pair."""
        gateway = self.gateway()
        for host, verdict in ((b"[ok.test]", True), (b"[127.0.0.5]", True), (b"[no.test]", False),
                              (b"[127.0.0.9]", False), (b"[[ok.test]]", False)):
            for name, call in self.ways(gateway, host):
                with self.subTest(host=host, way=name):
                    through, said, _ = call()
                    self.assertEqual(through, verdict and name == "socks name")
                    if not through and name != "socks name":
                        self.assertIn(said, (400, 403))
        self.assertEqual([o.count for o in self.forbidden], [0, 0, 0])


class Answers(Ways):
    """What the resolver says, for a name that policy allows."""

    def script(self, name, a=None, aaaa=None):
        self.dns.script(name, "A", *(a or [Answer()]))
        self.dns.script(name, "AAAA", *(aaaa or [Answer()]))

    def test_addresses(self):
        second = self.counted(host="127.0.0.6", port=self.port)
        gateway = self.gateway(allowed=["*.wild.test", f"127.0.0.6:{self.port + 1}"],
                               deniedResolvedAddresses=["10.0.0.0/8", "fd00::/8"])
        table = (
            (ALLOW, ["127.0.0.5"], []),
            (ALLOW, [], ["::ffff:127.0.0.5"]),
            (ALLOW, ["127.0.0.1", "127.0.0.5"], []),
            (ALLOW, ["127.0.0.5", "127.0.0.9"], ["::1"]),
            (ALLOW, ["127.0.0.5", "10.0.0.1"], ["fd00::1"]),
            (ADDRESS, ["127.0.0.1"], []),
            (ADDRESS, ["127.0.0.9"], ["::1"]),
            (ADDRESS, ["127.0.0.6"], []),  # carved out for another port
            (ADDRESS, [], ["::1"]),
            (ADDRESS, [], ["::ffff:127.0.0.1"]),
            (ADDRESS, [], ["64:ff9b::7f00:5", "2002:7f00:5::1", "::127.0.0.5"]),
            (ADDRESS, ["10.1.2.3"], []),
            (ADDRESS, [], ["fd00::1"]),
            (ADDRESS, ["0.0.0.0"], ["::"]),
            (ADDRESS, ["169.254.169.254"], ["fe80::1", "fd00:ec2::254"]),
            (ADDRESS, ["224.0.0.1", "255.255.255.255", "100.100.100.200"], ["ff02::1"]),
            (UNRESOLVED, [], []),
        )
        for i, (verdict, a, aaaa) in enumerate(table):
            name = f"n{i}.wild.test"
            self.dns.add(name, *a, *aaaa)
            with self.subTest(a=a, aaaa=aaaa):
                self.expect(gateway, name, verdict)
                self.expect(gateway, name.upper() + ".", verdict)
        self.assertEqual(second.count, 0)

    def test_only_ipv6(self):
        six = self.forbidden.pop()
        gateway = self.gateway(six, allowed=["a.wild.test", "b.wild.test"])
        self.dns.add("a.wild.test", "::1")
        self.dns.add("b.wild.test", "::1", "127.0.0.1")
        self.expect(gateway, "a.wild.test", ALLOW, six)
        self.expect(gateway, "b.wild.test", ALLOW, six)
        self.expect(gateway, "::1", ALLOW, six)
        self.expect(gateway, "0:0::0:1", ALLOW, six)

    def test_cnames(self):
        gateway = self.gateway(allowed=["*.wild.test"], deniedResolvedAddresses=["10.0.0.0/8"])
        for i, (verdict, target, address) in enumerate((
                (ALLOW, "real.no.test", "127.0.0.5"), (ADDRESS, "inner.no.test", "10.0.0.1"),
                (ADDRESS, "localhost", "127.0.0.1"), (ADDRESS, "n0.wild.test", "169.254.169.254"))):
            name = f"c{i}.wild.test"
            self.script(name, [Answer(address, cname=target)])
            self.expect(gateway, name, verdict)

    def test_failures(self):
        gateway = self.gateway(allowed=["*.wild.test", "absent.example"])
        for i, (verdict, answer) in enumerate((
                (UNRESOLVED, NXDOMAIN), (UNRESOLVED, SERVFAIL), (UNRESOLVED, REFUSED))):
            name = f"f{i}.wild.test"
            self.script(name, [Answer(rcode=answer)], [Answer(rcode=answer)])
            self.expect(gateway, name, verdict)
        self.expect(gateway, "absent.example", UNRESOLVED)
        self.script("silent.wild.test", [DROP], [DROP])
        self.expect(gateway, "silent.wild.test", SILENT)
        self.script("half.wild.test", [Answer("127.0.0.5")], [DROP])
        self.expect(gateway, "half.wild.test", ALLOW)

    def test_rebinding(self):
        """Each dial resolves anew and is judged by what it was told then."""
        gateway = self.gateway(allowed=["*.wild.test"])
        for i, name in enumerate(n for n, _ in self.ways(gateway, "x.wild.test")):
            host = f"r{i}.wild.test"
            self.script(host, [Answer("127.0.0.5", ttl=3600), Answer("127.0.0.1", ttl=3600),
                               Answer("127.0.0.5"), Answer("10.0.0.1", "127.0.0.9")])
            with self.subTest(way=name):
                call = dict(self.ways(gateway, host))[name]
                for wanted in (True, False, True):
                    self.assertEqual(call()[0], wanted)
        self.assertTrue(until(lambda: self.upstream.count >= 10))
        self.assertEqual([o.count for o in self.forbidden], [0, 0, 0])

    def test_a_port_nobody_listens_on(self):
        dead = self.counted(host="127.0.0.6", port=self.port)
        dead.close()
        gateway = self.gateway(dead, allowed=["*.wild.test"])
        self.dns.add("dead.wild.test", "127.0.0.6")
        self.expect(gateway, "dead.wild.test", DEAD)
        self.expect(gateway, "127.0.0.6", DEAD)


class Left(Ways):
    def test_a_client_that_left_has_nothing_dialled(self):
        gateway = self.gateway(allowed=["*.wild.test"], timeouts={"dnsQueryMs": 5000})
        ends = [(way, end) for way in ("connect", "http", "socks") for end in ("reset", "close")
                if (way, end) != ("http", "close")]  # a FIN after a whole request does not end it
        for i, (way, end) in enumerate([*ends, ("connect", None)]):
            name = f"late{i}.wild.test"
            self.dns.script(name, "A", Answer("127.0.0.5", delay=0.3))
            self.dns.script(name, "AAAA", Answer())
            client = self.client(gateway)
            if way == "socks":
                client.socks_greet()
                client.send(socks_request(name, self.port))
            else:
                client.send(f"CONNECT {name}:{self.port} HTTP/1.1\r\n\r\n" if way == "connect" else
                            f"GET http://{name}:{self.port}/ HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertTrue(until(lambda n=name: self.dns.asked(n, "A")))
            if end:
                getattr(client, end)()
            else:  # the last one stays, and is answered after the others would have been
                self.assertEqual(client.head().status, 200)
        self.assertTrue(until(lambda: self.upstream.count > 0))
        self.assertEqual(self.upstream.count, 1)
