"""Programs people use, through the gateway, against real servers."""

import base64
import getpass
import hashlib
import os
import pathlib
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request

from harness import (TOKEN, Authority, Case, Nginx, clean_environment, free_port, wait_for_port)


class Real(Case):
    """nginx with a certificate for ok.test, and a gateway that reaches it."""

    def setUp(self):
        super().setUp()
        self.ca = Authority(self.directory)
        self.nginx = Nginx(self.directory / "nginx", certificate=self.ca.leaf("ok.test"))
        self.addCleanup(self.nginx.close)
        (self.nginx.root / "index.html").write_text("hello from nginx\n")
        self.big = os.urandom(5 * 1024 * 1024)
        (self.nginx.root / "big").write_bytes(self.big)
        self.gateway = self.proxy(*map(Literal, self.nginx.literals))
        self.plain = f"http://ok.test:{self.nginx.port}"
        self.secure = f"https://ok.test:{self.nginx.tls_port}"

    def run_tool(self, *command, env=None, status=0, stdin=b"", timeout=120):
        whole = clean_environment()
        whole["HOME"] = str(self.directory)
        whole.update(env or {})
        done = subprocess.run([self.tool(command[0]), *map(str, command[1:])], input=stdin,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=whole,
                              timeout=timeout)
        if status is not None:
            self.assertEqual(done.returncode, status, (command, done.stdout[-500:], done.stderr))
        return done

    def proxy_env(self):
        return {"http_proxy": self.gateway.url, "https_proxy": self.gateway.url,
                "HTTP_PROXY": self.gateway.url, "HTTPS_PROXY": self.gateway.url}


class Literal:
    """An allow entry where an origin is expected."""

    def __init__(self, literal):
        self.literal = literal


class Curl(Real):
    def curl(self, *args, status=0, **kw):
        return self.run_tool("curl", "-sS", "--cacert", self.ca.cert, *args, status=status, **kw)

    def test_every_kind_of_proxy(self):
        p = self.gateway.port
        for option in (f"http://127.0.0.1:{p}", f"socks5h://127.0.0.1:{p}"):
            for url in (self.plain, self.secure):
                with self.subTest((option, url)):
                    self.assertEqual(self.curl("-x", option, url + "/").stdout,
                                     b"hello from nginx\n")
        got = self.curl("-x", f"socks5://127.0.0.1:{p}",
                        f"http://127.0.0.5:{self.nginx.port}/").stdout
        self.assertEqual(got, b"hello from nginx\n")
        self.assertEqual(self.curl("-p", "-x", self.gateway.url, self.plain + "/").stdout,
                         b"hello from nginx\n")

    def test_refusals_as_curl_shows_them(self):
        done = self.curl("-x", self.gateway.url, "https://no.test/", status=56)
        self.assertIn(b"403", done.stderr)
        done = self.curl("-v", "-x", self.gateway.url, "https://no.test/", status=56)
        self.assertIn(b"host is not on the allow list", done.stderr)
        done = self.curl("-x", self.gateway.url, "-w", "%{http_code}", "http://no.test/")
        self.assertIn(b"blocked by policy", done.stdout)
        self.assertTrue(done.stdout.endswith(b"403"))
        self.curl("-x", f"socks5h://127.0.0.1:{self.gateway.port}", "http://no.test/", status=97)
        self.curl("-x", f"socks4a://127.0.0.1:{self.gateway.port}", "http://ok.test/", status=97)

    def test_downloads_and_uploads(self):
        for url in (self.plain, self.secure):
            with self.subTest(url):
                self.assertEqual(self.curl("-x", self.gateway.url, url + "/big").stdout, self.big)
                name = f"up-{url.split(':')[0]}"
                self.curl("-x", self.gateway.url, "-f", "-T", "-", f"{url}/put/{name}",
                          stdin=self.big)
                stored = (self.nginx.directory / "put" / name).read_bytes()
                self.assertEqual(hashlib.sha256(stored).digest(),
                                 hashlib.sha256(self.big).digest())

    def test_expect_100_continue(self):
        done = self.curl("-v", "-x", self.gateway.url, "-H", "Expect: 100-continue", "-f",
                         "--expect100-timeout", "60", "-T", "-", f"{self.plain}/put/expected",
                         stdin=b"x" * 100000)
        self.assertIn(b"HTTP/1.1 100 Continue", done.stderr)
        self.assertEqual((self.nginx.directory / "put" / "expected").stat().st_size, 100000)

    def test_several_urls_on_one_connection(self):
        done = self.curl("-v", "-x", self.gateway.url, self.plain + "/", "http://no.test/",
                         self.plain + "/big", "-o", "/dev/null", "-o", "/dev/null",
                         "-o", "/dev/null")
        self.assertEqual(done.stderr.count(b"Connected to"), 1)

    def test_anyauth_with_a_token(self):
        self.gateway = self.proxy(*map(Literal, self.nginx.literals), token=TOKEN)
        for extra in (["--proxy-anyauth"], ["--proxy-basic"]):
            for url in (self.plain, self.secure):
                got = self.curl("-x", self.gateway.url, "-U", f"srt:{TOKEN}", *extra, url + "/")
                self.assertEqual(got.stdout, b"hello from nginx\n")
        got = self.curl("-x", f"socks5h://srt:{TOKEN}@127.0.0.1:{self.gateway.port}", self.secure)
        self.assertEqual(got.stdout, b"hello from nginx\n")
        self.curl("-x", self.gateway.url, "-U", "srt:wrong", "--proxy-anyauth", self.secure,
                  status=56)

    def test_ranges_and_head(self):
        got = self.curl("-x", self.gateway.url, "-r", "100-199", self.plain + "/big").stdout
        self.assertEqual(got, self.big[100:200])
        got = self.curl("-x", self.gateway.url, "-I", self.plain + "/big").stdout
        self.assertIn(f"Content-Length: {len(self.big)}\r\n".encode(), got)


class CurlStreaming(Case):
    def test_events_are_shown_as_they_come(self):
        go = threading.Semaphore(0)

        def handler(conn):
            conn.until(b"\r\n\r\n")
            conn.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            for i in range(3):
                conn.send(f"data: {i}\n\n")
                if not go.acquire(timeout=30):
                    return

        origin = self.origin(handler)
        proxy = self.proxy(origin)
        with subprocess.Popen([self.tool("curl"), "-sN", "-x", proxy.url,
                               f"http://ok.test:{origin.port}/"], stdout=subprocess.PIPE,
                              env=clean_environment()) as curl:
            for i in range(3):
                self.assertEqual(curl.stdout.readline(), f"data: {i}\n".encode())
                self.assertEqual(curl.stdout.readline(), b"\n")
                go.release()
            self.assertEqual(curl.wait(60), 0)


class Others(Real):
    def test_wget(self):
        for url in (self.plain, self.secure):
            done = self.run_tool("wget", "-q", "-O", "-", f"--ca-certificate={self.ca.cert}",
                                 url + "/", env=self.proxy_env())
            self.assertEqual(done.stdout, b"hello from nginx\n")
        self.run_tool("wget", "-q", "-O", "-", "https://no.test/", env=self.proxy_env(), status=4)
        self.run_tool("wget", "-q", "-O", "-", "http://no.test/", env=self.proxy_env(), status=8)

    def test_python_urllib(self):
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({"http": self.gateway.url, "https": self.gateway.url}),
            urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=self.ca.cert)))
        for url in (self.plain, self.secure):
            with opener.open(url + "/", timeout=60) as response:
                self.assertEqual(response.read(), b"hello from nginx\n")
        with self.assertRaises(urllib.error.HTTPError) as refused:
            opener.open("http://no.test/", timeout=60)
        self.assertEqual(refused.exception.code, 403)
        self.assertIn("blocked by policy", refused.exception.read().decode())
        refused.exception.close()
        with self.assertRaisesRegex(OSError, "403 host is not on the allow list"):
            opener.open("https://no.test/", timeout=60)

    def test_openssl_s_client(self):
        done = self.run_tool(
            "openssl", "s_client", "-proxy", f"127.0.0.1:{self.gateway.port}", "-connect",
            f"ok.test:{self.nginx.tls_port}", "-servername", "ok.test", "-CAfile", self.ca.cert,
            "-verify_return_error", "-quiet",
            stdin=b"GET / HTTP/1.0\r\nHost: ok.test\r\n\r\n", status=None)
        self.assertIn(b"hello from nginx", done.stdout)

    def test_git_over_http(self):
        work = self.directory / "work"
        env = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@a.test",
               "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@a.test",
               "GIT_TERMINAL_PROMPT": "0"}
        self.run_tool("git", "init", "-q", work, env=env)
        (work / "file").write_bytes(self.big[:100000])
        self.run_tool("git", "-C", work, "add", ".", env=env)
        self.run_tool("git", "-C", work, "commit", "-qm", "one", env=env)
        self.run_tool("git", "clone", "-q", "--bare", work, self.nginx.root / "r.git", env=env)
        self.run_tool("git", "-C", self.nginx.root / "r.git", "update-server-info", env=env)
        for i, url in enumerate((self.plain, self.secure)):
            copy = self.directory / f"copy{i}"
            self.run_tool("git", "-c", f"http.sslCAInfo={self.ca.cert}", "clone", "-q",
                          f"{url}/r.git", copy, env={**env, **self.proxy_env()})
            self.assertEqual((copy / "file").read_bytes(), self.big[:100000])
        done = self.run_tool("git", "ls-remote", "https://no.test/r.git",
                             env={**env, **self.proxy_env()}, status=128)
        self.assertIn(b"403", done.stderr)

    def test_python_http_server(self):
        root = self.directory / "served"
        root.mkdir()
        (root / "f").write_bytes(self.big)
        port = free_port("127.0.0.5")
        with subprocess.Popen([sys.executable, "-m", "http.server", "-b", "127.0.0.5", "-d", root,
                               str(port)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as server:
            self.addCleanup(server.terminate)
            wait_for_port("127.0.0.5", port, server)
            proxy = self.proxy(Literal(f"127.0.0.5:{port}"))
            done = self.run_tool("curl", "-sS", "-x", proxy.url, f"http://ok.test:{port}/f")
            self.assertEqual(done.stdout, self.big)
            server.terminate()


class Ssh(Case):
    """ssh through the gateway, by the connectors people put into ProxyCommand."""

    def setUp(self):
        super().setUp()
        d = self.directory
        for name in ("host", "user"):
            subprocess.run([self.tool("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", d / name],
                           check=True)
        (d / "authorized").write_text((d / "user.pub").read_text())
        self.port = free_port("127.0.0.5")
        (d / "sshd_config").write_text(
            f"ListenAddress 127.0.0.5:{self.port}\nHostKey {d}/host\nPidFile none\n"
            f"AuthorizedKeysFile {d}/authorized\nStrictModes no\nUsePAM no\n"
            "PasswordAuthentication no\nKbdInteractiveAuthentication no\nLogLevel ERROR\n")
        if os.getuid() == 0:
            pathlib.Path("/run/sshd").mkdir(exist_ok=True)  # where sshd confines itself
        self.log = open(d / "sshd.log", "wb")
        self.addCleanup(self.log.close)
        self.sshd = subprocess.Popen([self.tool("sshd"), "-D", "-e", "-f", d / "sshd_config"],
                                     stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.addCleanup(self.sshd.wait)
        self.addCleanup(self.sshd.terminate)
        wait_for_port("127.0.0.5", self.port, self.sshd)
        self.gateway = self.proxy(Literal(f"127.0.0.5:{self.port}"))

    def ssh(self, connector, host="ok.test", command="echo over ssh; cat"):
        return subprocess.run(
            [self.tool("ssh"), "-F", "none", "-i", self.directory / "user", "-o",
             f"ProxyCommand={connector}", "-o", "UserKnownHostsFile=/dev/null", "-o",
             "StrictHostKeyChecking=no", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "-p",
             str(self.port), f"{getpass.getuser()}@{host}", command],
            input=b"stdin\n", stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)

    def test_connectors(self):
        proxy = f"127.0.0.1:{self.gateway.port}"
        for connector in (f"nc -X connect -x {proxy} %h %p", f"nc -X 5 -x {proxy} %h %p",
                          f"socat - PROXY:127.0.0.1:%h:%p,proxyport={self.gateway.port}"):
            with self.subTest(connector):
                done = self.ssh(connector)
                self.assertEqual(done.stdout, b"over ssh\nstdin\n", done.stderr)
        done = self.ssh(f"nc -X connect -x {proxy} %h %p", host="no.test")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"403", done.stderr)

    def test_a_refusal_that_ssh_understands(self):
        gateway = self.proxy(token=TOKEN, denied=["no.test"],
                             deniedDomainReasons={"no.test": "use the mirror"})
        done = subprocess.run(
            [self.tool("ssh"), "-F", "none", "-o",
             f"ProxyCommand=nc -X 5 -x 127.0.0.1:{gateway.port} %h %p", "-o",
             "UserKnownHostsFile=/dev/null", "-o", "StrictHostKeyChecking=no", "-o",
             "BatchMode=yes", "nobody@no.test", "true"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        self.assertEqual(done.returncode, 255)
        self.assertIn(b"use the mirror", done.stderr)


class WebSocket(Case):
    """A WebSocket conversation (RFC 6455) by hand, as ws:// libraries do it through a proxy."""

    KEY = base64.b64encode(b"0123456789abcdef")

    def serve(self, conn):
        head = conn.until(b"\r\n\r\n")
        key = next(line.split(b": ")[1] for line in head.split(b"\r\n")
                   if line.lower().startswith(b"sec-websocket-key"))
        accept = base64.b64encode(hashlib.sha1(
            key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
        conn.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                  b"Connection: Upgrade\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n"
                  + b"\x81\x05hello")
        while True:
            first, length = conn.exactly(2)
            length &= 127
            if length == 126:
                length = int.from_bytes(conn.exactly(2), "big")
            elif length == 127:
                length = int.from_bytes(conn.exactly(8), "big")
            mask = conn.exactly(4)
            payload = bytes(b ^ mask[i % 4] for i, b in enumerate(conn.exactly(length)))
            if first == 0x88:
                conn.send(b"\x88" + bytes([len(payload)]) + payload)
                return
            conn.send(b"\x82\x7f" + len(payload).to_bytes(8, "big") + payload)

    def talk(self, client):
        client.send(b"GET %s HTTP/1.1\r\nHost: ok.test\r\nUpgrade: websocket\r\n"
                    b"Connection: Upgrade\r\nSec-WebSocket-Key: %s\r\n"
                    b"Sec-WebSocket-Version: 13\r\n\r\n" % (self.target, self.KEY))
        r = client.response()
        self.assertEqual(r.status, 101)
        self.assertEqual(r.get("Sec-WebSocket-Accept"), base64.b64encode(hashlib.sha1(
            self.KEY + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()).decode())
        self.assertEqual(client.exactly(7), b"\x81\x05hello")
        payload = os.urandom(200000)
        client.send(b"\x82\xff" + len(payload).to_bytes(8, "big") + bytes(4) + payload)
        self.assertEqual(client.exactly(10), b"\x82\x7f" + len(payload).to_bytes(8, "big"))
        self.assertEqual(client.exactly(len(payload)), payload)
        client.send(b"\x88\x82" + bytes(4) + b"\x03\xe8")
        self.assertEqual(client.rest(), b"\x88\x02\x03\xe8")

    def test_through_a_tunnel_and_forwarded(self):
        origin = self.origin(self.serve)
        proxy = self.proxy(origin)
        client = self.client(proxy)
        self.target = f"http://ok.test:{origin.port}/ws".encode()
        self.talk(client)
        client = self.client(proxy)
        self.assertEqual(client.connect(f"ok.test:{origin.port}").status, 200)
        self.target = b"/ws"
        self.talk(client)
