"""Runs a program on a machine that lacks something: without.py NUMBER=ERRNO... -- PROGRAM ARGUMENTS. Each of these system
calls answers with that error instead of being done; the error 0 is a success that does nothing."""

import ctypes
import os
import struct
import sys

NO_NEW_PRIVS, SECCOMP, FILTER = 38, 22, 2
LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000

at = sys.argv.index("--")
steps = [(LOAD, 0, 0, 0)]
for word in sys.argv[1:at]:
    number, error = map(int, word.split("="))
    steps += [(JUMP_EQUAL, 0, 1, number), (RETURN, 0, 0, ERRNO | error)]
steps.append((RETURN, 0, 0, ALLOW))
code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0) == 0
assert libc.prctl(SECCOMP, FILTER, program, 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execvp(sys.argv[at + 1], sys.argv[at + 1 :])
