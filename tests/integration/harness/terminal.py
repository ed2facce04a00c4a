"""A pseudo-terminal with a program on it, and somebody who types."""

import fcntl
import os
import re
import select
import struct
import subprocess
import termios
import threading
import time

from .client import WAIT

# Sequences that end, others of two or three bytes, and control characters between lines.
ESCAPES = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\].*?(?:\a|\x1b\\)|\x1bP.*?\x1b\\\x1b\\"
                     rb"|\x1b[()]?[0-Z\\<=>]|[\r\x0e\x0f\x18]", re.S)


class Terminal:
    def __init__(self, command, cwd, env, rows=24, columns=80):
        self.master, self.slave = os.openpty()
        self.resize(rows, columns)
        self.before = self.modes()
        self.text = b""
        self.seen = 0
        self.changed = threading.Condition()
        # A session of its own with this terminal as the controlling one.
        self.process = subprocess.Popen(["setsid", "--ctty", *map(str, command)], cwd=cwd, env=env,
                                        stdin=self.slave, stdout=self.slave, stderr=self.slave)
        self.closing = False
        self.reader = threading.Thread(target=self._collect, daemon=True)
        self.reader.start()

    def _collect(self):
        # Polled: a terminal that somebody reads from is not closed by close().
        while not self.closing:
            if select.select([self.master], [], [], 0.1)[0]:
                data = os.read(self.master, 65536)
                with self.changed:
                    self.text += data
                    self.changed.notify_all()

    def modes(self):
        return termios.tcgetattr(self.slave)

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.master, text.encode())
        return self

    def line(self, text):
        return self.type(text + "\r")

    def shows(self, pattern, seconds=WAIT):
        """Waits for the pattern in what came since the last one that was found."""
        end = time.monotonic() + seconds
        with self.changed:
            while True:
                found = re.search(pattern.encode(), ESCAPES.sub(b"", self.text)[self.seen :], re.M)
                if found:
                    self.seen += found.end()
                    return found.group().decode()
                left = end - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"{pattern!r} never came; had {self.text[-2000:]!r}")
                self.changed.wait(left)

    def wait(self, seconds=WAIT):
        return self.process.wait(seconds)

    def hang_up(self):
        """The terminal goes away from under the program."""
        if not self.closing:
            self.closing = True
            self.reader.join()
            os.close(self.slave)
            os.close(self.master)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.hang_up()
