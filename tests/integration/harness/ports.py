"""Ports for servers that cannot take one of the kernel's choosing."""

import contextlib
import itertools
import os
import socket
import time

from .client import WAIT

# Below the range that the kernel gives connections theirs from, and each once a process: none of
# these is taken by a connection between the answer and its use.
FIRST, LAST = 20000, 32000
_ports = itertools.cycle(range(FIRST, LAST))
for _ in range(os.getpid() * 97 % (LAST - FIRST)):
    next(_ports)


def free_port(*hosts):
    """A port that nothing listens on at any of HOSTS (addresses)."""
    for _ in range(LAST - FIRST):
        port = next(_ports)
        with contextlib.ExitStack() as listeners:
            try:
                for host in hosts:
                    family = socket.AF_INET6 if ":" in host else socket.AF_INET
                    listeners.enter_context(socket.create_server((host, port), family=family))
            except OSError:
                continue
        return port
    raise AssertionError(f"no port is free at {hosts}")


def wait_for_port(host, port, process):
    """Until something listens there, or the process ended."""
    end = time.monotonic() + WAIT
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection((host, port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise AssertionError(f"nothing listens on {host}:{port}")
