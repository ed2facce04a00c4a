#!/usr/bin/python3
"""The bench of deciders: what answers cost over a link, and what one adds to a request.

usage: bench/decide.py --srt build/srt [--rounds 3] [--seconds 3] [--only link|request|pending]

srt-decider, bench-load and bench-decide are looked for beside srt. The peer, where it is found
($SRT_BENCH_PEER or node's global modules), is the npm package sandbox-runtime with the same
srt-decider over the same kind of socket.

  link      questions in a closed loop, so many open at a time: decisions a second (wanted: 50000,
            on one core too) and how long one takes; "req" is a request of protocol 1, "conn" a
            connection of protocol 2
  request   keep-alive requests through the proxy, each judged, so many at a time; "settings": no
            decider is asked; "proto 2": beside settings, "proto 1": proxy-only
  pending   memory of the proxy for each request that waits for its decider, of the whole client
            connection with it, and of the link alone

A rate is what the clients saw, with whom, the origin and the decider the proxy shares the machine;
the CPU time is that of the proxy and of the decider for each answer. Behind a peer's line: how many
times its rate srt has with protocol 1, and how many times srt's CPU time it takes; of memory, how
many times srt's. The best of the rounds counts.
"""
import argparse
import contextlib
import json
import os
import pathlib
import resource
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import run as bench
import tls

PENDING = 10000
TIMEOUT_S = 5  # a proxy waits no longer for its decider

RULES = {
    "allowedDomains": ["api.example.com", bench.ORIGIN], "deniedDomains": [],
    "rules": [
        {"host": "other.example.com", "action": "deny"},
        {"host": "api.example.com", "via": ["connect", "socks"], "action": "allow"},
        {"host": "api.example.com", "methods": ["GET", "HEAD"], "action": "allow"},
        {"host": "api.example.com", "methods": ["POST"], "paths": ["/v1/**"], "action": "allow"},
        {"host": bench.ORIGIN, "methods": ["GET"], "action": "allow"}]}


class Mute:
    """A decider that never answers, and counts what it is asked."""

    def __init__(self, link, proto):
        self.link, self.asked = link, 0
        said = {"t": "hello", "proto": proto, "allowedDomains": [bench.ORIGIN], "deniedDomains": []}
        if proto == 2:
            said["asks"] = ["request"]
        text = json.dumps(said).encode()
        link.sendall(struct.pack(">I", len(text)) + text)
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        mark, rest = b'{"t":"req"', b""
        with self.link, contextlib.suppress(ConnectionError):
            while data := self.link.recv(1 << 20):
                data = rest + data
                self.asked += data.count(mark)
                rest = data[-len(mark) + 1:]


class Judged(bench.Server):
    """A proxy on one end of a socket pair, a decider on the other."""

    proto = 1
    operations = 30000
    link = None
    decider_command = ()  # none: the decider is mute
    program = mute = None

    def start(self):
        if self.proto == 0:
            super().start()
            return
        ours, theirs = socket.socketpair()
        if self.decider_command:
            self.program = subprocess.Popen(self.decider_command, stdin=theirs, stdout=theirs)
        else:
            self.mute = Mute(theirs.dup(), self.proto)
        theirs.close()
        self.link = ours.fileno()
        with ours, open(os.path.join(self.dir, "output"), "w") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, start_new_session=True,
                                            pass_fds=[self.link])
        bench.wait_port("127.0.0.1", self.port)

    def stop(self):
        super().stop()
        if self.program is not None:
            self.program.kill()
            self.program.wait()

    def cpu_ns(self):
        """(of the proxy, of its decider)"""
        return [bench.cpu_ns(p.pid) if p is not None else 0 for p in (self.process, self.program)]


class Settings(Judged):
    name, proto = "settings", 0
    binary = None

    def command(self):
        settings = self.file("settings.json", json.dumps({
            "network": {"allowedDomains": [f"{bench.ORIGIN}:{self.origin_port}"],
                        "deniedDomains": []},
            "proxy": {}}))
        return [self.binary, "proxy", "--listen", f"127.0.0.1:{self.port}", "--settings", settings]


class Proto2(Settings):
    name, proto = "proto 2", 2

    def command(self):
        return super().command() + ["--decider-proto", "2", "--decider-fd", str(self.link)]


class Proto1(Settings):
    name, proto = "proto 1", 1

    def command(self):
        return [self.binary, "proxy", "--listen", f"127.0.0.1:{self.port}", "--decider-fd",
                str(self.link)]


class Peer(Judged):
    name = tls.SandboxRuntime.name
    proto = 1
    operations = 6000

    def command(self):
        main = os.path.join(tls.SandboxRuntime.directory(), "dist", "proxy-main.js")
        return ["node", main, "--listen", f"127.0.0.1:{self.port}", "--decider-fd", str(self.link)]


def output(*command):
    return json.loads(subprocess.run(list(map(str, command)), check=True, stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE).stdout)


# --- the link ---------------------------------------------------------------------------------

def ask(args, proto, pending, one_core):
    pin = ["taskset", "-c", min(os.sched_getaffinity(0))] if one_core else []
    rounds = [output(*pin, args.asker, "answers", "--proto", proto, "--pending", pending,
                     "--seconds", args.seconds, " ".join(args.decider))
              for _ in range(args.rounds)]
    if any(r["failures"] for r in rounds):
        raise SystemExit("bench: the decider did not answer")
    best = max(rounds, key=lambda r: r["decisions_per_s"])
    n = best["decisions"]
    return (best["decisions_per_s"], best["cpu_s"] / n * 1e6, best["decider_cpu_s"] / n * 1e6,
            min(r["p50_us"] for r in rounds), min(r["p99_us"] for r in rounds))


def show_link(args):
    print(f"{'link':<10} {'asked':<10}{'open':>5}{'decisions/s':>12}{'srt us':>9}"
          f"{'decider us':>12}{'p50 us':>8}{'p99 us':>8}")
    for what, proto in (("req", 1), ("conn", 2)):
        for pending, one_core in ((1, False), (16, False), (256, False), (256, True)):
            speed, cost, other, p50, p99 = ask(args, proto, pending, one_core)
            print(f"{'one core' if one_core else 'link':<10} {what:<10}{pending:>5}{speed:>12.0f}"
                  f"{cost:>9.2f}{other:>12.2f}{p50:>8}{p99:>8}", flush=True)


# --- requests ---------------------------------------------------------------------------------

def load(args, server, mode, path, connections, operations):
    return [args.load, mode, "--via", "http", "--proxy", f"127.0.0.1:{server.port}", "--target",
            f"{bench.ORIGIN}:{server.origin_port}", "--path", path, "--connections",
            str(connections), "--operations", str(operations)]


def request(args, server, connections):
    """(rate, CPU microseconds of the proxy, of the decider, p50, p99)"""
    before = server.cpu_ns()
    said = output(*load(args, server, "request", "/1k", connections, server.operations))
    n = said["operations"]
    proxy, decider = ((b - a) / 1e3 / n for a, b in zip(before, server.cpu_ns()))
    return n / said["seconds"], proxy, decider, said["p50_us"], said["p99_us"]


def best_of(rounds):
    return max(r[0] for r in rounds), *(min(r[i] for r in rounds) for i in range(1, 5))


def show_requests(args, proxies):
    print(f"\n{'request':<10} {'decided by':<10}{'open':>5}{'requests/s':>12}{'proxy us':>9}"
          f"{'decider us':>12}{'p50 us':>8}{'p99 us':>8}{'rate':>7}{'CPU':>7}")
    for connections in (1, 32):
        rounds = [[request(args, p, connections) for p in proxies] for _ in range(args.rounds)]
        results = {p.name: best_of([r[i] for r in rounds]) for i, p in enumerate(proxies)}
        ours = results[Proto1.name]
        for name, (speed, cost, other, p50, p99) in results.items():
            line = (f"{'request':<10} {name:<10}{connections:>5}{speed:>12.0f}{cost:>9.1f}"
                    f"{other:>12.1f}{p50:>8}{p99:>8}")
            if name == Peer.name:
                line += f"{ours[0] / speed:>6.1f}x{cost / ours[1]:>6.1f}x"
            print(line, flush=True)


# --- requests that wait -----------------------------------------------------------------------

def pending(args, server, count):
    """Bytes of the proxy for each of `count` requests that their decider does not answer."""
    server.decider_command = ()
    server.start()
    mute = server.mute
    output(*load(args, server, "pending", "/1k", 4, 100))  # what the first ones take is no measure
    while mute.asked < 100:
        time.sleep(0.01)
    before, begun, count = bench.rss_kib(server.process.pid), time.monotonic(), count - 100
    with subprocess.Popen(load(args, server, "pending", "/1k", 4, count), stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as p:
        p.stdout.readline()
        while mute.asked < 100 + count and time.monotonic() < begun + TIMEOUT_S:
            time.sleep(0.01)
        grown = bench.rss_kib(server.process.pid) - before
        if time.monotonic() >= begun + TIMEOUT_S:
            raise SystemExit(f"bench: {server.name}: {mute.asked} asked about in {TIMEOUT_S} s")
        p.stdin.close()
    server.stop()
    return grown * 1024 / count


def show_pending(args, proxies):
    count = min(PENDING, resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 200)
    print(f"\n{'pending':<10} {'decided by':<10}{'open':>6}{'bytes each':>12}{'memory':>8}")
    ours = None
    for p in proxies:
        n = count if p.name != Peer.name else min(count, 2000)  # so many in TIMEOUT_S
        size = pending(args, p, n)
        ours = ours or size
        ratio = f"{size / ours:>7.1f}x" if p.name == Peer.name else ""
        print(f"{'pending':<10} {p.name:<10}{n:>6}{size:>12.0f}{ratio}", flush=True)
    for proto in (1, 2):
        held = output(args.asker, "hold", "--proto", proto, "--pending", PENDING)
        print(f"{'pending':<10} {f'link, {proto}':<10}{PENDING:>6}{held['bytes_per_question']:>12}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--srt", required=True)
    parser.add_argument("--seconds", type=float, default=3, help="of a round on the link")
    parser.add_argument("--rounds", type=int, default=3, help="the best counts; proxies take turns")
    parser.add_argument("--only", choices=("link", "request", "pending"))
    args = parser.parse_args()
    beside = pathlib.Path(args.srt).resolve()
    args.load, args.asker = beside.with_name("bench-load"), beside.with_name("bench-decide")
    Settings.binary = beside
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    scratch = tempfile.mkdtemp(prefix="srt-bench-")
    os.chmod(scratch, 0o755)
    rules = os.path.join(scratch, "rules.json")
    pathlib.Path(rules).write_text(json.dumps(RULES))
    args.decider = Judged.decider_command = [str(beside.with_name("srt-decider")), rules]
    servers = []
    try:
        if args.only in (None, "link"):
            show_link(args)
        origin = bench.Origin(scratch)
        servers.append(origin)
        origin.start()
        proxies = [c(scratch, origin.port) for c in (Settings, Proto2, Proto1, Peer)
                   if c is not Peer or tls.SandboxRuntime.usable()]
        servers += proxies
        if args.only in (None, "request"):
            for p in proxies:
                p.start()
            show_requests(args, proxies)
            for p in proxies:
                p.stop()
        if args.only in (None, "pending"):
            show_pending(args, [p for p in proxies if p.proto != 0])
    finally:
        for s in servers:
            s.stop()
        if not os.environ.get("SRT_BENCH_KEEP"):
            shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
