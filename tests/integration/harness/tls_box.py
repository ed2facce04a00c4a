"""A box whose TLS is terminated, and servers with certificates that srt trusts and the box does not."""

import base64
import os
import pathlib
import re
import subprocess

from .box import BoxCase
from .certs import Authority

EPHEMERAL = "sandbox-runtime ephemeral CA"
ROOT = "Root of the host"
VARIABLES = (
    "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT",
    "GIT_SSL_CAINFO", "AWS_CA_BUNDLE", "CARGO_HTTP_CAINFO", "DENO_CERT",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", "NIX_SSL_CERT_FILE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "HTTPLIB2_CA_CERTS", "BUNDLE_SSL_CA_CERT", "npm_config_cafile", "HEX_CACERTS_PATH",
    "PERL_LWP_SSL_CA_FILE")


def pem_blocks(text):
    """[(label, DER)]"""
    return [(label, base64.b64decode(body))
            for label, body in re.findall("-----BEGIN ([A-Z ]+)-----(.*?)-----END \\1-----", text, re.S)]


class TlsBoxCase(BoxCase):
    def setUp(self):
        super().setUp()
        self.ca = self.authority(ROOT)
        self.temporary = self.folder("temporary")
        # The host's roots are this CA and no other.
        self.trust = {"SSL_CERT_FILE": self.ca.cert, "SSL_CERT_DIR": self.folder("no-roots"),
                      "TMPDIR": self.temporary}

    def environment(self, env=None):
        return super().environment({**self.trust, **(env or {})})

    def authority(self, name):
        """A CA of the user's; its files' names have no spaces."""
        ca = Authority(self.folder("ca-" + name.replace(" ", "-")), name)
        for path in (ca.cert, ca.key):
            self.own(path)
        ca.cert.chmod(0o644)
        ca.key.chmod(0o600)
        return ca

    def site(self, *names, respond=None, ca=None, **kw):
        """An https origin."""
        return self.http(respond, tls=(ca or self.ca).server_context(*names or ("ok.test",)), **kw)

    def terminating(self, *origins, tls=None, network=None, **kw):
        return self.settings(*origins, network={"tlsTerminate": tls or {}, **(network or {})}, **kw)

    def given(self, ca, **tls):
        """tlsTerminate with a CA that was there before."""
        return {"caCertPath": str(ca.cert), "caKeyPath": str(ca.key), **tls}

    @staticmethod
    def url(origin, host="ok.test", path="/"):
        return f"https://{host}:{origin.port}{path}"

    def issuer(self, url, options=""):
        """A command that prints the name of whoever signed the certificate it is shown."""
        return (f"curl -sv {options} -o /dev/null {url} 2>&1 | sed -n 's/^[*] *issuer: .*CN=\\([^;]*\\).*/\\1/p'"
                " | grep . || echo none")

    def left(self):
        """What is in srt's temp directory."""
        return sorted(self.listing(self.temporary))

    @staticmethod
    def openssl(*args, stdin=None):
        return subprocess.run(["openssl", *map(str, args)], input=stdin, check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout

    def pair(self, *algorithm, subject="/CN=Given", name="given", days=None):
        """(certificate, key): files of the user's of a CA with such a key."""
        directory = self.folder(name)
        cert, key = directory / "ca.crt", directory / "ca.key"
        when = days or ["-days", "30"]
        self.openssl("req", "-x509", "-newkey", *algorithm, "-nodes", "-keyout", key, "-out", cert,
                     "-subj", subject, *when, "-addext", "basicConstraints=critical,CA:TRUE",
                     "-addext", "keyUsage=critical,keyCertSign,cRLSign")
        for path, mode in ((cert, 0o644), (key, 0o600)):
            self.own(path)
            path.chmod(mode)
        return cert, key


class GitServer:
    """Serves the repositories below a directory by git's own http-backend; give `respond` to an origin."""

    def __init__(self, root):
        self.root = pathlib.Path(root)

    def respond(self, request):
        path, _, query = request.target.partition("?")
        env = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(self.root), "GIT_HTTP_EXPORT_ALL": "1",
               "PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": request.method,
               "CONTENT_TYPE": request.get("Content-Type") or "", "REMOTE_USER": "user",
               "HTTP_CONTENT_ENCODING": request.get("Content-Encoding") or "",
               "CONTENT_LENGTH": str(len(request.body)),
               "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
               "GIT_PROTOCOL": request.get("Git-Protocol") or ""}
        out = subprocess.run(["git", "http-backend"], input=request.body, env=env, check=True,
                             stdout=subprocess.PIPE).stdout
        head, _, body = out.partition(b"\r\n\r\n")
        fields = [line for line in head.decode().split("\r\n") if not line.startswith("Status:")]
        status = re.search(r"^Status: (.*?)\r?$", head.decode(), re.M)
        return (f"HTTP/1.1 {status.group(1) if status else '200 OK'}\r\n" + "\r\n".join(fields)
                + f"\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body
