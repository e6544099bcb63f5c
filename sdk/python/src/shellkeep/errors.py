"""Errors, by the daemon's problem code. A command that exits with a non-zero code is a result, not an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .results import RunResult


class ShellkeepError(Exception):
    """Every error of this package.

    `code` is the stable name of the problem, `detail` says what happened and what to do next, `status` is the HTTP
    status (0 if there was no answer), `data` holds the problem's other fields.
    """

    def __init__(self, code: str, detail: str, *, status: int = 0, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"{detail} ({code})")
        self.code = code
        self.detail = detail
        self.status = status
        self.data: dict[str, Any] = dict(data or {})

    def __reduce__(self) -> tuple[Any, ...]:
        return pickled(self)

    @property
    def retryable(self) -> bool:
        """Whether the same request can succeed later without a change."""
        return self.status in (429, 503)

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait before the next try, if the daemon said so."""
        value = self.data.get("retry_after")
        return float(value) if isinstance(value, (int, float)) else None


def pickled(error: BaseException) -> tuple[Any, ...]:
    """How to copy an exception or send it to another process.

    Python would call its class with the message alone, which is not what these classes take. A `multiprocessing.Pool`
    whose answer cannot be read never returns.
    """
    return _restored, (type(error), error.args, error.__dict__)


def _restored(kind: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class InvalidRequest(ShellkeepError):
    """The request was refused as wrong; the same request never succeeds."""


class NotFound(ShellkeepError):
    """There is no such session, run, service, file, key or moment."""


class SessionNotFound(NotFound):
    """There is no such session."""


class Conflict(ShellkeepError):
    """The request contradicts the present state."""


class SessionBusy(Conflict):
    """Another command runs in the session; `data["run_id"]` is its run."""


class RequestIdReused(Conflict):
    """The `request_id` was used before for a different command."""


class VersionConflict(Conflict):
    """Someone else changed it first; `version` is the version that is there now."""

    @property
    def version(self) -> int | None:
        """The version that is there now, if the daemon said so."""
        value = self.data.get("version")
        return value if isinstance(value, int) else None


class QuotaExceeded(ShellkeepError):
    """A quota is reached. `services` lists what could be stopped, most idle first."""

    @property
    def services(self) -> Sequence[Mapping[str, Any]]:
        """The caller's services, most idle first."""
        value = self.data.get("services")
        return value if isinstance(value, list) else []


class Overloaded(ShellkeepError):
    """The node is busy. Try again after `retry_after` seconds."""


class Unauthorized(ShellkeepError):
    """The token is missing or wrong."""


class NotAllowed(ShellkeepError):
    """The caller has no right to do this."""


class TooLarge(ShellkeepError):
    """The request or the answer is over a limit."""


class DaemonUnavailable(ShellkeepError):
    """No daemon answers, or the connection broke and the request must not be sent twice."""

    @property
    def retryable(self) -> bool:
        return True


class VersionMismatch(ShellkeepError):
    """The daemon and this package have different versions."""


class CommandError(ShellkeepError):
    """A command did not end well; raised with `check=True` only. `result` has all that is known."""

    def __init__(self, code: str, detail: str, result: RunResult) -> None:
        super().__init__(code, detail, data={"run_id": result.run_id})
        self.result = result


class CommandFailed(CommandError):
    """The command exited with a non-zero code."""


class CommandTimedOut(CommandError):
    """The command was interrupted by its timeout."""


class CommandLost(CommandError):
    """The daemon died while the command ran: its outcome is unknown, and it is never run again."""


_BY_CODE: dict[str, type[ShellkeepError]] = {
    "session_not_found": SessionNotFound,
    "session_busy": SessionBusy,
    "request_id_reused": RequestIdReused,
    "version_conflict": VersionConflict,
    "precondition_failed": VersionConflict,
    "quota_exceeded": QuotaExceeded,
    "overloaded": Overloaded,
    "queue_full": Overloaded,
    "unauthorized": Unauthorized,
    "not_allowed": NotAllowed,
    "too_large": TooLarge,
    "payload_too_large": TooLarge,
}

_BY_STATUS: dict[int, type[ShellkeepError]] = {
    400: InvalidRequest,
    401: Unauthorized,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    410: NotFound,
    412: VersionConflict,
    413: TooLarge,
    422: InvalidRequest,
    429: Overloaded,
    503: Overloaded,
}


def from_problem(status: int, body: bytes, retry_after: str | None = None) -> ShellkeepError:
    """The exception for an error response."""
    import json

    try:
        problem = json.loads(body)
        code, detail = problem["code"], problem["detail"]
    except (ValueError, KeyError, TypeError):
        text = body[:200].decode("utf-8", "replace").strip()
        return ShellkeepError("unexpected_answer", f"the daemon answered {status}: {text}", status=status)
    known = {"type", "title", "status", "code", "detail"}
    data = {name: value for name, value in problem.items() if name not in known}
    if retry_after is not None and retry_after.isdigit():
        data.setdefault("retry_after", int(retry_after))
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status, ShellkeepError)
    return kind(code, detail, status=status, data=data)
