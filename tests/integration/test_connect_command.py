"""`srt connect HOST PORT`: ssh's way through the proxy that the environment names."""

import os
import pathlib
import shlex
import socket
import subprocess
import time

from harness import SRT, TOKEN, WAIT, Case, Sshd, clean_environment, echo, quick, run_srt
from harness.proxy import REPORT


def with_token(url, token=TOKEN, user="srt"):
    return url.replace("http://", f"http://{user}:{token}@")


class Command(Case):
    def start(self, *args, proxy=None, env=None, **kw):
        whole = clean_environment()
        if proxy is not None:
            whole["HTTPS_PROXY"] = proxy
        whole.update(env or {})
        kw = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **kw}
        process = subprocess.Popen([SRT, "connect", *map(str, args)], env=whole, **kw)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass

    def outcome(self, *args, stdin=b"", **kw):
        process = self.start(*args, **kw)
        out, err = process.communicate(stdin, WAIT)
        self.assertIsNone(REPORT.search(err), err)
        return process.returncode, out, err.decode()

    def answering(self, data, hold=False):
        """A proxy that answers whatever is asked with these bytes; hold: and stays."""
        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.send(data)
            if hold:
                conn.rest()
        return self.origin(handler, host="127.0.0.1")

    def answered(self, data, **kw):
        origin = self.answering(data, **kw)
        return (*self.outcome("h.test", 22, proxy=f"http://127.0.0.1:{origin.port}"), origin)


@quick
class Tunnel(Command):
    def test_both_ways(self):
        origin = self.origin(echo)
        status, out, err = self.outcome("ok.test", origin.port, proxy=self.proxy(origin).url,
                                        stdin=b"over and back")
        self.assertEqual((status, out, err), (0, b"over and back", ""))

    def test_much_both_ways(self):
        origin = self.origin(echo)
        data = os.urandom(8 * 1024 * 1024)
        status, out, _ = self.outcome("ok.test", origin.port, proxy=self.proxy(origin).url,
                                      stdin=data)
        self.assertEqual(status, 0)
        self.assertEqual(out, data)

    def test_the_other_end_speaks_on_after_ours_ended(self):
        def answer_at_the_end(conn):
            conn.send(b"got " + conn.rest())
        origin = self.origin(answer_at_the_end)
        status, out, _ = self.outcome("ok.test", origin.port, proxy=self.proxy(origin).url,
                                      stdin=b"all")
        self.assertEqual((status, out), (0, b"got all"))

    def test_ours_speaks_on_after_the_other_end_ended(self):
        got = []

        def listen_on(conn):
            conn.send(b"first")
            conn.half_close()
            got.append(conn.rest())
        origin = self.origin(listen_on)
        process = self.start("ok.test", origin.port, proxy=self.proxy(origin).url)
        self.assertEqual(process.stdout.read(), b"first")  # to its end
        process.stdin.write(b"then")
        process.stdin.close()
        self.assertEqual(process.wait(WAIT), 0)
        origin.finished()
        self.assertEqual(got, [b"then"])

    def test_bytes_that_come_with_the_answer(self):
        status, out, err, _ = self.answered(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nSSH-2.0-x\r\n")
        self.assertEqual((status, out, err), (0, b"SSH-2.0-x\r\n", ""))

    def test_interim_answers(self):
        status, out, err, _ = self.answered(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 204 Fine\r\n\r\nx")
        self.assertEqual((status, out, err), (0, b"x", ""))

    def test_the_reader_goes(self):
        def speak(conn):
            try:
                while True:
                    conn.send(b"x" * 65536)
            except OSError:
                pass
        origin = self.origin(speak)
        process = self.start("ok.test", origin.port, proxy=self.proxy(origin).url)
        process.stdout.read(10)
        process.stdout.close()
        self.assertEqual(process.wait(WAIT), 1)  # though its standard input is still open
        self.assertEqual(process.stderr.read(), b"")

    def test_the_reader_goes_while_nothing_moves(self):
        origin = self.origin(lambda conn: conn.rest())
        process = self.start("ok.test", origin.port, proxy=self.proxy(origin).url)
        process.stdout.close()
        self.assertEqual(process.wait(WAIT), 1)

    def test_a_reset(self):
        def reset(conn):
            conn.until(b"\r\n\r\n")
            conn.send(b"HTTP/1.1 200 OK\r\n\r\n")
            conn.exactly(1)
            conn.reset()
        origin = self.origin(reset, host="127.0.0.1")
        process = self.start("ok.test", 22, proxy=f"http://127.0.0.1:{origin.port}")
        process.stdin.write(b"x")
        process.stdin.flush()
        self.assertEqual(process.wait(WAIT), 1)
        self.assertEqual(process.stderr.read(), b"srt connect: ok.test:22: Connection reset by peer\n")

    def test_one_socket_for_input_and_output(self):
        origin = self.origin(echo)
        ours, its = socket.socketpair()
        with ours:
            with its:
                process = self.start("ok.test", origin.port, proxy=self.proxy(origin).url,
                                     stdin=its, stdout=its)
            ours.settimeout(WAIT)
            ours.sendall(b"ping")
            self.assertEqual(ours.recv(4), b"ping")
            ours.shutdown(socket.SHUT_WR)
            self.assertEqual(ours.recv(1), b"")
        self.assertEqual(process.wait(WAIT), 0)

    def test_no_work_while_nothing_moves(self):
        origin = self.origin(lambda conn: (conn.half_close(), conn.rest()))
        process = self.start("ok.test", origin.port, proxy=self.proxy(origin).url)
        self.assertEqual(process.stdout.read(), b"")
        before = ticks(process.pid)
        time.sleep(0.5)
        self.assertLessEqual(ticks(process.pid) - before, 2)

    def test_no_work_while_the_reader_rests(self):
        def speak(conn):
            conn.send(b"x" * 1000000)
        origin = self.origin(speak)
        process = self.start("ok.test", origin.port, proxy=self.proxy(origin).url)
        process.stdout.read(1)
        time.sleep(0.3)
        before = ticks(process.pid)
        time.sleep(0.5)
        self.assertLessEqual(ticks(process.pid) - before, 2)
        process.stdin.close()
        self.assertEqual(len(process.stdout.read()), 1000000 - 1)


def ticks(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@quick
class ProxyOfTheEnvironment(Command):
    def test_every_variable(self):
        origin = self.origin(echo)
        proxy = self.proxy(origin)
        for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY",
                     "all_proxy"):
            with self.subTest(name):
                got = self.outcome("ok.test", origin.port, env={name: proxy.url}, stdin=b"x")
                self.assertEqual(got, (0, b"x", ""))

    def test_the_first_counts_and_an_empty_one_does_not(self):
        origin = self.origin(echo)
        url = self.proxy(origin).url
        nowhere = f"http://127.0.0.1:{self.closed_port('127.0.0.1')}"
        got = self.outcome("ok.test", origin.port, stdin=b"x",
                           env={"HTTPS_PROXY": "", "https_proxy": url, "HTTP_PROXY": nowhere})
        self.assertEqual(got, (0, b"x", ""))

    def test_no_proxy_is_not_asked(self):
        origin = self.origin(echo)
        got = self.outcome("ok.test", origin.port, proxy=self.proxy(origin).url, stdin=b"x",
                           env={"NO_PROXY": "*", "no_proxy": "ok.test"})
        self.assertEqual(got, (0, b"x", ""))

    def test_localhost_of_either_family(self):
        origin = self.origin(echo)
        for listen in ("127.0.0.1:0", "[::1]:0"):
            with self.subTest(listen):
                proxy = self.proxy(origin, listen=(listen,))
                got = self.outcome("ok.test", origin.port, stdin=b"x",
                                   proxy=f"http://localhost:{proxy.port}")
                self.assertEqual(got, (0, b"x", ""))

    def test_ipv6_literal(self):
        origin = self.origin(echo)
        proxy = self.proxy(origin, listen=("[::1]:0",))
        got = self.outcome("ok.test", origin.port, stdin=b"x", proxy=f"http://[::1]:{proxy.port}/")
        self.assertEqual(got, (0, b"x", ""))

    def test_unusable(self):
        for value in ("socks5h://127.0.0.1:1080", "https://127.0.0.1:3128", "http://[x", "http://",
                      f"ftp://srt:{TOKEN}@127.0.0.1"):
            with self.subTest(value):
                status, out, err = self.outcome("ok.test", 22, proxy=value)
                self.assertEqual((status, out), (1, b""))
                self.assertEqual(err, "srt connect: HTTPS_PROXY is not the http:// URL of a proxy\n")
        status, out, err = self.outcome("ok.test", 22)
        self.assertEqual((status, out), (1, b""))
        self.assertEqual(err, "srt connect: no proxy is named by HTTPS_PROXY, HTTP_PROXY or "
                              "ALL_PROXY\n")

    def test_nobody_listens(self):
        port = self.closed_port("127.0.0.1")
        for host in ("127.0.0.1", "localhost"):
            status, out, err = self.outcome("ok.test", 22, proxy=f"http://srt:{TOKEN}@{host}:{port}")
            self.assertEqual((status, out), (1, b""))
            self.assertEqual(err, f"srt connect: the proxy at {host} port {port}: "
                                  "Connection refused\n")

    def test_credential(self):
        origin = self.origin(echo)
        proxy = self.proxy(origin, token=TOKEN)
        for user in ("srt", "srt.ZWNobyBoaQ%3D%3D"):
            got = self.outcome("ok.test", origin.port, proxy=with_token(proxy.url, user=user),
                               stdin=b"x")
            self.assertEqual(got, (0, b"x", ""))
        for url in (proxy.url, with_token(proxy.url, "0123456789secret")):
            status, out, err = self.outcome("ok.test", origin.port, proxy=url)
            self.assertEqual((status, out), (1, b""))
            self.assertTrue(err.startswith(f"srt connect: ok.test:{origin.port}: 407 "), err)
            self.assertNotIn("secret", err)

    def test_what_is_sent(self):
        for args, target in ((("OK.test", 22), "OK.test:22"), (("::1", 22), "[::1]:22"),
                             (("[fe80::1]", 22), "[fe80::1]:22"), (("192.0.2.1", "0022"),
                                                                   "192.0.2.1:0022")):
            with self.subTest(target):
                origin = self.answering(b"HTTP/1.1 200 OK\r\n\r\n")
                self.outcome(*args, proxy=f"http://a%20b:c%3Ad@127.0.0.1:{origin.port}")
                (conn,) = origin.connections
                self.assertEqual(conn.received.decode(),
                                 f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n"
                                 "Proxy-Authorization: Basic YSBiOmM6ZA==\r\n\r\n")


@quick
class Refused(Command):
    def test_by_policy(self):
        status, out, err = self.outcome("no.test", 22, proxy=self.proxy().url)
        self.assertEqual((status, out), (1, b""))
        self.assertEqual(err, "srt connect: no.test:22: 403 host is not on the allow list\n"
                              "srt connect: Connection blocked by network allowlist\n")

    def test_a_reason(self):
        proxy = self.proxy(denied=["no.test"], deniedDomainReasons={"no.test": "use the mirror"})
        status, _, err = self.outcome("no.test", 22, proxy=proxy.url)
        self.assertEqual(status, 1)
        self.assertTrue(err.startswith("srt connect: no.test:22: 403 use the mirror\n"), err)

    def test_upstream_trouble(self):
        port = self.closed_port()
        proxy = self.proxy(allowed=["ok.test", f"127.0.0.5:{port}"])
        status, _, err = self.outcome("ok.test", port, proxy=proxy.url)
        self.assertEqual(status, 1)
        self.assertTrue(err.startswith(f"srt connect: ok.test:{port}: 50"), err)

    def test_bodies(self):
        for data, shown in (
                (b"Content-Length: 11\r\n\r\nfirst\nlast\n", "srt connect: first\n"),
                (b"Content-Length: 5\r\n\r\nfirst and not this", "srt connect: first\n"),
                (b"Content-Length: 0\r\n\r\n", ""),
                (b"Transfer-Encoding: chunked\r\n\r\n3\r\nfir\r\n4\r\nst\r\n\r\n0\r\n\r\n",
                 "srt connect: first\n"),
                (b"Transfer-Encoding: chunked\r\n\r\nnonsense", ""),
                (b"\r\nfirst", "srt connect: first\n"),
                (b"\r\n\n", ""),
        ):
            with self.subTest(data):
                status, out, err, _ = self.answered(b"HTTP/1.1 503 Out of order\r\n" + data)
                self.assertEqual((status, out), (1, b""))
                self.assertEqual(err, "srt connect: h.test:22: 503 Out of order\n" + shown)

    def test_a_body_that_does_not_come_is_not_waited_for_long(self):
        before = time.monotonic()
        status, _, err, _ = self.answered(
            b"HTTP/1.1 403 No\r\nContent-Length: 100\r\n\r\nfirst", hold=True)
        self.assertLess(time.monotonic() - before, WAIT / 2)
        self.assertEqual((status, err), (1, "srt connect: h.test:22: 403 No\nsrt connect: first\n"))

    def test_a_proxy_that_would_steer_the_terminal(self):
        status, _, err, _ = self.answered(
            b"HTTP/1.1 403 a\x80b\xe2\x80\xaec\r\nContent-Length: 20\r\n\r\n\x1b[31mred\x07\x00\xe2\x80\xaeabc\r\n")
        self.assertEqual(status, 1)
        self.assertTrue(err.replace("\n", "").isprintable(), ascii(err))
        self.assertNotIn("\u202e", err)
        self.assertEqual(len(err.splitlines()), 2, err)

    def test_no_phrase(self):
        status, _, err, _ = self.answered(b"HTTP/1.1 502\r\nContent-Length: 0\r\n\r\n")
        self.assertEqual((status, err), (1, "srt connect: h.test:22: 502\n"))

    def test_a_redirect_is_a_refusal(self):
        status, _, err, _ = self.answered(b"HTTP/1.1 302 Found\r\nLocation: http://x/\r\n"
                                          b"Content-Length: 0\r\n\r\n")
        self.assertEqual((status, err), (1, "srt connect: h.test:22: 302 Found\n"))

    def test_not_http(self):
        for data in (b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/2 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\n\n",
                     b"\x05\x00\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: " + b"a" * 70000 + b"\r\n\r\n",
                     b"HTTP/1.1 100 Continue\r\n\r\n" * 100):
            with self.subTest(data[:30]):
                status, out, err, _ = self.answered(data)
                self.assertEqual((status, out, err),
                                 (1, b"", "srt connect: h.test:22: the proxy's answer is not valid "
                                          "HTTP\n"))

    def test_no_answer(self):
        for data in (b"", b"HTTP/1.1 200 O", b"HTTP/1.1 200 OK\r\nA: b\r\n"):
            with self.subTest(data):
                status, out, err, _ = self.answered(data)
                self.assertEqual((status, out, err),
                                 (1, b"", "srt connect: h.test:22: the proxy closed the "
                                          "connection\n"))


@quick
class Usage(Command):
    def test_wrong(self):
        for args in ((), ("ok.test",), ("ok.test", "22", "x"), ("ok.test", "0"), ("ok.test", "65536"),
                     ("ok.test", "ssh"), ("ok.test", "-1"), ("", "22"), ("-x", "22"),
                     ("ok.test:80", "22"), ("a b", "22"), ("a\r\nX: y", "22"), ("a\tb", "22"),
                     ("a:b", "22"), ("[ok.test]", "22"), ("[::1", "22"), ("::1]", "22"),
                     ("[::1]:80", "22"), ("x" * 300, "22")):
            with self.subTest(args):
                status, out, err = self.outcome(*args, proxy="http://127.0.0.1:1")
                self.assertEqual((status, out, err), (2, b"", "usage: srt connect HOST PORT\n"))

    def test_help(self):
        for option in ("-h", "--help"):
            self.assertEqual(run_srt("connect", option), (0, "usage: srt connect HOST PORT\n", ""))

    def test_closed_standard_streams(self):
        origin = self.origin(echo)
        proxy = self.proxy(origin)
        command = f"exec {shlex.quote(SRT)} connect ok.test {origin.port}"
        for streams in ("<&-", "<&- >&-", "<&- >&- 2>&-"):
            with self.subTest(streams):
                env = {**clean_environment(), "HTTPS_PROXY": proxy.url}
                done = subprocess.run(["sh", "-c", f"{command} {streams}"], env=env, timeout=WAIT,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"", b""))


class Ssh(Case):
    """The real client: ProxyCommand='srt connect %h %p'."""

    def setUp(self):
        super().setUp()
        self.sshd = Sshd(self.directory / "sshd", self.tool)
        self.addCleanup(self.sshd.close)
        self.port = self.sshd.port
        self.gateway = self.proxy(allowed=["ok.test", self.sshd.literal], token=TOKEN,
                                  denied=["no.test"],
                                  deniedDomainReasons={"no.test": "use the mirror"})

    def ssh(self, *command, host="ok.test", stdin=b"", url=None):
        env = {**clean_environment(), "HTTPS_PROXY": url or with_token(self.gateway.url)}
        return subprocess.run(
            [self.tool("ssh"), "-F", "none", "-i", self.sshd.key, "-o",
             f"ProxyCommand={shlex.quote(SRT)} connect %h %p", "-o",
             "UserKnownHostsFile=/dev/null", "-o", "StrictHostKeyChecking=no", "-o",
             "BatchMode=yes", "-o", "LogLevel=ERROR", "-p", str(self.port),
             f"{self.sshd.user}@{host}", *command],
            input=stdin, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)

    @quick
    def test_a_command(self):
        done = self.ssh("echo over ssh; cat; exit 3", stdin=b"stdin\n")
        self.assertEqual((done.returncode, done.stdout), (3, b"over ssh\nstdin\n"), done.stderr)

    def test_much(self):
        data = os.urandom(4 * 1024 * 1024)
        done = self.ssh("cat", stdin=data)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, data)

    def test_an_address(self):
        done = self.ssh("echo there", host="127.0.0.5")
        self.assertEqual(done.stdout, b"there\n", done.stderr)

    @quick
    def test_a_refusal(self):
        done = self.ssh("true", host="no.test")
        self.assertEqual(done.returncode, 255)
        self.assertIn(f"srt connect: no.test:{self.port}: 403 use the mirror\n".encode(),
                      done.stderr)

    def test_a_wrong_token(self):
        done = self.ssh("true", url=with_token(self.gateway.url, "0123456789secret"))
        self.assertEqual(done.returncode, 255)
        self.assertIn(b": 407 ", done.stderr)
        self.assertNotIn(b"secret", done.stderr)

    def test_git(self):
        repository, clone = self.directory / "repository", self.directory / "clone"
        git = self.tool("git")
        env = {**clean_environment(), "HTTPS_PROXY": with_token(self.gateway.url),
               "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_SSH_COMMAND":
               f"ssh -F none -i {self.sshd.key} -o UserKnownHostsFile=/dev/null "
               "-o StrictHostKeyChecking=no -o BatchMode=yes -o LogLevel=ERROR "
               f"-o ProxyCommand='{SRT} connect %h %p'"}
        subprocess.run([git, "init", "-q", "--bare", repository], check=True, env=env)
        subprocess.run([git, "clone", "-q", f"ssh://{self.sshd.user}@ok.test:{self.port}"
                        f"{repository}", clone], check=True, env=env, timeout=120,
                       stderr=subprocess.PIPE)
        (clone / "f").write_bytes(os.urandom(1000000))
        for args in (["add", "f"], ["-c", "user.name=x", "-c", "user.email=x@ok.test", "commit",
                                    "-qm", "f"], ["push", "-q", "origin", "HEAD:main"]):
            subprocess.run([git, "-C", clone, *args], check=True, env=env, timeout=120)
        self.assertEqual(subprocess.run([git, "-C", repository, "rev-list", "--count", "main"],
                                        check=True, env=env, stdout=subprocess.PIPE).stdout, b"1\n")
