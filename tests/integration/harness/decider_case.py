"""The base of the tests of deciders: a proxy with one, and proof that nothing was let out."""

import json
import os
import re
import signal
import subprocess
import time

from .case import NAMES
from .client import WAIT, Client
from .decider import Decider, allow
from .proxy import REPORT, SRT, Proxy, clean_environment, settings
from .tls import TlsCase

SERVING = re.compile(r"^srt proxy: serving (\S.*)$", re.M)


class DecidedProxy(Proxy):
    """`srt proxy` on the given descriptors. document: settings, or None: without any."""

    def __init__(self, directory, args, document=None, env=None, pass_fds=(), deciders=(),
                 wait=True, listen=("127.0.0.1:0",), log=True):
        self.directory = directory
        self.stderr_path = directory / "stderr"
        self.stdout_path = directory / "stdout"
        self.log_path = directory / "decisions.log"
        self.settings_path = directory / "settings.json"
        command = [SRT, "proxy"]
        for address in listen:
            command += ["--listen", address]
        if document is not None:
            self.settings_path.write_text(json.dumps(document))
            command += ["--settings", str(self.settings_path)]
            if log:
                command += ["--log", str(self.log_path)]
        with open(self.stderr_path, "wb") as err, open(self.stdout_path, "wb") as out:
            self.process = subprocess.Popen([*command, *args], stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=err, env={**clean_environment(), **(env or {})},
                                            pass_fds=pass_fds)
        for decider in deciders:
            decider.started()
        self.over = False
        if wait:
            self.wait_serving()

    def wait_serving(self):
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            where = SERVING.search(self.stderr())
            if where:
                self.port = int(where.group(1).rpartition(":")[2] or 0) if ":" in where.group(1) else 0
                self.address = ("127.0.0.1", self.port)
                return where.group(1)
            if self.process.poll() is not None:
                break
            time.sleep(0.005)
        self.process.kill()
        raise AssertionError(f"srt proxy does not serve ({self.process.wait()}):\n{self.stderr()}")

    def is_serving(self):
        return SERVING.search(self.stderr()) is not None

    def finish(self, status, seconds=WAIT):
        """Waits for its end by itself, with that status or one of those; gives what it said."""
        self.over = True
        try:
            ended = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"srt proxy did not end by itself:\n{self.stderr()}") from None
        text = self.stderr()
        if ended not in (status if isinstance(status, tuple) else (status,)) or REPORT.search(text.encode()):
            raise AssertionError(f"srt proxy ended with {ended}, not {status}:\n{text}")
        return text

    def failed_to_start(self):
        """It ends without having served."""
        text = self.finish((1, 2))
        if self.is_serving() or not re.search(r"^srt proxy: \S", text, re.M):
            raise AssertionError(f"not a start that failed:\n{text}")
        return text

    def stopped(self, why, seconds=WAIT):
        """It ends in order, for a reason that begins so; gives the reason."""
        text = self.finish(0, seconds)
        found = re.search(r"^srt proxy: stopped \((" + re.escape(why) + r".*)\)$", text, re.M)
        if not found:
            raise AssertionError(f"not stopped ({why}…):\n{text}")
        return found.group(1)

    def stop(self, sign=signal.SIGTERM):
        if self.over:
            return
        if self.process.poll() is None:
            self.process.send_signal(sign)
        self.stopped("SIG")


class DeciderCase(TlsCase):
    def setUp(self):
        super().setUp()
        self.deciders = []
        self.addCleanup(self._check_deciders)
        self._count = 0

    def _check_deciders(self):
        for decider in self.deciders:
            self.assertEqual(decider.errors, [], "the proxy broke the protocol")

    def decider(self, decide=allow, *origins, allowed=NAMES, kind=Decider, **kw):
        """One whose hello allows NAMES, and the addresses of these origins."""
        lists = [*allowed, *(o.literal for o in origins)]
        args = (self.directory,) if kind is not Decider else ()
        decider = kind(*args, decide=decide, allowed=lists, **kw)
        self.deciders.append(decider)
        self.addCleanup(decider.close)
        return decider

    def pem(self, key=None, certificate=None):
        """The CA as --ca-fd takes it."""
        return (key or self.ca_key).read_bytes() + (certificate or self.ca_cert).read_bytes()

    def pipe_of(self, data):
        """A descriptor to read that from, to its end."""
        read, write = os.pipe()
        os.write(write, data)
        os.close(write)
        self.addCleanup(os.close, read)
        return read

    def document(self, decider=None, allowed=(), denied=(), limits=None, timeouts=None, **network):
        own = {"dns": {"servers": [self.dns.address]},
               "timeouts": {"drainMs": 500, **(timeouts or {})}}
        if limits:
            own["limits"] = limits
        document = settings(allowed, denied, own, **network)
        if decider:
            document["decider"] = decider
        return document

    def decided(self, decider, ca=False, args=(), pass_fds=(), env=None, document=None,
                listen=("127.0.0.1:0",), wait=True, **kw):
        """A proxy with that decider: proxy-only where it speaks protocol 1. decider=None: none on
        the command line. timeoutMs, level…: keys of `decider` in the settings; the rest: as
        document()."""
        self._count += 1
        directory = self.directory / f"decided{self._count}"
        directory.mkdir()
        args, fds = list(args), list(pass_fds)
        if decider is not None:
            args += decider.args
            fds += decider.pass_fds
        if ca:
            fds.append(self.pipe_of(self.pem() if ca is True else ca))
            args += ["--ca-fd", str(fds[-1])]
        own = {k: kw.pop(k) for k in ("timeoutMs", "level", "placements", "exec", "unix", "proto")
               if k in kw}
        if document is None:
            document = self.document(decider=own, **kw)
        proxy = DecidedProxy(directory, args, document, {**self.trust(), **(env or {})}, fds,
                             [decider] if decider is not None else [], wait, listen)
        self.addCleanup(proxy.stop)
        return proxy

    def start(self, decide=allow, respond=None, tls=False, **kw):
        """An origin, a decider, a proxy (self.upstream, peer, srt); a client of it."""
        peer = {k: kw.pop(k) for k in ("hello", "pipes", "allowed_by", "denied_by", "proto", "asks",
                                       "kind") if k in kw}
        if "denied_by" in peer:
            peer["denied"] = peer.pop("denied_by")
        if "allowed_by" in peer:
            peer["allowed"] = peer.pop("allowed_by")
        self.upstream = self.https(respond) if tls else self.http(respond)
        self.dns.queries.clear()
        self.peer = self.decider(decide, self.upstream, **peer)
        self.srt = self.decided(self.peer, ca=tls, **kw)
        self.at = f"ok.test:{self.upstream.port}"
        self.url = f"http://{self.at}"
        return self.client(self.srt)

    def post(self, client, body=b"", fields="", path="/a", method="POST", length=True):
        if length:
            fields += f"Content-Length: {len(body)}\r\n"
        client.send(f"{method} {self.url}{path} HTTP/1.1\r\nHost: {self.at}\r\n{fields}\r\n".encode()
                    + body)
        return client.response(method)

    def nothing_out(self, *origins):
        """No connection was made and no name looked up."""
        for origin in origins or (self.upstream,):
            self.assertEqual(origin.connections, [])
        self.assertEqual(self.dns.queries, [])

    def refused(self, r, status, code, text=None):
        """An answer of the proxy's own in proxy-only mode."""
        self.assertEqual((r.status, r.get("X-Deny-Reason")), (status, code), r)
        self.assertIsNone(r.get("X-Proxy-Error"), r)
        self.assertTrue(r.closes, r)
        if text is not None:
            self.assertEqual(r.text.rstrip("\n"), text)

    def unavailable(self, r):
        self.refused(r, 503, "decider_unavailable")

    def ends(self, client):
        """The proxy closes the connection, and says nothing more."""
        self.assertEqual(client.reader.rest(), b"")

    def last(self):
        return self.upstream.requests[-1]

    def client(self, proxy):
        client = Client(proxy.address)
        self.addCleanup(client.close)
        return client
