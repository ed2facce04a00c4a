"""What a gateway holds and spends, as /proc tells: descriptors, memory, processor time."""

import os
import pathlib
import resource
import subprocess
import time

from .client import WAIT
from .proxy import SRT

MIB = 1024 * 1024


def _built_with_sanitizers():
    with open(SRT, "rb") as program:
        return b"__asan_init" in program.read()


SANITIZED = _built_with_sanitizers()


def calm_environment():
    """For a gateway whose memory is measured: freed memory goes back at once, sanitized or not."""
    options = [os.environ.get("ASAN_OPTIONS", ""), "quarantine_size_mb=0",
               "thread_local_quarantine_size_kb=0", "malloc_context_size=2"]
    return {"ASAN_OPTIONS": ":".join(o for o in options if o)}


def own_descriptors(wanted=8192):
    """Lets this process open that many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def limit_descriptors(proxy, most):
    """From now on, and until it is called again: only the soft limit may be raised later."""
    pid = proxy.process.pid
    _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, hard))


def descriptors(proxy):
    """How many are open. The gateway lets nobody but root look into it."""
    path = f"/proc/{proxy.process.pid}/fd"
    try:
        return len(os.listdir(path))
    except PermissionError:
        return len(subprocess.run(["sudo", "-n", "ls", path], check=True, stdout=subprocess.PIPE)
                   .stdout.split())


def anonymous(proxy):
    """Bytes of resident memory that is no file's: heap and stacks."""
    for line in pathlib.Path(f"/proc/{proxy.process.pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no RssAnon")


def processor_seconds(proxy):
    text = pathlib.Path(f"/proc/{proxy.process.pid}/stat").read_text()
    fields = text[text.rindex(")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def until(condition, seconds=WAIT):
    """Whether condition() comes to hold in that time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def settled(value, quiet=0.4, seconds=WAIT):
    """value() once it has not changed for `quiet` seconds."""
    end = time.monotonic() + seconds
    last, since = value(), time.monotonic()
    while time.monotonic() - since < quiet:
        if time.monotonic() > end:
            raise AssertionError(f"never at rest: {last}")
        time.sleep(0.02)
        now = value()
        if now != last:
            last, since = now, time.monotonic()
    return last
