"""Microsoft Agent Framework: a durable session behind its shell tool.

    from agent_framework import Agent
    from shellkeep.msaf import ShellkeepExecutor

    async with ShellkeepExecutor(session="demo") as shell:
        agent = Agent(model, tools=[shell.as_function()])

Needs `shellkeep[msaf]`.
"""

from __future__ import annotations

from typing import Literal

from agent_framework import FunctionTool
from agent_framework_tools.shell import ShellResult

from ._async.client import AsyncClient
from ._async.session import AsyncSession
from ._clients import Clients
from ._sync.client import Client

__all__ = ["ShellkeepExecutor"]

DESCRIPTION = (
    "Run a shell command. The shell keeps its working directory, variables, functions and files between calls, also "
    "after a restart. Returns standard output, standard error and the exit code."
)


class ShellkeepExecutor:
    """A `ShellExecutor` whose shell is still there after `close`, in the next process too."""

    def __init__(
        self, client: Client | AsyncClient | None = None, *, session: str | None = None, timeout: float = 30.0
    ) -> None:
        self._clients = Clients(client)
        self._name = session
        self._timeout = timeout
        self._session: AsyncSession | None = None

    async def start(self) -> None:
        if self._session is None:
            self._session = await self._clients.awaited.session(self._name, config={"framework": "msaf"})
            self._name = self._session.id

    async def close(self) -> None:
        self._session = None
        await self._clients.aclose()

    async def run(self, command: str, *, timeout: float | None = None) -> ShellResult:
        await self.start()
        assert self._session is not None
        result = await self._session.run(command, timeout=timeout or self._timeout, stdin="")
        notices = "".join(f"{notice.message}\n" for notice in result.notices if notice.code != "timed_out")
        return ShellResult(
            stdout=result.stdout,
            stderr=result.stderr + notices,
            exit_code=-1 if result.exit_code is None else result.exit_code,
            duration_ms=round(result.duration_ms or 0),
            truncated=result.truncated,
            timed_out=result.status == "timed_out",
        )

    def as_function(
        self,
        *,
        name: str = "run_shell",
        description: str | None = None,
        approval_mode: Literal["always_require", "never_require"] = "always_require",
    ) -> FunctionTool:
        """A tool for an agent, like that of the framework's own shell: a person approves each call unless told otherwise."""

        async def run_shell(command: str) -> str:
            return (await self.run(command)).format_for_model()

        return FunctionTool(
            name=name, description=description or DESCRIPTION, func=run_shell, approval_mode=approval_mode, kind="shell"
        )

    async def __aenter__(self) -> ShellkeepExecutor:
        await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()
