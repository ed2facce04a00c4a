"""Where a case plays: its directories, the files in them, its servers, and the placeholders."""

import hashlib
import os
import pathlib
import re
import shutil
import socket
import sys
import tempfile
import threading

WAIT = 20.0
PLACEHOLDER = re.compile(r"\$(\$?)(PY|[WHOBPQSUN])(?![A-Za-z0-9_])")


class Server:
    """Answers each HTTP request with its marker, the request line, and the body's size and hash."""

    def __init__(self, marker):
        self.marker = marker
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        sock.settimeout(WAIT)
        try:
            with sock, sock.makefile("rb") as stream:
                first = stream.readline().decode("latin-1").rstrip("\r\n")
                size = 0
                while (line := stream.readline().strip()):
                    name, _, value = line.partition(b":")
                    if name.strip().lower() == b"content-length":
                        size = int(value)
                body = stream.read(size)
                if not first:
                    return
                text = f"{self.marker} {first} {len(body)} {hashlib.sha256(body).hexdigest()}\n"
                sock.sendall(("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n"
                              f"Content-Length: {len(text)}\r\n\r\n{text}").encode("latin-1"))
        except OSError:
            pass  # the client's way to end it

    def close(self):
        # a thread that waits in accept() is not woken by close() alone
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class Scene:
    def __init__(self, with_servers):
        self.base = pathlib.Path(tempfile.mkdtemp(prefix="srt-case-")).resolve()
        self.base.chmod(0o755)
        self.work, self.home, self.other = (self.base / name for name in "who")
        for directory in (self.work, self.home, self.other):
            directory.mkdir()
        self.settings = self.base / "settings.json"
        self.servers = [Server("server-P"), Server("server-Q")] if with_servers else []
        ports = [str(server.port) for server in self.servers] or ["0", "0"]
        self.names = {"B": str(self.base), "W": str(self.work), "H": str(self.home),
                      "O": str(self.other), "S": str(self.settings), "PY": sys.executable,
                      "U": str(os.geteuid()), "N": self.base.name, "P": ports[0], "Q": ports[1]}

    def fill(self, value):
        """The value with its placeholders replaced, in keys too."""
        if isinstance(value, str):
            return PLACEHOLDER.sub(lambda m: m[0][1:] if m[1] else self.names[m[2]], value)
        if isinstance(value, list):
            return [self.fill(v) for v in value]
        if isinstance(value, dict):
            return {self.fill(k): self.fill(v) for k, v in value.items()}
        return value

    def close(self, keep=False):
        for server in self.servers:
            server.close()
        if keep:
            return
        # What a case has closed is opened again; os.walk() enters no symbolic link.
        for directory, below, _ in os.walk(self.base):
            for name in below:
                path = os.path.join(directory, name)
                if not os.path.islink(path):
                    os.chmod(path, 0o700)
        shutil.rmtree(self.base, ignore_errors=True)


def _write(path, step):
    path.write_text(step.get("content", "x\n"), "utf-8")
    if "mode" in step:
        path.chmod(int(step["mode"], 8))


STEPS = {"dir": lambda path, step: path.mkdir(exist_ok=True),
         "file": _write,
         "symlink": lambda path, step: path.symlink_to(step["target"]),
         "hardlink": lambda path, step: os.link(step["target"], path),
         "fifo": lambda path, step: os.mkfifo(path),
         "chmod": lambda path, step: path.chmod(int(step["mode"], 8))}


def set_up(steps):
    for step in steps:
        path = pathlib.Path(step["path"])
        path.parent.mkdir(parents=True, exist_ok=True)
        STEPS[step["op"]](path, step)
