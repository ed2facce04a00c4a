"""Requests inside a terminated tunnel: chapter 30 section 6, and the row of each refusal."""

import base64
import subprocess
import time

from harness import TOKEN, TlsCase, answer, quick

MARK = "blocked-by-sandbox-runtime"


class Inside(TlsCase):
    def start(self, respond=None, **kw):
        self.upstream = self.https(respond)
        self.proxy_ = self.gateway(self.upstream, args=["--debug"], **kw)
        self.authority = f"ok.test:{self.upstream.port}"
        return self.inside(self.proxy_, self.upstream)

    def another(self, **kw):
        return self.inside(self.proxy_, self.upstream, **kw)

    def raw(self, client, data):
        client.send(data)
        return client.response()

    def refusal(self, r, status, text, closes=True, mark=MARK):
        self.assertEqual((r.status, r.text, r.get("X-Proxy-Error"), r.get("Content-Type")),
                         (status, text + "\n", mark, "text/plain"), r)
        self.assertEqual(r.get("Content-Length"), str(len(r.body)))
        self.assertEqual(r.closes, closes, r)

    def last(self):
        return self.upstream.requests[-1]


class Forwarding(Inside):
    @quick
    def test_one_after_the_other(self):
        client = self.start()
        for target in ("/a", "/b?c=d", "/%7e//x/./../y#z", "//", "/?", "*"):
            r = self.ask(client, target, method="OPTIONS" if target == "*" else "GET")
            self.assertEqual((r.status, r.body), (200, b"hello\n"))
            self.assertEqual(r.get("Connection"), "keep-alive")
            self.assertEqual(r.get("Keep-Alive"), "timeout=5")
            self.assertIsNotNone(r.get("Date"))
            self.assertEqual(self.last().target, target)
            self.assertEqual(self.last().all("Host"), [self.authority])
            self.assertEqual(self.last().version, "HTTP/1.1")
        self.assertEqual(len(self.upstream.connections), 1)

    def test_absolute_form(self):
        client = self.start()
        for target, sent in ((f"https://{self.authority}/a/../b?c#d", "/b?c"),
                             ("http://evil.test/a", "/a"), ("https://u:p@x?y", "/?y")):
            self.assertEqual(self.ask(client, target).status, 200)
            self.assertEqual(self.last().target, sent)
            self.assertEqual(self.last().all("Host"), [self.authority])

    @quick
    def test_header_fields(self):
        client = self.start()
        self.ask(client, "/", "X-Upper: A\r\nx-lower: b\r\nX-Upper: C\r\nConnection: X-One\r\n"
                 "X-One: 1\r\nKeep-Alive: 5\r\nProxy-Connection: keep-alive\r\nTE: trailers\r\n"
                 "Proxy-Authorization: Basic x\r\nPROXY_AUTHORIZATION: y\r\nUpgrade: x\r\n"
                 "Cookie: a=1\r\nCookie: b=2\r\n", host="evil.test")
        self.assertEqual(self.last().fields, [
            ("Host", self.authority), ("X-Upper", "A"), ("x-lower", "b"), ("X-Upper", "C"),
            ("Cookie", "a=1; b=2")])

    @quick
    def test_pipelined(self):
        def respond(request):
            time.sleep(0.1 if request.target == "/1" else 0)
            return answer(request.target.encode())

        client = self.start(respond)
        client.send("".join(f"GET /{n} HTTP/1.1\r\nHost: x\r\n\r\n" for n in range(1, 6)))
        self.assertEqual([client.response().text for _ in range(5)],
                         ["/1", "/2", "/3", "/4", "/5"])

    def test_each_is_judged_anew(self):
        client = self.start(rules=[{"host": "ok.test", "methods": ["PUT"], "action": "deny"}])
        client.send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
                    "PUT /b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
                    "GET /c HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertEqual([client.response().status for _ in range(3)], [200, 403, 200])

    def test_any_method(self):
        client = self.start()
        for method in ("PURGE", "M-SEARCH", "get", "!#$%&'*+-.^_`|~", "TRACE"):
            self.assertEqual(self.ask(client, method=method).status, 200, method)
            self.assertEqual(self.last().method, method)

    def test_head(self):
        client = self.start(lambda r: b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
                            + (b"" if r.method == "HEAD" else b"hello"))
        r = self.ask(client, method="HEAD")
        self.assertEqual((r.status, r.get("Content-Length")), (200, "5"))
        self.assertEqual(self.ask(client).body, b"hello")

    def test_bodies(self):
        client = self.start()
        for method in ("POST", "GET", "DELETE"):
            self.ask(client, "/", "Content-Length: 5\r\n", method, body=b"hello")
            self.assertEqual((self.last().body, self.last().get("Content-Length")),
                             (b"hello", "5"))
            self.ask(client, "/", "Transfer-Encoding: chunked\r\n", method,
                     body=b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n")
            self.assertEqual((self.last().body, self.last().get("Transfer-Encoding")),
                             (b"abcde", "chunked"))
            self.ask(client, "/", "Content-Length: 5\r\nConnection: Content-Length\r\n", method,
                     body=b"hello")
            self.assertEqual((self.last().body, self.last().get("Transfer-Encoding")),
                             (b"hello", "chunked"))
        self.ask(client, method="POST")
        self.assertEqual(self.last().get("Content-Length"), "0")

    def test_old_clients(self):
        client = self.start()
        r = self.raw(client, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        self.assertEqual((r.status, r.get("Connection")), (200, "keep-alive"))
        r = self.raw(client, "GET /2 HTTP/1.0\r\n\r\n")
        self.assertEqual((r.status, r.get("Connection")), (200, "close"))
        self.orderly_end(client)

    def test_old_clients_get_no_chunks(self):
        client = self.start(lambda r: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                            b"2\r\nab\r\n0\r\n\r\n")
        r = self.raw(client, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        self.assertEqual((r.body, r.get("Connection"), r.get("Transfer-Encoding")),
                         (b"ab", "close", None))

    @quick
    def test_a_client_that_wants_to_close(self):
        client = self.start()
        r = self.ask(client, fields="Connection: close\r\n")
        self.assertTrue(r.closes)
        self.orderly_end(client)

    def test_response_fields(self):
        client = self.start(lambda r: b"HTTP/1.1 299 My Phrase\r\nSet-Cookie: a\r\nset-cookie: b\r\n"
                            b"X_Secret: 1\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: x\r\n"
                            b"Proxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n",
                            stripResponseHeaders=["x-secret"])
        r = self.ask(client)
        self.assertEqual((r.status, r.phrase), (299, "My Phrase"))
        self.assertEqual([f for f in r.fields if f[0] != "Date"],
                         [("Set-Cookie", "a"), ("set-cookie", "b"), ("Content-Length", "0"),
                          ("Connection", "keep-alive"), ("Keep-Alive", "timeout=5")])

    def test_the_log(self):
        client = self.logged()
        self.ask(client, "/secret?x=y")
        self.ask(client, "/", method="POST")
        client.close()
        tunnel, get, post = self.proxy_.records(3)
        self.assertEqual([tunnel.get(k) for k in ("via", "method", "host", "port", "verdict",
                                                  "status", "close", "user")],
                         ["connect", None, "ok.test", self.upstream.port, "allow", 200, "done",
                          "job"])
        for record, method in ((get, "GET"), (post, "POST")):
            self.assertEqual([record.get(k) for k in ("via", "method", "host", "verdict", "rule",
                                                      "status", "close", "user")],
                             ["https", method, "ok.test", "allow", "network.allowedDomains[0]",
                              200, "done", "job"])
            self.assertGreater(record["bytesDown"], 100)
        self.assertNotIn("secret", self.proxy_.log_path.read_text())

    def logged(self):
        self.upstream = self.https()
        self.proxy_ = self.gateway(self.upstream, token=TOKEN)
        user = "srt." + base64.b64encode(b"job").decode()
        credentials = base64.b64encode(f"{user}:{TOKEN}".encode()).decode()
        return self.another(fields=f"Proxy-Authorization: Basic {credentials}\r\n")


class Malformed(Inside):
    def detail(self, r):
        self.assertRegex(r.text, r"^malformed request \([^()]+\)\n$")
        self.refusal(r, 400, r.text[:-1])
        return r.text[:-1]

    @quick
    def test_what_does_not_parse(self):
        self.start()
        host = "Host: x\r\n"
        for data in (f"G@T / HTTP/1.1\r\n{host}\r\n", f"GET / HTTP/1.1\n{host}\r\n",
                     f"GET / HTTP/1.1\r\n{host}X: a\x01\r\n\r\n",
                     f"GET / HTTP/1.1\r\n{host}X : a\r\n\r\n",
                     f"GET / HTTP/1.1\r\n{host}X: a\r\n b\r\n\r\n",
                     f"GET / HTTP/2.0\r\n{host}\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                     f"GET /\r\n{host}\r\n", f"GET  / HTTP/1.1\r\n{host}\r\n",
                     f"POST / HTTP/1.1\r\n{host}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                     f"POST / HTTP/1.1\r\n{host}Content-Length: 1\r\nContent-Length: 1\r\n\r\n",
                     f"POST / HTTP/1.1\r\n{host}Transfer-Encoding: gzip, chunked\r\n\r\n",
                     "\x16\x03\x01\x00\x05hello"):
            client = self.another()
            text = self.detail(self.raw(client, data))
            self.orderly_end(client)
            self.assertEqual(self.violations(self.proxy_)[-1],
                             f"deny http-request - https://{self.authority} ({text})", data)
        self.assertEqual(self.upstream.requests, [])

    @quick
    def test_raw_bytes_in_the_target(self):
        self.start()
        text = "malformed request-target: percent-encode its bytes outside printable ASCII"
        for target, shown in (("/caf\xc3\xa9?x=\xff", "/caf%C3%A9?…"), ("/\x7f", "/%7F"),
                              ("/a\tb", "/a%09b"), ("/" + "\xe9" * 300, "/" + "%E9" * 199)):
            client = self.another()
            r = self.raw(client, f"PUT {target} HTTP/1.1\r\nHost: x\r\n\r\n")
            self.refusal(r, 400, text)
            self.orderly_end(client)
            self.assertEqual(self.violations(self.proxy_)[-1],
                             f"deny http-request PUT https://{self.authority}{shown} ({text})")

    def test_bodies(self):
        self.start()
        for body in ("x\r\n", "1\r\nab\r\n", "5\nhello\r\n0\r\n\r\n"):
            client = self.another()
            r = self.raw(client, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                         + body)
            self.detail(r)
            self.orderly_end(client)
        self.assertEqual(self.upstream.requests, [])

    @quick
    def test_heads_over_the_limit(self):
        self.start()
        client = self.another()
        r = self.raw(client, "GET / HTTP/1.1\r\nHost: x\r\nX: " + "x" * 65536 + "\r\n\r\n")
        self.assertIn("65536", self.detail(r))
        self.orderly_end(client)
        client = self.another()
        self.assertEqual(self.ask(client, fields="X: " + "x" * 65000 + "\r\n").status, 200)

    def test_after_a_good_one(self):
        client = self.start()
        client.send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n\x01nonsense\r\n\r\n")
        self.assertEqual(client.response().status, 200)
        self.detail(client.response())
        self.orderly_end(client)

    def test_a_client_that_leaves_in_the_middle(self):
        for data in ("GET / HT", "GET / HTTP/1.1\r\nHost"):
            client = self.start()
            client.send(data)
            client.sock.close_notify()
            self.orderly_end(client)
            self.assertEqual(self.violations(self.proxy_), [])

    @quick
    def test_no_host(self):
        client = self.start()
        r = self.raw(client, "GET / HTTP/1.1\r\n\r\n")
        self.refusal(r, 400, "HTTP/1.1 request without a Host header")
        self.orderly_end(client)
        self.assertEqual(self.violations(self.proxy_), [])
        self.assertEqual(self.raw(self.another(), "GET / HTTP/1.0\r\n\r\n").status, 200)

    def test_target_forms(self):
        self.start()
        for target in ("ok.test:443", "ftp://ok.test/", "x", "?", "https://", "http://[::1/", "**"):
            client = self.another()
            # the target is looked at before Host
            r = self.raw(client, f"GET {target} HTTP/1.1\r\n\r\n")
            self.refusal(r, 400, "malformed request-target")
            self.orderly_end(client)
        self.assertEqual(len(self.violations(self.proxy_)), 7)
        self.assertEqual(self.violations(self.proxy_)[0],
                         f"deny http-request GET https://{self.authority}ok.test:443 "
                         "(malformed request-target)")

    @quick
    def test_connect(self):
        client = self.start()
        r = self.raw(client, "CONNECT ok.test:443 HTTP/1.1\r\n\r\n")
        self.detail(r)
        self.orderly_end(client)

    def test_expectations(self):
        client = self.start()
        r = self.ask(client, fields="Expect: 200-ok\r\n", method="PUT")
        self.assertEqual((r.status, r.body), (417, b""))
        self.orderly_end(client)


class HostMatch(Inside):
    @quick
    def test_each_text(self):
        self.start(requireHostMatch=True)
        good = f"Host: {self.authority}\r\n"
        cases = (
            ("ok_test", "https://other.test/", good + good, "TLS server name could not be read"),
            ("other.test", "/", good, "TLS server name does not match the request target"),
            ("ok.test", "https://other.test/", good,
             "request-target authority does not match the request target"),
            ("ok.test", f"https://u@{self.authority}/", good,
             "request-target authority does not match the request target"),
            ("ok.test", "/", good + good, "more than one Host header"),
            ("ok.test", "/", "Host: ok.test\r\n", "Host header does not match the request target"),
            ("ok.test", "/", "Host: \r\n", "Host header does not match the request target"),
            ("ok.test", "/", f"Host: ok.test.:{self.upstream.port}\r\n",
             "Host header does not match the request target"),
            ("other.test", "https://other.test/", good + good,
             "TLS server name does not match the request target"),
        )
        for name, target, fields, text in cases:
            client = self.another(name=name, context=self.lenient())
            client.send(f"PUT {target} HTTP/1.1\r\n{fields}Content-Length: 4\r\n\r\nbody")
            self.refusal(client.response(), 421, text, closes=False)
            path = target[target.index("/", 8):] if "//" in target else target
            self.assertEqual(self.violations(self.proxy_)[-1],
                             f"deny http-request PUT https://{self.authority}{path} ({text})")
            if name == "ok.test":
                r = self.ask(client, host=self.authority)
                self.assertEqual(r.status, 200)
        self.assertEqual(len(self.violations(self.proxy_)), len(cases))

    @quick
    def test_what_matches(self):
        self.start(requireHostMatch=True)
        for name, host in (("ok.test", self.authority), ("OK.test", self.authority.upper()),
                           (False, self.authority)):
            client = self.another(name=name)
            self.assertEqual(self.ask(client, host=host).status, 200)
            self.assertEqual(self.ask(client, f"https://{self.authority}/", host=host).status, 200)
            self.assertEqual(self.raw(client, "GET / HTTP/1.0\r\n\r\n").status, 200)

    def test_the_rest_of_the_body_is_dropped(self):
        client = self.start(requireHostMatch=True)
        client.send("PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        self.assertEqual(client.response().status, 421)
        for _ in range(100):
            client.send(b"8000\r\n" + bytes(0x8000) + b"\r\n")
        client.send("0\r\n\r\n")
        self.assertEqual(self.ask(client, host=self.authority).status, 200)
        # but nobody knows whether it will come after this
        client.send("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        r = client.response()
        self.assertEqual((r.status, r.closes), (421, True))
        self.orderly_end(client)

    def test_on_port_443_it_may_be_left_out(self):
        proxy = self.gateway(requireHostMatch=True)
        for host, status in (("ok.test", 403), ("ok.test:443", 403), ("ok.test:0443", 421),
                             ("ok.test:", 421)):
            client = self.secure(self.opened(proxy, "ok.test:443"))
            r = self.ask(client, host=host)  # 403: 127.0.0.5 is not listed
            self.assertEqual(r.status, status, host)


class Rules(Inside):
    RULES = [{"host": "ok.test", "methods": ["GET"], "paths": ["/public/**"], "action": "allow"},
             {"host": "ok.test", "action": "deny", "reason": "read the docs"}]

    @quick
    def test_method_and_path(self):
        client = self.start(rules=self.RULES)
        self.assertEqual(self.ask(client, "/public/a").status, 200)
        r = self.ask(client, "/private?secret")
        self.assertEqual((r.status, r.get("X-Proxy-Error"), r.closes),
                         (403, "blocked-by-allowlist", False))
        self.assertEqual(r.text, "Request blocked by network.rules: read the docs\nsrt: GET "
                         f"https://{self.authority}/private?… is blocked by policy, not by a "
                         "network fault (network.rules[1]); do not retry\n")
        self.assertEqual(self.ask(client, "/public/a", method="POST").status, 403)
        self.assertEqual(self.ask(client, f"https://{self.authority}/private").status, 403)
        r = self.ask(client, "/public/../private")
        self.assertEqual((r.status, r.get("X-Proxy-Error"), r.closes),
                         (400, "ambiguous-request-target", True))
        self.assertEqual(self.violations(self.proxy_)[0],
                         f"deny http-request GET https://{self.authority}/private?… (read the docs)")
        self.assertEqual(self.upstream.targets(), ["/public/a"])

    def test_what_was_judged_is_what_is_sent(self):
        client = self.start(rules=self.RULES, ambiguousRequestTarget="normalize")
        for target, sent in (("/x/../public/a", "/public/a"), ("/public/a#/../../private", "/public/a"),
                             ("/public/./a?b#c", "/public/a?b"), ("/x/%2e%2e/public/c", "/public/c")):
            self.assertEqual(self.ask(client, target).status, 200)
            self.assertEqual(self.last().target, sent)
        for target in ("/public/%2e%2e/private", "/public\\..\\private"):
            self.assertEqual(self.ask(client, target).status, 403, target)
        r = self.ask(client, "/public/..%2fprivate")
        self.assertEqual((r.status, r.get("X-Proxy-Error")), (400, "ambiguous-request-target"))

    def test_ambiguous_targets(self):
        self.start(rules=self.RULES)
        for target in ("/x/../public/a", "//public/a", "/public/%2e%2e/private",
                       "/public/..%2fprivate", "/public\\..\\private"):
            r = self.ask(self.another(), target)
            self.assertEqual((r.status, r.get("X-Proxy-Error")),
                             (400, "ambiguous-request-target"), target)
        self.assertEqual(self.upstream.requests, [])

    def test_methods_that_echo(self):
        client = self.start(rules=self.RULES)
        for method in ("TRACE", "TRACK"):
            r = self.ask(client, "/public/a", method=method)
            self.assertEqual((r.status, r.text), (405, f"the {method} method is not forwarded\n"))
        self.assertEqual(self.upstream.requests, [])

    def test_policy_follows_the_settings_of_each_request(self):
        client = self.start(rules=[{"host": "two.test", "action": "deny"}])
        self.assertEqual(self.ask(client).status, 200)


class Revocations(Inside):
    @quick
    def test_the_list(self):
        proxy = self.gateway(token=TOKEN)
        client = self.client(proxy)
        for target in ("/srt.crl", "/srt.crl?x=y"):
            client.send(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n")
            r = client.response()
            self.assertEqual((r.status, r.get("Content-Type"), r.closes),
                             (200, "application/pkix-crl", False))
            self.assertEqual(int(r.get("Content-Length")), len(r.body))
        path = self.directory / "crl"
        path.write_bytes(r.body)
        out = subprocess.run(["openssl", "crl", "-inform", "DER", "-in", path, "-CAfile",
                              self.ca_cert, "-noout", "-text"], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT).stdout.decode()
        self.assertIn("verify OK", out)
        self.assertIn("No Revoked Certificates", out)

    def test_nothing_else(self):
        proxy = self.gateway(token=TOKEN)
        for target, method, status in (
                ("/srt.crl", "HEAD", 407), ("/srt.crl", "POST", 407), ("/srt.crlx", "GET", 407),
                ("/x/../srt.crl", "GET", 407), ("//srt.crl", "GET", 407), ("/srt.crl/", "GET", 407),
                ("http://ok.test/srt.crl", "GET", 407), ("/SRT.crl", "GET", 407)):
            client = self.client(proxy)
            client.send(f"{method} {target} HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertEqual(client.response(method).status, status, target)
        plain = self.proxy()
        client = self.client(plain)
        client.send("GET /srt.crl HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertEqual(client.response().status, 400)

    def test_inside_a_tunnel_it_is_the_servers(self):
        client = self.start()
        self.assertEqual(self.ask(client, "/srt.crl").body, b"hello\n")
