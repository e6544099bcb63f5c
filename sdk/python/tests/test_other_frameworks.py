"""OpenAI Agents, Google ADK, Microsoft Agent Framework, mini-SWE-agent and SWE-ReX, each with its own fake model or types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agent_framework_tools.shell import ShellExecutor
from agents import Agent, Runner, ShellTool, set_tracing_disabled
from agents.memory import Session
from agents.testing import ScriptedModel, assistant_message
from google.adk.tools.environment import EnvironmentToolset
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
