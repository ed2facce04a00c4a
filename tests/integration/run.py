#!/usr/bin/env python3
"""Runs the integration tests against $SRT_BIN (build/srt), modules side by side.

usage: run.py [--quick] [--match TEXT] [--jobs N]

Prints each failing test with its output, then "N passed, N failed". With CI set, a skipped test is
a failed one: nothing may be missing there. For root each module has a network of its own, so that
no port or sysctl of one meets another's.
"""

import argparse
import concurrent.futures
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import unittest

HERE = pathlib.Path(__file__).parent
MODULE_SECONDS = 900
# Loopback, and one address that is not; whatever else is dialled is unreachable at once.
OWN_NETWORK = ("unshare", "--net", "sh", "-ec", """
    ip link set lo up
    ip link add own type veth peer name none
    ip address add 10.99.0.1/24 dev own
    ip link set own up
    ip link set none up
    ip route add 192.0.2.0/24 dev own
    exec "$@"
""", "sh")


def tests_of(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from tests_of(item)
        else:
            yield item


def wanted(test, args):
    if isinstance(test, unittest.loader._FailedTest):
        return True
    method = getattr(test, test._testMethodName)
    if args.quick and not (getattr(type(test), "quick", False) or getattr(method, "quick", False)):
        return False
    return args.match in test.id()


class Result(unittest.TestResult):
    def __init__(self, out):
        super().__init__()
        self.out = out
        self.ok = True

    def startTest(self, test):
        super().startTest(test)
        self.ok = True
        self.skipped_here = False
        self.trouble = io.StringIO()

    def note(self, err, test=None):
        self.ok = False
        self.trouble.write(getattr(test, "evidence", str)())
        if isinstance(err, str):
            self.trouble.write(err + "\n")
        else:
            traceback.print_exception(*err, file=self.trouble)

    def addError(self, test, err):
        if not hasattr(self, "trouble"):
            self.startTest(test)
            self.note(err)
            self.stopTest(test)
        else:
            self.note(err, test)

    def addFailure(self, test, err):
        self.note(err, test)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.trouble.write(f"[{subtest._subDescription()}]\n")
            self.note(err, test)

    def addSkip(self, test, reason):
        if os.environ.get("CI"):
            self.note(f"skipped: {reason}")
        else:
            self.skipped_here = True
            self.trouble.write(f"{reason}\n")

    def addUnexpectedSuccess(self, test):
        self.note("unexpected success")

    def stopTest(self, test):
        super().stopTest(test)
        json.dump({"id": test.id(), "ok": self.ok, "skipped": self.skipped_here,
                   "trouble": self.trouble.getvalue()}, self.out)
        self.out.write("\n")
        self.out.flush()


def child(module, args):
    """One module, in a process of its own: a JSON line a test to the results file."""
    sys.path.insert(0, str(HERE))
    suite = unittest.TestSuite(t for t in tests_of(unittest.defaultTestLoader.loadTestsFromName(module))
                               if wanted(t, args))
    with open(args.results, "w", encoding="utf-8") as out:
        suite.run(Result(out))


def own_network():
    """What a command is prefixed with to have one; nothing where that cannot be."""
    if os.geteuid() != 0:
        return ()
    try:
        done = subprocess.run([*OWN_NETWORK, "true"], stdin=subprocess.DEVNULL, capture_output=True)
    except OSError:
        return ()
    return OWN_NETWORK if done.returncode == 0 else ()


def run_module(module, args, network):
    """(passed, failed, text of the failures)"""
    begun = time.monotonic()
    with tempfile.NamedTemporaryFile("r", prefix="srt-results-") as results:
        command = [*network, sys.executable, "-B", __file__, "--child", module, "--results", results.name,
                   "--match", args.match]
        if args.quick:
            command.append("--quick")
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=MODULE_SECONDS)
            status, output = done.returncode, done.stdout.decode("utf-8", "replace")
        except subprocess.TimeoutExpired as error:
            status = f"none after {MODULE_SECONDS} s"
            output = (error.stdout or b"").decode("utf-8", "replace")
        passed, failed, text = 0, 0, ""
        for line in results.read().splitlines():
            row = json.loads(line)
            if row["skipped"]:
                text += f"SKIPPED {row['id']}: {row['trouble']}"
            elif row["ok"]:
                passed += 1
            else:
                failed += 1
                text += f"FAILED {row['id']}\n{row['trouble']}\n"
        if status != 0:
            failed += 1
            text += f"FAILED {module}: exit status {status}\n{output}\n"
        if args.times:
            print(f"{module}: {time.monotonic() - begun:.0f} s", flush=True)
        return passed, failed, text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--match", default="")
    parser.add_argument("--jobs", type=int, default=3 * (os.cpu_count() or 2))
    parser.add_argument("--times", action="store_true", help="how long each module took")
    parser.add_argument("--child")
    parser.add_argument("--results")
    args = parser.parse_args()
    # Whoever runs this may ignore them (nohup, a shell's background), and what it starts would too.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if args.child:
        child(args.child, args)
        return 0
    passed = failed = 0
    names = []
    network = own_network()
    modules = sorted(p.stem for p in HERE.glob("test_*.py"))
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for ok, bad, text in pool.map(lambda m: run_module(m, args, network), modules):
            passed += ok
            failed += bad
            names += [line for line in text.splitlines() if line.startswith("FAILED ")]
            print(text, end="", flush=True)
    print(*names, sep="\n")
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
