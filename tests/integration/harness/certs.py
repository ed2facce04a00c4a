"""A CA of the test's own, and leaves it signs, made by openssl(1)."""

import pathlib
import ssl
import subprocess


def openssl(*args):
    subprocess.run(["openssl", *map(str, args)], check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


class Authority:
    def __init__(self, directory, name="Test Root"):
        self.directory = pathlib.Path(directory)
        self.cert = self.directory / "ca.pem"
        self.key = self.directory / "ca.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", self.key, "-out", self.cert, "-days", "30", "-subj", f"/CN={name}",
                "-addext", "basicConstraints=critical,CA:TRUE",
                "-addext", "keyUsage=critical,keyCertSign,cRLSign")

    def leaf(self, *names, days=20, not_after=None):
        """(certificate, key) for DNS names and IP addresses; not_after: YYYYMMDDHHMMSSZ."""
        stem = names[0].replace("*", "star").replace(":", "_") + (not_after or "")
        cert, key = self.directory / f"{stem}.pem", self.directory / f"{stem}.key"
        request, extensions = self.directory / f"{stem}.csr", self.directory / f"{stem}.ext"
        san = ",".join(("IP:" if n.replace(".", "").isdigit() or ":" in n else "DNS:") + n
                       for n in names)
        extensions.write_text(f"subjectAltName={san}\nbasicConstraints=CA:FALSE\n"
                              "keyUsage=digitalSignature\nextendedKeyUsage=serverAuth\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", key, "-out", request, "-subj", f"/CN={names[0]}")
        when = ["-days", str(days)]
        if not_after:
            when = ["-not_before", "20200101000000Z", "-not_after", not_after]
        openssl("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self.key,
                "-CAcreateserial", "-out", cert, "-extfile", extensions, *when)
        return cert, key

    def server_context(self, *names, **kw):
        cert, key = self.leaf(*names, **kw)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        return context
