"""What a decider of protocol 1 is asked, what its verdicts do, and the ways for it to go: chapter 35
sections 3 and 4, on plain HTTP."""

import json
import os
import socket
import threading

from harness import DeciderCase, allow, deny, frame, need_body, quick
from harness.resources import SANITIZED, until


class Asked(DeciderCase):
    """The frames that the proxy writes."""

    def ask(self, data):
        count = len(self.peer.of("req"))
        self.client(self.srt).send(data)
        return self.peer.wait(count + 1)[-1]

    @quick
    def test_all_fields(self):
        client = self.start()
        client.send(f"POST {self.url}/v1/things?limit=10 HTTP/1.1\r\nX-One: a\r\nHost: {self.at}\r\n"
                    "Accept: */*\r\nx-ONE:  b \r\nX-Empty:\r\nContent-Length: 2\r\n\r\nhi")
        self.assertEqual(client.response().status, 200)
        self.assertEqual(self.peer.messages, [{
            "t": "req", "id": 1, "method": "POST", "host": "ok.test", "port": self.upstream.port,
            "hostHeader": self.at, "path": "/v1/things", "query": "limit=10",
            "headers": {"x-one": ["a", "b"], "accept": ["*/*"], "x-empty": [""],
                        "content-length": ["2"]}}])
        self.assertEqual(self.last().body, b"hi")

    @quick
    def test_the_bytes(self):
        client = self.start()
        client.send(f"GET {self.url}/a/%2e%2E/b?c=\"d\" HTTP/1.1\r\nHost: {self.at}\r\nX-A: \\\"/\t\r\n\r\n"
                    .replace('c="d"', "c=%22d"))
        self.assertEqual(client.response().status, 200)
        port = self.upstream.port
        self.assertEqual(self.peer.link.raw, frame(b'{"t":"hello","proto":1}') + frame(
            (f'{{"t":"req","id":1,"method":"GET","host":"ok.test","port":{port},"hostHeader":"{self.at}",'
             r'"path":"/a/%2e%2E/b","query":"c=%22d","headers":{"x-a":["\\\"/"]}}').encode()))

    def test_what_is_left_out(self):
        self.start(lambda m: deny(m))
        m = self.ask(f"GET http://127.0.0.5:{self.upstream.port} HTTP/1.0\r\n\r\n")
        self.assertEqual(m, {"t": "req", "id": 1, "method": "GET", "host": "127.0.0.5",
                             "port": self.upstream.port, "path": "/"})
        m = self.ask(f"GET {self.url}/? HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
        self.assertNotIn("query", m)
        self.assertNotIn("headers", m)

    @quick
    def test_targets_as_they_are_spelled(self):
        client = self.start()
        for target, path, query in (("/a/../b", "/a/../b", None), ("/%2e/%7E;x", "/%2e/%7E;x", None),
                                    ("/a//b//", "/a//b//", None), ("/a?b?c=/../", "/a", "b?c=/../"),
                                    ("?x", "/", "x"), ("", "/", None), ("/a\\b", "/a\\b", None)):
            with self.subTest(target):
                client.send(f"GET {self.url}{target} HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
                self.assertEqual(client.response().status, 200)
                m = self.peer.messages[-1]
                self.assertEqual((m["path"], m.get("query")), (path, query))
                self.assertEqual(self.last().target, path + (f"?{query}" if query else ""))

    def test_hosts_are_canonical(self):
        self.start(lambda m: deny(m))
        for host in ("OK.test", "ok.test.", "Ok.TEST."):
            m = self.ask(f"GET http://{host}:{self.upstream.port}/ HTTP/1.0\r\n\r\n")
            self.assertEqual(m["host"], "ok.test", host)

    def test_default_ports(self):
        # Nothing is sent there: the answer is a denial.
        self.start(lambda m: deny(m), allowed_by=["ok.test"])
        for url, port in (("http://ok.test/", 80), ("http://ok.test:80/", 80),
                          ("https://ok.test/", 443), ("http://ok.test:443/", 443)):
            m = self.ask(f"GET {url} HTTP/1.0\r\n\r\n")
            self.assertEqual((m["port"], m["path"]), (port, "/"), url)

    def test_methods(self):
        client = self.start()
        for method in ("GET", "get", "PROPFIND", "X!#$%&'*+-.^_`|~9", "DELETE"):
            self.assertEqual(client.get(f"{self.url}/", method=method).status, 200, method)
            self.assertEqual(self.peer.messages[-1]["method"], method)

    @quick
    def test_ids_rise_by_one(self):
        client = self.start()
        for _ in range(20):
            client.get(f"{self.url}/")
        self.assertEqual([m["id"] for m in self.peer.messages], list(range(1, 21)))

    @quick
    def test_pipes(self):
        client = self.start(pipes=True)
        for _ in range(3):
            self.assertEqual(client.get(f"{self.url}/").status, 200)


class NotAsked(DeciderCase):
    """Requests that are answered without the decider."""

    def bad(self, client, data):
        client.send(data)
        r = client.response()
        self.refused(r, 400, "bad_request")
        self.ends(client)

    def never(self, count=0):
        self.assertEqual(len(self.peer.messages), count)
        self.nothing_out()

    def head(self, fields="", target="/", host=None, method="GET"):
        return (f"{method} {self.url}{target} HTTP/1.1\r\nHost: {host or self.at}\r\n{fields}\r\n"
                .encode("latin-1"))

    @quick
    def test_hosts_that_the_lists_do_not_allow(self):
        self.start(denied_by=["two.test", "*.wild.test:1"])
        port = self.upstream.port
        for authority in (f"no.test:{port}", f"two.test:{port}", f"TWO.test.:{port}", f"wild.test:{port}",
                          "127.0.0.5:1", "127.0.0.6:80", "a.wild.test:1", f"[::1]:{port}"):
            with self.subTest(authority):
                r = self.client(self.srt).get(f"http://{authority}/")
                self.refused(r, 403, "host_not_allowed")
                client = self.client(self.srt)
                r = client.connect(authority)
                self.assertEqual((r.status, r.get("X-Deny-Reason")), (403, "host_not_allowed"))
        self.never()

    @quick
    def test_bytes_that_are_no_text(self):
        self.start()
        for value in ("\xff", "\xc3", "a\xe9b", "\xed\xa0\x80", "\xc0\xaf", "\xf4\x90\x80\x80", "\xc2\x80",
                      "\xc2\x9f"):
            with self.subTest(value):
                self.bad(self.client(self.srt), self.head(f"X-A: {value}\r\n"))
        self.never()

    def test_bytes_that_do_not_parse(self):
        self.start()
        for field in ("X-A: a\x01b", "X-A: a\x7fb", "X-A: a\x00b", "X\xe9: a", "X A: a", ": a", "X-A : a",
                      "X-A: a\r\n b"):
            with self.subTest(field):
                self.bad(self.client(self.srt), self.head(f"{field}\r\n"))
        self.never()

    @quick
    def test_text_that_is_shown(self):
        client = self.start()
        client.send(self.head("X-A: \u00e9\u20ac\U0001F600\tb\r\n".encode().decode("latin-1")))
        self.assertEqual(client.response().status, 200)
        self.assertEqual(self.peer.messages[0]["headers"]["x-a"], ["\u00e9\u20ac\U0001F600\tb"])
        self.assertEqual(self.last().get("X-A"), "\u00e9\u20ac\U0001F600\tb".encode().decode("latin-1"))

    @quick
    def test_190_values(self):
        client = self.start()
        client.send(self.head("X-A: 1\r\n" * 100 + "".join(f"X-{i}: \r\n" for i in range(90))))
        self.assertEqual(client.response().status, 200)
        self.assertEqual(sum(map(len, self.peer.messages[0]["headers"].values())), 190)
        self.bad(client, self.head("X-A: 1\r\n" * 191))
        self.bad(self.client(self.srt), self.head("".join(f"X-{i}:\r\n" for i in range(191))))
        self.assertEqual(len(self.peer.messages), 1)
        self.assertEqual(len(self.upstream.requests), 1)

    @quick
    def test_64_kib_of_headers(self):
        client = self.start()
        client.send(self.head(f"X: {'a' * 32768}\r\nX: {'b' * 32767}\r\n"))
        self.assertEqual(client.response().status, 200)
        for fields in (f"X: {'a' * 65536}\r\n", f"X: {'a' * 32768}\r\nX: {'b' * 32768}\r\n",
                       f"{'x' * 65536}: a\r\n", f"X: {chr(0xC3) + chr(0xA9)}".ljust(65539, "a") + "a\r\n"):
            self.bad(self.client(self.srt), self.head(fields))
        self.assertEqual(len(self.peer.messages), 1)

    @quick
    def test_8_kib_of_path(self):
        client = self.start()
        for length, status in ((8192, 200), (8193, 400)):
            client.send(self.head(target="/" + "a" * (length - 1)))
            r = client.response()
            self.assertEqual(r.status, status, r)
        self.refused(r, 400, "bad_request")
        self.assertEqual(len(self.peer.messages), 1)

    def test_a_query_may_be_longer(self):
        client = self.start()
        client.send(self.head(target="/?" + "a" * 50000))
        self.assertEqual(client.response().status, 200)
        self.assertEqual(len(self.peer.messages[0]["query"]), 50000)

    @quick
    def test_a_frame_over_1_mib(self):
        self.start(lambda m: deny(m))
        # What the frame holds besides the query, at the largest id.
        rest = len(json.dumps({"t": "req", "id": 2**53 - 1, "method": "GET", "host": "ok.test",
                               "port": self.upstream.port, "hostHeader": self.at, "path": "/", "query": ""},
                              separators=(",", ":")))
        most = (1 << 20) - rest
        client = self.client(self.srt)
        client.send(self.head(target="/?" + "a" * most))
        self.refused(client.response(), 403, "decider")
        self.assertEqual(len(self.peer.messages[0]["query"]), most)
        self.bad(self.client(self.srt), self.head(target="/?" + "a" * (most + 1)))
        self.never(1)

    @quick
    def test_host_fields(self):
        self.start()
        for host in ("two.test", "ok.test", f"ok.test.:{self.upstream.port}", f"x@{self.at}", "",
                     f"{self.at}:", "127.0.0.5"):
            client = self.client(self.srt)
            client.send(self.head().replace(f"Host: {self.at}".encode(), f"Host: {host}".encode()))
            self.refused(client.response(), 421, "misdirected")
        client = self.client(self.srt)
        client.send(self.head(f"Host: {self.at}\r\n"))
        self.refused(client.response(), 421, "misdirected")
        client = self.client(self.srt)
        client.send(f"GET {self.url}/ HTTP/1.1\r\n\r\n")
        self.assertEqual(client.response().status, 400)
        self.never()

    @quick
    def test_trace(self):
        self.start()
        for method in ("TRACE", "TRACK"):
            r = self.client(self.srt).get(f"{self.url}/", method=method)
            self.refused(r, 405, "method_refused", f"the {method} method is not forwarded")
        self.never()

    @quick
    def test_targets(self):
        self.start()
        for target in (f"{self.url}/#a", f"{self.url}/a#", f"{self.url}#", f"{self.url}//a",
                       f"{self.url}/\\a", "/", "*", f"ftp://{self.at}/",
                       "http:///a", "http://ok.test:0/", "http://ok.test:65536/"):
            with self.subTest(target):
                client = self.client(self.srt)
                client.send(f"GET {target} HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
                self.refused(client.response(), 400, "bad_request")
        self.never()


class Verdicts(DeciderCase):
    @quick
    def test_deny(self):
        answers = [deny({"id": 1}), deny({"id": 2}, 418, reason="no tea"), deny({"id": 3}, 599),
                   deny({"id": 4}, 503, reason="later"), deny({"id": 5}, 400)]
        self.start(lambda m: answers[m["id"] - 1])
        for status, text in ((403, "denied by sandbox policy"), (418, "no tea"),
                             (599, "denied by sandbox policy"), (503, "later"),
                             (400, "denied by sandbox policy")):
            client = self.client(self.srt)
            r = client.get(f"{self.url}/")
            self.refused(r, status, "decider", text)
            self.assertEqual(r.get("Content-Type"), "text/plain")
            self.ends(client)
        self.nothing_out()

    @quick
    def test_each_verdict_goes_to_its_request(self):
        """Row F3: 50 questions about one new host at once, answered backwards."""
        self.start(lambda m: None)
        clients = [self.client(self.srt) for _ in range(50)]
        for i, client in enumerate(clients):
            client.send(f"GET {self.url}/{i} HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
        asked = self.peer.wait(50)
        self.assertEqual({(m["host"], m["port"]) for m in asked}, {("ok.test", self.upstream.port)})
        self.nothing_out()
        for m in reversed(asked):
            self.peer.send(allow(m) if int(m["path"][1:]) % 2 else deny(m, 403, reason=m["path"]))
        for i, client in enumerate(clients):
            r = client.response()
            if i % 2:
                self.assertEqual(r.status, 200)
            else:
                self.refused(r, 403, "decider", f"/{i}")
        self.assertEqual(sorted(self.upstream.targets()), sorted(f"/{i}" for i in range(1, 50, 2)))

    @quick
    def test_all_verdicts_in_one_write(self):
        self.start(lambda m: None)
        clients = [self.client(self.srt) for _ in range(10)]
        for client in clients:
            client.send(f"GET {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
        self.peer.send(b"".join(frame(allow(m)) for m in self.peer.wait(10)))
        self.assertEqual([c.response().status for c in clients], [200] * 10)

    def test_pipelined_requests(self):
        client = self.start(lambda m: deny(m) if m["path"] == "/3" else allow(m))
        client.send("".join(f"GET {self.url}/{i} HTTP/1.1\r\nHost: {self.at}\r\n\r\n" for i in range(1, 6)))
        for status in (200, 200, 403):
            self.assertEqual(client.response().status, status)
        self.ends(client)
        self.assertEqual(self.upstream.targets(), ["/1", "/2"])

    def test_a_connection_is_kept(self):
        client = self.start()
        for i in range(5):
            self.assertEqual(client.get(f"{self.url}/{i}").status, 200)
        self.assertEqual(len(self.peer.messages), 5)

    def test_an_upgrade_is_asked_about(self):
        client = self.start(lambda m: deny(m))
        r = client.get(f"{self.url}/", "Connection: Upgrade\r\nUpgrade: websocket\r\n")
        self.refused(r, 403, "decider")
        self.nothing_out()

    @quick
    def test_https_targets_in_clear(self):
        """The client's leg is plain, whatever the target's."""
        client = self.start(lambda m: allow(m, setHeaders={"x": ["1"]}))
        self.refused(client.get(f"https://{self.at}/"), 403, "plaintext_header_set")
        self.nothing_out()


class Violations(DeciderCase):
    """Verdicts that nothing waits for."""

    def both(self, decide):
        """Two requests; the decider breaks the contract at the second. Nothing waits for ever."""
        first = self.start(decide)
        first.send(f"GET {self.url}/first HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
        self.peer.wait(1)
        second = self.client(self.srt)
        second.send(f"GET {self.url}/second HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
        for client in (first, second):
            self.unavailable(client.response())
            self.ends(client)
            client.close()
        self.srt.stopped("decider")
        self.nothing_out()

    @quick
    def test_an_id_that_was_never_given(self):
        self.both(lambda m: {**allow(m), "id": 3} if m["id"] == 2 else None)

    def test_a_broken_frame_ends_every_question(self):
        self.both(lambda m: frame(b"null") if m["id"] == 2 else None)

    @quick
    def test_a_second_verdict(self):
        for second in (allow, deny, lambda m: need_body(m, 5)):
            client = self.start(lambda m, second=second: [deny(m), second(m)])
            self.refused(client.get(f"{self.url}/"), 403, "decider")
            client.close()
            self.srt.stopped("decider")
            self.nothing_out()

    def test_a_verdict_before_the_question(self):
        self.start(lambda m: None)
        self.peer.send({"t": "verdict", "id": 1, "action": "allow"})
        self.srt.stopped("decider")

    def test_a_verdict_of_long_ago(self):
        client = self.start()
        count = 4097
        for start in range(1, count, 64):
            n = min(64, count - start)
            client.send(f"GET {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\n\r\n" * n)
            for _ in range(n):
                self.assertEqual(client.response().status, 200)
        self.peer.decide = lambda m: None
        client.send(f"GET {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
        m = self.peer.wait(count)[-1]
        self.assertEqual(m["id"], count)
        # 4096 below the newest: forgotten, whatever comes.
        old = {"id": 1}
        self.peer.send(allow(old), deny(old), need_body(old, 5), allow(m))
        self.assertEqual(client.response().status, 200)
        # One less, and it is an answer to nothing.
        self.peer.send(allow({"id": 2}))
        self.srt.stopped("decider")


class Gone(DeciderCase):
    """A decider that dies, at each point."""

    def test_between_requests(self):
        client = self.start()
        self.assertEqual(client.get(f"{self.url}/").status, 200)
        self.peer.end()
        self.srt.stopped("decider")
        self.assertEqual(len(self.upstream.requests), 1)

    @quick
    def test_before_the_verdict(self):
        for pipes in (False, True):
            with self.subTest(pipes=pipes):
                client = self.start(lambda m: None, pipes=pipes)
                client.send(f"GET {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
                self.peer.wait(1)
                self.peer.end()
                self.unavailable(client.response())
                self.ends(client)
                client.close()
                self.srt.stopped("decider")
                self.nothing_out()

    @quick
    def test_in_the_middle_of_a_frame(self):
        whole = frame(allow({"id": 1}))
        for n in (1, 3, 4, 5, len(whole) - 1):
            with self.subTest(n):
                client = self.start(lambda m, n=n: whole[:n])
                client.send(f"GET {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
                self.peer.wait(1)
                self.peer.end()
                self.unavailable(client.response())
                client.close()
                self.srt.stopped("decider")
                self.nothing_out()

    @quick
    def test_after_a_whole_verdict(self):
        """What came before the end counts."""
        client = self.start(lambda m: None)
        client.send(f"GET {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
        self.peer.send(deny(self.peer.wait(1)[0], 418))
        self.peer.end()
        self.refused(client.response(), 418, "decider")
        client.close()
        self.srt.stopped("decider")

    @quick
    def test_after_need_body(self):
        client = self.start(lambda m: need_body(m, 100))
        client.send(f"POST {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\nContent-Length: 5\r\n\r\nhe")
        self.peer.wait(1)
        self.peer.end()
        self.unavailable(client.response())
        client.close()
        self.srt.stopped("decider")
        self.nothing_out()

    @quick
    def test_after_the_body(self):
        client = self.start(lambda m: need_body(m, 100) if m["t"] == "req" else None)
        client.send(f"POST {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\nContent-Length: 5\r\n\r\nhello")
        self.peer.wait(1, "body")
        self.peer.end()
        self.unavailable(client.response())
        client.close()
        self.srt.stopped("decider")
        self.nothing_out()

    def test_one_pipe_of_two(self):
        """The end of either stream is the end of the decider."""
        client = self.start(lambda m: None, pipes=True)
        client.send(f"GET {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
        self.peer.wait(1)
        fd, self.peer.link.fd_out = self.peer.link.fd_out, self.peer.link.fd_in
        os.close(fd)
        self.unavailable(client.response())
        client.close()
        self.srt.stopped("decider")

    @quick
    def test_answers_under_way_are_finished(self):
        release = threading.Event()
        self.addCleanup(release.set)
        self.origin_ = self.origin(lambda conn: self.slowly(conn, release))
        self.upstream = self.origin_
        self.peer = self.decider(allow, self.origin_)
        self.srt = self.decided(self.peer)
        self.at = f"ok.test:{self.origin_.port}"
        client = self.client(self.srt)
        client.send(f"GET http://{self.at}/ HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
        client.until(b"first")
        self.peer.end()
        self.assertTrue(until(lambda: self.refuses()))
        release.set()
        self.assertEqual(client.exactly(6), b"second")
        self.srt.stopped("decider")

    @staticmethod
    def slowly(conn, release):
        conn.until(b"\r\n\r\n")
        conn.send("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nfirst")
        release.wait(30)
        conn.send("second")

    def refuses(self):
        """Whether nobody is accepted any more."""
        with socket.socket() as sock:
            return sock.connect_ex(self.srt.address) != 0

    def test_answers_that_never_end_are_cut(self):
        release = threading.Event()
        self.addCleanup(release.set)
        origin = self.origin(lambda conn: self.slowly(conn, release))
        peer = self.decider(allow, origin)
        gateway = self.decided(peer)
        client = self.client(gateway)
        client.send(f"GET http://ok.test:{origin.port}/ HTTP/1.1\r\nHost: ok.test:{origin.port}\r\n\r\n")
        client.until(b"first")
        peer.end()
        gateway.stopped("decider", seconds=5)

    def test_one_that_does_not_read(self):
        client = self.start(lambda m: need_body(m, 32 << 20) if m["t"] == "req" else None,
                            timeoutMs=30000, limits={"queuedBytes": 1 << 30}, env={"SRT_PROXY_REPORT_RSS_MS": "20"})
        half = bytes(32 << 20)
        posts = [client, self.client(self.srt)]
        for post in posts:
            post.send(f"POST {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\nContent-Length: {len(half)}\r\n\r\n")
        self.peer.wait(2)
        self.peer.stop_reading()
        for post in posts:
            post.send(half)
        query = "a" * 1040000
        waiting = [self.client(self.srt) for _ in range(36)]
        for one in waiting:
            try:
                one.send(f"GET {self.url}/?{query} HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
            except ConnectionError:
                break  # it is through already
        self.unavailable(posts[0].response())
        why = self.srt.stopped("decider")
        self.assertRegex(why, r"not reading: \d+ bytes queued")
        self.nothing_out()
        if not SANITIZED:
            most = max(int(line.split()[2]) for line in self.srt.stderr().splitlines()
                       if line.startswith("srt-proxy rss "))
            self.assertLess(most, 400 << 20)

