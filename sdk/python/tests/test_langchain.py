"""LangChain's `create_agent` with our middleware: the shell outlives what ends LangChain's own."""

from __future__ import annotations

import asyncio
import inspect
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fake_model import FakeModel
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    DockerExecutionPolicy,
    HostExecutionPolicy,
    HumanInTheLoopMiddleware,
    RedactionRule,
    ShellToolMiddleware,
)
from langchain.tools import tool
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

import shellkeep
from shellkeep.langchain import ShellkeepMiddleware
from shellkeep.langgraph import ShellkeepSaver, resume_session

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def config(thread: object) -> Any:
    return {"configurable": {"thread_id": thread}}


def agent(client: Any, *before: Any, saver: Any = None, **arguments: Any) -> Any:
    shell = ShellkeepMiddleware(client=client, **arguments)
    return create_agent(FakeModel(), middleware=[*before, shell], checkpointer=saver or InMemorySaver())


def ask(graph: Any, thread: object, text: str) -> str:
    state = graph.invoke({"messages": [HumanMessage(text)]}, config(thread))
    return str(state["messages"][-1].text)


def shown(message: Any) -> str:
    """What a command printed, without the notice that the session went back."""
    return str(message.text).split("\n\nThis session ")[0].rstrip("\n") + "\n"


def session_of(client: shellkeep.Client, graph: Any, thread: object) -> shellkeep.Session:
    return client.attach(graph.get_state(config(thread)).values["shellkeep"]["session_id"])


def test_the_arguments_of_langchains_own_middleware_are_taken() -> None:
    ours = inspect.signature(ShellkeepMiddleware).parameters
    for name, parameter in inspect.signature(ShellToolMiddleware).parameters.items():
        assert name in ours
        assert ours[name].kind == parameter.kind
        assert ours[name].default == parameter.default
    assert [made.name for made in ShellkeepMiddleware().tools] == ["shell"]


def test_the_shell_is_kept_between_calls(client: shellkeep.Client, thread: str) -> None:
    graph = agent(client)
    first = ask(graph, thread, "$ cd /tmp; export A=1; echo $$")
    assert ask(graph, thread, "$ echo $A $PWD $$") == f"1 /tmp {first}"


def test_the_shell_is_kept_without_a_checkpointer_too(client: shellkeep.Client, thread: str) -> None:
    graph = create_agent(FakeModel(), middleware=[ShellkeepMiddleware(client=client)])
    ask(graph, thread, "$ export A=1")
    assert ask(graph, thread, "$ echo $A") == "1\n"


def test_an_approval_keeps_the_shell(client: shellkeep.Client, thread: str) -> None:
    graph = agent(client, HumanInTheLoopMiddleware(interrupt_on={"shell": True}))
    approve: Any = Command(resume={"decisions": [{"type": "approve"}]})
    state = graph.invoke({"messages": [HumanMessage("$ export A=1; echo $$\n$ echo A=$A $$")]}, config(thread))
    assert "__interrupt__" in state
    state = graph.invoke(approve, config(thread))
    pid = state["messages"][-2].text
    assert "__interrupt__" in state
    state = graph.invoke(approve, config(thread))
    assert state["messages"][-1].text == f"A=1 {pid}"


def test_a_message_resumes_a_session(client: shellkeep.Client, thread: str) -> None:
    graph = agent(client)
    ask(graph, thread, "$ cd /tmp; export A=1")
    state = resume_session(graph, thread, "$ echo $A $PWD")
    assert state["messages"][-1].text == "1 /tmp\n"
    updates = list(resume_session(graph, thread, "$ echo streamed", stream=True))
    assert any("streamed" in str(update.get("model")) for update in updates)
    with pytest.raises(shellkeep.SessionNotFound, match="has no state for session"):
        resume_session(graph, f"{thread}-none", "hello")


class CrashAfter(AgentMiddleware[Any, Any, Any]):
    """Fails once after a tool has done its work, before its result is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 1

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        answer = handler(request)
        if self.left:
            self.left -= 1
            raise RuntimeError("crash")
        return answer


def test_a_crashed_tool_node_runs_its_command_once(client: shellkeep.Client, thread: str) -> None:
    graph = agent(client, CrashAfter())
    with pytest.raises(RuntimeError, match="crash"):
        ask(graph, thread, "$ echo ran >> log; cat log")
    state = graph.invoke(None, config(thread))
    assert state["messages"][-1].text == "ran\n"
    # And whoever goes on instead of repeating it finds the shell as it is.
    assert ask(graph, thread, "$ cat log") == "ran\n"


DYING = """
import os, sys
sys.path[:0] = [sys.argv[3]]
from fake_model import FakeModel
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
import shellkeep
from shellkeep.langchain import ShellkeepMiddleware

class Die(AgentMiddleware):
    def wrap_tool_call(self, request, handler):
        answer = handler(request)
        os.kill(os.getpid(), 9)

with SqliteSaver.from_conn_string(sys.argv[2]) as saver, shellkeep.Client(socket=sys.argv[1]) as client:
    again = len(sys.argv) > 4
    shell = ShellkeepMiddleware(client=client)
    graph = create_agent(FakeModel(), middleware=[shell] if again else [Die(), shell], checkpointer=saver)
    asked = None if again else {"messages": [HumanMessage("$ echo ran >> log; cat log")]}
    state = graph.invoke(asked, {"configurable": {"thread_id": "dying"}}, durability="sync")
    print(state["messages"][-1].text, end="")
"""


def test_a_process_that_dies_after_the_command_runs_it_once(own_client: shellkeep.Client, tmp_path: Path) -> None:
    daemon = own_client.daemon
    assert daemon is not None
    program = [sys.executable, "-c", DYING, daemon.socket, str(tmp_path / "checkpoints.db"), str(EXAMPLES)]
    assert subprocess.run(program).returncode == -9
    daemon.kill()
    daemon.restart()
    second = subprocess.run([*program, "again"], check=True, capture_output=True, text=True)
    assert second.stdout == "ran\n"


STEPS = "\n".join(
    f"$ mkdir -p d{n} && cd d{n}; echo {n} > file; say() {{ echo step {n}; }}; V={n}; export V" for n in range(1, 6)
)
LOOK = '$ basename "$PWD"; cat file; say; echo $V; ls'


def after_step(graph: Any, thread: str, number: int) -> Any:
    """The checkpoint after the tool call of that number."""
    for found in graph.get_state_history(config(thread)):
        calls = [m for m in found.values["messages"] if isinstance(m, ToolMessage)]
        if len(calls) == number and any("model" in name for name in found.next):
            return found.config
    raise AssertionError("there is no such checkpoint")


@pytest.mark.parametrize("mode", ["fork", "rewind", "ignore"])
def test_time_travel_takes_shell_and_files_along(client: shellkeep.Client, thread: str, mode: Any) -> None:
    graph = agent(client, on_time_travel=mode)
    ask(graph, thread, STEPS)
    first = session_of(client, graph, thread)
    there = after_step(graph, thread, 3)
    state = graph.invoke({"messages": [HumanMessage(LOOK)]}, there)
    seen = "d3\n3\nstep 3\n3\nfile\n" if mode != "ignore" else "d5\n5\nstep 5\n5\nfile\n"
    assert shown(state["messages"][-1]) == seen
    after = session_of(client, graph, thread)
    assert (after.id == first.id) == (mode != "fork")
    if mode == "fork":
        assert first.run('basename "$PWD"').stdout == "d5\n"
    # The thread goes on from where it went to.
    assert ask(graph, thread, LOOK) == seen


@pytest.mark.parametrize("mode", ["fork", "rewind"])
@pytest.mark.parametrize("of_the_saver", ["ignore", "fork", "rewind"])
def test_time_travel_with_our_saver_beside_it(client: shellkeep.Client, thread: str, mode: Any, of_the_saver: Any) -> None:
    """Saver and middleware both take the session back: whichever comes first, the shell is that of step 3."""
    saver = ShellkeepSaver(client, on_time_travel=of_the_saver)
    graph = agent(client, saver=saver, on_time_travel=mode)
    ask(graph, thread, STEPS)
    first = session_of(client, graph, thread)
    state = graph.invoke({"messages": [HumanMessage(LOOK)]}, after_step(graph, thread, 3))
    seen = "d3\n3\nstep 3\n3\nfile\n"
    assert (shown(state["messages"][-1]), ask(graph, thread, LOOK)) == (seen, seen)
    how = mode if of_the_saver == "ignore" else of_the_saver
    assert (session_of(client, graph, thread).id == first.id) == (how == "rewind")
    assert first.run('basename "$PWD"').stdout == ("d3\n" if how == "rewind" else "d5\n")


def test_time_travel_that_runs_the_same_node_again(client: shellkeep.Client, thread: str) -> None:
    """`invoke(None, old_config)`: LangGraph's own way to replay. Steps 4 and 5 run again, from step 3."""
    graph = agent(client)
    ask(graph, thread, STEPS.replace("echo 4 > file", "echo 4 >> ../log; echo 4 > file"))
    graph.invoke(None, after_step(graph, thread, 3))
    assert ask(graph, thread, "$ cat ../../log") == "4\n"


async def test_time_travel_of_calls_that_run_together(aclient: shellkeep.AsyncClient, thread: str) -> None:
    graph = agent(aclient, on_time_travel="rewind")
    await graph.ainvoke({"messages": [HumanMessage("$ echo 1 > file\n$ echo 2 > file\n$ echo 3 > file")]}, config(thread))
    together = HumanMessage("$ cat file; touch a\n& cat file; touch b\n& cat file; touch c\n$ ls")
    state = await graph.ainvoke({"messages": [together]}, after_step(graph, thread, 1))
    assert [shown(m) for m in state["messages"] if isinstance(m, ToolMessage)][1:] == ["1\n"] * 3 + ["a\nb\nc\nfile\n"]


def test_output_is_streamed_while_the_command_runs(client: shellkeep.Client, thread: str) -> None:
    graph = agent(client)
    ask(graph, thread, "$ mkfifo go")
    go = Path(session_of(client, graph, thread).workspace, "go")
    deltas = []
    for mode, event in graph.stream(
        {"messages": [HumanMessage("$ echo one; cat go")]}, config(thread), stream_mode=["tools", "custom"]
    ):
        if mode == "tools" and event["event"] == "tool-output-delta":
            deltas.append(event["delta"])
            if len(deltas) == 1:
                go.write_text("two\n")
    assert deltas == ["one\n", "two\n"]


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    if city == "nowhere":
        raise ValueError("no such city")
    return f"rain in {city}"


class Weatherman(FakeModel):
    def _next(self, messages: Any) -> AIMessage:
        if isinstance(messages[-1], HumanMessage) and "weather" in str(messages[-1].text):
            return AIMessage("", tool_calls=[{"name": "weather", "args": {"city": "Ulm"}, "id": "w"}])
        return super()._next(messages)


def test_what_the_agent_does_is_recorded(client: shellkeep.Client, thread: str) -> None:
    graph = create_agent(
        Weatherman(), [weather], middleware=[ShellkeepMiddleware(client=client)], checkpointer=InMemorySaver()
    )
    ask(graph, thread, "$ echo hi")
    ask(graph, thread, "weather?")
    kinds = ("user_input", "llm_call", "tool_call", "final_output")
    events = [event for event in client.attach(thread).events.list() if event.event_type in kinds]
    assert [event.event_type for event in events] == [
        *("user_input", "llm_call", "tool_call", "llm_call", "final_output"),
        *("user_input", "llm_call", "tool_call", "llm_call", "final_output"),
    ]
    assert events[0].data["message"] == "$ echo hi"
    assert events[1].data["response"][0]["tool_calls"][0]["args"] == {"command": "echo hi"}
    assert events[2].data["output"] == "hi\n"
    assert events[4].data["output"] == "hi\n"
    assert events[7].data["tool_name"] == "weather"
    assert (events[7].data["parameters"], events[7].data["output"]) == ({"city": "Ulm"}, "rain in Ulm")


async def test_async_is_the_same_and_cancelling_interrupts(client: shellkeep.Client, thread: str) -> None:
    shell = ShellkeepMiddleware(client=client)
    graph: Any = create_agent(FakeModel(), middleware=[shell], checkpointer=InMemorySaver())
    state = await graph.ainvoke({"messages": [HumanMessage("$ mkfifo started; export A=1")]}, config(thread))
    session = session_of(client, graph, thread)
    task = asyncio.create_task(
        graph.ainvoke({"messages": [HumanMessage("$ echo > started; sleep 600; echo late")]}, config(thread))
    )
    # Opening the other end of the pipe waits for the command.
    await asyncio.to_thread(Path(session.workspace, "started").read_text)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    state = await graph.ainvoke({"messages": [HumanMessage("$ echo $A")]}, config(thread))
    assert state["messages"][-1].text == "1\n"
    await shell.aclose()


def test_a_daemon_that_is_killed_under_a_command(own_client: shellkeep.Client, thread: str) -> None:
    daemon = own_client.daemon
    assert daemon is not None
    graph = agent(own_client)
    ask(graph, thread, "$ export A=1")
    asked = {"messages": [HumanMessage("$ echo begun; sleep 600")]}
    stream = graph.stream(asked, config(thread), stream_mode=["tools", "custom", "values"])
    last: Any = None
    for mode, value in stream:
        if mode == "tools" and value.get("event") == "tool-output-delta":
            daemon.kill()
            daemon.restart()
        if mode == "values":
            last = value
    lost = last["messages"][-2]
    assert lost.status == "error"
    assert "daemon died" in lost.text
    said = ask(graph, thread, "$ echo $A")
    assert said.startswith("1\n\nThis is a new shell")


@pytest.mark.parametrize("thread_id", [7, "", "a b/ü", "🐚" * 300, ".hidden", "x" * 5000, "line\nbreak\0nul", "../../etc"])
def test_any_text_is_a_thread(client: shellkeep.Client, thread_id: Any) -> None:
    graph = agent(client)
    ask(graph, thread_id, f"$ export A={len(str(thread_id))}")
    assert ask(graph, thread_id, "$ echo $A") == f"{len(str(thread_id))}\n"
    assert ask(graph, f"{thread_id}!", "$ echo [$A]") == "[]\n"


def test_odd_output(client: shellkeep.Client, thread: str) -> None:
    graph = agent(client, execution_policy=HostExecutionPolicy(max_output_bytes=1000))
    assert ask(graph, thread, "$ printf 'a\\377b'") == "a\ufffdb"
    assert ask(graph, thread, "$ true") == "<no output>"
    assert ask(graph, thread, "$ echo a; echo b >&2; echo c") == "a\nb\nc\n"
    large = ask(graph, thread, "$ head -c 10485760 /dev/zero | tr '\\0' x")
    assert large == "x" * 1000 + "\n\n... Output truncated at 1000 bytes (observed 10485760)."
    graph = agent(client)
    state = graph.invoke({"messages": [HumanMessage("$ seq 1 300; echo err >&2; (exit 3)")]}, config(thread))
    message = state["messages"][-2]
    assert message.status == "error"
    assert message.text.endswith("100\n\n... Output truncated at 100 lines (observed 301).\n\nExit code: 3")
    assert {k: message.artifact[k] for k in ("exit_code", "timed_out", "truncated_by_lines", "total_lines")} == {
        "exit_code": 3,
        "timed_out": False,
        "truncated_by_lines": True,
        "total_lines": 301,
    }
    json.dumps(message.artifact)


def test_a_timeout_leaves_the_session_usable(client: shellkeep.Client, thread: str) -> None:
    graph = agent(client, execution_policy=HostExecutionPolicy(command_timeout=0.5))
    ask(graph, thread, "$ export A=1")
    assert ask(graph, thread, "$ echo begun; sleep 600") == "begun\n\nError: Command timed out after 0.5 seconds."
    assert ask(graph, thread, "$ echo $A") == "1\n"


def test_startup_commands_run_once_and_env_and_root_count(
    client: shellkeep.Client, thread: str, tmp_path: Path
) -> None:
    arguments: Any = {"startup_commands": "echo started >> log", "env": {"N": 7}, "workspace_root": tmp_path / "root"}
    ask(agent(client, **arguments), thread, "$ true")
    assert ask(agent(client, **arguments), thread, "$ cat log; echo $N; pwd") == f"started\n7\n{tmp_path / 'root'}\n"
    with pytest.raises(shellkeep.CommandFailed, match="startup command 'false' ended"):
        ask(agent(client, startup_commands=["false"]), f"{thread}-2", "$ true")


def test_ending_a_thread_runs_the_shutdown_commands(client: shellkeep.Client, thread: str) -> None:
    shell = ShellkeepMiddleware(client=client, shutdown_commands=["echo $A > ended"])
    graph = create_agent(FakeModel(), middleware=[shell], checkpointer=InMemorySaver())
    ask(graph, thread, "$ export A=1")
    shell.end(thread)
    session = client.attach(thread)
    assert not session.info.live
    assert Path(session.workspace, "ended").read_text() == "1\n"


class Restarter(FakeModel):
    def _next(self, messages: Any) -> AIMessage:
        if isinstance(messages[-1], HumanMessage) and messages[-1].text == "restart":
            return AIMessage("", tool_calls=[{"name": "shell", "args": {"restart": True}, "id": "r"}])
        return super()._next(messages)


@pytest.mark.parametrize("may", [True, False])
def test_a_model_restarts_its_shell_only_where_the_host_lets_it(
    client: shellkeep.Client, thread: str, may: bool
) -> None:
    shell = ShellkeepMiddleware(client=client, agent_may_restart=may)
    graph = create_agent(Restarter(), middleware=[shell], checkpointer=InMemorySaver())
    ask(graph, thread, "$ export A=1")
    said = ask(graph, thread, "restart")
    assert said == "Shell session restarted." if may else "was not restarted" in said
    assert ask(graph, thread, "$ echo [$A]") == ("[]\n" if may else "[1]\n")


def test_redaction_rules_hold_for_output_and_stream(client: shellkeep.Client, thread: str) -> None:
    graph = agent(client, redaction_rules=[RedactionRule(pii_type="email", strategy="redact")])
    asked = {"messages": [HumanMessage("$ echo ann@example.com")]}
    seen = list(graph.stream(asked, config(thread), stream_mode=["tools", "values"]))
    assert "ann@example.com" not in str([value for mode, value in seen if mode == "tools" and "delta" in value])
    assert "[REDACTED_EMAIL]" in seen[-1][1]["messages"][-1].text


def test_what_cannot_be_taken_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="shellkeep runs bash"):
        ShellkeepMiddleware(shell_command="/bin/zsh")
    with pytest.raises(ValueError, match="inside the container"):
        ShellkeepMiddleware(execution_policy=DockerExecutionPolicy())
    with pytest.raises(ValueError, match="'fork', 'rewind' or 'ignore'"):
        ShellkeepMiddleware(on_time_travel="back")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="names must be strings"):
        ShellkeepMiddleware(env={1: "x"})  # type: ignore[dict-item]


def test_a_handle_does_not_enter_a_state(client: shellkeep.Client, thread: str) -> None:
    session = client.session(thread)
    with pytest.raises(TypeError, match="put session.ref into the state"):
        pickle.dumps(session)
    assert pickle.loads(pickle.dumps(session.ref)) == {"session_id": thread, "seq": 1}
