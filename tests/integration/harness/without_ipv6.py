"""Runs a command that, like all it starts, can make no IPv6 socket: a machine where IPv6 is off.

usage: without_ipv6.py COMMAND...
"""

import ctypes
import os
import platform
import socket
import struct
import sys

AUDIT, SOCKET = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}[platform.machine()]
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER = 38, 22, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO, EAFNOSUPPORT = 0x7FFF0000, 0x00050000, 97


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def main():
    steps = [(LOAD, 0, 0, 4), (EQUAL, 0, 5, AUDIT), (LOAD, 0, 0, 0), (EQUAL, 0, 3, SOCKET),
             (LOAD, 0, 0, 16), (EQUAL, 0, 1, socket.AF_INET6), (RETURN, 0, 0, ERRNO | EAFNOSUPPORT),
             (RETURN, 0, 0, ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = Program(len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if (libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            or libc.prctl(PR_SET_SECCOMP, FILTER, ctypes.byref(program), 0, 0) != 0):
        sys.exit(f"seccomp: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
