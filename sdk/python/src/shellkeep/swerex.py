"""SWE-ReX: its runtime on durable sessions.

    from shellkeep.swerex import ShellkeepRuntime

    runtime = ShellkeepRuntime()
    await runtime.create_session(CreateBashSessionRequest())
    await runtime.run_in_session(BashAction(command="cd /tmp"))

Needs `shellkeep[swerex]`.
"""

from __future__ import annotations

import io
import os
import shlex
import tarfile
import uuid

from swerex.exceptions import (
    CommandTimeoutError,
    NonZeroExitCodeError,
    SessionDoesNotExistError,
    SessionExistsError,
)
from swerex.runtime.abstract import (
    AbstractRuntime,
    Action,
    BashAction,
    BashObservation,
    CloseBashSessionResponse,
    CloseResponse,
    CloseSessionRequest,
    CloseSessionResponse,
    Command,
    CommandResponse,
    CreateBashSessionResponse,
    CreateSessionRequest,
    CreateSessionResponse,
    IsAliveResponse,
    Observation,
    ReadFileRequest,
    ReadFileResponse,
    UploadRequest,
    UploadResponse,
    WriteFileRequest,
    WriteFileResponse,
)

from ._async.beside import AsyncBeside
from ._async.client import AsyncClient
from ._async.session import AsyncSession
from ._clients import Clients
from ._sync.client import Client
from .errors import ShellkeepError

__all__ = ["ShellkeepRuntime"]

#: Seconds that a command without a timeout may take: the most that the daemon allows.
LONGEST = 86_400.0


class ShellkeepRuntime(AbstractRuntime):
    """Each session of SWE-ReX is a session of the daemon, named `PREFIX.NAME`; the next runtime of that prefix finds it."""

    def __init__(self, client: Client | AsyncClient | None = None, *, prefix: str | None = None) -> None:
        self._clients = Clients(client)
        self.prefix = prefix or f"swerex-{uuid.uuid4().hex[:12]}"
        self._sessions: dict[str, AsyncSession] = {}

    async def is_alive(self, *, timeout: float | None = None) -> IsAliveResponse:
        try:
            await self._clients.awaited.ready()
        except ShellkeepError as error:
            return IsAliveResponse(is_alive=False, message=error.detail)
        return IsAliveResponse(is_alive=True)

    async def create_session(self, request: CreateSessionRequest) -> CreateSessionResponse:
        if request.session in self._sessions:
            raise SessionExistsError(f"session {request.session} already exists")
        session = await self._clients.awaited.session(f"{self.prefix}.{request.session}", config={"framework": "swerex"})
        self._sessions[request.session] = session
        output = ""
        for path in request.startup_source:
            output += (await session.run(f"source {shlex.quote(path)}", timeout=request.startup_timeout)).output
        return CreateBashSessionResponse(output=output)

    def _session(self, name: str) -> AsyncSession:
        if name not in self._sessions:
            raise SessionDoesNotExistError(f"session {name!r} does not exist; call create_session first")
        return self._sessions[name]

    async def run_in_session(self, action: Action) -> Observation:
        session = self._session(action.session)
        if not isinstance(action, BashAction):
            # The command that it would interrupt has ended: this runtime answers when it has.
            return BashObservation(output="", exit_code=0)
        if action.is_interactive_command or action.is_interactive_quit:
            raise ValueError("shellkeep runs interactive programs with start(tty=True); is_interactive_command is not supported")
        result = await session.run(action.command, timeout=action.timeout or LONGEST, stderr="merge", stdin="")
        if result.status == "timed_out":
            raise CommandTimeoutError(f"timeout after {action.timeout} seconds while running command {action.command!r}")
        if action.check == "raise" and not result.ok:
            detail = f"command {action.command!r} failed with exit code {result.exit_code}: {result.output}"
            raise NonZeroExitCodeError(f"{action.error_msg}: {detail}" if action.error_msg else detail)
        exit_code = None if action.check == "ignore" else result.exit_code
        return BashObservation(output=result.output, exit_code=exit_code)

    async def close_session(self, request: CloseSessionRequest) -> CloseSessionResponse:
        self._session(request.session)
        await self._sessions.pop(request.session).end()
        return CloseBashSessionResponse()

    async def _own(self) -> AsyncSession:
        """Where work without a session is done."""
        return await self._clients.awaited.session(f"{self.prefix}.own", config={"framework": "swerex"})

    async def execute(self, command: Command) -> CommandResponse:
        words = [command.command] if isinstance(command.command, str) else command.command
        text = " ".join(words) if command.shell else shlex.join(words)
        result = await (await self._own()).run(
            # In a shell of its own: what it sets is not kept, as SWE-ReX has it.
            f"( {text}\n)",
            timeout=command.timeout or LONGEST,
            cwd=command.cwd,
            env=command.env,
            stderr="merge" if command.merge_output_streams else None,
            stdin="",
        )
        if result.status == "timed_out":
            raise CommandTimeoutError(f"timeout ({command.timeout}s) exceeded while running command {command.command!r}")
        if command.check and not result.ok:
            detail = f"command {command.command!r} failed with exit code {result.exit_code}: {result.output}"
            raise NonZeroExitCodeError(f"{command.error_msg}: {detail}" if command.error_msg else detail)
        return CommandResponse(stdout=result.stdout, stderr=result.stderr, exit_code=result.exit_code)

    async def read_file(self, request: ReadFileRequest) -> ReadFileResponse:
        data = await AsyncBeside(await self._own()).read(request.path)
        return ReadFileResponse(content=data.decode(request.encoding or "utf-8", request.errors or "strict"))

    async def write_file(self, request: WriteFileRequest) -> WriteFileResponse:
        await AsyncBeside(await self._own()).write(request.path, request.content.encode())
        return WriteFileResponse()

    async def upload(self, request: UploadRequest) -> UploadResponse:
        beside = AsyncBeside(await self._own())
        if not os.path.isdir(request.source_path):
            with open(request.source_path, "rb") as file:
                await beside.write(request.target_path, file.read())
            return UploadResponse()
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(request.source_path, arcname=".")
        target = shlex.quote(request.target_path)
        result = await beside.run(f"mkdir -p -- {target} && tar -x -C {target}", stdin=packed.getvalue())
        if not result.ok:
            raise OSError(f"{request.target_path}: {result.stderr.strip()}")
        return UploadResponse()

    async def close(self) -> CloseResponse:
        self._sessions.clear()
        await self._clients.aclose()
        return CloseResponse()
