"""Parent proxies that people run: squid and tinyproxy. Chapter 20 section 8, row C21."""

import os
import pathlib
import socket
import subprocess

from harness import WAIT, Authority, Case, echo, free_port, wait_for_port

AUTH = "/usr/lib/squid/basic_ncsa_auth"
PASSWORD = "p@ss w:rd"


def own_address():
    """An address of this machine that is not loopback: those always go direct."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing
        return probe.getsockname()[0]


class Parent:
    """A program in a directory of its own; its port is `port`."""

    def __init__(self, directory, program, options, conf, name="none"):
        self.name = name
        self.directory = directory
        self.directory.mkdir()
        self.directory.chmod(0o777)  # squid gives root away
        self.port = free_port("127.0.0.1")
        path = self.directory / "conf"
        path.write_text(conf.format(dir=self.directory, port=self.port))
        with open(self.directory / "out", "wb") as out:
            self.process = subprocess.Popen([Case.tool(program), *options, str(path)],
                                            stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            wait_for_port("127.0.0.1", self.port, self.process)
        except AssertionError as error:
            self.close()
            raise AssertionError(f"{error}: {(self.directory / 'out').read_text()}") from None

    def close(self):
        self.process.kill()
        self.process.wait(WAIT)
        for left in pathlib.Path("/dev/shm").glob(f"{self.name}-cf__*"):
            left.unlink()  # squid's, which it would have removed


class Parents:
    """The tests, for each program."""

    def setUp(self):
        super().setUp()
        self.directory.chmod(0o755)
        self.host = own_address()
        self.ca = Authority(self.directory)
        self.plain = self.http(host=self.host)
        self.secure = self.http(host=self.host, tls=self.ca.server_context(self.host))
        self.echo = self.origin(echo, host=self.host)
        self.parent = self.start()
        self.addCleanup(self.parent.close)

    def gateway(self, user=None, port=None, **kw):
        userinfo = f"{user}@" if user else ""
        where = {"http": f"http://{userinfo}127.0.0.1:{port or self.parent.port}", **kw}
        return self.proxy(self.plain, self.secure, self.echo, parentProxy=where,
                          env={"SSL_CERT_FILE": str(self.ca.cert), "SSL_CERT_DIR": "/nonexistent"})

    good = "user:p%40ss%20w%3Ard"

    def url(self, origin, scheme="http"):
        return f"{scheme}://{self.host}:{origin.port}"

    def both_reach(self, gateway):
        client = self.client(gateway)
        for i in range(3):
            r = client.get(f"{self.url(self.plain)}/{i}")
            self.assertEqual((r.status, r.body), (200, b"hello\n"), r)
        for i in range(2):
            r = client.get(f"{self.url(self.secure, 'https')}/{i}")
            self.assertEqual((r.status, r.body), (200, b"hello\n"), r)
        client = self.client(gateway)
        r = client.connect(f"{self.host}:{self.echo.port}", ahead=b"ahead ")
        self.assertEqual(r.status, 200)
        client.send(b"then")
        self.assertEqual(client.exactly(10), b"ahead then")
        client = self.client(gateway)
        client.socks_greet()
        self.assertEqual(client.socks(self.host, self.echo.port)[1], 0)
        self.assertEqual(client.send(b"socks").exactly(5), b"socks")

    def test_every_way_goes_through_it(self):
        gateway = self.gateway(self.good)
        self.both_reach(gateway)
        self.assertEqual(self.plain.requests[0].get("Host"), f"{self.host}:{self.plain.port}")
        for origin in (self.plain, self.secure):
            for request in origin.requests:
                self.assertIsNone(request.get("Proxy-Authorization"))
        # each connection was the parent's: stopped, it takes everything with it
        self.parent.close()
        client = self.client(gateway)
        self.assertEqual(client.get(self.url(self.plain) + "/").status, 502)

    def test_bodies_both_ways(self):
        gateway = self.gateway(self.good)
        body = os.urandom(1000000)
        self.plain.respond = lambda request: (
            b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(request.body) + request.body)
        client = self.client(gateway)
        for fields, data in ((f"Content-Length: {len(body)}\r\n", body),
                             ("Transfer-Encoding: chunked\r\n",
                              b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))):
            client.send(f"POST {self.url(self.plain)}/ HTTP/1.1\r\nHost: x\r\n{fields}\r\n".encode()
                        + data)
            self.assertEqual(client.response().body, body)

    def test_wrong_and_missing_credentials(self):
        for user in (None, "user:wrong"):
            gateway = self.gateway(user)
            client = self.client(gateway)
            for url in (self.url(self.plain), self.url(self.secure, "https")):
                r = client.get(url + "/")
                if (user, r.status, url[:5]) != ("user:wrong", self.says_to_wrong_ones, "http:"):
                    self.assertEqual((r.status, r.get("X-Proxy-Error")), (502, "upstream-parent"), r)
                self.assertIsNone(r.get("Proxy-Authenticate"))
            r = self.client(gateway).connect(f"{self.host}:{self.echo.port}")
            self.assertEqual((r.status, r.get("X-Proxy-Error")), (502, "upstream-parent"))
            self.assertIn(f"parent proxy 127.0.0.1:{self.parent.port}", gateway.stderr())
        for origin in (self.plain, self.secure, self.echo):
            self.assertEqual(origin.connections, [])

    def test_what_the_parent_cannot_reach(self):
        closed = self.closed_port(self.host)
        self.plain.port, port = closed, self.plain.port
        gateway = self.gateway(self.good)
        self.plain.port = port
        r = self.client(gateway).connect(f"{self.host}:{closed}")
        self.assertEqual((r.status, r.get("X-Proxy-Error")), (502, "upstream-parent"))
        r = self.client(gateway).get(f"http://{self.host}:{closed}/")
        self.assertIn(r.status, (500, 502, 503, 504))  # the parent's own answer

    def test_no_proxy(self):
        network = ".".join(self.host.split(".")[:3]) + ".0/24"
        for no_proxy in (network, self.host, f"x.test, {network}", "*"):
            with self.subTest(no_proxy):
                gateway = self.gateway("user:wrong", noProxy=no_proxy)
                self.both_reach(gateway)
        gateway = self.gateway("user:wrong", noProxy="x.test,203.0.113.0/24,.2.3")
        self.assertIn(self.client(gateway).get(self.url(self.plain) + "/").status,
                      (502, self.says_to_wrong_ones))

    def test_dead(self):
        gateway = self.gateway(port=self.closed_port("127.0.0.1"))
        self.assertEqual(self.client(gateway).get(self.url(self.plain) + "/").status, 502)
        self.assertEqual(self.client(gateway).get(self.url(self.secure, "https") + "/").status, 502)
        r = self.client(gateway).connect(f"{self.host}:{self.echo.port}")
        self.assertEqual((r.status, r.get("X-Proxy-Error")), (502, "upstream-parent"))
        client = self.client(gateway)
        client.socks_greet()
        self.assertIn(client.socks(self.host, self.echo.port)[1], (4, 5))
        self.assertIn("parent proxy 127.0.0.1:", gateway.stderr())
        for origin in (self.plain, self.secure, self.echo):
            self.assertEqual(origin.connections, [])


SQUID = """
http_port 127.0.0.1:{{port}}
auth_param basic program {auth} {users}
auth_param basic children 1
auth_param basic utf8 off
acl known proxy_auth REQUIRED
http_access allow known
http_access deny all
cache deny all
access_log stdio:{{dir}}/access
cache_log {{dir}}/cache.log
cache_store_log none
pid_filename none
coredump_dir {{dir}}
shutdown_lifetime 0 seconds
visible_hostname squid.test
pinger_enable off
"""


class Squid(Parents, Case):
    number = 0  # squids share memory by name
    says_to_wrong_ones = 407

    def start(self):
        if not pathlib.Path(AUTH).exists():
            self.fail(f"{AUTH} is not there: it comes with squid")
        Squid.number += 1
        hashed = subprocess.run([self.tool("openssl"), "passwd", "-1", "-stdin"], check=True,
                                input=PASSWORD.encode(), stdout=subprocess.PIPE).stdout.decode()
        users = self.directory / "users"
        users.write_text(f"user:{hashed}")
        name = f"srt{os.getpid()}x{self.number}"
        return Parent(self.directory / "squid", "squid", ["-N", "-n", name, "-f"],
                      SQUID.format(auth=AUTH, users=users), name)


TINYPROXY = """
Port {{port}}
Listen 127.0.0.1
Timeout 60
MaxClients 100
LogLevel Info
LogFile "{{dir}}/access"
DisableViaHeader Yes
BasicAuth {user} {password}
"""


class Tinyproxy(Parents, Case):
    says_to_wrong_ones = 401  # which is not a proxy's challenge, and is relayed
    good = "user:secret"

    def start(self):
        return Parent(self.directory / "tinyproxy", "tinyproxy", ["-d", "-c"],
                      TINYPROXY.format(user="user", password="secret"))
