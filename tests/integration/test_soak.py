"""Mixed traffic from several clients at once for a while: no error but those asked for, descriptors
and memory flat."""

import hashlib
import random
import threading
import time

from harness import NXDOMAIN, TOKEN, WAIT, Answer, Case, Client, Closed, answer, echo
from harness.resources import (MIB, SANITIZED, anonymous, calm_environment, descriptors,
                               own_descriptors, settled, until)

SECONDS = 10
WORKERS = 8
BODY = random.Random(1).randbytes(300000)


def serve(request):
    if request.target.startswith("/chunks"):
        return (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                + b"%x\r\n%s\r\n0\r\nT: 1\r\n\r\n" % (len(BODY), BODY))
    if request.target.startswith("/big"):
        return answer(BODY)
    if request.target.startswith("/close"):
        return answer(b"closing\n", fields="Connection: close\r\n")
    if request.target.startswith("/empty"):
        return b"HTTP/1.1 204 No Content\r\n\r\n"
    digest = hashlib.sha256(request.body).hexdigest().encode()
    return answer(b"" if request.method == "HEAD" else digest)


def cut(conn):
    """Half an answer, and the end."""
    conn.until(b"\r\n\r\n")
    conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")


def back(conn):
    try:
        echo(conn)
    except OSError:
        pass  # the client left


def upgrade(conn):
    conn.until(b"\r\n\r\n")
    conn.send("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
    back(conn)


class Worker(threading.Thread):
    """Does one thing after another, chosen by chance, until the time is over."""

    def __init__(self, soak, seed, end):
        super().__init__(daemon=True)
        self.soak = soak
        self.random = random.Random(seed)
        self.end = end
        self.errors = []
        self.done = 0
        self.start()

    def run(self):
        tasks = [getattr(self, n) for n in sorted(dir(type(self))) if n.startswith("do_")]
        while time.monotonic() < self.end:
            task = self.random.choice(tasks)
            try:
                task()
            except Exception as error:  # for the test to see
                self.errors.append(f"{task.__name__}: {error!r}")
                if len(self.errors) > 5:
                    return
            self.done += 1

    def client(self):
        return Client(self.soak.gateway.address)

    @property
    def auth(self):
        return self.soak.auth

    def url(self, origin):
        return f"http://{self.random.choice(('ok.test', 'two.test', 'a.wild.test'))}:{origin.port}"

    @staticmethod
    def check(condition, what=""):
        if not condition:
            raise AssertionError(what)

    def payload(self):
        at = self.random.randrange(len(BODY))
        return BODY[at : at + self.random.randrange(1, 100000)]

    def do_requests(self):
        with self.client() as client:
            for _ in range(self.random.randrange(1, 8)):
                path = self.random.choice(("/", "/big", "/chunks", "/empty"))
                r = client.get(self.url(self.soak.web) + path, self.auth)
                self.check(r.status == (204 if path == "/empty" else 200), r)
                if path in ("/big", "/chunks"):
                    self.check(r.body == BODY, "another body")

    def do_closing(self):
        with self.client() as client:
            for _ in range(2):
                self.check(client.get(self.url(self.soak.web) + "/close", self.auth).status == 200)

    def do_uploads(self):
        body = self.payload()
        framing, data = self.random.choice((
            (f"Content-Length: {len(body)}\r\n", body),
            ("Transfer-Encoding: chunked\r\n", b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))))
        with self.client() as client:
            for method in ("POST", "PUT"):
                client.send(f"{method} {self.url(self.soak.web)}/ HTTP/1.1\r\nHost: x\r\n{framing}"
                            f"{self.auth}\r\n".encode() + data)
                r = client.response()
                self.check(r.text == hashlib.sha256(body).hexdigest(), r)

    def do_pipeline(self):
        with self.client() as client:
            url = self.url(self.soak.web)
            client.send("".join(f"{m} {url}/{i} HTTP/1.1\r\nHost: x\r\n{self.auth}\r\n"
                                for i, m in enumerate(("GET", "HEAD", "GET"))))
            for method in ("GET", "HEAD", "GET"):
                self.check(client.response(method).status == 200)

    def tunnel(self, client):
        body = self.payload()
        sender = threading.Thread(target=lambda: client.send(body).half_close())
        sender.start()
        got = client.rest()
        sender.join()
        self.check(got == body, f"{len(got)} of {len(body)} bytes back")

    def do_connect(self):
        with self.client() as client:
            self.check(client.connect(f"ok.test:{self.soak.echo.port}", self.auth).status == 200)
            self.tunnel(client)

    def do_socks(self):
        with self.client() as client:
            self.check(client.socks_greet(b"srt", TOKEN.encode()) == b"\x01\x00")
            self.check(client.socks("two.test", self.soak.echo.port)[1] == 0)
            self.tunnel(client)

    def do_upgrade(self):
        with self.client() as client:
            client.send(f"GET {self.url(self.soak.upgrade)}/ HTTP/1.1\r\nHost: x\r\n{self.auth}"
                        "Connection: upgrade\r\nUpgrade: x\r\n\r\n")
            self.check(client.head().status == 101)
            self.tunnel(client)

    def do_refused(self):
        with self.client() as client:
            for url in ("http://no.test/", "http://127.0.0.9/", "http://inner.wild.test/"):
                self.check(client.get(url, self.auth).status == 403)
            self.check(client.get("http://nx.wild.test/", self.auth).status == 502)
            self.check(client.get("http://ok.test/").status == 407)
            self.check(client.connect("no.test:443", self.auth).status == 403)
        with self.client() as client:
            self.check(client.socks_greet(b"srt", b"wrong") == b"\x01\x01")
        with self.client() as client:
            client.send("nonsense\r\n\r\n")
            self.check(client.response().status == 400)

    def do_leave(self):
        client = self.client()
        client.send(self.random.choice((
            "", "GET ht", f"GET {self.url(self.soak.web)}/big HTTP/1.1\r\nHost: x\r\n{self.auth}\r\n",
            f"POST {self.url(self.soak.web)}/ HTTP/1.1\r\nHost: x\r\n{self.auth}"
            "Content-Length: 90000\r\n\r\nhalf",
            f"CONNECT ok.test:{self.soak.echo.port} HTTP/1.1\r\n{self.auth}\r\n" + "x" * 1000)))
        self.random.choice((client.reset, client.close))()

    def do_cut(self):
        with self.client() as client:
            try:
                client.get(self.url(self.soak.cut) + "/", self.auth)
            except (Closed, ConnectionError):
                return
            raise AssertionError("a cut answer looks complete")


class Soak(Case):
    def test_mixed_traffic(self):
        own_descriptors()
        self.web, self.echo = self.http(serve), self.origin(back)
        self.cut, self.upgrade = self.origin(cut), self.origin(upgrade)
        self.dns.add("inner.wild.test", "169.254.169.254")
        for kind in ("A", "AAAA"):
            self.dns.script("nx.wild.test", kind, Answer(rcode=NXDOMAIN))
        self.auth = "Proxy-Authorization: Basic c3J0OjAwMTEyMjMzNDQ1NTY2Nzc4ODk5YWFiYmNjZGRlZWZm\r\n"
        self.gateway = self.proxy(self.web, self.echo, self.cut, self.upgrade, token=TOKEN,
                                  env=calm_environment(), timeouts={"upstreamIdleMs": 300,
                                                                    "lingerMs": 200})
        before = settled(lambda: descriptors(self.gateway))
        self.run_workers(SECONDS / 5, 0)
        first = anonymous(self.gateway)
        self.run_workers(SECONDS * 4 / 5, WORKERS)
        self.assertTrue(until(lambda: descriptors(self.gateway) <= before + 2, 2 * WAIT),
                        f"{descriptors(self.gateway)} descriptors, {before} at the start")
        self.assertLess(anonymous(self.gateway) - first, 16 * MIB if SANITIZED else 4 * MIB)
        self.assertNotIn("warning", self.gateway.stderr())

    def run_workers(self, seconds, seed):
        end = time.monotonic() + seconds
        workers = [Worker(self, seed + i, end) for i in range(WORKERS)]
        for worker in workers:
            worker.join(seconds + 3 * WAIT)
            self.assertFalse(worker.is_alive(), "a client hangs")
        self.assertEqual([e for w in workers for e in w.errors], [])
        for worker in workers:
            self.assertGreater(worker.done, 5)
