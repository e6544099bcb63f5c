"""OpenAI Agents, Google ADK, Microsoft Agent Framework, mini-SWE-agent and SWE-ReX, each with its own fake model or types."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from agent_framework import Agent as MsafAgent
from agent_framework import BaseChatClient, ChatResponse, Content, FunctionInvocationLayer, Message
from agent_framework_tools.shell import ShellExecutor
from agents import Agent, Runner, ShellTool, set_tracing_disabled
from agents.memory import Session
from agents.testing import ScriptedModel, assistant_message
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.environment import EnvironmentToolset
from google.genai import types
from minisweagent.agents.default import DefaultAgent
from minisweagent.models.test_models import DeterministicModel, make_output
from openai.types.responses.response_function_shell_tool_call import Action, ResponseFunctionShellToolCall
from swerex.exceptions import CommandTimeoutError, NonZeroExitCodeError, SessionDoesNotExistError
from swerex.runtime.abstract import (
    BashAction,
    BashInterruptAction,
    CloseBashSessionRequest,
    Command,
    CreateBashSessionRequest,
    ReadFileRequest,
    UploadRequest,
    WriteFileRequest,
)

import shellkeep
from shellkeep.adk import ShellkeepEnvironment
from shellkeep.mini import ShellkeepEnvironment as MiniEnvironment
from shellkeep.msaf import ShellkeepExecutor
from shellkeep.openai import ShellkeepMemory, shell_executor
from shellkeep.swerex import ShellkeepRuntime

# No trace is sent anywhere.
set_tracing_disabled(True)


def shell_call(call_id: str, *commands: str, timeout_ms: int | None = None) -> Any:
    return ResponseFunctionShellToolCall(
        id=f"sh_{call_id}",
        call_id=call_id,
        type="shell_call",
        status="completed",
        action=Action(commands=list(commands), timeout_ms=timeout_ms, max_output_length=None),
        environment=None,
    )


async def test_openai_shell_and_memory(asession: shellkeep.AsyncSession) -> None:
    def agent(*steps: Any) -> Agent[Any]:
        return Agent(name="a", model=ScriptedModel(list(steps)), tools=[ShellTool(executor=shell_executor(asession))])

    memory = ShellkeepMemory(asession)
    assert isinstance(memory, Session)
    first = agent([shell_call("c1", "cd /tmp; export A=1", "echo ran >> /dev/stderr; false")], [assistant_message("ok")])
    await Runner.run(first, "go", session=memory)
    second = agent([shell_call("c2", "echo $A $PWD", "sleep 600", "echo never", timeout_ms=500)], [assistant_message("ok")])
    done = await Runner.run(second, "again", session=memory)
    given: list[Any] = list(done.to_input_list())
    result = [item for item in given if item.get("type") == "shell_call_output"][-1]
    assert [(part["stdout"], part["outcome"]["type"]) for part in result["output"]] == [("1 /tmp\n", "exit"), ("", "timeout")]
    items: Any = await memory.get_items()
    assert [item["content"] for item in items if item.get("role") == "user"] == ["go", "again"]


async def test_openai_memory_takes_back_and_keeps_the_record(asession: shellkeep.AsyncSession) -> None:
    memory = ShellkeepMemory(asession)
    items: Any = [{"role": "user", "content": str(n)} for n in range(4)]
    assert (await memory.pop_item(), await memory.get_items()) == (None, [])
    await memory.add_items(items)
    await memory.add_items([])
    assert await memory.pop_item() == items[3]
    assert await ShellkeepMemory(asession).get_items(2) == items[1:3]
    assert await memory.get_items(0) == []
    await memory.clear_session()
    assert await memory.get_items() == []


async def test_openai_repeats_nothing(asession: shellkeep.AsyncSession) -> None:
    for _ in range(2):
        call = [shell_call("same", "echo ran >> log; cat log")]
        agent: Agent[Any] = Agent(
            name="a",
            model=ScriptedModel([call, [assistant_message("ok")]]),
            tools=[ShellTool(executor=shell_executor(asession))],
        )
        await Runner.run(agent, "go")
    assert (await asession.run("cat log")).stdout == "ran\n"


async def test_google_adk(client: shellkeep.Client, thread: str) -> None:
    environment = ShellkeepEnvironment(client, session=thread)
    with pytest.raises(RuntimeError, match="initialize"):
        _ = environment.working_dir
    await environment.initialize()
    assert EnvironmentToolset(environment=environment)
    done = await environment.execute("export A=1; echo out; echo err >&2; (exit 3)")
    assert (done.exit_code, done.stdout, done.stderr) == (3, "out\n", "err\n")
    late = await environment.execute("echo begun; sleep 600", timeout=0.5)
    assert (late.timed_out, late.stdout) == (True, "begun\n")
    await environment.write_file(Path("dir/note"), b"\xff\0" * 3_000_000)
    assert await environment.read_file(Path("dir/note")) == b"\xff\0" * 3_000_000
    assert (await environment.execute("stat -c %s dir/note; echo $A")).stdout == "6000000\n1\n"
    with pytest.raises(FileNotFoundError):
        await environment.read_file(Path("none"))
    with pytest.raises(IsADirectoryError):
        await environment.write_file(Path("dir"), "x")
    await environment.close()


class AdkScript(BaseLlm):
    """A model of ADK that answers with what it is given."""

    script: list[types.Part]

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        yield LlmResponse(content=types.Content(role="model", parts=[self.script.pop(0)]))


async def test_google_adk_agent(client: shellkeep.Client, thread: str) -> None:
    """Two runs of ADK's own agent: the second one finds the shell and the files of the first."""

    async def ask(*script: types.Part) -> list[dict[str, Any]]:
        tools = EnvironmentToolset(environment=ShellkeepEnvironment(client, session=thread))
        agent = LlmAgent(name="agent", model=AdkScript(model="script", script=list(script)), tools=[tools])
        runner = InMemoryRunner(agent)
        events = await runner.run_debug("go", quiet=True)
        await runner.close()
        parts = [part for event in events for part in (event.content.parts or [] if event.content else [])]
        return [dict(part.function_response.response or {}) for part in parts if part.function_response]

    call, done = types.Part.from_function_call, types.Part.from_text(text="done")
    first = await ask(
        call(name="Execute", args={"command": "export A=1; cd /tmp; (exit 3)"}),
        call(name="WriteFile", args={"path": "note", "content": "kept"}),
        done,
    )
    assert [answer["status"] for answer in first] == ["error", "ok"]
    second = await ask(
        call(name="Execute", args={"command": "echo $A $PWD"}), call(name="ReadFile", args={"path": "note"}), done
    )
    assert second[0]["stdout"] == "1 /tmp\n"
    assert "kept" in str(second[1])


class MsafScript(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """A model of the Agent Framework that answers with what it is given."""

    def __init__(self, *script: Content) -> None:
        super().__init__()
        self.script = list(script)

    def _inner_get_response(self, **arguments: Any) -> Any:
        async def answer() -> ChatResponse[Any]:
            return ChatResponse(messages=[Message("assistant", [self.script.pop(0)])])

        return answer()


async def test_microsoft_agent(client: shellkeep.Client, thread: str) -> None:
    """Two runs of the framework's own agent, each with an executor of its own, in one session."""

    async def ask(*commands: str) -> list[str]:
        calls = [Content.from_function_call(f"c{n}", "run_shell", arguments={"command": c}) for n, c in enumerate(commands)]
        async with ShellkeepExecutor(client, session=thread) as shell:
            tools = [shell.as_function(approval_mode="never_require")]
            agent = MsafAgent(MsafScript(*calls, Content.from_text("done")), tools=tools)
            answer = await agent.run("go")
        assert answer.text == "done"
        contents = [content for message in answer.messages for content in message.contents]
        return [str(content.result) for content in contents if content.type == "function_result"]

    assert await ask("export A=1; cd /tmp", "false") == ["exit_code: 0", "exit_code: 1"]
    assert await ask("echo $A $PWD") == ["1 /tmp\n\nexit_code: 0"]
    assert ShellkeepExecutor(client, session=thread).as_function().approval_mode == "always_require"


async def test_microsoft_agent_framework(client: shellkeep.Client, thread: str) -> None:
    executor: ShellExecutor = ShellkeepExecutor(client, session=thread)
    async with executor:
        await executor.run("export A=1")
        late = await executor.run("echo begun; sleep 600", timeout=0.5)
        assert (late.timed_out, late.stdout) == (True, "begun\n")
    async with ShellkeepExecutor(client, session=thread) as again:
        done = await again.run("echo $A; (exit 3)")
        assert (done.stdout, done.exit_code, done.timed_out) == ("1\n", 3, False)


def test_mini_swe_agent(client: shellkeep.Client, thread: str) -> None:
    environment = MiniEnvironment(client=client, session=thread, timeout=5)
    outputs = [
        make_output("1", [{"command": "mkdir -p src && cd src && export A=1"}]),
        make_output("2", [{"command": "basename $PWD > ../log; echo $A >> ../log; false"}]),
        make_output("3", [{"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat ../log"}]),
    ]
    model: Any = DeterministicModel
    agent = DefaultAgent(
        model(outputs=outputs),
        environment,
        system_template="s",
        instance_template="{{task}} {{system}}",
        step_limit=10,
        cost_limit=100,
    )
    result: Any = agent.run("do it")
    assert result["exit_status"] == "Submitted"
    assert result["submission"] == "src\n1\n"
    assert environment.serialize()["info"]["config"]["environment"]["session"] == thread
    late = environment.execute({"command": "echo begun; sleep 600"}, timeout=1)
    assert late["returncode"] == -1
    assert late["output"] == "begun\n"


async def test_swe_rex(client: shellkeep.Client, thread: str, tmp_path: Path) -> None:
    runtime = ShellkeepRuntime(client, prefix=thread)
    assert await runtime.is_alive()
    with pytest.raises(SessionDoesNotExistError):
        await runtime.run_in_session(BashAction(command="true"))
    await runtime.create_session(CreateBashSessionRequest())
    await runtime.run_in_session(BashAction(command="cd /tmp; export A=1"))
    seen = await runtime.run_in_session(BashAction(command="echo $A $PWD; (exit 2)", check="silent"))
    assert (seen.output, seen.exit_code) == ("1 /tmp\n", 2)
    with pytest.raises(NonZeroExitCodeError, match="no good"):
        await runtime.run_in_session(BashAction(command="false", error_msg="no good"))
    with pytest.raises(CommandTimeoutError):
        await runtime.run_in_session(BashAction(command="sleep 600", timeout=0.5))
    await runtime.run_in_session(BashInterruptAction())
    done = await runtime.execute(Command(command=["sh", "-c", "echo $B; echo err >&2"], env={"B": "2"}, cwd="/"))
    assert (done.stdout, done.stderr, done.exit_code) == ("2\n", "err\n", 0)
    await runtime.write_file(WriteFileRequest(path=str(tmp_path / "a" / "note"), content="ä"))
    assert (await runtime.read_file(ReadFileRequest(path=str(tmp_path / "a" / "note")))).content == "ä"
    await runtime.upload(UploadRequest(source_path=str(tmp_path / "a"), target_path=str(tmp_path / "b" / "c")))
    assert (tmp_path / "b" / "c" / "note").read_text() == "ä"
    await runtime.close()

    again = ShellkeepRuntime(client, prefix=thread)
    await again.create_session(CreateBashSessionRequest())
    assert (await again.run_in_session(BashAction(command="echo $A"))).output == "1\n"
    await again.close_session(CloseBashSessionRequest())
    await again.close()
