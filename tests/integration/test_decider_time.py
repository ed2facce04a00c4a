"""The proxy's timer, and what comes after it: chapter 35 section 4."""

import time

from harness import DeciderCase, allow, deny, frame, need_body, quick, shown

LIMIT = 200


class Time(DeciderCase):
    def begin(self, decide=lambda m: None, **kw):
        return self.start(decide, timeoutMs=LIMIT, **kw)

    def works(self):
        self.peer.decide = allow
        count = len(self.upstream.requests)
        self.assertEqual(self.client(self.srt).get(f"{self.url}/works").status, 200)
        self.assertEqual(len(self.upstream.requests), count + 1)

    def broken(self, client):
        client.close()
        self.srt.stopped("decider")

    def timed_out(self, client):
        """The request of that client is answered at the limit."""
        client.sock.settimeout(LIMIT / 1000 + 5)
        self.unavailable(client.response())
        self.nothing_out()

    @quick
    def test_no_verdict(self):
        client = self.begin()
        before = time.monotonic()
        client.send(f"GET {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
        self.timed_out(client)
        self.assertGreaterEqual(time.monotonic() - before, LIMIT / 1000 * 0.9)
        self.works()

    @quick
    def test_50_at_once(self):
        """Row F3: no answer, each is told so at the limit, nothing was let out."""
        self.begin()
        clients = [self.client(self.srt) for _ in range(50)]
        for client in clients:
            client.send(f"GET {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
        self.peer.wait(50)
        for client in clients:
            self.timed_out(client)
        # All of them late, then all dropped.
        self.peer.send(*[allow({"id": i}) for i in range(1, 51)])
        self.works()
        self.assertEqual(self.upstream.targets(), ["/works"])

    @quick
    def test_the_default_is_5_seconds(self):
        client = self.start(lambda m: None)
        before = time.monotonic()
        client.send(f"GET {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
        self.unavailable(client.response())
        self.assertAlmostEqual(time.monotonic() - before, 5, delta=0.9)
        self.nothing_out()

    @quick
    def test_late_verdicts_are_dropped(self):
        for late in (allow({"id": 1}), deny({"id": 1}), need_body({"id": 1}, 5)):
            client = self.begin()
            client.send(f"POST {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\nContent-Length: 1\r\n\r\na")
            self.timed_out(client)
            self.peer.send(late)
            self.works()
            self.assertEqual(self.peer.of("body"), [])

    def test_a_late_need_body_and_a_late_verdict(self):
        client = self.begin()
        client.send(f"GET {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
        self.timed_out(client)
        self.peer.send(need_body({"id": 1}, 5), deny({"id": 1}))
        self.works()

    @quick
    def test_no_timer_while_the_body_is_read(self):
        client = self.begin(lambda m: need_body(m, 100) if m["t"] == "req" else allow(m))
        client.send(f"POST {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\nContent-Length: 3\r\n\r\n")
        for piece in "abc":
            time.sleep(LIMIT / 1000 * 0.8)
            client.send(piece)
        self.assertEqual(client.response().status, 200)
        self.assertEqual(shown(self.peer.of("body")[0]), b"abc")

    @quick
    def test_a_timer_of_its_own_after_the_body(self):
        client = self.begin(lambda m: need_body(m, 100) if m["t"] == "req" else None)
        client.send(f"POST {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\nContent-Length: 3\r\n\r\nabc")
        self.peer.wait(1, "body")
        self.timed_out(client)
        self.peer.send(allow({"id": 1}))
        self.works()

    @quick
    def test_a_late_need_body_after_the_body(self):
        client = self.begin(lambda m: need_body(m, 100) if m["t"] == "req" else None)
        client.send(f"POST {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\nContent-Length: 3\r\n\r\nabc")
        self.timed_out(client)
        self.peer.send(need_body({"id": 1}, 5))
        self.broken(client)

    def test_a_need_body_for_one_that_was_refused_its_body(self):
        client = self.begin(lambda m: need_body(m, 100))
        client.send(f"GET {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\nContent-Length: 3\r\n\r\nabc")
        self.refused(client.response(), 403, "bodyless_method_body")
        self.peer.send(need_body({"id": 1}, 5))
        self.broken(client)

    @quick
    def test_a_client_that_leaves(self):
        """Its question is late at once: the answer is dropped, and nothing goes out."""
        for late in (allow({"id": 1}), need_body({"id": 1}, 5), deny({"id": 1})):
            client = self.start(lambda m: None)
            client.send(f"GET {self.url}/left HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
            self.peer.wait(1)
            client.reset()
            # Once the proxy knows, which another question's coming shows.
            self.works()
            self.peer.send(late)
            self.works()
            self.assertEqual(self.upstream.targets(), ["/works", "/works"])

    @quick
    def test_a_client_that_leaves_after_the_body(self):
        client = self.start(lambda m: need_body(m, 5) if m["t"] == "req" else None)
        client.send(f"POST {self.url}/left HTTP/1.1\r\nHost: {self.at}\r\nContent-Length: 3\r\n\r\nabc")
        self.peer.wait(1, "body")
        client.reset()
        self.works()
        self.peer.send(need_body({"id": 1}, 5))
        self.broken(client)
        self.assertEqual(self.upstream.targets(), ["/works"])

    @quick
    def test_a_question_does_not_hold_up_others(self):
        client = self.begin(lambda m: None if m["path"] == "/slow" else allow(m))
        client.send(f"GET {self.url}/slow HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
        self.peer.wait(1)
        other = self.client(self.srt)
        for _ in range(20):
            self.assertEqual(other.get(f"{self.url}/quick").status, 200)
        client.sock.settimeout(5)
        self.unavailable(client.response())

    def test_a_verdict_in_pieces_is_in_time_when_whole(self):
        client = self.begin()
        client.send(f"GET {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
        whole = frame(allow(self.peer.wait(1)[0]))
        self.peer.send(whole[:20])
        self.timed_out(client)
        self.peer.send(whole[20:])
        self.works()
        self.assertEqual(self.upstream.targets(), ["/works"])
