"""Checks a wheel: one program in it, stripped, and no part of it needs a newer glibc than the given one.

The driver and the keeper are files inside the program, where the tools that check wheels do not look.

Usage: check_wheel.py WHEEL GLIBC
"""

from __future__ import annotations

import re
import struct
import sys
import zipfile
from collections.abc import Iterator

MAGIC = b"\x7fELF\x02\x01\x01"
#: PyPI takes files up to this size.
MOST = 100 * 1024 * 1024
VERNEED = 0x6FFFFFFE
SYMBOLS = 2


def images(data: bytes) -> Iterator[bytes]:
    """The ELF files in a file: itself, and those embedded in it."""
    start = data.find(MAGIC)
    while start >= 0:
        header = data[start : start + 64]
        if len(header) == 64 and struct.unpack_from("<H", header, 52)[0] == 64:
            sections = struct.unpack_from("<Q", header, 40)[0]
            size, count = struct.unpack_from("<HH", header, 58)
            end = sections + size * count
            if size == 64 and start + end <= len(data):
                yield data[start : start + end]
        start = data.find(MAGIC, start + 1)


def sections(image: bytes) -> Iterator[tuple[int, int, int, int, int]]:
    """Type, offset, size, link and info of each section."""
    offset = struct.unpack_from("<Q", image, 40)[0]
    count = struct.unpack_from("<H", image, 60)[0]
    for number in range(count):
        fields = struct.unpack_from("<IIQQQQIIQQ", image, offset + 64 * number)
        yield fields[1], fields[4], fields[5], fields[6], fields[7]


def needed(image: bytes) -> set[tuple[int, ...]]:
    """The glibc versions that an ELF file asks for."""
    found: set[tuple[int, ...]] = set()
    listed = list(sections(image))
    for kind, offset, _, link, info in listed:
        if kind != VERNEED:
            continue
        strings = listed[link][1]
        entry = offset
        for _ in range(info):
            _, count, _, first, following = struct.unpack_from("<HHIII", image, entry)
            version = entry + first
            for _ in range(count):
                _, _, _, name, step = struct.unpack_from("<IHHII", image, version)
                text = image[strings + name : image.index(b"\0", strings + name)].decode()
                match = re.fullmatch(r"GLIBC_([0-9.]+)", text)
                if match:
                    found.add(tuple(map(int, match.group(1).split("."))))
                version += step
            entry += following
    return found


def main() -> int:
    path, floor = sys.argv[1], tuple(map(int, sys.argv[2].split(".")))
    problems = []
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        programs = [name for name in names if name.endswith(".data/scripts/shellkeep")]
        if len(programs) != 1:
            print(f"{path} has {len(programs)} programs")
            return 1
        data = wheel.read(programs[0])
        size = sum(info.compress_size for info in wheel.infolist())
    if "shellkeep/py.typed" not in names:
        problems.append("the Python package is not in it")
    if size > MOST:
        problems.append(f"it has {size} bytes, more than PyPI takes")
    parts = list(images(data))
    if len(parts) < 3:
        problems.append(f"the driver and the keeper were not found in the program ({len(parts)} ELF files)")
    if any(kind == SYMBOLS for kind, *_ in sections(parts[0])):
        problems.append("the program is not stripped")
    for number, part in enumerate(parts):
        versions = needed(part)
        highest = max(versions, default=(0,))
        print(f"part {number}: {len(part)} bytes, glibc {'.'.join(map(str, highest))}")
        if highest > floor:
            problems.append(f"part {number} needs glibc {'.'.join(map(str, highest))}, more than {sys.argv[2]}")
    for problem in problems:
        print(f"{path}: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
