# Generated from _async by tools/generate_sync.py; do not edit.
"""What a session's agent notes down: events, messages and its state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._http import Request, version_of
from ..errors import NotFound
from ..models import AgentStateSaved, Event, EventList, Message, MessageAdded, MessageList, PostedEvents
from .follow import Followed

if TYPE_CHECKING:
    from .session import Session

#: How many entries a list fetches at a time.
PAGE = 500


class Events:
    """The events of a session's recording."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def post(self, event_type: str, data: Mapping[str, Any]) -> int:
        """Records an event: one of the five types, or one of your own under `x_…`. Returns its number."""
        answer = self._session.client.post(
            f"{self._session.path}/events", {"event_type": event_type, "data": dict(data)}
        )
        posted = PostedEvents.from_json(answer)
        self._session.saw(posted.seq)
        return posted.seq

    def post_all(self, events: Sequence[Mapping[str, Any]]) -> PostedEvents:
        """Records several events in one step, each `{"event_type": …, "data": …}`."""
        answer = self._session.client.post(f"{self._session.path}/events", {"events": list(events)})
        posted = PostedEvents.from_json(answer)
        self._session.saw(posted.seq)
        return posted

    def list(
        self, *, after: int | None = None, type: str | None = None, search: str | None = None, redact: bool | None = None
    ) -> Iterator[Event]:
        """Its events, in order, all of them."""
        while True:
            query = {"after": after, "limit": PAGE, "type": type, "search": search, "redact": redact}
            page = EventList.from_json(self._session.client.get(f"{self._session.path}/events", query))
            for event in page.events:
                yield event
            # A page may be empty and not the last: a search answers before it has found anything.
            if page.next is None:
                return
            after = page.next

    def follow(self, *, after: int | None = None, type: str | None = None) -> Iterator[Event]:
        """Its events, and those to come.

        A connection that breaks is made again, and no event is missed or comes twice. `DaemonUnavailable` is raised if
        no daemon comes back within two seconds.
        """

        def request() -> Request:
            query = {"after": after, "type": type}
            return Request("GET", f"{self._session.path}/events", query, accept="text/event-stream")

        events = Followed(self._session.client.wire, request)
        try:
            while True:
                data = (events.next()).json()
                if "event_type" in data:
                    event = Event.from_json(data)
                    after = event.seq
                    yield event
        finally:
            events.close()


class Record:
    """The five types of events that every agent has."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def user_input(self, message: Any, **more: Any) -> int:
        """What the user said."""
        return self._session.events.post("user_input", {"message": message, **more})

    def state_transition(self, from_node: str, to_node: str, state_diff: Any = None, **more: Any) -> int:
        """A step from one node of the agent's graph to another."""
        data = {"from_node": from_node, "to_node": to_node, "state_diff": state_diff, **more}
        return self._session.events.post("state_transition", data)

    def llm_call(
        self, prompt: Any, response: Any, token_usage: Any = None, duration: float | None = None, **more: Any
    ) -> int:
        """A call of a model."""
        data = {"prompt": prompt, "response": response, "token_usage": token_usage, "duration": duration, **more}
        return self._session.events.post("llm_call", data)

    def tool_call(
        self,
        tool_name: str,
        parameters: Any = None,
        output: Any = None,
        error: Any = None,
        duration: float | None = None,
        **more: Any,
    ) -> int:
        """A call of a tool."""
        data = {"tool_name": tool_name, "parameters": parameters, "output": output, "error": error, **more}
        return self._session.events.post("tool_call", {**data, "duration": duration})

    def final_output(self, output: Any, stream: bool = False, **more: Any) -> int:
        """What the agent answered."""
        return self._session.events.post("final_output", {"output": output, "stream": stream, **more})


class Messages:
    """The conversation, numbered by `seq_id`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, role: str, content: Any) -> int:
        """Adds a message and returns its `seq_id`."""
        answer = self._session.client.post(
            f"{self._session.path}/messages", {"role": role, "content": content}
        )
        added = MessageAdded.from_json(answer)
        self._session.saw(added.seq)
        return added.seq_id

    def list(self, *, after: int | None = None) -> Iterator[Message]:
        """Its messages by `seq_id`, all of them."""
        while True:
            query = {"after": after, "limit": PAGE}
            page = MessageList.from_json(self._session.client.get(f"{self._session.path}/messages", query))
            for message in page.messages:
                yield message
            if page.next is None:
                return
            after = page.next


class AgentState:
    """One opaque value with a version, for frameworks that save a whole state."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def get(self, *, version: int | None = None) -> tuple[bytes, int] | None:
        """The bytes and their version; `None` if there are none."""
        path = f"{self._session.path}/agent_state"
        request = Request("GET", path, {"version": version}, accept="*/*", repeatable=True)
        try:
            response = self._session.client.wire.request(request)
        except NotFound as error:
            if error.code == "agent_state_not_found":
                return None
            raise
        return response.body, version_of(response)

    def put(
        self, data: bytes, *, if_version: int | None = None, content_type: str = "application/octet-stream"
    ) -> AgentStateSaved:
        """Saves bytes. `if_version` is the version that must be there, 0 for none; else `VersionConflict` is raised."""
        request = Request(
            "PUT",
            f"{self._session.path}/agent_state",
            body=data,
            content_type=content_type,
            headers=precondition(if_version),
        )
        saved = AgentStateSaved.from_json((self._session.client.wire.request(request)).json())
        self._session.saw(saved.seq)
        return saved


def precondition(if_version: int | None) -> dict[str, str]:
    """The header for a version that must be there; 0 is none."""
    if if_version is None:
        return {}
    return {"if-none-match": "*"} if if_version == 0 else {"if-match": f'"{if_version}"'}
