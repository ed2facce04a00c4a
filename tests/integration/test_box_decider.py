"""A box with a decider that its settings name: when it starts, who answers, and who may not."""

import json
import os
import signal
import stat
import subprocess
import sys
import time

from harness import BoxCase, ExecDecider, UnixDecider, allow, deny, quick


class Decided(BoxCase):
    def setUp(self):
        super().setUp()
        self.web = self.http()
        self.url = f"http://no.test:{self.web.port}/"

    def decider(self, kind=UnixDecider, decide=allow, **kw):
        decider = kind(self.folder("decider"), decide=decide, proto=2, **kw)
        self.addCleanup(decider.close)
        self.addCleanup(lambda: self.assertEqual(decider.errors, []))
        os.chmod(decider.path, 0o777)
        if kind is ExecDecider:
            os.chmod(decider.program, 0o644)
            # The box's user may not be able to reach the one that runs the tests.
            decider.command = decider.command.replace(sys.executable, "/usr/bin/python3")
        return decider

    def decided(self, decider, **kw):
        key = {"exec": decider.command} if isinstance(decider, ExecDecider) else {"unix": decider.path}
        return self.settings(self.web, decider={**key, **kw.pop("own", {})}, **kw)

    @quick
    def test_connections_are_asked_about(self):
        for kind in (UnixDecider, ExecDecider):
            decider = self.decider(kind, lambda m: allow(m) if m["t"] == "req" or m["host"] == "no.test"
                                   else deny(m, reason="not that one"))
            out = self.succeeds(f"curl -sS {self.url}; curl -sS http://two.no.test:{self.web.port}/",
                                self.decided(decider))
            self.assertTrue(out.startswith("hello\n"), out)
            self.assertIn("not that one", out)
            self.assertEqual([(m["host"], m["port"], m["via"]) for m in decider.of("conn")],
                             [("no.test", self.web.port, "http"), ("two.no.test", self.web.port, "http")])
            decider.close()

    @quick
    def test_the_lists_of_its_hello(self):
        decider = self.decider(decide=deny, allowed=["no.test"], denied=["ok.test"], asks=["connection"])
        out = self.succeeds(f"curl -sS {self.url}; curl -sS http://ok.test:{self.web.port}/",
                            self.decided(decider))
        self.assertTrue(out.startswith("hello\n"), out)
        self.assertIn("decider.deniedDomains", out)
        self.assertEqual(decider.of("conn"), [])

    @quick
    def test_settings_that_come_later_are_joined_with_its_lists(self):
        decider = self.decider(decide=deny, allowed=["no.test"], asks=["connection"])
        read, write = os.pipe()
        document = self.decided(decider)
        running = self.start_box(f"echo up; read x; curl -sS {self.url}; "
                                 f"curl -sS http://three.test:{self.web.port}/", document,
                                 options=["--control-fd", str(read)], pass_fds=(read,),
                                 stdin=subprocess.PIPE)
        os.close(read)
        running.says("up")
        self.dns.add("three.test", "127.0.0.5")
        document["network"]["allowedDomains"].append("three.test")
        os.write(write, json.dumps(document).encode() + b"\n")
        running.process.stdin.write(b"\n")
        running.process.stdin.close()
        done = running.wait()
        os.close(write)
        self.assertEqual(done.out, "up\nhello\nhello\n", done)

    @quick
    def test_a_decider_that_cannot_be_had(self):
        for key, why in (({"exec": "/nowhere/decider"}, "No such file"),
                         ({"exec": "/bin/true"}, "status 0"),
                         ({"exec": "sh -c 'exit 3'"}, "status 3"),
                         ({"exec": "/bin/echo hello"}, "")):
            document = self.settings(decider=key)
            done = self.box("echo ran", document, options=["--exit-codes", "strict"])
            self.assertEqual((done.status, done.out), (125, ""), done)
            self.assertRegex(done.err, rf"\AError: decider: .*{why}.*\n\Z")

    def test_no_hello(self):
        done = self.box("echo ran", self.settings(decider={"exec": "sleep 60"}))
        self.assertEqual((done.status, done.out), (1, ""), done)
        self.assertRegex(done.err, r"\AError: decider: no hello.*\n\Z")

    def test_a_socket_that_nobody_listens_at(self):
        done = self.box("echo ran", self.settings(decider={"unix": str(self.folder("decider") / "none")}))
        self.assertEqual((done.status, done.out), (1, ""), done)
        self.assertRegex(done.err, "^Error: decider: .*No such file")
        self.assertGreater(done.seconds, 5)

    def test_a_decider_that_comes_up_late(self):
        decider = self.decider()
        decider.away()
        running = self.start_box(f"curl -sS {self.url}", self.decided(decider))
        decider.back()
        os.chmod(decider.path, 0o777)
        self.assertEqual(running.wait().out, "hello\n")

    @quick
    def test_being_ended_before_its_hello(self):
        decider = self.decider(hello=False)
        running = self.start_box("echo ran", self.decided(decider))
        decider.wait_hellos(1)
        running.signal(signal.SIGTERM)
        done = running.wait()
        self.assertEqual((done.status, done.out), (1, ""), done)
        self.assertIn("interrupted by SIGTERM", done.err)

    @quick
    def test_away_and_back(self):
        decider = self.decider()
        running = self.start_box(f"curl -sS {self.url}; echo first; read x; curl -s -o /dev/null "
                                 f"-w '%{{http_code}}\\n' http://two.no.test:{self.web.port}/; echo second; read x; "
                                 f"until curl -sSf {self.url} 2>/dev/null; do sleep 0.1; done",
                                 self.decided(decider), stdin=subprocess.PIPE)
        running.says("first\n")
        decider.away()
        running.process.stdin.write(b"\n")
        running.process.stdin.flush()
        running.says("503\nsecond\n")
        decider.back()
        os.chmod(decider.path, 0o777)
        running.process.stdin.write(b"\n")
        running.process.stdin.close()
        done = running.wait()
        self.assertEqual(done.out, "hello\nfirst\n503\nsecond\nhello\n", done)
        self.assertEqual(done.err.count("srt: warning: decider: "), 1, done.err)

    @quick
    def test_the_box_has_no_way_to_it(self):
        decider = self.decider()
        path = decider.path
        connect = ("import socket\ntry: s = socket.socket(socket.AF_UNIX); "
                   f"s.connect({path!r}); print('in')\nexcept OSError as e: print('out')")
        out = self.succeeds(f"{self.python(connect)}; rm {path} 2>/dev/null; mv {path} other 2>/dev/null; "
                            f"echo x 2>/dev/null >{path}; curl -sS {self.url}", self.decided(decider))
        self.assertEqual(out, "out\nhello\n")
        self.assertTrue(stat.S_ISSOCK(os.stat(path).st_mode))

    @quick
    def test_settings_by_which_the_command_could_stand_in_for_it(self):
        """After a restart its socket is another node, which nothing hides from a box that is there."""
        decider = self.decider()
        named = self.work / "link"
        named.symlink_to(decider.path)
        for unix, document, why in (
                (decider.path, {"network": {"allowAllUnixSockets": True}}, "allowAllUnixSockets"),
                (self.work / "decider.sock", {}, "the command may write where"),
                (self.work / "link", {}, "the command may write where"),
                (self.folder("own") / "sock", {"write": [".", str(self.directory / "own")]}, "the command may write where"),
                (self.work / "kept/decider.sock", {"deny_write": ["kept"]}, "No such file")):
            self.folder("work/kept")
            document = self.settings(self.web, decider={"unix": str(unix)}, **document)
            begun = time.monotonic()
            done = self.box("echo ran", document, options=["--exit-codes", "strict"])
            self.assertEqual((done.status, done.out), (125, ""), (unix, document, done))
            self.assertRegex(done.err, rf"\AError: decider.*{why}.*\n\Z")
            self.assertEqual(time.monotonic() - begun > 5, why == "No such file")

    @quick
    def test_a_program_that_the_command_could_change(self):
        """It runs outside of the box, and runs again."""
        for name in ("decider.py", "rules.json", "kept/rules.json"):
            (self.work / name).parent.mkdir(exist_ok=True)
            (self.work / name).write_text("")
            os.chmod(self.work / name, 0o777)
        os.chmod(self.work / "kept", 0o777)
        (self.work / "link").symlink_to("rules.json")
        for command, options, reached in (
                ("/usr/bin/python3 decider.py", {}, "decider.py"), ("./decider.py", {}, "./decider.py"),
                ("/bin/true rules.json", {}, "rules.json"), ("/bin/true link", {}, "link"),
                (f"/bin/true {self.work}/kept/rules.json", {}, f"{self.work}/kept/rules.json"),
                ("/bin/true kept/rules.json rules.json", {"deny_write": ["kept"]}, "rules.json"),
                ("/bin/true kept/rules.json", {"deny_write": ["kept"]}, None), ("/bin/true nothing", {}, None)):
            with self.subTest(command):
                document = self.settings(self.web, decider={"exec": command}, **options)
                done = self.box("echo ran", document)
                self.assertEqual((done.status, done.out), (1, ""), done)
                if reached is not None:
                    self.assertEqual(done.err, f"Error: decider.exec: the command may write {reached}, and could "
                                     "decide for itself\n")
                else:
                    self.assertNotIn("may write", done.err)

    def test_what_its_hello_allowed_ends_with_it(self):
        decider = self.decider(decide=lambda m: None, allowed=["no.test"], asks=["connection"])
        code = f"curl -s -o /dev/null -w '%{{http_code}}\n' {self.url}"
        running = self.start_box(f"{code}; read x; {code}", self.decided(decider), stdin=subprocess.PIPE)
        running.says("200\n")
        decider.away()
        running.process.stdin.write(b"\n")
        running.process.stdin.close()
        self.assertEqual(running.wait().out, "200\n503\n")

    def test_protocol_1_is_for_gateways(self):
        decider = self.decider()
        done = self.box("echo ran", self.decided(decider, own={"proto": 1}))
        self.assertEqual((done.status, done.out), (1, ""), done)

    def test_a_plan_needs_none(self):
        done = self.box("echo ran", self.settings(decider={"exec": "/nowhere"}), options=["--print-plan"])
        self.assertEqual(done.status, 0, done)


class DecidedByBubblewrap(Decided):
    mounts = "bwrap"
