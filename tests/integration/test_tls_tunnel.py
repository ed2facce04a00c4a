"""From a CONNECT to the handshake: what is terminated, slots, sniffing. Chapter 30 sections 5 and 13."""

import base64
import socket
import time

from harness import TOKEN, TlsCase, TlsSocket, echo, quick
from harness.resources import until

FULL = ("deny http-request CONNECT ok.test:{port} (the sandbox's limit of {n} TLS-terminated tunnels "
        "at once is reached; the limit is network.tlsTerminate.maxTunnels in the sandbox's "
        "configuration)")


class Choice(TlsCase):
    """Which tunnels are terminated."""

    def issuer(self, proxy, origin, host):
        """Who signed the certificate that a client sees."""
        client = self.opened(proxy, f"{host}:{origin.port}")
        tls = TlsSocket(client.sock, self.lenient(), host).handshake()
        der = tls.tls.getpeercert(binary_form=True)
        return "gateway" if b"srt CA" in der else "origin" if b"Origins" in der else "nobody"

    @quick
    def test_all_unless_excluded(self):
        origin = self.https()
        proxy = self.gateway(origin, tls={"excludeDomains": ["two.test", "*.wild.test"]})
        self.assertEqual(self.issuer(proxy, origin, "ok.test"), "gateway")
        self.assertEqual(self.issuer(proxy, origin, "two.test"), "origin")
        self.assertEqual(self.issuer(proxy, origin, "TWO.test."), "origin")
        self.assertEqual(self.issuer(proxy, origin, "a.wild.test"), "origin")
        self.assertEqual(self.issuer(proxy, origin, "127.0.0.5"), "gateway")

    def test_only_those_named(self):
        origin = self.https()
        proxy = self.gateway(origin, tls={"onlyHosts": ["ok.test", "*.wild.test"],
                                          "excludeDomains": ["b.wild.test"]})
        self.assertEqual(self.issuer(proxy, origin, "ok.test"), "gateway")
        self.assertEqual(self.issuer(proxy, origin, "two.test"), "origin")
        self.assertEqual(self.issuer(proxy, origin, "a.wild.test"), "gateway")
        self.assertEqual(self.issuer(proxy, origin, "b.wild.test"), "origin")

    def refused(self, proxy, host, port):
        with proxy.client() as client:
            client.send(f"CONNECT {host}:{port} HTTP/1.1\r\n\r\n")
            self.assertEqual(client.rest(),
                             b"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\n"
                             b"X-Proxy-Error: blocked-by-sandbox-runtime\r\n\r\n"
                             b"this proxy does not tunnel CONNECTs it cannot inspect")

    @quick
    def test_the_others_may_be_refused(self):
        origin = self.https()
        proxy = self.gateway(origin, tls={"excludeDomains": ["two.test"]}, refuseOpaqueTunnels=True,
                             args=["--debug"])
        self.refused(proxy, "two.test", origin.port)
        self.assertEqual(self.issuer(proxy, origin, "ok.test"), "gateway")
        self.assertEqual(self.violations(proxy), [
            f"deny http-request CONNECT two.test:{origin.port} (this proxy does not tunnel "
            "CONNECTs it cannot inspect)"])
        proxy = self.gateway(origin, tls={"onlyHosts": ["ok.test"]}, refuseOpaqueTunnels=True)
        self.refused(proxy, "a.wild.test", origin.port)
        self.assertEqual(self.issuer(proxy, origin, "ok.test"), "gateway")

    def test_policy_comes_first(self):
        proxy = self.gateway(tls={"excludeDomains": ["no.test"]}, refuseOpaqueTunnels=True)
        self.denied(self.client(proxy).connect("no.test:443"))
        self.assertEqual(self.client(proxy).connect("ok.test:0").status, 400)

    def test_the_password_comes_first(self):
        proxy = self.gateway(token=TOKEN)
        client = self.client(proxy)
        self.assertEqual(client.connect("no.test:443").status, 407)
        self.denied(client.connect("no.test:443", f"Proxy-Authorization: Basic {basic()}\r\n"))


def basic(user="srt"):
    return base64.b64encode(f"{user}:{TOKEN}".encode()).decode()


class Slots(TlsCase):
    def full(self, proxy, origin, user=None):
        with proxy.client() as client:
            fields = f"Proxy-Authorization: Basic {basic(user)}\r\n" if user else ""
            client.send(f"CONNECT ok.test:{origin.port} HTTP/1.1\r\n{fields}\r\n")
            return client.rest()

    @quick
    def test_past_the_last_one(self):
        origin = self.https()
        proxy = self.gateway(origin, tls={"maxTunnels": 2}, args=["--debug"])
        line = FULL.format(port=origin.port, n=2)
        first, second = self.inside(proxy, origin), self.inside(proxy, origin)
        for _ in range(3):
            self.assertEqual(self.full(proxy, origin),
                             b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n"
                             b"X-Proxy-Error: too-many-tunnels\r\nConnection: close\r\n\r\n"
                             b"too many TLS-terminated tunnels at once")
        self.assertEqual(self.violations(proxy), [line])
        self.assertEqual(self.ask(first).status, 200)
        self.assertEqual([(r["status"], r["close"]) for r in proxy.records(6)].count(
            (503, "too-many-tunnels")), 3)
        # One of two is free, and with it the memory of who was told.
        first.close()
        self.assertTrue(until(lambda: b" 200 " in self.peek(proxy, origin)))
        third = self.inside(proxy, origin)
        self.full(proxy, origin)
        self.assertEqual(self.violations(proxy), [line, line])
        self.assertEqual(self.ask(second).status, 200)
        self.assertEqual(self.ask(third).status, 200)

    def peek(self, proxy, origin):
        with proxy.client() as client:
            return client.connect(f"ok.test:{origin.port}").head

    def test_each_command_is_told_once(self):
        origin = self.https()
        proxy = self.gateway(origin, tls={"maxTunnels": 1}, args=["--debug"], token=TOKEN)
        holder = self.inside(proxy, origin,
                             fields=f"Proxy-Authorization: Basic {basic('srt.YQ==')}\r\n")
        for user in ("srt.YQ==", "srt.Yg==", "srt", "srt.YQ==", "srt.Yg==", "srt"):
            self.assertIn(b" 503 ", self.full(proxy, origin, user))
        self.assertEqual(len(self.violations(proxy)), 3)
        self.assertEqual(self.ask(holder).status, 200)

    def test_a_hundred_commands_are_remembered(self):
        origin = self.https()
        proxy = self.gateway(origin, tls={"maxTunnels": 1}, args=["--debug"], token=TOKEN)
        holder = self.inside(proxy, origin, fields=f"Proxy-Authorization: Basic {basic()}\r\n")
        users = ["srt." + base64.b64encode(str(n).encode()).decode() for n in range(101)]
        for user in users[:100] * 2:
            self.full(proxy, origin, user)
        self.assertEqual(len(self.violations(proxy)), 100)
        self.full(proxy, origin, users[100])
        self.full(proxy, origin, users[100])
        self.assertEqual(len(self.violations(proxy)), 101)
        self.full(proxy, origin, users[0])
        self.assertEqual(len(self.violations(proxy)), 102)
        self.assertEqual(self.ask(holder).status, 200)

    def test_slots_are_for_tls_alone(self):
        origin = self.origin(echo)
        proxy = self.gateway(origin, tls={"maxTunnels": 1})
        opaque = [self.opened(proxy, f"ok.test:{origin.port}").send(b"ping") for _ in range(3)]
        for client in opaque:
            self.assertEqual(client.exactly(4), b"ping")
        silent = [self.opened(proxy, f"ok.test:{origin.port}") for _ in range(3)]
        self.assertEqual(len(silent), 3)

    def test_the_last_one_goes_between_the_200_and_the_hello(self):
        origin = self.https()
        proxy = self.gateway(origin, tls={"maxTunnels": 1}, args=["--debug"])
        late = self.opened(proxy, f"ok.test:{origin.port}")
        holder = self.inside(proxy, origin)
        tls = TlsSocket(late.sock, self.context(), "ok.test")
        late.send(tls.hello)
        self.assertTrue(late.ended())
        self.assertEqual(self.violations(proxy), [FULL.format(port=origin.port, n=1)])
        self.assertEqual(self.ask(holder).status, 200)
        self.assertIn((200, "too-many-tunnels"),
                      [(r["status"], r["close"]) for r in proxy.records(3)])

    def test_every_end_gives_its_slot_back(self):
        origin = self.https()
        proxy = self.gateway(origin, tls={"maxTunnels": 1, "handshakeTimeoutMs": 200},
                             timeouts={"keepAliveMs": 200, "firstRequestMs": 200})

        def reset():
            self.inside(proxy, origin).reset()

        def half_hello():
            client = self.opened(proxy, f"ok.test:{origin.port}")
            client.send(TlsSocket(client.sock, self.context(), "ok.test").hello[:50])
            client.rest()

        def garbage():
            client = self.opened(proxy, f"ok.test:{origin.port}")
            client.send(b"\x16\x03\x01\x00\x05hello")
            client.rest()

        def idle():
            self.orderly_end(self.inside(proxy, origin))

        def asked():
            client = self.inside(proxy, origin)
            self.ask(client, fields="Connection: close\r\n")

        def closed():
            client = self.inside(proxy, origin)
            client.sock.close_notify()
            client.close()

        def cut():
            self.inside(proxy, origin).half_close()

        for end in (reset, half_hello, garbage, idle, asked, closed, cut):
            with self.subTest(end.__name__):
                end()
                self.assertTrue(until(lambda: b" 200 " in self.peek(proxy, origin)))


class Sniff(TlsCase):
    @quick
    def test_what_is_not_tls_passes(self):
        origin = self.origin(echo)
        proxy = self.gateway(origin)
        for ahead, more in ((b"GET / HTTP/1.1\r\n", b"\r\n"), (b"", b"SSH-2.0-x\r\n"), (b"S", b"SH-"),
                            (b"\x16\x03", b"\x04xx"), (b"\x16", b"\x02\x00")):
            client = self.opened(proxy, f"ok.test:{origin.port}", ahead=ahead)
            client.send(more)
            self.assertEqual(client.exactly(len(ahead + more)), ahead + more)
            client.half_close()
            self.assertEqual(client.rest(), b"")
        record = proxy.records(1)[0]
        self.assertEqual((record["via"], record["status"], record["close"], record["bytesUp"]),
                         ("connect", 200, "done", 18))

    def test_half_close_after_the_sniff(self):
        def handler(conn):
            data = conn.rest()
            time.sleep(0.2)
            conn.send(data * 2)

        origin = self.origin(handler)
        client = self.opened(self.gateway(origin), f"ok.test:{origin.port}")
        client.send(b"one line\n").half_close()
        self.assertEqual(client.rest(), b"one line\none line\n")

    @quick
    def test_or_is_cut(self):
        origin = self.origin(echo)
        proxy = self.gateway(origin, refuseOpaqueTunnels=True, args=["--debug"])
        client = self.opened(proxy, f"ok.test:{origin.port}", ahead=b"SSH-2.0-x\r\n")
        self.assertTrue(client.ended())
        self.assertEqual(origin.connections, [])
        self.assertEqual(self.violations(proxy), [
            f"deny http-request CONNECT ok.test:{origin.port} (tunnel carries no TLS and cannot be "
            "inspected)"])
        record = proxy.records(1)[0]
        self.assertEqual((record["verdict"], record["close"]), ("deny", "opaque-tunnel"))

    def test_a_failed_dial_just_closes(self):
        proxy = self.gateway(allowed=["ok.test", f"127.0.0.5:{self.closed_port()}"])
        port = self.closed_port()
        client = self.opened(self.gateway(allowed=["ok.test", f"127.0.0.5:{port}"]),
                             f"ok.test:{port}")
        client.send(b"SSH-2.0-x\r\n")
        self.assertTrue(client.ended())
        # and an address that is not allowed
        proxy = self.gateway(args=["--debug"])
        client = self.opened(proxy, f"ok.test:{port}")
        client.send(b"SSH-2.0-x\r\n")
        self.assertTrue(client.ended())
        self.assertIn(f"deny network-outbound ok.test:{port} (resolved to a loopback address)",
                      proxy.stderr())
        record = proxy.records(1)[0]
        self.assertEqual((record["verdict"], record["addressClass"], record["close"]),
                         ("deny", "loopback", "address"))

    def test_the_end_of_a_client_that_says_nothing(self):
        proxy = self.gateway()
        for ahead in (b"", b"\x16", b"\x16\x03"):
            client = self.opened(proxy, "ok.test:443")
            client.send(ahead).half_close()
            self.assertTrue(client.ended())

    def test_the_deadline_of_a_client_that_says_nothing(self):
        proxy = self.gateway(tls={"handshakeTimeoutMs": 300}, refuseOpaqueTunnels=True)
        for first in (b"", b"\x16", b"\x16\x03", b"\x16\x03\x01\x00\x50\x01"):
            begun = time.monotonic()
            client = self.opened(proxy, "ok.test:443", ahead=first)
            self.assertTrue(client.ended())
            self.assertTrue(0.25 < time.monotonic() - begun < 5)
        self.assertEqual({r["close"] for r in proxy.records(4)}, {"client-tls-timeout"})

    def test_hello_in_the_same_packet(self):
        origin = self.https()
        proxy = self.gateway(origin)
        client = self.client(proxy)
        tls = TlsSocket(client.sock, self.context(), "ok.test")
        client.send(f"CONNECT ok.test:{origin.port} HTTP/1.1\r\n\r\n".encode() + tls.hello)
        self.assertEqual(client.head().status, 200)
        tls.coming.write(client.reader.ahead)
        tls.handshake([])
        tls.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertIn(b"200 OK", tls.recv(100))


class ServerFirst(TlsCase):
    @staticmethod
    def mail(conn):
        conn.send("220 mail\r\n")
        conn.send(b"250 " + conn.until(b"\r\n"))
        conn.rest()

    @quick
    def test_a_server_that_speaks_first(self):
        origin = self.origin(self.mail)
        proxy = self.gateway(origin, timeouts={"serverFirstMs": 50})
        client = self.opened(proxy, f"ok.test:{origin.port}")
        self.assertEqual(client.until(b"\r\n"), b"220 mail\r\n")
        self.assertEqual(client.send("EHLO\r\n").until(b"\r\n"), b"250 EHLO\r\n")

    def test_both_wait_and_the_client_speaks(self):
        origin = self.origin(echo)
        proxy = self.gateway(origin, timeouts={"serverFirstMs": 50})
        client = self.opened(proxy, f"ok.test:{origin.port}")
        origin.connection()
        client.send(b"hello")
        self.assertEqual(client.exactly(5), b"hello")
        self.assertEqual(len(origin.connections), 1)

    def test_both_wait_and_the_client_speaks_tls(self):
        origin = self.https()
        proxy = self.gateway(origin, timeouts={"serverFirstMs": 50})
        client = self.opened(proxy, f"ok.test:{origin.port}")
        time.sleep(0.3)
        self.secure(client)
        self.assertEqual(self.ask(client).status, 200)

    def test_not_where_opaque_tunnels_are_refused(self):
        origin = self.origin(self.mail)
        proxy = self.gateway(origin, refuseOpaqueTunnels=True, tls={"handshakeTimeoutMs": 300},
                             timeouts={"serverFirstMs": 50})
        client = self.opened(proxy, f"ok.test:{origin.port}")
        self.assertTrue(client.ended())
        self.assertEqual(origin.connections, [])

    def test_a_server_that_is_not_there(self):
        port = self.closed_port()
        proxy = self.gateway(allowed=["ok.test", f"127.0.0.5:{port}"],
                             timeouts={"serverFirstMs": 50})
        client = self.opened(proxy, f"ok.test:{port}")
        time.sleep(0.3)
        r = self.ask(self.secure(client))
        self.assertEqual((r.status, r.get("X-Proxy-Error")), (502, "upstream-refused"))

    def test_both_silent(self):
        origin = self.origin(lambda conn: conn.rest())
        proxy = self.gateway(origin, tls={"handshakeTimeoutMs": 500},
                             timeouts={"serverFirstMs": 50})
        client = self.opened(proxy, f"ok.test:{origin.port}")
        self.assertTrue(client.ended())
        self.assertEqual(origin.finished().received, b"")


class Resets(TlsCase):
    def test_a_client_that_goes_at_any_moment(self):
        origin = self.https()
        proxy = self.gateway(origin)
        hello = TlsSocket(socket.socket(), self.context(), "ok.test").hello
        for n in (0, 1, 3, 40, len(hello)):
            client = self.opened(proxy, f"ok.test:{origin.port}")
            client.send(hello[:n])
            time.sleep(0.02)
            client.reset()
        self.assertEqual(self.ask(self.inside(proxy, origin)).status, 200)
