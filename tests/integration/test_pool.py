"""Upstream connections kept for the next request: chapter 20 section 7, row C12."""

import threading
import time

from harness import WAIT, Authority, Case, Closed, Origin, Request, answer
from harness.resources import until

KEEP, FIN, RESET = "keep", "fin", "reset"


class Served(Origin):
    """HTTP/1.1 that says keep-alive. `script(connection, number, request)` gives the bytes of the
    answer to the connection's number-th request, or (bytes, what follows). Each request is kept
    as (connection, method, target, body)."""

    def __init__(self, script=None, **kw):
        self.script = script or (lambda connection, number, request: reply(request))
        self.served = []
        self.turn = threading.Lock()
        self.count = 0
        super().__init__(self._serve_http, **kw)

    def _serve_http(self, conn):
        with self.turn:
            index = self.count
            self.count += 1
        number = 0
        while True:
            try:
                request = Request(conn.until(b"\r\n\r\n"))
            except Closed:
                return
            if request.get("Content-Length"):
                request.body = conn.exactly(int(request.get("Content-Length")))
            with self.changed:
                self.served.append((index, request.method, request.target, request.body))
                self.changed.notify_all()
            got = self.script(index, number, request)
            number += 1
            data, then = got if isinstance(got, tuple) else (got, KEEP)
            conn.send(data)
            if then == RESET:
                conn.reset()
            if then != KEEP:
                return

    def of(self, target):
        return [s for s in self.served if s[2] == target]


def reply(request, fields="Connection: keep-alive\r\n"):
    """An answer that names what it answers."""
    body = f"{request.method} {request.target}\n".encode()
    if request.method == "HEAD":
        return answer(body, fields=fields).split(b"\r\n\r\n")[0] + b"\r\n\r\n"
    return answer(body, fields=fields)


class Pool(Case):
    def start(self, script=None, **kw):
        self.upstream = self.serve(script)
        self.gateway = self.proxy(self.upstream, **kw)
        self.url = f"http://ok.test:{self.upstream.port}"
        return self.client(self.gateway)

    def serve(self, script=None, **kw):
        origin = Served(script, **kw)
        self.addCleanup(self._close_origin, origin)
        return origin

    def send(self, client, method, path, fields="", body=b"", url=None):
        length = f"Content-Length: {len(body)}\r\n" if body or method in ("POST", "PATCH") else ""
        client.send(f"{method} {url or self.url}{path} HTTP/1.1\r\nHost: x\r\n{length}{fields}\r\n"
                    .encode("latin-1") + body)
        return client.response(method)

    def fine(self, client, method, path, *args, **kw):
        r = self.send(client, method, path, *args, **kw)
        self.assertEqual(r.status, 200, r)
        if method != "HEAD":
            self.assertEqual(r.body, f"{method} {path}\n".encode())
        return r


class Reuse(Pool):
    def test_one_connection_serves_many_requests_and_clients(self):
        self.start()
        for i in range(3):
            client = self.client(self.gateway)
            for j in range(5):
                self.fine(client, "GET", f"/{i}{j}")
            client.close()
        self.assertEqual(self.upstream.count, 1)
        self.assertEqual(len(self.dns.asked("ok.test", "A")), 1)

    def test_another_spelling_of_the_host_shares(self):
        client = self.start()
        for host in ("ok.test", "OK.test", "ok.test.", "u:p@ok.test"):
            self.fine(client, "GET", "/", url=f"http://{host}:{self.upstream.port}")
        self.assertEqual(self.upstream.count, 1)

    def test_hosts_and_ports_do_not_share(self):
        client = self.start()
        other = self.serve()
        gateway = self.proxy(self.upstream, other)
        client = self.client(gateway)
        urls = [f"http://{host}:{origin.port}" for host in ("ok.test", "two.test", "127.0.0.5")
                for origin in (self.upstream, other)]
        for _ in range(2):
            for i, url in enumerate(urls):
                self.fine(client, "GET", f"/{i}", url=url)
        for origin, at in ((self.upstream, 0), (other, 1)):
            self.assertEqual(origin.count, 3)
            for connection in range(3):
                paths = {s[2] for s in origin.served if s[0] == connection}
                self.assertEqual(len(paths), 1, "one destination a connection")
                self.assertEqual(int(paths.pop()[1:]) % 2, at)

    def test_schemes_do_not_share(self):
        ca = Authority(self.directory)
        secure = self.serve(tls=ca.server_context("ok.test", "two.test"))
        gateway = self.proxy(secure, env={"SSL_CERT_FILE": str(ca.cert),
                                          "SSL_CERT_DIR": "/nonexistent"})
        client = self.client(gateway)
        for name in ("ok.test", "two.test", "ok.test", "two.test"):
            self.fine(client, "GET", "/", url=f"https://{name}:{secure.port}")
        self.assertEqual(secure.count, 2)
        r = self.send(client, "GET", "/clear", url=f"http://ok.test:{secure.port}")
        self.assertEqual(r.status, 502, "clear text never goes into a TLS connection")
        self.assertEqual(secure.of("/clear"), [])
        self.fine(client, "GET", "/", url=f"https://ok.test:{secure.port}")

    def test_a_refused_host_gets_no_kept_connection(self):
        client = self.start(denied=["two.test"])
        self.fine(client, "GET", "/")
        self.assertEqual(self.send(client, "GET", "/x", url=f"http://two.test:{self.upstream.port}")
                         .status, 403)
        self.assertEqual(self.send(client, "GET", "/x", url=f"http://no.test:{self.upstream.port}")
                         .status, 403)
        self.assertEqual(len(self.upstream.served), 1)

    def test_pipelined(self):
        client = self.start()
        client.send("".join(f"GET {self.url}/{i} HTTP/1.1\r\nHost: x\r\n\r\n" for i in range(40)))
        for i in range(40):
            self.assertEqual(client.response().body, f"GET /{i}\n".encode())
        self.assertEqual(self.upstream.count, 1)

    def test_answers_without_a_body(self):
        def script(connection, number, request):
            status = {"/204": "204 No Content", "/304": "304 Not Modified"}.get(request.target)
            if status is None:
                return reply(request)
            return f"HTTP/1.1 {status}\r\nETag: x\r\n\r\n".encode()

        client = self.start(script)
        for method, path, status in (("HEAD", "/h", 200), ("GET", "/a", 200), ("GET", "/204", 204),
                                     ("GET", "/b", 200), ("GET", "/304", 304), ("HEAD", "/304", 304),
                                     ("POST", "/c", 200), ("DELETE", "/204", 204), ("GET", "/d", 200)):
            r = self.send(client, method, path)
            self.assertEqual(r.status, status)
            if method != "HEAD" and status == 200:
                self.assertEqual(r.body, f"{method} {path}\n".encode())
        self.assertEqual(self.upstream.count, 1)

    def test_chunked_answers(self):
        def script(connection, number, request):
            return (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n0\r\n"
                    b"T: 1\r\n\r\n")

        client = self.start(script)
        for _ in range(3):
            self.assertEqual(self.send(client, "GET", "/").body, b"abc")
        self.assertEqual(self.upstream.count, 1)

    def test_none_and_one_are_kept(self):
        for most, alone, in_turn in ((0, 4, 6), (1, 1, 6), (2, 1, 2)):
            with self.subTest(idleUpstreams=most):
                client = self.start(limits={"idleUpstreams": most})
                for _ in range(4):
                    self.fine(client, "GET", "/")
                self.assertEqual(self.upstream.count, alone)
                client = self.start(limits={"idleUpstreams": most})
                for _ in range(3):
                    self.fine(client, "GET", "/")
                    self.fine(client, "GET", "/", url=f"http://two.test:{self.upstream.port}")
                self.assertEqual(self.upstream.count, in_turn)


class NotReused(Pool):
    def test_after_a_while(self):
        client = self.start(timeouts={"upstreamIdleMs": 150})
        self.fine(client, "GET", "/a")
        self.upstream.finished(0)  # by the gateway: the origin waits for ever
        self.fine(client, "GET", "/b")
        self.assertEqual(self.upstream.count, 2)

    def test_answers_that_end_a_connection(self):
        heads = {
            "1.0": "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
            "1.0 keep-alive": "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
            "close": "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
            "Close among others": "HTTP/1.1 200 OK\r\nConnection: x, CLOSE\r\nContent-Length: 2\r\n\r\nok",
        }
        for name, head in heads.items():
            with self.subTest(name):
                client = self.start(lambda connection, number, request, head=head: head.encode())
                for _ in range(3):
                    self.assertEqual(self.send(client, "GET", "/").body, b"ok")
                self.assertEqual(self.upstream.count, 3)

    def test_a_body_to_the_end_of_the_connection(self):
        client = self.start(lambda connection, number, request:
                            (b"HTTP/1.1 200 OK\r\n\r\nto the end", FIN))
        for _ in range(2):
            self.assertEqual(self.send(client, "GET", "/").body, b"to the end")
        self.assertEqual(self.upstream.count, 2)

    def test_stray_bytes_are_nobodys_answer(self):
        evil = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
        cases = {
            "behind a length": lambda r: reply(r) + evil,
            "behind a HEAD": lambda r: reply(r) + (evil if r.method == "HEAD" else b""),
            "a body of a HEAD": lambda r: answer(evil) if r.method == "HEAD" else reply(r),
            "a body of a 204": lambda r: (answer(evil, "204 No Content") if r.target == "/204"
                                          else reply(r)),
            "a body of a 304": lambda r: (answer(evil, "304 Not Modified") if r.target == "/304"
                                          else reply(r)),
            "behind chunks": lambda r: (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                        b"%x\r\n%s %s\n\r\n0\r\n\r\n" % (
                                            len(r.method + r.target) + 2, r.method.encode(),
                                            r.target.encode()) + evil),
        }
        for name, make in cases.items():
            with self.subTest(name):
                client = self.start(lambda connection, number, request, make=make: make(request))
                for method, path in (("HEAD", "/h"), ("GET", "/204"), ("GET", "/304")):
                    self.send(client, method, path)
                    for i in range(2):
                        self.fine(self.client(self.gateway), "GET", f"/{i}")

    def test_stray_bytes_that_come_later(self):
        evil = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
        client = self.start()
        for i in range(3):
            self.fine(client, "GET", f"/{i}")
            self.upstream.connection(i).send(evil)
            self.assertTrue(self.upstream.finished(i))
        self.fine(client, "GET", "/last")
        self.assertEqual(self.upstream.count, 4)

    def test_a_client_that_left_in_the_middle(self):
        big = bytes(4000000)

        def script(connection, number, request):
            return answer(big) if request.target == "/big" else reply(request)

        self.start(script)
        for how in ("close", "reset"):
            client = self.client(self.gateway)
            client.send(f"GET {self.url}/big HTTP/1.1\r\nHost: x\r\n\r\n")
            client.exactly(1000)
            getattr(client, how)()
            self.fine(self.client(self.gateway), "GET", "/after")

    def test_an_answer_before_the_request_was_in(self):
        answered = threading.Event()

        def handler(conn):
            head = conn.until(b"\r\n\r\n")
            conn.send(answer(b"early" if head.startswith(b"POST") else b"fine"))
            answered.set()
            conn.rest()

        origin = self.origin(handler)
        gateway = self.proxy(origin)
        url = f"http://ok.test:{origin.port}/"
        client = self.client(gateway)
        client.send(f"POST {url} HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhello")
        self.assertTrue(answered.wait(WAIT))
        self.assertEqual(client.response().body, b"early")
        self.assertEqual(self.client(gateway).get(url).body, b"fine")
        self.assertEqual(len(origin.connections), 2)


class Bound(Pool):
    """Credentials that a server remembers of the connection."""

    def test_never_by_another_client(self):
        for value in ("NTLM abc=", "Negotiate abc=", "ntlm abc=", "NEGOTIATE abc=", "Negotiate\tabc="):
            with self.subTest(value):
                first = self.start()
                self.fine(first, "GET", "/open")
                self.fine(first, "GET", "/bound", f"Authorization: {value}\r\n")
                self.fine(first, "GET", "/again")
                other = self.client(self.gateway)
                self.fine(other, "GET", "/other")
                self.fine(first, "GET", "/mine")
                first.close()
                self.fine(other, "GET", "/other")
                self.fine(self.client(self.gateway), "GET", "/third")
                bound = {s[0] for s in self.upstream.served if s[2] in ("/bound", "/again", "/mine")}
                others = {s[0] for s in self.upstream.served if s[2] in ("/other", "/third")}
                self.assertEqual(len(bound), 1)
                self.assertFalse(bound & others)

    def test_a_second_authorization_field(self):
        first = self.start()
        self.fine(first, "GET", "/bound", "Authorization: Basic YTpi\r\nAuthorization: NTLM abc=\r\n")
        self.fine(self.client(self.gateway), "GET", "/other")
        if self.upstream.count == 1:
            self.fail("the second field binds the connection as well, or is not sent at all")

    def test_other_schemes_do_not_bind(self):
        self.start()
        for value in ("Basic YTpi", "Bearer x", "Digest a=b"):
            self.fine(self.client(self.gateway), "GET", "/", f"Authorization: {value}\r\n")
        self.assertEqual(self.upstream.count, 1)


class Closing(Pool):
    """Row C12: the server closes although it said keep-alive."""

    def test_after_each_answer(self):
        for how in (FIN, RESET):
            for pause in (0.0, 0.001, 0.05):
                with self.subTest((how, pause)):
                    self.start(lambda connection, number, request, how=how: (reply(request), how))
                    for i in range(5):
                        client = self.client(self.gateway)
                        for j, method in enumerate(("GET", "GET", "POST", "POST")):
                            body = b"once" if method == "POST" else b""
                            self.fine(client, method, f"/{i}{j}", body=body)
                            time.sleep(0.05 if j == 0 else pause)
                    posts = [s[2] for s in self.upstream.served if s[1] == "POST"]
                    self.assertEqual(posts, [f"/{i}{j}" for i in range(5) for j in (2, 3)])

    def dying(self, how=FIN, last=b""):
        """Connection 0 serves two requests and ends at the third, after `last`."""
        def script(connection, number, request):
            if connection == 0 and number == 2:
                return last, how
            return reply(request)

        client = self.start(script)
        self.fine(client, "GET", "/1")
        self.fine(client, "GET", "/2")
        self.assertEqual(self.upstream.count, 1)
        return client

    def test_idempotent_requests_are_sent_once_more(self):
        for how in (FIN, RESET):
            for method in ("GET", "HEAD", "DELETE", "OPTIONS", "PUT"):
                with self.subTest((how, method)):
                    client = self.dying(how)
                    self.fine(client, method, "/x")
                    self.assertEqual([s[0] for s in self.upstream.of("/x")], [0, 1])

    def test_others_are_not(self):
        for method, body in (("POST", b""), ("POST", b"hi"), ("PATCH", b"hi"), ("PURGE", b""),
                             ("get", b""), ("PUT", b"read")):
            for how in (FIN, RESET):
                with self.subTest((method, how)):
                    client = self.dying(how)
                    r = self.send(client, method, "/x", body=body)
                    times = len(self.upstream.of("/x"))
                    self.assertEqual(times, 1)
                    self.assertEqual(r.status, 502, r)
                    self.fine(client, "GET", "/y")

    def test_a_body_that_was_not_read_yet(self):
        heads = []

        def handler(conn):
            while True:
                head = conn.until(b"\r\n\r\n")
                if head.startswith(b"PUT"):
                    heads.append(head)
                    if len(heads) == 1:
                        return
                    conn.send(b"HTTP/1.1 100 Continue\r\n\r\n")
                    self.assertEqual(conn.exactly(2), b"hi")
                conn.send(answer(b"ok"))

        origin = self.origin(handler)
        url = f"http://ok.test:{origin.port}/"
        client = self.client(self.proxy(origin))
        for _ in range(2):
            self.assertEqual(client.get(url).body, b"ok")
        client.send(f"PUT {url} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
                    "Expect: 100-continue\r\n\r\n")
        self.assertEqual(client.response(interim=True).status, 100)
        self.assertEqual(client.send("hi").response().body, b"ok")
        self.assertEqual(len(origin.connections), 2)

    def test_once_a_byte_of_an_answer_came_nothing_is_repeated(self):
        for last in (b"H", b"HTTP/1.1 200 OK\r\nContent-Le", b"HTTP/1.1 103 Early Hints\r\n\r\n",
                     b"HTTP/1.1 100 Continue\r\n\r\n"):
            for how in (FIN, RESET):
                with self.subTest((last, how)):
                    client = self.dying(how, last)
                    self.assertEqual(self.send(client, "GET", "/x").status, 502)
                    self.assertEqual(len(self.upstream.of("/x")), 1)

    def test_a_second_failure_is_the_last(self):
        def script(connection, number, request):
            return (b"", FIN) if request.target == "/x" else reply(request)

        client = self.start(script)
        self.fine(client, "GET", "/1")
        r = self.send(client, "GET", "/x")
        self.assertEqual((r.status, r.get("X-Proxy-Error")), (502, "upstream-protocol"))
        self.assertEqual(len(self.upstream.of("/x")), 2)
        self.assertEqual(self.send(client, "GET", "/x").status, 502)
        self.assertEqual(len(self.upstream.of("/x")), 3, "a fresh connection is tried once")

    def test_the_second_try_is_judged_again(self):
        client = self.dying()
        self.dns.add("ok.test", "127.0.0.9")
        r = self.send(client, "GET", "/x")
        self.assertEqual((r.status, len(self.upstream.of("/x"))), (403, 1))

    def test_answers_cut_short(self):
        whole = answer(b"0123456789")
        chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n5\r\n567"
        for cut in (whole[:-4], chunked):
            for how in (FIN, RESET):
                with self.subTest((cut, how)):
                    self.start(lambda connection, number, request, cut=cut, how=how:
                               (cut, how) if request.target == "/cut" else reply(request))
                    for _ in range(2):
                        client = self.client(self.gateway)
                        self.fine(client, "GET", "/whole")
                        client.send(f"GET {self.url}/cut HTTP/1.1\r\nHost: x\r\n\r\n")
                        with self.assertRaises((Closed, ConnectionError, ValueError)):
                            client.response()
                    self.assertEqual(len(self.upstream.of("/cut")), 2)

    def test_connections_that_end_while_idle_are_let_go(self):
        client = self.start()
        for i in range(5):
            self.fine(client, "GET", f"/{i}")
            conn = self.upstream.connection(i)
            conn.half_close()
            self.assertTrue(until(conn.done.is_set), "the gateway keeps a dead connection")
        self.assertEqual(self.upstream.count, 5)


class Raced(Pool):
    def test_a_server_that_closes_at_any_moment(self):
        """Each POST is executed at most once, each answered one exactly once, and GETs never
        fail."""
        closing = {"after": 0.0}

        def script(connection, number, request):
            if number == 2:
                time.sleep(closing["after"])
                return reply(request), FIN
            return reply(request)

        self.start(script)
        statuses = {}
        client = self.client(self.gateway)
        for i in range(120):
            closing["after"] = (i % 4) * 0.0004
            method = "POST" if i % 3 == 2 else "GET"
            r = self.send(client, method, f"/{i}", body=b"x" if method == "POST" else b"")
            statuses[i] = r.status
            time.sleep((i % 5) * 0.0003)
        for i, status in statuses.items():
            times = len(self.upstream.of(f"/{i}"))
            if i % 3 == 2:
                self.assertLessEqual(times, 1)
                self.assertIn(status, (200, 502))
                self.assertEqual(times, 1 if status == 200 else times)
            else:
                self.assertEqual(status, 200)
