"""What can be said of a command when it is run."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from typing import Any, Literal, TypedDict


class StartOptions(TypedDict, total=False):
    """Options of a command that is started and not waited for."""

    #: Seconds until it is interrupted; 30 unless it is given.
    timeout: float | None
    #: The directory for this command only.
    cwd: str | None
    #: More variables, for this command only.
    env: Mapping[str, str] | None
    #: Its standard input.
    stdin: str | bytes | None
    #: "merge" puts standard error into standard output, in true order.
    stderr: Literal["merge"] | None
    #: Whether it gets a terminal.
    tty: bool | None
    #: What to do while another command runs in the session.
    if_busy: Literal["wait", "reject"] | None
    #: Two requests with the same id are one run.
    request_id: str | None


class StreamOptions(StartOptions, total=False):
    """Options of a command whose output is read as it comes."""

    #: Bytes of each stream in the result.
    max_output: int | None
    #: Whether a command that reaches its timeout is interrupted or moves to the background.
    on_timeout: Literal["interrupt", "background"] | None


class RunOptions(StreamOptions, total=False):
    """Options of a command that is waited for."""

    #: Whether a command whose caller hangs up is interrupted.
    on_disconnect: Literal["continue", "interrupt"] | None


_KNOWN = {kind: kind.__optional_keys__ for kind in (StartOptions, StreamOptions, RunOptions)}


def request_body(command: str, options: Mapping[str, Any], kind: type[StartOptions] = RunOptions) -> dict[str, Any]:
    """The body of a run, with a `request_id` in any case."""
    body: dict[str, Any] = {"command": command}
    known = _KNOWN[kind]
    for name, value in options.items():
        if name not in known:
            raise TypeError(f"there is no option {name!r} here; there are {', '.join(sorted(known))}")
        if value is not None:
            body[name] = value
    stdin = body.get("stdin")
    if isinstance(stdin, bytes):
        del body["stdin"]
        body["stdin_base64"] = base64.b64encode(stdin).decode()
    if "request_id" not in body:
        body["request_id"] = os.urandom(16).hex()
    return body
