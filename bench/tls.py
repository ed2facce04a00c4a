#!/usr/bin/python3
"""The bench of terminated tunnels: what one costs srt, beside the peers that are installed.

usage: bench/tls.py --srt build/srt [--seconds 5] [--clients 4]

Peers: squid and mitmproxy where they are installed, and the npm package sandbox-runtime from
$SRT_BENCH_PEER or node's global modules.

  tunnel     new tunnels with one request each, sessions not resumed
  resumed    the same by a client that resumes its session
  request    keep-alive requests in a terminated tunnel
  upload     MB/s of a request body, download: of a response
  idle       KiB of the proxy's memory per idle terminated tunnel

The rate is what the clients saw, with whom and with the origin the proxy shares the machine; the
cost is the CPU time of the proxy itself, or its memory. Behind a peer's line: how many times its
rate srt has, and how many times srt's cost it has. Wanted of sandbox-runtime: 4 for new tunnels,
3.5 for requests.
"""
import argparse
import json
import multiprocessing
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time

import run as bench

BULK = 256 << 20


def openssl(*args):
    subprocess.run(["openssl", *map(str, args)], check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def authority(directory, name):
    key, cert = directory / f"{name}.key", directory / f"{name}.crt"
    # RSA: the kind that every peer takes
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days",
            30, "-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:TRUE", "-addext",
            "keyUsage=critical,keyCertSign,cRLSign")
    return cert, key


def leaf(directory, cert, key, name):
    own, request, ext = (directory / f"leaf.{x}" for x in ("key", "csr", "ext"))
    out = directory / "leaf.crt"
    ext.write_text(f"subjectAltName=IP:{name}\n")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", own,
            "-out", request, "-subj", f"/CN={name}")
    openssl("x509", "-req", "-in", request, "-CA", cert, "-CAkey", key, "-CAcreateserial", "-days",
            30, "-out", out, "-extfile", ext)
    return out, own


class Origin(bench.Origin):
    """nginx with TLS."""

    def __init__(self, scratch, certificate):
        super().__init__(scratch)
        self.certificate = certificate

    def command(self):
        command = super().command()
        path = pathlib.Path(command[-1])
        text = path.read_text()
        text = text.replace(" backlog=4096;", f" ssl backlog=4096;\n ssl_certificate "
                            f"{self.certificate[0]};\n ssl_certificate_key {self.certificate[1]};")
        path.write_text(text)
        return command


class Sink:
    """An origin that takes a whole body before it answers; nginx, of itself, answers at once."""

    def __init__(self, certificate):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        self.listener = context.wrap_socket(socket.create_server((bench.ORIGIN, 0)),
                                            server_side=True)
        self.port = self.listener.getsockname()[1]
        self.process = multiprocessing.Process(target=self.serve, daemon=True)
        self.process.start()

    def serve(self):
        room = memoryview(bytearray(1 << 18))
        while True:
            conn = self.listener.accept()[0]
            data = b""
            while b"\r\n\r\n" not in data:
                data += conn.recv(16384)
            left = BULK - len(data.partition(b"\r\n\r\n")[2])
            while left > 0:
                left -= conn.recv_into(room) or left
            conn.sendall(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
            conn.close()

    def stop(self):
        self.process.terminate()
        self.process.join()


class Terminating:
    sink = None
    ca = None     # (certificate, key) for the clients
    roots = None  # what the origin is verified with
    keeps_idle = True


class Srt(bench.Srt, Terminating):
    def command(self):
        settings = self.file("settings.json", json.dumps({
            "network": {"allowedDomains": [bench.ORIGIN],
                        "deniedDomains": [],
                        "tlsTerminate": {"caCertPath": str(self.ca[0]), "caKeyPath": str(self.ca[1]),
                                         "maxTunnels": 65536}},
            "proxy": {"timeouts": {"firstRequestMs": 600000, "keepAliveMs": 600000}}}))
        return ["env", f"SSL_CERT_FILE={self.roots}", "SSL_CERT_DIR=/nonexistent", self.binary,
                "proxy", "--settings", settings, "--listen", f"127.0.0.1:{self.port}"]


class Squid(bench.Squid, Terminating):
    """With ssl-bump, which Debian builds as squid-openssl."""

    @staticmethod
    def usable():
        return shutil.which("squid") and b"--with-openssl" in subprocess.run(
            ["squid", "-v"], stdout=subprocess.PIPE).stdout

    def command(self):
        command = super().command()
        path = pathlib.Path(command[-1])
        both = pathlib.Path(self.dir) / "ca.pem"
        both.write_text(pathlib.Path(self.ca[0]).read_text() + pathlib.Path(self.ca[1]).read_text())
        helper = next(pathlib.Path("/usr/lib/squid").glob("security_file_certgen"))
        subprocess.run([helper, "-c", "-s", f"{self.dir}/db", "-M", "16MB"], check=True,
                       stdout=subprocess.DEVNULL)
        text = path.read_text().replace(
            f"http_port 127.0.0.1:{self.port}",
            f"http_port 127.0.0.1:{self.port} ssl-bump cert={both} generate-host-certificates=on\n"
            f"sslcrtd_program {helper} -s {self.dir}/db -M 16MB\n"
            f"tls_outgoing_options cafile={self.roots}\nssl_bump bump all")
        path.write_text(text)
        return command


class Mitmproxy(bench.Server, Terminating):
    name = "mitmproxy"

    @staticmethod
    def usable():
        return shutil.which("mitmdump")

    def command(self):
        pathlib.Path(self.dir, "mitmproxy-ca.pem").write_text(
            pathlib.Path(self.ca[1]).read_text() + pathlib.Path(self.ca[0]).read_text())
        return ["mitmdump", "-q", "--set", f"confdir={self.dir}", "--set",
                f"ssl_verify_upstream_trusted_ca={self.roots}", "--listen-host", "127.0.0.1",
                "--listen-port", str(self.port)]


class SandboxRuntime(bench.Server, Terminating):
    """By its own parts, with a policy that costs nothing; it has no program for that."""

    name = "srt (npm)"
    keeps_idle = False  # a tunnel that is idle for 6 s is closed

    @staticmethod
    def directory():
        named = os.environ.get("SRT_BENCH_PEER")
        if named or not shutil.which("npm"):
            return named
        root = subprocess.run(["npm", "root", "-g"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE).stdout.decode().strip()
        path = os.path.join(root, "@anthropic-ai", "sandbox-runtime")
        return path if os.path.isdir(path) else None

    @classmethod
    def usable(cls):
        return shutil.which("node") and cls.directory()

    def command(self):
        driver = pathlib.Path(__file__).with_name("sandbox_runtime.mjs")
        return ["env", f"NODE_EXTRA_CA_CERTS={self.roots}", "node", driver, self.directory(),
                self.ca[0], self.ca[1], str(self.port), bench.ORIGIN]


def tunnel(server, c, port=None):
    sock = socket.create_connection(("127.0.0.1", server.port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    target = f"{bench.ORIGIN}:{port or server.origin_port}"
    sock.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += sock.recv(1024)
    if b" 200 " not in head:
        raise SystemExit(f"bench: {server.name}: {head!r}")
    return c.wrap_socket(sock, server_hostname=bench.ORIGIN)


GET = b"GET /1k HTTP/1.1\r\nHost: x\r\n\r\n"


def request(tls):
    tls.sendall(GET)
    data = b""
    while b"\r\n\r\n" not in data:
        data += tls.recv(16384)
    left = 1024 - (len(data) - data.index(b"\r\n\r\n") - 4)
    while left > 0:
        left -= len(tls.recv(16384))


def build_load(directory):
    """The clients: Python's would be the slowest part."""
    source, program = pathlib.Path(__file__).with_name("tls_load.c"), directory / "tls_load"
    subprocess.run(["cc", "-std=c17", "-D_GNU_SOURCE", "-O2", "-o", program, source, "-lssl",
                    "-lcrypto"], check=True)
    return program


def rate(server, measure, args):
    """(operations a second, CPU microseconds of the proxy for each)"""
    before = bench.cpu_ns(server.process.pid)
    said = subprocess.run([args.load, measure, str(server.port), bench.ORIGIN,
                           str(server.origin_port), server.ca[0], str(args.clients),
                           str(args.seconds)], check=True, stdout=subprocess.PIPE).stdout
    spent, said = bench.cpu_ns(server.process.pid) - before, json.loads(said)
    return said["operations"] / said["seconds"], spent / 1e3 / said["operations"]


def transfer(server, measure):
    """(MB/s, CPU milliseconds of the proxy for each GB)"""
    tls = tunnel(server, ssl.create_default_context(cafile=server.ca[0]),
                 server.sink.port if measure == "upload" else None)
    before, begun, n = bench.cpu_ns(server.process.pid), time.monotonic(), 0
    if measure == "upload":
        block = bytes(1 << 20)
        tls.sendall(f"PUT /up HTTP/1.1\r\nHost: x\r\nContent-Length: {BULK}\r\n\r\n".encode())
        for _ in range(BULK >> 20):
            tls.sendall(block)
        if b" 204 " not in tls.recv(1024):
            raise SystemExit(f"bench: {server.name}: the upload failed")
    else:
        tls.sendall(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
        while n < BULK:
            n += len(tls.recv(65536))
    took = time.monotonic() - begun
    tls.close()
    return BULK / took / 1e6, (bench.cpu_ns(server.process.pid) - before) / 1e6 / (BULK / 1e9)


def idle(server, count):
    """KiB for each of `count` tunnels that served a request."""
    c = ssl.create_default_context(cafile=server.ca[0])
    first = tunnel(server, c)
    request(first)
    before = bench.rss_kib(server.process.pid)
    held = []
    for _ in range(count):
        held.append(tunnel(server, c))
        request(held[-1])
    time.sleep(6)  # what is kept of upstream connections goes
    return (bench.rss_kib(server.process.pid) - before) / count


UNITS = {"tunnel": ("/s", "us"), "resumed": ("/s", "us"), "request": ("/s", "us"),
         "upload": ("MB/s", "ms/GB"), "download": ("MB/s", "ms/GB"), "idle": ("", "KiB each")}


def measured(server, measure, args):
    """(rate, cost); an idle tunnel has no rate."""
    if measure == "idle":
        server.stop()
        server.start()
        return None, idle(server, args.tunnels)
    if measure in ("upload", "download"):
        return transfer(server, measure)
    return rate(server, measure, args)


def best(rounds):
    """The highest rate and the lowest cost."""
    return (max(r[0] for r in rounds) if rounds[0][0] is not None else None,
            min(r[1] for r in rounds))


def show(measure, name, ours, theirs=None):
    """A line of the table; with theirs: a peer's, and how many times as good ours is."""
    (speed, cost), (per, unit) = theirs or ours, UNITS[measure]
    line = f"{measure:<10} {name:<10}"
    line += f"{speed:>9.0f} {per:<4}" if speed is not None else " " * 14
    line += f"{cost:>9.1f} {unit:<9}"
    if theirs:
        line += f"{ours[0] / speed:>7.1f}x" if speed is not None else " " * 8
        line += f"{cost / ours[1]:>6.1f}x"
    print(line.rstrip(), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--srt", required=True)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--tunnels", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3, help="the best counts; proxies take turns")
    parser.add_argument("--only", help="one measure")
    args = parser.parse_args()
    Srt.binary = args.srt
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    scratch = tempfile.mkdtemp(prefix="srt-bench-")
    os.chmod(scratch, 0o755)
    directory = pathlib.Path(scratch)
    args.load = build_load(directory)
    Terminating.ca = authority(directory, "clients")
    root = authority(directory, "origins")
    Terminating.roots = root[0]
    servers = []
    try:
        certificate = leaf(directory, *root, bench.ORIGIN)
        origin = Origin(scratch, certificate)
        servers.append(origin)
        origin.start()
        Terminating.sink = Sink(certificate)
        servers.append(Terminating.sink)
        proxies = [c(scratch, origin.port) for c in (Srt, SandboxRuntime, Squid, Mitmproxy)
                   if c is Srt or c.usable()]
        for p in proxies:
            servers.append(p)
            p.start()
        print(f"{'measure':<10} {'proxy':<10}{'rate':>9} {'':<4}{'cost':>9} {'':<9}{'rate':>7} "
              f"{'cost':>6}")
        for measure in UNITS:
            if args.only not in (None, measure):
                continue
            able = [p for p in proxies if measure != "idle" or p.keeps_idle]
            rounds = [[measured(p, measure, args) for p in able] for _ in range(args.rounds)]
            results = [best([r[i] for r in rounds]) for i in range(len(able))]
            show(measure, able[0].name, results[0])
            for p, result in zip(able[1:], results[1:]):
                show(measure, p.name, results[0], result)
    finally:
        for s in servers:
            s.stop()
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
