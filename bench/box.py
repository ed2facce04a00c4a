#!/usr/bin/env python3
"""What a box costs: whole commands, run in turn, and the middle and best of their times.

usage: box.py --srt PATH [--rounds N]

`srt -c true` with a typical settings file, beside bubblewrap with the very same mounts, and beside
the shell alone; where the time of a run goes; 2,000 denied files; the first connections from inside.
"""

import argparse
import http.server
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import threading
import time

TYPICAL = {
    "network": {"allowedDomains": ["example.com", "*.npmjs.org", "github.com"], "deniedDomains": []},
    "filesystem": {"denyRead": ["~/.ssh", "~/.aws", "/etc/shadow"], "allowRead": [],
                   "allowWrite": ["."], "denyWrite": [".env", "secrets"]},
}


def seconds(command, cwd):
    begun = time.perf_counter()
    subprocess.run(command, cwd=cwd, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return time.perf_counter() - begun


def in_turn(commands, rounds, cwd):
    """{name: times}, so that what slows the machine down slows each of them down."""
    times = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            times[name].append(seconds(command, cwd))
    return times


def show(name, times, base=None):
    middle, best = statistics.median(times) * 1e3, min(times) * 1e3
    ratio = "" if base is None else f"{statistics.median(times) / statistics.median(base):>8.2f}"
    print(f"{name:<34} {middle:>9.1f} ms {best:>9.1f} ms {ratio}", flush=True)


def same_mounts(srt, settings, cwd):
    """The plan as arguments of bubblewrap. What the plan would make on the host is made before."""
    plan = json.loads(subprocess.run([srt, "--settings", settings, "--print-plan", "--json", "-c", "true"],
                                     cwd=cwd, check=True, stdout=subprocess.PIPE).stdout)
    for standin in plan["standIns"]:
        path = pathlib.Path(standin["path"])
        if standin["kind"] == "directory":
            path.mkdir(parents=True)
        else:
            os.mknod(path, 0o140444)
    words = []
    for mount in plan["mounts"]:
        words += {"read-only": ["--ro-bind", mount.get("source"), mount["place"]],
                  "writable": ["--bind", mount.get("source"), mount["place"]],
                  "hidden-directory": ["--tmpfs", mount["place"]],
                  "hidden-file": ["--ro-bind", "/dev/null", mount["place"]]}.get(mount["kind"], [])
    return ["bwrap", "--unshare-all", "--die-with-parent", *words, "--dev", "/dev", "--proc", "/proc",
            "--", shutil.which("bash"), "-c", "true"]


def first_connections(srt, directory, count):
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    settings = directory / "connect.json"
    settings.write_text(json.dumps({**TYPICAL, "network": {"allowedDomains": [f"localhost:{port}"],
                                                           "deniedDomains": []}}))
    good = sum(subprocess.run([srt, "--settings", settings, "-c",
                               f"exec curl -sf --noproxy '' http://localhost:{port}/"],
                              cwd=directory, stdout=subprocess.PIPE).stdout == b"ok"
               for _ in range(count))
    server.shutdown()
    print(f"first connection from inside: {good} of {count}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--srt", required=True)
    parser.add_argument("--rounds", type=int, default=100)
    args = parser.parse_args()
    srt = os.path.abspath(args.srt)
    with tempfile.TemporaryDirectory(prefix="srt-bench-") as name:
        top = pathlib.Path(name)
        ours, theirs, many = top / "ours", top / "theirs", top / "many"
        for directory in (ours, theirs, many):
            directory.mkdir()
        settings = top / "typical.json"
        settings.write_text(json.dumps(TYPICAL))
        (many / "denied").mkdir()
        for i in range(2000):
            (many / "denied" / f"{i}.key").touch()
        denied = top / "many.json"
        denied.write_text(json.dumps({**TYPICAL, "filesystem": {
            **TYPICAL["filesystem"], "denyRead": ["denied/*.key"]}}))
        print(f"{'whole commands':<34} {'median':>12} {'best':>12} {'ratio':>8}")
        bubblewrap = same_mounts(srt, settings, theirs)
        times = in_turn({"shell": ["bash", "-c", "true"]}, args.rounds, ours)
        show("bash -c true", times["shell"])
        alternating = {"bwrap": [], "srt": []}
        for _ in range(args.rounds):
            alternating["bwrap"].append(seconds(bubblewrap, theirs))
            alternating["srt"].append(seconds([srt, "--settings", settings, "-c", "true"], ours))
        show("bwrap, the same mounts", alternating["bwrap"])
        show("srt -c true", alternating["srt"], alternating["bwrap"])
        times = in_turn({"plan": [srt, "--settings", settings, "--print-plan", "-c", "true"],
                         "start": [srt, "--version"]}, args.rounds, ours)
        show("  of that: the program starts", times["start"])
        show("  of that: all up to the plan", times["plan"])
        times = in_turn({"many": [srt, "--settings", denied, "-c", "true"]}, 10, many)
        show("srt -c true, 2,000 denied files", times["many"])
        first_connections(srt, ours, 200)


if __name__ == "__main__":
    main()
