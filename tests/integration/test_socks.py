"""SOCKS5, and SOCKS4's refusal, on the same port. Chapter 20 section 5."""

import ipaddress
import struct
import threading

from harness import TOKEN, Answer, Case, Client, echo, quick, socks_request

OK = b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"


def reply(code):
    return bytes([5, code, 0, 1, 0, 0, 0, 0, 0, 0])


class Greeting(Case):
    def exchange(self, data, token=False):
        return self.client(self.proxy(token=token)).send(data).half_close().rest()

    @quick
    def test_methods_without_a_token(self):
        for offer, answer in ((b"\x05\x01\x00", b"\x05\x00"), (b"\x05\x02\x00\x02", b"\x05\x00"),
                              (b"\x05\x02\x02\x00", b"\x05\x00"), (b"\x05\x01\x02", b"\x05\xff"),
                              (b"\x05\x01\x01", b"\x05\xff"), (b"\x05\x00", b""),
                              (b"\x05\xff" + bytes(range(255)), b"\x05\x00"),
                              (b"\x05\xff" + bytes(range(1, 256)), b"\x05\xff")):
            with self.subTest(offer):
                self.assertEqual(self.exchange(offer), answer)

    @quick
    def test_methods_with_a_token(self):
        for offer, answer in ((b"\x05\x01\x02", b"\x05\x02"), (b"\x05\x02\x00\x02", b"\x05\x02"),
                              (b"\x05\x01\x00", b"\x05\x00"), (b"\x05\x01\x01", b"\x05\xff"),
                              (b"\x05\x00", b"")):
            with self.subTest(offer):
                self.assertEqual(self.exchange(offer, TOKEN), answer)

    @quick
    def test_socks4(self):
        for data in (b"\x04\x01\x00\x50\x7f\x00\x00\x05\x00",
                     b"\x04\x01\x00\x50\x00\x00\x00\x01user\x00ok.test\x00", b"\x04"):
            with self.subTest(data):
                self.assertEqual(self.exchange(data), b"\x00\x5b\x00\x00\x00\x00\x00\x00")

    def test_passwords(self):
        proxy = self.proxy(token=TOKEN)
        for user, password, answer in (
                (b"srt", TOKEN.encode(), b"\x01\x00"), (b"srt.a2V5", TOKEN.encode(), b"\x01\x00"),
                (b"srt.", TOKEN.encode(), b"\x01\x00"), (b"other", TOKEN.encode(), b"\x01\x01"),
                (b"srtx", TOKEN.encode(), b"\x01\x01"), (b"SRT", TOKEN.encode(), b"\x01\x01"),
                (b"srt", TOKEN.encode()[:-1], b"\x01\x01"), (b"srt", b"", b"\x01\x01"),
                (b"", TOKEN.encode(), b"\x01\x01"), (b"srt", TOKEN.upper().encode() + b"x", b"\x01\x01")):
            with self.subTest((user, password)):
                client = self.client(proxy)
                self.assertEqual(client.socks_greet(user, password), answer)
                if answer == b"\x01\x01":
                    self.assertTrue(client.ended())

    def test_deadlines(self):
        proxy = self.proxy(timeouts={"socksHandshakeMs": 300})
        for data in (b"\x05", b"\x05\x01\x00", b"\x05\x01\x00\x05\x01\x00\x03\x07ok"):
            client = self.client(proxy).send(data)
            self.assertIn(client.rest(), (b"", b"\x05\x00"))


class Request(Case):
    def setUp(self):
        super().setUp()
        self.upstream = self.origin(echo)
        self.gateway = self.proxy(self.upstream)

    def ask(self, request, proxy=None):
        client = self.client(proxy or self.gateway)
        self.assertEqual(client.socks_greet(), b"\x05\x00")
        client.send(request)
        answer = client.exactly(10)
        if answer != OK:
            self.assertTrue(client.ended())
        return client, answer

    @quick
    def test_every_address_type(self):
        six = self.origin(echo, host="::1")
        proxy = self.proxy(self.upstream, six)
        for host, port in (("ok.test", self.upstream.port), ("OK.TEST.", self.upstream.port),
                           ("127.0.0.5", self.upstream.port), ("127.5", self.upstream.port),
                           ("::1", six.port), ("[::1]", six.port),
                           (ipaddress.ip_address("127.0.0.5"), self.upstream.port),
                           (ipaddress.ip_address("::ffff:127.0.0.5"), self.upstream.port),
                           (ipaddress.ip_address("::1"), six.port)):
            with self.subTest(str(host)):
                client, answer = self.ask(socks_request(host, port) + b"ping", proxy)
                self.assertEqual(answer, OK)
                self.assertEqual(client.exactly(4), b"ping")

    @quick
    def test_refusals_in_full(self):
        for request, code in (
                (socks_request("no.test", 443), 2),
                (socks_request(ipaddress.ip_address("127.0.0.1"), 443), 2),
                (socks_request(ipaddress.ip_address("::1"), 443), 2),
                (socks_request("ok.test\0.no", 443), 2), (socks_request(b"ok.test\xc3\xa9", 443), 2),
                (socks_request("ok%2etest", 443), 2), (socks_request("*.wild.test", 443), 2),
                (socks_request("", 443), 2), (socks_request("a" * 255, 443), 2),
                (socks_request("fe80::1%lo", 443), 2), (socks_request("1.2.3.08", 443), 2),
                (socks_request("ok.test", 443, command=2), 7),
                (socks_request("ok.test", 443, command=3), 7),
                (socks_request("ok.test", 443, command=0), 7),
                (socks_request("ok.test", 443, command=9), 7),
                (b"\x05\x01\x00\x09", 8), (b"\x05\x01\x00\x00", 8), (b"\x05\x01\x00\x02", 8)):
            with self.subTest(request):
                _, answer = self.ask(request)
                self.assertEqual(answer, reply(code))
        self.assertEqual(self.upstream.connections, [])

    def test_port_zero(self):
        _, answer = self.ask(socks_request("ok.test", 0))
        self.assertEqual(answer, reply(4))

    def test_dial_failures(self):
        port = self.closed_port()
        self.dns.script("gone.wild.test", "A", Answer(rcode=3))
        proxy = self.proxy(allowed=["ok.test", "*.wild.test", f"127.0.0.5:{port}"])
        self.dns.add("inside.wild.test", "127.0.0.9")
        for host, where, code in (("ok.test", port, 5), ("gone.wild.test", 443, 4),
                                  ("inside.wild.test", 443, 2)):
            with self.subTest(host):
                _, answer = self.ask(socks_request(host, where), proxy)
                self.assertEqual(answer, reply(code))

    def test_refuse_opaque_tunnels_comes_before_the_policy(self):
        proxy = self.proxy(self.upstream, refuseOpaqueTunnels=True)
        for host in ("ok.test", "no.test"):
            _, answer = self.ask(socks_request(host, self.upstream.port), proxy)
            self.assertEqual(answer, reply(1))

    @quick
    def test_one_byte_a_packet(self):
        client = self.client(self.gateway)
        client.send_slowly(b"\x05\x01\x00" + socks_request("ok.test", self.upstream.port) + b"data")
        self.assertEqual(client.exactly(12), b"\x05\x00" + OK)
        self.assertEqual(client.exactly(4), b"data")

    @quick
    def test_everything_in_one_packet(self):
        proxy = self.proxy(self.upstream, token=TOKEN)
        client = self.client(proxy)
        client.send(b"\x05\x02\x00\x02" + b"\x01\x03srt" + bytes([len(TOKEN)]) + TOKEN.encode()
                    + socks_request("ok.test", self.upstream.port) + b"first data")
        self.assertEqual(client.exactly(14), b"\x05\x02\x01\x00" + OK)
        self.assertEqual(client.exactly(10), b"first data")

    @quick
    def test_half_close(self):
        client, _ = self.ask(socks_request("ok.test", self.upstream.port) + b"x" * 70)
        client.half_close()
        self.assertEqual(client.rest(), b"x" * 70)

    def test_a_client_that_leaves_is_not_dialled_for(self):
        self.dns.script("two.test", "A", Answer("127.0.0.5", delay=0.5))
        client = self.client(self.gateway)
        client.send(b"\x05\x01\x00" + socks_request("two.test", self.upstream.port)).half_close()
        self.assertIn(client.rest(), (b"", b"\x05\x00"))
        threading.Event().wait(0.8)
        self.assertEqual(self.upstream.connections, [])

    def test_too_much_early_data_closes(self):
        self.dns.script("two.test", "A", Answer(drop=True))
        self.dns.script("two.test", "AAAA", Answer(drop=True))
        client = self.client(self.gateway)
        client.send(b"\x05\x01\x00" + socks_request("two.test", 443))
        try:
            for _ in range(64):
                client.send(bytes(65536))
        except ConnectionError:
            pass
        self.assertIn(client.rest(), (b"\x05\x00", b""))

    def test_http_and_socks_share_the_port(self):
        self.assertEqual(self.client(self.gateway).connect(f"ok.test:{self.upstream.port}").status, 200)
        _, answer = self.ask(socks_request("ok.test", self.upstream.port))
        self.assertEqual(answer, OK)


class Unauthenticated(Case):
    """Clients that cannot log in where a token is required: section 5.4."""

    def ask(self, host, port, **kw):
        proxy = self.proxy(token=TOKEN, **kw)
        client = Client(proxy.address)
        self.addCleanup(client.close)
        self.assertEqual(client.socks_greet(), b"\x05\x00")
        client.send(socks_request(host, port))
        return proxy, client

    @quick
    def test_other_ports_are_refused(self):
        for host in ("ok.test", "no.test"):
            _, client = self.ask(host, 443)
            self.assertEqual(client.rest(), reply(2))
        self.assertEqual(self.dns.queries, [])

    def disconnect(self, data):
        """The description of the SSH packet behind the reply and the version line."""
        self.assertEqual(data[:10], OK)
        self.assertTrue(data[10:].startswith(b"SSH-2.0-policy_refusal\r\n"), data)
        packet = data[10 + 24 :]
        length, padding, message, reason = struct.unpack_from(">IBBI", packet)
        self.assertEqual(len(packet), 4 + length)
        self.assertEqual(len(packet) % 8, 0)
        self.assertTrue(4 <= padding <= 11)
        self.assertEqual((message, reason), (1, 1))
        (size,) = struct.unpack_from(">I", packet, 10)
        text = packet[14 : 14 + size].decode()
        self.assertEqual(packet[14 + size :], bytes(4) + bytes(padding))
        return text

    @quick
    def test_port_22_says_why_in_ssh(self):
        _, client = self.ask("ok.test", 22)
        self.assertEqual(self.disconnect(client.rest()),
                         "This proxy requires authentication, and this client did not offer an "
                         "authentication method, so the connection was refused.")

    def test_port_22_on_the_deny_list(self):
        proxy, client = self.ask("no.test", 22, denied=["no.test", "two.test"],
                                 deniedDomainReasons={"no.test": "use the\n mirror: caf\u00e9"})
        self.assertEqual(self.disconnect(client.rest()), "use the  mirror: caf\u00e9")
        proxy, client = self.ask("two.test", 22, denied=["two.test"])
        self.assertEqual(self.disconnect(client.rest()), "host is on the deny list")

    def test_the_time_to_ask(self):
        proxy = self.proxy(token=TOKEN, timeouts={"socksUnauthenticatedMs": 300})
        client = self.client(proxy)
        self.assertEqual(client.socks_greet(), b"\x05\x00")
        self.assertTrue(client.ended())

    def test_a_host_that_is_not_valid(self):
        _, client = self.ask("a b", 22)
        self.assertEqual(client.rest(), reply(2))
