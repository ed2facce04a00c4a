"""`srt check`: is a settings file valid, and what decides about a destination."""

import json
import re
import subprocess

from harness import SRT, Case, clean_environment, quick, run_srt, settings


@quick
class Check(Case):
    def file(self, document):
        path = self.directory / "s.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return path

    def check(self, document, *args, status=0):
        got, out, err = run_srt("check", "--settings", self.file(document), *args)
        self.assertEqual(got, status, (out, err))
        return out, err

    DOCUMENT = settings(["example.com", "*.example.org:443", "[2001:db8::1]"],
                        ["bad.example.org", "*:25"], {}, deniedDomainReasons={
                            "bad.example.org": "ask first"})

    def test_a_valid_file(self):
        self.assertEqual(self.check(self.DOCUMENT), ("ok\n", ""))

    def test_which_rule_decides(self):
        out, err = self.check(self.DOCUMENT, "EXAMPLE.com.:80", "a.example.org:443",
                              "bad.example.org:443", "mail.example.com:25", "a.example.org:80",
                              "[2001:DB8:0::1]:8080", "a..b:80")
        self.assertEqual(err, "")
        lines = [re.split(r" {2,}", line) for line in out.splitlines()]
        self.assertEqual(lines, [
            ["allow", "EXAMPLE.com.:80", 'network.allowedDomains[0] "example.com"'],
            ["allow", "a.example.org:443", 'network.allowedDomains[1] "*.example.org:443"'],
            ["deny", "bad.example.org:443", 'network.deniedDomains[0] "bad.example.org"', "ask first"],
            ["deny", "mail.example.com:25", 'network.deniedDomains[1] "*:25"',
             "host is on the deny list"],
            ["ask", "a.example.org:80", "no rule decides; denied where nobody can be asked"],
            ["allow", "[2001:DB8:0::1]:8080", 'network.allowedDomains[2] "[2001:db8::1]"'],
            ["deny", "a..b:80", "malformed host"]])

    def test_json_lines(self):
        questions = [{"host": "example.com", "port": 443, "addresses": ["127.0.0.1", "192.0.2.1"]},
                     {"host": "example.com", "port": 443, "addresses": ["::1", "10.0.0.1"],
                      "localAddresses": ["10.0.0.1"]},
                     {"host": "no.example", "port": 1}, {"host": 1, "port": 1}]
        path = self.directory / "q"
        path.write_text("".join(json.dumps(q) + "\n" for q in questions))
        out, _ = self.check(self.DOCUMENT, "--json", path)
        answers = [json.loads(line) for line in out.splitlines()]
        self.assertEqual(answers[0]["verdict"], "allow")
        self.assertEqual(answers[0]["kept"], ["192.0.2.1"])
        self.assertEqual(answers[1]["kept"], [])
        self.assertEqual(answers[1]["addressReason"],
                         "resolved to a loopback address / one of this host's addresses")
        self.assertIn(answers[2]["verdict"], ("ask", "deny"))
        self.assertIn("error", answers[3])
        done = subprocess.run([SRT, "check", "-s", self.file(self.DOCUMENT), "--json", "-"],
                              input=path.read_bytes(), stdout=subprocess.PIPE,
                              env=clean_environment(), check=True)
        self.assertEqual(done.stdout.decode(), out)

    def test_limits_and_timeouts(self):
        out, _ = self.check(settings(proxy={"timeouts": {"dialMs": 1234}}), "--show")
        self.assertRegex(out, r"(?m)^proxy\.timeouts\.dialMs +1234  default 30000, 10 to 600000: ")
        self.assertRegex(out, r"(?m)^proxy\.limits\.requestHeadBytes +65536 ")

    def test_what_is_wrong(self):
        out, err = self.check({"network": {"allowedDomains": ["*"]}}, status=1)
        self.assertEqual(out, "")
        self.assertIn(" does not hold a valid config \u2014 network.allowedDomains.0: Invalid", err)
        self.assertIn("network.deniedDomains: Required", err)
        self.check("{", status=1)

    def test_filesystem_rules_are_needed_by_a_sandbox_only(self):
        self.check({"network": {"allowedDomains": [], "deniedDomains": []}}, status=1)
        self.check({"network": {"allowedDomains": [], "deniedDomains": []}, "proxy": {}})
        self.check({"network": {"allowedDomains": [], "deniedDomains": []},
                    "filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}})

    def test_what_a_gateway_would_stumble_over(self):
        secret = self.directory / "secret"
        secret.write_text("x")
        secret.chmod(0o644)
        for proxy, network, text in (
                ({"listen": ["0.0.0.0:1"]}, {}, "0.0.0.0:1 is not a loopback address"),
                ({"auth": {"tokenFile": str(self.directory / "none")}}, {}, "none"),
                ({"auth": {"tokenFile": str(secret)}}, {}, "secret"),
                ({}, {"tlsTerminate": {}}, "Error: network.tlsTerminate")):
            with self.subTest(text):
                out, err = self.check(settings(["ok.test"], proxy=proxy, **network), status=1)
                self.assertEqual(out, "")
                self.assertIn(text, err)
        self.check(settings(["ok.test"], proxy={"listen": ["0.0.0.0:1"], "listenAnyInterface": True}))

    def test_warnings(self):
        _, err = self.check(settings(["a..example"], [], {}))
        self.assertEqual(err, 'srt: warning: network.allowedDomains.0: entry "a..example" can match '
                              "no host\n")

    def test_what_a_decider_adds(self):
        for decider, line, undecided in (
                ({"exec": "./d 'a b'"},
                 "exec ./d 'a b', protocol 2, asked about what its hello asks for, "
                 "5000 ms for each verdict",
                 "no rule here decides; the decider would be asked, unless its own lists decide"),
                ({"unix": "/run/d.sock", "level": "both", "timeoutMs": 100},
                 "unix /run/d.sock, protocol 2, asked about connections and requests, "
                 "100 ms for each verdict",
                 "no rule here decides; the decider would be asked, unless its own lists decide"),
                ({"level": "request"},
                 "from the command line, protocol 2, asked about requests, "
                 "5000 ms for each verdict",
                 "no rule here decides; denied unless the decider's own lists allow it"),
                ({"exec": "d\t\u202e", "proto": 1},
                 "exec d\\x09\\xe2\\x80\\xae, protocol 1, asked about requests, "
                 "5000 ms for each verdict; it decides everything, and every tunnel is opened",
                 "no rule here decides; denied unless the decider's own lists allow it")):
            with self.subTest(decider):
                document = settings(["ok.test"], proxy={}, refuseOpaqueTunnels=True)
                document["decider"] = decider
                self.assertEqual(self.check(document), (f"decider: {line}\nok\n", ""))
                out, _ = self.check(document, "ok.test:443", "no.test:443")
                self.assertEqual([re.split(r" {2,}", line)[-1] for line in out.splitlines()],
                                 ['network.allowedDomains[0] "ok.test"', undecided])
        _, err = self.check({**settings(["ok.test"], proxy={}), "decider": {"exec": "'"}}, status=1)
        self.assertIn("decider.exec: Invalid command line", err)

    def test_usage(self):
        for args in (["--nonsense"], ["nonsense"], ["example.com"], ["example.com:0"],
                     ["example.com:65536"], ["::1:80"], ["--json"]):
            with self.subTest(args):
                _, err = self.check(self.DOCUMENT, *args, status=2)
                self.assertTrue(err.startswith("srt check: "), err)
        got, out, _ = run_srt("check", "--help")
        self.assertEqual(got, 0)
        self.assertIn("usage: srt check", out)

    def test_the_program_itself(self):
        status, _, err = run_srt()
        self.assertEqual(status, 1)
        self.assertIn("No command specified", err)
        self.assertRegex(run_srt("--version")[1], r"^\d+\.\d+\.\d+\n$")
        self.assertIn("srt proxy", run_srt("--help")[1])
