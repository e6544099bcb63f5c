"""A chat model that needs no service: it runs the lines of the user's message that begin with `$ `, one after the other,
and answers with what the last one printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable


class FakeModel(BaseChatModel):
    """Calls `tool` with each command in turn; lines that begin with `& ` are called together with the line before."""

    tool: str = "shell"

    @property
    def _llm_type(self) -> str:
        return "fake"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._next(messages))])

    def _next(self, messages: list[BaseMessage]) -> AIMessage:
        asked = max(i for i, message in enumerate(messages) if isinstance(message, HumanMessage))
        rounds = _rounds(str(messages[asked].text))
        done = sum(isinstance(message, AIMessage) for message in messages[asked:])
        if done < len(rounds):
            calls = [
                {"name": self.tool, "args": {"command": command}, "id": f"call_{asked}_{done}_{i}"}
                for i, command in enumerate(rounds[done])
            ]
            return AIMessage("", tool_calls=calls)
        last = messages[-1]
        return AIMessage(str(last.text) if isinstance(last, ToolMessage) else "nothing to do")


def _rounds(text: str) -> list[list[str]]:
    rounds: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            rounds.append([line[2:]])
        elif line.startswith("& ") and rounds:
            rounds[-1].append(line[2:])
    return rounds
