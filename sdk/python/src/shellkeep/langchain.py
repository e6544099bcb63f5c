"""LangChain: a shell for agents that is still there after an interrupt, between calls, and after a crash.

    from langchain.agents import create_agent
    from shellkeep.langchain import ShellkeepMiddleware

    agent = create_agent(model, middleware=[ShellkeepMiddleware()], checkpointer=...)

It takes the place of LangChain's own `ShellToolMiddleware` and has the same arguments. Needs `shellkeep[langchain]`.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from langchain.agents.middleware import (
    AgentMiddleware,
    AgentState,
    CodexSandboxExecutionPolicy,
    DockerExecutionPolicy,
    HostExecutionPolicy,
    ModelRequest,
    ModelResponse,
    PIIDetectionError,
    RedactionRule,
)
from langchain.agents.middleware._execution import BaseExecutionPolicy
from langchain.agents.middleware.types import PrivateStateAttr
from langchain.tools import ToolRuntime, tool
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from langgraph.types import Command
from pydantic import BaseModel, model_validator
from pydantic.json_schema import SkipJsonSchema
from typing_extensions import NotRequired

from ._async.client import AsyncClient
from ._async.thread import AsyncThreads
from ._clients import Clients
from ._gate import AsyncGate, Gate
from ._shell_message import Limits, Shown, show
from ._sync.client import Client
from ._sync.session import Session
from ._sync.thread import Threads
from ._threads import request_id_for
from .errors import ShellkeepError
from .results import RunResult
from .thread import ThreadRef, newer

__all__ = ["ShellkeepMiddleware", "ShellkeepState"]

log = logging.getLogger("shellkeep.langchain")

DESCRIPTION = (
    "Run a bash command in a persistent session: working directory, variables, functions and files carry over to the "
    "next command, however much later. Long output is truncated; a command that exceeds its timeout is killed and the "
    "session continues."
)
NO_RESTART = (
    "The shell was not restarted: this session keeps its state. Change what is in the way instead, with cd, unset or kill."
)

ToolAnswer = ToolMessage | Command[Any]


class ShellkeepState(AgentState[Any]):
    """What an agent's state holds of its shell: a name and two numbers, so that any checkpointer can keep it."""

    shellkeep: NotRequired[Annotated[ThreadRef | None, PrivateStateAttr, newer]]


class _Input(BaseModel):
    """Arguments of the shell tool: exactly one of the two."""

    command: str | None = None
    restart: bool | None = None
    runtime: SkipJsonSchema[Any] = None

    @model_validator(mode="after")
    def one_of_both(self) -> _Input:
        if self.command is None and not self.restart:
            raise ValueError("Shell tool requires either 'command' or 'restart'.")
        if self.command is not None and self.restart:
            raise ValueError("Specify only one of 'command' or 'restart'.")
        return self


class ShellkeepMiddleware(AgentMiddleware[Any, Any, Any]):
    """Gives an agent the tool `shell`, a session per thread, and records what the agent does in it.

    All arguments but the last five are those of `ShellToolMiddleware`. Of `execution_policy` the limits are used.
    `shutdown_commands` run in `end`, because a session does not end with an agent's answer.
    """

    state_schema = ShellkeepState

    def __init__(
        self,
        workspace_root: str | Path | None = None,
        *,
        startup_commands: tuple[str, ...] | list[str] | str | None = None,
        shutdown_commands: tuple[str, ...] | list[str] | str | None = None,
        execution_policy: BaseExecutionPolicy | None = None,
        redaction_rules: tuple[RedactionRule, ...] | list[RedactionRule] | None = None,
        tool_description: str | None = None,
        tool_name: str = "shell",
        shell_command: Sequence[str] | str | None = None,
        env: Mapping[str, Any] | None = None,
        client: Client | AsyncClient | None = None,
        on_time_travel: Literal["fork", "rewind", "ignore"] = "fork",
        agent_may_restart: bool = False,
        record: bool = True,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if on_time_travel not in ("fork", "rewind", "ignore"):
            raise ValueError(f"on_time_travel is 'fork', 'rewind' or 'ignore', not {on_time_travel!r}")
        _check_shell(shell_command)
        policy = execution_policy or HostExecutionPolicy()
        if isinstance(policy, (DockerExecutionPolicy, CodexSandboxExecutionPolicy)):
            raise ValueError(
                f"{type(policy).__name__} starts a shell of its own, which is lost with it; run the shellkeep daemon "
                "inside the container instead, and pass client=shellkeep.Client(url)"
            )
        self._clients = Clients(client)
        self._gate = Gate()
        self._agate = AsyncGate()
        self._name = tool_name
        self._shutdown = _commands(shutdown_commands)
        self._may_restart = agent_may_restart
        self._record = record
        self._limits = Limits(
            timeout=policy.command_timeout, lines=policy.max_output_lines, size=policy.max_output_bytes
        )
        self._rules = tuple(rule.resolve() for rule in redaction_rules or ())
        self._settings: dict[str, Any] = _settings(workspace_root, env, config) | {
            "startup": _commands(startup_commands),
            "startup_timeout": policy.startup_timeout,
            "on_time_travel": on_time_travel,
        }
        self.tools = [self._tool(tool_description or DESCRIPTION)]

    @property
    def _threads(self) -> Threads:
        return Threads(self._clients.sync, self._gate, **self._settings)

    @property
    def _awaited(self) -> AsyncThreads:
        return AsyncThreads(self._clients.awaited, self._agate, **self._settings)

    def _tool(self, description: str) -> BaseTool:
        # Named as LangChain names what it injects.
        def shell(
            *, runtime: ToolRuntime[Any, Any], command: str | None = None, restart: bool = False
        ) -> ToolAnswer | str:
            return self._shell(runtime, command)

        async def ashell(
            *, runtime: ToolRuntime[Any, Any], command: str | None = None, restart: bool = False
        ) -> ToolAnswer | str:
            return await self._ashell(runtime, command)

        made: Any = tool(self._name, args_schema=_Input, description=description)(shell)
        made.coroutine = ashell
        return cast(BaseTool, made)

    def _shell(self, runtime: ToolRuntime[Any, Any], command: str | None) -> ToolAnswer | str:
        call = _Call.of(runtime)
        try:
            session = self._threads.enter(call.thread_id, call.ref, call.step)
            if command is None:
                if not self._may_restart:
                    return call.answer(self._name, Shown(NO_RESTART, "error", {}), None)
                session.restart()
                self._threads.prepare(session, call.request_id)
                return call.answer(self._name, Shown("Shell session restarted.", "success", {}), session.ref)
            on_output = self._stream(runtime)
            result = session.run(command, on_stdout=on_output, on_stderr=on_output, **self._arguments(call))
        except ShellkeepError as error:
            return call.answer(self._name, Shown(f"Error: {error.detail}", "error", {"code": error.code}), None)
        return call.answer(self._name, self._shown(result), session.ref)

    async def _ashell(self, runtime: ToolRuntime[Any, Any], command: str | None) -> ToolAnswer | str:
        call = _Call.of(runtime)
        try:
            session = await self._awaited.enter(call.thread_id, call.ref, call.step)
            if command is None:
                if not self._may_restart:
                    return call.answer(self._name, Shown(NO_RESTART, "error", {}), None)
                await session.restart()
                await self._awaited.prepare(session, call.request_id)
                return call.answer(self._name, Shown("Shell session restarted.", "success", {}), session.ref)
            on_output = self._stream(runtime)
            result = await session.run(command, on_stdout=on_output, on_stderr=on_output, **self._arguments(call))
        except ShellkeepError as error:
            return call.answer(self._name, Shown(f"Error: {error.detail}", "error", {"code": error.code}), None)
        return call.answer(self._name, self._shown(result), session.ref)

    def _arguments(self, call: _Call) -> dict[str, Any]:
        # Standard input is empty, as a tool without a user needs it.
        return {"timeout": self._limits.timeout, "stderr": "merge", "stdin": "", "request_id": call.request_id}

    def _stream(self, runtime: ToolRuntime[Any, Any]) -> Callable[[str], object] | None:
        # A rule needs the whole output: what is not checked yet is not shown.
        return None if self._rules else runtime.emit_output_delta

    def _shown(self, result: RunResult) -> Shown:
        matches: dict[str, list[Any]] = {}
        text = result.stdout
        try:
            for rule in self._rules:
                text, found = rule.apply(text)
                if found:
                    matches.setdefault(rule.pii_type, []).extend(found)
        except PIIDetectionError as error:
            artifact = {"timed_out": False, "exit_code": result.exit_code, "matches": {error.pii_type: error.matches}}
            return Shown(f"Output blocked: detected {error.pii_type}.", "error", artifact)
        return show(result, text, self._limits, matches)

    # What the agent does is recorded in its session. A recording that fails is logged and stops nothing.

    def before_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        known: ThreadRef | None = state.get("shellkeep")
        if known is None:
            session, ref = self._threads.begin(_thread_id(runtime))
        else:
            session, ref = self._threads.open(_thread_id(runtime), known), known
        if self._record:
            _quietly(lambda: [session.record.user_input(text) for text in _said(state["messages"])])
        # A state that names a session keeps its number: it says how far back a thread has gone.
        return {"shellkeep": ref} if known is None else None

    async def abefore_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        known: ThreadRef | None = state.get("shellkeep")
        if known is None:
            session, ref = await self._awaited.begin(_thread_id(runtime))
        else:
            session, ref = await self._awaited.open(_thread_id(runtime), known), known
        if self._record:
            for text in _said(state["messages"]):
                await _aquietly(session.record.user_input(text))
        return {"shellkeep": ref} if known is None else None

    def before_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        self._threads.settle(state.get("shellkeep"))
        return None

    async def abefore_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        await self._awaited.settle(state.get("shellkeep"))
        return None

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        began = time.monotonic()
        response = handler(request)
        ref = request.state.get("shellkeep")
        if self._record and ref is not None:
            call = _model_call(request, response, time.monotonic() - began)
            _quietly(lambda: self._clients.sync.attach(ref).record.llm_call(**call))
        return response

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        began = time.monotonic()
        response = await handler(request)
        ref = request.state.get("shellkeep")
        if self._record and ref is not None:
            call = _model_call(request, response, time.monotonic() - began)
            await _aquietly(self._arecord(ref, "llm_call", call))
        return response

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolAnswer]) -> ToolAnswer:
        ref = self._recorded_apart(request)
        if ref is None:
            return handler(request)
        began = time.monotonic()
        try:
            answer = handler(request)
        except Exception as error:
            failed = _tool_call(request, None, time.monotonic() - began, error)
            _quietly(lambda: self._clients.sync.attach(ref).record.tool_call(**failed))
            raise
        call = _tool_call(request, answer, time.monotonic() - began)
        _quietly(lambda: self._clients.sync.attach(ref).record.tool_call(**call))
        return answer

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolAnswer]]
    ) -> ToolAnswer:
        ref = self._recorded_apart(request)
        if ref is None:
            return await handler(request)
        began = time.monotonic()
        try:
            answer = await handler(request)
        except Exception as error:
            await _aquietly(self._arecord(ref, "tool_call", _tool_call(request, None, time.monotonic() - began, error)))
            raise
        await _aquietly(self._arecord(ref, "tool_call", _tool_call(request, answer, time.monotonic() - began)))
        return answer

    def _recorded_apart(self, request: ToolCallRequest) -> ThreadRef | None:
        """The session of a call of another tool. The daemon itself records the commands of ours."""
        if not self._record or request.tool_call["name"] == self._name:
            return None
        ref: ThreadRef | None = request.state.get("shellkeep") if isinstance(request.state, dict) else None
        return ref

    async def _arecord(self, ref: ThreadRef, kind: str, data: dict[str, Any]) -> None:
        session = await self._clients.awaited.attach(ref["session_id"])
        await getattr(session.record, kind)(**data)

    def after_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        ref = state.get("shellkeep")
        self._threads.settle(ref)
        if self._record and ref is not None:
            _quietly(lambda: self._clients.sync.attach(ref).record.final_output(_text(state["messages"][-1])))
        return None

    async def aafter_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        ref = state.get("shellkeep")
        await self._awaited.settle(ref)
        if self._record and ref is not None:
            await _aquietly(self._arecord(ref, "final_output", {"output": _text(state["messages"][-1])}))
        return None

    def close(self) -> None:
        """Closes idle connections, in a program that continues without the agent. Sessions stay."""
        self._clients.close()

    async def aclose(self) -> None:
        """Closes idle connections, those of this event loop too."""
        await self._clients.aclose()

    def end(self, thread_id: object) -> None:
        """Runs the shutdown commands in a thread's session and ends it. Its files and its recording are kept."""
        session: Session = self._threads.open(thread_id, None)
        for command in self._shutdown:
            result = session.run(command, timeout=self._limits.timeout)
            if not result.ok:
                log.warning("shutdown command %r ended with %s, exit code %s", command, result.status, result.exit_code)
        session.end()


class _Call:
    """A call of the shell tool: whose it is, and what it is called so that it runs once."""

    def __init__(self, thread_id: object | None, ref: ThreadRef | None, step: str, task: str, call_id: str | None) -> None:
        self.thread_id = thread_id
        self.ref = ref
        self.step = step
        self.call_id = call_id
        # The task is the same when a crashed node is run again, and another one after time travel.
        self.request_id = request_id_for(task, call_id)

    @classmethod
    def of(cls, runtime: ToolRuntime[Any, Any]) -> _Call:
        info = runtime.execution_info
        ref = runtime.state.get("shellkeep") if isinstance(runtime.state, dict) else None
        if info is None:
            return cls(None, ref, "", "call", runtime.tool_call_id)
        return cls(info.thread_id, ref, info.checkpoint_id, info.task_id, runtime.tool_call_id)

    def answer(self, name: str, shown: Shown, ref: Mapping[str, Any] | None) -> ToolAnswer | str:
        if self.call_id is None:
            return shown.text
        message = ToolMessage(
            content=shown.text, tool_call_id=self.call_id, name=name, status=shown.status, artifact=shown.artifact
        )
        if ref is None:
            return message
        here = ThreadRef(session_id=ref["session_id"], seq=ref["seq"], step=self.step)
        return Command(update={"messages": [message], "shellkeep": here})


def _check_shell(shell_command: Sequence[str] | str | None) -> None:
    words = [shell_command] if isinstance(shell_command, str) else list(shell_command or ["bash"])
    if len(words) != 1 or os.path.basename(words[0]) != "bash":
        raise ValueError(f"shellkeep runs bash, not {shell_command!r}; leave shell_command out, or set the daemon's 'bash'")


def _commands(commands: tuple[str, ...] | list[str] | str | None) -> tuple[str, ...]:
    return (commands,) if isinstance(commands, str) else tuple(commands or ())


def _settings(
    root: str | Path | None, env: Mapping[Any, Any] | None, config: Mapping[str, Any] | None
) -> dict[str, Any]:
    settings: dict[str, Any] = {"config": {"framework": "langchain", **(config or {})}}
    if root is not None:
        path = os.path.abspath(root)
        os.makedirs(path, exist_ok=True)
        settings["cwd"] = path
        settings["config"]["workspace"] = path
    if env is not None:
        for name in env:
            if not isinstance(name, str):
                raise TypeError("Environment variable names must be strings.")
        settings["env"] = {name: str(value) for name, value in env.items()}
    return settings


def _thread_id(runtime: Runtime[Any]) -> str | None:
    return None if runtime.execution_info is None else runtime.execution_info.thread_id


def _said(messages: Sequence[AnyMessage]) -> list[str]:
    """What the user has said since the last answer."""
    said: list[str] = []
    for message in reversed(messages):
        if not isinstance(message, HumanMessage):
            break
        said.append(_text(message))
    return said[::-1]


def _text(message: BaseMessage) -> str:
    return str(message.text)


def _plain(message: BaseMessage) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": message.type, "content": message.content}
    calls = getattr(message, "tool_calls", None)
    if calls:
        plain["tool_calls"] = [{"id": call["id"], "name": call["name"], "args": call["args"]} for call in calls]
    return plain


def _model_call(request: ModelRequest[Any], response: Any, duration: float) -> dict[str, Any]:
    messages = response.result if isinstance(response, ModelResponse) else [response]
    # Only what is new since the last answer: the whole conversation each time would grow with its square.
    asked = list(request.messages)
    new = next((i for i in range(len(asked), 0, -1) if asked[i - 1].type == "ai"), 0)
    prompt = [_plain(message) for message in asked[new:]]
    if new == 0 and request.system_message is not None:
        prompt.insert(0, _plain(request.system_message))
    return {
        "prompt": prompt,
        "response": [_plain(message) for message in messages if isinstance(message, BaseMessage)],
        "token_usage": next((m.usage_metadata for m in messages if isinstance(m, AIMessage) and m.usage_metadata), None),
        "duration": duration,
        "messages_before": new,
        "model": type(request.model).__name__,
    }


def _tool_call(
    request: ToolCallRequest, answer: ToolAnswer | None, duration: float, error: Exception | None = None
) -> dict[str, Any]:
    failed = isinstance(answer, ToolMessage) and answer.status == "error"
    output = _text(answer) if isinstance(answer, ToolMessage) else None if answer is None else repr(answer.update)
    return {
        "tool_name": request.tool_call["name"],
        "parameters": request.tool_call["args"],
        "output": None if failed else output,
        "error": repr(error) if error is not None else output if failed else None,
        "duration": duration,
    }


def _quietly(work: Callable[[], object]) -> None:
    try:
        work()
    except (ShellkeepError, TypeError, ValueError) as error:
        log.warning("not recorded: %s", error)


async def _aquietly(work: Awaitable[object]) -> None:
    try:
        await work
    except (ShellkeepError, TypeError, ValueError) as error:
        log.warning("not recorded: %s", error)
