"""Many runs leave nothing behind: files, sockets, processes, mounts, records."""

import concurrent.futures
import os
import pathlib
import signal
import time

from harness import BoxCase, quick

AT_ONCE = 50


class Soak(BoxCase):
    def setUp(self):
        super().setUp()
        self.origin = self.http()
        self.document = self.settings(self.origin, deny_write=["a/b", "c"], deny_read=["hidden"])
        self.settings_path = self.settings_file(self.document)
        self.file("hidden/f", "SECRET\n")
        self.run_once(0)
        self.before = self.state()

    def run_once(self, number):
        done = self.start("--settings", self.settings_path, "-c",
                          f"echo {number} >out{number % 100}; exit {number % 200}").wait(120)
        self.assertEqual((done.status, done.out, done.err), (number % 200, "", ""))

    def records(self):
        """Records of stand-ins that tell of this test's directory; other tests have theirs."""
        found = set()
        for directory in (f"/run/user/{self.account.pw_uid}/srt", f"/tmp/.srt-{self.account.pw_uid}"):
            for path in pathlib.Path(directory).glob("*"):
                try:
                    if str(self.directory).encode() in path.read_bytes():
                        found.add(path)
                except OSError:
                    pass  # it is another run's and gone, or a node that holds nothing
        return found

    def state(self):
        """What a run could leave: by kind, so that a difference tells."""
        return {"files": {p for p in self.listing() if "/work/out" not in p},
                "records": self.records(),
                "processes": set(self.processes(str(self.programs))),
                "mounts": pathlib.Path("/proc/self/mountinfo").read_text(),
                "descriptors of this test": len(os.listdir("/proc/self/fd"))}

    def nothing_left(self):
        self.vanishes(str(self.programs))
        after = self.state()
        for kind, value in self.before.items():
            with self.subTest(kind):
                self.assertEqual(after[kind], value)
        self.assertFalse([p for p in pathlib.Path("/proc").glob("[0-9]*/stat") if self.zombie_of_ours(p)])

    @staticmethod
    def zombie_of_ours(path):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            return False
        return fields[0] == "Z" and int(fields[1]) == os.getpid()

    @quick
    def test_twenty_runs(self):
        for number in range(20):
            self.run_once(number)
        self.nothing_left()

    def test_a_thousand_runs(self):
        for number in range(1000):
            self.run_once(number)
        self.nothing_left()

    @quick
    def test_fifty_at_once(self):
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self.run_once, range(AT_ONCE)))
        self.nothing_left()

    def test_runs_that_are_refused(self):
        refused = self.settings_file(self.settings(deny_read=["/*/x"], deny_write=["c"]))
        for _ in range(60):
            done = self.start("--settings", refused, "-c", "echo ran").wait()
            self.assertEqual((done.status, done.out), (1, ""))
        self.nothing_left()

    def test_signals_at_any_moment(self):
        """From the first instruction on; the end of the output tells that all are gone."""
        for number, statuses in ((signal.SIGKILL, (-9,)), (signal.SIGTERM, (-15, 0, 1)),
                                 (signal.SIGINT, (-2, 0, 1))):
            for step in range(50):
                running = self.start("--settings", self.settings_path, "-c", "sleep 0.02; exit 7")
                time.sleep(step * 0.001)
                running.signal(number)
                with self.subTest((number, step)):
                    self.assertIn(running.wait().status, (*statuses, 7))
        self.run_once(1)
        self.nothing_left()

    def test_fifty_at_once_that_are_killed(self):
        """What the dead left is removed by the next run, whoever else runs."""
        boxes = [self.start("--settings", self.settings_path, "-c", "echo up; sleep 100")
                 for _ in range(AT_ONCE)]
        for box in boxes:
            box.says("up")
        survivor, *killed = boxes
        for box in killed:
            box.process.kill()
        for box in killed:
            box.wait()
        self.run_once(1)
        self.assertTrue((self.work / "c").exists())  # the survivor's
        survivor.process.terminate()
        survivor.wait()
        self.run_once(2)
        self.nothing_left()


class SoakByBubblewrap(Soak):
    mounts = "bwrap"
    test_a_thousand_runs = None
