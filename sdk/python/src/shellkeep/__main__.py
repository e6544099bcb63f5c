"""`python -m shellkeep` is the program itself."""

import os
import sys

from ._binary import find_bin

if __name__ == "__main__":
    program = find_bin()
    os.execv(program, [program, *sys.argv[1:]])
