"""Pydantic AI: a durable session as an agent's workspace.

    from pydantic_ai import Agent
    from shellkeep.pydantic_ai import ShellkeepCapability

    agent = Agent(model, capabilities=[ShellkeepCapability()])

Needs `shellkeep[pydantic-ai]`.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import WorkspaceRef
from pydantic_ai.workspaces import (
    CommandResult,
    FileEntry,
    LocalWorkspaceBackend,
    WorkspaceBackend,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)
from pydantic_ai.workspaces.protocol import WorkspaceCommand, validate_timeout

from ._async.client import AsyncClient
from ._async.session import AsyncSession
from ._clients import Clients
from ._gate import AsyncGate
from ._sync.client import Client
from .errors import NotFound, ShellkeepError
from .results import RunResult, exact

__all__ = ["PROVIDER", "ShellkeepCapability", "ShellkeepLocalWorkspace", "ShellkeepWorkspace", "workspace"]

PROVIDER = "shellkeep"
#: Seconds that a command without a timeout may take: the most that the daemon allows.
LONGEST = 86_400.0
#: Bytes of output in one answer: the most that the daemon sends.
MAX_OUTPUT = 16 * 1024 * 1024


class ShellkeepWorkspace:
    """A session as a workspace: the one that `ref` names, or a new one at the first use. It is never deleted here."""

    def __init__(self, client: Client | AsyncClient | None = None, ref: WorkspaceRef | None = None) -> None:
        if ref is not None and ref.provider != PROVIDER:
            raise ValueError(f"the workspace {ref.id} is of {ref.provider}, not of {PROVIDER}")
        self._clients = Clients(client)
        self._gate = AsyncGate()
        self._ref = ref
        self._session: AsyncSession | None = None

    @property
    def ref(self) -> WorkspaceRef | None:
        return self._ref

    async def session(self) -> AsyncSession:
        """The session itself, for what a workspace cannot do."""
        async with self._gate:
            if self._session is None:
                self._session = await self._open()
            return self._session

    async def _open(self) -> AsyncSession:
        client = self._clients.awaited
        if self._ref is not None:
            try:
                return await client.attach(self._ref.id)
            except NotFound as error:
                raise WorkspaceUnavailableError(f"the session {self._ref.id} is gone; start without a ref") from error
        session = await client.session(config={"framework": "pydantic-ai"})
        self._ref = WorkspaceRef(provider=PROVIDER, id=session.id)
        return session

    async def working_dir(self) -> str:
        return (await self.session()).workspace

    async def run(
        self,
        command: WorkspaceCommand,
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> CommandResult:
        validate_timeout(timeout)
        if isinstance(command, str) != shell:
            raise TypeError("pass a string with shell=True, or a sequence of arguments without it")
        text = command if isinstance(command, str) else shlex.join(command)
        session = await self.session()
        try:
            result = await session.run(
                text,
                cwd=await self.working_dir(),
                env=env,
                timeout=LONGEST if timeout is None else timeout,
                stdin="",
                max_output=MAX_OUTPUT,
            )
            if result.status != "exited":
                # A session that was deleted under its command is gone; one that answers has a command that was ended.
                await self._clients.awaited.attach(session.id)
        except NotFound as error:
            raise WorkspaceUnavailableError(f"the session {session.id} is gone") from error
        except ShellkeepError as error:
            if error.code in ("session_deleted", "shell_unavailable"):
                raise WorkspaceUnavailableError(error.detail) from error
            raise
        stdout, stderr = await _whole(session, result)
        if result.status == "timed_out":
            raise WorkspaceTimeoutError(f"command timed out after {timeout:g}s", stdout=stdout, stderr=stderr)
        if result.status == "lost" or result.exit_code is None:
            raise WorkspaceUnavailableError(f"the daemon died while run {result.run_id} was running")
        return CommandResult(exit_code=result.exit_code, stdout=stdout, stderr=stderr)

    async def aclose(self) -> None:
        """Closes idle connections. The session stays."""
        await self._clients.aclose()


class ShellkeepLocalWorkspace(ShellkeepWorkspace):
    """The same with a daemon on this machine: files are read and written directly, also while a command runs."""

    async def working_dir(self) -> str:
        return os.path.realpath(await super().working_dir())

    async def _files(self) -> LocalWorkspaceBackend:
        return LocalWorkspaceBackend(await self.working_dir())

    async def read_bytes(self, path: str) -> bytes:
        return await (await self._files()).read_bytes(path)

    async def write_bytes(self, path: str, data: bytes) -> None:
        await (await self._files()).write_bytes(path, data)

    async def stat(self, path: str) -> FileEntry:
        return await (await self._files()).stat(path)

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        return await (await self._files()).list_dir(path)

    async def make_dir(self, path: str) -> None:
        await (await self._files()).make_dir(path)

    async def remove(self, path: str) -> None:
        await (await self._files()).remove(path)

    async def exists(self, path: str) -> bool:
        return await (await self._files()).exists(path)

    async def realpath(self, path: str) -> str:
        return await (await self._files()).realpath(path)


def workspace(client: Client | AsyncClient | None = None, ref: WorkspaceRef | None = None) -> ShellkeepWorkspace:
    """A workspace that fits the client: with direct access to files where the daemon has a socket on this machine."""
    made = Client() if client is None else client
    local = made.wire.endpoint.socket is not None
    return ShellkeepLocalWorkspace(made, ref) if local else ShellkeepWorkspace(made, ref)


class ShellkeepCapability(AbstractCapability[Any]):
    """Gives each run of an agent a session as its workspace, and a later run the session of its `ref`."""

    def __init__(self, client: Client | AsyncClient | None = None) -> None:
        self._client = client

    def get_workspace(self, ctx: RunContext[Any], *, ref: WorkspaceRef | None) -> WorkspaceBackend | None:
        if ref is not None and ref.provider != PROVIDER:
            return None
        return workspace(self._client, ref)


async def _whole(session: AsyncSession, result: RunResult) -> tuple[str, str]:
    """All of the output: what did not fit into the answer is read by offset."""
    if not result.truncated:
        return result.stdout, result.stderr
    run = await session.get_run(result.run_id)
    streams: list[str] = []
    names: tuple[Literal["stdout"], Literal["stderr"]] = ("stdout", "stderr")
    for stream in names:
        pages: list[bytes] = []
        offset = 0
        while True:
            page = await run.output(stream, offset=offset)
            pages.append(exact(page.text, page.base64))
            offset = page.next_offset
            if offset >= page.total:
                break
        # Decoded at once, because a page may end in the middle of a character.
        streams.append(b"".join(pages).decode("utf-8", "replace"))
    return streams[0], streams[1]
