"""OpenAI Agents: the shell tool and the memory of an agent, in a durable session.

    from agents import Agent, Runner, ShellTool
    from shellkeep.openai import ShellkeepMemory, shell_executor

    session = await shellkeep.AsyncClient().session("demo")
    agent = Agent(name="demo", tools=[ShellTool(executor=shell_executor(session))])
    await Runner.run(agent, "run the tests", session=ShellkeepMemory(session))

Needs `shellkeep[openai]`.
"""

from __future__ import annotations

from typing import Any

from agents import ShellCallOutcome, ShellCommandOutput, ShellCommandRequest, ShellResult, TResponseInputItem
from agents.memory import SessionSettings
from agents.tool import ShellExecutor

from ._async.session import AsyncSession
from ._threads import request_id_for

__all__ = ["ShellkeepMemory", "shell_executor"]

#: Seconds for a command for which the model sets no timeout.
TIMEOUT = 120.0
ITEM = "x_openai.item"
POPPED = "x_openai.popped"
CLEARED = "x_openai.cleared"


def shell_executor(session: AsyncSession, *, timeout: float = TIMEOUT) -> ShellExecutor:
    """Runs the commands of a shell call one after the other, each once even if the call is repeated."""

    async def execute(request: ShellCommandRequest) -> ShellResult:
        action = request.data.action
        seconds = timeout if action.timeout_ms is None else max(action.timeout_ms / 1000, 0.001)
        output: list[ShellCommandOutput] = []
        for number, command in enumerate(action.commands):
            result = await session.run(
                command, timeout=seconds, stdin="", request_id=request_id_for(request.data.call_id, number)
            )
            late = result.status == "timed_out"
            outcome = ShellCallOutcome(type="timeout") if late else ShellCallOutcome("exit", result.exit_code)
            notices = "".join(f"\n{notice.message}" for notice in result.notices)
            output.append(ShellCommandOutput(result.stdout, result.stderr + notices, outcome, command))
            if late:
                break
        return ShellResult(output=output, max_output_length=action.max_output_length)

    return execute


class ShellkeepMemory:
    """An agent's conversation as events of a session. What is taken back stays in the recording."""

    session_settings: SessionSettings | None = None

    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self.session_id = session.id

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items, or the latest `limit` of them, in order."""
        items: list[Any] = []
        async for event in self._session.events.list():
            if event.event_type == ITEM:
                items.append(event.data["item"])
            elif event.event_type == POPPED and items:
                items.pop()
            elif event.event_type == CLEARED:
                items.clear()
        return items if limit is None else items[-limit:] if limit > 0 else []

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Adds items in one step."""
        if items:
            await self._session.events.post_all([{"event_type": ITEM, "data": {"item": item}} for item in items])

    async def pop_item(self) -> TResponseInputItem | None:
        """Takes the last item back."""
        items = await self.get_items(1)
        if not items:
            return None
        await self._session.events.post(POPPED, {})
        return items[0]

    async def clear_session(self) -> None:
        """Takes all items back."""
        await self._session.events.post(CLEARED, {})
