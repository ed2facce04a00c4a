#!/usr/bin/python3
"""The bench: srt and the forward proxies that are installed, before one origin, in one run.

For each measure and proxy: the rate seen by the load generator, and the CPU time the proxy itself
used, from /proc/PID/stat; best of several rounds. Ratios are srt's over the other's:
below 1 is less work than the other does.
"""
import abc
import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ORIGIN = "127.0.0.5"
BIG = 1 << 30


def free_port(address="127.0.0.1"):
    with socket.socket() as s:
        s.bind((address, 0))
        return s.getsockname()[1]


def wait_port(address, port, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with socket.socket() as s:
            s.settimeout(0.2)
            if s.connect_ex((address, port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit(f"bench: nothing listens on {address}:{port}")


def tree(pid):
    """The process and its descendants."""
    pids, todo = [], [pid]
    while todo:
        one = todo.pop()
        pids.append(one)
        try:
            for task in os.listdir(f"/proc/{one}/task"):
                with open(f"/proc/{one}/task/{task}/children") as f:
                    todo += [int(c) for c in f.read().split()]
        except OSError:
            pass
    return pids


def cpu_ns(pid):
    """User and system time, that of ended threads and reaped children included."""
    total = 0
    for one in tree(pid):
        try:
            with open(f"/proc/{one}/stat") as f:
                fields = f.read().rsplit(")", 1)[1].split()
            total += sum(int(fields[i]) for i in (11, 12, 13, 14))
        except OSError:
            pass
    return total * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def rss_kib(pid):
    total = 0
    for one in tree(pid):
        try:
            with open(f"/proc/{one}/status") as f:
                for line in f:
                    if line.startswith("RssAnon:"):
                        total += int(line.split()[1])
        except OSError:
            pass
    return total


class Server(abc.ABC):
    """A process of the bench; its configuration lives in a directory of its own."""

    name = "?"
    via = "http"
    measures = ()

    def __init__(self, scratch, origin_port):
        self.dir = os.path.join(scratch, self.name)
        os.makedirs(self.dir)
        os.chmod(self.dir, 0o777)
        self.origin_port = origin_port
        self.port = free_port()
        self.process = None

    def file(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    @abc.abstractmethod
    def command(self):
        """What starts it, in the foreground."""

    def start(self):
        log = open(os.path.join(self.dir, "output"), "w")
        self.process = subprocess.Popen(self.command(), stdout=log, stderr=log,
                                        stdin=subprocess.DEVNULL, start_new_session=True)
        wait_port("127.0.0.1", self.port)

    def stop(self):
        if self.process is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process.wait()


class Srt(Server):
    name = "srt"
    measures = ("tunnel", "request", "transfer", "idle")
    binary = None

    def command(self):
        settings = self.file("settings.json", json.dumps({
            "network": {"allowedDomains": [f"{ORIGIN}:{self.origin_port}"], "deniedDomains": []},
            "proxy": {}}))
        return [self.binary, "proxy", "--settings", settings,
                "--listen", f"127.0.0.1:{self.port}"]


class Squid(Server):
    name = "squid"
    measures = ("tunnel", "request", "transfer", "idle")

    def command(self):
        conf = self.file("squid.conf", f"""
http_port 127.0.0.1:{self.port}
http_access allow all
cache deny all
access_log none
cache_log {self.dir}/cache.log
cache_store_log none
pid_filename {self.dir}/pid
coredump_dir {self.dir}
shutdown_lifetime 0 seconds
max_filedescriptors 16384
via off
forwarded_for delete
""")
        return ["squid", "-N", "-f", conf]


class Tinyproxy(Server):
    name = "tinyproxy"
    measures = ("tunnel", "transfer")  # it keeps no client connection open

    def command(self):
        conf = self.file("tinyproxy.conf", f"""
Port {self.port}
Listen 127.0.0.1
Timeout 600
MaxClients 2000
LogLevel Critical
LogFile "{self.dir}/log"
DisableViaHeader Yes
""")
        return ["tinyproxy", "-d", "-c", conf]


class Dante(Server):
    name = "dante"
    via = "socks"
    measures = ("tunnel", "transfer")

    def command(self):
        conf = self.file("danted.conf", f"""
logoutput: /dev/null
internal: 127.0.0.1 port = {self.port}
external: lo
external.rotation: route
clientmethod: none
socksmethod: none
user.privileged: root
user.unprivileged: nobody
client pass {{ from: 0/0 to: 0/0 }}
socks pass {{ from: 0/0 to: 0/0 }}
""")
        return ["danted", "-f", conf, "-p", f"{self.dir}/pid"]


class Haproxy(Server):
    name = "haproxy"
    via = "direct"
    measures = ("tunnel", "transfer", "idle")

    def command(self):
        conf = self.file("haproxy.cfg", f"""
global
    nbthread 1
    maxconn 8000
defaults
    mode tcp
    timeout connect 10s
    timeout client 600s
    timeout server 600s
listen l
    bind 127.0.0.1:{self.port}
    server origin {ORIGIN}:{self.origin_port}
""")
        return ["haproxy", "-db", "-f", conf]


PEERS = {"squid": Squid, "tinyproxy": Tinyproxy, "danted": Dante, "haproxy": Haproxy}


class Origin(Server):
    name = "nginx"

    def __init__(self, scratch):
        super().__init__(scratch, 0)
        self.port = free_port(ORIGIN)

    def command(self):
        root = os.path.join(self.dir, "root")
        os.makedirs(root, exist_ok=True)
        with open(os.path.join(root, "1k"), "wb") as f:
            f.write(b"x" * 1024)
        with open(os.path.join(root, "big"), "wb") as f:
            f.truncate(BIG)
        conf = self.file("nginx.conf", f"""
daemon off;
worker_processes 1;
worker_rlimit_nofile 16384;
pid {self.dir}/pid;
error_log {self.dir}/error.log crit;
events {{ worker_connections 8192; }}
http {{
    access_log off;
    sendfile on;
    keepalive_requests 100000000;
    keepalive_timeout 600s;
    client_body_temp_path {self.dir}/body;
    proxy_temp_path {self.dir}/proxy;
    fastcgi_temp_path {self.dir}/fastcgi;
    uwsgi_temp_path {self.dir}/uwsgi;
    scgi_temp_path {self.dir}/scgi;
    server {{
        listen {ORIGIN}:{self.port} backlog=4096;
        root {root};
        default_type application/octet-stream;
    }}
}}
""")
        return [shutil.which("nginx") or "/usr/sbin/nginx", "-p", self.dir, "-c", conf]

    def start(self):
        self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL,
                                        start_new_session=True)
        wait_port(ORIGIN, self.port)


class Measure:
    """What the load generator does, and how its result is put per operation."""

    def __init__(self, name, path, connections, operations, unit):
        self.name, self.path, self.unit = name, path, unit
        self.connections, self.operations = connections, operations


def measures(quick):
    scale = 10 if quick else 1
    return [Measure("tunnel", "/1k", 32, 20000 // scale, "us/tunnel"),
            Measure("request", "/1k", 32, 60000 // scale, "us/request"),
            Measure("transfer", "/big", 2, 4 if not quick else 2, "ms/GB"),
            Measure("idle", "/", 4, 4000 // scale, "KiB/tunnel")]


def generator(load, server, measure):
    return [load, measure.name, "--via", server.via, "--proxy", f"127.0.0.1:{server.port}",
            "--target", f"{ORIGIN}:{server.origin_port}", "--path", measure.path,
            "--connections", str(measure.connections), "--operations", str(measure.operations)]


def one_round(load, server, measure):
    before = cpu_ns(server.process.pid)
    memory = rss_kib(server.process.pid)
    with subprocess.Popen(generator(load, server, measure), stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as p:
        line = p.stdout.readline()
        if not line:
            raise SystemExit(f"bench: {server.name}: {measure.name}: the load generator failed")
        memory = rss_kib(server.process.pid) - memory
        p.stdin.close()
    result = json.loads(line)
    if result["errors"]:
        raise SystemExit(f"bench: {server.name}: {measure.name}: {result['errors']} errors")
    cpu = cpu_ns(server.process.pid) - before
    if measure.name == "idle":
        return 0.0, memory / measure.operations
    if measure.name == "transfer":
        return result["bytes"] / result["seconds"] / 1e6, cpu / 1e6 / (result["bytes"] / 1e9)
    return result["operations"] / result["seconds"], cpu / 1e3 / result["operations"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--srt", required=True)
    parser.add_argument("--load", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", help="one measure")
    args = parser.parse_args()
    Srt.binary = args.srt
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    scratch = tempfile.mkdtemp(prefix="srt-bench-")
    os.chmod(scratch, 0o755)
    servers = []
    try:
        origin = Origin(scratch)
        servers.append(origin)
        origin.start()
        proxies = [Srt] + [c for name, c in PEERS.items() if shutil.which(name)]
        proxies = [c(scratch, origin.port) for c in proxies]
        for p in proxies:
            servers.append(p)
            p.start()
        print(f"{'measure':<10} {'proxy':<10} {'rate':>14} {'cost':>18} {'srt / it':>9}")
        for m in measures(args.quick):
            if args.only and args.only != m.name:
                continue
            best = {}
            for _ in range(args.rounds):
                for p in proxies:
                    if m.name not in p.measures:
                        continue
                    if m.name == "idle":
                        # Memory that earlier measures left behind would hide what is needed now.
                        p.stop()
                        p.start()
                    rate, cost = one_round(args.load, p, m)
                    old = best.get(p.name, (0.0, float("inf")))
                    best[p.name] = (max(rate, old[0]), min(cost, old[1]))
            ours = best["srt"][1]
            for name, (rate, cost) in best.items():
                shown = "" if m.name == "idle" else (
                    f"{rate:.0f} MB/s" if m.name == "transfer" else f"{rate:.0f}/s")
                ratio = "" if name == "srt" or cost <= 0 else f"{ours / cost:.2f}"
                print(f"{m.name:<10} {name:<10} {shown:>14} {cost:>11.1f} {m.unit:<10}"
                      f"{ratio:>5}", flush=True)
    finally:
        for s in servers:
            s.stop()
        if not os.environ.get("SRT_BENCH_KEEP"):
            shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
