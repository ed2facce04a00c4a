#!/usr/bin/python3
"""The bench of terminated tunnels: what one costs srt, beside the peers that are installed.

usage: bench/tls.py --srt build/srt [--seconds 5] [--clients 2]

  tunnel     new tunnels with one request each, sessions not resumed
  resumed    the same by a client that resumes its session
  request    keep-alive requests in a terminated tunnel
  upload     MB/s of a request body, download: of a response
  idle       KiB of the proxy's memory per idle terminated tunnel

The rate is what the clients saw (they are Python, and often the slower side); the cost is the CPU
time of the proxy itself, and "a core" what one core would do at that cost.
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
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", key, "-out", cert, "-days", 30, "-subj", f"/CN={name}", "-addext",
            "basicConstraints=critical,CA:TRUE", "-addext",
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
                            f"{self.certificate[0]};\n ssl_certificate_key {self.certificate[1]};\n"
                            f" client_max_body_size 0;\n location /up {{ return 204; }}")
        path.write_text(text)
        return command


class Terminating:
    ca = None     # (certificate, key) for the clients
    roots = None  # what the origin is verified with


class Srt(bench.Srt, Terminating):
    def command(self):
        settings = self.file("settings.json", json.dumps({
            "network": {"allowedDomains": [f"{bench.ORIGIN}:{self.origin_port}"],
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


def context(server):
    c = ssl.create_default_context(cafile=str(server.ca[0]))
    return c


def tunnel(server, c, session=None):
    sock = socket.create_connection(("127.0.0.1", server.port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    target = f"{bench.ORIGIN}:{server.origin_port}"
    sock.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += sock.recv(1024)
    if b" 200 " not in head:
        raise SystemExit(f"bench: {server.name}: {head!r}")
    return c.wrap_socket(sock, server_hostname=bench.ORIGIN, session=session)


GET = b"GET /1k HTTP/1.1\r\nHost: x\r\n\r\n"


def request(tls):
    tls.sendall(GET)
    data = b""
    while b"\r\n\r\n" not in data:
        data += tls.recv(16384)
    left = 1024 - (len(data) - data.index(b"\r\n\r\n") - 4)
    while left > 0:
        left -= len(tls.recv(16384))


def work(server, measure, seconds, results):
    c, done, session = context(server), 0, None
    keep = tunnel(server, c) if measure == "request" else None
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if keep:
            for _ in range(20):
                request(keep)
            done += 20
            continue
        with tunnel(server, c, session) as tls:
            request(tls)
            session = tls.session if measure == "resumed" else None
        done += 1
    results.put(done)


def rate(server, measure, seconds, clients):
    """(operations a second, CPU microseconds of the proxy for each)"""
    results = multiprocessing.Queue()
    workers = [multiprocessing.Process(target=work, args=(server, measure, seconds, results))
               for _ in range(clients)]
    before, begun = bench.cpu_ns(server.process.pid), time.monotonic()
    for w in workers:
        w.start()
    done = sum(results.get() for _ in workers)
    for w in workers:
        w.join()
    took = time.monotonic() - begun
    return done / took, (bench.cpu_ns(server.process.pid) - before) / 1e3 / done


def transfer(server, measure):
    """(MB/s, CPU milliseconds of the proxy for each GB)"""
    tls = tunnel(server, context(server))
    before, begun, n = bench.cpu_ns(server.process.pid), time.monotonic(), 0
    if measure == "upload":
        block = bytes(1 << 20)
        tls.sendall(f"PUT /up HTTP/1.1\r\nHost: x\r\nContent-Length: {BULK}\r\n\r\n".encode())
        for _ in range(BULK >> 20):
            tls.sendall(block)
        tls.recv(1024)
    else:
        tls.sendall(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
        while n < BULK:
            n += len(tls.recv(65536))
    took = time.monotonic() - begun
    tls.close()
    return BULK / took / 1e6, (bench.cpu_ns(server.process.pid) - before) / 1e6 / (BULK / 1e9)


def idle(server, count):
    """KiB for each of `count` tunnels that served a request."""
    c = context(server)
    first = tunnel(server, c)
    request(first)
    before = bench.rss_kib(server.process.pid)
    held = []
    for _ in range(count):
        held.append(tunnel(server, c))
        request(held[-1])
    time.sleep(6)  # what is kept of upstream connections goes
    return (bench.rss_kib(server.process.pid) - before) / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--srt", required=True)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--tunnels", type=int, default=500)
    parser.add_argument("--only", help="one measure")
    args = parser.parse_args()
    Srt.binary = args.srt
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    scratch = tempfile.mkdtemp(prefix="srt-bench-")
    os.chmod(scratch, 0o755)
    directory = pathlib.Path(scratch)
    Terminating.ca = authority(directory, "clients")
    root = authority(directory, "origins")
    Terminating.roots = root[0]
    servers = []
    try:
        origin = Origin(scratch, leaf(directory, *root, bench.ORIGIN))
        servers.append(origin)
        origin.start()
        proxies = [c(scratch, origin.port) for c in (Srt, Squid, Mitmproxy)
                   if c is Srt or c.usable()]
        for p in proxies:
            servers.append(p)
            p.start()
        print(f"{'measure':<10} {'proxy':<10} {'rate':>12} {'cost':>18} {'a core':>12}")
        for measure in ("tunnel", "resumed", "request", "upload", "download", "idle"):
            if args.only not in (None, measure):
                continue
            for p in proxies:
                if measure == "idle":
                    p.stop()
                    p.start()
                    kib = idle(p, args.tunnels)
                    print(f"{measure:<10} {p.name:<10} {'':>12} {kib:>7.1f} KiB/tunnel")
                elif measure in ("upload", "download"):
                    speed, cost = transfer(p, measure)
                    print(f"{measure:<10} {p.name:<10} {speed:>7.0f} MB/s {cost:>9.0f} ms/GB"
                          f"{1e6 / cost:>14.0f} MB/s")
                else:
                    speed, cost = rate(p, measure, args.seconds, args.clients)
                    print(f"{measure:<10} {p.name:<10} {speed:>10.0f}/s {cost:>12.1f} us"
                          f"{1e6 / cost:>16.0f}/s", flush=True)
    finally:
        for s in servers:
            s.stop()
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
