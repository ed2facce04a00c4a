"""The base of the tests of deciders of protocol 2: a gateway whose rules come first."""

from .decider import UnixDecider, allow
from .decider_case import DeciderCase

HOST = "asked.wild.test"


class TwoCase(DeciderCase):
    """A gateway whose settings allow ok.test and deny no.test; the rest is the decider's."""

    kind = UnixDecider

    def begin(self, decide=allow, origin=None, *, asks=None, allowed_by=(), denied_by=(), kind=None, token=False,
              allowed=("ok.test",), denied=("no.test",), **kw):
        self.upstream = origin or self.http()
        self.peer = self.decider(decide, kind=kind or self.kind, proto=2, asks=asks, allowed=allowed_by,
                                 denied=denied_by)
        keys = {k: kw.pop(k) for k in ("timeoutMs", "level") if k in kw}
        document = self.document({"timeoutMs": 2000, **keys}, [*allowed, self.upstream.literal], denied,
                                 kw.pop("limits", None), kw.pop("timeouts", None), **kw.pop("network", {}))
        if token:
            path = self.directory / "token"
            path.write_text(token + "\n")
            path.chmod(0o600)
            document["proxy"]["auth"] = {"tokenFile": str(path)}
        self.srt = self.decided(self.peer, document=document, **kw)
        self.peer.wait_hellos(1)
        self.at = f"{HOST}:{self.upstream.port}"
        self.url = f"http://{self.at}"
        self.dns.queries.clear()

    def conns(self):
        return self.peer.of("conn")

    def away(self, r):
        self.assertEqual((r.status, r.get("X-Proxy-Error"), r.get("X-Deny-Reason")),
                         (503, "decider-unavailable", None), r)

    def socks(self, host, port):
        client = self.client(self.srt)
        client.socks_greet()
        return client.socks(host, port)[1], client

    def connect(self, target=None, fields=""):
        client = self.client(self.srt)
        return client.connect(target or self.at, fields), client
