"""`srt proxy` as a host program runs it: command line, descriptors, start and end (chapter 35
section 5), and what holds for plain requests in proxy-only mode (section 6)."""

import os
import re
import signal
import socket
import subprocess
import time

from harness import SRT, DecidedProxy, DeciderCase, allow, quick, run_srt
from harness.resources import until

REQUIRED = "srt proxy: a decider is required (--decider-fd, or --decider-in and --decider-out)\n"
LISTEN = "srt proxy: --listen-fd (or --listen for development) is required\n"


class CommandLine(DeciderCase):
    def usage(self, *args, **kw):
        """stderr of a start that ends with 2 and says one line."""
        status, out, err = run_srt("proxy", *args, **kw)
        self.assertEqual((status, out), (2, ""), err)
        self.assertRegex(err, r"\Asrt proxy: .*\n\Z")
        return err

    @quick
    def test_version_anywhere(self):
        version = re.fullmatch(r"srt-proxy (\S+)\n", run_srt("proxy", "--version")[1]).group(1)
        self.assertEqual(run_srt("--version")[1].split()[-1], version)
        for args in (("--decider-fd", "0", "--version"), ("--version", "--bogus"), ("--bogus", "--version"),
                     ("--listen", "8.8.8.8:1", "--version"), ("--settings", "/nonexistent", "--version"),
                     ("--ca-fd", "99", "--listen-fd", "98", "--version", "x")):
            with self.subTest(args):
                self.assertEqual(run_srt("proxy", *args), (0, f"srt-proxy {version}\n", ""))

    @quick
    def test_version_touches_nothing(self):
        read, write = os.pipe()
        self.addCleanup(os.close, read)
        os.write(write, b"x")
        os.close(write)
        run_srt("proxy", "--decider-fd", read, "--ca-fd", read, "--version", pass_fds=[read])
        self.assertEqual(os.read(read, 2), b"x")

    @quick
    def test_what_is_required(self):
        for args in ((), ("--listen", "127.0.0.1:0"), ("--decider-in", "0"), ("--decider-out", "0"),
                     ("--listen", "127.0.0.1:0", "--decider-in", "0"), ("--listen-fd", "0"), ("-d",)):
            with self.subTest(args):
                self.assertEqual(self.usage(*args), REQUIRED)
        a, b = socket.socketpair()
        with a, b:
            for args in (("--decider-fd", a.fileno()), ("--decider-in", a.fileno(), "--decider-out", b.fileno())):
                with self.subTest(args):
                    self.assertEqual(self.usage(*args, pass_fds=[a.fileno(), b.fileno()]), LISTEN)

    @quick
    def test_what_cannot_be_used(self):
        peer = self.decider()
        for args in (("--bogus",), ("--decider-fd",), ("--listen", "127.0.0.1"), ("--listen", "127.0.0.1:65536"),
                     ("--listen", "127.0.0.1:x"), ("--decider-fd", "x"), ("--decider-fd", "-1"), ("extra",),
                     ("--decider-proto", "3"), ("--ca-fd", "x"), ("--lifeline-fd", "1x")):
            with self.subTest(args):
                self.usage("--listen", "127.0.0.1:0", *args, *peer.args, pass_fds=peer.pass_fds)

    @quick
    def test_descriptors_that_are_not_there(self):
        for args in (("--decider-fd", "97"), ("--decider-in", "97", "--decider-out", "98")):
            with self.subTest(args):
                self.usage("--listen", "127.0.0.1:0", *args)
        peer = self.decider()
        for args in (("--listen-fd", "97"), ("--listen", "127.0.0.1:0", "--lifeline-fd", "97"),
                     ("--listen", "127.0.0.1:0", "--ca-fd", "97")):
            with self.subTest(args):
                self.usage(*args, *peer.args, pass_fds=peer.pass_fds)

    @quick
    def test_loopback(self):
        peer = self.decider()
        for address in ("0.0.0.0:0", "8.8.8.8:1", "[::]:0", "128.0.0.1:0", ":0", "[::2]:0"):
            with self.subTest(address):
                err = self.usage("--listen", address, *peer.args, pass_fds=peer.pass_fds)
                self.assertIn("is not a loopback address", err)

    def test_loopback_addresses(self):
        for address in ("127.0.0.1:0", "127.9.8.7:0", "localhost:0", "LOCALHOST:0", "[::1]:0"):
            with self.subTest(address):
                proxy = self.decided(self.decider(), listen=(address,))
                self.assertNotIn("warning", proxy.stderr())
                proxy.stop()

    @quick
    def test_any_interface(self):
        proxy = self.decided(self.decider(), listen=("0.0.0.0:0",), args=["--listen-any-interface"])
        self.assertRegex(proxy.stderr(), r"warning: .*(unauthenticated|password)")

    @quick
    def test_the_name_srt_proxy(self):
        name = self.directory / "srt-proxy"
        name.symlink_to(SRT)
        done = subprocess.run([name], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (2, REQUIRED))
        done = subprocess.run([name, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.assertEqual(done.stdout, run_srt("proxy", "--version")[1])


class Bare(DeciderCase):
    """Without any settings, as a host written for sandbox-runtime starts it."""

    def bare(self, *args, ca=False, pass_fds=(), decide=allow, wait=True, env=None, **kw):
        self.upstream = self.http()
        # By its address: there is no DNS server but the system's.
        self.peer = self.decider(decide, self.upstream, **kw)
        self._count += 1
        directory = self.directory / f"bare{self._count}"
        directory.mkdir()
        fds = [*pass_fds, *self.peer.pass_fds]
        args = [*map(str, args), *self.peer.args]
        if ca is not False:
            fds.append(self.pipe_of(self.pem() if ca is True else ca))
            args += ["--ca-fd", str(fds[-1])]
        listen = () if any("--listen" in a for a in args) else ("127.0.0.1:0",)
        self.srt = DecidedProxy(directory, args, env={**self.trust(), **(env or {})}, pass_fds=fds,
                                deciders=[self.peer], wait=wait, listen=listen)
        self.addCleanup(self.srt.stop)
        self.at = f"127.0.0.5:{self.upstream.port}"
        self.url = f"http://{self.at}"
        return self.srt

    @quick
    def test_start_and_sigterm(self):
        proxy = self.bare()
        self.assertRegex(proxy.stderr(), r"\Asrt proxy: serving 127\.0\.0\.1:\d+\n\Z")
        self.assertEqual(self.client(proxy).get(f"{self.url}/").status, 200)
        self.assertEqual(self.peer.messages[0]["host"], "127.0.0.5")
        proxy.process.send_signal(signal.SIGTERM)
        self.assertEqual(proxy.stopped("SIGTERM"), "SIGTERM")

    def test_pipes(self):
        proxy = self.bare(pipes=True)
        self.assertEqual(self.client(proxy).get(f"{self.url}/").status, 200)
        self.peer.end()
        proxy.stopped("decider")

    @quick
    def test_a_listener_that_is_handed_in(self):
        for family, address in ((socket.AF_INET, ("127.0.0.1", 0)), (socket.AF_UNIX, str(self.directory / "s"))):
            listener = socket.socket(family, socket.SOCK_STREAM)
            listener.bind(address)
            listener.listen()
            self.addCleanup(listener.close)
            fd = listener.fileno()
            proxy = self.bare("--listen-fd", fd, pass_fds=[fd])
            self.assertIn(f"srt proxy: serving fd {fd}\n", proxy.stderr())
            proxy.address = listener.getsockname()
            self.assertEqual(self.client(proxy).get(f"{self.url}/").status, 200)

    @quick
    def test_nobody_is_accepted_before_the_hello(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        fd = listener.fileno()
        proxy = self.bare("--listen-fd", fd, pass_fds=[fd], hello=False, wait=False)
        self.peer.wait_hellos(1)
        proxy.address = listener.getsockname()
        client = self.client(proxy)
        client.send(f"GET {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
        time.sleep(0.1)
        self.assertFalse(proxy.is_serving())
        self.peer.send({"t": "hello", "proto": 1, "allowedDomains": [self.upstream.literal], "deniedDomains": []})
        self.assertEqual(client.response().status, 200)
        proxy.wait_serving()

    def test_sigterm_before_the_hello(self):
        proxy = self.bare(hello=False, wait=False)
        self.peer.wait_hellos(1)
        proxy.process.send_signal(signal.SIGTERM)
        proxy.stopped("SIGTERM")

    @quick
    def test_the_lifeline(self):
        for early in (False, True):
            read, write = os.pipe()
            proxy = self.bare("--lifeline-fd", read, pass_fds=[read], wait=not early,
                              **({"hello": False} if early else {}))
            os.close(read)
            if early:
                self.peer.wait_hellos(1)
            else:
                os.write(write, b"what is written means nothing")
                self.assertEqual(self.client(proxy).get(f"{self.url}/").status, 200)
            os.close(write)
            proxy.stopped("lifeline")

    def test_a_lifeline_that_is_a_socket(self):
        ours, theirs = socket.socketpair()
        proxy = self.bare("--lifeline-fd", theirs.fileno(), pass_fds=[theirs.fileno()])
        theirs.close()
        self.assertEqual(self.client(proxy).get(f"{self.url}/").status, 200)
        ours.close()
        proxy.stopped("lifeline")

    @quick
    def test_open_questions_when_the_lifeline_ends(self):
        read, write = os.pipe()
        proxy = self.bare("--lifeline-fd", read, pass_fds=[read], decide=lambda m: None)
        os.close(read)
        client = self.client(proxy)
        client.send(f"GET {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
        self.peer.wait(1)
        os.close(write)
        proxy.stopped("lifeline", seconds=10)
        said = client.rest()
        self.assertTrue(said == b"" or said.startswith(b"HTTP/1.1 503 "), said)
        self.assertEqual(self.upstream.connections, [])

    @quick
    def test_bad_cas(self):
        pair = self.pem()
        key = pair[:pair.index(b"-----BEGIN CERTIFICATE")]
        for name, pem in (("nothing", b""), ("no certificate", key), ("no key", pair[len(key):]),
                          ("garbage", b"\0" * 100), ("a broken certificate", pair.replace(b"\nMII", b"\nAAA"))):
            with self.subTest(name):
                proxy = self.bare(ca=pem, wait=False)
                text = proxy.finish(2)
                self.assertRegex(text, r"(?m)^srt proxy: ")
                self.assertFalse(proxy.is_serving())
                if name in ("nothing", "no certificate", "no key", "garbage"):
                    self.assertIn("srt proxy: proxy-only: the CA PEM needs a private key and a certificate", text)

    def test_a_key_of_another(self):
        pem = self.root.key.read_bytes() + self.ca_cert.read_bytes()
        text = self.bare(ca=pem, wait=False).finish(2)
        self.assertIn("srt proxy: tlsTerminate: CA PEM pair: ", text)
        self.assertNotIn("PRIVATE KEY", text)

    @quick
    def test_without_a_ca(self):
        proxy = self.bare()
        r = self.client(proxy).connect(self.at)
        self.assertEqual((r.status, r.get("X-Deny-Reason")), (403, "opaque_tunnel"))
        self.assertEqual(r.text, "this proxy does not tunnel CONNECTs it cannot inspect")
        self.assertEqual(self.peer.messages, [])
        self.assertEqual(self.upstream.connections, [])

    @quick
    def test_resident_memory_is_told(self):
        proxy = self.bare(env={"SRT_PROXY_REPORT_RSS_MS": "10"})
        self.assertTrue(until(lambda: len(re.findall(r"^srt-proxy rss \d{6,}$", proxy.stderr(), re.M)) >= 3))
        for value in ("0", "x", "-1", ""):
            proxy = self.bare(env={"SRT_PROXY_REPORT_RSS_MS": value})
            self.assertNotIn("rss", proxy.stderr())

    @quick
    def test_names_of_the_system(self):
        """localhost, which every system knows, and which may be this host."""
        proxy = self.bare(allowed=["localhost"])
        port = self.http(host="127.0.0.1").port
        self.assertEqual(self.client(proxy).get(f"http://localhost:{port}/").status, 200)
        self.assertEqual(self.peer.messages[0]["host"], "localhost")


class Serving(DeciderCase):
    @quick
    def test_response_headers(self):
        fields = "X-Secret: 1\r\nx_secret: 2\r\nX.Secret: 3\r\nX-Other: 4\r\nX-More: 5\r\nX-Keep: 6\r\n"
        client = self.start(respond=lambda r: f"HTTP/1.1 200 OK\r\n{fields}Content-Length: 0\r\n\r\n".encode(),
                            args=["--strip-response-header", "x-secret", "X_Other",
                                  "--strip-response-header", "x.more"])
        r = client.get(f"{self.url}/")
        self.assertEqual([f for f in r.fields if f[0].lower().startswith("x")], [("X-Keep", "6")])

    @quick
    def test_socks_is_not_served(self):
        self.start()
        for hello in (b"\x05\x01\x00", b"\x04\x01\x00\x50\x7f\x00\x00\x05\x00", b"\x05\x02\x00\x02"):
            client = self.client(self.srt)
            client.send(hello)
            got = client.rest()
            self.assertFalse(got.startswith((b"\x05", b"\x00")), got)
        self.nothing_out()
        self.assertEqual(self.peer.messages, [])

    @quick
    def test_hosts_are_ascii(self):
        self.start(allowed_by=["ok.test", "*.wild.test"])
        port = self.upstream.port
        for host in ("a_b.wild.test", "\xe9.wild.test", "u@ok.test", "u:p@ok.test", "ok%2etest", "ok..test", "-a..b"):
            with self.subTest(host):
                client = self.client(self.srt)
                client.send(f"GET http://{host}:{port}/ HTTP/1.1\r\nHost: {host.rpartition('@')[2]}:{port}\r\n\r\n")
                self.refused(client.response(), 400, "bad_request")
                client = self.client(self.srt)
                client.send(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n")
                r = client.response("CONNECT")
                self.assertEqual((r.status, r.get("X-Deny-Reason")), (400, "bad_request"), r)
        self.nothing_out()

    @quick
    def test_the_head_limit(self):
        client = self.start(lambda m: {**allow(m), "action": "deny", "status": 403})
        # Past the decider's limits, but not past the head's: read whole, then refused.
        fields = "".join(f"X-{i}: {'a' * 60000}\r\n" for i in range(30))
        client.send(f"GET {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\n{fields}\r\n")
        self.refused(client.response(), 400, "bad_request")
        client = self.client(self.srt)
        client.send(f"GET {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\nX: ")
        try:
            for _ in range(2 * 16 + 1):
                client.send("a" * 65536)
        except ConnectionError:
            pass  # it has seen enough
        r = client.response()
        self.assertEqual((r.status, r.get("X-Deny-Reason")), (400, "bad_request"))
        self.assertEqual(self.peer.messages, [])
        self.nothing_out()

    @quick
    def test_addresses_of_names(self):
        self.start(allowed_by=["ok.test", "*.wild.test", "127.0.0.9"])
        for i, address in enumerate(("10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.9.9", "192.168.1.1",
                                     "100.64.0.1", "100.127.255.255", "fc00::1", "fdff::1", "127.0.0.1", "127.0.0.8",
                                     "169.254.169.254", "0.0.0.0", "::1", "fe80::1", "::ffff:10.0.0.1", "224.0.0.1")):
            with self.subTest(address):
                name = f"n{i}.wild.test"
                self.dns.add(name, address)
                r = self.client(self.srt).get(f"http://{name}:{self.upstream.port}/")
                self.refused(r, 403, "address_not_allowed")
                self.assertNotIn(address, r.text)
        self.assertEqual(self.upstream.connections, [])

    @quick
    def test_addresses_that_the_hello_allows(self):
        other = self.http(host="127.0.0.6")
        self.start(allowed_by=["ok.test", "two.test"], denied_by=["127.0.0.7"])
        self.dns.add("two.test", "127.0.0.6")
        self.dns.add("ok.test", "127.0.0.7", "127.0.0.5")
        # The origin's own literal, with its port, is on the list.
        self.assertEqual(self.client(self.srt).get(f"http://ok.test:{self.upstream.port}/").status, 200)
        r = self.client(self.srt).get(f"http://two.test:{other.port}/")
        self.refused(r, 403, "address_not_allowed")
        self.dns.add("ok.test", "127.0.0.5")
        r = self.client(self.srt).get(f"http://ok.test:{other.port}/")
        self.refused(r, 403, "address_not_allowed")
        self.assertEqual(other.connections, [])

    @quick
    def test_hop_by_hop_fields(self):
        client = self.start()
        names = ("Keep-Alive", "Keep_Alive", "keep.alive", "Proxy-Connection", "Proxy_Connection", "TE", "Trailer",
                 "Proxy-Authorization", "proxy_authorization", "Proxy.Authorization", "Proxy-Authenticate",
                 "Proxy_Authenticate", "X-Named")
        fields = "Connection: X-Named, keep-alive\r\n" + "".join(f"{n}: a\r\n" for n in names) + "X-Keep: b\r\n"
        self.assertEqual(client.get(f"{self.url}/", fields).status, 200)
        self.assertEqual([f for f in self.last().fields if f[0].lower() not in ("host", "connection")],
                         [("X-Keep", "b")])

    def test_other_spellings_of_framing(self):
        client = self.start()
        client.send(f"POST {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\nContent-Length: 5\r\n"
                    "Transfer_Encoding: chunked\r\nTransfer.Encoding: chunked\r\n\r\nhello")
        self.assertEqual(client.response().status, 200)
        self.assertEqual(self.last().body, b"hello")
        self.assertFalse({"transfer_encoding", "transfer.encoding"} & set(self.last().names))

    @quick
    def test_trailers(self):
        client = self.start()
        client.send(f"POST {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\nTrailer: X-T\r\n"
                    "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n")
        self.assertEqual(client.response().status, 200)
        self.assertEqual((self.last().body, self.last().trailers), (b"hello", []))
        self.assertNotIn("trailer", self.last().names)

    @quick
    def test_no_password_is_asked_for(self):
        client = self.start()
        self.assertEqual(client.get(f"{self.url}/", "Proxy-Authorization: Basic eDp5\r\n").status, 200)
        self.assertEqual(self.peer.messages[0]["headers"]["proxy-authorization"], ["Basic eDp5"])

    @quick
    def test_502_has_no_code(self):
        """What failed is not what was refused."""
        self.start(allowed_by=["ok.test", "127.0.0.5"])
        r = self.client(self.srt).get(f"http://ok.test:{self.closed_port()}/")
        self.assertEqual((r.status, r.get("X-Deny-Reason")), (502, None))

    def test_rules_of_a_settings_file_come_first(self):
        self.start(denied=["ok.test"])
        self.refused(self.client(self.srt).get(f"{self.url}/"), 403, "host_not_allowed")
        self.nothing_out()
        self.assertEqual(self.peer.messages, [])

    def test_the_log(self):
        client = self.start(lambda m: allow(m) if m["path"] == "/a" else {**allow(m), "action": "deny",
                                                                         "status": 403, "reason": "no b"})
        client.get(f"{self.url}/a?secret")
        client.get(f"{self.url}/b")
        one, two = self.srt.records(2)
        self.assertEqual([one[k] for k in ("verdict", "host", "status", "method")], ["allow", "ok.test", 200, "GET"])
        self.assertEqual([two[k] for k in ("verdict", "host", "status", "reason")], ["deny", "ok.test", 403, "no b"])
        self.assertNotIn("secret", self.srt.log_path.read_text())


class Curl(DeciderCase):
    @quick
    def test_curl(self):
        self.start(lambda m: allow(m) if m["path"] == "/a" else {**allow(m), "action": "deny", "status": 451,
                                                                 "reason": "not this one"})
        curl = [self.tool("curl"), "-sS", "-m", "20", "-x", self.srt.url]
        done = subprocess.run([*curl, f"{self.url}/a"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, "hello\n"), done.stderr)
        done = subprocess.run([*curl, "-w", "%{http_code}", f"{self.url}/b"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, "not this one\n451"), done.stderr)
