"""Programs people use, through a gateway that opens their tunnels; each verifies what it is shown."""

import getpass
import hashlib
import os
import subprocess
import sys

import test_clients
from harness import Sshd, answer
from harness.tls import TlsCase, gateway_ca

JAVA = """
import java.io.*; import java.net.*;
public class Get { public static void main(String[] a) throws Exception {
  HttpURLConnection c = (HttpURLConnection) new URL(a[0]).openConnection();
  System.out.print(c.getResponseCode() + " " + c.getHeaderField("X-Proxy-Error") + " ");
  if (c.getResponseCode() == 200) c.getInputStream().transferTo(System.out); } }
"""

NODE = """
const [proxy, host, port, ca] = process.argv.slice(2), http = require('http'), https = require('https');
const tls = require('tls'), fs = require('fs');
http.request({host: '127.0.0.1', port: proxy, method: 'CONNECT', path: host + ':' + port})
  .on('connect', (res, socket) => {
    const agent = new https.Agent({keepAlive: true, maxSockets: 1});
    agent.createConnection = () => tls.connect({socket, servername: host, ca: fs.readFileSync(ca),
                                                ALPNProtocols: ['http/1.1']});
    const get = (path, then) => https.get({host, port, path, agent}, r => {
      let n = 0; r.on('data', d => n += d.length).on('end', () => then(r.statusCode, n)); });
    get('/', (a, m) => get('/big', (b, n) => { console.log(a, m, b, n); process.exit(); }));
  }).end();
"""

PYTHON = """
import http.client, ssl, sys
port, host, upstream, ca = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
context = ssl.create_default_context(cafile=ca)
context.verify_flags |= ssl.VERIFY_X509_STRICT
c = http.client.HTTPSConnection("127.0.0.1", port, context=context)
c.set_tunnel(host, upstream)
for path in ("/", "/big", "/"):
    c.request("GET", path)
    r = c.getresponse()
    print(r.status, len(r.read()))
"""


class Clients(test_clients.Real):
    def setUp(self):
        super().setUp()
        self.ca_cert, key = gateway_ca()
        self.gateway = self.proxy(
            *map(test_clients.Literal, self.nginx.literals),
            tlsTerminate={"caCertPath": str(self.ca_cert), "caKeyPath": str(key)},
            env={"SSL_CERT_FILE": str(self.ca.cert), "SSL_CERT_DIR": "/nonexistent"})

    def inside(self):
        """How many requests the gateway saw in the clear."""
        return sum(r["via"] == "https" for r in self.gateway.records(2))

    def test_curl(self):
        for options in ([], ["--http1.1"], ["--http2"], ["--tlsv1.3"], ["--tls-max", "1.2"],
                        ["--no-alpn"]):
            out = self.run_tool("curl", "-sS", *options, "--cacert", self.ca_cert, "-x",
                                self.gateway.url, self.secure + "/", self.secure + "/big").stdout
            self.assertEqual(out, b"hello from nginx\n" + self.big, options)
        self.assertEqual(self.inside(), 12)

    def test_curl_uploads(self):
        self.run_tool("curl", "-sSf", "--cacert", self.ca_cert, "-x", self.gateway.url, "-T", "-",
                      f"{self.secure}/put/up", stdin=self.big)
        done = self.run_tool("curl", "-sSfv", "--cacert", self.ca_cert, "-x", self.gateway.url,
                             "-H", "Expect: 100-continue", "--expect100-timeout", "60", "-T", "-",
                             f"{self.secure}/put/expected", stdin=self.big)
        self.assertIn(b"HTTP/1.1 100 Continue", done.stderr)
        for name in ("up", "expected"):
            stored = (self.nginx.directory / "put" / name).read_bytes()
            self.assertEqual(hashlib.sha256(stored).digest(), hashlib.sha256(self.big).digest())

    def test_curl_without_our_root(self):
        done = self.run_tool("curl", "-sS", "--cacert", self.ca.cert, "-x", self.gateway.url,
                             self.secure + "/", status=60)
        self.assertIn(b"certificate", done.stderr)

    def test_wget(self):
        out = self.run_tool("wget", "-qO-", f"--ca-certificate={self.ca_cert}", self.secure + "/",
                            self.secure + "/big", env=self.proxy_env()).stdout
        self.assertEqual(out, b"hello from nginx\n" + self.big)

    def test_python(self):
        out = self.run_tool(sys.executable, "-c", PYTHON, self.gateway.port, "ok.test",
                            self.nginx.tls_port, self.ca_cert).stdout
        self.assertEqual(out.decode().split("\n")[:3],
                         ["200 17", f"200 {len(self.big)}", "200 17"])

    def test_node(self):
        script = self.directory / "get.js"
        script.write_text(NODE)
        out = self.run_tool("node", script, self.gateway.port, "ok.test", self.nginx.tls_port,
                            self.ca_cert).stdout
        self.assertEqual(out.decode(), f"200 17 200 {len(self.big)}\n")

    def test_java(self):
        source, store = self.directory / "Get.java", self.directory / "trust.p12"
        source.write_text(JAVA)
        self.run_tool("keytool", "-importcert", "-noprompt", "-keystore", store, "-storetype",
                      "PKCS12", "-storepass", "changeit", "-alias", "srt", "-file", self.ca_cert)
        out = self.run_tool("java", f"-Djavax.net.ssl.trustStore={store}",
                            "-Djavax.net.ssl.trustStorePassword=changeit",
                            "-Dhttps.proxyHost=127.0.0.1", f"-Dhttps.proxyPort={self.gateway.port}",
                            source, self.secure + "/").stdout
        self.assertEqual(out, b"200 null hello from nginx\n")

    def test_openssl(self):
        done = self.run_tool(
            "openssl", "s_client", "-quiet", "-proxy", f"127.0.0.1:{self.gateway.port}", "-connect",
            f"ok.test:{self.nginx.tls_port}", "-servername", "ok.test", "-CAfile", self.ca_cert,
            "-x509_strict", "-verify_return_error", "-verify_hostname", "ok.test",
            stdin=b"GET / HTTP/1.1\r\nHost: ok.test\r\nConnection: close\r\n\r\n")
        self.assertTrue(done.stdout.endswith(b"hello from nginx\n"), done.stdout)


class Git(TlsCase):
    def backend(self, request):
        """git's own CGI program."""
        path, _, query = request.target.partition("?")
        environment = {
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(self.directory),
            "GIT_HTTP_EXPORT_ALL": "1", "REQUEST_METHOD": request.method, "PATH_INFO": path,
            "QUERY_STRING": query, "CONTENT_TYPE": request.get("Content-Type") or "",
            "CONTENT_LENGTH": str(len(request.body)), "REMOTE_USER": "someone",
            "HTTP_CONTENT_ENCODING": request.get("Content-Encoding") or "",
            "GIT_PROTOCOL": request.get("Git-Protocol") or ""}
        done = subprocess.run([f"{self.programs}/git-http-backend"], input=request.body,
                              stdout=subprocess.PIPE, env=environment, check=True)
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        status = fields.pop("Status", "200 OK")
        return answer(body, status, "".join(f"{k}: {v}\r\n" for k, v in fields.items()))

    def git(self, *args, proxy=None, check=True):
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.directory),
                       "GIT_AUTHOR_NAME": "n", "GIT_AUTHOR_EMAIL": "e", "GIT_COMMITTER_NAME": "n",
                       "GIT_COMMITTER_EMAIL": "e", "GIT_TERMINAL_PROMPT": "0",
                       "GIT_SSL_CAINFO": str(self.ca_cert)}
        if proxy is not None:
            environment["https_proxy"] = proxy.url
        done = subprocess.run([self.tool("git"), *map(str, args)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, env=environment,
                              cwd=self.directory)
        if check and done.returncode != 0:
            raise AssertionError(done.stdout)
        return done

    def test_fetch_but_no_push(self):
        self.programs = self.git("--exec-path").stdout.strip()
        self.git("init", "-q", "--bare", "r.git")
        self.git("-C", "r.git", "config", "http.receivepack", "true")
        self.git("init", "-q", "first")
        (self.directory / "first" / "file").write_bytes(os.urandom(3 << 20))
        self.git("-C", "first", "add", "file")
        self.git("-C", "first", "commit", "-q", "-m", "one")
        self.git("-C", "first", "push", "-q", self.directory / "r.git", "HEAD:main")
        upstream = self.https(self.backend)
        url = f"https://ok.test:{upstream.port}/r.git"
        free = self.gateway(upstream)
        ruled = self.gateway(upstream, requireHostMatch=True, rules=[
            {"host": "ok.test", "methods": ["GET"], "action": "allow",
             "paths": ["/**/info/refs?service=git-upload-pack"]},
            {"host": "ok.test", "methods": ["POST"], "paths": ["/**/git-upload-pack"],
             "action": "allow"},
            {"host": "ok.test", "action": "deny", "reason": "this host is read only"}])
        self.git("clone", "-q", "-b", "main", url, "clone", proxy=ruled)
        (self.directory / "clone" / "more").write_bytes(os.urandom(3 << 20))
        self.git("-C", "clone", "add", "more")
        self.git("-C", "clone", "commit", "-q", "-m", "two")
        done = self.git("-C", "clone", "push", "-q", "origin", "HEAD:main", proxy=ruled, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("403", done.stdout)
        self.git("-C", "clone", "push", "-q", "origin", "HEAD:main", proxy=free)
        self.assertEqual(self.git("-C", "r.git", "log", "--format=%s", "main").stdout,
                         "two\none\n")


class Ssh(TlsCase):
    def test_through_a_host_that_would_be_terminated(self):
        sshd = Sshd(self.directory / "sshd", self.tool)
        self.addCleanup(sshd.close)
        proxy = self.gateway(sshd, tls={"maxTunnels": 1})
        for _ in range(2):
            done = subprocess.run(
                [self.tool("ssh"), "-F", "none", "-i", sshd.key, "-o",
                 f"ProxyCommand=socat - PROXY:127.0.0.1:%h:%p,proxyport={proxy.port}",
                 "-o", "UserKnownHostsFile=/dev/null", "-o", "StrictHostKeyChecking=no", "-o",
                 "BatchMode=yes", "-o", "LogLevel=ERROR", "-p", str(sshd.port),
                 f"{getpass.getuser()}@ok.test", "echo over ssh; cat"],
                input=b"stdin\n", stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
            self.assertEqual(done.stdout, b"over ssh\nstdin\n", done.stderr)
