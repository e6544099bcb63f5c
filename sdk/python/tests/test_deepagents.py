"""deepagents: its own suite for sandboxes, and what a durable session adds."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from deepagents import create_deep_agent
from deepagents.backends.protocol import SandboxBackendProtocol
from fake_model import FakeModel
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import HumanMessage
from langchain_tests.integration_tests import SandboxIntegrationTests
from langgraph.checkpoint.memory import InMemorySaver

import shellkeep
from shellkeep.deepagents import ShellkeepBackend

#: They fail for every provider: the suite expects relative paths of glob and a write that refuses to replace.
FAIL_EVERYWHERE = (
    "test_glob",
    "test_glob_basic_pattern",
    "test_glob_with_directories",
    "test_glob_hidden_files_explicitly",
    "test_glob_with_character_class",
    "test_glob_with_question_mark",
    "test_write_existing_file_fails",
)


class TestSandbox(SandboxIntegrationTests):
    """The published suite, outside of the workspace."""

    @pytest.fixture(scope="class")
    def sandbox(self, daemon: shellkeep.Client) -> Iterator[SandboxBackendProtocol]:
        yield ShellkeepBackend(daemon, session=f"suite-{uuid.uuid4().hex[:8]}")


class TestSandboxInTheWorkspace(SandboxIntegrationTests):
    """The published suite, in the workspace."""

    root = ""

    @property
    def sandbox_root_dir(self) -> str:
        return self.root

    @pytest.fixture(scope="class")
    def sandbox(self, daemon: shellkeep.Client) -> Iterator[SandboxBackendProtocol]:
        backend = ShellkeepBackend(daemon, session=f"suite-{uuid.uuid4().hex[:8]}")
        type(self).root = f"{backend.session.workspace}/ops"
        yield backend


for suite in (TestSandbox, TestSandboxInTheWorkspace):
    for name in FAIL_EVERYWHERE:
        fails = pytest.mark.xfail(strict=True, reason="fails for every provider")
        setattr(suite, name, fails(getattr(SandboxIntegrationTests, name)))


def config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


def ask(graph: Any, thread: str, text: str) -> str:
    state = graph.invoke({"messages": [HumanMessage(text)]}, config(thread))
    return str(state["messages"][-1].text)


def agent(client: Any, *middleware: Any) -> Any:
    return create_deep_agent(
        FakeModel(tool="execute"),
        backend=ShellkeepBackend(client),
        middleware=middleware,
        checkpointer=InMemorySaver(),
    )


def test_each_thread_has_its_session(client: shellkeep.Client, thread: str) -> None:
    graph = agent(client)
    ask(graph, thread, "$ cd /tmp; export A=1; f() { echo f; }")
    assert "1 /tmp\nf\n" in ask(graph, thread, "$ echo $A $PWD; f")
    assert "[]" in ask(graph, f"{thread}-2", "$ echo [$A]")
    assert client.attach(thread).run("echo $A").stdout == "1\n"


def test_files_are_used_beside_a_command_that_runs(client: shellkeep.Client, thread: str) -> None:
    backend = ShellkeepBackend(client, session=thread)
    room = backend.session.workspace
    backend.execute("mkdir deep; cd deep; mkfifo ../go")
    running = threading.Thread(target=backend.execute, args=(f"cat {room}/go",))
    running.start()
    assert backend.write(f"{room}/dir/note", "one\ntwo\n").error is None
    assert backend.edit(f"{room}/dir/note", "two", "three").occurrences == 1
    read = backend.read(f"{room}/dir/note")
    assert read.file_data is not None
    assert read.file_data["content"] == "one\nthree"
    assert [match["line"] for match in backend.grep("three", room).matches or []] == [2]
    assert [match["path"] for match in backend.glob("*ote", room).matches or []] == [f"{room}/dir/note"]
    assert [entry["path"] for entry in backend.ls(f"{room}/dir").entries or []] == [f"{room}/dir/note"]
    assert backend.delete(f"{room}/dir").error is None
    assert backend.read(f"{room}/dir/note").error == f"File '{room}/dir/note': file_not_found"
    assert running.is_alive()
    with open(f"{room}/go", "w"):
        pass
    running.join()
    assert backend.execute("echo a; echo b >&2; echo c").output.startswith("a\nb\nc\n")
    events = list(backend.session.events.list())
    commands = [event.data.get("command") for event in events if event.event_type == "run_started"]
    assert commands[:2] == ["mkdir deep; cd deep; mkfifo ../go", f"cat {room}/go"]
    assert len(commands) == 3
    calls = [event.data["tool_name"] for event in events if event.event_type == "tool_call"]
    assert [name for name in calls if name != "run_command"] == ["write_file", "write_file", "remove_file"]
    assert not [info for info in client.sessions() if info.session_id.startswith(f"{thread}.")]


def test_links_hidden_files_and_large_trees(client: shellkeep.Client, thread: str) -> None:
    """A search sees what grep sees, whether the files are fetched or are so many that grep itself is run."""
    backend = ShellkeepBackend(client, session=thread)
    room = backend.session.workspace
    backend.execute("mkdir -p .git .ci; echo word | tee a .ci/b.yml .git/c; ln -s a link; ln -s /etc/passwd out; printf 'word\\0' >bin")

    def paths(found: Any) -> list[str]:
        return sorted(match["path"].removeprefix(f"{room}/") for match in found.matches)

    assert paths(backend.grep("word", room)) == [".ci/b.yml", "a"]
    assert paths(backend.grep("word", f"{room}/.git")) == [".git/c"]
    assert paths(backend.grep("word", room, "*.yml")) == [".ci/b.yml"]
    assert paths(backend.glob("*", room)) == [".ci/b.yml", ".git/c", "a", "bin", "link"]
    assert paths(backend.glob("*.yml", room)) == [".ci/b.yml"]
    assert backend.grep("word", room, max_count=1).truncated
    assert "not_a_directory" in str(backend.ls(f"{room}/a").error)
    assert "not_a_file" in str(backend.read(room).error)
    assert backend.grep("word", f"{room}/none").matches == []
    assert backend.glob("*", f"{room}/none").error is not None
    backend.execute("for i in $(seq 1100); do echo word >many-$i; done")
    assert len(paths(backend.grep("word", room))) == 1102
    assert len(paths(backend.glob("many-*", room))) == 1100


def test_contents_of_any_size_and_kind(client: shellkeep.Client, thread: str) -> None:
    backend = ShellkeepBackend(client, session=thread)
    room = backend.session.workspace
    odd = bytes(range(256)) * 40_000
    (up,) = backend.upload_files([(f"{room}/a b'c", odd)])
    assert up.error is None
    (down,) = backend.download_files([f"{room}/a b'c"])
    assert (down.error, down.content) == (None, odd)
    errors = [r.error for r in backend.download_files([f"{room}/none", room, "relative", "/etc/\0"])]
    assert errors == ["file_not_found", "is_directory", "invalid_path", "invalid_path"]
    assert [r.error for r in backend.upload_files([(room, b""), ("relative", b"")])] == ["is_directory", "invalid_path"]


class CrashAfter(AgentMiddleware[Any, Any, Any]):
    """Fails once after a tool has done its work, before its result is kept."""

    left = 1

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        answer = handler(request)
        if self.left:
            self.left = 0
            raise RuntimeError("crash")
        return answer


def test_a_crashed_tool_node_runs_its_command_once(client: shellkeep.Client, thread: str) -> None:
    graph = agent(client, CrashAfter())
    with pytest.raises(RuntimeError, match="crash"):
        ask(graph, thread, "$ echo ran >> log; cat log")
    state = graph.invoke(None, config(thread))
    assert state["messages"][-1].text.count("ran") == 1
    assert client.attach(thread).run("cat log").stdout == "ran\n"


async def test_async_and_a_timeout(client: shellkeep.Client, thread: str) -> None:
    backend = ShellkeepBackend(client, session=thread, timeout=0.5)
    await backend.aexecute("export A=1")
    late = await backend.aexecute("echo begun; sleep 600")
    assert late.output.startswith("begun\n\nThe command was killed after its timeout of 0.5 s.")
    assert (await backend.aexecute("echo $A", timeout=30)).output == "1\n"
    await backend.aclose()


def test_an_edit_is_recorded_in_the_agents_session(client: shellkeep.Client, thread: str) -> None:
    """It went through a second session, whose recording nobody reads."""
    backend = ShellkeepBackend(client, session=thread)
    session = backend.session
    session.run("printf 'one\\r\\ntwo\\r\\n' > script; chmod 755 script; ln -s script link")
    path = f"{session.workspace}/script"
    assert backend.edit(path, "one\ntwo", "1\n2").occurrences == 1
    assert session.run("cat script; stat -c %a script").stdout == "1\r\n2\r\n755\n"
    recorded = [event for event in session.events.list() if event.event_type == "tool_call"]
    assert any("script" in str(event.data) for event in recorded), recorded
    assert backend.edit(f"{session.workspace}/link", "1", "one").occurrences == 1
    assert session.run("cat script; readlink link").stdout == "one\r\n2\r\nscript\n"
    assert "not found" in str(backend.edit(path, "three", "3").error)
