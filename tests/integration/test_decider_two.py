"""Deciders of protocol 2 behind the rules of a gateway: what is asked, and what is remembered
(chapter 35 section 7)."""

import base64
import ipaddress
import time

from harness import TOKEN, TwoCase, allow, deny, echo, quick, socks_request
from harness.decider_two import HOST
from harness.resources import until


class Connections(TwoCase):
    @quick
    def test_connect(self):
        self.begin(origin=self.origin(echo))
        r, client = self.connect("Asked.Wild.Test.:%d" % self.upstream.port)
        self.assertEqual((r.status, r.phrase), (200, "Connection Established"))
        self.assertEqual(client.send("opaque").exactly(6), b"opaque")
        self.assertEqual(self.peer.messages, [{"t": "conn", "id": 1, "via": "connect", "host": HOST,
                                               "port": self.upstream.port, "client": "127.0.0.1"}])

    @quick
    def test_socks(self):
        self.begin(origin=self.origin(echo))
        reply, client = self.socks(HOST, self.upstream.port)
        self.assertEqual(reply, 0)
        self.assertEqual(client.send("opaque").exactly(6), b"opaque")
        self.assertEqual(self.peer.messages, [{"t": "conn", "id": 1, "via": "socks", "host": HOST,
                                               "port": self.upstream.port, "client": "127.0.0.1"}])

    def test_socks_addresses(self):
        self.begin(lambda m: deny(m), allowed=())
        for address, host in (("192.0.2.1", "192.0.2.1"), ("2001:db8::1", "2001:db8::1")):
            reply, _ = self.socks(ipaddress.ip_address(address), 443)
            self.assertEqual((reply, self.conns()[-1]["host"], self.conns()[-1]["port"]), (2, host, 443))

    @quick
    def test_http(self):
        self.begin(asks=["connection"])
        client = self.client(self.srt)
        for path in ("/a", "/b"):
            self.assertEqual(client.get(self.url + path).status, 200)
        port = self.upstream.port
        expected = {"t": "conn", "id": 1, "via": "http", "host": HOST, "port": port, "client": "127.0.0.1"}
        self.assertEqual(self.peer.messages, [expected])
        # Another host on the same connection is a new one; another connection asks again.
        self.assertEqual(client.get(f"http://other.wild.test:{port}/").status, 200)
        self.assertEqual(client.get(f"{self.url}/").status, 200)
        self.assertEqual(self.client(self.srt).get(f"{self.url}/").status, 200)
        self.assertEqual([m["host"] for m in self.conns()], [HOST, "other.wild.test", HOST])

    @quick
    def test_users_and_local_clients(self):
        path = str(self.directory / "clients.sock")
        self.begin(lambda m: deny(m), token=TOKEN, listen=("127.0.0.1:0", f"unix:{path}"))

        def basic(user):
            return "Proxy-Authorization: Basic " + base64.b64encode(f"{user}:{TOKEN}".encode()).decode() + "\r\n"

        self.connect(fields=basic("me"))
        self.client(self.srt).get(f"{self.url}/", basic("sömeone"))
        client = self.client(self.srt)
        client.socks_greet(b"srt", TOKEN.encode())
        client.socks(HOST, 443)
        self.srt.address = path
        self.connect(fields=basic("srt"))
        self.assertEqual([(m["via"], m["client"], m["user"]) for m in self.conns()],
                         [("connect", "127.0.0.1", "me"), ("http", "127.0.0.1", "sömeone"),
                          ("socks", "127.0.0.1", "srt"), ("connect", "local", "srt")])
        self.assertNotIn(TOKEN, str(self.peer.messages))

    @quick
    def test_clients_without_the_token_ask_nothing(self):
        self.begin(token=TOKEN)
        self.assertEqual(self.connect()[0].status, 407)
        self.assertEqual(self.client(self.srt).get(f"{self.url}/").status, 407)
        self.assertEqual(self.peer.messages, [])

    @quick
    def test_deny(self):
        self.begin(lambda m: deny(m, 403, reason="not on a Friday"), args=["--debug"])
        r, client = self.connect()
        self.assertEqual((r.status, r.phrase, r.get("X-Proxy-Error")),
                         (403, "not on a Friday", "blocked-by-allowlist"))
        self.assertTrue(client.ended())
        r = self.client(self.srt).get(f"{self.url}/")
        self.denied(r)
        self.assertEqual(self.socks(HOST, self.upstream.port)[0], 2)
        self.nothing_out()
        self.assertEqual([(x["via"], x["verdict"], x["reason"]) for x in self.srt.records(3)],
                         [(via, "deny", "not on a Friday") for via in ("connect", "http", "socks5")])
        self.assertIn("not on a Friday", self.srt.stderr())

    @quick
    def test_deny_without_a_reason(self):
        self.begin(lambda m: deny(m, 451))
        r, _ = self.connect()
        self.assertEqual((r.status, r.get("X-Proxy-Error")), (451, "blocked-by-allowlist"))
        self.assertTrue(r.phrase)
        self.nothing_out()

    def test_reasons_are_cleaned(self):
        self.begin(lambda m: deny(m, reason="a\tb  \u00e9\u20ac"))
        r, _ = self.connect()
        self.assertEqual(r.status, 403)
        self.assertNotRegex(r.phrase, r"[^\x20-\x7e]")
        self.assertTrue(r.phrase.startswith("a b"), r)

    @quick
    def test_no_answer(self):
        self.begin(lambda m: None, timeoutMs=150)
        self.away(self.connect()[0])
        self.away(self.client(self.srt).get(f"{self.url}/"))
        self.assertEqual(self.socks(HOST, self.upstream.port)[0], 1)
        self.nothing_out()
        self.peer.send(*[allow(m) for m in self.conns()])
        self.peer.decide = allow
        self.assertEqual(self.client(self.srt).get(f"{self.url}/").status, 200)
        self.assertEqual(len(self.upstream.requests), 1)

    @quick
    def test_50_at_once(self):
        """Row F3: 50 CONNECTs to one new host, with each kind of end."""
        self.begin(lambda m: None, origin=self.origin(echo))
        clients = [self.client(self.srt) for _ in range(50)]
        for client in clients:
            client.send(f"CONNECT {self.at} HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
        asked = self.peer.wait(50, "conn")
        self.assertEqual({(m["host"], m["port"]) for m in asked}, {(HOST, self.upstream.port)})
        self.nothing_out()
        self.peer.send(*[deny(m, reason="no") for m in asked])
        for client in clients:
            r = client.response("CONNECT")
            self.assertEqual((r.status, r.phrase), (403, "no"))
        self.nothing_out()
        # Slots, timers and all are free again.
        self.peer.decide = allow
        for _ in range(5):
            self.assertEqual(self.connect()[0].status, 200)

    @quick
    def test_a_client_that_leaves(self):
        self.begin(lambda m: None, origin=self.origin(echo))
        for start in (lambda c: c.send(f"CONNECT {self.at} HTTP/1.1\r\nHost: {self.at}\r\n\r\n"),
                      lambda c: (c.socks_greet(), c.send(socks_request(HOST, self.upstream.port)))):
            client = self.client(self.srt)
            count = len(self.conns())
            start(client)
            asked = self.peer.wait(count + 1, "conn")[-1]
            client.reset()
            self.peer.decide = lambda m: deny(m)
            self.connect()
            self.peer.decide = lambda m: None
            self.peer.send(allow(asked))
        self.peer.decide = lambda m: deny(m, 418)
        self.assertEqual(self.connect()[0].status, 418)
        self.nothing_out()
        self.assertEqual(len(self.peer.links), 1)

    @quick
    def test_bytes_ahead_wait(self):
        self.begin(lambda m: None, origin=self.origin(echo))
        client = self.client(self.srt)
        client.send(f"CONNECT {self.at} HTTP/1.1\r\nHost: {self.at}\r\n\r\nahead")
        asked = self.peer.wait(1, "conn")[0]
        client.send(" of it")
        self.nothing_out()
        self.peer.send(allow(asked))
        self.assertEqual(client.response("CONNECT").status, 200)
        self.assertEqual(client.exactly(11), b"ahead of it")

    def test_addresses_are_checked_all_the_same(self):
        """An allow opens the name, not the addresses of this host."""
        self.begin(allowed=())
        other = self.http(host="127.0.0.6")
        self.dns.add("two.test", "127.0.0.6")
        r, _ = self.connect(f"two.test:{other.port}")
        self.assertEqual((r.status, r.get("X-Proxy-Error")), (403, "blocked-by-sandbox-runtime"))
        self.assertEqual(other.connections, [])
        self.assertEqual(len(self.conns()), 1)


class StaticRules(TwoCase):
    @quick
    def test_they_come_first(self):
        self.begin(lambda m: deny(m, reason="asked"), asks=["connection"], allowed_by=["two.test"],
                   denied_by=["*.wild.test:1", "bad.wild.test"])
        port = self.upstream.port
        for host in ("ok.test", "two.test"):
            self.assertEqual(self.connect(f"{host}:{port}")[0].status, 200, host)
            self.assertEqual(self.client(self.srt).get(f"http://{host}:{port}/").status, 200, host)
        for target in (f"no.test:{port}", "x.wild.test:1", f"bad.wild.test:{port}", f"BAD.wild.test.:{port}"):
            r, _ = self.connect(target)
            self.assertEqual((r.status, r.phrase), (403, "host is on the deny list"), target)
        self.assertEqual(self.peer.messages, [])
        self.assertEqual(self.connect()[0].phrase, "asked")

    def test_a_denied_request_in_the_log(self):
        self.begin(lambda m: deny(m, reason="not this") if m["t"] == "req" else allow(m))
        for host in (HOST, "ok.test"):
            self.assertEqual(self.client(self.srt).get(f"http://{host}:{self.upstream.port}/").status, 403)
        for record in self.srt.records(2):
            self.assertEqual([record.get(k) for k in ("verdict", "rule", "entry", "reason", "close")],
                             ["deny", "decider", None, "not this", "denied"])

    def test_names_in_the_log(self):
        self.begin(asks=["connection"], allowed_by=["two.test"], denied_by=["bad.wild.test"])
        port = self.upstream.port
        with self.client(self.srt) as client:
            client.get(f"http://two.test:{port}/")
        with self.client(self.srt) as client:
            client.get(f"http://bad.wild.test:{port}/")
        self.assertEqual([(r["verdict"], r["rule"], r["entry"]) for r in self.srt.records(2)],
                         [("allow", "decider.allowedDomains[0]", "two.test"),
                          ("deny", "decider.deniedDomains[0]", "bad.wild.test")])

    def test_malformed_hosts_are_not_asked_about(self):
        self.begin()
        for host in ("a_b%2e.test", "256.1.1.1", "1.2.3.08"):
            self.assertEqual(self.connect(f"{host}:443")[0].status, 403, host)
        self.assertEqual(self.conns(), [])

    @quick
    def test_strict_allowlist(self):
        self.begin(allowed_by=["two.test"], network={"strictAllowlist": True})
        for host in (HOST, "two.test"):
            self.assertEqual(self.connect(f"{host}:{self.upstream.port}")[0].status, 403)
        self.assertEqual(self.peer.messages, [])

    @quick
    def test_what_is_asked(self):
        for asks, kinds in ((["connection"], ["conn"]), (["request"], ["req"]),
                            (["connection", "request"], ["conn", "req"]),
                            (["request", "connection"], ["conn", "req"])):
            with self.subTest(asks):
                self.begin(asks=asks)
                self.client(self.srt).get(f"{self.url}/")
                # A host that the lists allow: its requests alone.
                self.client(self.srt).get(f"http://ok.test:{self.upstream.port}/x")
                wanted = (kinds if "conn" in kinds else []) + (["req"] if "req" in kinds else [])
                self.assertEqual([m["t"] for m in self.peer.messages], wanted)

    @quick
    def test_a_host_nobody_answers_for(self):
        """Asked about requests alone, it opens no host."""
        self.begin(asks=["request"])
        r, _ = self.connect()
        self.assertEqual((r.status, r.phrase), (403, "host is not on the allow list"))
        self.assertEqual(self.peer.messages, [])

    @quick
    def test_level(self):
        for level, kinds in (("connection", ["conn"]), ("both", ["conn", "req"])):
            with self.subTest(level):
                self.begin(level=level)
                self.assertEqual(self.client(self.srt).get(f"{self.url}/").status, 200)
                self.assertEqual([m["t"] for m in self.peer.messages], kinds)
        self.begin(level="request")
        self.assertEqual(self.connect()[0].status, 403)
        self.client(self.srt).get(f"http://ok.test:{self.upstream.port}/x")
        self.assertEqual([m["t"] for m in self.peer.messages], ["req"])


class Remembered(TwoCase):
    """ttl"""

    def begin(self, ttl=60, **kw):
        super().begin(lambda m: allow(m, ttl=ttl) if m["t"] == "conn" else allow(m), asks=["connection"],
                      origin=self.http(), **kw)

    def get(self, host=HOST, port=None):
        return self.client(self.srt).get(f"http://{host}:{port or self.upstream.port}/").status

    @quick
    def test_the_same_again(self):
        self.begin()
        for _ in range(3):
            self.assertEqual(self.get(), 200)
            self.assertEqual(self.connect()[0].status, 200)
            self.assertEqual(self.socks(HOST.upper(), self.upstream.port)[0], 0)
        self.assertEqual(len(self.conns()), 1)

    @quick
    def test_another(self):
        self.begin()
        other = self.closed_port()
        self.get()
        self.get(port=other)
        self.get(host="other.wild.test")
        self.assertEqual([(m["host"], m["port"]) for m in self.conns()],
                         [(HOST, self.upstream.port), (HOST, other), ("other.wild.test", self.upstream.port)])

    @quick
    def test_another_client(self):
        path = str(self.directory / "clients.sock")
        self.begin(listen=("127.0.0.1:0", f"unix:{path}"))
        self.get()
        tcp, self.srt.address = self.srt.address, path
        self.get()
        self.get()
        self.assertEqual([m["client"] for m in self.conns()], ["127.0.0.1", "local"])

    @quick
    def test_its_end(self):
        self.begin(ttl=3)
        self.get()
        start = time.monotonic()
        self.get()
        self.assertEqual(len(self.conns()), 1)
        time.sleep(max(0, start + 3.1 - time.monotonic()))
        self.get()
        self.assertEqual(len(self.conns()), 2)

    @quick
    def test_without_it(self):
        self.begin()
        self.peer.decide = allow
        self.get()
        self.get()
        self.assertEqual(len(self.conns()), 2)

    def test_a_deny_is_not_remembered(self):
        self.begin()
        self.peer.decide = lambda m: deny(m)
        for _ in range(2):
            self.assertEqual(self.connect()[0].status, 403)
        self.assertEqual(len(self.conns()), 2)

    @quick
    def test_the_bounds(self):
        for ttl in (86400, 86400.0, 1):
            self.begin(ttl=ttl)
            self.assertEqual(self.get(), 200)

    @quick
    def test_promises_end_with_the_link(self):
        self.begin()
        self.get()
        self.peer.link.close()
        self.peer.wait_hellos(2)
        self.assertTrue(until(lambda: self.get() == 200))
        self.assertEqual(len(self.conns()), 2)

    def test_denied_by_a_rule_that_came_later(self):
        """A new hello's lists count before what an old one's owner said."""
        self.begin()
        self.get()
        self.peer.hello["deniedDomains"] = [HOST]
        self.peer.link.close()
        self.peer.wait_hellos(2)
        self.assertTrue(until(lambda: self.connect()[0].phrase == "host is on the deny list"))
