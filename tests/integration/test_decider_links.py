"""Deciders of protocol 2: requests, verdicts that break the protocol, and deciders that go and come
back (chapter 35 section 7)."""

import ast
import os
import time

from harness import ExecDecider, TwoCase, UnixDecider, allow, deny, frame, need_body, quick, shown
from harness.decider_two import HOST
from harness.resources import until


class Requests(TwoCase):
    @quick
    def test_plain(self):
        self.begin(lambda m: deny(m, 409, reason="no") if m.get("path") == "/no" else allow(m))
        client = self.client(self.srt)
        self.assertEqual(client.get(f"{self.url}/a?b", "X-One: 1\r\n").status, 200)
        r = self.client(self.srt).get(f"{self.url}/no")
        self.assertEqual((r.status, r.text, r.get("X-Proxy-Error"), r.get("X-Deny-Reason")),
                         (409, "no\n", "blocked-by-sandbox-runtime", None))
        ids = [(m["t"], m["id"]) for m in self.peer.messages]
        self.assertEqual(ids, [("conn", 1), ("req", 2), ("conn", 3), ("req", 4)])
        self.assertEqual(self.peer.of("req")[0], {
            "t": "req", "id": 2, "method": "GET", "host": HOST, "port": self.upstream.port, "hostHeader": self.at,
            "path": "/a", "query": "b", "headers": {"x-one": ["1"]}})
        self.assertEqual(self.upstream.targets(), ["/a?b"])

    @quick
    def test_every_request_of_an_allowed_host(self):
        self.begin(lambda m: deny(m) if m.get("path") == "/no" else allow(m))
        client = self.client(self.srt)
        at = f"http://ok.test:{self.upstream.port}"
        for path, status in (("/a", 200), ("/b", 200), ("/no", 403)):
            self.assertEqual(client.get(at + path).status, status)
        self.assertEqual([m["t"] for m in self.peer.messages], ["req"] * 3)
        self.assertEqual(self.upstream.targets(), ["/a", "/b"])

    def terminated(self, decide=allow, **kw):
        terminate = {"caCertPath": str(self.ca_cert), "caKeyPath": str(self.ca_key)}
        self.begin(decide, origin=self.https(names=("ok.test", HOST)), network={"tlsTerminate": terminate, **kw})
        return self.secure(self.opened(self.srt, self.at), HOST)

    @quick
    def test_inside_a_terminated_tunnel(self):
        client = self.terminated(lambda m: deny(m, 410, reason="gone") if m.get("path") == "/no" else
                                 allow(m, **({"setHeaders": {"x-new": ["1"]}} if m["t"] == "req" else {})))
        r = self.ask(client, "/a?b", host=self.at)
        self.assertEqual((r.status, self.last().get("x-new")), (200, "1"))
        r = self.ask(client, "/no", host=self.at)
        self.assertEqual((r.status, r.text), (410, "gone\n"))
        conn, first, second = self.peer.messages
        self.assertEqual((conn["t"], conn["via"], conn["host"]), ("conn", "connect", HOST))
        self.assertEqual((first["sni"], first["path"], first["query"]), (HOST, "/a", "b"))
        self.assertEqual(second["path"], "/no")
        self.assertEqual(self.upstream.targets(), ["/a?b"])

    @quick
    def test_a_denied_tunnel_asks_nothing_more(self):
        terminate = {"caCertPath": str(self.ca_cert), "caKeyPath": str(self.ca_key)}
        self.begin(lambda m: deny(m, reason="no"), origin=self.https(), network={"tlsTerminate": terminate})
        self.assertEqual(self.connect()[0].phrase, "no")
        self.assertEqual([m["t"] for m in self.peer.messages], ["conn"])
        self.nothing_out()

    @quick
    def test_bodies(self):
        self.begin(lambda m: need_body(m, 3) if m["t"] == "req" else allow(m))
        self.assertEqual(self.post(self.client(self.srt), b"hello").status, 200)
        body = self.peer.of("body")[0]
        self.assertEqual((shown(body), body["cut"], self.last().body), (b"hel", True, b"hello"))

    @quick
    def test_sets_in_the_clear(self):
        def decide(m):
            return allow(m, **({"setHeaders": {"x": ["1"]}} if m["t"] == "req" else {}))

        self.begin(decide)
        r = self.client(self.srt).get(f"{self.url}/")
        self.assertEqual((r.status, r.get("X-Proxy-Error")), (403, "blocked-by-sandbox-runtime"))
        self.nothing_out()
        self.begin(decide, network={"allowPlaintextHeaderSet": True})
        self.assertEqual(self.client(self.srt).get(f"{self.url}/").status, 200)
        self.assertEqual(self.last().get("x"), "1")
        self.begin(decide, args=["--plaintext-header-set"])
        self.assertEqual(self.client(self.srt).get(f"{self.url}/").status, 200)

    @quick
    def test_ambiguous_targets_are_not_asked_about(self):
        self.begin()
        r = self.client(self.srt).get(f"http://ok.test:{self.upstream.port}/a/../b")
        self.assertEqual((r.status, r.get("X-Proxy-Error")), (400, "ambiguous-request-target"))
        self.assertEqual(self.peer.of("req"), [])
        self.nothing_out()

    @quick
    def test_trace(self):
        self.begin()
        r = self.client(self.srt).get(f"http://ok.test:{self.upstream.port}/", method="TRACE")
        self.assertEqual((r.status, r.get("X-Proxy-Error")), (405, "blocked-by-sandbox-runtime"))
        self.assertEqual(self.peer.messages, [])

    @quick
    def test_requests_that_cannot_be_asked_about(self):
        self.begin()
        client = self.client(self.srt)
        r = client.get(f"http://ok.test:{self.upstream.port}/", "X: 1\r\n" * 191)
        self.assertEqual((r.status, r.get("X-Deny-Reason")), (400, None))
        self.assertEqual(self.peer.messages, [])
        self.nothing_out()

    def test_rules_come_before_the_decider(self):
        self.begin(network={"rules": [{"host": "ok.test", "methods": ["POST"], "action": "deny"}]})
        self.assertEqual(self.client(self.srt).get(f"http://ok.test:{self.upstream.port}/", method="POST",
                                                   fields="Content-Length: 0\r\n").status, 403)
        self.assertEqual(self.peer.messages, [])
        self.assertEqual(self.client(self.srt).get(f"http://ok.test:{self.upstream.port}/").status, 200)
        self.assertEqual(len(self.peer.messages), 1)

    @quick
    def test_no_answer(self):
        self.begin(lambda m: None if m["t"] == "req" else allow(m), timeoutMs=150)
        self.away(self.client(self.srt).get(f"{self.url}/"))
        self.nothing_out()


class Broken(TwoCase):
    """What breaks protocol 2: the link ends, the question is refused, and a new link is made."""

    BAD = {
        "ttl 0": lambda m: allow(m, ttl=0),
        "ttl past a day": lambda m: allow(m, ttl=86401),
        "ttl 1.5": lambda m: allow(m, ttl=1.5),
        "ttl as a string": lambda m: allow(m, ttl="5"),
        "ttl -1": lambda m: allow(m, ttl=-1),
        "ttl null": lambda m: allow(m, ttl=None),
        "ttl with a deny": lambda m: deny(m, ttl=5),
        "ttl of all times": lambda m: allow(m, ttl=4294967295),
        "headers for a connection": lambda m: allow(m, setHeaders={"x": ["1"]}),
        "removals for a connection": lambda m: allow(m, removeHeaders=["x"]),
        "a credential for a connection": lambda m: allow(m, cred="a", credential="b"),
        "need_body for a connection": lambda m: need_body(m, 5),
        "no verdict": lambda m: {"t": "conn", "id": m["id"], "action": "allow"},
        "another id": lambda m: {**allow(m), "id": m["id"] + 1},
        "a frame that is too long": lambda m: b"\x00\x10\x00\x01",
        "not JSON": lambda m: frame(b"allow"),
        "a second hello": lambda m: {"t": "hello", "proto": 2, "asks": ["connection"], "allowedDomains": [],
                                     "deniedDomains": []},
    }

    @quick
    def test_verdicts(self):
        for name, decide in self.BAD.items():
            with self.subTest(name):
                self.begin(decide)
                self.away(self.connect()[0])
                self.assertEqual(len(self.conns()), 1)
                self.nothing_out()
                self.peer.decide = allow
                self.peer.wait_hellos(2)
                self.assertTrue(until(lambda: self.client(self.srt).get(f"{self.url}/").status == 200))

    def test_a_ttl_for_a_request(self):
        self.begin(lambda m: allow(m, ttl=5))
        self.away(self.client(self.srt).get(f"http://ok.test:{self.upstream.port}/"))
        self.nothing_out()
        self.peer.wait_hellos(2)

    @quick
    def test_hellos(self):
        good = {"t": "hello", "proto": 2, "asks": ["connection"], "allowedDomains": [], "deniedDomains": []}
        for name, hello in {
                "proto 1": {**good, "proto": 1}, "no asks": {k: v for k, v in good.items() if k != "asks"},
                "asks nothing": {**good, "asks": []}, "asks twice": {**good, "asks": ["request", "request"]},
                "asks for more": {**good, "asks": ["connection", "body"]},
                "asks as a string": {**good, "asks": "request"},
                "an entry that is none": {**good, "allowedDomains": ["*"]},
                "of protocol 1": {"t": "hello", "proto": 1, "allowedDomains": [], "deniedDomains": []}}.items():
            with self.subTest(name):
                peer = self.decider(kind=UnixDecider, proto=2, hello=hello)
                proxy = self.decided(peer, wait=False)
                peer.wait_hellos(2)  # it was sent away, and is tried again
                self.assertFalse(proxy.is_serving())
                peer.hello = good
                proxy.wait_serving()
                proxy.stop()
                peer.close()

    def test_less_than_the_level(self):
        peer = self.decider(kind=UnixDecider, proto=2, asks=["connection"])
        proxy = self.decided(peer, wait=False, level="both")
        peer.wait_hellos(2)
        self.assertFalse(proxy.is_serving())
        peer.hello["asks"] = ["request", "connection"]
        proxy.wait_serving()


class Away(TwoCase):
    """A decider that goes and comes back."""

    def check(self):
        self.away(self.connect()[0])
        self.away(self.client(self.srt).get(f"{self.url}/"))
        self.assertEqual(self.socks(HOST, self.upstream.port)[0], 1)
        # Requests of an allowed host are its to answer, too; its connections are not.
        self.away(self.client(self.srt).get(f"http://ok.test:{self.upstream.port}/"))
        r, client = self.connect(f"ok.test:{self.upstream.port}")
        self.assertEqual(r.status, 200)
        # Denied is denied.
        self.assertEqual(self.connect(f"no.test:{self.upstream.port}")[0].status, 403)

    def comes_back(self):
        self.assertTrue(until(lambda: self.client(self.srt).get(f"{self.url}/back").status == 200))

    @quick
    def test_unix(self):
        self.begin()
        self.assertEqual(self.client(self.srt).get(f"{self.url}/").status, 200)
        self.peer.away()
        self.assertTrue(until(lambda: self.connect()[0].status == 503))
        count = len(self.upstream.requests)
        self.check()
        self.assertEqual(len(self.upstream.requests), count)
        self.peer.back()
        self.comes_back()
        self.assertEqual([m["id"] for m in self.peer.messages[-2:]], [1, 2])  # ids of a new link

    @quick
    def test_its_lists(self):
        """What it allowed by its hello goes with it; what it denied stays denied."""
        self.begin(asks=["connection"], allowed_by=["a.wild.test"], denied_by=["two.test"])
        at, denied = (f"{host}:{self.upstream.port}" for host in ("a.wild.test", "two.test"))
        self.assertEqual((self.connect(at)[0].status, self.connect(denied)[0].status), (200, 403))
        self.assertEqual(self.peer.messages, [])
        self.peer.away()
        self.assertTrue(until(lambda: self.connect(at)[0].status == 503))
        self.assertEqual(self.connect(denied)[0].status, 403)
        self.assertEqual(self.connect(f"ok.test:{self.upstream.port}")[0].status, 200)
        self.peer.back()
        self.assertTrue(until(lambda: self.connect(at)[0].status == 200))
        self.assertEqual(self.connect(denied)[0].status, 403)

    @quick
    def test_a_question_that_is_open(self):
        self.begin(lambda m: None)
        client = self.client(self.srt)
        client.send(f"CONNECT {self.at} HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
        self.peer.wait(1, "conn")
        self.peer.away()
        self.away(client.response("CONNECT"))
        self.nothing_out()

    @quick
    def test_not_there_at_the_start(self):
        self.upstream = self.http()
        self.peer = self.decider(kind=UnixDecider, proto=2, allowed=[HOST])
        self.peer.away()
        self.srt = self.decided(self.peer, wait=False, allowed=[self.upstream.literal])
        time.sleep(0.15)
        self.assertIsNone(self.srt.process.poll(), self.srt.stderr())
        self.peer.back()
        self.srt.wait_serving()
        self.at = f"{HOST}:{self.upstream.port}"
        self.url = f"http://{self.at}"
        self.comes_back()

    @quick
    def test_exec(self):
        self.begin(kind=ExecDecider)
        self.assertEqual(self.client(self.srt).get(f"{self.url}/").status, 200)
        pid, words = ast.literal_eval(self.peer.about)
        self.assertEqual(words, ["two words", "a b"])
        self.peer.quits = True
        self.peer.end()
        self.assertTrue(until(lambda: self.connect()[0].status == 503))
        self.check()
        self.peer.quits = False
        self.comes_back()
        self.assertNotEqual(ast.literal_eval(self.peer.about)[0], pid)
        self.assertGreater(self.peer.runs, 1)
        last = ast.literal_eval(self.peer.about)[0]
        self.srt.stop()
        self.assertTrue(until(lambda: not os.path.exists(f"/proc/{last}")))

    @quick
    def test_the_pause_grows(self):
        self.begin(kind=ExecDecider)
        self.peer.quits = True
        self.peer.end()
        time.sleep(1.5)
        # At once or after 0.1 s, then 0.2, 0.4, 0.8.
        self.assertLess(self.peer.runs, 7)
        self.assertTrue(until(lambda: self.peer.runs > 2))

    def test_a_program_that_is_not_there(self):
        proxy = self.decided(None, args=["--decider-exec", "/nonexistent/decider", "--decider-proto", "2"], wait=False)
        self.assertTrue(until(lambda: "decider" in proxy.stderr()))
        self.assertIsNone(proxy.process.poll())
        self.assertFalse(proxy.is_serving())

    @quick
    def test_protocol_1_over_a_socket(self):
        """It comes back, too, and refuses in the words of proxy-only mode while it is away."""
        self.upstream = self.http()
        self.peer = self.decider(allow, self.upstream, kind=UnixDecider)
        self.srt = self.decided(self.peer)
        self.at = f"ok.test:{self.upstream.port}"
        self.url = f"http://{self.at}"
        self.assertEqual(self.client(self.srt).get(f"{self.url}/").status, 200)
        self.peer.away()
        self.assertTrue(until(lambda: self.client(self.srt).get(f"{self.url}/").status == 503))
        self.unavailable(self.client(self.srt).get(f"{self.url}/"))
        self.peer.back()
        self.comes_back()

    def test_inherited_descriptors_that_end(self):
        """Nobody can bring them back: the gateway goes on, by its rules alone."""
        self.upstream = self.http()
        self.peer = self.decider(proto=2, asks=["connection"], allowed=())
        self.srt = self.decided(self.peer, allowed=["ok.test", self.upstream.literal])
        self.peer.end()
        self.assertTrue(until(lambda: self.connect(f"{HOST}:{self.upstream.port}")[0].status == 503))
        r = self.client(self.srt).get(f"http://ok.test:{self.upstream.port}/")
        self.assertEqual(r.status, 200)


class BySettings(TwoCase):
    """The same through the `decider` of the settings."""

    def by(self, **decider):
        self.upstream = self.http()
        document = self.document(decider, [self.upstream.literal], ["no.test"])
        self.srt = self.decided(None, document=document)
        self.at = f"{HOST}:{self.upstream.port}"
        self.url = f"http://{self.at}"

    @quick
    def test_unix(self):
        self.peer = self.decider(kind=UnixDecider, proto=2, allowed=())
        self.by(unix=self.peer.path)
        self.assertEqual(self.client(self.srt).get(f"{self.url}/").status, 200)
        self.assertEqual([m["t"] for m in self.peer.messages], ["conn", "req"])

    @quick
    def test_exec(self):
        self.peer = self.decider(kind=ExecDecider, proto=2, allowed=())
        self.by(exec=self.peer.command, level="connection")
        self.assertEqual(self.client(self.srt).get(f"{self.url}/").status, 200)
        self.assertEqual([m["t"] for m in self.peer.messages], ["conn"])

    def test_proto_1(self):
        self.upstream = self.http()
        self.peer = self.decider(allow, self.upstream, kind=UnixDecider)
        document = self.document({"unix": self.peer.path, "proto": 1})
        self.srt = self.decided(None, document=document)
        self.at = f"ok.test:{self.upstream.port}"
        self.assertEqual(self.client(self.srt).get(f"http://{self.at}/").status, 200)
        self.assertEqual(self.peer.messages[0]["t"], "req")
        r, _ = self.connect(self.at)
        self.assertEqual((r.status, r.get("X-Deny-Reason")), (403, "opaque_tunnel"))

    @quick
    def test_a_level_asks_for_protocol_2(self):
        """Of a decider that the command line brings: only that one knows levels."""
        self.upstream = self.http()
        peer = self.peer = UnixDecider(self.directory, decide=allow, proto=2, asks=["request"],
                                       allowed=["ok.test"])
        self.addCleanup(peer.close)
        document = self.document({"level": "request"}, [self.upstream.literal])
        peer.args = ["--decider-unix", peer.path]
        self.srt = self.decided(peer, document=document)
        peer.wait_hellos(1)

    def test_two_deciders(self):
        peer = self.decider(proto=2)
        document = self.document({"unix": "/nonexistent"})
        text = self.decided(peer, document=document, wait=False).finish(2)
        self.assertIn("decider", text)
