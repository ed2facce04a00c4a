"""The base of the tests of terminated tunnels: a CA of the gateway's, a root of the origins', and a
TLS client that can stop, split, half-close and look at every step."""

import atexit
import functools
import pathlib
import shutil
import ssl
import tempfile

from .case import Case
from .certs import Authority
from .client import WAIT, Client, Reader
from .proxy import run_srt


@functools.lru_cache(maxsize=None)
def _directory():
    path = pathlib.Path(tempfile.mkdtemp(prefix="srt-tls-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


@functools.lru_cache(maxsize=None)
def gateway_ca():
    """(certificate, key) that `srt ca create` made, one for the whole run."""
    out = _directory() / "gateway"
    out.mkdir()
    status, _, error = run_srt("ca", "create", "--out", out)
    if status != 0:
        raise AssertionError(error)
    return out / "ca.crt", out / "ca.key"


@functools.lru_cache(maxsize=None)
def origin_root():
    """The authority that origins' certificates come from."""
    directory = _directory() / "origins"
    directory.mkdir()
    return Authority(directory, "Origins")


@functools.lru_cache(maxsize=None)
def origin_context(*names):
    return origin_root().server_context(*names)


class TlsSocket:
    """The client side of TLS over a connected socket; what a Reader and a test need of a socket.
    Its end of the connection can be closed by itself, which ssl.SSLSocket cannot do."""

    def __init__(self, sock, context, server_hostname=None, session=None):
        self.sock = sock
        self.coming = ssl.MemoryBIO()
        self.going = ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.coming, self.going, server_hostname=server_hostname,
                                    session=session)
        self.hello = b""
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            self.hello = self.going.read()

    def handshake(self, pieces=None):
        """pieces: of the ClientHello as it goes out, or None: in one."""
        for piece in [self.hello] if pieces is None else pieces:
            self.sock.sendall(piece)
        self._until_done(self.tls.do_handshake)
        return self

    def flush(self):
        if self.going.pending:
            self.sock.sendall(self.going.read())

    def _until_done(self, step):
        while True:
            try:
                result = step()
                self.flush()
                return result
            except ssl.SSLWantReadError:
                self.flush()
                data = self.sock.recv(65536)
                if data:
                    self.coming.write(data)
                else:
                    self.coming.write_eof()
            except ssl.SSLError:
                try:
                    self.flush()
                except OSError:
                    pass
                raise

    def recv(self, n):
        """b"" after close_notify; an end without it is ssl.SSLEOFError."""
        try:
            return self._until_done(lambda: self.tls.read(n))
        except ssl.SSLZeroReturnError:
            return b""

    def sendall(self, data):
        self.tls.write(data)
        self.flush()

    def close_notify(self):
        """Ends our side; reading goes on."""
        try:
            self.tls.unwrap()
        except ssl.SSLWantReadError:
            pass
        self.flush()

    def settimeout(self, seconds):
        self.sock.settimeout(seconds)

    def shutdown(self, how):
        self.sock.shutdown(how)

    def setsockopt(self, *args):
        self.sock.setsockopt(*args)

    def close(self):
        self.sock.close()


class TlsCase(Case):
    def setUp(self):
        super().setUp()
        self.ca_cert, self.ca_key = gateway_ca()
        self.root = origin_root()

    def trust(self):
        """Environment of a gateway that trusts the origins' root and no other."""
        return {"SSL_CERT_FILE": str(self.root.cert), "SSL_CERT_DIR": "/nonexistent"}

    def gateway(self, *origins, tls=None, env=None, **kw):
        """One that terminates; tls: more of network.tlsTerminate."""
        terminate = {"caCertPath": str(self.ca_cert), "caKeyPath": str(self.ca_key), **(tls or {})}
        return self.proxy(*origins, tlsTerminate=terminate, env={**self.trust(), **(env or {})},
                          **kw)

    def https(self, respond=None, names=("ok.test", "two.test", "a.wild.test"), **kw):
        """An HTTP origin over TLS."""
        return self.http(respond, tls=origin_context(*names), **kw)

    def tls_origin(self, handler, names=("ok.test", "two.test"), **kw):
        return self.origin(handler, tls=origin_context(*names), **kw)

    def context(self, strict=True, **kw):
        """A client's that trusts the gateway's CA alone."""
        context = ssl.create_default_context(cafile=str(self.ca_cert))
        if strict:
            context.verify_flags |= ssl.VERIFY_X509_STRICT
        for name, value in kw.items():
            setattr(context, name, value)
        return context

    def lenient(self):
        """One that verifies nothing."""
        return self.context(check_hostname=False, verify_mode=ssl.CERT_NONE)

    def opened(self, proxy, target, fields="", ahead=b""):
        """A client after the 200 of its CONNECT."""
        client = self.client(proxy)
        r = client.connect(target, fields, ahead)
        self.assertEqual((r.status, r.phrase), (200, "Connection Established"), r)
        self.assertEqual(r.fields, [])
        return client

    def secure(self, client, name="ok.test", context=None, session=None, pieces=None):
        """TLS on a client's open tunnel; pieces: a function of the hello that gives its parts."""
        tls = TlsSocket(client.sock, context or self.context(), name, session)
        tls.handshake(pieces and pieces(tls.hello))
        client.sock = tls
        client.reader = Reader(tls)
        return client

    def inside(self, proxy, origin, host="ok.test", name=None, fields="", **kw):
        """A client with a terminated tunnel to that origin; name: the server name, False: none."""
        client = self.opened(proxy, f"{host}:{origin.port}", fields)
        if name is False:
            name = None
            kw.setdefault("context", self.lenient())
        elif name is None:
            name = host
        return self.secure(client, name, **kw)

    def ask(self, client, target="/", fields="", method="GET", host="ok.test", body=b""):
        client.send(f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n".encode() + body)
        return client.response(method)

    def orderly_end(self, client):
        """close_notify, then FIN, and not another byte."""
        client.sock.settimeout(WAIT)
        self.assertEqual(client.reader.ahead, b"")
        self.assertEqual(client.sock.recv(1), b"")
        self.assertEqual(client.sock.sock.recv(1), b"")

    def violations(self, proxy):
        """The violation lines in a gateway's debug log (args=["--debug"])."""
        return [line[line.index("deny http-request"):] for line in proxy.stderr().splitlines()
                if "deny http-request" in line]
