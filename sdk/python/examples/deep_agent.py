"""A deep agent whose session is still there for the next agent of the thread.

    python deep_agent.py
"""

from __future__ import annotations

from typing import Any

from deepagents import create_deep_agent
from fake_model import FakeModel
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

import shellkeep
from shellkeep.deepagents import ShellkeepBackend


def main() -> None:
    config: Any = {"configurable": {"thread_id": "demo"}}
    with shellkeep.Client.local() as client:
        for command in ("cd /usr/share; export NAME=ann", 'echo "$NAME in $PWD"'):
            # A new agent each time: what is kept is in the session.
            agent = create_deep_agent(
                FakeModel(tool="execute"), backend=ShellkeepBackend(client), checkpointer=InMemorySaver()
            )
            state = agent.invoke({"messages": [HumanMessage(f"$ {command}")]}, config)
            print(f"$ {command}\n{state['messages'][-1].text}")
        kept = str(state["messages"][-1].text)
        assert "ann in /usr/share" in kept, kept


if __name__ == "__main__":
    main()
