"""A box on a terminal: job control, Ctrl-C, resize, and no typing into it from inside."""

import os
import shlex
import subprocess
import time

from harness import BoxCase, quick
from harness.terminal import Terminal

INJECT = """
import ctypes, fcntl, os, termios
libc = ctypes.CDLL(None, use_errno=True)
def tried(request, argument):
    buffer = ctypes.create_string_buffer(argument)
    libc.syscall.argtypes = [ctypes.c_long] * 3 + [ctypes.c_void_p]
    number = {"x86_64": 16, "aarch64": 29}[os.uname().machine]
    return ctypes.get_errno() if libc.syscall(number, 0, request, buffer) < 0 else 0
print("tried", *(tried(r, a) for r in (0x5412, 0x5412 | 1 << 32, 0x541C, 0x541C | 5 << 40)
                 for a in (b"x", b"\\x02x")), ".")
"""


class OnTerminal(BoxCase):
    def terminal(self, *args, document=None, before=()):
        path = self.settings_file(document or self.settings())
        terminal = Terminal(self.as_user(*before, self.srt, "--settings", path, *args), self.work,
                            self.environment({"TERM": "vt100", "PS1": "P> ", "HISTFILE": ""}))
        self.addCleanup(terminal.close)
        return terminal

    def shell(self):
        # The shell that runs the command line is not interactive and drops PS1.
        terminal = self.terminal("env", "PS1=P> ", "bash", "--norc", "--noprofile", "-i")
        terminal.shows(r"P> $")
        return terminal


class Terminals(OnTerminal):
    @quick
    def test_job_control(self):
        terminal = self.shell()
        terminal.line("sleep 100")
        time.sleep(0.3)  # the keys are for sleep, once it is in the foreground
        terminal.type("\x1a").shows(r"Stopped +sleep 100")
        terminal.line("jobs").shows(r"\[1\]\+ +Stopped +sleep 100")
        terminal.line("fg").shows("^sleep 100")
        time.sleep(0.3)
        terminal.type("\x03").shows(r"P> $")
        terminal.line("echo status=$?").shows("^status=130$")
        terminal.line("sleep 100 & kill %1; wait; echo ended").shows("^ended$")
        terminal.line("exit 5")
        self.assertEqual(terminal.wait(), 5)
        self.assertEqual(terminal.modes(), terminal.before)

    @quick
    def test_resize(self):
        terminal = self.shell()
        terminal.line("stty size").shows("^24 80$")
        terminal.line("trap 'echo RESIZED' WINCH; echo ready").shows("^ready$")
        terminal.shows("P> $")
        terminal.resize(30, 100)
        terminal.line("").shows("RESIZED$")
        terminal.line("stty size").shows("^30 100$")

    def test_the_group_is_shared_with_processes_outside(self):
        """A signal to all of it would reach them: it is refused, and one to a process is not."""
        script = self.file("script", "#!/bin/bash\nsleep 97 & other=$!\n\"$@\"\n"
                           "kill -0 $other && echo other lives; kill $other\n")
        script.chmod(0o755)
        terminal = self.terminal("bash", "-c", "kill -KILL 0; echo box lives; sleep 98 & kill $!; "
                                 "wait $!; echo ended $?", before=(str(script),))
        terminal.shows("^box lives$")
        terminal.shows("^ended 143$")
        terminal.shows("^other lives$")

    @quick
    def test_the_terminal_is_there_but_cannot_be_typed_into(self):
        terminal = self.shell()
        terminal.line("echo seen >/dev/tty").shows("^seen$")
        terminal.line("tty").shows(r"^/dev/|not a tty")
        self.file("inject.py", INJECT)
        terminal.line("/usr/bin/python3 inject.py").shows(r"^tried( 1){8} \.$")

    @quick
    def test_ctrl_c(self):
        terminal = self.terminal("-c", "echo up; sleep 100; echo after")
        terminal.shows("^up$")
        time.sleep(0.3)
        terminal.type("\x03")
        self.assertEqual(terminal.wait(), 130)
        self.assertNotIn(b"after", terminal.text)

    def test_an_interpreter_that_handles_ctrl_c_lives_on(self):
        # A sleep that begins just as the signal comes is not cut short: it must not be a long one.
        terminal = self.terminal("-c", "exec " + self.python(
            "import time\ntry:\n print('up', flush=True)\n while True: time.sleep(0.1)\n"
            "except KeyboardInterrupt: print('caught', flush=True)\ntime.sleep(3); print('alive')"))
        terminal.shows("^up$")
        terminal.type("\x03").shows("caught$")
        terminal.shows("^alive$")
        self.assertEqual(terminal.wait(), 0)

    def test_a_signal_of_a_kill_starts_the_grace(self):
        terminal = self.terminal("-c", "trap '' INT; echo up; while :; do sleep 0.1; done")
        terminal.shows("^up$")
        begun = time.monotonic()
        subprocess.run(self.as_user("kill", "-INT", str(terminal.process.pid)), check=True)
        terminal.wait(10)
        self.assertGreater(time.monotonic() - begun, 1.8)

    @quick
    def test_modes_come_back_after_a_crash(self):
        terminal = self.terminal("-c", "stty raw -echo; kill -9 $$")
        self.assertEqual(terminal.wait(), 137)
        self.assertEqual(terminal.modes(), terminal.before)

    def test_stopping_and_going_on_under_the_callers_shell(self):
        path = self.settings_file(self.settings())
        terminal = Terminal(self.as_user("/bin/bash", "--norc", "--noprofile", "-i"), self.work,
                            self.environment({"TERM": "vt100", "PS1": "P> ", "HISTFILE": ""}))
        self.addCleanup(terminal.close)
        terminal.shows("P> $")
        terminal.line(f"{self.srt} -s {path} -c 'echo up; sleep 1; echo done'").shows("^up$")
        terminal.type("\x1a").shows("Stopped")
        terminal.line("echo outside").shows("^outside$")
        terminal.line("fg").shows("^done$")
        terminal.line("echo status=$?").shows("^status=0$")
        terminal.line(f"{self.srt} -s {path} -c 'echo up; sleep 100'").shows("^up$")
        time.sleep(0.3)
        terminal.type("\x03").shows("P> $")
        terminal.line("echo status=$?").shows("^status=130$")

    def test_a_terminal_that_hangs_up(self):
        """The window is closed: everything in the box ends."""
        mark = f"6{os.getpid()}{bool(self.mounts):d}"
        terminal = self.terminal("-c", f"echo up; sleep {mark}")
        terminal.shows("^up$")
        terminal.hang_up()
        self.vanishes(f"sleep\0{mark}")


class TerminalsByBubblewrap(Terminals):
    mounts = "bwrap"


class NoTerminal(BoxCase):
    @quick
    def test_without_one_the_command_is_in_a_session_of_its_own(self):
        out = self.succeeds(self.python(
            "import os\nprint(os.getsid(0) > 0)\ntry: open('/dev/tty')\nexcept OSError as e: print(e.errno)"))
        self.assertEqual(out, "True\n6\n")


class OnTmux(BoxCase):
    def tmux(self, *command, check=True):
        return subprocess.run(self.as_user("tmux", "-S", self.home / "socket", "-f", "/dev/null",
                                           *command), check=check, env=self.environment({"TERM": "vt100"}),
                              cwd=self.work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE).stdout.decode()

    def shows(self, text, window=0):
        end = time.monotonic() + 20
        while text not in (screen := self.tmux("capture-pane", "-p", "-t", f":{window}")):
            self.assertLess(time.monotonic(), end, f"{text!r} never came; had {screen}")
            time.sleep(0.05)

    def keys(self, *keys):
        self.tmux("send-keys", *keys)


class Tmux(OnTmux):
    def test_a_shell_in_tmux(self):
        self.tool("tmux")
        path = self.settings_file(self.settings())
        command = shlex.join([str(self.srt), "-s", str(path), "env", "PS1=P> ", "bash", "--norc", "-i"])
        self.tmux("new-session", "-d", "-x", "80", "-y", "20", command + "; echo over; sleep 60")
        self.addCleanup(self.tmux, "kill-server", check=False)
        self.shows("P>")
        self.keys("sleep 100", "Enter")
        time.sleep(0.5)
        self.keys("C-z")
        self.shows("Stopped")
        self.keys("fg", "Enter")
        time.sleep(0.5)
        self.keys("C-c")
        self.keys("clear; echo status=$?", "Enter")
        self.shows("status=0")
        self.tmux("resize-window", "-x", "100", "-y", "30")
        self.keys("stty size", "Enter")
        self.shows("30 100")
        self.keys("exit", "Enter")
        self.shows("over")


class TmuxByBubblewrap(Tmux):
    mounts = "bwrap"
