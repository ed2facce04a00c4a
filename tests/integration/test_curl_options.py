"""curl's options that concern proxies, against nginx and an origin of our own."""

import gzip
import hashlib
import os
import subprocess

from harness import TOKEN, Authority, Case, Nginx, answer, clean_environment


class Literal:
    """An allow entry where an origin is expected."""

    def __init__(self, literal):
        self.literal = literal


def reflect(request):
    """What came, told back: the method, the target and the digest of the body."""
    if request.target.startswith("/gzip"):
        return answer(gzip.compress(b"compressed " * 1000), fields="Content-Encoding: gzip\r\n")
    digest = hashlib.sha256(request.body).hexdigest()
    text = f"{request.method} {request.target} {len(request.body)} {digest}\n".encode()
    if request.method == "HEAD":
        return f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\n\r\n".encode()
    return answer(text)


class Options(Case):
    def setUp(self):
        super().setUp()
        self.ca = Authority(self.directory)
        self.own = self.http(reflect)
        self.nginx = Nginx(self.directory / "nginx", certificate=self.ca.leaf("ok.test"))
        self.addCleanup(self.nginx.close)
        (self.nginx.root / "index.html").write_text("hello from nginx\n")
        self.big = os.urandom(2000000)
        (self.nginx.root / "big").write_bytes(self.big)
        self.gateway = self.proxy(*self.origins())
        self.plain = f"http://ok.test:{self.nginx.port}"
        self.secure = f"https://ok.test:{self.nginx.tls_port}"
        self.mine = f"http://ok.test:{self.own.port}"

    def origins(self):
        return [self.own, *map(Literal, self.nginx.literals)]

    def run_curl(self, *args, status=0, stdin=b""):
        env = clean_environment()
        env["HOME"] = str(self.directory)
        done = subprocess.run([self.tool("curl"), "-q", "-sS", "--max-time", "60", "--cacert",
                               str(self.ca.cert), *map(str, args)], input=stdin, env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        self.assertEqual(done.returncode, status, (args, done.stdout[-300:], done.stderr[-800:]))
        return done

    def curl(self, *args, **kw):
        return self.run_curl("-x", self.gateway.url, *args, **kw)

    def told(self, method, target, body):
        return f"{method} {target} {len(body)} {hashlib.sha256(body).hexdigest()}\n".encode()

    def urls(self):
        """A page of each origin, and what it says."""
        return ((self.plain + "/", b"hello from nginx\n"), (self.secure + "/", b"hello from nginx\n"),
                (self.mine + "/x", self.told("GET", "/x", b"")))


class Proxies(Options):
    def test_kinds_of_proxy(self):
        at = f"127.0.0.1:{self.gateway.port}"
        for option in (["-x", f"http://{at}"], ["-x", at], ["--proxy1.0", at],
                       ["-x", f"socks5h://{at}"], ["--socks5-hostname", at],
                       ["-p", "-x", f"http://{at}"], ["-p", "--proxy1.0", at],
                       ["--preproxy", f"socks5h://{at}"]):
            for url, said in self.urls():
                with self.subTest(option=option, url=url):
                    self.assertEqual(self.run_curl(*option, url).stdout, said)

    def test_addresses_by_socks5(self):
        at = f"127.0.0.1:{self.gateway.port}"
        for option in (["-x", f"socks5://{at}"], ["--socks5", at]):
            got = self.run_curl(*option, f"http://127.0.0.5:{self.own.port}/a").stdout
            self.assertEqual(got, self.told("GET", "/a", b""))
        self.run_curl("-x", f"socks5://{at}", "http://127.0.0.9:1/", status=97)

    def test_socks4_is_refused(self):
        for kind in ("socks4", "socks4a"):
            self.run_curl("-x", f"{kind}://127.0.0.1:{self.gateway.port}",
                          f"http://127.0.0.5:{self.own.port}/", status=97)

    def test_authentication(self):
        self.gateway = self.proxy(*self.origins(), token=TOKEN)
        at = f"127.0.0.1:{self.gateway.port}"
        for url, said in self.urls():
            for options in (["-U", f"srt:{TOKEN}", "--proxy-anyauth"],
                            ["-U", f"srt:{TOKEN}", "--proxy-basic"], ["-U", f"any one:{TOKEN}"],
                            ["-p", "-U", f"srt:{TOKEN}", "--proxy-anyauth"]):
                with self.subTest(options=options, url=url):
                    self.assertEqual(self.curl(*options, url).stdout, said)
            got = self.run_curl("-x", f"http://srt:{TOKEN}@{at}", url).stdout
            self.assertEqual(got, said)
            got = self.run_curl("-x", f"socks5h://srt:{TOKEN}@{at}", url).stdout
            self.assertEqual(got, said)
        self.assertEqual(self.curl("-U", f"srt:{TOKEN}", "--proxy-anyauth", "-F", "f=@-",
                                   self.mine + "/form", stdin=self.big).stdout[:11], b"POST /form ")
        for options in ([], ["-U", "srt:wrong"], ["-U", "srt:wrong", "--proxy-anyauth"]):
            self.assertEqual(self.curl(*options, "-o", "/dev/null", "-w", "%{http_code}",
                                       self.plain + "/").stdout, b"407")
            self.curl(*options, self.secure + "/", status=56)
        self.run_curl("-x", f"socks5h://srt:wrong@{at}", self.plain + "/", status=97)
        for request in self.own.requests:
            self.assertIsNone(request.get("Proxy-Authorization"))

    def test_headers_for_the_proxy_and_for_the_origin(self):
        self.curl("--proxy-header", "X-P: 1", "-H", "X-O: 2", self.mine + "/")
        self.assertEqual(self.own.requests[-1].get("X-O"), "2")
        self.curl("-p", "--proxy-header", "X-P: 1", "-H", "X-O: 2", self.mine + "/")
        self.assertIsNone(self.own.requests[-1].get("X-P"))
        self.curl("-p", "--suppress-connect-headers", "-i", self.mine + "/")

    def test_http_versions(self):
        for option in ("--http1.0", "--http1.1", "--http2", "--http0.9"):
            for url, said in self.urls():
                with self.subTest(option=option, url=url):
                    self.assertEqual(self.curl(option, url).stdout, said)

    def test_refusals(self):
        for url in ("http://no.test/", "http://127.0.0.9/", "http://no.test:1/"):
            got = self.curl("-o", "/dev/null", "-w", "%{http_code}", url)
            self.assertEqual(got.stdout, b"403")
            self.curl("-f", url, status=22)
            self.curl("-p", url, status=56)
        got = self.curl("-o", "/dev/null", "-w", "%{http_connect}", "https://no.test/", status=56)
        self.assertEqual(got.stdout, b"403")


class Connections(Options):
    def test_several_urls(self):
        urls = [url for url, _ in self.urls()]
        for option, connected in (([], 2), (["-p"], 3)):
            done = self.curl("-v", *option, *urls, *urls)
            self.assertEqual(done.stdout, b"".join(said for _, said in self.urls()) * 2)
            # one for the plain ones, and a tunnel for each that has one
            self.assertEqual(done.stderr.count(b"Connected to"), connected)

    def test_no_keep_alive(self):
        done = self.curl("-v", "-H", "Connection: close", self.mine + "/1", self.mine + "/2")
        self.assertEqual(done.stderr.count(b"Connected to"), 2)

    def test_in_parallel(self):
        urls = [self.mine + f"/{i}" for i in range(40)]
        done = self.curl("-Z", "--parallel-max", "20", *urls)
        self.assertEqual(sorted(done.stdout.splitlines()),
                         sorted(self.told("GET", f"/{i}", b"").strip() for i in range(40)))

    def test_next_mixes_methods(self):
        done = self.curl(self.mine + "/a", "--next", "-sS", "-x", self.gateway.url, "-d", "x",
                         self.mine + "/b", "--next", "-sS", "-x", self.gateway.url, "-I",
                         self.mine + "/c", "--next", "-sS", "-x", self.gateway.url,
                         self.mine + "/d")
        self.assertIn(self.told("GET", "/a", b"") + self.told("POST", "/b", b"x"), done.stdout)
        self.assertTrue(done.stdout.endswith(self.told("GET", "/d", b"")))


class Downloads(Options):
    def test_slowly(self):
        for url in (self.plain, self.secure):
            self.assertEqual(self.curl("--limit-rate", "1500k", url + "/big").stdout, self.big)

    def test_resume_and_ranges(self):
        for url in (self.plain, self.secure):
            path = self.directory / "part"
            path.write_bytes(self.big[:700000])
            self.curl("-C", "-", "-o", path, url + "/big")
            self.assertEqual(path.read_bytes(), self.big)
            self.assertEqual(self.curl("-r", "-100", url + "/big").stdout, self.big[-100:])
            many = self.curl("-i", "-r", "0-9,100-109", url + "/big").stdout
            self.assertIn(b"multipart/byteranges", many)
            self.assertEqual(self.curl("-o", "/dev/null", "-w", "%{http_code}", "-r", "9999999-",
                                       url + "/big").stdout, b"416")

    def test_head(self):
        for option in ([], ["-p"], ["--http1.0"]):
            got = self.curl(*option, "-I", self.plain + "/big", self.plain + "/").stdout
            self.assertIn(b"Content-Length: 2000000\r\n", got)
            self.assertIn(b"Content-Length: 17\r\n", got)
        self.assertTrue(self.curl("-I", self.mine + "/h").stdout.startswith(b"HTTP/1.1 200 "))

    def test_limits_of_curls(self):
        self.curl("--max-filesize", "1000", "-o", "/dev/null", self.plain + "/big", status=63)
        self.curl("--max-filesize", "3000000", "-o", "/dev/null", self.plain + "/big")

    def test_compressed(self):
        for option in ([], ["-p"]):
            got = self.curl(*option, "--compressed", self.mine + "/gzip").stdout
            self.assertEqual(got, b"compressed " * 1000)
        self.assertIn("gzip", self.own.requests[-1].get("Accept-Encoding"))
        self.assertEqual(gzip.decompress(self.curl("--raw", self.mine + "/gzip").stdout),
                         b"compressed " * 1000)

    def test_conditional_and_remote_names(self):
        got = self.curl("-o", "/dev/null", "-w", "%{http_code}", "-z", "next year",
                        self.plain + "/big").stdout
        self.assertIn(got, (b"200", b"304"))
        got = self.curl("-o", "/dev/null", "-w", "%{http_code}", "-H",
                        "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT", self.plain + "/big")
        self.assertIn(got.stdout, (b"200", b"304"))
        self.curl("--output-dir", self.directory, "-O", self.plain + "/big")
        self.assertEqual((self.directory / "big").read_bytes(), self.big)
        self.assertEqual(self.curl("--path-as-is", self.mine + "/a/../b").stdout[:6], b"GET /b")


class Uploads(Options):
    def uploaded(self, done, method, path, body):
        self.assertEqual(done.stdout, self.told(method, path, body))

    def test_bodies(self):
        for extra in ([], ["-H", "Expect:"], ["-H", "Expect: 100-continue"], ["-p"],
                      ["-H", "Transfer-Encoding: chunked"],
                      ["-H", "Transfer-Encoding: chunked", "-H", "Expect: 100-continue"],
                      ["--limit-rate", "3000k"]):
            with self.subTest(extra):
                done = self.curl(*extra, "--data-binary", "@-", self.mine + "/d", stdin=self.big)
                self.uploaded(done, "POST", "/d", self.big)
                done = self.curl(*extra, "-T", "-", self.mine + "/t", stdin=self.big)
                self.uploaded(done, "PUT", "/t", self.big)
        self.assertEqual(self.own.requests[-1].get("Transfer-Encoding"), "chunked")

    def test_put_of_a_file_into_nginx(self):
        path = self.directory / "file"
        path.write_bytes(self.big)
        for i, (url, option) in enumerate((u, o) for u in (self.plain, self.secure)
                                          for o in ([], ["-p"], ["--http1.0"])):
            self.curl(*option, "-f", "-T", path, f"{url}/put/{i}")
            self.assertEqual((self.nginx.directory / "put" / str(i)).read_bytes(), self.big)

    def test_multipart(self):
        path = self.directory / "file"
        path.write_bytes(self.big)
        for extra in ([], ["-p"], ["-H", "Transfer-Encoding: chunked"], ["-H", "Expect:"]):
            with self.subTest(extra):
                self.curl(*extra, "-F", f"file=@{path}", "-F", "field=value", self.mine + "/f")
                request = self.own.requests[-1]
                self.assertTrue(request.get("Content-Type").startswith("multipart/form-data; "))
                self.assertIn(self.big, request.body)
                self.assertIn(b"value\r\n", request.body)

    def test_small_ones(self):
        for args, method, body in ((["-d", "a=b"], "POST", b"a=b"), (["-d", ""], "POST", b""),
                                   (["-X", "PATCH", "-d", "p"], "PATCH", b"p"),
                                   (["-X", "DELETE"], "DELETE", b""),
                                   (["-X", "OPTIONS"], "OPTIONS", b""),
                                   (["-X", "PROPFIND", "-d", "<x/>"], "PROPFIND", b"<x/>"),
                                   (["--json", "{}"], "POST", b"{}")):
            for option in ([], ["-p"]):
                with self.subTest(args):
                    self.uploaded(self.curl(*option, *args, self.mine + "/s"), method, "/s", body)
        self.uploaded(self.curl("-G", "-d", "a=b", self.mine + "/s"), "GET", "/s?a=b", b"")
