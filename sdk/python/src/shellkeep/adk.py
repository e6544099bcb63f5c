"""Google ADK: a durable session as an environment.

    from google.adk.tools.environment import EnvironmentToolset
    from shellkeep.adk import ShellkeepEnvironment

    tools = [EnvironmentToolset(environment=ShellkeepEnvironment(session="demo"))]

Needs `shellkeep[adk]`.
"""

from __future__ import annotations

from pathlib import Path

from google.adk.environment import BaseEnvironment, ExecutionResult

from ._async.beside import AsyncBeside
from ._async.client import AsyncClient
from ._async.session import AsyncSession
from ._clients import Clients
from ._sync.client import Client

__all__ = ["ShellkeepEnvironment"]

#: Seconds that a command without a timeout may take: the most that the daemon allows.
LONGEST = 86_400.0


class ShellkeepEnvironment(BaseEnvironment):
    """Commands run in the session, files are used beside it. `close` keeps the session."""

    def __init__(self, client: Client | AsyncClient | None = None, *, session: str | None = None) -> None:
        self._clients = Clients(client)
        self._name = session
        self._session: AsyncSession | None = None

    async def initialize(self) -> None:
        if self._session is None:
            self._session = await self._clients.awaited.session(self._name, config={"framework": "adk"})
        self.is_initialized = True

    async def close(self) -> None:
        await self._clients.aclose()
        self.is_initialized = False

    @property
    def session(self) -> AsyncSession:
        """The session itself."""
        if self._session is None:
            raise RuntimeError("call initialize() before you use the environment")
        return self._session

    @property
    def working_dir(self) -> Path:
        return Path(self.session.workspace)

    async def execute(self, command: str, *, timeout: float | None = None) -> ExecutionResult:
        result = await self.session.run(command, timeout=LONGEST if timeout is None else timeout, stdin="")
        notices = "".join(f"{notice.message}\n" for notice in result.notices)
        return ExecutionResult(
            exit_code=-1 if result.exit_code is None else result.exit_code,
            stdout=result.stdout,
            stderr=result.stderr + notices,
            timed_out=result.status == "timed_out",
        )

    async def read_file(self, path: Path) -> bytes:
        return await AsyncBeside(self.session).read(str(path))

    async def write_file(self, path: Path, content: str | bytes) -> None:
        await AsyncBeside(self.session).write(str(path), content.encode() if isinstance(content, str) else content)
