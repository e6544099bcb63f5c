"""Results of commands, and the plain data that may leave a program."""

from __future__ import annotations

import base64
import codecs
from dataclasses import dataclass
from typing import Literal, TypedDict

from .errors import CommandFailed, CommandLost, CommandTimedOut
from .models import RunResponse


class SessionRef(TypedDict):
    """What may enter a framework's state in place of a session: its id, and the last record that was seen of it."""

    session_id: str
    seq: int


@dataclass(frozen=True, slots=True)
class RunResult(RunResponse):
    """What a command did. A non-zero `exit_code` is a result like any other."""

    @property
    def ok(self) -> bool:
        """Whether it exited with 0."""
        return self.status == "exited" and self.exit_code == 0

    @property
    def output(self) -> str:
        """Standard output, then standard error. `run(…, stderr="merge")` has them in their true order."""
        if self.stdout and self.stderr and not self.stdout.endswith("\n"):
            return f"{self.stdout}\n{self.stderr}"
        return self.stdout + self.stderr

    def stdout_bytes_exact(self) -> bytes:
        """Standard output as the bytes that the command wrote, also where they are not UTF-8."""
        return exact(self.stdout, self.stdout_base64)

    def stderr_bytes_exact(self) -> bytes:
        """Standard error as the bytes that the command wrote, also where they are not UTF-8."""
        return exact(self.stderr, self.stderr_base64)

    def check(self) -> RunResult:
        """Returns itself, or raises `CommandFailed`, `CommandTimedOut` or `CommandLost`."""
        if self.ok or self.status == "running":
            return self
        if self.status == "lost":
            detail = f"the daemon died while run {self.run_id} was running; look at what it left before you repeat it"
            raise CommandLost("command_lost", detail, self)
        if self.status == "timed_out":
            detail = f"run {self.run_id} was interrupted by its timeout; pass a longer one, or use start()"
            raise CommandTimedOut("command_timed_out", detail, self)
        end = f"was ended by SIG{self.signal}" if self.signal else f"exited with {self.exit_code}"
        last = self.output.rstrip().rsplit("\n", 1)[-1][:200]
        raise CommandFailed("command_failed", f"run {self.run_id} {end}" + (f": {last}" if last else ""), self)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a command's output."""

    stream: Literal["stdout", "stderr"]
    text: str
    #: The exact bytes.
    data: bytes


def exact(text: str, encoded: str | None) -> bytes:
    """The bytes of a part of an answer, which has them in base64 where they are not UTF-8."""
    return text.encode() if encoded is None else base64.b64decode(encoded)


def without_cut_character(data: bytes) -> bytes:
    """Bytes without the beginning of a character at their end, if there is one and it is not all of them."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data)
    waiting = len(decoder.getstate()[0])
    return data[: len(data) - waiting] or data
