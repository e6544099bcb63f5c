"""LangChain's own shell and shellkeep's, in the same agent: what each keeps.

    python beside_langchain.py
"""

from __future__ import annotations

from typing import Any

from fake_model import FakeModel
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, ShellToolMiddleware
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

import shellkeep
from shellkeep.langchain import ShellkeepMiddleware

APPROVE: Any = Command(resume={"decisions": [{"type": "approve"}]})


def approval(shell: Any) -> str:
    """The user approves each command; the second one asks for what the first one set."""
    graph = create_agent(
        FakeModel(), middleware=[HumanInTheLoopMiddleware(interrupt_on={"shell": True}), shell], checkpointer=InMemorySaver()
    )
    config: Any = {"configurable": {"thread_id": "approval"}}
    graph.invoke({"messages": [HumanMessage("$ export A=1; echo $$\n$ echo \"A=$A pid=$$\"")]}, config)
    graph.invoke(APPROVE, config)
    state = graph.invoke(APPROVE, config)
    first, second = [str(m.text).strip() for m in state["messages"] if isinstance(m, ToolMessage)]
    same = "the same shell" if f"pid={first}" in second else "another shell"
    return f"{second.split()[0]}, {same}"


def between_calls(shell: Any) -> str:
    """Two calls of `invoke` with one thread."""
    graph = create_agent(FakeModel(), middleware=[shell], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "calls"}}
    graph.invoke({"messages": [HumanMessage("$ cd /tmp; f() { echo f is there; }; echo kept > \"$OLDPWD/note\"")]}, config)
    state = graph.invoke({"messages": [HumanMessage('$ pwd; f; cat "$OLDPWD/note"')]}, config)
    return ", ".join(str(state["messages"][-1].text).split("\n\n")[0].split("\n")).strip(", ")


def time_travel(shell: Any) -> str:
    """Back to the checkpoint after the first command."""
    graph = create_agent(FakeModel(), middleware=[shell], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "travel"}}
    graph.invoke({"messages": [HumanMessage("$ echo one > file\n$ echo two > file")]}, config)
    for state in graph.get_state_history(config):
        if sum(isinstance(message, ToolMessage) for message in state.values["messages"]) == 1:
            back = graph.invoke({"messages": [HumanMessage("$ cat file")]}, state.config)
            return str(back["messages"][-1].text).split("\n")[0]
    raise AssertionError("there is no such checkpoint")


def main() -> None:
    with shellkeep.Client.local() as client:
        for scene in (approval, between_calls, time_travel):
            print((scene.__doc__ or "").strip())
            print(f"    ShellToolMiddleware   {scene(ShellToolMiddleware())}")
            print(f"    ShellkeepMiddleware   {scene(ShellkeepMiddleware(client=client))}")


if __name__ == "__main__":
    main()
