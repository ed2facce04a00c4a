#!/usr/bin/env python3
"""A decider in Python's standard library alone, to be copied and changed.

    srt proxy --listen 127.0.0.1:3128 --decider-proto 2 --decider-exec 'python3 decider.py'

Frames come on standard input: a length of 4 bytes, then as much JSON; answers go to standard
output. What is to be decided stands in connection(), request() and body(), down to the next line.
"""

import base64
import json
import struct
import sys

ALLOWED = ["api.example.com"]  # protocol 1: what may be asked about at all, e.g. "*.example.org:443"
DENIED = []
SHOW = 65536  # bytes of a note that are looked at
ALLOW = {"action": "allow"}


def deny(reason, status=403):
    return {"action": "deny", "status": status, "reason": reason}


def connection(m):
    """Protocol 2: may this client reach m["host"] and m["port"]?"""
    if m["host"] == "api.example.com" and m["port"] == 443:
        return {**ALLOW, "ttl": 60}  # not asked again about it for a minute
    return deny("only https://api.example.com")


def request(m):
    """May this request be made? Compare whole paths: what is not spelled like them is denied."""
    if m["method"] in ("GET", "HEAD"):
        return {**ALLOW, "removeHeaders": ["x-debug"], "setHeaders": {"x-client": ["agent"]}}
    if m["method"] == "POST" and m["path"] == "/v1/notes":
        return {"action": "need_body", "max": SHOW}
    return deny("read only")


def body(m, data, more):
    """The first SHOW bytes of the body of a request that needed it; more: it goes on."""
    if b"BEGIN PRIVATE KEY" in data:
        return deny("a note must not hold a private key", 422)
    return deny("a note has 64 KiB at most", 413) if more else ALLOW


# --- the protocol ---------------------------------------------------------------------------------


def members(pairs):
    """An object without duplicate keys, and without null."""
    found = dict(pairs)
    if len(found) != len(pairs) or None in found.values():
        raise ValueError("a duplicate key, or null")
    return found


def read():
    """The next message, None at the end."""
    head = sys.stdin.buffer.read(4)
    if not head:
        return None
    size, = struct.unpack(">I", head)
    data = sys.stdin.buffer.read(size)
    if len(data) != size:
        raise ValueError("the stream ends inside a frame")
    return json.loads(data.decode("utf-8"), object_pairs_hook=members)


def write(message):
    data = json.dumps(message).encode()
    sys.stdout.buffer.write(struct.pack(">I", len(data)) + data)
    sys.stdout.buffer.flush()


def main():
    hello = read()
    if hello not in ({"t": "hello", "proto": 1}, {"t": "hello", "proto": 2}):
        raise ValueError("no hello first")
    asks = {"asks": ["connection", "request"]} if hello["proto"] == 2 else {}
    allowed = ALLOWED if hello["proto"] == 1 else []  # protocol 2 does not ask about what is listed
    write({**hello, **asks, "allowedDomains": allowed, "deniedDomains": DENIED})
    waiting = {}  # requests by id, until their bodies come; a client that goes away leaves its own
    while (m := read()) is not None:
        if m["t"] == "body":
            shown = base64.b64decode(m["data"], validate=True)
            verdict = body(waiting.pop(m["id"]), shown, m.get("cut", False))
        else:
            verdict = {"conn": connection, "req": request}[m["t"]](m)
        if verdict["action"] == "need_body":
            waiting[m["id"]] = m
            waiting.pop(m["id"] - 4096, None)
        write({"t": "verdict", "id": m["id"], **verdict})


if __name__ == "__main__":
    main()
