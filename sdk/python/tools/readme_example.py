"""Runs the first Python example of the README beside this package, then stops the daemon that it started."""

from __future__ import annotations

import os
import re
import select
import signal
from pathlib import Path

import shellkeep

readme = (Path(__file__).resolve().parent.parent / "README.md").read_text("utf-8")
example = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
assert example is not None, "the README has no example"
try:
    exec(compile(example.group(1), "README.md", "exec"), {})
finally:
    with shellkeep.Client(start=False) as client:
        pid = client.ready().pid
    descriptor = os.pidfd_open(pid)
    os.kill(pid, signal.SIGTERM)
    select.select([descriptor], [], [], 30)
