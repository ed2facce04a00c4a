"""The launched process: its arguments, exit status and signals, and what is left when somebody dies."""

import os
import pathlib
import signal
import subprocess
import time

from harness import BoxCase, quick

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
GRACE = 2.0


class Statuses(BoxCase):
    @quick
    def test_arguments_arrive_as_given(self):
        words = ["hello world", "$HOME", "", "*", "a'b"]
        done = self.start("-s", self.settings_file(self.settings()), "printf", "%s\n", *words).wait()
        self.assertEqual(done.out.split("\n"), [*words, ""])

    @quick
    def test_statuses(self):
        for command, status in (("exit 42", 42), ("kill -9 $$", 137), ("sh -c 'kill -9 $$'", 137),
                                ("kill -TERM $$", 143), ("kill -SEGV $$", 139), ("kill -HUP $$", 129),
                                ("kill -USR1 $$", 138), ("kill -PIPE $$", 141), ("nosuch", 127),
                                ("/etc/passwd", 126), ("true", 0), ("exit 255", 255)):
            with self.subTest(command):
                self.assertEqual(self.box(command).status, status)

    @quick
    def test_our_own_failures(self):
        for options, status in (((), 1), (("--exit-codes", "strict"), 125),
                                (("--exit-codes=compatible",), 1)):
            for document in ("{", {}, self.settings(write=[1])):
                with self.subTest((options, document)):
                    done = self.box("true", document, options)
                    self.assertEqual((done.status, done.out), (status, ""))
                    self.assertTrue(done.err.startswith("Error: "), done.err)
        self.assertEqual(self.box("exit 42", options=["--exit-codes=strict"]).status, 42)
        self.assertEqual(self.box("kill -9 $$", options=["--exit-codes=strict"]).status, 137)

    @quick
    def test_a_command_that_begins_with_a_dash(self):
        self.assertEqual(self.box("-x; echo after").out, "after\n")


class Signals(BoxCase):
    CATCHING = 'sh -c \'trap "echo T; exit 3" TERM INT HUP QUIT; echo up; sleep 100 & wait\''

    @quick
    def test_a_command_that_cleans_up(self):
        for group in (False, True):
            for number in SIGNALS:
                with self.subTest((number, group)):
                    running = self.start_box(self.CATCHING).says("up")
                    (running.signal_group if group else running.signal)(number)
                    done = running.wait()
                    self.assertEqual((done.status, done.out), (3, "up\nT\n"), done)
        self.assertEqual(self.listing(), set())

    @quick
    def test_a_command_that_dies_of_it(self):
        for number in SIGNALS:
            for options, status in (((), 0), (("--exit-codes=strict",), 128 + number)):
                with self.subTest((number, options)):
                    running = self.start_box("echo up; exec sleep 100", options=options).says("up")
                    running.signal(number)
                    self.assertEqual(running.wait().status, status)

    def test_a_command_that_ignores_it(self):
        mark = f"1{os.getpid()}{bool(self.mounts):d}"
        for options, status in (((), 0), (("--exit-codes=strict",), 143)):
            running = self.start_box(f"trap '' TERM; echo up; sleep {mark} & while :; do sleep 0.1; done",
                                     options=options).says("up")
            begun = time.monotonic()
            running.signal(signal.SIGTERM)
            self.assertEqual(running.wait().status, status)
            self.assertGreater(time.monotonic() - begun, GRACE - 0.2)
            self.vanishes(f"sleep\0{mark}")
        self.assertEqual(self.listing(), set())

    @quick
    def test_srt_is_killed(self):
        """Nothing in the box lives on, and the next run removes what was left on the host."""
        mark = f"2{os.getpid()}{bool(self.mounts):d}"
        running = self.start_box(f"trap '' TERM HUP INT; echo up; setsid sleep {mark} & sleep {mark}; "
                                 "sleep 100").says("up")
        running.signal(signal.SIGKILL)
        running.wait()
        self.vanishes(f"sleep\0{mark}")
        self.succeeds("true")
        self.assertEqual(self.listing(), set())

    def test_bubblewrap_is_killed(self):
        mark = f"3{os.getpid()}{bool(self.mounts):d}"
        running = self.start_box(f"echo up; sleep {mark}").says("up")
        child = pathlib.Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
        self.assertEqual(len(child), 1, "srt has one child")
        os.kill(int(child[0]), signal.SIGKILL)
        done = running.wait()
        self.assertEqual(done.status, 1)
        self.assertIn("Process killed by signal: SIGKILL", done.err)
        self.vanishes(f"sleep\0{mark}")
        self.assertEqual(self.listing(), set())

    def test_the_parent_is_killed(self):
        """srt goes on for its own end or ends; in either case nobody is left alone."""
        mark = f"4{os.getpid()}{bool(self.mounts):d}"
        document = self.settings_file(self.settings())
        parent = subprocess.Popen(
            self.as_user("/bin/bash", "-c", f"{self.srt} -s {document} -c 'echo up; sleep {mark}' & "
                         "echo $!; wait"),
            cwd=self.work, env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL)
        with parent:
            lines = {parent.stdout.readline().strip() for _ in range(2)}
            pid = int((lines - {b"up"}).pop())
            parent.kill()
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            pass
        self.vanishes(f"sleep\0{mark}")
        self.vanishes(str(document))
        self.assertEqual(self.listing(), set())

    def test_before_the_command_runs(self):
        slow = self.file(self.directory / "slow/bwrap", "#!/bin/sh\nexec sleep 60\n", mode=0o755)
        for number in (signal.SIGTERM, signal.SIGINT):
            running = self.start_box("echo ran", self.settings(bwrapPath=str(slow)))
            time.sleep(0.5)  # srt is on its way by then; earlier, the signal's default is as good
            running.signal(number)
            done = running.wait()
            self.assertEqual((done.status, done.out), (1, ""), done)
            self.assertIn(f"Error: interrupted by {signal.Signals(number).name}", done.err)
            self.assertEqual(self.listing(), set())


class SignalsByBubblewrap(Signals):
    mounts = "bwrap"


class Inheritance(BoxCase):
    """What a command has from its caller is what it would have without srt."""

    @quick
    def test_signal_masks(self):
        self.assertEqual(self.succeeds("grep -E 'Sig(Blk|Ign)' /proc/self/status").split()[1::2],
                         ["0" * 16] * 2)
        out = self.succeeds("grep SigIgn /proc/self/status", before=["/usr/bin/nohup"])
        self.assertEqual(out.split()[1], "0" * 15 + "1")

    @quick
    def test_limits(self):
        out = self.succeeds("cat /proc/self/limits",
                            before=["prlimit", "--nofile=300:4000", "--core=12345:99999"],
                            env={"ASAN_OPTIONS": "disable_coredump=0"})  # of a sanitized srt
        self.assertRegex(out, r"Max open files +300 +4000 ")
        self.assertRegex(out, r"Max core file size +12345 +99999 ")

    @quick
    def test_the_rest(self):
        self.assertEqual(self.succeeds("umask", before=["/bin/sh", "-c", 'umask 027; exec "$@"', "sh"]),
                         "0027\n")
        self.assertEqual(self.succeeds("nice", before=["nice", "-n", "7"]), "7\n")
        self.assertEqual(self.succeeds("id -u").strip(), str(self.account.pw_uid))

    def test_a_reader_that_goes_away(self):
        read, write = os.pipe()
        running = self.start_box("yes; echo status $? >&2", stdout=write)
        os.close(write)
        os.read(read, 100)
        os.close(read)
        self.assertIn("status 141", running.wait().err)


class Descendants(BoxCase):
    def test_thousands_of_orphans_and_a_daemon(self):
        mark = f"5{os.getpid()}"
        out = self.succeeds(
            f"setsid sleep {mark} & for i in $(seq 2000); do (true &) ; done; sleep 0.3; "
            "grep -l '^State:.Z' /proc/[0-9]*/status | wc -l", seconds=60)
        self.assertEqual(out, "0\n")
        self.vanishes(f"sleep\0{mark}")

    def test_a_run_does_not_wait_for_what_it_left(self):
        done = self.box("sleep 100 & echo end")
        self.assertEqual((done.status, done.out), (0, "end\n"))
        self.assertLess(done.seconds, 10)


class DescendantsAsRoot(Descendants):
    as_root = True
