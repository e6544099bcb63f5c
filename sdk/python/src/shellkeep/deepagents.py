"""deepagents: a durable session for each thread, in one line.

    from deepagents import create_deep_agent
    from shellkeep.deepagents import ShellkeepBackend

    agent = create_deep_agent(model, backend=ShellkeepBackend(), checkpointer=...)

The agent's commands run in its session. Its file tools use the session's files: they work beside a running command, start
in no directory that the agent left, and leave its shell alone. Needs `shellkeep[deepagents]`.
"""

from __future__ import annotations

import hashlib
import uuid
from contextvars import ContextVar
from typing import Any

from deepagents.backends.protocol import (
    DeleteResult,
    EditResult,
    ExecuteResponse,
    FileDownloadResponse,
    FileUploadResponse,
    GlobResult,
    GrepResult,
    LsResult,
    ReadResult,
    SandboxBackendProtocol,
    WriteResult,
)
from langgraph.config import get_config
from langgraph.runtime import get_runtime

from ._async.client import AsyncClient
from ._async.session import AsyncSession
from ._clients import Clients
from ._deepagents_files import Files
from ._sync.client import Client
from ._sync.session import Session
from ._threads import request_id_for, session_id_for
from .results import RunResult

__all__ = ["ShellkeepBackend"]

#: Bytes of output that a command answers with; deepagents itself puts what is long into a file.
MAX_OUTPUT = 1024 * 1024

#: How many commands this task of a graph has run. A task that is run again begins from zero, in a context of its own.
_commands: ContextVar[dict[str, int] | None] = ContextVar("shellkeep_commands", default=None)


class ShellkeepBackend(SandboxBackendProtocol):
    """A session per thread. Outside of a graph, one session for each backend, or the one that `session` names."""

    def __init__(
        self,
        client: Client | AsyncClient | None = None,
        *,
        session: str | None = None,
        timeout: float = 120.0,
        max_output: int = MAX_OUTPUT,
    ) -> None:
        self._clients = Clients(client)
        self._fixed = session
        self._own = f"deepagents-{uuid.uuid4().hex[:12]}"
        self._timeout = timeout
        self._max_output = max_output
        self._files = Files(lambda: self.session)

    @property
    def id(self) -> str:
        """The session of the thread that asks."""
        return self._fixed or _thread_session() or self._own

    @property
    def session(self) -> Session:
        """That session, for everything that a file tool cannot do."""
        return self._clients.sync.session(self.id, config={"framework": "deepagents"})

    async def asession(self) -> AsyncSession:
        """That session, for code with `await`."""
        return await self._clients.awaited.session(self.id, config={"framework": "deepagents"})

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        return _response(self.session.run(command, **self._arguments(command, timeout)))

    async def aexecute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        session = await self.asession()
        return _response(await session.run(command, **self._arguments(command, timeout)))

    def _arguments(self, command: str, timeout: int | None) -> dict[str, Any]:
        # Zero asks for no limit; the daemon's own is a day.
        seconds = self._timeout if timeout is None else timeout or 86_400
        return {
            "timeout": seconds,
            "max_output": self._max_output,
            "stderr": "merge",
            "stdin": "",
            "request_id": _request_id(command),
        }

    def ls(self, path: str) -> LsResult:
        return self._files.ls(path)

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        return self._files.read(file_path, offset, limit)

    def write(self, file_path: str, content: str) -> WriteResult:
        return self._files.write(file_path, content)

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        return self._files.edit(file_path, old_string, new_string, replace_all)

    def delete(self, file_path: str) -> DeleteResult:
        return self._files.delete(file_path)

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        return self._files.grep(pattern, path, glob, max_count=max_count)

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        return self._files.glob(pattern, path)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return self._files.upload_files(files)

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return self._files.download_files(paths)

    def close(self) -> None:
        """Closes idle connections. Sessions stay."""
        self._clients.close()

    async def aclose(self) -> None:
        """Closes idle connections, those of this event loop too."""
        await self._clients.aclose()


def _response(result: RunResult) -> ExecuteResponse:
    output = result.output
    for notice in result.notices:
        output = f"{output.rstrip()}\n\n{notice.message}\n".lstrip()
    return ExecuteResponse(output=output, exit_code=result.exit_code, truncated=result.truncated)


def _thread_session() -> str | None:
    try:
        thread_id = get_config().get("configurable", {}).get("thread_id")
    except RuntimeError:
        return None
    return None if thread_id is None else session_id_for(thread_id)


def _request_id(command: str) -> str | None:
    """The key of a command of a graph's task: the same when a crashed task is run again. Outside of a graph, none."""
    try:
        info = get_runtime().execution_info
    except RuntimeError:
        return None
    if info is None or not info.task_id:
        return None
    counts = dict(_commands.get() or {})
    number = counts.get(info.task_id, 0)
    _commands.set({**counts, info.task_id: number + 1})
    return request_id_for(info.task_id, number, hashlib.sha256(command.encode()).hexdigest()[:16])
