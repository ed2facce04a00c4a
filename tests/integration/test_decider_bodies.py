"""need_body: what of a body the decider is shown, and what goes upstream after it (chapter 35
section 3)."""

import hashlib
import select
import socket

from harness import DeciderCase, allow, deny, need_body, quick, shown
from harness.resources import MIB, SANITIZED, calm_environment, until


def ask_for(most, then=allow):
    """A decider that looks at so much of every body."""
    return lambda m: need_body(m, most) if m["t"] == "req" else then(m)


def chunked(*pieces, trailer=""):
    return b"".join(f"{len(p):x}\r\n".encode() + p + b"\r\n" for p in (*pieces, b""))[:-2] \
        + trailer.encode() + b"\r\n"


class BodyCase(DeciderCase):
    def seen(self):
        """[(bytes, cut)] of the bodies that were shown."""
        return [(shown(m), m.get("cut", False)) for m in self.peer.of("body")]

    def passed(self, most, body, cut, fields="", raw=None):
        """A POST of that body is shown up to `most`, and arrives whole."""
        before = len(self.seen())
        client = self.client(self.srt)
        self.peer.decide = ask_for(most)
        if raw is None:
            r = self.post(client, body, fields)
        else:
            r = self.post(client, raw, fields + "Transfer-Encoding: chunked\r\n", length=False)
        self.assertEqual(r.status, 200, r)
        self.assertEqual(self.seen()[before:], [(body[:most], cut)])
        self.assertEqual(self.last().body, body)
        # The connection goes on.
        self.peer.decide = allow
        self.assertEqual(client.get(f"{self.url}/next").status, 200)
        self.assertEqual(self.last().target, "/next")


class Shown(BodyCase):
    @quick
    def test_lengths(self):
        self.start()
        for body, most, cut in ((b"", 10, False), (b"a", 10, False), (b"a" * 10, 10, False),
                                (b"a" * 11, 10, True), (b"ab", 1, True), (b"abc" * 1000, 10, True),
                                (bytes(range(256)) * 300, 65536, True)):
            with self.subTest(length=len(body), most=most):
                self.passed(most, body, cut)

    @quick
    def test_chunked(self):
        self.start()
        for pieces, most, cut in (((), 10, False), ((b"a",), 10, False), ((b"aaaaa", b"bbbbb"), 10, False),
                                  ((b"aaaaa", b"bbbbb", b"c"), 10, True), ((b"a" * 70000,) * 3, 65536, True),
                                  ((b"a",) * 500, 499, True), ((b"a",) * 500, 500, False)):
            with self.subTest(pieces=len(pieces), most=most):
                self.passed(most, b"".join(pieces), cut, raw=chunked(*pieces))

    @quick
    def test_trailers_stay(self):
        self.start()
        self.passed(10, b"abc", False, raw=chunked(b"abc", trailer="X-T: 1\r\nX-U: 2\r\n"))
        self.assertEqual(self.upstream.requests[0].trailers, [])
        self.assertNotIn("trailer", self.upstream.requests[0].names)

    @quick
    def test_the_rest_follows_the_allow(self):
        """What is beyond max is not waited for."""
        client = self.start(ask_for(5))
        client.send(f"POST {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\nContent-Length: 11\r\n\r\nhello ")
        self.assertEqual(self.peer.wait(1, "body")[0].get("cut"), True)
        self.assertTrue(until(lambda: self.upstream.connections))
        client.send("world")
        self.assertEqual(client.response().status, 200)
        self.assertEqual(self.last().body, b"hello world")

    @quick
    def test_nothing_goes_out_before(self):
        client = self.start(ask_for(100, lambda m: None))
        client.send(f"POST {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\nContent-Length: 6\r\n\r\nhello")
        self.peer.wait(1)
        self.assertEqual(self.peer.of("body"), [])
        client.send("!")
        self.assertEqual(shown(self.peer.wait(1, "body")[0]), b"hello!")
        self.nothing_out()
        self.peer.send(allow({"id": 1}))
        self.assertEqual(client.response().status, 200)

    @quick
    def test_deny_after_it(self):
        client = self.start(ask_for(100, lambda m: deny(m, 422, reason="not that")))
        self.refused(self.post(client, b"hello"), 422, "decider", "not that")
        self.ends(client)
        self.nothing_out()

    @quick
    def test_edits_after_it(self):
        client = self.start(ask_for(3, lambda m: allow(m, removeHeaders=["x-old"], setHeaders={"x": ["1"]})),
                            args=["--plaintext-header-set"])
        self.assertEqual(self.post(client, b"hello", "X-Old: 1\r\n").status, 200)
        self.assertEqual((self.last().body, self.last().get("x"), self.last().get("x-old")),
                         (b"hello", "1", None))

    def test_other_methods(self):
        self.start()
        for method in ("PUT", "PATCH", "DELETE", "PROPFIND", "X-OWN"):
            client = self.client(self.srt)
            self.peer.decide = ask_for(100)
            self.assertEqual(self.post(client, b"hello", method=method).status, 200)
            self.assertEqual(self.seen()[-1], (b"hello", False))
            self.assertEqual(self.last().body, b"hello")

    @quick
    def test_no_body_at_all(self):
        client = self.start(ask_for(100))
        for method in ("POST", "DELETE", "GET", "HEAD", "OPTIONS"):
            r = client.get(f"{self.url}/", method=method)
            self.assertEqual(r.status, 200, method)
        self.assertEqual(self.seen(), [(b"", False)] * 5)

    @quick
    def test_32_mib(self):
        client = self.start(ask_for(32 * MIB), env={"SRT_PROXY_REPORT_RSS_MS": "20", **calm_environment()})
        body = hashlib.shake_128(b"x").digest(MIB) * 32
        self.assertEqual(self.post(client, body).status, 200)
        self.assertEqual(self.seen() == [(body, False)], True)
        self.assertTrue(self.last().body == body)
        self.peer.messages.clear()
        self.assertEqual(self.post(client, body + b"!").status, 200)
        self.assertEqual(self.seen() == [(body, True)], True)
        self.assertTrue(self.last().body == body + b"!")
        if not SANITIZED:
            most = max(int(line.split()[2]) for line in self.srt.stderr().splitlines()
                       if line.startswith("srt-proxy rss "))
            self.assertLess(most, 120 * MIB)

    def test_32_mib_of_chunks(self):
        self.start()
        piece = hashlib.shake_128(b"y").digest(MIB)
        self.passed(32 * MIB, piece * 32, False, raw=chunked(*[piece] * 32))


class Expecting(BodyCase):
    FIELDS = "Expect: 100-continue\r\n"

    def expect(self, client, length=5):
        client.send(f"POST {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\n{self.FIELDS}"
                    f"Content-Length: {length}\r\n\r\n")

    @quick
    def test_the_proxy_asks_for_what_it_shows(self):
        client = self.start(ask_for(100))
        self.expect(client)
        self.assertEqual(client.head().status, 100)
        client.send("hello")
        self.assertEqual(client.response().status, 200)
        self.assertEqual(self.seen(), [(b"hello", False)])
        self.assertEqual(self.last().body, b"hello")

    @quick
    def test_a_deny_asks_for_nothing(self):
        client = self.start(lambda m: deny(m))
        self.expect(client)
        self.refused(client.response(), 403, "decider")
        self.nothing_out()

    def test_an_allow_leaves_it_to_the_origin(self):
        client = self.start()
        self.expect(client)
        self.assertEqual(client.head().status, 100)
        client.send("hello")
        self.assertEqual(client.response().status, 200)
        self.assertEqual(self.last().get("Expect"), "100-continue")


class Bodyless(BodyCase):
    """GET, HEAD and OPTIONS that carry a body."""

    def refuse(self, method, fields, body):
        client = self.client(self.srt)
        client.send(f"{method} {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\n{fields}\r\n".encode() + body)
        self.refused(client.response(method), 403, "bodyless_method_body")

    @quick
    def test_refused_when_it_is_asked_for(self):
        self.start(ask_for(100))
        for method in ("GET", "HEAD", "OPTIONS"):
            self.refuse(method, "Content-Length: 5\r\n", b"hello")
            self.refuse(method, "Transfer-Encoding: chunked\r\n", chunked(b"hello"))
        self.assertEqual(self.seen(), [])
        self.nothing_out()

    @quick
    def test_the_verdict_for_one_is_late(self):
        self.start(ask_for(100))
        self.refuse("GET", "Content-Length: 1\r\n", b"a")
        self.peer.send(allow({"id": 1}))
        self.peer.decide = allow
        self.assertEqual(self.client(self.srt).get(f"{self.url}/").status, 200)

    def test_empty_ones(self):
        self.start(ask_for(100))
        for method in ("GET", "OPTIONS"):
            for fields, body in (("Content-Length: 0\r\n", b""), ("Transfer-Encoding: chunked\r\n", chunked())):
                client = self.client(self.srt)
                client.send(f"{method} {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\n{fields}\r\n".encode() + body)
                self.assertEqual(client.response(method).status, 200, (method, fields))
        self.assertEqual(self.seen(), [(b"", False)] * 4)

    @quick
    def test_allowed_without_a_look(self):
        client = self.start()
        for method in ("GET", "OPTIONS"):
            r = self.post(client, b"hello", method=method)
            self.assertEqual(r.status, 200)
            self.assertEqual(self.last().body, b"hello")


class WhileReading(BodyCase):
    """What the decider may say before it was shown the body: a deny, and nothing else."""

    def half(self, decide):
        client = self.start(decide)
        client.send(f"POST {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\nContent-Length: 10\r\n\r\nhello")
        self.peer.wait(1)
        return client

    @quick
    def test_deny(self):
        client = self.half(lambda m: [need_body(m, 100), deny(m, 409, reason="changed my mind")])
        self.refused(client.response(), 409, "decider", "changed my mind")
        self.assertEqual(self.seen(), [])
        self.nothing_out()
        self.peer.decide = allow
        self.assertEqual(self.client(self.srt).get(f"{self.url}/").status, 200)

    @quick
    def test_allow(self):
        client = self.half(lambda m: [need_body(m, 100), allow(m)])
        self.broken(client)

    @quick
    def test_need_body(self):
        client = self.half(lambda m: [need_body(m, 100), need_body(m, 100)])
        self.broken(client)

    @quick
    def test_a_second_need_body(self):
        client = self.start(lambda m: need_body(m, 100))
        client.send(f"POST {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\nContent-Length: 5\r\n\r\nhello")
        self.broken(client)

    def broken(self, client):
        self.unavailable(client.response())
        client.close()
        self.srt.stopped("decider")
        self.nothing_out()

    @quick
    def test_a_client_that_leaves(self):
        client = self.half(lambda m: need_body(m, 100))
        client.close()
        self.peer.decide = allow
        self.assertEqual(self.client(self.srt).get(f"{self.url}/").status, 200)
        self.peer.send(deny({"id": 1}))
        self.assertEqual(self.client(self.srt).get(f"{self.url}/").status, 200)
        self.assertEqual(self.seen(), [])

    def test_a_body_that_is_cut_short(self):
        client = self.half(lambda m: need_body(m, 100))
        client.half_close()
        client.rest()
        self.assertEqual(self.seen(), [])
        self.nothing_out()
        self.peer.decide = allow
        self.assertEqual(self.client(self.srt).get(f"{self.url}/").status, 200)

    def test_a_body_that_does_not_parse(self):
        client = self.start(ask_for(100))
        client.send(f"POST {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "5\r\nhelloXX")
        client.rest()
        self.assertEqual(self.seen(), [])
        self.nothing_out()
        self.peer.decide = allow
        self.assertEqual(self.client(self.srt).get(f"{self.url}/").status, 200)


class Budget(BodyCase):
    """64 MiB of bodies at once."""

    def open(self, fields, most=32 * MIB):
        """A request that declares its body so, and sends none of it."""
        client = self.client(self.srt)
        self.peer.decide = lambda m: need_body(m, most)
        asked = len(self.peer.of("req"))
        client.send(f"POST {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\n{fields}\r\n")
        self.peer.wait(asked + 1)
        return client

    @quick
    def test_the_third_of_32_mib(self):
        self.start()
        held = [self.open(f"Content-Length: {40 * MIB}\r\n"), self.open("Transfer-Encoding: chunked\r\n")]
        for fields in ("Content-Length: 1\r\n", "Transfer-Encoding: chunked\r\n"):
            self.unavailable(self.open(fields).response())
        self.nothing_out()
        # Nothing to show is nothing to hold.
        self.peer.decide = ask_for(32 * MIB)
        self.assertEqual(self.post(self.client(self.srt)).status, 200)
        # The verdicts of those that were not held are late.
        self.peer.send(allow({"id": 3}), deny({"id": 4}))
        # A verdict gives the room back.
        self.peer.send(deny({"id": 1}))
        self.refused(held[0].response(), 403, "decider")
        self.peer.decide = ask_for(32 * MIB)
        self.assertEqual(self.post(self.client(self.srt), b"hello").status, 200)

    def test_what_counts(self):
        self.start()
        for fields in ([f"Content-Length: {MIB}\r\n"] * 8 + ["Transfer-Encoding: chunked\r\n"] * 7):
            self.open(fields, most=8 * MIB)
        self.unavailable(self.open("Transfer-Encoding: chunked\r\n", most=1).response())
        self.unavailable(self.open("Content-Length: 1\r\n").response())

    def test_what_origins_do_not_take(self):
        """An allowed body waits among the bytes for slow peers, and leaves no room for others."""
        self.start(ask_for(32 * MIB), limits={"queuedBytes": 65536})
        deaf = socket.create_server(("127.0.0.5", 0))
        self.addCleanup(deaf.close)
        at = f"ok.test:{deaf.getsockname()[1]}"
        client = self.client(self.srt)
        client.send(f"POST http://{at}/ HTTP/1.1\r\nHost: {at}\r\nContent-Length: {24 * MIB}\r\n\r\n".encode()
                    + bytes(24 * MIB))

        def full():
            return self.post(self.client(self.srt), b"hello").status == 503

        self.assertTrue(until(full))
        client.close()
        self.assertTrue(until(lambda: not full()))

    def test_a_body_that_drips(self):
        """What is held for the decider has the time of a body in all."""
        client = self.start(ask_for(1000), timeouts={"requestBodyMs": 700})
        client.send(f"POST {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\nContent-Length: 1000\r\n\r\n")
        dripped = 0
        while dripped < 200 and not select.select([client.sock], [], [], 0.1)[0]:
            client.send(b"x")
            dripped += 1
        self.assertLess(dripped, 200)
        self.assertEqual(client.response().status, 400)
        self.assertEqual(self.seen(), [])
        self.nothing_out()

    def test_clients_that_leave_give_it_back(self):
        self.start()
        for client in [self.open("Transfer-Encoding: chunked\r\n") for _ in range(2)]:
            client.close()
        self.peer.decide = ask_for(32 * MIB)

        def fits():
            return self.post(self.client(self.srt), b"hello").status == 200

        self.assertTrue(until(fits))
