"""curl through a gateway whose decider is one of examples/."""

import pathlib
import subprocess
import sys

from harness import TlsCase, answer, quick
from harness.reference import DECIDER

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


class Examples(TlsCase):
    def start(self, command, *names):
        for name in names:
            self.dns.add(name, "127.0.0.5")
        self.site = self.https(lambda r: answer(f"{r.method} {r.target} {r.get('X-Client')} {r.get('X-Debug')}\n".encode()),
                               names=names, port=443)
        self.proxy_ = self.gateway(self.site, allowed=(), args=["--decider-exec", command, "--decider-proto", "2"])

    def curl(self, url, *options):
        """(status, body); 0: the tunnel was refused."""
        done = subprocess.run(["curl", "-sS", "--path-as-is", "--cacert", str(self.ca_cert), "-x",
                               f"http://127.0.0.1:{self.proxy_.port}", "-w", "%{http_code}", *options, url],
                              capture_output=True, text=True, timeout=60)
        return int(done.stdout[-3:]), done.stdout[:-3] or done.stderr

    @quick
    def test_decider_py(self):
        self.start(f"{sys.executable} {EXAMPLES}/decider.py", "api.example.com", "www.example.com")
        at = "https://api.example.com"
        self.assertEqual(self.curl(f"{at}/v1/a", "-H", "X-Debug: 1"), (200, "GET /v1/a agent None\n"))
        self.assertEqual(self.curl(f"{at}/v1/notes", "-d", "hello"), (200, "POST /v1/notes None None\n"))
        self.assertEqual(self.curl(f"{at}/v1/notes", "-d", "BEGIN PRIVATE KEY"),
                         (422, "a note must not hold a private key\n"))
        self.assertEqual(self.curl(f"{at}/v1/notes", "-d", "x" * 70000), (413, "a note has 64 KiB at most\n"))
        self.assertEqual(self.curl(f"{at}/v1/a", "-X", "DELETE"), (403, "read only\n"))
        self.assertEqual(self.curl("http://api.example.com:443/")[0], 403)
        status, text = self.curl("https://www.example.com/")
        self.assertEqual(status, 0)
        self.assertIn("403", text)
        self.assertEqual(self.site.targets(), ["/v1/a", "/v1/notes"])

    @quick
    def test_decider_rules(self):
        names = ("api.example.com", "git.example.com", "files.example.com", "www.example.com")
        self.start(f"{DECIDER} {EXAMPLES}/decider-rules.json", *names)
        api, git, files, www = (f"https://{name}" for name in names)
        self.assertEqual(self.curl(f"{api}/v1/a", "-H", "X-Debug: 1"), (200, "GET /v1/a agent None\n"))
        self.assertEqual(self.curl(f"{api}/v2/a"), (403, "read only\n"))
        self.assertEqual(self.curl(f"{api}/v1/notes", "-d", "BEGIN PRIVATE KEY"),
                         (422, "a note must not hold a private key\n"))
        self.assertEqual(self.curl(f"{api}/v1/notes", "-d", "x" * 70000), (413, "a note has 64 KiB at most\n"))
        self.assertEqual(self.curl(f"{api}/v1/notes", "-d", "hello")[0], 200)
        self.assertEqual(self.curl(f"{files}/x", "-H", "X_Upload.Token: 1"), (403, "uploads are not for agents\n"))
        self.assertEqual(self.curl(f"{files}/x")[0], 200)
        self.assertEqual(self.curl(f"{git}/a/info/refs?service=git-upload-pack")[0], 200)
        self.assertEqual(self.curl(f"{git}/a/info/refs?service=git-receive-pack"),
                         (403, "fetch only; hand your change in as a patch\n"))
        self.assertEqual(self.curl(f"{www}/")[0], 0)
        self.assertEqual(self.site.targets(), ["/v1/a", "/v1/notes", "/x", "/a/info/refs?service=git-upload-pack"])
