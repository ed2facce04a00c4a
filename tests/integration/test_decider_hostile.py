"""Clients that try to get around a decider, and deciders at the edge of what they may do."""

import json
import os
import signal
import socket
import time

from harness import UnixDecider, DeciderCase, allow, answer, deny, echo, frame, need_body, quick, shown
from harness.resources import until


class Client(DeciderCase):
    @quick
    def test_named_by_connection(self):
        """What the client lists as hop-by-hop takes nothing from what the decider sets."""
        client = self.start(lambda m: allow(m, setHeaders={"x-new": ["1"]}, cred="c", credential="tok"),
                            args=["--plaintext-header-set"])
        r = client.get(f"{self.url}/", "Connection: X-New, Authorization, X_New\r\nX-New: mine\r\n"
                       "Authorization: mine\r\n")
        self.assertEqual(r.status, 200)
        self.assertEqual((self.last().all("x-new"), self.last().all("authorization")), (["1"], ["Bearer tok"]))

    @quick
    def test_half_close_after_the_request(self):
        client = self.start(lambda m: None)
        client.send(f"GET {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\n\r\n").half_close()
        asked = self.peer.wait(1)[0]
        time.sleep(0.05)
        self.peer.send(allow(asked))
        self.assertEqual(client.response().status, 200)

    @quick
    def test_half_close_after_the_body(self):
        client = self.start(lambda m: need_body(m, 5) if m["t"] == "req" else None)
        client.send(f"POST {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\nContent-Length: 7\r\n\r\nhello!!").half_close()
        asked = self.peer.wait(1, "body")[0]
        time.sleep(0.05)
        self.peer.send(allow(asked))
        self.assertEqual(client.response().status, 200)
        self.assertEqual(self.last().body, b"hello!!")

    @quick
    def test_nothing_is_dialled_for_a_client_that_is_gone(self):
        """Nor for one whose body cannot come any more."""
        self.start(lambda m: None)
        post = f"POST {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\nContent-Length: "
        much = self.client(self.srt).send(f"{post}200000\r\n\r\n".encode() + bytes(200000))
        behind = self.client(self.srt).send(f"{post}1\r\n\r\nx".encode() + post.encode() + b"90000\r\n\r\n"
                                            + bytes(90000))
        both = self.client(self.srt).send(f"{post}1\r\n\r\nx").half_close()
        cut = self.client(self.srt).send(f"{post}10\r\n\r\nhello").half_close()
        asked = self.peer.wait(4)
        time.sleep(0.1)
        for client in (much, behind, both):
            client.reset()
        time.sleep(0.1)
        self.peer.send(*(allow(m) for m in asked))
        self.assertEqual(cut.rest(), b"")
        self.peer.decide = allow
        self.assertEqual(self.client(self.srt).get(f"{self.url}/after").status, 200)
        self.assertEqual(self.upstream.targets(), ["/after"])

    @quick
    def test_a_pipeline_behind_a_body(self):
        """The next request is not part of what is shown, nor lost."""
        client = self.start(lambda m: need_body(m, 100) if m["t"] == "req" and m["method"] == "POST" else allow(m))
        client.send(f"POST {self.url}/a HTTP/1.1\r\nHost: {self.at}\r\nContent-Length: 5\r\n\r\nhello"
                    f"GET {self.url}/b HTTP/1.1\r\nHost: {self.at}\r\n\r\n"
                    f"POST {self.url}/c HTTP/1.1\r\nHost: {self.at}\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "3\r\nabc\r\n0\r\n\r\n"
                    f"GET {self.url}/d HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
        self.assertEqual([client.response().status for _ in range(4)], [200] * 4)
        self.assertEqual([shown(m) for m in self.peer.of("body")], [b"hello", b"abc"])
        self.assertEqual([(r.target, r.body) for r in self.upstream.requests],
                         [("/a", b"hello"), ("/b", b""), ("/c", b"abc"), ("/d", b"")])

    @quick
    def test_a_pipeline_behind_a_denial(self):
        client = self.start(lambda m: deny(m) if m["path"] == "/a" else allow(m))
        client.send(f"POST {self.url}/a HTTP/1.1\r\nHost: {self.at}\r\nContent-Length: 60\r\n\r\n"
                    + f"GET {self.url}/b HTTP/1.1\r\nHost: {self.at}\r\n\r\n" * 3)
        self.refused(client.response(), 403, "decider")
        client.rest()
        self.assertEqual(len(self.peer.messages), 1)
        self.nothing_out()

    @quick
    def test_old_clients(self):
        client = self.start(lambda m: need_body(m, 100) if m["t"] == "req" else allow(m))
        client.send(f"POST {self.url}/ HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello")
        r = client.response()
        self.assertEqual((r.status, r.body), (200, b"hello\n"))
        self.assertEqual(shown(self.peer.of("body")[0]), b"hello")
        self.assertEqual(self.last().body, b"hello")

    @quick
    def test_an_upgrade_goes_on_as_a_request(self):
        """No opaque bytes behind a request that was allowed."""
        client = self.start()
        r = client.get(f"{self.url}/", "Connection: Upgrade\r\nUpgrade: websocket\r\n")
        self.assertEqual(r.status, 200)
        self.assertFalse({"upgrade"} & set(self.last().names))

    def test_a_101_that_nobody_asked_for(self):
        client = self.start(respond=lambda r: b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n")
        self.assertEqual(client.get(f"{self.url}/", "Connection: Upgrade\r\nUpgrade: x\r\n").status, 502)

    @quick
    def test_spellings_of_an_address(self):
        """The decider sees one spelling, and it is the one that is judged."""
        self.start()
        port = self.upstream.port
        for host in ("127.5", "0x7f.5", "2130706437", "127.0.0.5.", "017700000005"):
            with self.subTest(host):
                client = self.client(self.srt)
                client.send(f"GET http://{host}:{port}/ HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n")
                r = client.response()
                self.assertIn((r.status, r.get("X-Deny-Reason")), ((421, "misdirected"), (403, "host_not_allowed")), r)
        self.assertEqual(self.peer.messages, [])
        self.nothing_out()

    @quick
    def test_head(self):
        self.start(lambda m: deny(m, 418, reason="no") if m["path"] == "/no" else allow(m))
        client = self.client(self.srt)
        self.assertEqual(client.get(f"{self.url}/", method="HEAD").status, 200)
        r = client.get(f"{self.url}/no", method="HEAD")
        self.refused(r, 418, "decider")
        self.ends(client)

    @quick
    def test_a_put_whose_connection_was_dead(self):
        """A body that was shown goes out whole, or not at all."""
        conns = []

        def serve(conn):
            conns.append(conn)
            head = conn.until(b"\r\n\r\n")
            if head.startswith(b"GET"):
                conn.send(answer())
                conn.until(b"\r\n\r\n")
                conn.reset()
                return
            body = conn.exactly(5)
            conn.send(answer(body))

        self.upstream = self.origin(serve)
        self.peer = self.decider(lambda m: need_body(m, 100) if m.get("method") == "PUT" else allow(m), self.upstream)
        self.srt = self.decided(self.peer)
        self.at = f"ok.test:{self.upstream.port}"
        self.url = f"http://{self.at}"
        client = self.client(self.srt)
        self.assertEqual(client.get(f"{self.url}/").status, 200)
        r = self.post(client, b"hello", method="PUT")
        self.assertIn((r.status, r.body), ((200, b"hello"), (502, b"Bad Gateway")))

    @quick
    def test_resets_at_each_moment(self):
        self.start(lambda m: None if m["t"] == "body" else allow(m) if m["path"] == "/works" else need_body(m, 5))
        head = f"POST {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\nContent-Length: 10\r\n\r\n"
        for n in (1, len(head) // 2, len(head), len(head) + 3, len(head) + 10):
            for leave in ("reset", "close", "half_close"):
                client = self.client(self.srt)
                client.send((head + "0123456789")[:n])
                if n >= len(head):
                    count = len(self.peer.of("req"))
                    self.peer.wait(max(count, 1))
                getattr(client, leave)()
        self.assertEqual(self.client(self.srt).get(f"{self.url}/works").status, 200)
        for m in self.peer.of("req"):
            if m["path"] != "/works":
                self.peer.send(deny(m))
        self.assertEqual(self.client(self.srt).get(f"{self.url}/works").status, 200)
        self.assertEqual(self.upstream.targets(), ["/works", "/works"])


class Deciders(DeciderCase):
    @quick
    def test_the_longest_lists(self):
        """A hello of a mebibyte is taken."""
        names = [f"n{i}.t" for i in range(76000)]
        hello = {"t": "hello", "proto": 1, "allowedDomains": names, "deniedDomains": ["ok.test"]}
        while len(json.dumps(hello)) > 1 << 20:
            del names[-500:]
        self.start(hello=hello)
        self.refused(self.client(self.srt).get(f"{self.url}/"), 403, "host_not_allowed")
        r = self.client(self.srt).get(f"http://{names[-1]}/")
        self.assertEqual(r.status, 502)

    @quick
    def test_a_body_that_is_taken_slowly(self):
        """A verdict that comes while the body frame is on its way spoils no frame."""
        body = os.urandom(1 << 20) * 4
        for verdict in (allow, deny):
            client = self.start(lambda m: need_body(m, len(body)) if m["t"] == "req" and m["id"] == 1 else None)
            client.send(f"POST {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\nContent-Length: {len(body)}\r\n\r\n")
            self.peer.wait(1)
            self.peer.stop_reading()
            client.send(body)
            self.peer.wait_unread()
            self.peer.send(verdict({"id": 1}))
            r = client.response()
            self.assertEqual(r.status, 200 if verdict is allow else 403)
            second = self.client(self.srt)
            second.send(f"GET {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
            self.peer.reading.set()
            self.assertTrue(shown(self.peer.wait(1, "body")[0]) == body)
            self.peer.send(allow(self.peer.wait(2)[1]))
            self.assertEqual(second.response().status, 200)

    @quick
    def test_a_client_that_leaves_a_body_on_its_way(self):
        body = os.urandom(1 << 20) * 4
        client = self.start(lambda m: need_body(m, len(body)) if m["t"] == "req" and m["id"] == 1 else None)
        client.send(f"POST {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\nContent-Length: {len(body)}\r\n\r\n")
        self.peer.wait(1)
        self.peer.stop_reading()
        client.send(body)
        self.peer.wait_unread()
        client.reset()
        time.sleep(0.05)
        self.peer.reading.set()
        self.peer.wait(1, "body")
        self.peer.decide = allow
        self.assertEqual(self.client(self.srt).get(f"{self.url}/").status, 200)

    @quick
    def test_a_tcp_stream(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            ours = socket.create_connection(server.getsockname())
            theirs, _ = server.accept()
        self.upstream = self.http()
        peer = self.decider(allow, self.upstream)
        peer.started()
        peer.end()
        peer.pass_fds = (theirs.detach(),)
        peer.args = ["--decider-fd", str(peer.pass_fds[0])]
        fd = ours.detach()
        peer._link(fd, os.dup(fd))
        self.srt = self.decided(peer)
        self.at = f"ok.test:{self.upstream.port}"
        self.assertEqual(self.client(self.srt).get(f"http://{self.at}/").status, 200)

    @quick
    def test_one_that_reads_no_more(self):
        """The end of what we write to it is its end, when we write."""
        client = self.start(lambda m: None, pipes=True)
        self.assertIsNone(self.srt.process.poll())
        link = self.peer.link
        os.write(link.waker, b"x")
        link.thread.join()
        os.close(link.fd_in)
        link.fd_in = link.fd_out
        client.send(f"GET {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
        self.unavailable(client.response())
        client.close()
        self.srt.stopped("decider")
        self.nothing_out()

    @quick
    def test_sigterm_with_a_question_open(self):
        client = self.start(lambda m: None)
        client.send(f"GET {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
        asked = self.peer.wait(1)[0]
        self.srt.process.send_signal(signal.SIGTERM)
        time.sleep(0.05)
        self.peer.send(allow(asked))
        self.assertEqual(client.response().status, 200)
        client.close()
        self.srt.stopped("SIGTERM", seconds=5)

    @quick
    def test_verdicts_in_one_frame_too_few(self):
        """Frames that come in pieces, among them a request's answer and half of the next."""
        self.start(lambda m: None)
        clients = [self.client(self.srt) for _ in range(4)]
        for client in clients:
            client.send(f"GET {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
        data = b"".join(frame(allow(m)) for m in self.peer.wait(4))
        for i in range(0, len(data), 7):
            self.peer.send(data[i : i + 7])
            time.sleep(0.001)
        self.assertEqual([c.response().status for c in clients], [200] * 4)

    @quick
    def test_a_name_without_values(self):
        client = self.start(lambda m: allow(m, setHeaders={"x-a": [], "x-b": ["1"]}), args=["--plaintext-header-set"])
        self.assertEqual(client.get(f"{self.url}/", "X-B: 0\r\nX-C: 2\r\n").status, 200)
        self.assertEqual([f for f in self.last().fields if f[0].lower().startswith("x")], [("X-C", "2"), ("x-b", "1")])

    @quick
    def test_text_beyond_ascii(self):
        client = self.start(lambda m: allow(m, setHeaders={"x": ["\u00e9\u20ac"]}), args=["--plaintext-header-set"])
        self.assertEqual(client.get(f"{self.url}/").status, 200)
        self.assertEqual(self.last().get("x").encode("latin-1").decode(), "\u00e9\u20ac")

    @quick
    def test_two_gateways_of_one_decider(self):
        self.upstream = self.http()
        peer = self.decider(allow, self.upstream, kind=UnixDecider)
        gateways = [self.decided(peer) for _ in range(2)]
        for gateway in gateways:
            for _ in range(2):
                self.assertEqual(self.client(gateway).get(f"http://ok.test:{self.upstream.port}/").status, 200)
        self.assertEqual([m["id"] for m in peer.messages], [1, 2, 1, 2])


class Tunnels(DeciderCase):
    """Protocol 2, where connections are asked about."""

    def begin(self, decide=lambda m: None, **kw):
        self.upstream = self.origin(echo)
        self.peer = self.decider(decide, proto=2, allowed=())
        self.srt = self.decided(self.peer, allowed=[self.upstream.literal], **kw)
        self.at = f"ok.test:{self.upstream.port}"
        self.dns.queries.clear()

    @quick
    def test_half_close_before_the_answer(self):
        """Chapter 20 section 4: such a client gets nothing, and nothing is dialled."""
        self.begin()
        client = self.client(self.srt)
        client.send(f"CONNECT {self.at} HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
        asked = self.peer.wait(1, "conn")[0]
        client.half_close()
        self.assertEqual(client.rest(), b"")
        self.peer.send(allow(asked))
        self.peer.decide = lambda m: deny(m)
        self.client(self.srt).connect(self.at)
        self.nothing_out()

    @quick
    def test_early_bytes_are_bounded(self):
        self.begin()
        client = self.client(self.srt)
        client.send(f"CONNECT {self.at} HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
        self.peer.wait(1, "conn")
        try:
            for _ in range(64):
                client.send(bytes(65536))
        except OSError:
            pass  # closed at 64 KiB
        self.assertTrue(client.ended())
        self.nothing_out()

    @quick
    def test_a_client_that_goes_is_not_remembered(self):
        """A ttl in a late answer promises nothing."""
        self.begin()
        client = self.client(self.srt)
        client.send(f"CONNECT {self.at} HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
        asked = self.peer.wait(1, "conn")[0]
        client.reset()
        self.peer.decide = lambda m: deny(m)
        self.client(self.srt).connect(self.at)
        self.peer.send(allow(asked, ttl=3600))
        self.assertEqual(self.client(self.srt).connect(self.at).status, 403)
        self.assertEqual(len(self.peer.of("conn")), 3)
        self.nothing_out()

    @quick
    def test_many_open_questions(self):
        self.begin()
        clients = [self.client(self.srt) for _ in range(300)]
        for i, client in enumerate(clients):
            client.send(f"CONNECT h{i}.test:443 HTTP/1.1\r\nHost: x\r\n\r\n")
        asked = self.peer.wait(300, "conn")
        self.peer.send(b"".join(frame(deny(m, reason=m["host"])) for m in asked))
        for i, client in enumerate(clients):
            self.assertEqual(client.response("CONNECT").phrase, f"h{i}.test")
        self.nothing_out()
        self.assertTrue(until(lambda: len(self.srt.records(300)) == 300))
