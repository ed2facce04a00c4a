"""TLS that is looked into, from the box: what clients trust, what is hidden, what is left."""

import re
import shutil
import signal
import time

from harness import (EPHEMERAL, PATH, ROOT, VARIABLES, GitServer, TlsBoxCase, pem_blocks, quick)

NODE = """
const tls = require('tls'), http = require('http'), proxy = new URL(process.env.HTTPS_PROXY);
const [host, port] = process.argv[2].split(':');
const login = Buffer.from(decodeURIComponent(proxy.username) + ':' + proxy.password).toString('base64');
http.request({host: proxy.hostname, port: proxy.port, method: 'CONNECT', path: process.argv[2],
              headers: {Host: process.argv[2], 'Proxy-Authorization': 'Basic ' + login}})
  .on('connect', (response, socket) => {
    const s = tls.connect({socket, servername: host}, () =>
      s.write(`GET / HTTP/1.1\\r\\nHost: ${process.argv[2]}\\r\\nConnection: close\\r\\n\\r\\n`));
    s.on('data', data => process.stdout.write(data.toString().split('\\r\\n\\r\\n')[1] ?? ''));
  }).end();
"""

JAVA = """
import java.net.*;
import java.net.http.*;
import java.security.cert.X509Certificate;
import javax.net.ssl.HttpsURLConnection;

public class Fetch {
    public static void main(String[] urls) throws Exception {
        for (String url : urls) {
            HttpsURLConnection old = (HttpsURLConnection) new URL(url).openConnection();
            int status = old.getResponseCode();
            X509Certificate leaf = (X509Certificate) old.getServerCertificates()[0];
            HttpResponse<String> response = HttpClient.newHttpClient().send(
                HttpRequest.newBuilder(URI.create(url)).build(), HttpResponse.BodyHandlers.ofString());
            System.out.println(status + " " + response.statusCode() + " " + leaf.getIssuerX500Principal());
        }
    }
}
"""


class Clients(TlsBoxCase):
    """Programs trust what they are shown, by themselves."""

    @quick
    def test_curl_and_python(self):
        site = self.site()
        document = self.terminating(site)
        url = self.url(site)
        for command in (f"curl -sS {url}",
                        self.python("import urllib.request as u;"
                                    f"print(u.urlopen('{url}').read().decode(), end='')")):
            with self.subTest(command):
                self.assertEqual(self.succeeds(command, document), "hello\n")
        self.assertEqual(self.succeeds(self.issuer(url), document), f"{EPHEMERAL}\n")
        self.assertEqual({r.get("Host") for r in site.requests}, {f"ok.test:{site.port}"})

    def test_wget(self):
        """No variable tells it whom to trust."""
        site = self.site()
        self.assertEqual(self.succeeds(f"wget -q --ca-certificate=$SSL_CERT_FILE -O - {self.url(site)}", self.terminating(site)), "hello\n")

    def test_openssl_strictly(self):
        site = self.site()
        target = f"ok.test:{site.port}"
        out = self.succeeds(
            "user=${HTTPS_PROXY#*//}; user=${user%%:*}; user=${user//%3D/=}; user=${user//%2B/+};"
            "pass=${HTTPS_PROXY%@*}; pass=${pass##*:};"
            f"printf 'GET / HTTP/1.0\\r\\nHost: {target}\\r\\n\\r\\n' | openssl s_client -quiet -ign_eof"
            " -proxy localhost:3128 -proxy_user \"$user\" -proxy_pass \"pass:$pass\""
            f" -connect {target} -servername ok.test -verify_hostname ok.test -verify_return_error"
            " -x509_strict -CAfile $SSL_CERT_FILE 2>&1", self.terminating(site))
        self.assertIn("200 OK", out)
        self.assertTrue(out.endswith("hello\n"), out)

    def test_node(self):
        if shutil.which("node", path=PATH) is None:
            self.skipTest("no node")
        site = self.site()
        self.file("get.js", NODE)
        self.assertEqual(self.succeeds(f"node get.js ok.test:{site.port}", self.terminating(site)), "hello\n")

    def test_java(self):
        if shutil.which("javac", path=PATH) is None:
            self.skipTest("no JDK")
        site, real = self.site(), self.site("two.test")
        self.file("Fetch.java", JAVA)
        out = self.succeeds(f"java Fetch.java {self.url(site)} {self.url(real, 'two.test')}",
                            self.terminating(site, real, tls={"excludeDomains": ["two.test"]}),
                            env={"JAVA_TOOL_OPTIONS": "-Djavax.net.ssl.trustStore=/nonexistent"})
        terminated, excluded = out.splitlines()
        self.assertTrue(terminated.startswith("200 200 ") and EPHEMERAL in terminated, out)
        self.assertTrue(excluded.startswith("200 200 ") and ROOT in excluded, out)
        listed = self.succeeds("keytool -list -storepass changeit -keystore ${SSL_CERT_FILE%/*}/trust-store.p12;"
                               "grep -c BEGIN $SSL_CERT_FILE", self.terminating(site))
        self.assertEqual(listed.count("trustedCertEntry"), 2)
        self.assertTrue(listed.endswith("\n2\n"), listed)

    def test_git(self):
        """A clone and a push; with rules, nobody pushes, and is told why."""
        repositories = self.folder("repositories")
        done = self.host(f"git init -q --bare {repositories}/r.git && git init -q a && cd a && "
                         "git -c user.name=n -c user.email=e commit -q --allow-empty -m one && "
                         f"git push -q {repositories}/r.git HEAD:refs/heads/main && cd .. && rm -rf a")
        self.assertEqual(done.status, 0, done)
        site = self.site(respond=GitServer(repositories).respond)
        url = self.url(site, path="/r.git")
        push = ("git -c user.name=n -c user.email=e commit -q --allow-empty -m more && "
                "git push -q origin HEAD:refs/heads/")
        self.succeeds(f"git clone -q -b main {url} one && cd one && {push}first", self.terminating(site))
        host = f"ok.test:{site.port}"
        rules = [{"host": host, "methods": ["GET"],
                  "paths": ["/**/info/refs?service=git-upload-pack"], "action": "allow"},
                 {"host": host, "methods": ["POST"], "paths": ["/**/git-upload-pack"], "action": "allow"},
                 {"host": host, "action": "deny", "reason": "this host is read only"}]
        document = self.terminating(site, network={"rules": rules})
        done = self.box(f"git clone -q -b main {url} two && cd two && git log --oneline | wc -l && {push}second",
                        document)
        self.assertEqual((done.status, done.out), (128, "1\n"), done)
        self.assertIn("403", done.err)
        refused = self.succeeds(f"curl -s -w '%{{http_code}} ' '{url}/info/refs?service=git-receive-pack'",
                                document)
        self.assertIn("this host is read only", refused)
        self.assertTrue(refused.endswith("403 "), refused)
        self.assertEqual(self.host(f"git --git-dir {repositories}/r.git branch").out.split(), ["first", "main"])


class Trust(TlsBoxCase):
    """What the command is given to trust, and the keys it is not given."""

    def test_variables(self):
        out = self.succeeds("env", self.terminating())
        values = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
        path = values["SSL_CERT_FILE"]
        self.assertRegex(path, f"^{self.temporary}/srt-ca-[A-Za-z0-9]{{6}}/trust-bundle.crt$")
        for name in VARIABLES:
            self.assertEqual(values.get(name), path, name)
        self.assertEqual(values["SSL_CERT_DIR"], str(self.trust["SSL_CERT_DIR"]))
        out = self.succeeds("env")
        self.assertEqual([name for name in VARIABLES if f"\n{name}=" in f"\n{out}"], ["SSL_CERT_FILE"])
        self.assertNotIn("trustStore", out)

    def test_variables_beat_credentials(self):
        document = self.terminating(credentials={"envVars": [{"name": "PIP_CERT", "mode": "deny"}]})
        self.assertIn("trust-bundle.crt", self.succeeds("echo $PIP_CERT", document))

    @quick
    def test_the_bundle(self):
        """The CA, the host's roots, what Node was told, and extras: certificates, each once."""
        node, extra = self.authority("Node"), self.authority("Extra")
        roots = self.file(self.directory / "roots.pem", self.ca.cert.read_text() * 2)
        both = self.file(self.directory / "both.pem", "words\n" + extra.key.read_text() + extra.cert.read_text()
                         + self.ca.cert.read_text())
        nothing = self.file(self.directory / "nothing.pem", extra.key.read_text())
        document = self.terminating(tls={"extraCaCertPaths": ["/nonexistent", str(nothing), str(both)]})
        out = self.succeeds(f"cat $SSL_CERT_FILE; echo ====; cat {self.temporary}/srt-ca-*/ca.crt", document,
                            env={"SSL_CERT_FILE": roots, "NODE_EXTRA_CA_CERTS": node.cert})
        bundle, _, own = out.partition("====\n")
        self.assertTrue(bundle.endswith("-----END CERTIFICATE-----\n"))
        self.assertNotIn("\n\n", bundle)
        blocks = pem_blocks(bundle)
        self.assertEqual({label for label, _ in blocks}, {"CERTIFICATE"})
        wanted = [pem_blocks(text)[0][1] for text in (own, *(c.cert.read_text() for c in (self.ca, node, extra)))]
        self.assertEqual([der for _, der in blocks], wanted)
        subject = self.openssl("x509", "-noout", "-subject", "-nameopt", "RFC2253", stdin=own.encode())
        self.assertIn(EPHEMERAL.encode(), subject)

    def test_modes_and_readability(self):
        """Under whatever is denied, the files of ours are read and no others."""
        secret = self.file(self.temporary / "secret", "secret")
        document = self.terminating(deny_read=[str(self.temporary)],
                                    credentials={"files": [{"path": str(self.temporary), "mode": "deny"}]})
        out = self.succeeds(f"stat -c %a $SSL_CERT_FILE ${{SSL_CERT_FILE%/*}}/trust-store.p12; "
                            f"cat {self.temporary}/srt-ca-*/ca.crt | grep -c BEGIN; "
                            f"cat {secret} 2>&1 | grep -c secret$; "
                            "{ echo x >>$SSL_CERT_FILE; } 2>&1; grep -c BEGIN $SSL_CERT_FILE", document)
        self.assertTrue(out.startswith("644\n644\n1\n0\n"), out)
        self.assertIn("Read-only file system", out)
        self.assertTrue(out.endswith("\n2\n"), out)

    SEARCH = """
import base64, os, re, sys
modulus = bytes.fromhex(sys.argv[2])
mark = b"\\x02\\x01\\x00\\x02\\x82\\x01\\x01\\x00" + modulus
open("/dev/shm/control", "wb").write(b"x" + mark)
def decoded(body):
    body = re.sub(b"[^A-Za-z0-9+/]", b"", body)
    return base64.b64decode(body[:len(body) // 4 * 4])
def is_key(data):
    return mark in data or any(
        modulus in decoded(body)
        for body in re.findall(b"-----BEGIN[A-Z ]* PRIVATE KEY-----([A-Za-z0-9+/= \\r\\n]*)", data))
def look(path):
    global seen
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            data = file.read(1 << 20)
    except OSError:
        return
    seen += 1
    if is_key(data):
        print("key in", path)
seen = 0
for top in (sys.argv[1], "/tmp", "/dev/shm", "/run", "/proc"):
    for parent, folders, files in os.walk(top):
        if parent == "/proc":
            folders.remove("sys")
        for file in files:
            if file not in ("kmsg", "kcore", "pagemap"):
                look(os.path.join(parent, file))
print("looked" if seen > 10 else "saw nothing")
"""

    def test_the_key_of_a_run_is_nowhere(self):
        """Neither in a file nor in what /proc shows."""
        self.file("search.py", self.SEARCH)
        site = self.site()
        out = self.succeeds(
            f"curl -s {self.url(site)}; M=$(openssl x509 -modulus -noout -in {self.temporary}/srt-ca-*/ca.crt);"
            f"/usr/bin/python3 search.py {self.temporary} ${{M#*=}};"
            f"for f in $(find {self.temporary} -type f); do echo ${{f##*/}}; grep -c 'PRIVATE KEY' $f; done; true",
            self.terminating(site), seconds=60)
        self.assertTrue(out.startswith("hello\nkey in /dev/shm/control\nlooked\n"), out)
        files = out.splitlines()[3:]
        self.assertEqual(sorted(files[::2]), [".srt", ".srt", "ca.crt", "trust-bundle.crt", "trust-store.p12"])
        self.assertEqual(set(files[1::2]), {"0"})

    def test_a_given_key_is_hidden(self):
        """By its name, by the name that it was given by, and by those of links; certificates are not."""
        cert, key = self.pair("ec", "-pkeyopt", "ec_paramgen_curve:P-256", name="work/given")
        link = self.directory / "link.key"
        link.symlink_to(key)
        site = self.site()
        (self.work / "relative.key").symlink_to("given/ca.key")
        for given in (str(key), str(link), "given/ca.key", "./relative.key"):
            with self.subTest(given):
                document = self.terminating(site, tls={"caCertPath": str(cert), "caKeyPath": given},
                                            allow_read=[str(key)])
                out = self.succeeds(f"cat {key} {link} given/ca.key relative.key given/../given/ca.key; "
                                    f"grep -c BEGIN {cert}; {self.issuer(self.url(site))}; mv given/ca.key x; cat x;"
                                    "mv given taken; cat taken/ca.key; true", document)
                self.assertNotIn("PRIVATE", out)
                self.assertEqual(out, "1\nGiven\n")
                self.assertIn("PRIVATE KEY", key.read_text())

    def test_a_file_with_certificate_and_key_is_hidden(self):
        cert, key = self.pair("ec", "-pkeyopt", "ec_paramgen_curve:P-256")
        both = self.file("both.pem", key.read_text() + cert.read_text(), mode=0o600)
        only = self.file("key.pem", key.read_text(), mode=0o600)
        turned = self.file("turned.pem", cert.read_text() + key.read_text(), mode=0o600)
        for paths in ((turned, only), (turned, both)):
            document = self.terminating(tls={"caCertPath": str(paths[0]), "caKeyPath": str(paths[1])})
            out = self.succeeds(f"cat {paths[0]} {paths[1]}; grep -c BEGIN $SSL_CERT_FILE", document)
            self.assertEqual(out, "2\n")

    def test_the_certificate_stays_readable(self):
        cert, key = self.pair("ec", "-pkeyopt", "ec_paramgen_curve:P-256")
        document = self.terminating(tls={"caCertPath": str(cert), "caKeyPath": str(key)},
                                    deny_read=[str(cert.parent), str(cert)])
        self.assertEqual(self.succeeds(f"grep -c BEGIN {cert}; cat {key} || echo hidden", document), "1\nhidden\n")

    def test_without_file_rules_the_key_is_warned_of(self):
        cert, key = self.pair("ec", "-pkeyopt", "ec_paramgen_curve:P-256")
        done = self.box("true", self.terminating(tls={"caCertPath": str(cert), "caKeyPath": str(key)},
                                                 filesystem={"disabled": True}))
        self.assertIn(f"the command may read {key}", done.err)


class TrustByBubblewrap(Trust):
    mounts = "bwrap"


class Authorities(TlsBoxCase):
    """CAs that are given."""

    def test_kinds_of_keys(self):
        site = self.site()
        for name, algorithm in (("rsa", ("rsa:2048",)),
                                ("small", ("rsa:1024",)),
                                ("p256", ("ec", "-pkeyopt", "ec_paramgen_curve:P-256")),
                                ("p384", ("ec", "-pkeyopt", "ec_paramgen_curve:P-384")),
                                ("ed25519", ("ed25519",))):
            with self.subTest(name):
                cert, key = self.pair(*algorithm, subject=f"/CN=Given {name}", name=name)
                document = self.terminating(site, tls={"caCertPath": str(cert), "caKeyPath": str(key)})
                options = "--ciphers DEFAULT@SECLEVEL=1" if name == "small" else ""
                self.assertEqual(self.succeeds(f"curl -sS {options} {self.url(site)}; "
                                               f"{self.issuer(self.url(site), options)}", document),
                                 f"hello\nGiven {name}\n")

    def test_what_srt_made(self):
        """srt ca create, its pair used, and what srt ca show says of it."""
        out = self.directory / "made"
        self.own(self.directory)
        made = self.start("ca", "create", "--out", out, "--name", "Made here").wait()
        self.assertEqual(made.status, 0, made)
        self.assertEqual((out / "ca.key").stat().st_mode & 0o777, 0o600)
        shown = self.start("ca", "show", out / "ca.crt").wait()
        self.assertIn("Made here", shown.out)
        self.assertNotIn("warning", shown.out)
        again = self.start("ca", "create", "--out", out).wait()
        self.assertEqual(again.status, 1)
        site = self.site()
        document = self.terminating(site, tls={"caCertPath": str(out / "ca.crt"), "caKeyPath": str(out / "ca.key")})
        self.assertEqual(self.succeeds(self.issuer(self.url(site)), document), "Made here\n")

    def test_warnings(self):
        """A CA that has expired, or that is none, is used all the same."""
        cert, key = self.pair("ec", "-pkeyopt", "ec_paramgen_curve:P-256", name="ended")
        for name, said in (("ended", "expired"), ("none", "CA")):
            with self.subTest(name):
                if name == "ended":
                    self.dated(cert, key, "20200102030405Z", "20210102030405Z")
                else:
                    self.openssl("req", "-x509", "-key", key, "-subj", "/CN=Given", "-out", cert, "-days", "9",
                                 "-addext", "basicConstraints=critical,CA:FALSE")
                done = self.box("echo ran", self.terminating(tls={"caCertPath": str(cert), "caKeyPath": str(key)}))
                self.assertEqual((done.status, done.out), (0, "ran\n"), done)
                self.assertIn("warning", done.err)
                self.assertIn(said, done.err)

    def dated(self, cert, key, start, end):
        """A certificate for the key that is valid between these."""
        work, request = self.folder("register"), self.directory / "request"
        self.openssl("req", "-new", "-key", key, "-subj", "/CN=Given", "-out", request)
        config = self.file(work / "config",
                           f"[ca]\ndefault_ca=it\n[it]\nnew_certs_dir={work}\nserial={work}/serial\n"
                           f"database={work}/database\ndefault_md=sha256\npolicy=any\nx509_extensions=ext\n"
                           "[any]\ncommonName=supplied\n[ext]\nbasicConstraints=critical,CA:TRUE\n")
        self.file(work / "database")
        self.openssl("ca", "-batch", "-selfsign", "-config", config, "-create_serial", "-keyfile", key,
                     "-in", request, "-out", cert, "-notext", "-startdate", start, "-enddate", end)

    def refused(self, cert, key, message):
        done = self.box("echo ran", self.terminating(tls={"caCertPath": str(cert), "caKeyPath": str(key)}))
        self.assertEqual((done.status, done.out), (1, ""), done)
        self.assertEqual(done.err.splitlines()[-1], f"Error: {message}")
        self.assertEqual(self.left(), [])

    @quick
    def test_those_that_are_refused(self):
        cert, key = self.pair("ec", "-pkeyopt", "ec_paramgen_curve:P-256")
        _, other = self.pair("ec", "-pkeyopt", "ec_paramgen_curve:P-256", name="other")
        empty = self.file("empty")
        closed = self.file("closed", cert.read_text(), mode=0)
        der = self.work / "der"
        self.openssl("x509", "-in", cert, "-outform", "DER", "-out", der)
        at = "tlsTerminate.caCertPath:"
        self.refused("/nonexistent", key, f"{at} cannot read /nonexistent (ENOENT)")
        self.refused(self.work, key, f"{at} cannot read {self.work} (EISDIR)")
        self.refused(closed, key, f"{at} cannot read {closed} (EACCES)")
        for file in (empty, der, key):
            self.refused(file, key, f"{at} {file} is not a PEM CERTIFICATE")
        at = "tlsTerminate.caKeyPath:"
        self.refused(cert, "/nonexistent", f"{at} cannot read /nonexistent (ENOENT)")
        self.refused(cert, self.work, f"{at} cannot read {self.work} (EISDIR)")
        for file in (empty, der, cert):
            self.refused(cert, file, f"{at} {file} is not a PEM PRIVATE KEY")
        self.refused(cert, other, f"tlsTerminate: CA at {cert}: key does not match certificate public key")

    def test_those_that_do_not_parse(self):
        cert, key = self.pair("ec", "-pkeyopt", "ec_paramgen_curve:P-256")
        locked = self.file("locked")
        self.openssl("pkcs8", "-topk8", "-in", key, "-out", locked, "-passout", "pass:word")
        wrong = self.file("wrong", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        for a, b in ((cert, locked), (wrong, key)):
            done = self.box("echo ran", self.terminating(tls={"caCertPath": str(a), "caKeyPath": str(b)}))
            self.assertEqual((done.status, done.out), (1, ""), done)
            self.assertIn(f"Error: tlsTerminate: CA at {a}: parse: ", done.err)

    def test_one_that_is_not_valid_yet(self):
        cert, key = self.pair("ec", "-pkeyopt", "ec_paramgen_curve:P-256")
        self.dated(cert, key, "20990102030405Z", "21000102030405Z")
        self.refused(cert, key, f"tlsTerminate: CA at {cert}: notBefore 2099-01-02T03:04:05.000Z"
                                " is in the future (clock skew?)")

    @quick
    def test_settings_that_are_refused(self):
        cert, key = self.pair("ec", "-pkeyopt", "ec_paramgen_curve:P-256")
        for tls, message in (
                ({"caCertPath": str(cert)}, "caCertPath and caKeyPath must be provided together"),
                ({"caKeyPath": str(key)}, "caCertPath and caKeyPath must be provided together"),
                ({"maxTunnels": 0}, "maxTunnels"), ({"handshakeTimeoutMs": 99}, "handshakeTimeoutMs"),
                ({"excludeDomains": ["ok.test:443"]}, "excludeDomains")):
            with self.subTest(tls):
                done = self.box("echo ran", self.terminating(tls=tls))
                self.assertEqual((done.status, done.out), (1, ""), done)
                self.assertIn("network.tlsTerminate", done.err)
                self.assertIn(message, done.err)
        done = self.box("echo ran", self.terminating(network={
            "mitmProxy": {"socketPath": "/run/m", "domains": ["ok.test"]}}))
        self.assertEqual((done.status, done.out), (1, ""), done)
        self.assertEqual(done.err, "Error: network.tlsTerminate and network.mitmProxy are mutually exclusive\n")


class Remains(TlsBoxCase):
    """Nothing is left in the temp directory, however a run ends."""

    @quick
    def test_runs_that_end(self):
        for command, status in (("true", 0), ("exit 3", 3), ("kill -9 $$", 137)):
            self.assertEqual(self.box(command, self.terminating()).status, status)
            self.assertEqual(self.left(), [])

    def test_runs_that_do_not_start(self):
        self.assertEqual(self.box("", self.terminating()).status, 1)
        self.assertEqual(self.left(), [])
        self.assertEqual(self.box("true", self.terminating(), ("--violations", "/nonexistent/x")).status, 1)
        self.assertEqual(self.left(), [])
        self.assertEqual(self.box("true", self.terminating(), env={"PATH": "/nonexistent"}).status, 1)
        self.assertEqual(self.left(), [])
        self.assertEqual(self.box("true", self.terminating(), ("--print-plan",)).status, 0)
        self.assertEqual(self.left(), [])

    def test_a_temp_directory_that_cannot_be_used(self):
        done = self.box("echo ran", self.terminating(), env={"TMPDIR": "/nonexistent/temp"})
        self.assertEqual((done.status, done.out), (1, ""), done)
        self.assertIn("Error: tlsTerminate: no directory can be made in /nonexistent/temp", done.err)

    def test_signals(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            with self.subTest(number):
                running = self.start_box("echo here; sleep 60", self.terminating()).says("here")
                self.assertEqual(len(self.left()), 7)
                running.signal(number)
                running.wait()
                self.assertEqual(self.left(), [])

    def test_signals_at_any_time(self):
        for i in range(30):
            running = self.start_box("sleep 60", self.terminating())
            time.sleep(i / 100)
            running.signal(signal.SIGTERM)
            running.wait()
            self.assertEqual(self.left(), [])

    def test_the_next_run_clears_up_after_one_that_was_killed(self):
        alive = self.start_box("echo here; sleep 60", self.terminating()).says("here")
        mine = self.left()
        killed = self.start_box("echo here; sleep 60", self.terminating()).says("here")
        killed.signal(signal.SIGKILL)
        killed.wait()
        self.assertEqual(len(self.left()), 14)
        self.succeeds("true", self.terminating())
        self.assertEqual(self.left(), mine)
        self.assertIsNone(alive.process.poll())
