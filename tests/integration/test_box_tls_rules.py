"""TLS that is looked into, from the box: what is terminated, what is refused inside, what is told."""

import json
import os
import re
import time

from harness import EPHEMERAL, ROOT, Sshd, TlsBoxCase, answer, quick

SETTLED = 0.5  # seconds in which a line of the control descriptor is in force


class WhatIsTerminated(TlsBoxCase):
    @quick
    def test_excluded_hosts_show_their_own_certificate(self):
        hosts = ("ok.test", "a.wild.test")
        site = self.site(*hosts)
        for tls, wanted in (({}, (EPHEMERAL, EPHEMERAL)),
                            ({"excludeDomains": ["ok.test"]}, (ROOT, EPHEMERAL)),
                            ({"excludeDomains": ["*.wild.test", "ok.test"]}, (ROOT, ROOT)),
                            ({"onlyHosts": ["ok.test"]}, (EPHEMERAL, ROOT)),
                            ({"onlyHosts": ["ok.test", "*.wild.test"], "excludeDomains": ["a.wild.test"]},
                             (EPHEMERAL, ROOT)),
                            ({"onlyHosts": []}, (ROOT, ROOT))):
            with self.subTest(tls):
                out = self.succeeds("; ".join(self.issuer(self.url(site, host)) for host in hosts),
                                    self.terminating(site, tls=tls))
                self.assertEqual(tuple(out.splitlines()), wanted)

    def test_without_the_key_nothing_is(self):
        site = self.site()
        self.assertEqual(self.succeeds(self.issuer(self.url(site), f"--cacert {self.ca.cert}"), self.settings(site)),
                         f"{ROOT}\n")

    def test_socks_is_not(self):
        site = self.site()
        self.assertEqual(self.succeeds(self.issuer(self.url(site), "-x socks5h://localhost:1080"),
                                       self.terminating(site)), f"{ROOT}\n")

    def test_what_cannot_be_looked_into_is_refused_on_request(self):
        site = self.site("ok.test", "two.test")
        document = self.terminating(site, tls={"excludeDomains": ["two.test"]},
                                    network={"refuseOpaqueTunnels": True})
        command = "curl -s -o /dev/null -w '%{{http_code}} %{{http_connect}} %{{exitcode}}\n' {} {}; true"
        self.assertEqual(self.succeeds(command.format("", self.url(site)), document), "200 200 0\n")
        self.assertEqual(self.succeeds(command.format("", self.url(site, "two.test")), document), "000 403 56\n")
        self.assertEqual(self.succeeds(command.format("-x socks5h://localhost:1080", self.url(site)), document),
                         "000 000 97\n")

    def test_extra_roots_are_the_commands_alone(self):
        """A host whose CA only the box knows: reached where it is excluded, else srt refuses it."""
        other = self.authority("Another")
        site = self.site("ok.test", "two.test", ca=other)
        document = self.terminating(site, tls={"excludeDomains": ["two.test"],
                                               "extraCaCertPaths": [str(other.cert)]})
        self.assertEqual(self.succeeds(f"curl -sS {self.url(site, 'two.test')}", document), "hello\n")
        out = self.succeeds(f"curl -sSi {self.url(site)}", document, env={"NODE_TLS_REJECT_UNAUTHORIZED": "0"})
        self.assertIn("HTTP/1.1 502 ", out)
        self.assertRegex(out, "(?i)x-proxy-error: upstream-certificate")
        self.assertEqual(self.succeeds(f"curl -sS {self.url(site)}", document,
                                       env={"NODE_EXTRA_CA_CERTS": other.cert}), "hello\n")

    def test_ssh(self):
        """It goes through a host that would be terminated."""
        sshd = Sshd(self.directory / "sshd", self.tool)
        self.addCleanup(sshd.close)
        key = self.file(self.directory / "key", sshd.key.read_text(), mode=0o600)
        repository = self.folder("repository")
        done = self.host("git init -q . && git -c user.name=n -c user.email=e commit -q --allow-empty -m one",
                         cwd=repository)
        self.assertEqual(done.status, 0, done)
        options = "-F none -o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no -o BatchMode=yes"
        command = (f'GIT_SSH_COMMAND="$GIT_SSH_COMMAND {options} -i {key}" git ls-remote '
                   f"ssh://{sshd.user}@ok.test:{sshd.port}{repository}")
        # git serves what belongs to somebody else only when it is told to
        trusted = "--upload-pack='git -c safe.directory=* upload-pack'"
        done = self.box(command.replace("ls-remote", f"ls-remote {trusted}"), self.terminating(sshd))
        self.assertIn("\tHEAD\n", done.out, done)
        refusing = self.terminating(sshd, network={"refuseOpaqueTunnels": True})
        self.assertNotEqual(self.box(command, refusing).status, 0)

    @quick
    def test_a_change_while_the_command_runs(self):
        site = self.site()
        document = self.terminating(site)
        read, write = os.pipe()
        running = self.start_box(
            f"{self.issuer(self.url(site))}; until test -e go; do sleep 0.05; done;"
            f"{self.issuer(self.url(site))}; until test -e stop; do sleep 0.05; done; {self.issuer(self.url(site))}",
            document, ("--control-fd", str(read)), pass_fds=[read])
        os.close(read)
        running.says(f"{EPHEMERAL}\n")
        for tls, name in (({"excludeDomains": ["ok.test"]}, "go"), (None, "stop")):
            changed = self.terminating(site, tls=tls)
            if tls is None:
                del changed["network"]["tlsTerminate"]
            os.write(write, json.dumps(changed).encode() + b"\n")
            time.sleep(SETTLED)
            self.file(name)
            running.says(f"{ROOT}\n" if name == "go" else f"{EPHEMERAL}\n{ROOT}\n{EPHEMERAL}\n")
        os.close(write)
        self.assertEqual(running.wait().out.splitlines(), [EPHEMERAL, ROOT, EPHEMERAL])


class Requests(TlsBoxCase):
    """What is refused inside a tunnel, and what is told of it."""

    def rules(self, site, *rules, **kw):
        host = f"ok.test:{site.port}"
        return self.terminating(site, network={"rules": [{"host": host, **rule} for rule in rules]}, **kw)

    @quick
    def test_rules(self):
        site = self.site()
        document = self.rules(site, {"methods": ["GET", "HEAD"], "paths": ["/public/**"], "action": "allow"},
                              {"methods": ["DELETE"], "action": "deny", "reason": "nothing is deleted"},
                              {"paths": ["/private/**"], "action": "deny"})
        command = "curl -s --path-as-is -w '%{{http_code}}\n' {}"
        for options, path, status, text in (
                ("", "/public/a", 200, "hello"),
                ("", "/else", 200, "hello"),
                ("-X DELETE", "/public/a", 403, "nothing is deleted"),
                ("-X delete", "/public/a", 403, "nothing is deleted"),
                ("", "/private/a?b", 403, "network.rules"),
                ("", "/public/../private/a", 400, "network.ambiguousRequestTarget"),
                ("", "/%70rivate//a", 403, "network.rules"),
                ("", "/public%2f..%2fprivate", 400, "")):
            with self.subTest(path):
                out = self.succeeds(command.format(f"{options} '{self.url(site, path=path)}'"), document)
                self.assertTrue(out.endswith(f"{status}\n"), out)
                self.assertIn(text, out)
        self.assertEqual({r.target for r in site.requests}, {"/public/a", "/else"})
        self.assertNotIn("DELETE", {r.method.upper() for r in site.requests})

    def test_a_refusal_keeps_the_connection(self):
        site = self.site()
        document = self.rules(site, {"paths": ["/no"], "action": "deny", "reason": "not this"})
        out = self.succeeds(f"curl -sv {self.url(site, path='/no')} {self.url(site)} 2>&1", document)
        self.assertIn("not this", out)
        self.assertIn("hello", out)
        self.assertEqual(len(re.findall("^> CONNECT ok.test", out, re.M)), 1, out)

    @quick
    def test_violations(self):
        site = self.site()
        path = self.directory / "violations"
        self.own(self.directory)
        document = self.rules(site, {"methods": ["POST"], "paths": ["/a/**"], "action": "deny",
                                     "reason": "read only"})
        self.succeeds(f"curl -s -d x '{self.url(site, path='/a/b?c=d')}'; curl -s {self.url(site)}", document,
                      options=("--violations", path))
        records = [json.loads(line) for line in path.read_text().splitlines()]
        said = [r["line"] for r in records if r["kind"] == "network"]
        self.assertEqual(len(said), 1, said)
        self.assertEqual(said[0], f"deny http-request POST https://ok.test:{site.port}/a/b?… (read only)")

    def test_the_decision_log(self):
        site = self.site()
        path = self.directory / "log"
        self.own(self.directory)
        document = self.rules(site, {"paths": ["/no"], "action": "deny", "reason": "not this"})
        self.succeeds(f"curl -s {self.url(site, path='/no')} {self.url(site, path='/yes')}", document,
                      options=("--log", path))
        records = [json.loads(line) for line in path.read_text().splitlines()]
        self.assertEqual({r["host"] for r in records}, {"ok.test"})
        refused = [r for r in records if r["verdict"] == "deny"]
        self.assertEqual(len(refused), 1, records)
        self.assertEqual(refused[0]["rule"], "network.rules[0]")

    def test_host_match(self):
        site = self.site("ok.test", "two.test")
        plain = self.terminating(site)
        strict = self.terminating(site, network={"requireHostMatch": True})
        for options, status in (("", 200), ("-H 'Host: two.test'", 421), ("-H 'Host: OK.test:{}'", 200)):
            command = f"curl -s -o /dev/null -w '%{{http_code}}' {options.format(site.port)} {self.url(site)}"
            with self.subTest(options):
                self.assertEqual(self.succeeds(command, plain), "200")
                self.assertEqual(self.succeeds(command, strict), str(status))
        # whatever the client wrote, the request goes where the tunnel was allowed to
        self.assertEqual({r.get("Host") for r in site.requests}, {f"ok.test:{site.port}"})

    def test_the_number_of_tunnels(self):
        site = self.site()
        document = self.terminating(site, tls={"maxTunnels": 1})
        out = self.succeeds(self.python(f"""
import http.client, os, base64, re, ssl, time
user, password = re.search('//(.*?):(.*?)@', os.environ['HTTPS_PROXY']).groups()
import urllib.parse as u
login = base64.b64encode(f'{{u.unquote(user)}}:{{password}}'.encode()).decode()
def open_one():
    c = http.client.HTTPSConnection('localhost', 3128, context=ssl.create_default_context())
    c.set_tunnel('ok.test', {site.port}, {{'Proxy-Authorization': 'Basic ' + login}})
    return c
first = open_one()
first.request('GET', '/')
print(first.getresponse().read().decode(), end='')
try:
    open_one().request('GET', '/')
except OSError as error:
    print(error)
first.close()
for _ in range(100):
    try:
        again = open_one()
        again.request('GET', '/')
        print(again.getresponse().read().decode(), end='')
        break
    except OSError:
        time.sleep(0.05)
"""), document)
        lines = out.splitlines()
        self.assertEqual((lines[0], lines[-1]), ("hello", "hello"), out)
        self.assertIn("503", lines[1])

    def test_response_fields(self):
        site = self.site(respond=lambda request: answer(
            fields="X_Secret: 1\r\nX-Kept: 2\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n"))
        document = self.terminating(site, network={"stripResponseHeaders": ["x-secret"]})
        out = self.succeeds(f"curl -sSi {self.url(site)}", document)
        self.assertNotIn("X_Secret", out)
        self.assertIn("X-Kept: 2\n", out.replace("\r", ""))
        self.assertEqual(out.count("Set-Cookie: "), 2)


class RequestsByBubblewrap(Requests):
    mounts = "bwrap"
