"""CONNECT: the tunnel, its edges, and the answers instead of one. Chapter 20 section 4."""

import base64
import hashlib
import threading
import time

from harness import DROP, TOKEN, Answer, Case, Closed, echo, quick


def basic(user, password):
    text = base64.b64encode(f"{user}:{password}".encode()).decode()
    return f"Proxy-Authorization: Basic {text}\r\n"


@quick
class Established(Case):
    def test_the_answer_is_the_status_line_and_nothing_else(self):
        origin = self.origin(echo)
        client = self.client(self.proxy(origin))
        client.send(f"CONNECT ok.test:{origin.port} HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertEqual(client.until(b"\r\n\r\n"),
                         b"HTTP/1.1 200 Connection Established\r\n\r\n")
        client.send("ping")
        self.assertEqual(client.exactly(4), b"ping")

    def test_http_1_0_and_no_host_field(self):
        origin = self.origin(echo)
        client = self.client(self.proxy(origin))
        client.send(f"CONNECT ok.test:{origin.port} HTTP/1.0\r\n\r\nhi")
        self.assertEqual(client.head().status, 200)
        self.assertEqual(client.exactly(2), b"hi")

    def test_head_one_byte_at_a_time(self):
        origin = self.origin(echo)
        client = self.client(self.proxy(origin))
        client.send_slowly(f"CONNECT ok.test:{origin.port} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        self.assertEqual(client.head().status, 200)

    def test_content_length_of_a_connect_means_nothing(self):
        origin = self.origin(echo)
        client = self.client(self.proxy(origin))
        r = client.connect(f"ok.test:{origin.port}", "Content-Length: 3\r\n", ahead=b"abcdef")
        self.assertEqual(r.status, 200)
        self.assertEqual(client.exactly(6), b"abcdef")

    def test_spellings_of_one_destination(self):
        origin = self.origin(echo)
        proxy = self.proxy(origin)
        for target in ("ok.test", "OK.TEST", "ok.test.", "Ok.Test.", "127.0.0.5", "0x7f.0.0.5",
                       "127.5", "[::ffff:127.0.0.5]", "[0::FFFF:7f00:5]"):
            with self.subTest(target):
                client = self.client(proxy)
                r = client.connect(f"{target}:{origin.port}", ahead=b"x")
                self.assertEqual(r.status, 200, r)
                self.assertEqual(client.exactly(1), b"x")

    def test_leading_zeros_of_a_port(self):
        origin = self.origin(echo)
        client = self.client(self.proxy(origin))
        self.assertEqual(client.connect(f"ok.test:00{origin.port}").status, 200)

    def test_ipv6_literal(self):
        origin = self.origin(echo, host="::1")
        client = self.client(self.proxy(origin))
        self.assertEqual(client.connect(f"[::1]:{origin.port}", ahead=b"six").status, 200)
        self.assertEqual(client.exactly(3), b"six")


@quick
class Malformed(Case):
    def test_targets(self):
        proxy = self.proxy()
        for target in ("ok.test", "ok.test:", ":443", "ok.test:0", "ok.test:65536", "ok.test:4x3",
                       "ok.test:+443", "ok.test:-1", "::1:443", "[ok.test]:443", "[127.0.0.1]:443",
                       "[::1:443", "[]:443", "[::1]443", "[::1]", "[::1%25lo]:443", "[fe80::1%lo]:1",
                       "http://ok.test:80/", "/", "*", "ok.test:99999999999999999999"):
            with self.subTest(target):
                client = self.client(proxy)
                r = client.connect(target)
                self.assertEqual(r.status, 400, r)
                self.assertEqual(r.body, b"")
                self.assertTrue(client.ended())

    def test_both_framings_are_a_parse_error(self):
        client = self.client(self.proxy())
        r = client.connect("ok.test:443", "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n")
        self.assertEqual(r.status, 400)
        self.assertTrue(client.ended())


class Refused(Case):
    def refused(self, proxy, target):
        client = self.client(proxy)
        r = client.connect(target)
        self.assertTrue(client.ended())
        return r

    @quick
    def test_not_listed(self):
        r = self.refused(self.proxy(), "no.test:443")
        self.assertEqual(r.status, 403)
        self.assertEqual(r.phrase, "host is not on the allow list")
        self.assertEqual(r.fields, [("Content-Type", "text/plain"),
                                    ("X-Proxy-Error", "blocked-by-allowlist")])
        first, second = r.text.split("\n")
        self.assertEqual(first, "Connection blocked by network allowlist")
        self.assertIn("no.test:443 is blocked by policy, not by a network fault (", second)
        self.assertTrue(second.startswith("srt: ") and second.endswith("; do not retry"), second)

    def test_a_reason_becomes_the_phrase(self):
        proxy = self.proxy(denied=["ok.test"], deniedDomainReasons={
            "ok.test": "ask \u00e9t\u00e9\r\nX: <b>first"})
        r = self.refused(proxy, "ok.test:443")
        self.assertEqual(r.phrase, "ask ?t? X: bfirst")
        self.assertEqual(r.get("X"), None)
        self.assertIn("network.deniedDomains", r.text)
        self.assertIn("ok.test", r.text)

    def test_deny_list_without_a_reason(self):
        r = self.refused(self.proxy(denied=["*.wild.test"]), "a.wild.test:443")
        self.assertEqual(r.phrase, "host is on the deny list")
        self.assertIn('*.wild.test', r.text)

    def test_malformed_hosts(self):
        proxy = self.proxy(allowed=["ok.test", "*.wild.test"])
        for host in ("a..wild.test", ".wild.test", "1.2.3.08", "256.1.1.1", "ok_test%00.test",
                     "ok.test%2e", "a b".replace(" ", "!"), "ok.test..", "a.0x"):
            with self.subTest(host):
                r = self.refused(proxy, f"{host}:443")
                self.assertEqual((r.status, r.phrase), (403, "malformed host"), r)

    def test_refuse_opaque_tunnels(self):
        origin = self.origin(echo)
        proxy = self.proxy(origin, refuseOpaqueTunnels=True)
        r = self.refused(proxy, f"ok.test:{origin.port}")
        self.assertEqual((r.status, r.phrase), (403, "Forbidden"))
        self.assertEqual(r.get("X-Proxy-Error"), "blocked-by-sandbox-runtime")
        self.assertEqual(r.text.split("\n")[0],
                         "this proxy does not tunnel CONNECTs it cannot inspect")
        self.assertEqual(origin.connections, [])
        record = proxy.records(1)[0]
        self.assertEqual((record["verdict"], record["reason"]),
                         ("deny", "a tunnel that cannot be inspected"))

    def test_upstream_trouble_by_class(self):
        self.dns.script("gone.wild.test", "A", Answer(rcode=3))
        self.dns.script("gone.wild.test", "AAAA", Answer(rcode=3))
        port = self.closed_port()
        proxy = self.proxy(allowed=["ok.test", "*.wild.test", f"127.0.0.5:{port}"])
        for target, kind in ((f"ok.test:{port}", "refused"), (f"127.0.0.5:{port}", "refused"),
                             ("gone.wild.test:443", "dns")):
            with self.subTest(target):
                r = self.refused(proxy, target)
                self.assertEqual(r.status, 502)
                self.assertEqual(r.phrase, "Bad Gateway")
                self.assertEqual(r.get("X-Proxy-Error"), f"upstream-{kind}")
                self.assertEqual(r.body, b"")
                self.assertNotIn(b"127.0.0.5", r.head)


class Token(Case):
    @quick
    def test_a_challenge_keeps_the_connection(self):
        origin = self.origin(echo)
        client = self.client(self.proxy(origin, token=TOKEN))
        for fields in ("", basic("srt", "wrong"), basic("", TOKEN), "Proxy-Authorization: Basic\r\n",
                       "Proxy-Authorization: Bearer abc\r\n",
                       basic("srt", "wrong") + basic("srt", TOKEN)):
            r = client.connect(f"ok.test:{origin.port}", fields)
            self.assertEqual(r.status, 407)
            self.assertEqual(r.phrase, "Proxy Authentication Required")
            self.assertEqual(r.get("Proxy-Authenticate"), 'Basic realm="srt"')
            self.assertEqual(r.get("Content-Length"), "0")
            self.assertFalse(r.closes)
        r = client.connect(f"ok.test:{origin.port}", basic("anyone", TOKEN), ahead=b"x")
        self.assertEqual(r.status, 200)
        self.assertEqual(client.exactly(1), b"x")

    def test_spellings_of_the_field(self):
        origin = self.origin(echo)
        proxy = self.proxy(origin, token=TOKEN)
        text = base64.b64encode(f"srt:{TOKEN}".encode()).decode()
        for value in (f"basic {text}", f"BASIC  {text} ", f"Basic {text.rstrip('=')}",
                      f"Basic\t{text}"):
            with self.subTest(value):
                client = self.client(proxy)
                r = client.connect(f"ok.test:{origin.port}", f"proxy-authorization: {value}\r\n")
                self.assertEqual(r.status, 200)

    @quick
    def test_the_tenth_failure_closes(self):
        for method in ("CONNECT", "GET"):
            with self.subTest(method):
                client = self.client(self.proxy(token=TOKEN))
                for n in range(1, 11):
                    if method == "CONNECT":
                        r = client.connect("ok.test:443", basic("srt", "wrong"))
                    else:
                        r = client.get("http://ok.test/", basic("srt", "wrong"))
                    self.assertEqual(r.status, 407)
                    self.assertEqual(r.closes, n == 10)
                self.assertTrue(client.ended())

    def test_the_token_comes_before_target_and_policy(self):
        proxy = self.proxy(token=TOKEN)
        for target in ("no.test:443", "nonsense"):
            self.assertEqual(self.client(proxy).connect(target).status, 407)
        client = self.client(proxy)
        self.assertEqual(client.get("http://no.test/").status, 407)
        self.assertEqual(client.get("http://no.test/", basic("x", TOKEN)).status, 403)
        self.assertEqual(client.get("http://no.test/").status, 407)

    def test_the_body_of_a_challenged_request_is_not_a_request(self):
        origin = self.http()
        client = self.client(self.proxy(origin, token=TOKEN))
        url = f"http://ok.test:{origin.port}"
        hidden = f"GET {url}/evil HTTP/1.1\r\nHost: x\r\n{basic('s', TOKEN)}\r\n".encode()
        client.send(f"POST {url}/a HTTP/1.1\r\nHost: x\r\nContent-Length: {len(hidden)}\r\n\r\n"
                    .encode() + hidden)
        self.assertEqual(client.response("POST").status, 407)
        self.assertEqual(client.get(url + "/b", basic("s", TOKEN)).status, 200)
        self.assertEqual(origin.targets(), ["/b"])


class Edges(Case):
    """Bytes and ends at the borders of a tunnel."""

    def tunnel(self, origin, ahead=b"", proxy=None):
        client = self.client(proxy or self.proxy(origin))
        r = client.connect(f"ok.test:{origin.port}", ahead=ahead)
        self.assertEqual(r.status, 200, r)
        return client

    @quick
    def test_early_data_comes_first(self):
        early = b"early " * 5000
        origin = self.origin(echo)
        client = self.tunnel(origin, ahead=early)
        client.send("late").half_close()
        self.assertEqual(client.rest(), early + b"late")

    def test_early_data_while_undecided(self):
        self.dns.script("ok.test", "A", Answer("127.0.0.5", delay=0.3))
        self.dns.script("ok.test", "AAAA", Answer())
        origin = self.origin(echo)
        client = self.client(self.proxy(origin))
        client.send(f"CONNECT ok.test:{origin.port} HTTP/1.1\r\nHost: x\r\n\r\n")
        for _ in range(60):
            client.send(b"0123456789" * 100)
        self.assertEqual(client.head().status, 200)
        self.assertEqual(client.exactly(60000), b"0123456789" * 6000)

    def test_too_much_early_data_closes(self):
        self.dns.script("ok.test", "A", DROP)
        self.dns.script("ok.test", "AAAA", DROP)
        client = self.client(self.proxy())
        client.send("CONNECT ok.test:443 HTTP/1.1\r\nHost: x\r\n\r\n")
        try:
            for _ in range(64):
                client.send(bytes(65536))
        except ConnectionError:
            pass
        self.assertEqual(client.rest(), b"")

    def test_a_client_that_leaves_undecided_is_not_dialled_for(self):
        origin = self.origin(echo)
        proxy = self.proxy(origin)
        for leave in ("fin", "fin in one packet", "reset"):
            with self.subTest(leave):
                self.dns.script("two.test", "A", Answer("127.0.0.5", delay=0.5))
                client = self.client(proxy)
                head = f"CONNECT two.test:{origin.port} HTTP/1.1\r\nHost: x\r\n\r\n"
                client.send(head)
                if leave == "fin":
                    time.sleep(0.1)  # so that the head was read before the end came
                if leave == "reset":
                    client.reset()
                else:
                    client.half_close()
                    self.assertEqual(client.rest(), b"")
        time.sleep(0.7)  # past every delayed answer
        self.tunnel(origin, proxy=proxy)
        origin.connection()
        self.assertEqual(len(origin.connections), 1)

    @quick
    def test_half_close_by_the_client(self):
        big = bytes(range(256)) * 4096

        def handler(conn):
            self.assertEqual(conn.rest(), b"one line\n")
            time.sleep(0.2)
            conn.send(big)

        client = self.tunnel(self.origin(handler))
        client.send("one line\n").half_close()
        self.assertEqual(client.rest(), big)

    def test_half_close_by_the_origin(self):
        def handler(conn):
            conn.send("bye\n")
            conn.half_close()
            conn.rest()

        origin = self.origin(handler)
        client = self.tunnel(origin)
        self.assertEqual(client.rest(), b"bye\n")
        client.send(b"still here " * 1000)
        client.half_close()
        self.assertEqual(origin.finished().received, b"still here " * 1000)

    def test_the_origin_greets_first(self):
        def handler(conn):
            conn.send("220 ready\r\n")
            conn.rest()

        client = self.tunnel(self.origin(handler))
        self.assertEqual(client.exactly(11), b"220 ready\r\n")

    def test_a_reset_of_one_side_ends_the_other(self):
        def handler(conn):
            conn.until(b"x")
            conn.reset()

        client = self.tunnel(self.origin(handler), ahead=b"x")
        self.assertEqual(client.rest(), b"")

        origin = self.origin(echo)
        client = self.tunnel(origin, ahead=b"y")
        client.exactly(1)
        client.reset()
        origin.finished()

    def test_much_data_both_ways_at_once(self):
        down = hashlib.sha256()
        up = hashlib.sha256()
        block = bytes(range(256)) * 1024
        blocks = 80

        def handler(conn):
            def send():
                for i in range(blocks):
                    conn.send(bytes([i]) + block)
                conn.half_close()

            sender = threading.Thread(target=send)
            sender.start()
            up.update(conn.rest())
            sender.join()

        origin = self.origin(handler)
        client = self.tunnel(origin)
        received = []
        reader = threading.Thread(target=lambda: received.append(client.rest()))
        reader.start()
        for i in range(blocks):
            client.send(bytes([255 - i]) + block)
        client.half_close()
        reader.join()
        origin.finished()
        down.update(received[0])
        self.assertEqual(down.hexdigest(), hashlib.sha256(
            b"".join(bytes([i]) + block for i in range(blocks))).hexdigest())
        self.assertEqual(up.hexdigest(), hashlib.sha256(
            b"".join(bytes([255 - i]) + block for i in range(blocks))).hexdigest())

    def test_a_slow_reader_does_not_make_the_proxy_hold_the_body(self):
        sent = threading.Event()

        def handler(conn):
            conn.sock.settimeout(2)
            try:
                for _ in range(2048):
                    conn.sock.sendall(bytes(65536))
                sent.set()
            except TimeoutError:
                pass  # what should happen: nobody takes it

        proxy = self.proxy(origin := self.origin(handler))
        self.tunnel(origin, proxy=proxy)
        origin.finished()
        self.assertFalse(sent.is_set(), "128 MB went somewhere while the client read nothing")

    def test_stopping_ends_an_open_tunnel(self):
        origin = self.origin(echo)
        proxy = self.proxy(origin, timeouts={"drainMs": 0})
        client = self.tunnel(origin, proxy=proxy)
        proxy.stop()
        self.assertEqual(client.rest(), b"")

    def test_a_tunnel_that_is_open_outlives_a_refusal_elsewhere(self):
        origin = self.origin(echo)
        proxy = self.proxy(origin)
        client = self.tunnel(origin, proxy=proxy)
        self.assertEqual(self.client(proxy).connect("no.test:443").status, 403)
        client.send("x")
        self.assertEqual(client.exactly(1), b"x")

    def test_no_answer_to_the_dial_in_time(self):
        self.dns.script("ok.test", "A", DROP)
        self.dns.script("ok.test", "AAAA", DROP)
        proxy = self.proxy(timeouts={"dialMs": 300, "dnsQueryMs": 5000})
        r = self.client(proxy).connect("ok.test:443")
        self.assertEqual((r.status, r.get("X-Proxy-Error")), (502, "upstream-dns"))


class FirstByte(Case):
    def test_silence_and_an_early_end_are_closed(self):
        proxy = self.proxy(timeouts={"firstByteMs": 200})
        self.assertTrue(self.client(proxy).ended())
        self.assertEqual(self.client(proxy).half_close().rest(), b"")

    def test_half_a_head_is_answered_in_time(self):
        proxy = self.proxy(timeouts={"requestHeadMs": 300})
        client = self.client(proxy).send("GET http://ok.te")
        r = client.response()
        self.assertEqual(r.status, 400)
        self.assertTrue(client.ended())

    def test_tls_and_http2_on_the_port_are_400(self):
        proxy = self.proxy()
        for opening in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(600),
                        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
            client = self.client(proxy).send(opening)
            try:
                r = client.response()
            except (Closed, ConnectionResetError):
                self.fail("closed without an answer")
            self.assertEqual(r.status, 400)
