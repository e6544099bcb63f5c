"""Where the `shellkeep` program is."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

from .errors import DaemonUnavailable


def find_bin() -> str:
    """The path of the program: `SHELLKEEP_BIN`, else the one installed with this package, else the first in `PATH`."""
    named = os.environ.get("SHELLKEEP_BIN")
    if named:
        if os.access(named, os.X_OK):
            return named
        raise DaemonUnavailable("program_not_found", f"SHELLKEEP_BIN is {named}, which is not a program; correct it")
    for directory in _script_directories():
        path = os.path.join(directory, "shellkeep")
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    found = shutil.which("shellkeep")
    if found:
        return found
    raise DaemonUnavailable(
        "program_not_found",
        "the program shellkeep is not installed; install it with `pip install shellkeep`, or name it in SHELLKEEP_BIN",
    )


def _script_directories() -> list[str]:
    directories = [sysconfig.get_path("scripts")]
    user = sysconfig.get_preferred_scheme("user")
    directories.append(sysconfig.get_path("scripts", scheme=user))
    # `pip install --target DIR` puts scripts into DIR/bin, beside the package.
    directories.append(str(Path(__file__).resolve().parent.parent / "bin"))
    directories.append(str(Path(sys.executable).parent))
    return directories
