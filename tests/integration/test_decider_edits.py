"""What an allow changes of a request: header edits and credentials (chapter 35 section 3, chapter 20
section 11.3)."""

import base64

from harness import DeciderCase, allow, quick

CREDENTIALS = ("Authorization: Bearer old\r\nauthorization: Basic b2xk\r\nProxy_Authorization: Basic b2xk\r\n"
               "Cookie: a=1\r\nCOOKIE: b=2\r\nX-API-Key: old\r\nx_api.key: old\r\nX-Keep: me\r\n")


def sent(request):
    """What reached the origin, but for what the proxy itself writes."""
    return [f for f in request.fields if f[0].lower() not in ("host", "connection")]


class Edits(DeciderCase):
    SET = ["--plaintext-header-set"]

    def edited(self, fields, *, args=SET, host=None, path="/", method="GET", **edits):
        """The request as it arrives, after an allow with those edits."""
        if not hasattr(self, "srt"):
            self.start(args=args, allowed_by=["ok.test", "two.test", "github.com", "api.github.com"])
            for name in ("github.com", "api.github.com"):
                self.dns.add(name, "127.0.0.5")
        self.peer.decide = lambda m: allow(m, **edits)
        at = f"{host or 'ok.test'}:{self.upstream.port}"
        client = self.client(self.srt)
        client.send(f"{method} http://{at}{path} HTTP/1.1\r\nHost: {at}\r\n{fields}\r\n")
        r = client.response(method)
        self.assertEqual(r.status, 200, r)
        return self.last()

    def start(self, *args, **kw):
        """The hello of allowed_by, and the origin's address."""
        self.upstream = self.http()
        names = kw.pop("allowed_by", ["ok.test"])
        self.peer = self.decider(allow, self.upstream, allowed=names)
        self.srt = self.decided(self.peer, **kw)
        self.at = f"ok.test:{self.upstream.port}"
        self.url = f"http://{self.at}"
        return self.client(self.srt)

    @quick
    def test_every_spelling_is_removed(self):
        fields = "".join(f"{n}: {i}\r\n" for i, n in enumerate(
            ("X-Old", "x-old", "x_old", "X.Old", "X_OLD", "x.OLD", "X-Older", "XOld", "X--Old")))
        for name in ("x-old", "x_old", "x.old"):
            got = self.edited(fields, removeHeaders=[name])
            self.assertEqual([n.lower() for n, _ in sent(got)], ["x-older", "xold", "x--old"])

    @quick
    def test_sets_replace_every_spelling(self):
        got = self.edited("X-New: a\r\nx_new: b\r\nX.NEW: c\r\nX-Other: d\r\n", setHeaders={"x-new": ["1", "2"]})
        self.assertEqual(sent(got),
                         [("X-Other", "d"), ("x-new", "1"), ("x-new", "2")])

    def test_spellings_among_the_sets(self):
        got = self.edited("", setHeaders={"x_new": ["1"], "x-new": ["2"], "y.z": ["3"]})
        self.assertEqual(sent(got),
                         [("x_new", "1"), ("x_new", "2"), ("y.z", "3")])

    @quick
    def test_removed_first_then_set(self):
        got = self.edited("X-Both: old\r\nX-Gone: old\r\n", removeHeaders=["x-both", "x_gone"],
                          setHeaders={"x.both": ["new"]})
        self.assertEqual(sent(got), [("x.both", "new")])

    def test_many(self):
        sets = {f"x-{i}": [str(i), str(-i)] for i in range(95)}
        got = self.edited("".join(f"X_{i}: old\r\n" for i in range(95)), setHeaders=sets)
        self.assertEqual(sent(got),
                         [(n, v) for n, values in sets.items() for v in values])

    @quick
    def test_values(self):
        got = self.edited("", setHeaders={"x": ["", "a\tb", "a  b", '"\\', "a: b, c"]})
        self.assertEqual(got.all("x"), ["", "a\tb", "a  b", '"\\', "a: b, c"])

    def test_what_is_removed_without_being_there(self):
        got = self.edited("X-A: 1\r\n", removeHeaders=["authorization", "cookie", "x-not-there"])
        self.assertEqual(sent(got), [("X-A", "1")])

    @quick
    def test_credentials_of_the_client_may_be_removed(self):
        got = self.edited(CREDENTIALS, removeHeaders=["authorization", "cookie", "x-api-key"], args=[])
        self.assertEqual(sent(got), [("X-Keep", "me")])

    @quick
    def test_framing_stays(self):
        client = self.start(args=self.SET)
        self.peer.decide = lambda m: allow(m, removeHeaders=["content-type", "content.encoding"],
                                           setHeaders={"content-language": ["x"]})
        client.send(f"POST {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\nContent-Length: 5\r\n"
                    "Content_Encoding: x\r\nContent-Type: y\r\n\r\nhello")
        self.assertEqual(client.response().status, 200)
        self.assertEqual(self.last().body, b"hello")
        self.assertNotIn("content-type", self.last().names)
        self.assertNotIn("content_encoding", self.last().names)

    @quick
    def test_a_credential(self):
        got = self.edited(CREDENTIALS, cred="npm", credential="s3cr3t")
        self.assertEqual(sent(got),
                         [("X-Keep", "me"), ("authorization", "Bearer s3cr3t")])

    @quick
    def test_where_a_credential_goes(self):
        basic = "Basic " + base64.b64encode(b"x-access-token:tok").decode()
        for host, cred, expected in (("github.com", "github", basic),
                                     ("api.github.com", "github", "Bearer tok"),
                                     ("ok.test", "github", "Bearer tok"), ("github.com", "git", "Bearer tok"),
                                     ("github.com", "GitHub", "Bearer tok")):
            with self.subTest(host=host, cred=cred):
                got = self.edited("", host=host, cred=cred, credential="tok")
                self.assertEqual(got.all("Authorization"), [expected])

    def test_a_credential_with_other_edits(self):
        got = self.edited(CREDENTIALS + "X-Old: 1\r\n", cred="c", credential="!~", removeHeaders=["x-old"],
                          setHeaders={"x-new": ["1"]})
        self.assertEqual(sorted(sent(got)),
                         [("X-Keep", "me"), ("authorization", "Bearer !~"), ("x-new", "1")])

    @quick
    def test_placements_of_the_settings(self):
        self.start(args=self.SET, allowed_by=["ok.test", "two.test", "github.com"], placements=[
            {"class": "a", "host": "ok.test", "scheme": "basic", "user": "one"},
            {"class": "a", "scheme": "bearer"},
            {"host": "two.test", "scheme": "basic", "user": "two"},
            {"class": "a", "scheme": "basic", "user": "never"}])
        self.dns.add("github.com", "127.0.0.5")

        def basic(text):
            return "Basic " + base64.b64encode(text.encode()).decode()

        for host, cred, expected in (("ok.test", "a", basic("one:x")), ("two.test", "a", "Bearer x"),
                                     ("two.test", "b", basic("two:x")), ("ok.test", "b", "Bearer x"),
                                     ("github.com", "github", "Bearer x")):
            with self.subTest(host=host, cred=cred):
                got = self.edited("", host=host, cred=cred, credential="x")
                self.assertEqual(got.get("Authorization"), expected)


class InTheClear(DeciderCase):
    """Header sets on plain HTTP."""

    @quick
    def test_refused_without_the_option(self):
        for edits in ({"setHeaders": {"x": ["1"]}}, {"cred": "a", "credential": "b"}):
            client = self.start(lambda m, e=edits: allow(m, **e))
            r = client.get(f"{self.url}/")
            self.refused(r, 403, "plaintext_header_set",
                         "the allow decision sets headers, and headers are not set on plain-HTTP requests "
                         "unless plaintext header sets are enabled; nothing was forwarded")
            self.nothing_out()

    @quick
    def test_removals_work_without_it(self):
        client = self.start(lambda m: allow(m, removeHeaders=["x-old"]))
        self.assertEqual(client.get(f"{self.url}/", "X_Old: 1\r\n").status, 200)
        self.assertNotIn("x_old", self.last().names)

    def test_the_credential_is_nowhere(self):
        client = self.start(lambda m: allow(m, cred="a", credential="s3cr3t"), args=["--debug"])
        r = client.get(f"{self.url}/")
        self.assertNotIn("s3cr3t", r.text + self.srt.stderr())


class InTunnels(DeciderCase):
    """The same inside of terminated tunnels, where sets need no option."""

    @quick
    def test_edits(self):
        self.start(lambda m: allow(m, removeHeaders=["x-old"], setHeaders={"x-new": ["1", "2"]}), tls=True)
        client = self.inside(self.srt, self.upstream)
        r = self.ask(client, "/a?b", "X_Old: 1\r\nX.New: 0\r\nX-Keep: k\r\n", host=self.at)
        self.assertEqual(r.status, 200)
        got = self.last()
        self.assertEqual(sent(got),
                         [("X-Keep", "k"), ("x-new", "1"), ("x-new", "2")])

    @quick
    def test_a_credential(self):
        self.start(lambda m: allow(m, cred="c", credential="tok"), tls=True)
        client = self.inside(self.srt, self.upstream)
        for _ in range(2):
            self.assertEqual(self.ask(client, "/", CREDENTIALS, host=self.at).status, 200)
            self.assertEqual(sent(self.last()),
                             [("X-Keep", "me"), ("authorization", "Bearer tok")])
