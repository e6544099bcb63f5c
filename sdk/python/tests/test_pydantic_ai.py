"""Pydantic AI: its own suite for workspaces, and an agent that continues in the session of its first run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, WorkspaceRef
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.workspaces import Workspace, WorkspaceBackend, WorkspaceTimeoutError
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite

import shellkeep
from shellkeep.pydantic_ai import PROVIDER, ShellkeepCapability, ShellkeepLocalWorkspace, ShellkeepWorkspace, workspace


class TestLocal(WorkspaceBackendSuite):
    """The published suite, with a daemon on this machine."""

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.fixture
    async def backend(self, daemon: shellkeep.Client) -> AsyncIterator[Any]:
        made = ShellkeepLocalWorkspace(daemon)
        yield made
        await made.aclose()

    @pytest.fixture
    def fresh_backend(self, daemon: shellkeep.Client) -> Callable[[], Any]:
        return lambda: ShellkeepLocalWorkspace(daemon)

    @pytest.fixture
    def attach_backend(self, daemon: shellkeep.Client) -> Callable[[WorkspaceRef], Any]:
        return lambda ref: ShellkeepLocalWorkspace(daemon, ref)

    @pytest.fixture
    def destroy_environment(self, daemon: shellkeep.Client) -> Callable[[WorkspaceBackend], Awaitable[None]]:
        async def destroy(made: WorkspaceBackend) -> None:
            assert made.ref is not None
            daemon.attach(made.ref.id).delete()

        return destroy


async def test_commands_and_files_of_a_daemon_elsewhere(client: shellkeep.Client) -> None:
    """Without a way to its files, Pydantic AI works on them through the shell."""
    backend = ShellkeepWorkspace(client)
    files = Workspace(backend)
    await files.write_bytes("dir/note", b"\xff\0one")
    assert await files.read_bytes("dir/note") == b"\xff\0one"
    assert (await backend.run(["cat", "dir/note"])).stdout == "\ufffd\0one"
    with pytest.raises(WorkspaceTimeoutError) as late:
        await backend.run("echo begun; sleep 600", shell=True, timeout=0.5)
    assert late.value.stdout == "begun\n"
    # More than one answer holds, and each page of it ends in the middle of a character.
    large = await backend.run("printf a; yes é | head -n 10000000 | tr -d '\\n'", shell=True)
    assert large.stdout == "a" + "é" * 10_000_000
    await backend.aclose()


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[shellkeep.Client]:
    """A daemon whose files this process does not see."""
    hidden = 'mount -t tmpfs tmpfs "$0" && exec "$@"'
    isolate = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", hidden, str(tmp_path)]
    serve = [shellkeep.find_bin(), "serve", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data")]
    environment = {**os.environ, "SHELLKEEP_TOKEN": "of-the-host-itself"}
    with subprocess.Popen([*isolate, *serve], env=environment, stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        addresses = (line.split()[-1] for line in daemon.stdout if "http://" in line)
        address = next(addresses, None)
        assert address is not None, "the daemon did not start; unshare must be allowed to make a namespace"
        with shellkeep.Client(address, token="of-the-host-itself") as client:
            yield client
        daemon.terminate()


async def test_a_workspace_on_another_machine(elsewhere: shellkeep.Client) -> None:
    """Its directory was made on this machine, where it is of no use."""
    backend = workspace(elsewhere)
    assert type(backend) is ShellkeepWorkspace
    where = await backend.working_dir()
    assert not os.path.exists(where)
    files = Workspace(backend)
    await files.write_bytes("dir/note", b"\xff\0one")
    assert await files.read_bytes("dir/note") == b"\xff\0one"
    assert (await backend.run("pwd; ls dir", shell=True)).stdout == f"{where}\nnote\n"
    assert not os.path.exists(where)
    await backend.aclose()


def test_the_kind_follows_the_client(client: shellkeep.Client) -> None:
    assert isinstance(workspace(client), ShellkeepLocalWorkspace)
    assert type(workspace(shellkeep.Client("http://127.0.0.1:1", token="x"))) is ShellkeepWorkspace
    with pytest.raises(ValueError, match="is of other"):
        workspace(client, WorkspaceRef(provider="other", id="x"))


def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Runs the command of the last user prompt, then answers with what it printed."""
    last: Any = messages[-1].parts[-1]
    if last.part_kind == "tool-return":
        return ModelResponse(parts=[TextPart(last.content)])
    return ModelResponse(parts=[ToolCallPart("sh", {"command": last.content})])


async def test_a_later_run_continues_in_the_session(client: shellkeep.Client) -> None:
    agent = Agent(FunctionModel(reply), capabilities=[ShellkeepCapability(client)])

    @agent.tool
    async def sh(ctx: RunContext[None], command: str) -> str:
        assert ctx.workspace is not None
        return (await ctx.workspace.run(command, shell=True)).stdout

    first = await agent.run("export A=1; echo kept > note; pwd")
    ref = WorkspaceRef(provider=PROVIDER, id=first.output.strip().rsplit("/", 1)[-1])
    second = await agent.run("echo $A; cat note", workspace=ref)
    assert second.output == "1\nkept\n"
