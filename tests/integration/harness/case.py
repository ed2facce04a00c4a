"""The base of the tests: a directory, a DNS server, origins and proxies that go away by themselves."""

import os
import pathlib
import shutil
import tempfile
import unittest

from .client import Client
from .dns import DnsServer
from .origin import HttpOrigin, Origin
from .ports import free_port
from .proxy import Proxy, settings

NAMES = ("ok.test", "two.test", "*.wild.test")
OWN = ("127.0.0.5", "127.0.0.6")


def quick(item):
    """Marks a test or a class for `./dev test quick`."""
    item.quick = True
    return item


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="srt-test-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self._dns = None
        self._proxies = 0

    def evidence(self):
        """For a test that failed: what the gateways said and recorded last."""
        text = ""
        for name in ("stderr", "decisions.log"):
            for path in sorted(self.directory.glob(f"*/{name}")):
                text += f"{path.parent.name}/{name}: ...{path.read_text('utf-8', 'replace')[-4000:]}\n"
        return text

    @property
    def dns(self):
        """Answers for ok.test, two.test, *.wild.test and no.test with 127.0.0.5."""
        if self._dns is None:
            self._dns = DnsServer()
            self.addCleanup(self._dns.close)
            for name in (*NAMES, "wild.test", "no.test"):
                self._dns.add(name, "127.0.0.5")
        return self._dns

    def origin(self, handler, **kw):
        origin = Origin(handler, **kw)
        self.addCleanup(self._close_origin, origin)
        return origin

    def http(self, respond=None, **kw):
        origin = HttpOrigin(respond, **kw)
        self.addCleanup(self._close_origin, origin)
        return origin

    def _close_origin(self, origin):
        origin.close()
        self.assertEqual(origin.errors, [], "the origin's handler failed")

    def closed_port(self, host="127.0.0.5"):
        """A port of HOST that nothing listens on."""
        return free_port(host)

    def proxy(self, *origins, allowed=NAMES, denied=(), limits=None, timeouts=None, token=False,
              dns=None, args=(), env=None, listen=("127.0.0.1:0",), pass_fds=(), **network):
        """A gateway that allows NAMES and the addresses of these origins. limits, timeouts: of
        proxy.*; token: clients must show TOKEN; the rest goes under network."""
        self._proxies += 1
        directory = self.directory / f"proxy{self._proxies}"
        directory.mkdir()
        own = {"dns": dns or {"servers": [self.dns.address]},
               "timeouts": {"drainMs": 500, **(timeouts or {})}}
        if limits:
            own["limits"] = limits
        if token:
            path = directory / "token"
            path.write_text(token + "\n")
            path.chmod(0o600)
            own["auth"] = {"tokenFile": str(path)}
        document = settings([*allowed, *(o.literal for o in origins)], denied, own, **network)
        proxy = Proxy(document, directory, listen=listen, args=args, env=env, pass_fds=pass_fds)
        self.addCleanup(proxy.stop)
        return proxy

    def client(self, proxy):
        client = Client(proxy.address)
        self.addCleanup(client.close)
        return client

    def denied(self, response, text="Connection blocked by network allowlist"):
        """A refusal by policy as chapter 20 has it."""
        self.assertEqual(response.status, 403, response)
        self.assertTrue(response.text.startswith(text), response)

    @staticmethod
    def tool(name):
        """The path of a program that must be there."""
        path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        if path is None:
            raise AssertionError(f"{name} is not installed; ./dev test installs it")
        return path
