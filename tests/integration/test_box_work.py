"""Real work in a box: clones, packages, builds, servers, a conversation over its streams."""

import functools
import hashlib
import http.server
import json
import os
import shutil
import subprocess
import tarfile
import threading
import time

from harness import PATH, BoxCase, quick

SERVER = """
import json, sys
for line in sys.stdin:
    call = json.loads(line)
    print(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": call["params"]}), flush=True)
"""
MAKEFILE = """
all: $(patsubst %,o%,$(shell seq 40))
o%:
\t@mkdir -p d$* && cp in d$*/out && touch $@
"""


class Literal:
    def __init__(self, text):
        self.literal = text


class Work(BoxCase):
    def files(self, directory):
        """The address of an HTTP server of the host's with the files of a directory."""
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(directory))
        handler.func.log_message = lambda *_: None
        server = http.server.ThreadingHTTPServer(("127.0.0.5", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"ok.test:{server.server_address[1]}", Literal(f"127.0.0.5:{server.server_address[1]}")

    def test_git_clone_over_http(self):
        origin = self.directory / "origin"
        subprocess.run(f"git init -q {origin} && cd {origin} && echo 1 >f && git add f && "
                       "git -c user.name=n -c user.email=e commit -qm one && git update-server-info",
                       shell=True, check=True)
        address, server = self.files(origin)
        self.succeeds(f"git clone -q http://{address}/.git copy && cd copy && echo 2 >>f && "
                      "git -c user.name=n -c user.email=e commit -qam two", self.settings(server))
        self.assertEqual((self.work / "copy/f").read_text(), "1\n2\n")
        done = self.box("git clone -q http://no.test/.git other", self.settings(server))
        self.assertNotEqual(done.status, 0)

    def test_npm_install(self):
        if shutil.which("npm", path=PATH) is None:
            self.skipTest("no npm")
        package = self.directory / "package"
        package.mkdir()
        (package / "package.json").write_text('{"name": "tiny", "version": "1.0.0", "main": "m.js", '
                                              '"scripts": {"postinstall": "echo > made"}}')
        (package / "m.js").write_text("module.exports = 'tiny'\n")
        with tarfile.open(self.directory / "tiny.tgz", "w:gz") as archive:
            archive.add(package, "package")
        address, server = self.files(self.directory)
        out = self.succeeds(
            f"npm install --silent --no-audit --no-fund --cache ./cache http://{address}/tiny.tgz && "
            "node -p 'require(\"tiny\")'", self.settings(server), seconds=60)
        self.assertTrue(out.endswith("tiny\n"), out)
        self.assertTrue((self.work / "node_modules/tiny/made").exists())

    def test_packages_of_a_debian_archive(self):
        """apt-get update, then apt-get download, from an archive behind the gateway."""
        if any(shutil.which(tool, path=PATH) is None for tool in ("apt-get", "dpkg-deb")):
            print("not a Debian machine: apt-get is not tried", flush=True)
            return
        control = "Package: tiny\nVersion: 1\nArchitecture: all\nMaintainer: n <n@x>\nDescription: d\n"
        (self.directory / "tiny/DEBIAN").mkdir(parents=True)
        (self.directory / "tiny/DEBIAN/control").write_text(control)
        archive = self.directory / "archive"
        archive.mkdir()
        package = archive / "tiny_1_all.deb"
        subprocess.run(["dpkg-deb", "--build", self.directory / "tiny", package], check=True,
                       capture_output=True)
        data = package.read_bytes()
        (archive / "Packages").write_text(f"{control}Filename: ./tiny_1_all.deb\nSize: {len(data)}\n"
                                          f"SHA256: {hashlib.sha256(data).hexdigest()}\n\n")
        address, server = self.files(archive)
        (self.work / "sources.list").write_text(f"deb [trusted=yes] http://{address} ./\n")
        for folder in ("lists/partial", "cache/archives/partial"):
            (self.work / folder).mkdir(parents=True)
        subprocess.run(["chown", "-R", str(self.account.pw_uid), self.work], check=True)
        options = (f"-q -o APT::Sandbox::User= -o Dir::Etc::SourceList={self.work}/sources.list "
                   f"-o Dir::Etc::SourceParts=- -o Dir::State::Lists={self.work}/lists "
                   f"-o Dir::Cache={self.work}/cache")
        self.succeeds(f"apt-get {options} update && apt-get {options} download tiny",
                      self.settings(server), seconds=60)
        self.assertEqual((self.work / "tiny_1_all.deb").read_bytes(), data)

    def test_a_virtual_environment(self):
        self.succeeds("/usr/bin/python3 -m venv --without-pip v && v/bin/python -c 'import json, ssl'")

    @quick
    def test_make_side_by_side(self):
        self.file("Makefile", MAKEFILE)
        self.file("in", "in\n")
        self.succeeds("make -s -j 8")
        self.assertEqual(len(list(self.work.glob("d*/out"))), 40)

    @quick
    def test_a_server_on_loopback_inside(self):
        node = shutil.which("node", path=PATH)
        server = ("node -e 'require(\"http\").createServer((q, r) => r.end(\"in\\n\")).listen(8000)'"
                  if node else "/usr/bin/python3 -m http.server 8000 2>/dev/null >&2")
        out = self.succeeds(f"{server} & for i in $(seq 200); do curl -s http://localhost:8000/ && break; "
                            "sleep 0.05; done | head -n 1")
        self.assertNotEqual(out, "")

    @quick
    def test_a_conversation(self):
        """A thousand calls of a server that speaks JSON lines on its standard streams."""
        running = self.start("--settings", self.settings_file(self.settings()), "--",
                             "/usr/bin/python3", "-u", self.file("server.py", SERVER),
                             stdin=subprocess.PIPE)
        begun = time.monotonic()
        for number in range(1000):
            call = {"jsonrpc": "2.0", "id": number, "method": "echo", "params": {"n": number}}
            running.process.stdin.write(json.dumps(call).encode() + b"\n")
            running.process.stdin.flush()
            running.says(f'"id": {number}, "result": {{"n": {number}}}}}\n')
        self.assertLess(time.monotonic() - begun, 20)
        running.process.stdin.close()
        done = running.wait()
        self.assertEqual((done.status, done.err), (0, ""))

    @quick
    def test_binary_streams(self):
        data = os.urandom(3_000_000)
        path = self.directory / "data"
        path.write_bytes(data)
        with open(path, "rb") as stdin, open(self.directory / "copy", "wb") as copy:
            running = self.start_box("cat", stdin=stdin, stdout=copy)
            self.assertEqual(running.wait().status, 0)
        self.assertEqual((self.directory / "copy").read_bytes(), data)


class WorkByBubblewrap(Work):
    mounts = "bwrap"
