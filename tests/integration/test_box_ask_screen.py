"""`srt --ask`: what a terminal shows of its questions, and where it asks none."""

import shlex

from harness import BoxCase, quick
from test_box_terminal import OnTmux

# Writes to the terminal what may hide a question, and asks.
HIDE = """
import socket, sys, time
sys.stdout.write("\\n" * 30 + "rubbish " * 30 + sys.argv[2].encode().decode("unicode_escape"))
sys.stdout.flush()
time.sleep(0.3)
sock = socket.create_connection(("127.0.0.1", 3128))
sock.sendall(f"CONNECT {sys.argv[1]} HTTP/1.1\\r\\nHost: {sys.argv[1]}\\r\\n\\r\\n".encode())
sock.recv(1)
"""
HIDING = [r"\ePqx", r"\e]0;", r"\e_", r"\eX", r"\e^", r"\ek", r"\ePtmux;x", r"\ePtmux;\e", r"\e[", r"\e",
          r"\e[?7l", r"\e[?2026h", r"\e]10;#000000\a\e]11;#000000\a", r"\e[?69h\e[1;28s\e[?7l",
          r"\e[?2l\eF", r"\e[?69h\e[1;2s", r"\e[3;5r\e[?6h", r"\e(0\x0e\e)0", r"\e[8m\e[30;40m",
          r"\e[4h", r"\e[?1049h\e[H", r"\e[H", r"\e#8\e[5;1H", r"\e[?25l"]


class AskedInTmux(OnTmux):
    """What a terminal shows of it in the end."""

    def setUp(self):
        super().setUp()
        self.tool("tmux")
        self.web = self.http()

    def start_tmux(self, command, *more, name="0"):
        path = self.settings_file(self.settings(self.web))
        line = shlex.join([str(self.srt), "-s", str(path), "--ask", "-c", command]) + "; echo over; sleep 60"
        if name == "0":
            self.tmux("new-session", "-d", "-x", "60", "-y", "20", line)
            self.addCleanup(self.tmux, "kill-server", check=False)
        else:
            self.tmux("new-window", "-d", "-t", f":{name}", line)

    @quick
    def test_nothing_hides_a_question_or_stands_beside_it(self):
        self.file("hide.py", HIDE)
        for i, sequence in enumerate(HIDING):
            self.start_tmux(f"/usr/bin/python3 hide.py h{i}.no.test:443 {shlex.quote(sequence)}", name=str(i))
        for i, sequence in enumerate(HIDING):
            with self.subTest(sequence=sequence):
                self.shows(f"srt: h{i}.no.test:443 (connect) - o, r, d, n or q?", i)
                screen = self.tmux("capture-pane", "-p", "-t", f":{i}")
                self.assertTrue(screen.startswith("srt: no rule decides about this destination."), screen)
                self.assertEqual(screen.rstrip().splitlines()[-1],
                                 f"srt: h{i}.no.test:443 (connect) - o, r, d, n or q?")
                self.assertNotIn("rubbish", screen)

    @quick
    def test_a_long_name_wraps(self):
        name = ".".join(["a" * 60, "b" * 60, "c" * 60, "no.test"])
        self.start_tmux(f"curl -sS http://{name}:81/")
        self.shows("or q?")
        screen = self.tmux("capture-pane", "-p")
        self.assertIn(f"srt: {name}:81 (http) - o, r, d, n or q?", screen.replace("\n", ""))

    @quick
    def test_what_had_the_screen_draws_it_again(self):
        self.file("poem", "".join(f"verse {i}\n" for i in range(100)))
        self.tool("less")
        self.start_tmux("(until [ -e go ]; do sleep 0.1; done; curl -s http://no.test:81/) >/dev/null & less poem")
        self.shows("verse 12")
        self.file("go")
        self.shows("or q?")
        self.assertNotIn("verse", self.tmux("capture-pane", "-p"))
        self.tmux("send-keys", "d", "Enter")
        self.shows("verse 12")
        self.assertNotIn("srt:", self.tmux("capture-pane", "-p"))


class NotAsked(BoxCase):
    @quick
    def test_without_a_terminal(self):
        done = self.box("echo ran", options=["--ask"])
        self.assertEqual((done.status, done.out), (1, ""))
        self.assertEqual(done.err, "Error: --ask needs a terminal\n")
        done = self.box("echo ran", options=["--ask", "--exit-codes", "strict"])
        self.assertEqual((done.status, done.out), (125, ""))

    def test_a_plan_needs_none(self):
        done = self.box("echo ran", options=["--ask", "--print-plan"])
        self.assertEqual(done.status, 0, done)

    @quick
    def test_one_source_of_answers(self):
        document = self.settings(decider={"exec": "/bin/true"})
        done = self.box("echo ran", document, options=["--ask"])
        self.assertEqual((done.status, done.out), (1, ""))
        self.assertEqual(done.err,
                         "Error: --ask: the settings name a decider, and only one can answer\n")

    def test_a_strict_list_leaves_nothing_to_ask(self):
        document = self.settings(network={"strictAllowlist": True})
        done = self.box("echo ran", document, options=["--ask", "--print-plan"])
        self.assertIn("nothing is ever asked", done.err)
