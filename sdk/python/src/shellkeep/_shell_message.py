"""What a model is shown of a command: its output within limits, its end, and what it must know of its shell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .results import RunResult


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a command may run and how much of its output is shown."""

    timeout: float = 30.0
    lines: int | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Shown:
    """A tool's answer: the text for the model, and data for the program."""

    text: str
    status: Literal["success", "error"]
    artifact: dict[str, Any]


def show(result: RunResult, text: str, limits: Limits, matches: Mapping[str, Any]) -> Shown:
    """The answer for a command that has ended, in the words of LangChain's own shell tool."""
    total_lines = len(text.splitlines())
    by_lines = limits.lines is not None and total_lines > limits.lines
    if by_lines:
        text = "".join(text.splitlines(keepends=True)[: limits.lines])
    by_size = limits.size is not None and result.stdout_bytes > limits.size
    if by_size:
        text = text.encode()[: limits.size].decode("utf-8", "ignore")
    parts = [text or "<no output>"]
    if by_lines:
        parts.append(f"... Output truncated at {limits.lines} lines (observed {total_lines}).")
    if by_size:
        parts.append(f"... Output truncated at {limits.size} bytes (observed {result.stdout_bytes}).")
    if result.status == "timed_out":
        parts.append(f"Error: Command timed out after {limits.timeout:.1f} seconds.")
    elif result.status == "lost":
        parts.append("Error: The daemon died while this command ran. Look at what it left before you repeat it.")
    elif result.exit_code not in (0, None):
        parts.append(f"Exit code: {result.exit_code}")
    parts.extend(notice.message for notice in result.notices if notice.code != "timed_out")
    ok = result.status == "exited" and result.exit_code == 0
    artifact = {
        "timed_out": result.status == "timed_out",
        "exit_code": None if result.status == "timed_out" else result.exit_code,
        "truncated_by_lines": by_lines,
        "truncated_by_bytes": by_size,
        "total_lines": total_lines,
        "total_bytes": result.stdout_bytes,
        "redaction_matches": dict(matches),
        "run_id": result.run_id,
        "status": result.status,
        "cwd": result.cwd,
    }
    shown = parts[0] if len(parts) == 1 else "\n\n".join([parts[0].rstrip(), *parts[1:]])
    return Shown(shown, "success" if ok else "error", artifact)
