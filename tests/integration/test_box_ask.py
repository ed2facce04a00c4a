"""`srt --ask`: questions at the terminal about what no rule decides, and who can answer them."""

import re
import shlex
import subprocess
import termios
import time

from harness import quick
from harness.terminal import Terminal
from test_box_terminal import OnTerminal

PROMPT = r" - o, r, d, n or q\? "

# Says on whose behalf it asks.
FORGE = """
import base64, os, socket, sys
token = os.environ["HTTP_PROXY"].split("@")[0].split(":")[-1]
user = "srt." + base64.b64encode(b"something harmless").decode()
sock = socket.create_connection(("127.0.0.1", 3128))
sock.sendall(f"CONNECT {sys.argv[1]} HTTP/1.1\\r\\nHost: {sys.argv[1]}\\r\\nProxy-Authorization: Basic "
             f"{base64.b64encode(f'{user}:{token}'.encode()).decode()}\\r\\n\\r\\n".encode())
print(sock.recv(300).split(b"\\r\\n")[0].decode())
"""

# Its own modes, a key at a time, each told in hex.
RAW_KEYS = """
import os, subprocess, sys, termios, tty
before = termios.tcgetattr(0)
tty.setraw(0)
child = subprocess.Popen(["curl", "-s", "-o", "got", sys.argv[1]])
print("raw", end="\\r\\n", flush=True)
while (key := os.read(0, 1)) != b"q":
    print("key", key.hex(), end="\\r\\n", flush=True)
print("curl", child.wait(), end="\\r\\n", flush=True)
same = termios.tcgetattr(0)[3] & (termios.ICANON | termios.ECHO) == 0
print("still raw", same, end="\\r\\n", flush=True)
termios.tcsetattr(0, termios.TCSADRAIN, before)
"""

# A client that asks for a URL, and resets its connection once a file is there.
RESET = """
import os, socket, struct, sys, time
sock = socket.create_connection(("127.0.0.1", 3128))
sock.sendall(f"GET {sys.argv[1]} HTTP/1.1\\r\\nHost: {sys.argv[1].split('/')[2]}\\r\\n\\r\\n".encode())
while not os.path.exists(sys.argv[2]):
    time.sleep(0.05)
sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
"""

# Takes every byte that comes to the terminal, and changes its modes, in a session of its own.
THIEF = """
import os, sys, termios, threading, time
if os.fork():
    os.waitpid(-1, 0) if len(sys.argv) > 1 else None
    sys.exit()
os.setsid()
def change():
    while True:
        try:
            modes = termios.tcgetattr(1)
            modes[3] &= ~termios.ICANON
            termios.tcsetattr(1, termios.TCSANOW, modes)
        except OSError:
            pass
threading.Thread(target=change, daemon=True).start()
open("thief", "w").close()
while True:
    with open("stolen", "ab") as out:
        out.write(os.read(0, 1))
"""


class Asked(OnTerminal):
    def setUp(self):
        super().setUp()
        self.web = self.http()
        self.url = f"http://no.test:{self.web.port}/"

    def ask(self, command, *options, document=None):
        return self.terminal("--ask", *options, "-c", command,
                             document=document or self.settings(self.web))

    def question(self, terminal, host="no.test", kind="http"):
        terminal.shows(rf"^srt: {re.escape(host)}:{self.web.port} \({kind}\){PROMPT}$")
        return terminal

    def asked(self, command, *options):
        return self.question(self.ask(command, *options))

    def fetched(self, status=True):
        return f"curl -sS{'f' if status else ''} --max-time 60 {self.url}"

    def asking(self, terminal, host="no.test", kind="http"):
        """The question is there, its prompt is not."""
        terminal.shows(rf"^srt: {re.escape(host)}:{self.web.port} \({kind}\)$")
        return terminal

    # What an answer does.

    @quick
    def test_once(self):
        terminal = self.asked(f"{self.fetched()}; {self.fetched()}; echo over")
        terminal.line("o").shows("^hello$")
        self.question(terminal).line("once").shows("^hello$")
        terminal.shows("^over$")
        self.assertEqual(terminal.wait(), 0)
        self.assertEqual(terminal.modes(), terminal.before)
        self.assertEqual(len(self.web.requests), 2)

    @quick
    def test_for_this_run(self):
        terminal = self.asked(f"for i in 1 2 3; do {self.fetched()}; done; "
                              f"{self.fetched()} -x socks5h://127.0.0.1:1080; echo over")
        terminal.line("r").shows("^over$")
        self.assertEqual(terminal.wait(), 0)
        self.assertEqual(len(self.web.requests), 4)
        self.assertEqual(len(re.findall(PROMPT.encode(), terminal.text)), 1)

    @quick
    def test_no_with_a_reason(self):
        terminal = self.asked(f"{self.fetched(False)}; {self.fetched(False)}")
        terminal.line("d not on a Friday").shows("not on a Friday")
        self.question(terminal).line("n").shows("user denied")
        terminal.wait()
        self.assertEqual(self.web.requests, [])
        self.assertNotIn("no.test", self.dns.queries)

    def test_no_for_this_run(self):
        terminal = self.asked(f"for i in 1 2 3; do {self.fetched(False)}; done; echo over")
        terminal.line("never  again ")
        for _ in range(3):
            terminal.shows("again")
        terminal.shows("^over$")
        self.assertEqual(len(re.findall(PROMPT.encode(), terminal.text)), 1)
        self.assertEqual(self.web.requests, [])

    def test_only_a_clear_yes(self):
        for lines in (("", "y", "yes"), ("o please", "O", "\x1b[A"), ("oo", "a", "allow"),
                      ("o\x04\r", "r\x04\x04", "\x04")):
            terminal = self.asked(self.fetched(False))
            for line in lines[:-1]:
                terminal.type(line if "\x04" in line else line + "\r")
                self.question(terminal)
            terminal.type(lines[-1] if "\x04" in lines[-1] else lines[-1] + "\r")
            terminal.shows("no clear answer was given")
            terminal.wait()
        self.assertEqual(self.web.requests, [])

    def test_after_an_unclear_line_a_clear_one_counts(self):
        terminal = self.asked(self.fetched())
        self.question(terminal.line("what?")).line("  o  ").shows("^hello$")
        self.assertEqual(terminal.wait(), 0)

    def test_tunnels_and_socks(self):
        terminal = self.ask(f"curl -sS -p -x $HTTP_PROXY {self.url}; "
                            f"curl -sS -x socks5h://127.0.0.1:1080 http://two.no.test:{self.web.port}/")
        self.dns.add("two.no.test", "127.0.0.5")
        self.question(terminal, kind="connect").line("o").shows("^hello$")
        self.question(terminal, "two.no.test", "socks").line("o").shows("^hello$")
        self.assertEqual(terminal.wait(), 0)

    def test_the_rules_come_first(self):
        terminal = self.ask(f"curl -sS http://ok.test:{self.web.port}/; "
                            f"curl -sS http://bad.no.test:{self.web.port}/; echo over",
                            document=self.settings(self.web, denied=["bad.no.test"]))
        terminal.shows("^hello$")
        terminal.shows("blocked")
        terminal.shows("^over$")
        self.assertNotRegex(terminal.text, PROMPT.encode())

    # Many at once.

    def test_fifty_at_once_are_one_question(self):
        terminal = self.asked(f"for i in $(seq 50); do {self.fetched()} & done; wait; echo over")
        time.sleep(1)  # for those that are slow to ask
        terminal.line("o")
        terminal.shows("^over$", 60)
        self.assertEqual(terminal.wait(), 0)
        self.assertEqual(len(self.web.requests), 50)
        self.assertLessEqual(len(re.findall(PROMPT.encode(), terminal.text)), 2)

    def test_one_question_at_a_time(self):
        hosts = [f"h{i}.no.test" for i in range(3)]
        self.dns.add("*.no.test", "127.0.0.5")
        terminal = self.ask(" & ".join(f"curl -sSf http://{h}:{self.web.port}/{h}" for h in hosts)
                            + "; wait; echo over")
        for i in range(3):
            host = terminal.shows(rf"^srt: h.\.no\.test:{self.web.port}").split()[1].split(":")[0]
            terminal.shows(PROMPT + "$")
            self.assertEqual(len(re.findall(PROMPT.encode(), terminal.text)), i + 1)
            hosts.remove(host)
            terminal.line("o")
        terminal.shows("^over$")
        self.assertEqual(hosts, [])
        self.assertEqual(len(self.web.requests), 3)

    def test_other_traffic_goes_on_during_a_question(self):
        terminal = self.asked(f"{self.fetched()} & until [ -e ready ]; do sleep 0.05; done; "
                              f"for i in $(seq 200); do curl -sSf http://ok.test:{self.web.port}/$i; done "
                              ">out; touch done; wait; echo over")
        self.file("ready")
        self.assertTrue(self.web.wait(lambda: len(self.web.requests) == 200), len(self.web.requests))
        terminal.line("o").shows("^hello$")
        terminal.shows("^over$")

    # Time.

    def test_nobody_answers(self):
        begun = time.monotonic()
        terminal = self.asked(self.fetched(False), "--ask-timeout", "2")
        terminal.shows("nobody answered in 2 s")
        self.assertGreater(time.monotonic() - begun, 1.8)
        self.assertEqual(terminal.wait(), 0)
        self.assertEqual(terminal.modes(), terminal.before)
        self.assertEqual(self.web.requests, [])

    def test_the_client_goes_away(self):
        """One for whom nobody else waits is taken down, and the next one comes."""
        self.file("gone.py", RESET)
        self.dns.add("next.no.test", "127.0.0.5")
        terminal = self.asked(f"/usr/bin/python3 gone.py {self.url} go; "
                              f"curl -sSf http://next.no.test:{self.web.port}/")
        self.file("go")
        terminal.shows(r"^srt: \(no longer needed\)$")
        self.question(terminal, "next.no.test").line("o").shows("^hello$")
        self.assertEqual(terminal.wait(), 0)
        self.assertEqual(len(self.web.requests), 1)

    # Who types.

    def test_what_was_typed_before_is_no_answer(self):
        terminal = self.ask(f"echo up; until [ -e go ]; do sleep 0.05; done; {self.fetched(False)}",
                            "--ask-timeout", "3")
        terminal.shows("^up$")
        terminal.line("o").line("r").line("o")
        self.file("go")
        self.question(terminal)
        terminal.shows("nobody answered")
        self.assertEqual(self.web.requests, [])

    def test_keys_in_flight_are_no_answer(self):
        """Whoever types on at a question has not seen it: its prompt waits until a second without a key."""
        terminal = self.asking(self.ask(self.fetched(False)))
        begun = time.monotonic()
        for _ in range(5):
            time.sleep(0.3)
            terminal.line("o")
        terminal.shows(PROMPT + "$")
        self.assertGreater(time.monotonic() - begun, 5 * 0.3 + 0.9)
        self.assertNotIn(b"o\r\n", terminal.text.split(b"no.test:")[-1])
        terminal.line("d").shows("user denied")
        self.assertEqual(self.web.requests, [])

    def test_keys_in_flight_when_another_question_comes(self):
        self.file("gone.py", RESET)
        self.dns.add("next.no.test", "127.0.0.5")
        terminal = self.asked(f"/usr/bin/python3 gone.py {self.url} go & sleep 0.5; "
                              f"curl -sSf http://next.no.test:{self.web.port}/")
        self.file("go")
        self.asking(terminal, "next.no.test").line("o")
        time.sleep(0.2)
        terminal.type("r")
        terminal.shows(PROMPT + "$")
        terminal.line("d").shows("403")
        self.assertEqual(self.web.requests, [])

    def test_the_end_of_file_key_ends_no_answer(self):
        terminal = self.asked(self.fetched(False))
        for _ in range(2):
            self.question(terminal.type("o\x04"))
        terminal.line("").shows("no clear answer was given")
        self.assertEqual(self.web.requests, [])

    def test_a_command_in_raw_mode(self):
        self.file("raw.py", RAW_KEYS)
        terminal = self.ask(f"/usr/bin/python3 raw.py {self.url}")
        terminal.shows("^raw$")
        self.question(terminal).line("o")
        self.assertTrue(self.web.wait(lambda: self.web.requests))
        time.sleep(0.2)
        terminal.type("x\r\x03").shows("^key 78$")
        terminal.shows("^key 0d$")
        terminal.shows("^key 03$")
        terminal.type("q").shows("^curl 0$")
        terminal.shows("^still raw True$")
        self.assertEqual(terminal.wait(), 0)
        self.assertEqual(terminal.modes(), terminal.before)

    def test_the_command_cannot_take_the_answer_nor_write_over_the_question(self):
        self.file("thief.py", THIEF)
        terminal = self.ask("/usr/bin/python3 thief.py; until [ -e thief ]; do sleep 0.05; done; "
                            f"(while :; do echo SCRIBBLE; sleep 0.02; done) & sleep 1; {self.fetched()}; "
                            "kill $!; touch done; sleep 0.3")
        terminal.shows("SCRIBBLE")
        self.question(terminal)
        time.sleep(0.5)
        self.assertTrue(terminal.text.endswith(b"or q? "), terminal.text[-200:])
        terminal.line("o").shows("hello")
        self.assertEqual(terminal.wait(), 0)
        self.assertNotIn(b"o", (self.work / "stolen").read_bytes() if (self.work / "stolen").exists() else b"")
        self.assertEqual(terminal.modes(), terminal.before)

    def test_keys_reach_the_command_when_nothing_is_asked(self):
        terminal = self.ask(f"read a; echo got $a; {self.fetched()}; read b; echo got $b; stty size")
        terminal.line("one").shows("^got one$")
        self.question(terminal).line("o").shows("^hello$")
        terminal.line("two").shows("^got two$")
        terminal.shows("^24 80$")
        self.assertEqual(terminal.wait(), 0)

    def test_an_interactive_shell(self):
        terminal = self.terminal("--ask", "env", "PS1=P> ", "bash", "--norc", "--noprofile", "-i",
                                 document=self.settings(self.web))
        terminal.shows("P> $")
        self.question(terminal.line(self.fetched())).line("o").shows("^hello$")
        terminal.line("sleep 100")
        time.sleep(0.3)
        terminal.type("\x1a").shows(r"Stopped +sleep 100")
        terminal.line("kill %1; stty size").shows("^24 80$")
        terminal.resize(30, 100)
        terminal.line("").shows("P> $")
        terminal.line("stty size").shows("^30 100$")
        terminal.line("exit 5")
        self.assertEqual(terminal.wait(), 5)
        self.assertEqual(terminal.modes(), terminal.before)

    def test_ctrl_c_at_a_question(self):
        terminal = self.asked(f"{self.fetched()}; echo after")
        terminal.type("\x03").shows(r"^srt: \(denied\)$")
        self.assertEqual(terminal.wait(), 130)
        self.assertNotIn(b"\nafter", terminal.text)
        self.assertEqual(terminal.modes(), terminal.before)
        self.assertEqual(self.web.requests, [])

    def test_quitting(self):
        self.dns.add("*.no.test", "127.0.0.5")
        terminal = self.ask(f"{self.fetched()} & curl -sS http://two.no.test:{self.web.port}/; echo after")
        terminal.shows(PROMPT + "$")
        terminal.line("q")
        self.assertEqual(terminal.wait(), 130)
        self.assertNotIn(b"\nafter", terminal.text)
        self.assertEqual(terminal.modes(), terminal.before)
        self.assertEqual(self.web.requests, [])

    def test_quitting_what_does_not_want_to(self):
        terminal = self.asked(f"trap '' INT QUIT TERM HUP; while :; do {self.fetched(False)}; sleep 0.1; done")
        terminal.line("q").shows("the run was ended")
        self.assertEqual(terminal.wait(), 128 + 9)
        self.assertEqual(len(re.findall(PROMPT.encode(), terminal.text)), 1)

    def test_the_terminal_goes_away(self):
        for command in (f"{self.fetched()}; sleep 60", f"trap '' HUP; while :; do {self.fetched(False)}; done"):
            terminal = self.asked(command)
            terminal.hang_up()
            terminal.wait()
        self.assertEqual(self.web.requests, [])

    def test_ctrl_c_is_the_commands_own_matter(self):
        terminal = self.asked(f"trap 'echo caught' INT; {self.fetched(False)} & wait; wait; echo after")
        terminal.type("\x03").shows("^after$")
        self.assertEqual(terminal.wait(), 0)
        self.assertIn(b"caught\r\n", terminal.text)
        self.assertIn(b"user denied", terminal.text)

    def test_being_ended_at_a_question(self):
        terminal = self.asked(self.fetched())
        subprocess.run(self.as_user("kill", "-TERM", str(terminal.process.pid)), check=True)
        terminal.wait()
        self.assertEqual(terminal.modes(), terminal.before)

    def test_what_was_written_last_is_shown(self):
        terminal = self.ask("seq 100000 | tail -c 200000; echo end of it")
        terminal.shows("^end of it$")
        terminal.wait()
        self.assertIn(b"\r\n99999\r\n100000\r\nend of it", terminal.text)

    # What a question says.

    def test_who_asks_is_the_command_that_was_started(self):
        self.file("forge.py", FORGE)
        command = f"/usr/bin/python3 forge.py no.test:{self.web.port}"
        terminal = self.ask(command)
        terminal.shows("^ +asked by: " + re.escape(command[:50]))
        self.question(terminal, kind="connect").line("d").shows("403")
        self.assertNotIn(b"harmless", terminal.text)

    def test_what_is_special_about_a_destination(self):
        terminal = self.ask("curl -sS --noproxy '' -m 9 http://127.0.0.1:9/; "
                            "curl -sS --noproxy '' -m 9 http://169.254.169.254/")
        terminal.shows("^ +note: this is a service of this machine$")
        terminal.shows(PROMPT)
        terminal.line("d").shows("^ +note: a link-local address: on clouds the place of credentials$")
        terminal.shows(PROMPT)
        terminal.line("d")
        self.assertEqual(terminal.wait(), 0)

    def test_how_many_wait(self):
        self.dns.add("*.no.test", "127.0.0.5")
        terminal = self.ask(f"curl -sS http://one.no.test:{self.web.port}/ & sleep 0.5; "
                            f"for i in 1 2 3; do {self.fetched(False)} & done; wait")
        self.question(terminal, "one.no.test").line("d")
        terminal.shows("^ +waiting: 3 connections, 3 of them for this answer$")
        self.question(terminal).line("d")
        self.assertEqual(terminal.wait(), 0)

    # Who else has the terminal.

    def test_logs_that_would_write_over_a_question(self):
        for options in (("--log", "-"), ("--violations", "fd:2"), ("--log", "/dev/tty")):
            terminal = self.ask("echo ran", *options)
            terminal.shows("^Error: --ask: " + " ".join(options) + " would write over the questions$")
            self.assertEqual(terminal.wait(), 1)
        terminal = self.terminal("--ask", "--log", "-", "-c", "echo ran >&2", document=self.settings(self.web),
                                 before=("/bin/bash", "-c", '"$@" >out', "-"))
        terminal.shows("^ran$")
        self.assertEqual(terminal.wait(), 0)

    def test_what_srt_says_itself_waits(self):
        terminal = self.asked(f"{self.fetched()} & sleep 0.5; curl -sS http://ok.test:{self.web.port}/ >out; "
                              "touch done; wait", "-d")
        self.assertTrue(self.web.wait(lambda: self.web.requests))
        time.sleep(0.5)
        self.assertTrue(terminal.text.endswith(b"or q? "), terminal.text[-200:])
        terminal.line("o").shows("ok.test")
        terminal.shows("^hello$")

    def test_one_at_a_time(self):
        path = self.settings_file(self.settings(self.web))
        srt = shlex.join([str(self.srt), "--settings", str(path), "--ask", "-c"])
        terminal = Terminal(self.as_user("/bin/bash", "-c", f"{srt} 'sleep 1.5; echo first' & sleep 0.7; "
                                         f"{srt} 'echo second'; wait; {srt} 'echo third'"), self.work,
                            self.environment({"TERM": "vt100"}))
        self.addCleanup(terminal.close)
        terminal.shows("^Error: another srt --ask has this terminal$")
        terminal.shows("^first$")
        terminal.shows("^third$")
        self.assertNotIn(b"second", terminal.text)

    def test_keys_for_the_terminal_when_input_is_a_pipe(self):
        terminal = self.terminal("--ask", "-c", "cat; read x </dev/tty; echo got $x",
                                 document=self.settings(self.web),
                                 before=("/bin/bash", "-c", 'echo piped | "$@"', "-"))
        terminal.shows("^piped$")
        terminal.line("word").shows("^got word$")
        self.assertEqual(terminal.wait(), 0)

    def test_a_pager_that_reads_a_pipe(self):
        self.file("numbers", "".join(f"{i}\n" for i in range(3000)))
        terminal = self.terminal("--ask", "-c", "less", document=self.settings(self.web),
                                 before=("/bin/bash", "-c", 'cat numbers | "$@"', "-"))
        terminal.shows("^22$")
        terminal.type(" ").shows("45$")
        terminal.type("q")
        self.assertEqual(terminal.wait(), 0)
        self.assertEqual(terminal.modes(), terminal.before)

    def test_a_pager_behind_a_pipe(self):
        for count in (30, 200000):
            terminal = self.terminal("--ask", "-c", f"seq {count}", document=self.settings(self.web),
                                     before=("/bin/bash", "-c", '"$@" | less; echo over', "-"))
            terminal.shows("^23$")
            time.sleep(1)
            for _ in range(3):
                terminal.type("j")
                time.sleep(0.1)
            terminal.shows("26$")
            terminal.type("q").shows("over$")
            terminal.wait()
            self.assertEqual(terminal.modes(), terminal.before)

    def test_lines_of_others_stay_lines(self):
        terminal = self.terminal("--ask", "-c", "echo one; sleep 1; echo two", document=self.settings(self.web),
                                 before=("/bin/bash", "-c", '"$@" | cat', "-"))
        terminal.shows("^one$")
        time.sleep(0.6)
        self.assertTrue(terminal.modes()[1] & termios.OPOST)
        terminal.shows("^two$")
        terminal.wait()
        self.assertIn(b"one\r\ntwo\r\n", terminal.text)

    def test_into_the_foreground(self):
        path = self.settings_file(self.settings(self.web))
        terminal = Terminal(self.as_user("/bin/bash", "--norc", "--noprofile", "-i"), self.work,
                            self.environment({"TERM": "vt100", "PS1": "P> ", "HISTFILE": ""}))
        self.addCleanup(terminal.close)
        terminal.shows("P> $")
        terminal.line(f"{self.srt} --ask -s {path} -c 'echo up; read x; echo got $x; {self.fetched()}' &")
        terminal.shows("^(P> )?up$")
        terminal.line("fg").shows("read x; echo got")
        time.sleep(1)
        terminal.line("word").shows("^word$")
        terminal.shows("^got word$")
        self.question(terminal).line("o").shows("^hello$")
        terminal.shows("P> $")

    def test_output_alone_is_the_terminal(self):
        terminal = self.terminal("--ask", "-c", f"cat; {self.fetched()}; ",
                                 document=self.settings(self.web),
                                 before=("/bin/bash", "-c", 'echo piped | "$@"', "-"))
        terminal.shows("^piped$")
        self.question(terminal).line("o").shows("^hello$")
        terminal.wait()
        self.assertEqual(terminal.modes(), terminal.before)

    def test_no_standard_descriptor_is_the_terminal(self):
        terminal = self.terminal("--ask", "-c", self.fetched(), document=self.settings(self.web),
                                 before=("/bin/bash", "-c", '"$@" </dev/null >out 2>&1', "-"))
        self.question(terminal).line("o")
        self.assertEqual(terminal.wait(), 0)
        self.assertEqual((self.work / "out").read_text(), "hello\n")

    def test_in_the_background_nobody_is_asked(self):
        path = self.settings_file(self.settings(self.web))
        terminal = Terminal(self.as_user("/bin/bash", "--norc", "--noprofile", "-i"), self.work,
                            self.environment({"TERM": "vt100", "PS1": "P> ", "HISTFILE": ""}))
        self.addCleanup(terminal.close)
        terminal.shows("P> $")
        terminal.line(f"{self.srt} --ask -s {path} -c '{self.fetched(False)}' >out 2>&1 &")
        terminal.line("wait; cat out").shows("not in the foreground of its terminal")
        self.assertEqual(self.web.requests, [])


class AskedByBubblewrap(Asked):
    mounts = "bwrap"
