"""The examples of the READMEs and of docs/python run, and print what they say."""

from __future__ import annotations

import ast
import inspect
import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_framework import BaseChatClient, ChatResponse, Message
from agents.testing import ScriptedModel, assistant_message
from fake_model import FakeModel
from langgraph.checkpoint.memory import InMemorySaver
from pydantic_ai.models.test import TestModel as PydanticModel

import shellkeep

ROOT = Path(__file__).resolve().parents[3]
PAGES = ["sdk/python/README.md", "docs/python/client.md", "docs/python/langgraph.md"]


def stop(data: Path) -> None:
    """Stops the daemon that an example started."""
    with shellkeep.Client(data=data, start=False) as client:
        pid = client.ready().pid
    descriptor = os.pidfd_open(pid)
    os.kill(pid, signal.SIGTERM)
    select.select([descriptor], [], [], 30)
    os.close(descriptor)


@pytest.mark.parametrize("page", PAGES)
def test_examples(page: str, tmp_path: Path) -> None:
    text = (ROOT / page).read_text("utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    data = tmp_path / "data"
    environment = {**os.environ, "SHELLKEEP_DATA": str(data)}
    for name in ("SHELLKEEP_URL", "SHELLKEEP_SOCKET", "SHELLKEEP_TOKEN"):
        environment.pop(name, None)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    stop(data)
    assert done.returncode == 0, done.stderr
    printed = [line for line in done.stdout.splitlines() if line]
    for wanted in re.findall(r"# prints: (.*)", code):
        assert wanted in printed, (wanted, printed)


class ChatModel(BaseChatClient[Any]):
    """A model of the Microsoft Agent Framework that is done at once."""

    def _inner_get_response(self, **arguments: Any) -> Any:
        async def answer() -> ChatResponse[Any]:
            return ChatResponse(messages=[Message("assistant", ["done"])])

        return answer()


def blocks(page: str) -> list[Any]:
    found = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
    return [pytest.param(code, id=f"{Path(page).stem}-{number}") for number, code in enumerate(found)]


@pytest.mark.parametrize(
    "code",
    [
        *blocks("docs/python/langchain.md"),
        *blocks("docs/python/deepagents.md"),
        *blocks("docs/python/frameworks.md"),
        *blocks("README.md"),
    ],
)
async def test_each_framework(client: shellkeep.Client, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the names that a page takes for granted: a model, which is the framework's own fake, and a checkpointer."""
    assert client.daemon is not None
    for name in ("SHELLKEEP_URL", "SHELLKEEP_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SHELLKEEP_SOCKET", client.daemon.socket)
    monkeypatch.setenv("SHELLKEEP_DATA", client.daemon.data)
    model: Any = FakeModel()
    if "pydantic_ai" in code:
        model = PydanticModel()
    elif "shellkeep.openai" in code:
        model = ScriptedModel([[assistant_message("done")]])
    elif "shellkeep.msaf" in code:
        model = ChatModel()
    names = {"model": model, "checkpointer": InMemorySaver()}
    done = eval(compile(code, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    if inspect.isawaitable(done):
        await done
