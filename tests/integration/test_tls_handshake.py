"""The TLS that clients of terminated tunnels are offered: names, certificates, versions, sessions.
Chapter 30 sections 4 and 5.1."""

import socket
import ssl
import struct
import subprocess
import time

from harness import TlsCase, TlsSocket, quick
from harness.certs import openssl


def fields_of(der):
    """What openssl shows of a certificate."""
    return subprocess.run(
        ["openssl", "x509", "-inform", "DER", "-noout", "-subject", "-issuer", "-ext",
         "subjectAltName,basicConstraints,extendedKeyUsage", "-nameopt", "RFC2253"],
        input=der, check=True, stdout=subprocess.PIPE).stdout.decode()


def edited(hello, old, new):
    """A ClientHello with bytes replaced by as many others."""
    assert len(old) == len(new) and old in hello
    return hello.replace(old, new)


def split_records(hello, size):
    """The same handshake message in records of that size."""
    body = hello[5:]
    parts = [body[i : i + size] for i in range(0, len(body), size)]
    return [hello[:3] + struct.pack(">H", len(part)) + part for part in parts]


class Names(TlsCase):
    def setUp(self):
        super().setUp()
        self.upstream = self.https()
        self.proxy_ = self.gateway(self.upstream)

    def shown(self, name, host="ok.test", pieces=None, proxy=None, context=None):
        client = self.opened(proxy or self.proxy_, f"{host}:{self.upstream.port}")
        self.secure(client, name, context or self.lenient(), pieces=pieces)
        self.client_ = client
        return fields_of(client.sock.tls.getpeercert(binary_form=True))

    @quick
    def test_the_name_that_is_asked_for(self):
        text = self.shown("ok.test")
        self.assertIn("subject=CN=ok.test\n", text)
        self.assertIn("DNS:ok.test\n", text)
        self.assertIn("issuer=CN=srt CA", text)
        self.assertIn("CA:FALSE", text)
        self.assertIn("TLS Web Server Authentication", text)
        self.assertIn("DNS:other.test\n", self.shown("OTHER.test"))
        # and yet the request goes where the CONNECT went
        self.assertEqual(self.ask(self.client_, host="other.test").status, 200)
        self.assertEqual(self.upstream.requests[-1].get("Host"), f"ok.test:{self.upstream.port}")

    @quick
    def test_no_name(self):
        self.assertIn("DNS:ok.test\n", self.shown(None))
        self.assertIn("DNS:ok.test\n", self.shown(None, host="OK.test."))
        self.assertIn("IP Address:127.0.0.5\n", self.shown(None, host="127.0.0.5"))
        self.assertIn("IP Address:127.0.0.5\n", self.shown(None, host="127.5"))
        self.assertEqual(self.ask(self.client_).status, 502)  # the origin has no such name

    def test_an_ipv6_target(self):
        origin = self.https(names=("::1",), host="::1")
        proxy = self.gateway(origin)
        client = self.opened(proxy, f"[::1]:{origin.port}")
        self.secure(client, None, self.lenient())
        self.assertIn("IP Address:0:0:0:0:0:0:0:1\n",
                      fields_of(client.sock.tls.getpeercert(binary_form=True)))
        self.assertEqual(self.ask(client, host="x").status, 200)
        self.assertEqual(origin.requests[0].get("Host"), f"[::1]:{origin.port}")

    @quick
    def test_a_name_that_cannot_be_read(self):
        for bad in (b"ok_test", b"ok.tes.", b"*k.test", b".k.test", b"ok..est", b"ok\xc3\xa9est"):
            self.assertIn("DNS:ok.test\n", self.shown_for(bad), bad)

    def shown_for(self, name):
        """The certificate for a hello with a name that no client would send."""
        client = self.opened(self.proxy_, f"ok.test:{self.upstream.port}")
        context = self.lenient()
        context.maximum_version = ssl.TLSVersion.TLSv1_2  # its certificate comes in the clear
        tls = TlsSocket(client.sock, context, "ok-test")
        client.send(edited(tls.hello, b"ok-test", name))
        flight = b""
        while True:
            kind, _, length = struct.unpack(">BHH", client.exactly(5))
            self.assertEqual(kind, 22)
            flight += client.exactly(length)
            first = int.from_bytes(flight[1:4], "big") + 4
            if len(flight) > first + 10:
                break
        self.assertEqual((flight[0], flight[first]), (2, 11))
        certificate = flight[first + 7 :]
        length = int.from_bytes(certificate[:3], "big")
        self.assertGreater(len(certificate), length)
        return fields_of(certificate[3 : 3 + length])

    def test_required_to_match_the_target_counts(self):
        proxy = self.gateway(self.upstream, requireHostMatch=True)
        self.assertIn("DNS:ok.test\n", self.shown("other.test", proxy=proxy))
        self.assertEqual(self.ask(self.client_).status, 421)

    @quick
    def test_a_hello_in_pieces(self):
        def bytes_alone(hello):
            return [hello[i : i + 1] for i in range(len(hello))]

        def records_alone(hello):
            return split_records(hello, 40)

        def records_at_once(hello):
            return [b"".join(split_records(hello, 7))]

        def bytes_of_records(hello):
            return bytes_alone(b"".join(split_records(hello, 100)))

        for pieces in (bytes_alone, records_alone, records_at_once, bytes_of_records):
            self.assertIn("DNS:two.test\n", self.shown("two.test", pieces=pieces), pieces)
            self.assertEqual(self.ask(self.client_).status, 200)

    def test_a_long_hello(self):
        context = self.lenient()
        context.set_alpn_protocols(["http/1.1"] + [f"{n:0>200}" for n in range(60)])
        text = self.shown("two.test", context=context,
                          pieces=lambda h: [h[i : i + 1000] for i in range(0, len(h), 1000)])
        self.assertIn("DNS:two.test\n", text)
        self.assertEqual(self.ask(self.client_).status, 200)

    def test_a_long_name(self):
        name = ".".join(["a" * 62] * 3)
        text = self.shown(name)
        self.assertIn(f"DNS:{name}\n", text)
        self.assertIn(f"subject=CN={name}\n", text)

    def test_half_a_hello_is_waited_for_a_while(self):
        proxy = self.gateway(self.upstream, timeouts={"clientHelloMs": 200})
        # The record is late, the handshake is not: the name is not known, the target's will do.
        text = self.shown("two.test", proxy=proxy, pieces=lambda h: self.paused(h))
        self.assertIn("DNS:ok.test\n", text)

    @staticmethod
    def paused(hello):
        yield hello[:9]
        time.sleep(0.5)
        yield hello[9:]


class Certificates(TlsCase):
    def chain(self, proxy, port, *options):
        out = subprocess.run(
            ["openssl", "s_client", "-proxy", f"127.0.0.1:{proxy.port}", "-connect",
             f"ok.test:{port}", "-servername", "ok.test", "-showcerts", "-CAfile",
             str(self.ca_cert), "-x509_strict", "-verify_return_error", "-verify_hostname",
             "ok.test", *options],
            input=b"", stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode()
        self.assertIn("Verify return code: 0 (ok)", out)
        return out

    @quick
    def test_strict_verification(self):
        proxy = self.gateway()
        out = self.chain(proxy, 443)
        self.assertIn("id-ecPublicKey", out)
        self.assertEqual(out.count("BEGIN CERTIFICATE"), 2)  # the root too
        self.assertIn("No client certificate CA names sent", out)

    def test_rsa_for_those_without_ecdsa(self):
        proxy = self.gateway()
        out = self.chain(proxy, 443, "-sigalgs", "RSA-PSS+SHA256:RSA+SHA256")
        self.assertIn("rsaEncryption", out)
        self.assertIn("id-ecPublicKey", self.chain(proxy, 443))

    def test_kinds_of_authorities(self):
        for kind in (["rsa:2048"], ["rsa:1024"], ["ed25519"],
                     ["ec", "-pkeyopt", "ec_paramgen_curve:P-384"]):
            with self.subTest(kind[0]):
                directory = self.directory / kind[0].replace(":", "-")
                directory.mkdir()
                openssl("req", "-x509", "-newkey", *kind, "-nodes", "-keyout", directory / "key",
                        "-out", directory / "crt", "-days", "30", "-subj", "/CN=srt CA",
                        "-addext", "keyUsage=critical,keyCertSign,cRLSign")
                self.ca_cert, self.ca_key = directory / "crt", directory / "key"
                extra = ["-auth_level", "0"] if kind == ["rsa:1024"] else []
                self.chain(self.gateway(), 443, *extra)

    def test_an_intermediate_authority(self):
        root = self.root
        key, request = self.directory / "sub.key", self.directory / "sub.csr"
        cert, ext = self.directory / "sub.pem", self.directory / "sub.ext"
        ext.write_text("basicConstraints=critical,CA:TRUE,pathlen:0\n"
                       "keyUsage=critical,keyCertSign,cRLSign\nsubjectKeyIdentifier=hash\n"
                       "authorityKeyIdentifier=keyid\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                key, "-out", request, "-subj", "/CN=srt sub CA")
        openssl("x509", "-req", "-in", request, "-CA", root.cert, "-CAkey", root.key,
                "-CAcreateserial", "-days", "10", "-out", cert, "-extfile", ext)
        cert.write_text(cert.read_text() + root.cert.read_text())
        self.ca_cert, self.ca_key = cert, key
        proxy = self.gateway()
        self.ca_cert = root.cert
        self.assertEqual(self.chain(proxy, 443).count("BEGIN CERTIFICATE"), 3)

    def test_one_certificate_a_name(self):
        proxy = self.gateway()
        seen = []
        for name in ("ok.test", "OK.test", "two.test", "ok.test"):
            client = self.opened(proxy, "ok.test:443")
            self.secure(client, name)
            seen.append(client.sock.tls.getpeercert(binary_form=True))
        self.assertEqual(seen[0], seen[1])
        self.assertEqual(seen[0], seen[3])
        self.assertNotEqual(seen[0], seen[2])


class Versions(TlsCase):
    @quick
    def test_the_two_versions(self):
        proxy = self.gateway()
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            client = self.opened(proxy, "ok.test:443")
            self.secure(client, context=self.context(minimum_version=version,
                                                     maximum_version=version))
            self.assertIsNotNone(client.sock.tls.cipher())

    @quick
    def test_older_ones(self):
        context = self.lenient()
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
        client = self.opened(self.gateway(), "ok.test:443")
        tls = TlsSocket(client.sock, context, "ok.test")
        client.sock.sendall(tls.hello)
        data = client.exactly(7)
        self.assertEqual((data[0], data[5], data[6]), (21, 2, 70))
        self.assertTrue(client.ended())

    @quick
    def test_protocols(self):
        proxy = self.gateway()
        for offered in (["http/1.1"], ["h2", "http/1.1"], ["x", "http/1.1", "y"]):
            context = self.context()
            context.set_alpn_protocols(offered)
            client = self.opened(proxy, "ok.test:443")
            self.secure(client, context=context)
            self.assertEqual(client.sock.tls.selected_alpn_protocol(), "http/1.1")
        client = self.secure(self.opened(proxy, "ok.test:443"))
        self.assertIsNone(client.sock.tls.selected_alpn_protocol())

    def test_other_protocols_alone(self):
        for offered in (["http/1.0"], ["HTTP/1.1"], ["x"]):
            context = self.lenient()
            context.set_alpn_protocols(offered)
            client = self.opened(self.gateway(), "ok.test:443")
            tls = TlsSocket(client.sock, context, "ok.test")
            client.sock.sendall(tls.hello)
            data = client.exactly(7)
            self.assertEqual((data[0], data[5], data[6]), (21, 2, 120))

    def test_renegotiation_is_refused(self):
        proxy = self.gateway()
        done = subprocess.run(
            ["openssl", "s_client", "-proxy", f"127.0.0.1:{proxy.port}", "-connect", "ok.test:443",
             "-servername", "ok.test", "-tls1_2", "-CAfile", str(self.ca_cert)],
            input=b"R\n", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30)
        self.assertIn(b"RENEGOTIATING", done.stdout)
        self.assertIn(b"no renegotiation", done.stdout)


class Sessions(TlsCase):
    def visit(self, proxy, context, name, session=None, host="ok.test"):
        """(whether it was resumed, the session to come back with)"""
        client = self.opened(proxy, f"{host}:{self.upstream.port}")
        self.secure(client, name, context, session)
        self.assertEqual(self.ask(client, host=host).status, 200)  # a TLS 1.3 ticket has come
        return client.sock.tls.session_reused, client.sock.tls.session

    @quick
    def test_resumed_for_the_same_name_alone(self):
        self.upstream = self.https()
        proxy = self.gateway(self.upstream)
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with self.subTest(version):
                context = self.context(maximum_version=version)
                context.check_hostname = False
                first, session = self.visit(proxy, context, "ok.test")
                self.assertFalse(first)
                again, later = self.visit(proxy, context, "ok.test", session)
                self.assertTrue(again)
                self.assertFalse(self.visit(proxy, context, "two.test", session, "two.test")[0])
                self.assertFalse(self.visit(proxy, context, "two.test", session)[0])
                self.assertFalse(self.visit(proxy, context, None, session)[0])
                self.assertTrue(self.visit(proxy, context, "ok.test", later)[0])

    def test_not_by_another_gateway(self):
        self.upstream = self.https()
        context = self.context()
        _, session = self.visit(self.gateway(self.upstream), context, "ok.test")
        self.assertFalse(self.visit(self.gateway(self.upstream), context, "ok.test", session)[0])


class Hostile(TlsCase):
    def test_garbage(self):
        proxy = self.gateway()
        hello = TlsSocket(socket.socket(), self.context(), "ok.test").hello
        for data in (b"\x16\x03\x01\x00\x05hello", hello + b"garbage" * 100,
                     hello + b"\x17\x03\x03\x00\x10" + bytes(16), b"\x16\x03\x03\xff\xff" + bytes(70000),
                     b"\x16\x03\x01\x00\x00" * 50, hello[:5] + b"\x02" + hello[6:],
                     b"\x16\x03\x03\x40\x00\x01\x00\x3f\xfc" + b"\xff" * 17000,
                     hello * 3, hello[:43] + b"\xff" + hello[44:]):
            client = self.opened(proxy, "ok.test:443")
            try:
                client.send(data)
                client.half_close()
                client.rest()
            except (BrokenPipeError, ConnectionResetError):
                pass
        client = self.secure(self.opened(proxy, "ok.test:443"))
        self.assertEqual(self.ask(client).status, 403)  # 127.0.0.5 is not listed
        self.assertEqual({r["close"] for r in proxy.records(9)[:9]}, {"client-tls"})

    def test_a_client_that_does_not_trust_us(self):
        proxy = self.gateway()
        client = self.opened(proxy, "ok.test:443")
        context = ssl.create_default_context(cafile=str(self.root.cert))
        with self.assertRaises(ssl.SSLCertVerificationError):
            self.secure(client, context=context)
        record = proxy.records(1)[0]
        self.assertEqual((record["close"], record["verdict"], record["via"]),
                         ("client-tls", "allow", "connect"))
        self.assertIn("unknown ca", record["reason"])

    def test_another_name_than_asked_for(self):
        client = self.opened(self.gateway(), "ok.test:443")
        with self.assertRaises(ssl.SSLCertVerificationError):
            context = self.context(maximum_version=ssl.TLSVersion.TLSv1_2)
            tls = TlsSocket(client.sock, context, "ok.test")
            tls.handshake([edited(tls.hello, b"ok.test", b"no.test")])

    def test_no_key_is_ever_shown(self):
        proxy = self.gateway(args=["--debug"])
        client = self.secure(self.opened(proxy, "ok.test:443"))
        self.ask(client)
        client.close()
        proxy.stop()
        key = self.ca_key.read_text()
        secret = "".join(key.split("\n")[1:-2])
        for path in proxy.directory.iterdir():
            if path.is_file():
                text = path.read_text("latin-1")
                self.assertNotIn("PRIVATE", text, path)
                self.assertNotIn(secret[:40], text, path)
