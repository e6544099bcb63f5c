# Generated from _async by tools/generate_sync.py; do not edit.
"""A session's files beside its shell: through the daemon where they are in the workspace, else in a second session."""

from __future__ import annotations

import os
import shlex
import uuid
from typing import NoReturn

from .._threads import session_id_for
from ..errors import ShellkeepError
from ..results import RunResult
from .session import Session

#: Bytes of output in one answer: the most that the daemon sends.
MAX_OUTPUT = 16 * 1024 * 1024
#: Bytes of a file that one request carries.
PIECE = 4 * 1024 * 1024
#: Seconds that one step may take.
TIMEOUT = 60.0
#: The exit code with which a step says that its path is a directory.
IS_DIRECTORY = 21
#: What the daemon says of a file that only a shell can reach, or only in pieces.
ELSEWHERE = ("path_outside", "too_large", "payload_too_large")


class Beside:
    """Files of a session: usable while a command runs, and without a trace in its shell."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def run(self, command: str, *, stdin: bytes = b"", timeout: float = TIMEOUT) -> RunResult:
        """Runs a command in the workspace, in a shell that no agent uses."""
        name = f"{self._session.id}.files"
        config = {"files_of": self._session.id}
        beside = self._session.client.session(name if len(name) <= 128 else session_id_for(name), config=config)
        # The system's own programs come first, so that no shim in front of them costs time.
        path = f"/usr/local/bin:/usr/bin:/bin:{os.environ.get('PATH', '')}"
        return beside.run(
            f"cd -- {shlex.quote(self._session.workspace)} 2>/dev/null\n{command}",
            stdin=stdin,
            env={"PATH": path},
            timeout=timeout,
            max_output=MAX_OUTPUT,
        )

    def read(self, path: str) -> bytes:
        """The bytes of a file; a relative path begins in the workspace."""
        try:
            return self._session.files.read(path)
        except ShellkeepError as error:
            if error.code not in ELSEWHERE:
                raise _of(error, path) from error
        return self._read_elsewhere(path)

    def _read_elsewhere(self, path: str) -> bytes:
        source = shlex.quote(os.path.join(self._session.workspace, path))
        parts: list[bytes] = []
        while True:
            start = sum(map(len, parts)) + 1
            take = f"tail -c +{start} -- {source} | head -c {PIECE}; exit ${{PIPESTATUS[0]}}"
            result = self.run(f"[ -d {source} ] && exit {IS_DIRECTORY}; {take}")
            # A pipe that was closed early is how a file ends that is longer than one piece.
            if result.exit_code not in (0, 141):
                _fail(result, path)
            parts.append(result.stdout_bytes_exact())
            if len(parts[-1]) < PIECE:
                return b"".join(parts)

    def write(self, path: str, data: bytes) -> None:
        """Writes a file in one step, and makes its directories. In the workspace, the write is recorded."""
        try:
            self._session.files.write(path, data)
        except ShellkeepError as error:
            if error.code not in ELSEWHERE:
                raise _of(error, path) from error
            self._write_elsewhere(path, data)

    def _write_elsewhere(self, path: str, data: bytes) -> None:
        full = os.path.join(self._session.workspace, path)
        target = shlex.quote(full)
        mark = shlex.quote(f"{full}.{uuid.uuid4().hex[:8]}~")
        make = f"mkdir -p -- {shlex.quote(os.path.dirname(full))} && : > {mark}"
        result = self.run(f"[ -d {target} ] && exit {IS_DIRECTORY}; {make}")
        for start in range(0, len(data), PIECE):
            if not result.ok:
                break
            result = self.run(f"cat >> {mark}", stdin=data[start : start + PIECE])
        if result.ok:
            mode = f"[ -e {target} ] && chmod --reference={target} -- {mark}"
            result = self.run(f"{mode}; mv -fT -- {mark} {target}")
        if not result.ok:
            _fail(result, path)


def _of(error: ShellkeepError, path: str) -> Exception:
    """The error that Python itself raises for the same."""
    if error.code == "file_not_found":
        return FileNotFoundError(path)
    return IsADirectoryError(path) if error.code == "is_directory" else error


def _fail(result: RunResult, path: str) -> NoReturn:
    if result.exit_code == IS_DIRECTORY or "Is a directory" in result.stderr:
        raise IsADirectoryError(path)
    if "Permission denied" in result.stderr or "Read-only" in result.stderr:
        raise PermissionError(path)
    if "No such file" in result.stderr:
        raise FileNotFoundError(path)
    if "Not a directory" in result.stderr:
        raise NotADirectoryError(path)
    raise OSError(f"{path}: {result.stderr.strip() or result.status}")
