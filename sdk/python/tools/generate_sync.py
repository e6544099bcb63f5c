"""Writes `src/shellkeep/_sync` from `src/shellkeep/_async`: the same code without `await`.

Usage: generate_sync.py [--check]
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "shellkeep"
#: Written by hand on both sides, or needed on one side only.
BY_HAND = {"__init__.py", "io.py", "opening.py"}

RULES = [
    (r"^from \.opening import Opening\n", ""),
    (r"Opening\[Async(\w+)\]", r"\1"),
    (r"return Opening\((.*)\)$", r"return \1"),
    (r"AsyncIterator", "Iterator"),
    (r"StopAsyncIteration", "StopIteration"),
    (r"\bAsync(?=[A-Z])", ""),
    (r"async (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"__a(enter|exit|iter|next)__", r"__\1__"),
]


def translate(text: str) -> str:
    for pattern, replacement in RULES:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    first, rest = text.split("\n", 1)
    return f"# Generated from _async by tools/generate_sync.py; do not edit.\n{first}\n{rest}"


def main() -> int:
    stale = []
    for path in sorted((SOURCE / "_async").glob("*.py")):
        if path.name in BY_HAND:
            continue
        target = SOURCE / "_sync" / path.name
        text = translate(path.read_text("utf-8"))
        if not target.exists() or target.read_text("utf-8") != text:
            stale.append(str(target))
            if "--check" not in sys.argv:
                target.write_text(text, "utf-8")
    if stale and "--check" in sys.argv:
        print("run tools/generate_sync.py; these are stale: " + ", ".join(stale))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
