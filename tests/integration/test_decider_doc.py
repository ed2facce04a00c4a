"""docs/decider.md: the sessions it shows are played, byte for byte in both directions."""

import pathlib
import re
import socket
import ssl

from harness import DecidedProxy, DeciderCase, TlsSocket, answer, echo, quick, strict
from harness.client import WAIT, Reader
from harness.origin import Conn
from harness.resources import until

DOCUMENT = (pathlib.Path(__file__).parents[2] / "docs" / "decider.md").read_text()
FRAME = re.compile(r"(srt|decider) +((?:[0-9a-f]{2} ){4}) (\{.*\})")


def section(title):
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", DOCUMENT, re.M | re.S)
    return found.group(1)


def blocks(text):
    """[(language, body)] of the fenced blocks, frames and requests alike."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S)


def frames(text):
    """[(speaker, bytes of the frame)]"""
    found = []
    for line in text.splitlines():
        speaker, length, payload = FRAME.fullmatch(line).groups()
        found.append((speaker, bytes.fromhex(length) + payload.encode()))
    return found


class World:
    """Stands for the network: a parent proxy that answers for every host, inside TLS at port 443."""

    def __init__(self, case):
        self.heads = []
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*case.root.leaf("api.example.com"))
        self.proxy = case.origin(self.serve, host="127.0.0.7")
        self.url = f"http://127.0.0.7:{self.proxy.port}"

    def serve(self, conn):
        head = conn.until(b"\r\n\r\n")
        if head.startswith(b"CONNECT api.example.com:443 "):
            conn.send("HTTP/1.1 200 OK\r\n\r\n")
            conn = Conn(self.context.wrap_socket(conn.sock, server_side=True))
            head = conn.until(b"\r\n\r\n")
        elif head.startswith(b"CONNECT "):
            conn.send("HTTP/1.1 200 OK\r\n\r\n")
            echo(conn)
            return
        self.heads.append(head)
        conn.send(answer())
        conn.sock.close()


class Document(DeciderCase):
    @quick
    def test_lengths(self):
        count = 0
        for language, text in blocks(DOCUMENT):
            if language == "frames":
                for speaker, data in frames(text):
                    self.assertEqual(int.from_bytes(data[:4], "big"), len(data) - 4, data)
                    strict(data[4:])
                    count += 1
        self.assertGreater(count, 15)

    @quick
    def test_the_first_frame(self):
        data = bytes.fromhex(next(text for language, text in blocks(DOCUMENT) if language == "hex"))
        self.assertIn(("srt", data), frames(next(t for l, t in blocks(section("A session")) if l == "frames")))
        self.assertIn(f"{len(data)} bytes", DOCUMENT)

    def start_session(self, title, *args, ca=False, network=None):
        """A proxy with our end of its decider, through the hello."""
        self.world = World(self)
        self.ours, theirs = socket.socketpair()
        self.ours.settimeout(WAIT)
        self.addCleanup(self.ours.close)
        fds = [theirs.fileno()]
        args = [*args, "--decider-fd", str(fds[0])]
        if ca:
            fds.append(self.pipe_of(self.pem()))
            args += ["--ca-fd", str(fds[1])]
        directory = self.directory / "session"
        directory.mkdir()
        document = self.document(parentProxy={"http": self.world.url, "https": self.world.url}, **(network or {}))
        self.srt = DecidedProxy(directory, args, document, self.trust(), fds, wait=False)
        self.addCleanup(self.srt.stop)
        theirs.close()
        self.steps = [b for b in blocks(section(title)) if b[0] in ("frames", "http", "sent", "answer")]
        self.assertEqual(self.steps[0][0], "frames")
        self.exchange(self.steps.pop(0)[1])
        self.srt.wait_serving()

    def exchange(self, text):
        for speaker, data in frames(text):
            if speaker == "srt":
                got = b""
                while len(got) < len(data):
                    piece = self.ours.recv(len(data) - len(got))
                    self.assertTrue(piece, f"ended after {got!r}")
                    got += piece
                self.assertEqual(got, data)
            else:
                self.ours.sendall(data)

    def play(self):
        client = method = None
        for language, text in self.steps:
            if language == "frames":
                self.exchange(text)
            elif language == "http":
                client = self.client(self.srt)
                method = text.split()[0]
                head, _, body = text.rstrip("\n").partition("\n\n")
                if text.split()[1].startswith("/"):
                    self.tunnel(client, re.search(r"^Host: (.*)$", text, re.M).group(1))
                client.send(head.replace("\n", "\r\n") + "\r\n\r\n" + body)
            elif language == "answer":
                self.compare(client.response(method), text)
            else:
                self.assertTrue(until(lambda: self.world.heads))
                self.assertEqual(self.sent(self.world.heads[-1].decode()),
                                 self.sent(text.replace("\n", "\r\n")))

    def tunnel(self, client, host):
        self.assertEqual(client.connect(f"{host}:443").status, 200)
        client.sock = TlsSocket(client.sock, self.context(), host).handshake()
        client.reader = Reader(client.sock)

    def compare(self, r, text):
        """The status line, the fields and the body that are shown."""
        head, _, body = text.rstrip("\n").partition("\n\n")
        status, *fields = head.splitlines()
        self.assertEqual(f"HTTP/1.1 {r.status} {r.phrase}", status)
        for field in fields:
            name, value = field.split(": ")
            self.assertEqual(r.get(name), value, r)
        if body:
            self.assertEqual(r.text.rstrip("\n"), body)

    @staticmethod
    def sent(head):
        lines = head.strip().split("\r\n")
        return lines[0], [line for line in lines[1:] if not line.lower().startswith("connection:")]

    def nothing_more(self):
        """The decider has heard no more than is shown."""
        self.ours.setblocking(False)
        try:
            self.assertEqual(self.ours.recv(1), b"")
        except BlockingIOError:
            pass

    @quick
    def test_a_session(self):
        self.start_session("A session", ca=True)
        self.play()
        self.nothing_more()
        self.srt.stopped("decider")
        self.assertEqual(len(self.world.heads), 1)

    @quick
    def test_a_session_of_version_2(self):
        self.start_session("A session of version 2", "--decider-proto", "2", network={"allowed": ["example.com"]})
        self.play()
        self.nothing_more()
