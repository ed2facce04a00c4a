"""srt-decider and examples/decider.py, spoken to as a proxy speaks to them (chapter 35)."""

import contextlib
import json
import os
import pathlib
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import time

from harness import SRT, WAIT, clean_environment, frame, quick
from harness.proxy import REPORT
from harness.reference import DECIDER, HELLO, ReferenceCase, body, conn, req, rules

TOP = pathlib.Path(__file__).parents[2]
EXAMPLE = [sys.executable, "-B", str(TOP / "examples" / "decider.py")]
DENY = {"action": "deny", "status": 403, "reason": "no rule of the decider applies"}
# What examples/decider.py does.
SAME = [
    {"host": "api.example.com:443", "ttl": 60, "action": "allow"},
    {"via": ["connect", "socks", "http"], "action": "deny",
     "reason": "only https://api.example.com"},
    {"methods": ["GET", "HEAD"], "action": "allow", "removeHeaders": ["x-debug"],
     "setHeaders": {"x-client": "agent"}},
    {"methods": ["POST"], "paths": ["/v1/notes"], "action": "deny", "status": 422,
     "body": {"max": 65536, "contains": "BEGIN PRIVATE KEY"},
     "reason": "a note must not hold a private key"},
    {"methods": ["POST"], "paths": ["/v1/notes"], "body": {"max": 65536, "longer": True},
     "action": "deny", "status": 413, "reason": "a note has 64 KiB at most"},
    {"methods": ["POST"], "paths": ["/v1/notes"], "action": "allow"},
]


@quick
class CommandLine(ReferenceCase):
    def run_decider(self, *args, stdin=subprocess.DEVNULL):
        done = subprocess.run([DECIDER, *map(str, args)], stdin=stdin, capture_output=True,
                              env=clean_environment(), timeout=WAIT)
        self.assertIsNone(REPORT.search(done.stderr), done.stderr)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def test_check(self):
        self.assertEqual(self.run_decider("--check", self.rules_file(rules())), (0, "ok\n", ""))
        example = TOP / "examples" / "decider-rules.json"
        self.assertEqual(self.run_decider("--check", example), (0, "ok\n", ""))

    def test_every_error_has_its_path_and_line(self):
        path = self.rules_file(rules({"action": "permit"}, {"action": "deny", "status": 200},
                                     allowed=["A"]))
        for check in (["--check"], []):
            status, out, err = self.run_decider(*check, path)
            self.assertEqual((status, out), (1, ""))
            self.assertEqual([line.split(": ")[2] for line in err.splitlines()],
                             ["allowedDomains.0", "rules.0.action", "rules.1.status"])

    def test_usage(self):
        path = self.rules_file(rules())
        for args in ([], ["--what", path], [path, path], ["--log"], ["--check", "--log", "-", path],
                     ["--listen", "/" + "x" * 200, path], ["--log", "/nowhere/log", path],
                     ["--listen", self.directory, path]):
            status, out, err = self.run_decider(*args)
            self.assertEqual((status, out), (2, ""), args)
            self.assertIn("srt-decider: ", err)
        self.assertEqual(self.run_decider("/nowhere")[0], 1)
        status, out, _ = self.run_decider("--version")
        self.assertEqual(status, 0)
        self.assertTrue(out.startswith("srt-decider "))
        self.assertEqual(self.run_decider("--help")[0], 0)

    def test_from_a_file_to_a_file(self):
        given = self.directory / "in"
        given.write_bytes(frame(HELLO[1]) + b"".join(frame(req(i)) for i in range(1, 100)))
        with open(given, "rb") as stdin:
            status, out, err = self.run_decider(self.rules_file(rules()), stdin=stdin)
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(out.count('"verdict"'), 99)


@quick
class Answers(ReferenceCase):
    def test_hello(self):
        document = rules(allowed=["a.test", "*.b.test:443", "[::1]:80"], asks=["connection"])
        for proto in (1, 2):
            process, link = self.start(document)
            asks = {"asks": ["connection"]} if proto == 2 else {}
            self.assertEqual(link.hello(proto), {
                **HELLO[proto], **asks, "allowedDomains": document["allowedDomains"],
                "deniedDomains": []})
            link.end()
            self.ended(process, 0)

    def test_rules_decide_in_order(self):
        _, link = self.start(rules(
            {"host": "a.test", "methods": ["GET"], "paths": ["/v1/**"], "action": "allow"},
            {"headers": {"x-upload": True}, "action": "deny", "status": 451, "reason": "größer"},
            {"user": "ann", "action": "allow"},
            {"via": ["socks"], "ttl": 5, "action": "allow"}))
        self.assertEqual(link.hello()["asks"], ["connection", "request"])
        self.assertEqual(link.ask(req(1, path="/v1/x")), {"action": "allow"})
        self.assertEqual(link.ask(req(2, path="/v1/../x")), DENY)
        self.assertEqual(link.ask(req(3, path="/v2", headers={"x_upload": ["1"]})),
                         {"action": "deny", "status": 451, "reason": "größer"})
        bad = link.ask(req(4, path="/v1/%2e%2e/x"))
        self.assertEqual((bad["action"], bad["status"]), ("deny", 400))
        self.assertIn("servers disagree", bad["reason"])
        self.assertEqual(link.ask(conn(5)), DENY)
        self.assertEqual(link.ask(conn(6, user="ann")), {"action": "allow"})
        self.assertEqual(link.ask(conn(7, via="socks")), {"action": "allow", "ttl": 5})

    def test_bodies(self):
        _, link = self.start(rules(
            {"body": {"max": 1000000, "contains": "secret"}, "action": "deny"},
            {"methods": ["POST"], "action": "allow"}))
        link.hello(1)
        need = {"action": "need_body", "max": 1000000}
        self.assertEqual(link.ask(req(1, "POST")), need)
        self.assertEqual(link.ask(req(2, "POST")), need)
        self.assertEqual(link.ask(req(3)), need)
        self.assertEqual(link.ask(body(2, b"x" * 999994 + b"secret", cut=True)),
                         {"action": "deny", "status": 403})
        self.assertEqual(link.ask(body(1, b"x" * 999995 + b"secre")), {"action": "allow"})
        self.assertEqual(link.ask(body(3, b"")), DENY)

    def test_a_body_frame_larger_than_any_other(self):
        _, link = self.start(rules({"body": {"max": 33554432, "contains": "secret"},
                                    "action": "deny"}, default={"action": "allow"}))
        link.hello(1)
        self.assertEqual(link.ask(req(1, "POST"))["max"], 33554432)
        self.assertEqual(link.ask(body(1, b"x" * 33554426 + b"secret", cut=True)),
                         {"action": "deny", "status": 403})

    def test_more_requests_than_bodies_are_awaited_for(self):
        _, link = self.start(rules({"body": {"max": 10}, "action": "allow"}))
        link.hello(1)
        with link.sending(*(req(i, "POST") for i in range(1, 4098))):
            for _ in range(1, 4098):
                self.assertEqual(link.get()["action"], "need_body")
        late = link.ask(body(1, b"x"))
        self.assertEqual((late["action"], late["status"]), ("deny", 503))
        self.assertEqual(link.ask(body(2, b"x")), {"action": "allow"})
        self.assertEqual(link.ask(body(4097, b"x")), {"action": "allow"})

    def test_byte_by_byte(self):
        _, link = self.start(rules(default={"action": "allow"}))
        for byte in frame(HELLO[1]) + frame(req(1)):
            link.raw(bytes([byte]))
        self.assertEqual(link.get()["t"], "hello")
        self.assertEqual(link.get(), {"t": "verdict", "id": 1, "action": "allow"})

    def test_ten_thousand_at_once(self):
        _, path = self.serve(rules(default={"action": "allow"}))
        link = self.connect(path)
        link.hello(1)
        with link.sending(*(req(i) for i in range(1, 10001))):
            self.assertEqual([link.get()["id"] for _ in range(10000)], list(range(1, 10001)))


@quick
class Documentation(ReferenceCase):
    PAGE = (TOP / "docs" / "srt-decider.8").read_text()

    def test_every_option_is_in_the_manual(self):
        usage = subprocess.run([DECIDER, "--help"], capture_output=True, text=True,
                               timeout=WAIT, check=True).stdout
        for option in re.findall(r"--([a-z-]+)", usage):
            self.assertIn(f"Fl -{option}", self.PAGE)

    def test_the_rules_of_the_manual(self):
        text, = re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed", self.PAGE, re.M | re.S)
        _, link = self.start(text)
        link.hello(1)
        git = {"host": "git.example.com", "path": "/x.git/info/refs"}
        self.assertEqual(link.ask(req(1, **git, query="service=git-upload-pack"))["action"], "allow")
        self.assertEqual(link.ask(req(2, **git, query="service=git-receive-pack"))["action"], "deny")

    def test_the_example(self):
        _, link = self.start((TOP / "examples" / "decider-rules.json").read_text())
        self.assertEqual(link.hello()["asks"], ["request"])
        number = 0
        for host, method, target, headers, want in (
                ("api", "GET", "/v1/things", {}, "allow"),
                ("api", "GET", "/v1/../admin", {}, 403),
                ("api", "GET", "/v1/things", {"x-upload-token": ["1"]}, 403),
                ("api", "PUT", "/v1/things", {}, 403),
                ("api", "POST", "/v1/notes", {}, "need_body"),
                ("git", "GET", "/a/info/refs?service=git-upload-pack", {}, "allow"),
                ("git", "POST", "/a/git-upload-pack", {}, "allow"),
                ("git", "GET", "/a/info/refs?service=git-receive-pack", {}, 403),
                ("git", "POST", "/a/git-receive-pack", {}, 403),
                ("files", "GET", "/any", {}, "allow"),
                ("files", "PUT", "/any", {}, 403)):
            number += 1
            path, _, query = target.partition("?")
            answer = link.ask(req(number, method, path, f"{host}.example.com",
                                  **({"query": query} if query else {}),
                                  **({"headers": headers} if headers else {})))
            self.assertEqual(answer.get("status", answer["action"]), want, (host, method, target))
        for data, cut, want in ((b"a note", False, "allow"), (b"x" * 65536, True, 413),
                                (b"-----BEGIN PRIVATE KEY-----", False, 422)):
            number += 1
            link.ask(req(number, "POST", "/v1/notes", "api.example.com"))
            answer = link.ask(body(number, data, cut))
            self.assertEqual(answer.get("status", answer["action"]), want)


@quick
class Violations(ReferenceCase):
    GOOD = frame(HELLO[2])
    BAD = {
        "no hello": frame(req(1)),
        "a hello of another protocol": frame({"t": "hello", "proto": 3}),
        "a second hello": GOOD + frame(HELLO[2]),
        "no JSON": GOOD + frame(b"{"),
        "not an object": GOOD + frame(b"[]"),
        "an empty frame": GOOD + frame(b""),
        "null": GOOD + frame(b'{"t":"req","id":null}'),
        "a duplicate key": GOOD + frame(b'{"t":"hello","t":"hello","proto":2}'),
        "not UTF-8": GOOD + frame(json.dumps(req(1)).encode().replace(b"GET", b"G\xffT")),
        "an unknown key": GOOD + frame(req(1, more=1)),
        "an unknown message": GOOD + frame({"t": "quit"}),
        "an empty query": GOOD + frame(req(1, query="")),
        "an id twice": GOOD + frame(req(2)) + frame(req(2)),
        "an id that went back": GOOD + frame(req(2)) + frame(conn(1)),
        "a body that was not asked for": GOOD + frame(req(1)) + frame(body(1, b"x")),
        "a connection in protocol 1": frame(HELLO[1]) + frame(conn(1)),
        "a frame too large": GOOD + struct.pack(">I", 1048577),
        "the end inside a head": GOOD + b"\0\0",
        "the end inside a frame": GOOD + b"\0\0\0\x10{",
    }

    def test_each_ends_the_process_over_pipes(self):
        for name, data in self.BAD.items():
            with self.subTest(name):
                process, link = self.start(rules())
                link.raw(data)
                os.close(link.out)
                self.ended(process, 1)
                lines = self.stderr().splitlines()
                self.assertEqual(len(lines), 1, lines)
                self.assertTrue(lines[0].startswith("srt-decider: the proxy broke the protocol: "))

    def test_each_ends_its_link_alone_over_the_socket(self):
        process, path = self.serve(rules(default={"action": "allow"}))
        other = self.connect(path)
        other.hello()
        for number, (name, data) in enumerate(self.BAD.items(), 1):
            with self.subTest(name):
                link = self.connect(path)
                link.raw(data)
                half = socket.socket(fileno=os.dup(link.out))
                half.shutdown(socket.SHUT_WR)
                half.close()
                while link.read():
                    pass
                self.assertEqual(other.ask(req(number)), {"action": "allow"})
        self.assertEqual(self.stderr().count("broke the protocol"), len(self.BAD))
        process.terminate()
        self.ended(process, 0)

    def test_more_of_a_body_than_asked_for(self):
        process, link = self.start(rules({"body": {"max": 10}, "action": "allow"}))
        link.hello()
        self.assertEqual(link.ask(req(1))["max"], 10)
        link.send(body(1, b"x" * 11))
        self.ended(process, 1)

    def test_what_was_asked_for_stays_as_the_hello_said(self):
        process, link = self.start(rules(asks=["request"]))
        link.hello()
        link.send(conn(1))
        self.ended(process, 1)
        self.assertIn("did not ask for", self.stderr())


@quick
class Ends(ReferenceCase):
    def test_the_end_of_the_stream(self):
        process, link = self.start(rules())
        link.hello()
        link.end()
        self.ended(process, 0)
        self.assertEqual(self.stderr(), "")

    def test_a_proxy_that_takes_no_more(self):
        process, link = self.start(rules())
        link.hello()
        os.close(link.into)
        link.into = link.out
        link.send(req(1))
        self.ended(process, 0)

    def test_signals(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            process, link = self.start(rules())
            link.hello()
            process.send_signal(number)
            self.ended(process, 0)
            process, path = self.serve(rules())
            link = self.connect(path)
            link.hello()
            process.send_signal(number)
            self.ended(process, 0)
            self.assertFalse(path.exists())
            self.assertIsNone(link.get())

    def test_the_socket(self):
        process, path = self.serve(rules())
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        second = subprocess.run([DECIDER, "--listen", path, self.directory / "rules.json"],
                                capture_output=True, env=clean_environment(), timeout=WAIT)
        self.assertEqual(second.returncode, 2, second)
        process.kill()
        process.wait()
        self.assertTrue(path.exists())
        self.serve(rules())
        self.assertIn("hello", self.connect(path).hello()["t"])
        path.unlink()
        path.write_text("not a socket")
        third = subprocess.run([DECIDER, "--listen", path, self.directory / "rules.json"],
                               capture_output=True, env=clean_environment(), timeout=WAIT)
        self.assertEqual(third.returncode, 2, third)
        self.assertEqual(path.read_text(), "not a socket")

    def test_many_links_at_once(self):
        _, path = self.serve(rules(default={"action": "allow"}))
        links = [self.connect(path) for _ in range(100)]
        for i, link in enumerate(links):
            self.assertEqual(link.hello(1 + i % 2)["proto"], 1 + i % 2)
        for number in (1, 2):
            for link in links:
                link.send(req(number))
            for link in links:
                self.assertEqual(link.get()["id"], number)

    def test_more_links_than_descriptors(self):
        path = self.directory / "d.sock"
        self.spawn([DECIDER, "--listen", str(path), str(self.rules_file(rules()))],
                   stdin=subprocess.DEVNULL,
                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20)))
        self.said("serving")
        links = [self.connect(path) for _ in range(30)]
        links[0].hello()
        self.said("no new link")
        for link in links[:20]:
            link.end()
        self.assertEqual(links[29].hello()["t"], "hello")


class BackPressure(ReferenceCase):
    BIG = {"methods": ["GET"], "action": "allow", "setHeaders": {"x-big": "x" * 60000}}

    def fill(self, link):
        """Writes questions until nothing is taken for half a second; how many bytes were."""
        os.set_blocking(link.out, False)
        data, sent, number = b"", 0, 0
        while select.select([], [link.out], [], 0.5)[1]:
            if not data:
                number += 1
                data = frame(req(number))
            with contextlib.suppress(BlockingIOError):
                n = os.write(link.out, data)
                data, sent = data[n:], sent + n
            self.assertLess(sent, 64 << 20, "it reads on although nothing is taken")
        os.set_blocking(link.out, True)
        return sent, number, data

    def run_against(self, process, link, rss_kib):
        link.hello(1)
        sent, number, rest = self.fill(link)
        rss = int(pathlib.Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * 4
        if "asan" not in SRT:
            self.assertLess(rss, rss_kib)
        # Everything that it took is answered once answers are taken.
        got = 0
        whole = number if not rest else number - 1
        while got < whole:
            got += 1
            self.assertEqual(link.get()["id"], got)

    def test_over_pipes(self):
        self.run_against(*self.start(rules(self.BIG)), 16384)

    def test_over_the_socket(self):
        process, path = self.serve(rules(self.BIG))
        self.run_against(process, self.connect(path), 16384)

    def test_a_signal_ends_it_all_the_same(self):
        process, link = self.start(rules(self.BIG))
        link.hello(1)
        self.fill(link)
        process.terminate()
        self.ended(process, 0)

    def test_a_link_that_takes_nothing_holds_up_no_other(self):
        _, path = self.serve(rules(self.BIG, default={"action": "allow"}))
        stuck, other = self.connect(path), self.connect(path)
        stuck.hello(1)
        self.fill(stuck)
        other.hello(1)
        self.assertEqual(other.ask(req(1, "PUT")), {"action": "allow"})


@quick
class Log(ReferenceCase):
    def test_what_it_holds(self):
        log = self.directory / "log"
        process, link = self.start(rules(
            {"host": "a.test", "methods": ["GET"], "action": "allow"},
            {"body": {"max": 9, "contains": "k3y"}, "action": "deny"}), "--log", log)
        link.hello()
        before = time.time()
        link.ask(req(1, path="/p\"\x7f#fr4gment", query="qu3ry",
                     headers={"x-header": ["v4lue"], "authorization": ["v4lue"]}))
        link.ask(req(2, "POST", path="/q"))
        link.ask(body(2, b"my k3y"))
        link.ask(conn(3, host="::1", port=22, via="socks", user="us3r"))
        link.ask(req(4, host="a..b"))
        lines = self.log(log, 4)
        for line in lines:
            at = line.pop("time")
            self.assertRegex(at, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertLess(abs(time.time() - before), 60)
        self.assertEqual(lines, [
            {"id": 1, "kind": "request", "method": "GET", "host": "a.test", "port": 443,
             "path": "/p\"\x7f", "action": "allow", "rule": 0},
            {"id": 2, "kind": "request", "method": "POST", "host": "a.test", "port": 443,
             "path": "/q", "action": "deny", "status": 403, "rule": 1},
            {"id": 3, "kind": "connection", "via": "socks", "host": "::1", "port": 22,
             "action": "deny", "status": 403, "rule": None},
            {"id": 4, "kind": "request", "method": "GET", "host": "a..b", "port": 443,
             "path": "/", "action": "deny", "status": 400, "rule": None}])
        text = log.read_text()
        for secret in ("fr4gment", "qu3ry", "v4lue", "k3y", "us3r"):
            self.assertNotIn(secret, text)
        self.assertEqual(log.stat().st_mode & 0o777, 0o600)
        process.terminate()
        self.ended(process, 0)

    def test_to_standard_error(self):
        _, link = self.start(rules(), "--log", "-")
        link.hello(1)
        link.ask(req(1))
        self.assertEqual(self.log(self.directory / "stderr", 1)[0]["id"], 1)

    def test_a_log_that_is_full_stops_nothing(self):
        _, link = self.start(rules(default={"action": "allow"}), "--log", "/dev/full")
        link.hello(1)
        for start in range(1, 10001, 100):
            link.send(*(req(i, path="/" + "x" * 500) for i in range(start, start + 100)))
            for i in range(start, start + 100):
                self.assertEqual(link.get()["id"], i)
        self.said("lines are being dropped")
        self.assertEqual(self.stderr().count("dropped"), 1)

    def test_a_reader_that_stands_still_stops_nothing(self):
        fifo = self.directory / "fifo"
        os.mkfifo(fifo)
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        _, link = self.start(rules(default={"action": "allow"}), "--log", fifo)
        link.hello(1)
        for i in range(1, 3001):
            self.assertEqual(link.ask(req(i, path="/" + "x" * 500)), {"action": "allow"})
        text = b""
        end = time.monotonic() + WAIT
        while not text.endswith(b"\n") and time.monotonic() < end:
            with contextlib.suppress(BlockingIOError):
                text += os.read(reader, 1 << 20)
        self.assertEqual(json.loads(text.split(b"\n")[0])["id"], 1)

    def test_opened_afresh(self):
        log = self.directory / "log"
        process, link = self.start(rules(), "--log", log)
        link.hello(1)
        link.ask(req(1))
        self.log(log, 1)
        log.rename(self.directory / "old")
        process.send_signal(signal.SIGHUP)
        self.said("read again")
        link.ask(req(2))
        self.assertEqual([line["id"] for line in self.log(log, 1)], [2])
        self.assertEqual([line["id"] for line in self.log(self.directory / "old", 1)], [1])


@quick
class Reload(ReferenceCase):
    def test_new_rules_decide_on_links_that_are_open(self):
        process, path = self.serve(rules())
        link = self.connect(path)
        link.hello()
        self.assertEqual(link.ask(req(1)), DENY)
        self.rules_file(rules(allowed=["b.test"], default={"action": "allow"}))
        process.send_signal(signal.SIGHUP)
        self.said("read again")
        self.assertEqual(link.ask(req(2)), {"action": "allow"})
        self.assertEqual(self.connect(path).hello()["allowedDomains"], ["b.test"])

    def test_bad_rules_leave_the_old_ones(self):
        process, link = self.start(rules(default={"action": "allow"}))
        link.hello()
        for times, bad in enumerate(("{", json.dumps(rules({"action": "permit"}))), 1):
            self.rules_file(bad)
            process.send_signal(signal.SIGHUP)
            self.said("the rules stay as they were", times)
        (self.directory / "rules.json").unlink()
        process.send_signal(signal.SIGHUP)
        self.said("No such file")
        self.assertEqual(link.ask(req(1)), {"action": "allow"})
        self.said("rules.0.action")

    def test_a_body_is_judged_by_the_rules_that_asked_for_it(self):
        process, link = self.start(rules({"body": {"max": 9, "contains": "key"}, "action": "deny",
                                          "reason": "old"}))
        link.hello()
        self.assertEqual(link.ask(req(1))["action"], "need_body")
        self.rules_file(rules(default={"action": "allow"}))
        process.send_signal(signal.SIGHUP)
        self.said("read again")
        self.assertEqual(link.ask(body(1, b"a key")),
                         {"action": "deny", "status": 403, "reason": "old"})


class Example(ReferenceCase):
    """examples/decider.py, and rules that say the same."""

    TABLE = [
        ([conn(1, host="api.example.com")], "allow"),
        ([conn(2, host="api.example.com", port=80)], "deny"),
        ([conn(3, host="example.com", via="socks", user="u")], "deny"),
        ([req(4, path="/v1/things", headers={"accept": ["*/*"], "x-debug": ["1"]})], "allow"),
        ([req(5, "HEAD", path="/", query="a=b", hostHeader="a.test", sni="a.test")], "allow"),
        ([req(6, "DELETE", path="/v1/notes")], "deny"),
        ([req(7, "POST", path="/v1/other")], "deny"),
        ([req(8, "POST", path="/v1/notes"), body(8, b"a note")], "allow"),
        ([req(9, "POST", path="/v1/notes"), body(9, b"-----BEGIN PRIVATE KEY")], "deny"),
        ([req(10, "POST", path="/v1/notes"), body(10, b"x" * 65536, cut=True)], "deny"),
        ([req(11, "POST", path="/v1/notes", headers={"x": []}), body(11, b"")], "allow"),
    ]

    def example(self):
        return self.piped(EXAMPLE)

    @quick
    def test_both_answer_alike(self):
        for proto in (1, 2):
            # What protocol 2 lists is not asked about.
            document = rules(*SAME, allowed=["api.example.com"] if proto == 1 else [],
                             default={"action": "deny", "reason": "read only"})
            _, ours = self.start(document)
            _, theirs = self.example()
            self.assertEqual(ours.hello(proto), theirs.hello(proto))
            for messages, action in self.TABLE:
                if proto == 1 and messages[0]["t"] == "conn":
                    continue
                for message in messages:
                    answer = ours.ask(message)
                    self.assertEqual(answer, theirs.ask(message), message)
                self.assertEqual(answer["action"], action, messages)

    @quick
    def test_the_end_and_violations(self):
        process, link = self.example()
        link.hello()
        link.end()
        self.ended(process, 0)
        for data in (frame(req(1)), frame(HELLO[2]) + frame(b"{}"),
                     frame(HELLO[2]) + frame(b'{"t":"hello","t":"hello"}'),
                     frame(HELLO[2]) + frame(b'{"t":"req","id":null}'),
                     frame(HELLO[2]) + frame(body(1, b"x")), frame(HELLO[2]) + b"\0\0\0\x10{",
                     frame({"t": "hello", "proto": 3})):
            process, link = self.example()
            link.raw(data)
            os.close(link.out)
            self.ended(process, 1)

    def test_ten_thousand_at_once(self):
        _, link = self.example()
        link.hello(1)
        with link.sending(*(req(i) for i in range(1, 10001))):
            self.assertEqual([link.get()["id"] for _ in range(10000)], list(range(1, 10001)))

    @quick
    def test_it_is_short(self):
        self.assertLess(len((TOP / "examples" / "decider.py").read_text().splitlines()), 100)
