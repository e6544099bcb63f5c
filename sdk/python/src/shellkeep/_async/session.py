"""A session: commands, services, files, and its history."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from .._handle import Handle
from .._http import Request, encode_json, segment
from ..models import (
    Checkpoint,
    CheckpointList,
    DiffResponse,
    MergeBackResponse,
    ResumeResponse,
    RewindResponse,
    ScrubReport,
    ServiceList,
    SessionInfo,
    StateResponse,
    Verdict,
)
from ..options import RunOptions, StartOptions, StreamOptions, request_body
from ..results import RunResult, SessionRef
from .files import AsyncFiles
from .kv import AsyncKv
from .notes import AsyncAgentState, AsyncEvents, AsyncMessages, AsyncRecord
from .run import AsyncRun, AsyncRunStream, interrupt_request
from .io import to_the_end
from .service import AsyncService

if TYPE_CHECKING:
    # For type checkers only, which have it; Python 3.10 does not.
    from typing_extensions import Unpack

    from .client import AsyncClient

#: A point in a session's history: a record's number, a run's id, a checkpoint's id, a commit, "-N", a time, "latest".
Moment = int | str


class AsyncSession(Handle):
    """A durable shell session. It lives in the daemon; this is a handle to it."""

    def __init__(self, client: AsyncClient, info: SessionInfo) -> None:
        self.client = client
        #: What was known of it when this handle was made; `refresh` reads it again.
        self.info = info
        self.path = f"/v1/sessions/{segment(info.session_id)}"
        self._seq = info.seq
        self.files = AsyncFiles(self)
        self.kv = AsyncKv(self)
        self.events = AsyncEvents(self)
        self.record = AsyncRecord(self)
        self.messages = AsyncMessages(self)
        self.agent_state = AsyncAgentState(self)

    @property
    def id(self) -> str:
        """Its name."""
        return self.info.session_id

    @property
    def workspace(self) -> str:
        """The directory whose files its checkpoints cover."""
        return self.info.workspace

    @property
    def ref(self) -> SessionRef:
        """Plain data that identifies this session in a framework's state."""
        return {"session_id": self.info.session_id, "seq": self._seq}

    @property
    def seq(self) -> int:
        """The latest record that this handle has seen."""
        return self._seq

    def saw(self, seq: int | None) -> None:
        """Remembers the latest record of the session that an answer named."""
        if seq is not None and seq > self._seq:
            self._seq = seq

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leaving keeps the session; `delete` removes it."""

    async def run(
        self,
        command: str,
        *,
        on_stdout: Callable[[str], object] | None = None,
        on_stderr: Callable[[str], object] | None = None,
        check: bool = False,
        **options: Unpack[RunOptions],
    ) -> RunResult:
        """Runs a command and waits for its end (30 seconds unless `timeout` says otherwise).

        A non-zero exit is a result; `check=True` raises instead. `cwd` and `env` count for this command only.
        `on_stdout` and `on_stderr` get the output as it comes. A connection that breaks is made again and the command
        is not run twice, because each run has a `request_id`. A cancelled run is interrupted. The other options are
        those of `RunOptions`.
        """
        body = request_body(command, options)
        if on_stdout is None and on_stderr is None:
            result = await self._run(body)
        else:
            result = await self._run_streamed(body, on_stdout, on_stderr)
        return result.check() if check else result

    async def _run(self, body: dict[str, Any]) -> RunResult:
        request = Request("POST", f"{self.path}/run", body=encode_json(body), repeatable=True)
        try:
            response = await self.client.wire.request(request)
        except Exception:
            raise
        except BaseException:
            # The caller was cancelled: its command ends with it. One that was not sent must not begin now.
            if request.sent:
                await to_the_end(lambda: interrupt_request(self, body))
            raise
        result = RunResult.from_json(response.json())
        self.saw(result.seq)
        return result

    async def _run_streamed(
        self,
        body: dict[str, Any],
        on_stdout: Callable[[str], object] | None,
        on_stderr: Callable[[str], object] | None,
    ) -> RunResult:
        async with AsyncRunStream(self, body, interrupt=True) as stream:
            async for chunk in stream:
                callback = on_stdout if chunk.stream == "stdout" else on_stderr
                if callback is not None:
                    callback(chunk.text)
            return stream.result

    def stream(self, command: str, **options: Unpack[StreamOptions]) -> AsyncRunStream:
        """Runs a command and gives its output as it comes. Closing the stream early interrupts the command.

        The options are those of `StreamOptions`.
        """
        return AsyncRunStream(self, request_body(command, options, StreamOptions), interrupt=True)

    async def start(self, command: str, **options: Unpack[StartOptions]) -> AsyncRun:
        """Starts a command and does not wait for its end. Its standard input stays open unless `stdin` is given.

        The options are those of `StartOptions`.
        """
        body = request_body(command, options, StartOptions)
        answer = await self.client.post(f"{self.path}/run", {**body, "blocking": False}, repeatable=True)
        result = RunResult.from_json(answer)
        self.saw(result.seq)
        return AsyncRun(self, result)

    async def get_run(self, run_id: str) -> AsyncRun:
        """A run by its id."""
        found = RunResult.from_json(await self.client.get(f"{self.path}/runs/{segment(run_id)}"))
        return AsyncRun(self, found)

    async def service(
        self,
        command: str,
        *,
        name: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        ready: Any = None,
        restart: Literal["never", "on_failure", "always"] | None = None,
        wait: float | None = None,
    ) -> AsyncService:
        """Starts a service: a command that keeps running. `ready` says when it is, as in `8000` or `{"log": "up"}`."""
        body: dict[str, Any] = {"command": command, "name": name, "cwd": cwd, "env": env}
        body |= {"ready": ready, "restart": restart, "wait": wait}
        return AsyncService.of(self, await self.client.post(f"{self.path}/services", body))

    async def services(self) -> Sequence[AsyncService]:
        """Its services."""
        found = ServiceList.from_json(await self.client.get(f"{self.path}/services"))
        return [AsyncService(self, info) for info in found.services]

    async def refresh(self) -> SessionInfo:
        """Reads again what is known of it."""
        self.info = SessionInfo.from_json(await self.client.get(self.path))
        self.saw(self.info.seq)
        return self.info

    async def state(self) -> StateResponse:
        """Its working directory, variables, functions, aliases and options."""
        return StateResponse.from_json(await self.client.get(f"{self.path}/state"))

    async def hibernate(self) -> SessionInfo:
        """Drops its shell and keeps the session."""
        return await self._change("hibernate")

    async def restart(self) -> SessionInfo:
        """Starts over with a clean shell. The host's right."""
        return await self._change("restart")

    async def end(self) -> SessionInfo:
        """Says that its agent is done with it: its processes end, and its files are kept for a while."""
        return await self._change("end")

    async def _change(self, what: str) -> SessionInfo:
        self.info = SessionInfo.from_json(await self.client.post(f"{self.path}/{what}", None))
        self.saw(self.info.seq)
        return self.info

    async def delete(self) -> None:
        """Removes it, with its processes and files."""
        await self.client.delete(self.path)

    async def checkpoint(self) -> Checkpoint | None:
        """Keeps its files as they are now; `None` if they have not changed."""
        made = await self.client.post(f"{self.path}/checkpoints", None)
        return None if made is None else Checkpoint.from_json(made)

    async def checkpoints(self, *, after: int | None = None, limit: int | None = None) -> Sequence[Checkpoint]:
        """Its checkpoints, oldest first."""
        query = {"after": after, "limit": limit}
        return CheckpointList.from_json(await self.client.get(f"{self.path}/checkpoints", query)).checkpoints

    async def diff(
        self, from_: Moment | None = None, to: Moment | None = None, *, path: str | None = None, patch: bool = False
    ) -> DiffResponse:
        """How its files differ between two moments."""
        query = {"from": from_, "to": to, "path": path, "patch": patch or None}
        return DiffResponse.from_json(await self.client.get(f"{self.path}/diff", query))

    async def rewind(
        self, to: Moment, *, dry_run: bool = False, services: Literal["leave", "stop"] | None = None
    ) -> RewindResponse:
        """Goes back to an earlier moment: files, shell and agent state."""
        body = {"to": to, "dry_run": dry_run or None, "services": services}
        answer = RewindResponse.from_json(await self.client.post(f"{self.path}/rewind", body))
        self.saw(answer.seq)
        return answer

    async def fork(
        self,
        name: str | None = None,
        *,
        at: Moment | None = None,
        share_files: bool | None = None,
        user_id: str | None = None,
    ) -> AsyncSession:
        """A new session that starts as a copy of this one, now or at an earlier moment."""
        body = {"session_id": name, "at": at, "share_files": share_files, "user_id": user_id}
        made = await self.client.post(f"{self.path}/fork", body)
        return AsyncSession(self.client, SessionInfo.from_json(made))

    async def merge_back(
        self, *, prefer: Literal["fork", "origin"] | None = None, dry_run: bool = False
    ) -> MergeBackResponse:
        """Applies a fork's changes of files to the session it was forked from."""
        body = {"prefer": prefer, "dry_run": dry_run or None}
        return MergeBackResponse.from_json(await self.client.post(f"{self.path}/merge_back", body))

    async def resume(
        self, message: str, *, timeout: float | None = None, request_id: str | None = None
    ) -> ResumeResponse:
        """Sends a message to the session's agent and continues from its last step."""
        body = {"message": message, "timeout": timeout, "request_id": request_id or os.urandom(16).hex()}
        return ResumeResponse.from_json(await self.client.post(f"{self.path}/resume", body, repeatable=True))

    async def export(
        self, format: Literal["jsonl", "asciicast", "html"] = "jsonl", *, redact: bool | None = None
    ) -> bytes:
        """Its recording in one piece."""
        query = {"format": format, "redact": redact}
        request = Request("GET", f"{self.path}/export", query, accept="*/*", repeatable=True)
        return (await self.client.wire.request(request)).body

    async def verify(self) -> Verdict:
        """Whether its recording is as it was written."""
        return Verdict.from_json(await self.client.post(f"{self.path}/verify", None, repeatable=True))

    async def scrub(self, secret: str, *, force: bool = False) -> ScrubReport:
        """Masks a secret in everything that is kept of it; with `force` also a common one, such as `123456`."""
        body: dict[str, Any] = {"secret": secret}
        if force:
            body["force"] = True
        return ScrubReport.from_json(await self.client.post(f"{self.path}/scrub", body))
