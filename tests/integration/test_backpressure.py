"""A slow peer is waited for, not stored: chapter 20 section 13, row C8."""

import random
import socket
import struct

from harness import WAIT, Case
from harness.flows import DOWNLOADS, UPLOADS, Flow, flow_handler
from harness.resources import (MIB, SANITIZED, anonymous, calm_environment, descriptors,
                               own_descriptors, settled, until)

SIZE = 12 * MIB  # more than the kernel takes in on the way
NEIGHBOUR = 2 * MIB
PAIRS = [(way, up) for up, ways in ((False, DOWNLOADS), (True, UPLOADS)) for way in ways]

# A connection holds at most one read in each direction, its head, and small change; sanitizers
# put zones around it.
HELD = 1024 * (600 if SANITIZED else 200)


class Stopped(Case):
    def setUp(self):
        super().setUp()
        own_descriptors()
        self.data = random.Random(20).randbytes(SIZE)
        flows = {}
        self.upstream = self.origin(flow_handler(flows))
        self.upstream.flows = flows
        self.flows = []

    def start(self, **kw):
        self.gateway = self.proxy(self.upstream, env=calm_environment(), **kw)
        self.run_one("length", False)  # whatever is allocated once is there
        self.run_one("connect", True)
        self.descriptors = settled(lambda: descriptors(self.gateway))
        self.memory = anonymous(self.gateway)

    def flow(self, way, up, data=None, **kw):
        flow = Flow(self.gateway, self.upstream, way, up, data or self.data,
                    len(self.upstream.flows), **kw)
        self.addCleanup(flow.release)
        return flow

    def run_one(self, way, up):
        self.complete([self.flow(way, up, self.data[:NEIGHBOUR], stopped=False)])

    def complete(self, flows):
        for flow in flows:
            with self.subTest(way=flow.way, up=flow.up):
                self.assertTrue(flow.ended.wait(4 * WAIT), f"{flow.received} of {flow.size} came")
                self.assertIsNone(flow.error)
                self.assertEqual(flow.received, flow.size)
                self.assertEqual(flow.digest.digest(), flow.expected)

    def stop_all(self, pairs):
        """So many transfers whose receivers read nothing, once nothing moves any more."""
        flows = [self.flow(way, up) for way, up in pairs]
        settled(lambda: sum(f.sent for f in flows), quiet=0.5, seconds=3 * WAIT)
        for flow in flows:
            self.assertIsNone(flow.error)
        # The kernel's buffers grow as they like and may take in some of them.
        self.assertGreater(sum(f.sent < f.size for f in flows), len(flows) // 2)
        return flows

    def release(self, flows):
        for flow in flows:
            flow.release()
        self.complete(flows)

    def rests(self):
        """Descriptors and memory are back where they began, but for what malloc keeps."""
        self.assertTrue(until(lambda: descriptors(self.gateway) <= self.descriptors + 2))
        self.assertLess(anonymous(self.gateway) - self.memory, 8 * MIB if SANITIZED else 3 * MIB)


class EachPath(Stopped):
    def test_fifty_at_once_over_every_path(self):
        self.start()
        flows = self.stop_all((PAIRS * 5)[:55])
        grown = anonymous(self.gateway) - self.memory
        self.assertLess(grown, len(flows) * HELD)
        for way, up in PAIRS:
            self.run_one(way, up)  # neighbours are served as ever
        self.assertEqual(sum(f.ended.is_set() for f in flows), 0)
        self.release(flows)
        self.rests()


class Budget(Stopped):
    def test_past_the_mark_each_reads_in_small_steps(self):
        """A hundred stopped readers under a mark of 64 KiB hold little each."""
        self.start(limits={"queuedBytes": 65536})
        flows = self.stop_all([("connect", False), ("length", False)] * 50)
        self.assertLess(anonymous(self.gateway) - self.memory, len(flows) * HELD // 4)
        for way, up in PAIRS:
            self.run_one(way, up)
        self.release(flows[:8])
        for flow in flows[8:]:
            flow.drop()
        self.rests()

    def test_every_path_goes_on_under_the_mark(self):
        self.start(limits={"queuedBytes": 65536})
        self.release(self.stop_all(PAIRS))


class Killed(Stopped):
    def test_what_stopped_transfers_held_is_given_back(self):
        """Each path, ended by the client and by the origin."""
        self.start()
        flows = self.stop_all(PAIRS * 2)
        for flow in flows[: len(PAIRS)]:
            flow.drop()
        for conn in list(self.upstream.connections):
            try:
                conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                conn.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # that one had ended
        for flow in flows:
            flow.release()
        for flow in flows:
            self.assertTrue(flow.ended.wait(4 * WAIT))
        self.rests()
        self.run_one("connect", False)
