"""Names to addresses: which answers are used, how they are dialled, and what a resolver may do.
Chapter 10 section 6, chapter 20 section 7."""

import socket
import subprocess
import sys

from harness import DROP, NXDOMAIN, SERVFAIL, Answer, Case, DnsServer, echo, quick


class Resolving(Case):
    def setUp(self):
        super().setUp()
        self.upstream = self.origin(echo)

    def connect(self, name, proxy=None):
        client = self.client(proxy or self.gateway())
        return client.connect(f"{name}:{self.upstream.port}")

    def gateway(self, **kw):
        return self.proxy(self.upstream, **kw)

    @quick
    def test_both_families_are_asked(self):
        self.assertEqual(self.connect("ok.test").status, 200)
        self.assertEqual({q[1] for q in self.dns.asked("ok.test")}, {"A", "AAAA"})

    @quick
    def test_no_such_name(self):
        for rcode in (NXDOMAIN, SERVFAIL, 0):
            self.dns.script("x.wild.test", "A", Answer(rcode=rcode))
            self.dns.script("x.wild.test", "AAAA", Answer(rcode=rcode))
            r = self.connect("x.wild.test")
            self.assertEqual((r.status, r.get("X-Proxy-Error")), (502, "upstream-dns"))

    def test_cname(self):
        self.dns.script("ok.test", "A", Answer("127.0.0.5", cname="real.elsewhere.test"))
        self.assertEqual(self.connect("ok.test").status, 200)

    def test_truncated_answers_are_asked_for_by_tcp(self):
        self.dns.script("ok.test", "A", Answer("127.0.0.5", truncated=True))
        self.assertEqual(self.connect("ok.test").status, 200)
        self.assertIn(("ok.test", "A", "tcp"), self.dns.asked("ok.test"))

    def test_a_lost_query_is_repeated(self):
        self.dns.script("ok.test", "A", DROP, Answer("127.0.0.5"))
        self.dns.script("ok.test", "AAAA", DROP, Answer())
        self.assertEqual(self.connect("ok.test", self.gateway(timeouts={"dnsQueryMs": 200})).status, 200)

    def test_a_second_server_is_asked(self):
        silent = DnsServer()
        self.addCleanup(silent.close)
        for kind in ("A", "AAAA"):
            silent.script("ok.test", kind, DROP)
        proxy = self.gateway(dns={"servers": [silent.address, self.dns.address]},
                             timeouts={"dnsQueryMs": 200})
        self.assertEqual(self.connect("ok.test", proxy).status, 200)

    def test_no_server_answers(self):
        for kind in ("A", "AAAA"):
            self.dns.script("ok.test", kind, DROP)
        proxy = self.gateway(timeouts={"dnsQueryMs": 100}, limits={"dnsTries": 2})
        r = self.connect("ok.test", proxy)
        self.assertEqual(r.status, 502)
        self.assertIn(r.get("X-Proxy-Error"), ("upstream-timeout", "upstream-dns"))

    def test_equal_lookups_share_one_query(self):
        self.dns.script("ok.test", "A", Answer("127.0.0.5", delay=0.5))
        proxy = self.gateway()
        clients = [self.client(proxy) for _ in range(20)]
        for client in clients:
            client.send(f"CONNECT ok.test:{self.upstream.port} HTTP/1.1\r\n\r\n")
        for client in clients:
            self.assertEqual(client.head().status, 200)
        self.assertLess(len(self.dns.asked("ok.test", "A")), 5)

    def test_one_slow_name_does_not_hold_another(self):
        for kind in ("A", "AAAA"):
            self.dns.script("slow.wild.test", kind, DROP)
        proxy = self.gateway(timeouts={"dnsQueryMs": 20000})
        waiting = [self.client(proxy).send("CONNECT slow.wild.test:443 HTTP/1.1\r\n\r\n")
                   for _ in range(10)]
        self.assertEqual(self.connect("ok.test", proxy).status, 200)
        for client in waiting:
            client.close()

    def test_a_name_is_resolved_afresh_for_each_dial(self):
        self.dns.script("ok.test", "A", Answer("127.0.0.5"), Answer("169.254.169.254"))
        proxy = self.gateway()
        self.assertEqual(self.connect("ok.test", proxy).status, 200)
        r = self.connect("ok.test", proxy)
        self.assertEqual((r.status, r.phrase), (403, "resolved to a link-local address"))

    def test_more_addresses_than_are_considered(self):
        self.dns.script("ok.test", "A", Answer(*[f"127.0.3.{i}" for i in range(28)], "127.0.0.5"))
        proxy = self.gateway(limits={"dnsAddresses": 8})
        self.assertEqual(self.connect("ok.test", proxy).status, 403)


class Guard(Case):
    """The address that is dialled is the one that was judged."""

    CLASSES = (
        (["127.0.0.1"], "a loopback address"), (["::1"], "a loopback address"),
        (["0.0.0.0"], "an unspecified address"), (["169.254.169.254"], "a link-local address"),
        (["fe80::1"], "a link-local address"), (["224.0.0.1"], "a multicast address"),
        (["255.255.255.255"], "the broadcast address"),
        (["100.100.100.200"], "a cloud metadata address"),
        (["fd00:ec2::254"], "a cloud metadata address"),
        (["::ffff:127.0.0.1"], "a loopback address"), (["64:ff9b::7f00:1"], "a loopback address"),
        (["2002:7f00:1::"], "a loopback address"), (["::127.0.0.1"], "a loopback address"),
        (["10.1.2.3"], "a listed address"),
        (["10.1.2.3", "127.0.0.1", "::1"], "a loopback address / a listed address"),
    )

    @quick
    def test_classes_on_every_path(self):
        proxy = self.proxy(deniedResolvedAddresses=["10.0.0.0/8"])
        for i, (addresses, text) in enumerate(self.CLASSES):
            name = f"g{i}.wild.test"
            self.dns.add(name, *addresses)
            with self.subTest(addresses):
                reason = f"resolved to {text}"
                r = self.client(proxy).connect(f"{name}:443")
                self.assertEqual((r.status, r.phrase), (403, reason))
                self.assertEqual(r.get("X-Proxy-Error"), "blocked-by-sandbox-runtime")
                first, second = r.text.split("\n")
                self.assertEqual(first, f"Connection to {name} blocked: {reason}")
                self.assertIn(f"{name}:443 is blocked by policy", second)
                r = self.client(proxy).get(f"http://{name}/")
                self.assertEqual((r.status, r.phrase), (403, "Forbidden"))
                self.assertEqual(r.text.split("\n")[0], first)
                client = self.client(proxy)
                client.socks_greet()
                self.assertEqual(client.socks(name, 443)[1], 2)
                for address in addresses:
                    self.assertNotIn(address.encode(), r.head + r.body)

    def test_a_fine_address_beside_a_refused_one(self):
        origin = self.origin(echo)
        self.dns.add("ok.test", "::1", "127.0.0.9", "127.0.0.5")
        r = self.client(self.proxy(origin)).connect(f"ok.test:{origin.port}")
        self.assertEqual(r.status, 200)

    def test_a_carve_out_is_for_its_port(self):
        origin = self.origin(echo)
        other = self.origin(echo)
        proxy = self.proxy(origin)
        self.assertEqual(self.client(proxy).connect(f"ok.test:{origin.port}").status, 200)
        self.assertEqual(self.client(proxy).connect(f"ok.test:{other.port}").status, 403)

    def test_a_deny_listed_address(self):
        origin = self.origin(echo)
        proxy = self.proxy(origin, denied=[f"127.0.0.5:{origin.port}"])
        r = self.client(proxy).connect(f"ok.test:{origin.port}")
        self.assertEqual(r.phrase, "resolved to a deny-listed address")

    def test_own_addresses(self):
        own = own_address()
        self.dns.add("me.wild.test", own)
        r = self.client(self.proxy()).connect("me.wild.test:443")
        self.assertEqual((r.status, r.phrase), (403, "resolved to one of this host's addresses"))

    def test_localhost_is_loopback_only(self):
        origin = self.origin(echo, host="127.0.0.1")
        for name in ("localhost", "LOCALHOST.", "localhost."):
            proxy = self.proxy(allowed=["localhost"])
            r = self.client(proxy).connect(f"{name}:{origin.port}")
            self.assertEqual(r.status, 200, name)
        self.dns.add("a.localhost", "10.0.0.1")
        self.assertEqual(self.client(self.proxy(allowed=["a.localhost"]))
                         .connect(f"a.localhost:{origin.port}").status in (200, 403), True)

    def test_a_rebinding_name_is_judged_for_each_keep_alive_request(self):
        origin = self.http()
        proxy = self.proxy(origin, limits=None)
        client = self.client(proxy)
        url = f"http://two.test:{origin.port}/"
        self.assertEqual(client.get(url).status, 200)
        self.dns.add("two.test", "127.0.0.9")
        status = client.get(url).status
        self.assertIn(status, (200, 403))  # the vetted connection may serve it again
        self.assertEqual({c.sock.getsockname()[0] for c in origin.connections if c.sock.fileno() >= 0}
                         - {"127.0.0.5"}, set())


def own_address():
    """An address of this machine's interfaces that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing
        return probe.getsockname()[0]


class Dialling(Case):
    """RFC 8305: no dead address holds up a live one."""

    def setUp(self):
        super().setUp()
        self.upstream = self.origin(echo)
        # addresses that answer nothing at all: a listener whose queue is full
        self.hole = BlackHole()
        self.addCleanup(self.hole.close)

    def connects(self, *addresses, origin=None, **kw):
        origin = origin or self.upstream
        self.dns.add("ok.test", *addresses)
        proxy = self.proxy(origin, allowed=["ok.test", f"127.0.2.1:{origin.port}",
                                            f"127.0.2.2:{origin.port}", f"[::1]:{origin.port}"], **kw)
        r = self.client(proxy).connect(f"ok.test:{origin.port}")
        self.assertEqual(r.status, 200, r)

    @quick
    def test_a_refused_address_first(self):
        self.connects("127.0.2.1", "127.0.2.2", "127.0.0.5")

    def test_a_refused_ipv6_address_first(self):
        self.connects("::1", "127.0.0.5")

    def test_only_ipv6(self):
        self.connects("::1", origin=self.origin(echo, host="::1"))

    def test_many_dead_addresses(self):
        self.dns.add("ok.test", *[f"127.0.2.{i}" for i in range(10, 17)], "127.0.0.5")
        proxy = self.proxy(self.upstream, allowed=["ok.test", *[
            f"127.0.2.{i}:{self.upstream.port}" for i in range(10, 17)]])
        self.assertEqual(self.client(proxy).connect(f"ok.test:{self.upstream.port}").status, 200)

    def test_a_black_hole_first(self):
        origin = self.origin(echo, port=self.hole.port)
        self.dns.add("ok.test", self.hole.host, "127.0.0.5")
        proxy = self.proxy(origin, allowed=["ok.test", f"{self.hole.host}:{origin.port}"],
                           timeouts={"attemptDelayMs": 50, "dialMs": 20000})
        self.assertEqual(self.client(proxy).connect(f"ok.test:{origin.port}").status, 200)

    def test_a_silent_aaaa_query_does_not_hold_back_a(self):
        self.dns.script("ok.test", "AAAA", DROP)
        self.dns.script("ok.test", "A", Answer("127.0.0.5"))
        proxy = self.proxy(self.upstream, timeouts={"dnsQueryMs": 60000, "dialMs": 600000})
        self.assertEqual(self.client(proxy).connect(f"ok.test:{self.upstream.port}").status, 200)

    def test_a_silent_a_query_does_not_hold_back_aaaa(self):
        origin = self.origin(echo, host="::1")
        self.dns.script("ok.test", "A", DROP)
        self.dns.script("ok.test", "AAAA", Answer("::1"))
        proxy = self.proxy(origin, timeouts={"dnsQueryMs": 60000, "dialMs": 600000})
        self.assertEqual(self.client(proxy).connect(f"ok.test:{origin.port}").status, 200)

    def test_everything_dead_is_a_timeout(self):
        self.dns.add("ok.test", self.hole.host)
        proxy = self.proxy(allowed=["ok.test", f"{self.hole.host}:{self.hole.port}"],
                           timeouts={"dialMs": 300})
        r = self.client(proxy).connect(f"ok.test:{self.hole.port}")
        self.assertEqual((r.status, r.get("X-Proxy-Error")), (502, "upstream-timeout"))


class BlackHole:
    """An address and port whose SYNs are dropped: nobody accepts and the queue is full."""

    def __init__(self, host="127.0.4.1"):
        self.host = host
        self.listener = socket.socket()
        self.listener.bind((host, 0))
        self.listener.listen(0)
        self.port = self.listener.getsockname()[1]
        self.fill = []
        for _ in range(4):
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex((host, self.port))
            self.fill.append(s)

    def close(self):
        for s in self.fill:
            s.close()
        self.listener.close()


class SystemFiles(Case):
    """hosts, resolv.conf and nsswitch.conf, in a mount namespace of the test's own (as root)."""

    def setUp(self):
        super().setUp()
        self.upstream = self.origin(echo)
        probe = subprocess.run(["unshare", "-m", "true"], capture_output=True)
        if probe.returncode != 0:
            self.skipTest("needs root and a mount namespace: " + probe.stderr.decode())

    def run_inside(self, script):
        """Python that runs where the three files are ours; it must print OK."""
        text = INSIDE.format(top=repr(sys.path[0]), port=self.upstream.port) + script
        done = subprocess.run(["unshare", "-m", sys.executable, "-B", "-c", text],
                              capture_output=True, timeout=120)
        self.assertEqual(done.stdout.decode().strip().splitlines()[-1:], ["OK"],
                         done.stdout.decode() + done.stderr.decode())

    def test_the_hosts_file_comes_first(self):
        self.run_inside("""
write("hosts", "127.0.0.5 ok.test alias.wild.test\\n")
write("resolv.conf", "nameserver 127.0.0.254\\n")
p = start()
expect(p, "ok.test", 200)
expect(p, "ALIAS.wild.test.", 200)
write("hosts", "127.0.0.5 two.test\\n")
expect(p, "two.test", 200)
done(p)
""")

    def test_odd_files(self):
        self.run_inside("""
dns = server("127.0.0.53")
dns.add("ok.test", "127.0.0.5")
write("hosts", "")
write("resolv.conf", "search .\\nnameserver 127.0.0.53\\n")
write("nsswitch.conf", "hosts: files resolve\\n")
p = start()
expect(p, "ok.test", 200)
done(p)
""")

    def test_changes_are_seen(self):
        self.run_inside("""
dns = server("127.0.0.53")
dns.add("ok.test", "127.0.0.5")
write("hosts", "")
write("resolv.conf", "")
p = start()
first = ask(p, "ok.test")
assert first in (502, 504), first
write("resolv.conf", "nameserver 127.0.0.53\\n")
expect(p, "ok.test", 200)
other = server("127.0.0.54")
other.add("two.test", "127.0.0.5")
write("resolv.conf", "nameserver 127.0.0.54\\n")
expect(p, "two.test", 200)
done(p)
""")


INSIDE = """
import os, pathlib, subprocess, sys, tempfile, time
sys.path.insert(0, {top})
from harness import *

here = pathlib.Path(tempfile.mkdtemp())
PORT = {port}
for name in ("hosts", "resolv.conf", "nsswitch.conf"):
    (here / name).write_text(open("/etc/" + name).read() if os.path.exists("/etc/" + name) else "")
    if not os.path.exists("/etc/" + name):
        continue
    subprocess.run(["mount", "--bind", str(here / name), os.path.realpath("/etc/" + name)], check=True)

def write(name, text):
    time.sleep(0.05)  # another modification time
    (here / name).write_text(text)

def server(address):
    return DnsServer(address, 53)

def start():
    d = here / "proxy"
    d.mkdir()
    return Proxy(settings(["ok.test", "two.test", "*.wild.test", "127.0.0.5:%d" % PORT], [],
                          {{"timeouts": {{"dnsQueryMs": 300, "drainMs": 100}}}}), d)

def ask(p, name):
    with p.client() as c:
        return c.connect("%s:%d" % (name, PORT)).status

def expect(p, name, status):
    got = ask(p, name)
    assert got == status, (name, got, p.stderr())

def done(p):
    p.stop()
    print("OK")
"""
