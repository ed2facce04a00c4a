"""The network of a box: the first connection, the clients that must find the proxy, and the rest."""

import concurrent.futures
import pathlib
import re
import shutil
import subprocess

from harness import PATH, Authority, BoxCase, Sshd, quick

HARNESS = pathlib.Path(__file__).parent / "harness"
AT_ONCE = 15.0  # seconds in which what cannot work must have failed


class Connections(BoxCase):
    def fetch(self, origin, count, **kw):
        """How that many runs, each with one request as its first act, ended."""
        document = self.settings(origin)
        command = f"curl -s -o /dev/null -w '%{{http_code}}' http://ok.test:{origin.port}/"
        return {self.box(command, document, **kw)[:2] for _ in range(count)}

    @quick
    def test_the_first_connection_works(self):
        self.assertEqual(self.fetch(self.http(), 10), {(0, "200")})

    def test_the_first_connection_works_200_times_of_200(self):
        origin = self.http()
        self.assertEqual(self.dns.asked("never"), [])  # started before the threads
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            runs = [pool.submit(self.fetch, origin, 25) for _ in range(8)]
            self.assertEqual(set().union(*(run.result() for run in runs)), {(0, "200")})
        self.assertEqual(len(origin.requests), 200)

    def test_a_machine_without_ipv6(self):
        script = shutil.copy(HARNESS / "without_ipv6.py", self.directory)
        before = ["/usr/bin/python3", script]
        self.assertEqual(self.fetch(self.http(), 3, before=before), {(0, "200")})
        done = self.box(self.python("import socket; socket.socket(socket.AF_INET6)"), before=before)
        self.assertIn("Address family not supported", done.err)

    @quick
    def test_loopback_of_the_host_and_of_the_box(self):
        here, other = self.http(host="127.0.0.1"), self.http(host="127.0.0.1")
        document = self.settings(allowed=[f"localhost:{here.port}", f"127.0.0.1:{here.port}"])
        for host in ("localhost", "127.0.0.1"):
            url = f"http://{host}:{here.port}/"
            self.assertEqual(self.succeeds(f"curl -s -x $HTTP_PROXY --noproxy '' {url}", document),
                             "hello\n")
            done = self.box(f"curl -s -x $HTTP_PROXY --noproxy '' http://{host}:{other.port}/", document)
            self.assertIn("blocked", done.out)
            done = self.box(f"curl -s {url}", document)
            self.assertEqual((done.status, done.out), (7, ""), done)
            self.assertLess(done.seconds, AT_ONCE)
        self.assertEqual(len(here.requests), 2)
        self.assertEqual(other.requests, [])
        self.assertEqual(self.succeeds(
            "echo in >f; /usr/bin/python3 -m http.server 8000 >/dev/null 2>&1 & "
            "until curl -s http://localhost:8000/f; do :; done", document), "in\n")

    @quick
    def test_programs_that_resolve_or_connect_by_themselves(self):
        for command in ("getent hosts ok.test",
                        self.python("import socket; socket.create_connection(('ok.test', 5432), 30)"),
                        self.python("import socket; socket.create_connection(('192.0.2.1', 80), 30)"),
                        self.python("import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM);"
                                    "s.sendto(b'x', ('192.0.2.1', 53))")):
            with self.subTest(command):
                done = self.box(command)
                self.assertNotEqual(done.status, 0)
                self.assertLess(done.seconds, AT_ONCE)

    def test_another_box_is_out_of_reach(self):
        """Each box has a loopback of its own, and a proxy that knows its own token only."""
        origin = self.http()
        document = self.settings(origin)
        first = self.start_box("echo $HTTP_PROXY; /usr/bin/python3 -m http.server 8000", document)
        token = re.search(r"\S+", first.says("@localhost").streams["out"].decode()).group()
        out = self.succeeds("curl -s http://127.0.0.1:8000/; echo $?; "
                            f"curl -s -o /dev/null -w '%{{http_code}}' -x {token} http://ok.test:{origin.port}/", document)
        self.assertEqual(out, "7\n407")


class ConnectionsByBubblewrap(Connections):
    mounts = "bwrap"


CREDENTIALS = """
import os, re, socket, base64
port = %d
def say(listener, data, *more):
    s = socket.create_connection(("127.0.0.1", listener))
    got = []
    for part in (data, *more):
        s.sendall(part)
        got.append(s.recv(4096).split(b"\\r\\n")[0])
    return got
user, password = re.search("//(.*?):(.*?)@", os.environ["HTTP_PROXY"]).groups()
user = user.replace("%%3D", "=").replace("%%2B", "+").replace("%%2F", "/")
def basic(user, password):
    text = base64.b64encode(f"{user}:{password}".encode()).decode()
    return f"Proxy-Authorization: Basic {text}\\r\\n"
head = f"CONNECT ok.test:{port} HTTP/1.%%d\\r\\nHost: ok.test\\r\\n%%s\\r\\n"
name = b"\\x05\\x01\\x00\\x03\\x07ok.test" + port.to_bytes(2, "big")
def login(user, password):
    u, p = user.encode(), password.encode()
    return bytes([1, len(u)]) + u + bytes([len(p)]) + p
for listener in (3128, 1080):
    for fields in ("", basic(user, password), basic(user, "0" * 32), basic("", ""),
                   basic(user, password[:-1])):
        print(listener, say(listener, (head %% (1, fields)).encode())[0].split()[1].decode())
    print(listener, say(listener, (head %% (0, "")).encode())[0].split()[1].decode())
    print(listener, say(listener, b"\\x05\\x01\\x00", name)[1][:2].hex())
    print(listener, say(listener, b"\\x05\\x01\\x02", login(user, password), name)[2][:2].hex())
    print(listener, say(listener, b"\\x05\\x01\\x02", login(user, "0" * 32))[1][1:].hex())
"""


class Clients(BoxCase):
    """Programs find the proxy by themselves."""

    @quick
    def test_credentials(self):
        """Right ones and none are served, wrong ones are not, on both ports and by both protocols."""
        origin = self.origin(lambda conn: conn.rest())
        document = self.settings(origin)
        lines = self.succeeds(self.python(CREDENTIALS % origin.port), document).splitlines()
        for listener in ("3128", "1080"):
            said = [line.split()[1] for line in lines if line.startswith(listener)]
            self.assertEqual(said[:6], ["200", "200", "407", "407", "407", "200"])
            self.assertEqual(said[6:8], ["0500", "0500"])
            self.assertNotEqual(said[8][:2], "00")

    @quick
    def test_variables(self):
        out = self.succeeds("env")
        variables = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
        url = re.compile(r"http://srt\.[A-Za-z0-9%]+:[0-9a-f]{32}@localhost:3128$")
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "GRPC_PROXY", "YARN_HTTP_PROXY",
                     "YARN_HTTPS_PROXY", "DOCKER_HTTP_PROXY", "DOCKER_HTTPS_PROXY"):
            with self.subTest(name):
                self.assertRegex(variables[name], url)
        for name, value in variables.items():
            if name.upper() != name and "proxy" in name and name.upper() in variables:
                self.assertEqual(value, variables[name.upper()], name)
        for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "grpc_proxy", "ftp_proxy"):
            self.assertIn(name, variables)
        self.assertEqual(variables["NODE_USE_ENV_PROXY"], "1")
        self.assertNotIn("ok.test", variables["NO_PROXY"])

    def test_programs_that_read_them(self):
        origin = self.http()
        document = self.settings(origin)
        url = f"http://ok.test:{origin.port}/"
        for command in (f"curl -s {url}", f"wget -q -O - {url}",
                        self.python("import urllib.request as u;"
                                    f"print(u.urlopen('{url}').read().decode(), end='')")):
            with self.subTest(command):
                self.assertEqual(self.succeeds(command, document), "hello\n")

    def test_fetch_of_node(self):
        """The variable is there for every Node; those from 22.21 on read it."""
        origin = self.http()
        document = self.settings(origin)
        node = shutil.which("node", path=PATH)
        fetch = f'fetch("http://ok.test:{origin.port}/").then(r => console.log(r.status))'
        self.file("package.json", '{"scripts": {"get": "node get.js"}}')
        self.file("get.js", fetch)
        if node is None:
            self.skipTest("no node")
        version = subprocess.run([node, "--version"], check=True, stdout=subprocess.PIPE).stdout.decode()
        if tuple(map(int, version.strip("v\n").split(".")))[:2] < (22, 21):
            self.assertEqual(self.succeeds("node -p process.env.NODE_USE_ENV_PROXY", document), "1\n")
        else:
            self.assertEqual(self.succeeds("node get.js", document), "200\n")
            self.assertIn("200\n", self.succeeds("npm run -s get", document))

    def test_a_java_program(self):
        if shutil.which("javac", path=PATH) is None:
            self.skipTest("no JDK")
        jar = self.programs / "srt-proxy-agent.jar"
        self.assertTrue(jar.exists(), "the agent was not built")
        ca = Authority(self.directory)
        plain, secure = self.http(), self.http(tls=ca.server_context("ok.test"))
        subprocess.run(["keytool", "-importcert", "-noprompt", "-alias", "test", "-file", ca.cert,
                        "-keystore", self.directory / "roots", "-storepass", "changeit"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        (self.directory / "roots").chmod(0o644)
        self.file("Fetch.java", JAVA)
        out = self.succeeds(
            f"java -Djavax.net.ssl.trustStore={self.directory}/roots "
            "-Djavax.net.ssl.trustStorePassword=changeit Fetch.java "
            f"http://ok.test:{plain.port}/ https://ok.test:{secure.port}/",
            self.settings(plain, secure), env={"JAVA_TOOL_OPTIONS": "-Dkept=yes"})
        self.assertEqual(out, "yes\n" + "200 200\n" * 2)

    def test_tunnels_without_credentials(self):
        """As rsync and nc make them, which cannot log in."""
        origin = self.origin(lambda conn: conn.send(b"@RSYNCD: 31.0\n"))
        out = self.succeeds(self.python(
            "import os, socket; h, p = os.environ['RSYNC_PROXY'].split(':');"
            "s = socket.create_connection((h, int(p)));"
            f"s.sendall(b'CONNECT ok.test:{origin.port} HTTP/1.0\\r\\n\\r\\n');"
            "data = b''\nwhile b'RSYNCD' not in data: data += s.recv(100)\nprint(data.decode())"),
            self.settings(origin))
        self.assertIn(" 200 ", out)


JAVA = """
import java.net.*;
import java.net.http.*;

public class Fetch {
    public static void main(String[] urls) throws Exception {
        System.out.println(System.getProperty("kept"));
        for (String url : urls) {
            HttpURLConnection old = (HttpURLConnection) new URL(url).openConnection();
            HttpResponse<String> response = HttpClient.newHttpClient().send(
                HttpRequest.newBuilder(URI.create(url)).build(), HttpResponse.BodyHandlers.ofString());
            System.out.println(old.getResponseCode() + " " + response.statusCode());
        }
    }
}
"""


class Ssh(BoxCase):
    """git over ssh, through our own connector and through socat where that cannot run."""

    OPTIONS = "-F none -o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no -o BatchMode=yes"

    def setUp(self):
        super().setUp()
        self.sshd = Sshd(self.directory / "sshd", self.tool)
        self.addCleanup(self.sshd.close)
        self.key = self.file(self.directory / "key", self.sshd.key.read_text(), mode=0o600)
        self.repository = self.directory / "repository"
        subprocess.run(f"git init -q {self.repository} && cd {self.repository} && "
                       "git -c user.name=n -c user.email=e commit -q --allow-empty -m one",
                       shell=True, check=True)

    def ls_remote(self, host, document):
        return self.box(f'GIT_SSH_COMMAND="$GIT_SSH_COMMAND {self.OPTIONS} -i {self.key}" '
                        f"git ls-remote ssh://{self.sshd.user}@{host}:{self.sshd.port}{self.repository}",
                        document)

    def test_git(self):
        for hidden in ((), (str(self.programs),)):
            document = self.settings(self.sshd, deny_read=hidden)
            with self.subTest(hidden):
                command = self.succeeds('echo "$GIT_SSH_COMMAND"', document)
                self.assertEqual("socat" in command, bool(hidden), command)
                done = self.ls_remote("ok.test", document)
                self.assertIn("\tHEAD\n", done.out, done)
                self.assertNotEqual(self.ls_remote("no.test", document).status, 0)

    def test_a_refusal_says_why(self):
        done = self.ls_remote("no.test", self.settings(
            denied=["no.test"], network={"deniedDomainReasons": {"no.test": "use the mirror"}}))
        self.assertEqual(done.status, 128)
        self.assertIn("use the mirror", done.err)

    @quick
    def test_no_token_in_the_command(self):
        out = self.succeeds('echo "$GIT_SSH_COMMAND"; echo "$HTTP_PROXY"')
        command, url = out.splitlines()
        self.assertTrue(command.startswith("ssh -o ControlMaster=no -o ControlPath=none -o ProxyCommand="),
                        command)
        self.assertNotIn(re.search(":([0-9a-f]{32})@", url).group(1), command)


SOCKETS = """
import socket
U = socket.AF_UNIX
def tried(make):
    try:
        made = make()
    except OSError as error:
        return error.errno
    for s in made if isinstance(made, tuple) else (made,):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return 0
print(tried(lambda: socket.socketpair(U, socket.SOCK_STREAM)),
      tried(lambda: socket.socketpair(U, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)),
      tried(lambda: socket.socket(U)), tried(lambda: socket.socket(U, socket.SOCK_DGRAM)),
      tried(lambda: socket.socketpair(U, socket.SOCK_DGRAM)))
"""


class UnixSockets(BoxCase):
    @quick
    def test_pairs_work_and_the_rest_by_request(self):
        self.assertEqual(self.succeeds(self.python(SOCKETS)), "0 0 1 1 1\n")
        self.assertEqual(self.succeeds(self.python(SOCKETS), self.settings(
            network={"allowAllUnixSockets": True})), "0 0 0 0 0\n")


class UnixSocketsByBubblewrap(UnixSockets):
    mounts = "bwrap"
