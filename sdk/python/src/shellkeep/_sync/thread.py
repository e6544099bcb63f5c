# Generated from _async by tools/generate_sync.py; do not edit.
"""The session of a framework's thread: opening it, and following the thread when it goes back in time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .._gate import Gate
from .._threads import fork_id_for, request_id_for, session_id_for
from ..errors import CommandFailed, Conflict
from ..thread import ThreadRef
from .client import Client
from .session import Session

#: Marks the session's agent state as the step that its shell is at. A fork and a rewind take it along.
FRAMEWORK = "langgraph"


@dataclass(frozen=True, slots=True)
class Threads:
    """Sessions of threads, one each, all made in the same way."""

    client: Client
    #: Calls of one step run at the same time; only the first of them takes the session back.
    gate: Gate
    cwd: str | None = None
    env: Mapping[str, str] | None = None
    config: Mapping[str, Any] | None = None
    #: Run once in a new session, and again after a restart.
    startup: tuple[str, ...] = ()
    startup_timeout: float = 30.0
    #: What becomes of the shell and the files when the thread continues from an old checkpoint.
    on_time_travel: Literal["fork", "rewind", "ignore"] = "fork"

    def open(self, thread_id: object | None, ref: ThreadRef | None) -> Session:
        """The session that the thread's state names, else the one of the thread; without a thread, a new one."""
        name = ref["session_id"] if ref else None if thread_id is None else session_id_for(thread_id)
        config = dict(self.config or {})
        if name is not None and thread_id is not None and name != str(thread_id):
            config["thread_id"] = str(thread_id)
        session = self.client.session(name, cwd=self.cwd, env=self.env, config=config or None)
        if ref is None:
            self.prepare(session, session.id)
        return session

    def begin(self, thread_id: object | None) -> tuple[Session, ThreadRef]:
        """The session of a thread whose state names none yet, and what its state names from now on."""
        session = self.open(thread_id, None)
        at = None if self.on_time_travel == "ignore" else self._step(session)
        # A session that is older than the state continues from where it is.
        step = "" if at is None else at["step"]
        return session, ThreadRef(session_id=session.id, seq=session.seq, step=step or "")

    def prepare(self, session: Session, key: str) -> None:
        """Runs the startup commands, once for each key."""
        for number, command in enumerate(self.startup):
            request_id = request_id_for("startup", number, key)
            result = session.run(command, timeout=self.startup_timeout, request_id=request_id)
            if not result.ok:
                detail = f"startup command '{command}' ended with {result.status}, exit code {result.exit_code}"
                raise CommandFailed("startup_failed", f"{detail}; correct it, and use another thread", result)

    def enter(self, thread_id: object | None, ref: ThreadRef | None, step: str) -> Session:
        """The session in which this step's commands run: as the thread's state knows it, also after time travel."""
        session = self.open(thread_id, ref)
        if self.on_time_travel == "ignore" or ref is None:
            return session
        with self.gate:
            at = self._step(session)
            # A step that was not completed left the thread's state as it was: the next caller has not travelled.
            if at is not None and at["done"] and at["step"] not in (step, ref["step"]):
                session = self._travel(session, ref, step)
            if at is None or at["step"] not in (None, step):
                self._note(session, step, done=False)
        return session

    def settle(self, ref: ThreadRef | None) -> None:
        """Notes that the results of the state's last step are in the state."""
        if self.on_time_travel == "ignore" or ref is None or not ref["step"]:
            return
        session = self.client.attach(ref["session_id"])
        at = self._step(session)
        if at is not None and at["step"] == ref["step"] and not at["done"]:
            self._note(session, ref["step"], done=True)

    def _travel(self, session: Session, ref: ThreadRef, step: str) -> Session:
        if self.on_time_travel == "rewind":
            session.rewind(ref["seq"])
            return session
        name = fork_id_for(session.id, step)
        try:
            return session.fork(name, at=ref["seq"])
        except Conflict as error:
            if error.code == "session_exists":
                # The other calls of this step made it, or this step before a crash.
                return self.client.attach(name)
            if error.code != "files_not_apart":
                raise
            # Its shell was outside the workspace: that goes back, and files there are not copied. A notice in
            # the next result says so.
            return session.fork(name, at=ref["seq"], share_files=True)

    def _step(self, session: Session) -> dict[str, Any] | None:
        found = session.agent_state.get()
        if found is None:
            return None
        try:
            at = json.loads(found[0])
        except ValueError:
            at = None
        # Another client's state is left alone; then time travel is not detected.
        ours = isinstance(at, dict) and at.get("framework") == FRAMEWORK
        return at if ours else {"step": None, "done": False}

    def _note(self, session: Session, step: str, *, done: bool) -> None:
        value = json.dumps({"framework": FRAMEWORK, "step": step, "done": done}).encode()
        session.agent_state.put(value, content_type="application/json")
