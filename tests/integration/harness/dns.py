"""A scripted DNS server on UDP and TCP."""

import ipaddress
import socket
import struct
import threading

from .ports import free_port

TYPES = {"A": 1, "CNAME": 5, "AAAA": 28}
NAMES = {v: k for k, v in TYPES.items()}
NOERROR, SERVFAIL, NXDOMAIN, REFUSED = 0, 2, 3, 5


class Answer:
    """What one query gets. `drop`: nothing at all; `truncated`: TC over UDP, whole over TCP."""

    def __init__(self, *addresses, cname=None, delay=0.0, rcode=NOERROR, drop=False,
                 truncated=False, ttl=0):
        self.addresses = addresses
        self.cname = cname
        self.delay = delay
        self.rcode = rcode
        self.drop = drop
        self.truncated = truncated
        self.ttl = ttl


DROP = Answer(drop=True)


def encode_name(name):
    out = b""
    for label in name.rstrip(".").split("."):
        raw = label.encode("latin-1")
        out += bytes([len(raw)]) + raw
    return out + b"\0"


def decode_name(data, at):
    labels = []
    while data[at]:
        labels.append(data[at + 1 : at + 1 + data[at]].decode("latin-1"))
        at += 1 + data[at]
    return ".".join(labels).lower(), at + 1


class DnsServer:
    """Names it was told of answer; others are NXDOMAIN. Every query is kept in `queries`."""

    def __init__(self, host="127.0.0.1", port=0):
        self.port = port or free_port(host)
        self.tcp = socket.create_server((host, self.port))
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind((host, self.port))
        self.host = host
        self.lock = threading.Lock()
        self.scripts = {}
        self.queries = []
        self.closed = False
        for serve in (self._serve_udp, self._serve_tcp):
            threading.Thread(target=serve, daemon=True).start()

    @property
    def address(self):
        return f"{self.host}:{self.port}"

    def add(self, name, *addresses):
        """Plain records, both families told by the addresses; *.x answers for all below x."""
        for kind, version in (("A", 4), ("AAAA", 6)):
            family = [a for a in addresses if ipaddress.ip_address(a).version == version]
            self.script(name, kind, Answer(*family))

    def script(self, name, kind, *answers):
        """The answers to the queries for a name and type, in order; the last one stays."""
        with self.lock:
            self.scripts[name.lower(), kind] = list(answers)

    def asked(self, name, kind=None):
        with self.lock:
            return [q for q in self.queries if q[0] == name.lower() and kind in (None, q[1])]

    def close(self):
        self.closed = True
        self.udp.close()
        self.tcp.close()

    def _answer(self, name, kind):
        with self.lock:
            for candidate in (name, "*." + name.partition(".")[2]):
                script = self.scripts.get((candidate, kind))
                if script:
                    return script.pop(0) if len(script) > 1 else script[0]
                if any(n == candidate for n, _ in self.scripts):
                    return Answer()
        return Answer(rcode=NXDOMAIN)

    def _respond(self, query, transport, send):
        try:
            name, at = decode_name(query, 12)
            (number,) = struct.unpack_from(">H", query, at)
        except (IndexError, struct.error):
            return
        kind = NAMES.get(number, str(number))
        with self.lock:
            self.queries.append((name, kind, transport))
        answer = self._answer(name, kind)
        if answer.drop:
            return
        truncated = answer.truncated and transport == "udp"
        records = []
        owner = b"\xc0\x0c"
        if answer.cname:
            target = encode_name(answer.cname)
            records.append(owner + struct.pack(">HHIH", 5, 1, answer.ttl, len(target)) + target)
            owner = target
        for address in answer.addresses:
            packed = ipaddress.ip_address(address).packed
            records.append(owner + struct.pack(">HHIH", number, 1, answer.ttl, len(packed)) + packed)
        if truncated:
            records = []
        flags = 0x8180 | (0x0200 if truncated else 0) | answer.rcode
        message = (query[:2] + struct.pack(">HHHHH", flags, 1, len(records), 0, 0)
                   + query[12 : at + 4] + b"".join(records))

        def deliver():
            try:
                send(message)
            except OSError:
                pass  # the asker is gone

        if answer.delay:
            timer = threading.Timer(answer.delay, deliver)
            timer.daemon = True
            timer.start()
        else:
            deliver()

    def _serve_udp(self):
        while not self.closed:
            try:
                query, peer = self.udp.recvfrom(4096)
            except OSError:
                return
            self._respond(query, "udp", lambda m, peer=peer: self.udp.sendto(m, peer))

    def _serve_tcp(self):
        while not self.closed:
            try:
                conn, _ = self.tcp.accept()
            except OSError:
                return
            threading.Thread(target=self._serve_stream, args=(conn,), daemon=True).start()

    def _serve_stream(self, conn):
        with conn:
            stream = conn.makefile("rb")
            while True:
                try:
                    size = stream.read(2)
                    if len(size) < 2:
                        return
                    query = stream.read(struct.unpack(">H", size)[0])
                    self._respond(query, "tcp",
                                  lambda m: conn.sendall(struct.pack(">H", len(m)) + m))
                except OSError:
                    return
