"""Files that srt itself opens or runs, where a command has been before; and what outlives a run."""

import os
import shutil

from harness import BoxCase, quick
from harness.terminal import Terminal

REFUSED = "is a symbolic link or passes through one"
# Arguments of system calls, and what they answer: 0 or the name of the errno.
TRY = """
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(numbers, *arguments):
    number = numbers[0 if os.uname().machine == "x86_64" else 1]
    given = [ctypes.c_long(number)]
    given += [a if isinstance(a, ctypes.Array) else ctypes.c_long(a) for a in arguments]
    return errno.errorcode[ctypes.get_errno()] if libc.syscall(*given) < 0 else 0
zeros = ctypes.create_string_buffer(64)
limit = ctypes.create_string_buffer(16)
mask = ctypes.create_string_buffer(b"\\xff" * 128, 128)
high = 7 << 32
PRIORITY, IOPRIO, LIMIT = (141, 140), (251, 30), (302, 261)
AFFINITY, SCHEDULER, PARAM, ATTR = (203, 122), (144, 119), (142, 118), (314, 274)
"""
STARVING = """
for pid in 1, high | 1:
    print(call(AFFINITY, pid, 128, mask), call(SCHEDULER, pid, 0, zeros), call(PARAM, pid, zeros),
          call(ATTR, pid, zeros, 0), call(LIMIT, pid, 7, zeros, 0), call(PRIORITY, 0, pid, 19),
          call(IOPRIO, 1, pid, 3 << 13))
print(call(PRIORITY, 1, 0, 19), call(PRIORITY, 2, 0, 19), call(IOPRIO, 2, 0, 3 << 13),
      call(IOPRIO, 3, 0, 3 << 13))
"""
ORDINARY = """
me = os.getpid()
for pid in 0, me:
    print(call(AFFINITY, pid, 128, mask), call(SCHEDULER, pid, 0, zeros), call(PARAM, pid, zeros),
          call(LIMIT, pid, 7, 0, limit), call(PRIORITY, 0, pid, 19),
          call(IOPRIO, 1, pid, 3 << 13 | 7))
"""
TERMINAL = TRY + """
import fcntl, struct, termios
word = ctypes.create_string_buffer(struct.pack("i", 0), 64)
print("refused", *(call((16, 29), 0, request, word) for base in (0x5423, 0x540C, 0x541D, 0x5437)
                   for request in (base, high | base)), ".")
modes = termios.tcgetattr(0)
termios.tcsetattr(0, termios.TCSADRAIN, modes)
fcntl.ioctl(0, termios.TIOCSWINSZ, fcntl.ioctl(0, termios.TIOCGWINSZ, b" " * 8))
print("allowed .")
"""


class Logs(BoxCase):
    """--log and --violations where the command of an earlier run may have put something."""

    def setUp(self):
        super().setUp()
        self.victim = self.home / ".bashrc"
        self.file(self.victim, "untouched\n")

    def run_logging(self, name, path, **kw):
        return self.box("echo ran; curl -s -o /dev/null http://no.test/; true",
                        options=(name, path), **kw)

    def refused(self, name, path, **kw):
        done = self.run_logging(name, path, **kw)
        self.assertEqual((done.status, done.out), (1, ""), done)
        self.assertIn(f"{path}: {REFUSED}", done.err)
        self.assertEqual(self.victim.read_text(), "untouched\n")

    @quick
    def test_a_planted_link_is_not_followed(self):
        self.succeeds(f"ln -s {self.victim} srt.log; mkdir d; ln -s {self.home} d/away; "
                      "ln -s /nowhere hung")
        for name in ("--log", "--violations"):
            for path in ("srt.log", "./srt.log", self.work / "srt.log", "hung", "d/away/.bashrc",
                         "d/../d/away/new", "/proc/self/cwd/srt.log"):
                with self.subTest(name=name, path=path):
                    self.refused(name, path)
        self.assertFalse((self.home / "new").exists())

    def test_the_settings_name_the_log(self):
        self.succeeds(f"ln -s {self.victim} srt.log")
        done = self.box("echo ran", self.settings(proxy={"log": "srt.log"}))
        self.assertEqual((done.status, done.out), (1, ""), done)
        self.assertIn(f"srt.log: {REFUSED}", done.err)
        self.assertEqual(self.victim.read_text(), "untouched\n")

    @quick
    def test_ordinary_names_serve(self):
        self.folder("work/logs")
        os.symlink(self.work / "logs", self.directory / "by-link")
        for name in ("--log", "--violations"):
            for path in (f"a{name}", f"logs/a{name}", f"../work/logs/b{name}",
                         self.work / f"c{name}", self.directory / "by-link" / f"d{name}"):
                with self.subTest(name=name, path=path):
                    done = self.run_logging(name, path)
                    self.assertEqual((done.status, done.out), (0, "ran\n"), done)
                    self.assertIn("no.test", (self.work / path).read_text())

    def test_descriptors_serve(self):
        for name in ("--log", "--violations"):
            path = self.settings_file(self.settings())
            done = self.host(f"{self.srt} --settings {path} {name} /dev/stderr -c "
                             "'curl -s -o /dev/null http://no.test/; true' 2>&1 | cat")
            self.assertIn('"no.test"', done.out)
            out = self.file(f"copied{name}")
            done = self.host(f"{self.srt} --settings {path} {name} >(cat >{out}; echo done) -c "
                             "'curl -s -o /dev/null http://no.test/; true' | cat")
            self.assertEqual((done.status, done.out), (0, "done\n"), done)
            self.assertIn('"no.test"', out.read_text())

    def test_what_takes_no_lines_is_refused(self):
        self.succeeds("mkfifo fifo")
        for path, why in ((".", "Is a directory"), ("fifo", "No such device or address")):
            done = self.run_logging("--log", path)
            self.assertEqual((done.status, done.out), (1, ""), done)
            self.assertIn(f"{path}: {why}", done.err)


class LogsBubblewrap(Logs):
    mounts = "bwrap"


class Planted(BoxCase):
    """A bwrap that a command left on PATH."""

    def setUp(self):
        super().setUp()
        self.real = shutil.which("bwrap", path="/usr/local/bin:/usr/bin:/bin")
        self.bin = self.folder("work/bin")
        self.mark = self.directory / "planted-ran"
        self.succeeds(f"printf '#!/bin/sh\\ntouch {self.mark}\\nexec {self.real} \"$@\"\\n' "
                      "> bin/bwrap; chmod 755 bin/bwrap")
        self.own(self.directory)

    def with_path(self, *directories, **kw):
        return self.box("echo ran", env={"PATH": ":".join(map(str, directories))}, **kw)

    @quick
    def test_it_is_passed_over(self):
        done = self.with_path(self.bin, "/usr/bin", "/bin")
        self.assertEqual((done.status, done.out), (0, "ran\n"), done)
        self.assertIn(f"warning: {self.real} is used, not {self.bin}/bwrap, where the command may "
                      "write", done.err)
        self.assertFalse(self.mark.exists())

    def test_by_a_link_as_well(self):
        elsewhere = self.folder("elsewhere")
        os.symlink(self.bin / "bwrap", elsewhere / "bwrap")
        other = self.directory / "other"
        os.symlink(self.bin, other)
        for directory in (elsewhere, other):
            done = self.with_path(directory, "/usr/bin", "/bin")
            self.assertEqual((done.status, done.out), (0, "ran\n"), done)
            self.assertIn(f"not {directory}/bwrap", done.err)
        self.assertFalse(self.mark.exists())

    @quick
    def test_alone_it_is_refused(self):
        tools = self.folder("tools")
        os.symlink("/bin/bash", tools / "bash")
        done = self.with_path(self.bin, tools)
        self.assertEqual((done.status, done.out), (1, ""), done)
        self.assertIn(f"only where the command may write ({self.bin}/bwrap): name it by bwrapPath",
                      done.err)
        self.assertFalse(self.mark.exists())

    def test_named_or_out_of_reach_it_is_trusted(self):
        for document in (self.settings(bwrapPath=str(self.bin / "bwrap")),
                         self.settings(deny_write=["bin"]), self.settings(write=["other"])):
            self.mark.unlink(missing_ok=True)
            done = self.with_path(self.bin, "/usr/bin", "/bin", document=document)
            self.assertEqual((done.status, done.out), (0, "ran\n"), done)
            self.assertNotIn("is used, not", done.err)
            self.assertTrue(self.mark.exists())

    def test_the_systems_own_serves_whatever_is_opened(self):
        done = self.with_path("/usr/bin", "/bin", document=self.settings(write=["/"]))
        self.assertEqual((done.status, done.out), (0, "ran\n"), done)
        self.assertNotIn("bwrapPath", done.err)


class PlantedAsRoot(Planted):
    as_root = True


class Descriptors(BoxCase):
    @quick
    def test_a_directory_is_no_standard_descriptor(self):
        directory = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
        self.addCleanup(os.close, directory)
        for name, given in (("input", {"stdin": directory}), ("output", {"stdout": directory})):
            for options, status in (((), 1), (("--exit-codes", "strict"), 125)):
                done = self.box("touch ran", options=options, **given)
                self.assertEqual(done.status, status, done)
                self.assertEqual(done.err, f"Error: standard {name} is a directory: the command "
                                           "could walk out of the box by it\n")
        self.assertEqual(self.box("touch ran", stderr=directory).status, 1)
        self.assertFalse((self.work / "ran").exists())

    def test_other_subcommands_take_it(self):
        directory = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
        self.addCleanup(os.close, directory)
        path = self.settings_file(self.settings())
        done = self.start("check", "--settings", path, stdin=directory).wait()
        self.assertEqual(done.status, 0, done)


class Lasting(BoxCase):
    """Calls whose effect would last, or keep the box from ending."""

    @quick
    def test_init_cannot_be_starved(self):
        for kind in ({}, {"network": {"allowAllUnixSockets": True}},
                     {"allowNestedUserNamespaces": True}):
            out = self.succeeds(self.python(TRY + STARVING), self.settings(**kind))
            self.assertEqual(out, " ".join(["EPERM"] * 7) + "\n" + " ".join(["EPERM"] * 7) + "\n" +
                             " ".join(["EPERM"] * 4) + "\n")

    @quick
    def test_ones_own_priorities_are_free(self):
        self.assertEqual(self.succeeds(self.python(TRY + ORDINARY)), "0 0 0 0 0 0\n" * 2)
        self.assertEqual(self.succeeds("nice -n 5 nice; ulimit -n 100; ulimit -n; taskset -c 0 echo t;"
                                       "ionice -c 3 echo i; chrt -o 0 echo c"),
                         "5\n100\nt\ni\nc\n")

    @quick
    def test_the_terminal_is_left_as_it_was(self):
        self.file("try.py", TERMINAL)
        path = self.settings_file(self.settings())
        terminal = Terminal(self.as_user(self.srt, "--settings", path, "-c",
                                         "/usr/bin/python3 try.py"), self.work,
                            self.environment({"TERM": "vt100"}))
        self.addCleanup(terminal.close)
        terminal.shows(r"^refused( EPERM){8} \.$")
        terminal.shows(r"^allowed \.$")
        self.assertEqual(terminal.wait(), 0)


class LastingAsRoot(Lasting):
    as_root = True
