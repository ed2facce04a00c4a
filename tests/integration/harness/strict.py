"""An origin that reads HTTP/1.1 as its grammar says and no other way, and one more opinion: nginx.

Both tell what reached them as {number of the path: [(method, target, body), ...]}, for targets like
/m12 or /m12/anything."""

import os
import re
import subprocess
import threading

from .case import Case
from .client import WAIT
from .ports import free_port, wait_for_port
from .origin import Origin

TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
REQUEST_LINE = re.compile(rb"(" + TOKEN + rb") (/[\x21-\x7e]*) HTTP/1\.1")
FIELD = re.compile(rb"(" + TOKEN + rb"):[ \t]*((?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*"
                   rb"[\x21-\x7e\x80-\xff])?)?)[ \t]*")
CHUNK = re.compile(rb"[0-9A-Fa-f]{1,16}")
NUMBER = re.compile(r"/m(\d+)(?:$|/)")


class Violation(Exception):
    """What came could be read in more than one way."""


class StrictOrigin(Origin):
    def __init__(self, **kw):
        self.lock = threading.Lock()
        self.seen = {}
        self.evil = []
        self.violations = []
        super().__init__(self._strict, **kw)

    def _strict(self, conn):
        while True:
            if not conn.reader.ahead and not conn.reader.fill():
                return
            try:
                method, target, fields = self._head(conn)
                body = self._body(conn, fields)
            except Violation as error:
                with self.lock:
                    self.violations.append(str(error))
                return
            with self.lock:
                if "evil" in target or "evil" in method:
                    self.evil.append((method, target))
                number = NUMBER.match(target)
                if number:
                    self.seen.setdefault(int(number[1]), []).append((method, target, body))
            answer = b"" if method == "HEAD" else b"ok"
            conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n" + answer)

    @staticmethod
    def _head(conn):
        lines = conn.until(b"\r\n\r\n")[:-4].split(b"\r\n")
        first = REQUEST_LINE.fullmatch(lines[0])
        if not first:
            raise Violation(f"request line {lines[0]!r}")
        fields = []
        for line in lines[1:]:
            field = FIELD.fullmatch(line)
            if not field:
                raise Violation(f"field line {line!r}")
            fields.append((field[1].lower(), field[2]))
        if [n for n, _ in fields].count(b"host") != 1:
            raise Violation(f"Host fields {fields!r}")
        return first[1].decode(), first[2].decode(), fields

    @staticmethod
    def _body(conn, fields):
        lengths = [v for n, v in fields if n == b"content-length"]
        codings = [v for n, v in fields if n == b"transfer-encoding"]
        if len(lengths) + len(codings) > 1:
            raise Violation(f"framing {lengths!r} {codings!r}")
        if lengths:
            if not re.fullmatch(rb"[0-9]{1,18}", lengths[0]):
                raise Violation(f"length {lengths!r}")
            return conn.exactly(int(lengths[0]))
        if not codings:
            return b""
        if codings != [b"chunked"]:
            raise Violation(f"coding {codings!r}")
        body = b""
        while True:
            line = conn.until(b"\r\n")[:-2]
            if not CHUNK.fullmatch(line):
                raise Violation(f"chunk size {line!r}")
            size = int(line, 16)
            if size == 0:
                break
            body += conn.exactly(size)
            if conn.exactly(2) != b"\r\n":
                raise Violation("chunk end")
        while line := conn.until(b"\r\n")[:-2]:
            if not FIELD.fullmatch(line):
                raise Violation(f"trailer {line!r}")
        return body


CONF = """
{user}
daemon off;
worker_processes 1;
error_log {dir}/error.log crit;
pid {dir}/nginx.pid;
events {{ worker_connections 512; }}
http {{
    client_body_temp_path {dir}/body;
    proxy_temp_path {dir}/proxy;
    fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi;
    scgi_temp_path {dir}/scgi;
    client_max_body_size 10m;
    client_body_buffer_size 1m;
    keepalive_requests 100000;
    large_client_header_buffers 4 64k;
    ignore_invalid_headers off;
    access_log off;
    server {{
        listen {host}:{port};
        location / {{ proxy_pass http://{host}:{inner}; proxy_http_version 1.1;
                      proxy_set_header Connection ""; proxy_set_header Host x; }}
    }}
}}
"""


class NginxFront:
    """nginx in front of a strict origin: what nginx reads, that origin records."""

    def __init__(self, directory, host="127.0.0.5"):
        directory.mkdir()
        self.host = host
        self.inner = StrictOrigin(host=host)
        self.port = free_port(host)
        (directory / "nginx.conf").write_text(CONF.format(
            dir=directory, host=host, port=self.port, inner=self.inner.port,
            user="user root;" if os.getuid() == 0 else ""))
        with open(directory / "out", "wb") as out:
            self.process = subprocess.Popen(
                [Case.tool("nginx"), "-p", str(directory), "-e", str(directory / "error.log"), "-c",
                 str(directory / "nginx.conf")], stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        wait_for_port(host, self.port, self.process)

    @property
    def literal(self):
        return f"{self.host}:{self.port}"

    @property
    def seen(self):
        return self.inner.seen

    @property
    def evil(self):
        return self.inner.evil

    def close(self):
        self.process.terminate()
        self.process.wait(WAIT)
        self.inner.close()
