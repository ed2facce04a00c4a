"""What a command must not see of its caller, and what nobody on the machine must see of the box."""

import os
import pathlib
import re
import signal
import subprocess
import sys

from harness import PATH, BoxCase, quick

KEYRING = """
import ctypes, os, platform, sys
libc = ctypes.CDLL(None, use_errno=True)
add, control = {"x86_64": (248, 250), "aarch64": (217, 219)}[platform.machine()]
if sys.argv[1:2] == ["make"]:
    libc.syscall(control, 1, None)
    assert libc.syscall(add, b"user", b"srt-test", b"SECRET", 6, -3) > 0
    os.execv(sys.argv[2], sys.argv[2:])
for call in ((control, 0, -3, 0), (control, 1, None), (control, 10, -3, b"user", b"srt-test", 0),
             (add, b"user", b"x", b"y", 1, -3)):
    libc.syscall(*call)
    print(ctypes.get_errno(), end=" ")
try:
    print(open("/proc/keys").read())
except OSError:
    print("hidden")
"""


class Secrets(BoxCase):
    def token(self, running):
        running.says("@localhost")
        return re.search(r":([0-9a-f]{32})@", running.streams["out"].decode()).group(1)

    @quick
    def test_no_host_process_is_in_sight(self):
        secret, withheld = "SECRET-OF-THE-CALLER", "SECRET-VARIABLE"
        neighbour = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)", secret],
                                     env={"S": secret})
        self.addCleanup(neighbour.wait)
        self.addCleanup(neighbour.kill)
        out = self.succeeds(
            "cat /proc/*/environ /proc/*/cmdline /proc/*/task/*/environ; ls /proc; true",
            self.settings(credentials={"envVars": [{"name": "WITHHELD", "mode": "deny"}]}),
            env={"WITHHELD": withheld, "KEPT": "kept"})
        self.assertNotIn(secret, out)
        self.assertNotIn(withheld, out)
        self.assertNotIn(str(self.programs), out.replace(f"ProxyCommand='{self.srt} connect", "")
                         .replace(f"{self.programs}/srt-proxy-agent.jar", ""))
        self.assertIn("KEPT=kept", out)
        numbers = [int(n) for n in re.findall(r"^\d+$", out, re.M)]
        self.assertLess(max(numbers), 50)

    def test_a_denied_file(self):
        self.file("token", "SECRET\n")
        done = self.box("cat token; cp token x; ln token y; cat x y; mv token z; cat z",
                        self.settings(allow_read=["."], credentials={
                            "files": [{"path": "token", "mode": "deny"}]}))
        self.assertNotIn("SECRET", done.out)
        self.assertEqual((self.work / "token").read_text(), "SECRET\n")

    @quick
    def test_the_token_is_not_on_show(self):
        """Not in the arguments nor the environment of any process outside of the box."""
        running = self.start_box("echo $HTTP_PROXY; exec sleep 100")
        token = self.token(running).encode()
        own = os.readlink("/proc/self/ns/pid")
        looked_at = 0
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                self.assertNotIn(token, (path / "cmdline").read_bytes(), path)
                if os.readlink(path / "ns/pid") == own:
                    self.assertNotIn(token, (path / "environ").read_bytes(), path)
                    looked_at += 1
            except OSError:
                continue  # gone, or closed to this user, and so to the others
        self.assertGreater(looked_at, 0)
        self.assertNotIn(token, subprocess.run(["ps", "axww"], check=True,
                                               stdout=subprocess.PIPE).stdout)

    @quick
    def test_srt_is_closed_to_others_and_dumps_no_core(self):
        running = self.start_box("echo $HTTP_PROXY; exec sleep 100", env={"HELD": "SECRET"})
        self.token(running)
        for name in ("environ", "mem", "maps"):
            with self.subTest(name):
                if not self.as_root:  # to root nothing is closed
                    self.assertEqual(self.host(f"cat /proc/{running.pid}/{name}").out, "")
        limits = pathlib.Path(f"/proc/{running.pid}/limits").read_text()
        self.assertRegex(limits, r"Max core file size +0 ")
        running.signal(signal.SIGABRT)
        self.assertFalse(os.WCOREDUMP(os.waitpid(running.pid, 0)[1]))

    def test_keyrings(self):
        script = self.file("keyring.py", KEYRING)
        before = ["/usr/bin/python3", str(script), "make"]
        out = self.succeeds(f"/usr/bin/python3 {script}", before=before)
        self.assertTrue(out.startswith("1 1 1 1 "), out)
        self.assertNotIn("srt-test", out)

    @quick
    def test_descriptors_of_the_caller(self):
        secret = self.file(self.directory / "secret", "SECRET")
        numbers = (3, 9, 17, 100, 300, 1000)
        out = self.succeeds(
            self.python("import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])"),
            before=["/bin/bash", "-c", "ulimit -n 2000; for n in " + " ".join(map(str, numbers)) +
                    f"; do eval \"exec $n<>{secret}\"; done; exec 500</; exec \"$@\"", "bash"])
        self.assertEqual(out, "[0, 1, 2]\n")

    def test_standard_descriptors_that_are_closed(self):
        """What the box opens for itself must not end up in their place."""
        for redirections in ("<&-", "2>&-", "<&- 2>&-"):
            with self.subTest(redirections):
                done = self.box("ls -l /proc/self/fd | grep -c -E 'socket:|memfd:|srt|anon'; "
                                "echo over", before=[
                                    "/bin/bash", "-c", f"exec {redirections}; exec \"$@\"", "bash"])
                self.assertEqual(done.out, "0\nover\n", done)

    @quick
    def test_a_start_up_file_of_the_shell(self):
        """BASH_ENV runs in the box like the command itself, no earlier."""
        proof = self.directory / "proof"
        script = self.file("env.sh", f"echo x >{proof}\ngrep -E '^(Seccomp|NoNewPrivs|CapEff):' "
                                     "/proc/self/status\n")
        done = self.box("true", env={"BASH_ENV": str(script)})
        self.assertIn("Seccomp:\t2", done.out)
        self.assertIn("NoNewPrivs:\t1", done.out)
        self.assertIn("CapEff:\t0000000000000000", done.out)
        self.assertFalse(proof.exists())

    @quick
    def test_programs_that_lie_in_the_working_directory(self):
        """A command could have left them for the next run: nothing relative on PATH is executed."""
        proof = self.directory / "proof"
        self.own(self.directory)
        for name in ("bwrap", "srt-inside", "socat", "srt", "bash", "newuidmap"):
            self.file(name, f"#!/bin/sh\nid >>{proof}\nexit 0\n", mode=0o755)
        for path in (f".:{PATH}", f":{PATH}", f"{PATH}:", f"./:{PATH}"):
            with self.subTest(path):
                done = self.box("echo ran", env={"PATH": path})
                self.assertFalse(proof.exists(), done)
                self.assertEqual(done.status, 0, done)

    def test_variables_of_the_dynamic_linker_stay_inside(self):
        """They are the command's; the helper is static and runs none of its code."""
        self.succeeds("test \"$LD_PRELOAD\" = /nonexistent.so", env={"LD_PRELOAD": "/nonexistent.so"})


class SecretsByBubblewrap(Secrets):
    mounts = "bwrap"


class SecretsOfRoot(Secrets):
    as_root = True


class Environment(BoxCase):
    def test_nothing_of_ours_is_left_in_it(self):
        out = self.succeeds("env", env={"SRT_ALLOW_NESTED_USERNS": "1", "SRT_OBSERVE_SOCK": "x",
                                        "SRT_ENCODED_CMD": "x"})
        for name in ("SRT_ALLOW_NESTED_USERNS", "SRT_OBSERVE_SOCK", "SRT_ENCODED_CMD"):
            self.assertNotIn(name, out)

    def test_two_runs_have_two_tokens(self):
        self.assertNotEqual(self.succeeds("echo $HTTP_PROXY"), self.succeeds("echo $HTTP_PROXY"))
