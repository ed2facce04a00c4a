"""network.rules: which requests may be made to a host that the lists allow."""

import json
import os
import re
import subprocess

from harness import Case, answer, quick, run_srt

LINE = re.compile(r"srt: (\S+ \S+) is blocked by policy, not by a network fault "
                  r"\((network\.rules\[\d+\])\); do not retry")


class RuleCase(Case):
    def setUp(self):
        super().setUp()
        self.upstream = self.http()
        self.at = f"http://ok.test:{self.upstream.port}"

    def ruled(self, *rules, **kw):
        return self.proxy(self.upstream, rules=list(rules), **kw)


class Decisions(RuleCase):
    @quick
    def test_the_first_rule_that_applies_decides(self):
        proxy = self.ruled({"host": "ok.test", "methods": ["GET"], "paths": ["/public/**"],
                            "action": "allow"},
                           {"host": "ok.test", "action": "deny", "reason": "read the docs"})
        client = self.client(proxy)
        self.assertEqual(client.get(f"{self.at}/public/a").status, 200)
        r = client.get(f"{self.at}/private?secret=1")
        self.assertEqual(r.status, 403)
        self.assertEqual(r.get("X-Proxy-Error"), "blocked-by-allowlist")
        first, second, end = r.text.split("\n")
        self.assertEqual(first, "Request blocked by network.rules: read the docs")
        self.assertEqual(LINE.fullmatch(second).groups(),
                         (f"GET {self.at}/private?…", "network.rules[1]"))
        self.assertEqual(end, "")
        self.assertNotIn("secret", r.text)
        self.assertEqual(client.get(f"{self.at}/public/a", method="PUT").status, 403)
        self.assertEqual(client.get(f"{self.at}/public/b#/../private").status, 200)
        self.assertEqual(self.upstream.targets(), ["/public/a", "/public/b"])

    @quick
    def test_hosts_without_rules_and_requests_that_none_applies_to(self):
        proxy = self.ruled({"host": "ok.test", "methods": ["POST"], "action": "deny"})
        client = self.client(proxy)
        self.assertEqual(client.get(f"{self.at}/").status, 200)
        self.assertEqual(client.get(f"http://two.test:{self.upstream.port}/",
                                    method="POST", fields="Content-Length: 0\r\n").status, 200)
        self.assertEqual(client.get(f"{self.at}/", method="POST",
                                    fields="Content-Length: 0\r\n").status, 403)

    @quick
    def test_a_rule_opens_no_host(self):
        proxy = self.ruled({"host": "no.test", "action": "allow"},
                           {"host": "*", "methods": ["GET"], "action": "allow"})
        self.denied(self.client(proxy).get(f"http://no.test:{self.upstream.port}/"))

    def test_the_port_counts(self):
        other = self.http()
        proxy = self.proxy(self.upstream, other, rules=[
            {"host": f"ok.test:{self.upstream.port}", "action": "deny"}])
        client = self.client(proxy)
        self.assertEqual(client.get(f"{self.at}/").status, 403)
        self.assertEqual(client.get(f"http://ok.test:{other.port}/").status, 200)

    def test_other_spellings_of_the_host(self):
        proxy = self.ruled({"host": "127.0.0.5", "action": "deny"},
                           {"host": "ok.test", "action": "deny"})
        client = self.client(proxy)
        for host in ("OK.test", "ok.test.", "127.0.0.5", "127.5", "0x7f.5", "2130706437",
                     "[::ffff:127.0.0.5]"):
            r = client.get(f"http://{host}:{self.upstream.port}/")
            self.assertEqual(r.status, 403, (host, r))
        self.assertEqual(self.upstream.requests, [])

    def test_other_spellings_of_the_path(self):
        proxy = self.ruled({"host": "ok.test", "paths": ["/admin/**"], "action": "deny"})
        client = self.client(proxy)
        for path in ("/admin", "/admin/", "/admin/x", "/%61dmin", "/admin?x", "/admin#x",
                     "/adm%69n/x", "/admin//x"):
            self.assertEqual(client.get(self.at + path).status, 403, path)
        for path in ("/Admin", "/administrator", "/x/admin", "/?/admin", ""):
            self.assertEqual(client.get(self.at + path).status, 200, path)

    # What the server may take for another path than the one that was judged.
    AMBIGUOUS = ("/x/%2e%2e/admin", "/x/.%2E/admin", "/x\\admin", "/x/../admin", "/./admin",
                 "//admin/x", "/x//../admin")
    # ... whatever becomes of dot segments.
    NEVER_CLEAR = ("/x%2fadmin", "/x%5cadmin", "/admin%00", "/%", "/%zz", "/x/..;/admin")

    @quick
    def test_ambiguous_targets(self):
        proxy = self.ruled({"host": "ok.test", "paths": ["/admin/**"], "action": "deny"})
        client = self.client(proxy)
        for path in self.AMBIGUOUS + self.NEVER_CLEAR:
            r = client.get(self.at + path)
            self.assertEqual(r.status, 400, path)
            self.assertEqual(r.get("X-Proxy-Error"), "ambiguous-request-target")
            self.assertTrue(r.text.startswith("ambiguous request-target"), r.text)
            self.assertEqual("network.ambiguousRequestTarget" in r.text, path in self.AMBIGUOUS)
            self.assertEqual(
                client.get(f"http://two.test:{self.upstream.port}{path}").status, 200, path)
        self.assertEqual(len(self.upstream.requests), len(self.AMBIGUOUS + self.NEVER_CLEAR))

    def test_rules_judge_what_is_sent(self):
        rule = {"host": "ok.test", "paths": ["/admin/**"], "action": "deny"}
        proxy = self.ruled(rule, ambiguousRequestTarget="normalize")
        client = self.client(proxy)
        for path, status in (("/x/../admin", 403), ("/x/%2e%2e/admin", 403), ("//admin/x", 403),
                             ("/admin/../b", 200), ("/b\\c/./", 200), ("/x%2fadmin", 400)):
            self.assertEqual(client.get(self.at + path).status, status, path)
        self.assertEqual(self.upstream.targets(), ["/b", "/b/c/"])
        # Rules read one path: a spelling that has two is refused even so.
        proxy = self.ruled(rule, ambiguousRequestTarget="asSpelled")
        client = self.client(proxy)
        self.assertEqual(client.get(f"{self.at}/admin/../c").status, 400)
        self.assertEqual(client.get(f"{self.at}/c").status, 200)

    def test_methods_that_echo(self):
        proxy = self.ruled({"host": "ok.test", "methods": ["PUT"], "action": "deny"})
        client = self.client(proxy)
        for method in ("TRACE", "TRACK", "trace"):
            r = client.get(f"{self.at}/", method=method)
            self.assertEqual((r.status, r.get("X-Proxy-Error"), r.text),
                             (405, "blocked-by-sandbox-runtime",
                              f"the {method.upper()} method is not forwarded\n"))
        self.assertEqual(client.get(f"http://two.test:{self.upstream.port}/",
                                    method="TRACE").status, 200)

    def test_a_refusal_keeps_the_connection(self):
        proxy = self.ruled({"host": "ok.test", "methods": ["POST"], "action": "deny"})
        client = self.client(proxy)
        client.send(f"POST {self.at}/ HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 5\r\n\r\nhello")
        client.send(f"GET {self.at}/a HTTP/1.1\r\nHost: ok.test\r\n\r\n")
        self.assertEqual(client.response().status, 403)
        self.assertEqual(client.response().status, 200)
        r = client.get(f"{self.at}/", method="HEAD")
        self.assertEqual(r.status, 200)

    def test_an_upgrade_is_a_request(self):
        proxy = self.ruled({"host": "ok.test", "paths": ["/socket"], "action": "deny"})
        r = self.client(proxy).get(f"{self.at}/socket",
                                   "Connection: Upgrade\r\nUpgrade: websocket\r\n")
        self.assertEqual(r.status, 403)

    @quick
    def test_tunnels_are_not_judged(self):
        proxy = self.ruled({"host": "ok.test", "action": "deny"})
        self.assertIn("network.rules.0: rules judge plain HTTP requests only", proxy.stderr())
        client = self.client(proxy)
        self.assertEqual(client.connect(f"ok.test:{self.upstream.port}").status, 200)
        self.assertEqual(client.get("/").status, 200)


class Log(RuleCase):
    @quick
    def test_the_record(self):
        proxy = self.ruled({"host": "two.test", "action": "deny"},
                           {"host": "ok.test", "methods": ["PUT"], "action": "deny",
                            "reason": "read only"},
                           {"host": "ok.test", "paths": ["/x"], "action": "deny"},
                           args=["--debug"])
        with proxy.client() as client:
            client.get(f"{self.at}/a", method="PUT", fields="Content-Length: 0\r\n")
            client.get(f"{self.at}/a%2f?secret")
            client.get(f"{self.at}/a")
        put, ambiguous, ok = proxy.records(3)
        self.assertEqual([put.get(k) for k in ("verdict", "rule", "entry", "reason", "status",
                                               "method", "host", "close")],
                         ["deny", "network.rules[1]", "ok.test", "read only", 403, "PUT",
                          "ok.test", "policy"])
        self.assertEqual([ambiguous.get(k) for k in ("verdict", "rule", "reason", "status",
                                                     "close")],
                         ["deny", "network.rules[2]", "ambiguous request-target", 400,
                          "ambiguous-target"])
        self.assertEqual((ok["verdict"], ok["rule"]), ("allow", "network.allowedDomains[0]"))
        stderr = proxy.stderr()
        self.assertIn(f"deny http-request PUT {self.at}/a (read only)", stderr)
        self.assertIn(f"deny http-request GET {self.at}/a%2f?… (ambiguous request-target)", stderr)
        self.assertNotIn("secret", stderr)


class Settings(RuleCase):
    def check(self, rules, **network):
        path = self.directory / "settings.json"
        path.write_text(json.dumps({
            "network": {"allowedDomains": ["ok.test"], "deniedDomains": [], "rules": rules,
                        **network}, "proxy": {}}))
        return run_srt("check", "--settings", path)

    @quick
    def test_check(self):
        status, out, err = self.check([{"host": "ok.test:80", "action": "deny"}])
        self.assertEqual(status, 0, out + err)
        status, out, err = self.check([{"host": "ok.test:443", "action": "deny"}])
        self.assertNotEqual(status, 0)
        self.assertIn("network.rules.0.host: A rule for port 443", out + err)


class Git(Case):
    """The worked example: fetching from a git host, but not pushing to it."""

    RULES = [{"host": "ok.test", "methods": ["GET"],
              "paths": ["/**/info/refs?service=git-upload-pack"], "action": "allow"},
             {"host": "ok.test", "methods": ["POST"], "paths": ["/**/git-upload-pack"],
              "action": "allow"},
             {"host": "ok.test", "action": "deny", "reason": "this host is read only"}]

    def backend(self, request):
        """git's own CGI program."""
        path, _, query = request.target.partition("?")
        environment = {
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(self.directory),
            "GIT_HTTP_EXPORT_ALL": "1", "REQUEST_METHOD": request.method, "PATH_INFO": path,
            "QUERY_STRING": query, "CONTENT_TYPE": request.get("Content-Type") or "",
            "CONTENT_LENGTH": str(len(request.body)), "REMOTE_USER": "someone",
            "HTTP_CONTENT_ENCODING": request.get("Content-Encoding") or "",
            "GIT_PROTOCOL": request.get("Git-Protocol") or "",
        }
        done = subprocess.run([f"{self.programs}/git-http-backend"], input=request.body,
                              stdout=subprocess.PIPE, env=environment, check=True)
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        fields = {k.lower(): v for k, v in (line.split(": ", 1)
                                            for line in head.decode().split("\r\n"))}
        status = fields.pop("status", "200 OK")
        return answer(body, status, "".join(f"{k}: {v}\r\n" for k, v in fields.items()))

    def git(self, *args, proxy=None, check=True):
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.directory),
                       "GIT_AUTHOR_NAME": "n", "GIT_AUTHOR_EMAIL": "e", "GIT_COMMITTER_NAME": "n",
                       "GIT_COMMITTER_EMAIL": "e", "GIT_TERMINAL_PROMPT": "0"}
        if proxy is not None:
            environment["http_proxy"] = proxy.url
        done = subprocess.run([self.tool("git"), *map(str, args)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, env=environment,
                              cwd=self.directory)
        if check and done.returncode != 0:
            raise AssertionError(done.stdout)
        return done

    def test_fetch_but_no_push(self):
        self.programs = self.git("--exec-path").stdout.strip()
        self.git("init", "-q", "--bare", "group/repository.git")
        self.git("-C", "group/repository.git", "config", "http.receivepack", "true")
        self.git("init", "-q", "first")
        self.git("-C", "first", "commit", "-q", "--allow-empty", "-m", "one")
        self.git("-C", "first", "push", "-q", self.directory / "group/repository.git", "HEAD:main")
        upstream = self.http(self.backend)
        url = f"http://ok.test:{upstream.port}/group/repository.git"
        ruled = self.proxy(upstream, rules=self.RULES)
        free = self.proxy(upstream)

        self.git("clone", "-q", "-b", "main", url, "clone", proxy=ruled)
        self.git("-C", "clone", "commit", "-q", "--allow-empty", "-m", "two")
        self.git("-C", "clone", "fetch", "-q", proxy=ruled)
        for dialect in ("protocol.version=0", "protocol.version=2"):
            done = self.git("-C", "clone", "-c", dialect, "push", "-q", "origin", "HEAD:main",
                            proxy=ruled, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("403", done.stdout)
        log = self.git("-C", "group/repository.git", "log", "--format=%s", "main").stdout
        self.assertEqual(log, "one\n")
        # What the rules forbid is all that was in the way.
        self.git("-C", "clone", "push", "-q", "origin", "HEAD:main", proxy=free)
        log = self.git("-C", "group/repository.git", "log", "--format=%s", "main").stdout
        self.assertEqual(log, "two\none\n")
