"""Real work in a box: clones, packages, builds, servers, a conversation over its streams."""

import functools
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

    def test_a_registry_of_the_world(self):
        """apt-get download, where this machine reaches its registry."""
        if shutil.which("apt-get", path=PATH) is None or self.host(
                "apt-get -q download hostname", cwd=self.folder("host"), seconds=60).status:
            print("apt-get reaches no registry here: not tried", flush=True)
            return
        names = self.host("apt-get indextargets --format '$(SITE)'").out
        hosts = {url.split("/")[2] for url in names.split() if "//" in url}
        document = self.settings(allowed=sorted(hosts))
        del document["proxy"]
        done = self.box("apt-get -q -o APT::Sandbox::User= download hostname", document, seconds=60,
                        env={k: v for k, v in os.environ.items() if k.lower().endswith("_proxy")})
        self.assertEqual(done.status, 0, done)
        self.assertTrue(list(self.work.glob("hostname_*.deb")))

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
