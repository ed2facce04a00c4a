"""What the documentation shows is run: commands, their output, settings, tables."""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import threading

from harness import decider
from harness.tls import gateway_ca
from harness import (SRT, Authority, Case, GitServer, HttpOrigin, Origin, clean_environment,
                     free_port, hello, quick, run_srt, settings)

TOP = pathlib.Path(__file__).parents[2]
DECIDER = pathlib.Path(SRT).resolve().parent / "srt-decider"
README = (TOP / "README.md").read_text()


def blocks(text):
    """[(language, body)] of the fenced blocks."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)


class Internet:
    """Stands for it: a parent proxy that answers for every host, over TLS too; git.example.com has a
    repository."""

    def __init__(self, directory):
        self.ca = Authority(directory)
        self.git = GitServer(directory / "repositories")
        subprocess.run(f"git init -q --bare {self.git.root}/tools.git && git init -q first && cd first && "
                       "echo hello >hello.txt && git add . && "
                       "git -c user.name=n -c user.email=e commit -q -m one && "
                       f"git push -q {self.git.root}/tools.git HEAD", shell=True, check=True, cwd=directory)
        self.site = HttpOrigin(self.respond, tls=self.ca.server_context("example.com", "*.example.com"))
        self.proxy = Origin(self.serve, host="127.0.0.7")

    def respond(self, request):
        return (self.git.respond if request.get("Host") == "git.example.com" else hello)(request)

    def serve(self, conn):
        head = conn.until(b"\r\n\r\n")
        if not head.startswith(b"CONNECT "):
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n")
            return
        up = socket.create_connection((self.site.host, self.site.port))
        conn.send("HTTP/1.1 200 OK\r\n\r\n")

        def pump(a, b):
            try:
                while data := a.recv(65536):
                    b.sendall(data)
                b.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # the other side is gone

        back = threading.Thread(target=pump, args=(up, conn.sock), daemon=True)
        back.start()
        pump(conn.sock, up)
        back.join()
        up.close()

    def close(self):
        self.site.close()
        self.proxy.close()


class Shell(Case):
    """Runs the sh blocks of a document in order, in one shell, in a directory of its own."""

    def setUp(self):
        super().setUp()
        self.internet = Internet(self.directory)
        self.addCleanup(self.internet.close)
        self.port = free_port("127.0.0.1")
        self.ports = {"3128": self.port, "3129": free_port("127.0.0.1"),
                      "3130": free_port("127.0.0.1")}
        self.work = self.directory / "work"
        self.work.mkdir()
        binaries = self.directory / "bin"
        binaries.mkdir()
        # srt as it is, with the stand-in for the network behind it
        (binaries / "srt").write_text(
            f"#!/bin/sh\nexport SSL_CERT_FILE={self.internet.ca.cert}\n"
            f"HTTP_PROXY=http://127.0.0.7:{self.internet.proxy.port} exec {SRT} \"$@\"\n")
        (binaries / "srt").chmod(0o755)
        (binaries / "srt-proxy").symlink_to(SRT)
        (binaries / "srt-decider").symlink_to(DECIDER)
        self.env = {**clean_environment(), "CURL_CA_BUNDLE": str(self.internet.ca.cert),
                    "PATH": f"{binaries}:{os.environ['PATH']}"}

    def run_blocks(self, bodies):
        """The output of each block."""
        mark = "=== end of block ==="
        script = ""
        for body in bodies:
            ports = [port for shown, port in self.ports.items() if shown in body]
            for shown, port in self.ports.items():
                body = body.replace(shown, str(port))
            script += f"{{ {body}\n}} 2>&1 || exit 1\n"
            if body.rstrip().endswith("&"):
                script += (f"for i in $(seq 300); do curl -s -o wait http://127.0.0.1:{ports[0]}/ "
                           "&& break; sleep 0.1; done\n")
            script += f"echo; echo '{mark}'\n"
        script = f"trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}"
        done = subprocess.run(["bash", "-c", script], cwd=self.work, env=self.env, timeout=120,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        output = done.stdout.decode()
        self.assertEqual(done.returncode, 0, output)
        return [part.strip() for part in output.split(mark)][:-1]

    def test_readme(self):
        found = blocks(README)
        outputs = self.run_blocks([body for language, body in found if language == "sh"])
        shown = iter(outputs)
        current = None
        compared = 0
        for language, body in found:
            if language == "sh":
                current = next(shown)
            elif language == "text":
                self.assertEqual(current, body.strip())
                compared += 1
        self.assertGreaterEqual(compared, 5)
        bodies = [body for language, body in found if language == "sh"]
        clients, = (out for body, out in zip(bodies, outputs) if "socks5h" in body)
        self.assertEqual(clients.count("hello"), 4, clients)
        box, = (out for body, out in zip(bodies, outputs) if body.startswith("cat > box.json"))
        self.assertEqual(box, "hello")
        refused, = (out for body, out in zip(bodies, outputs) if "touch ~/x" in body)
        self.assertIn("blocked by policy", refused)
        self.assertIn("Read-only file system", refused)
        annotated, = (out for body, out in zip(bodies, outputs) if "--annotate" in body)
        self.assertIn('"allowedDomains": ["example.org:80"]', annotated)

    def test_manual_pages(self):
        (self.work / "gateway.json").write_text(json.dumps(settings(["example.com"], [], {})))
        (self.work / "box.json").write_text(json.dumps({
            "network": {"allowedDomains": ["example.com"], "deniedDomains": []},
            "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []}}))
        (self.work / "Makefile").write_text("test:\n\ttrue\n")
        shutil.copy(TOP / "examples" / "decider-rules.json", self.work / "rules.json")
        commands = []
        for page in ("srt.1", "srt-proxy.8", "srt-decider.8"):
            commands += re.findall(r"^\.Dl \$ (.*)$", (TOP / "docs" / page).read_text(), re.M)
        self.assertGreaterEqual(len(commands), 4)
        for command in commands:
            with self.subTest(command):
                if "-fd " in command:
                    self.run_with_descriptors(command)
                    continue
                if " proxy " not in command:
                    self.run_blocks([command])
                    continue
                place = re.search(r"--listen (\S+)", command).group(1)
                probe = (f"http://127.0.0.1:{self.port}/" if not place.startswith("unix")
                         else "--unix-socket ./srt.sock http://x/")
                self.run_blocks([f"{command} >log &\nfor i in $(seq 300); do curl -s -o out {probe} "
                                 "&& break; sleep 0.1; done\ngrep -q malformed out\nkill $!\nwait"])


    def run_with_descriptors(self, command):
        """As a host would: 3 listens, 4 is its decider's, 5 its lifeline, 6 has the CA."""
        certificate, key = gateway_ca()
        listener = socket.create_server(("127.0.0.1", 0))
        ours, theirs = socket.socketpair()
        (life, end), (pem, pem_end) = os.pipe(), os.pipe()
        os.write(pem_end, key.read_bytes() + certificate.read_bytes())
        os.close(pem_end)
        given = {3: listener.fileno(), 4: theirs.fileno(), 5: life, 6: pem}
        moved = " ".join(f"{n}<&{fd}" for n, fd in given.items())
        done = subprocess.Popen(["bash", "-c", f"exec {moved}; exec {command}"], cwd=self.work,
                                env=self.env, pass_fds=given.values(), stderr=subprocess.PIPE)
        ours.sendall(decider.frame({"t": "hello", "proto": 1, "allowedDomains": [],
                                    "deniedDomains": []}))
        self.assertEqual(done.stderr.readline(), b"srt proxy: serving fd 3\n")
        for fd in (life, pem, end):
            os.close(fd)
        self.assertEqual(done.communicate(timeout=30)[1],
                         b"srt proxy: stopped (lifeline closed)\n")
        self.assertEqual(done.returncode, 0)
        for s in (listener, ours, theirs):
            s.close()


class Files(Case):
    @quick
    def test_settings_that_are_shown(self):
        shown = [body for language, body in blocks(README)
                 if language == "json" and '"network"' in body]
        page = (TOP / "docs" / "srt-settings.5").read_text()
        shown += re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed", page, re.M | re.S)
        self.assertGreaterEqual(len(shown), 6)
        token = self.directory / "token"
        token.write_text("secret")
        token.chmod(0o600)
        for body in shown:
            path = self.directory / "s.json"
            path.write_text(body.replace("/etc/srt/token", str(token)))
            self.assertEqual(run_srt("check", "--settings", path), (0, "ok\n", ""), body)

    @quick
    def test_the_examples(self):
        for path in sorted((TOP / "examples").glob("[!d]*.json")):  # but for a decider's rules
            self.assertEqual(run_srt("check", "--settings", path), (0, "ok\n", ""), path)
        status, out, _ = run_srt("check", "--settings", TOP / "examples" / "gateway.json",
                                 "example.com:443", "example.org:443",
                                 "gist.githubusercontent.com:443")
        self.assertEqual([line.split()[0] for line in out.splitlines()], ["allow", "ask", "deny"])

    @quick
    def test_the_service_unit_uses_options_that_there_are(self):
        unit = (TOP / "examples" / "srt-proxy.service").read_text()
        command = re.search(r"^ExecStart=(\S+) proxy (.*)$", unit, re.M).group(2)
        _, usage, _ = run_srt("proxy", "--help")
        options = re.findall(r"--[a-z-]+", command)
        self.assertGreaterEqual(len(options), 2)
        for option in options:
            self.assertIn(option, usage)

    @quick
    def test_the_gateway_that_dev_run_starts(self):
        """./dev run prints one destination that is allowed and one that is refused."""
        text = (TOP / "dev").read_text()
        urls = re.findall(r"curl -x http://\$address https://([\w.]+)/ +# (allowed|refused)", text)
        self.assertEqual([kind for _, kind in urls], ["allowed", "refused"])
        path = TOP / "examples" / "gateway.json"
        _, out, _ = run_srt("check", "--settings", path, *(f"{host}:443" for host, _ in urls))
        self.assertEqual([line.split()[0] for line in out.splitlines()], ["allow", "ask"])

    @quick
    def test_limits_of_the_manual_are_those_of_the_header(self):
        header = (TOP / "base" / "limits.h").read_text().replace("\\\n", "")
        rows = re.findall(r'X\(\w+, "(\w+)", (\d+), (\d+), (\d+),\s*"([^"]*)"\)', header)
        self.assertGreater(len(rows), 20)
        page = (TOP / "docs" / "srt-settings.5").read_text()
        shown = re.findall(r"^\.It Cm (\w+) Pq (\d+); (\d+) to (\d+)\n(.*)\.$", page, re.M)
        self.assertEqual([(k, d, lo, hi, why.lower()) for k, d, lo, hi, why in shown],
                         [(k, d, lo, hi, why.lower()) for k, d, lo, hi, why in rows])

    def test_every_option_is_in_the_manual(self):
        page = (TOP / "docs" / "srt-proxy.8").read_text()
        _, out, _ = run_srt("proxy", "--help")
        for option in re.findall(r"--([a-z-]+)", out):
            self.assertIn(f"Fl -{option}", page, option)
        page = (TOP / "docs" / "srt.1").read_text()
        for command in ("check", "ca"):
            _, out, _ = run_srt(command, "--help")
            for option in re.findall(r"--([a-z-]+)", out):
                self.assertIn(f"Fl -{option}", page, option)

    def test_every_file_that_is_linked_is_there(self):
        for text, where in ((README, TOP), ((TOP / "docs" / "design.md").read_text(), TOP / "docs")):
            for target in re.findall(r"\]\(([^)#:]+)\)", text):
                self.assertTrue((where / target).exists(), target)

    def test_install(self):
        build = pathlib.Path(SRT).parent
        root = self.directory / "root"
        subprocess.run(["make", "-C", build, "install", f"DESTDIR={root}"], check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       env=clean_environment())
        usr = root / "usr" / "local"
        for name in ("bin/srt", "bin/srt-proxy", "bin/srt-decider", "share/man/man1/srt.1",
                     "share/man/man8/srt-proxy.8", "share/man/man8/srt-decider.8",
                     "share/man/man5/srt-settings.5", "share/doc/srt/examples/gateway.json",
                     "share/doc/srt/examples/decider.py", "share/doc/srt/LICENSE"):
            self.assertTrue((usr / name).exists(), name)
        out = subprocess.run([usr / "bin" / "srt-proxy", "--version"], stdout=subprocess.PIPE,
                             check=True).stdout
        self.assertTrue(out.startswith(b"srt-proxy "))
