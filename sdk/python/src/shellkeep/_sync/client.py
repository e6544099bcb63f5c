# Generated from _async by tools/generate_sync.py; do not edit.
"""The client: one daemon, its sessions, and what belongs to the node."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

from .._endpoint import Endpoint, find
from .._handle import Handle
from .._http import Request, encode_json, segment
from .._local import LocalDaemon
from ..models import (
    AuditEntry,
    AuditList,
    Health,
    IssuedToken,
    Node,
    QuotasResponse,
    Readiness,
    ServiceInfo,
    ServiceList,
    SessionInfo,
    SessionList,
    TokenInfo,
    TokenList,
)
from ..results import SessionRef
from .session import Session
from .wire import Wire

#: How many entries a list fetches at a time.
PAGE = 500


class Client(Handle):
    """A daemon: the one that `url`, `socket` or `data` names, else the one that the command line would use.

    On a socket a daemon is started if none runs; `start=False` prevents that. One client serves any number of
    sessions at the same time.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        socket: str | os.PathLike[str] | None = None,
        data: str | os.PathLike[str] | None = None,
        start: bool = True,
    ) -> None:
        self._setup(find(url, token=token, socket=socket, data=data, start=start), None)

    def _setup(self, endpoint: Endpoint, local: LocalDaemon | None) -> None:
        self._local = local
        self.wire = Wire(endpoint)
        self.tokens = Tokens(self)
        self._paths: dict[str, str] = {}

    @classmethod
    def connect(cls, url: str, token: str | None = None) -> Client:
        """The daemon at this address."""
        return cls(url, token=token)

    @classmethod
    def local(cls, data: str | os.PathLike[str] | None = None, env: Mapping[str, str] | None = None) -> Client:
        """A private daemon, for tests: `close` or the end of the program stops it.

        Its data is in a temporary directory unless `data` names one. `env` adds variables to its environment.
        """
        daemon = LocalDaemon(data, env)
        client = cls.__new__(cls)
        client._setup(daemon.endpoint, daemon)
        return client

    @classmethod
    def on(cls, endpoint: Endpoint) -> Client:
        """A client of a daemon that was found before."""
        client = cls.__new__(cls)
        client._setup(endpoint, None)
        return client

    @property
    def daemon(self) -> LocalDaemon | None:
        """The process of a local daemon."""
        return self._local

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections. Sessions stay as they are; a local daemon stops."""
        self.wire.close()
        if self._local is not None:
            self._local.stop()

    def session(
        self,
        session: str | SessionRef | None = None,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        config: Mapping[str, Any] | None = None,
        agent: str | None = None,
        user_id: str | None = None,
    ) -> Session:
        """The session of this name, made if there is none; without a name, a new one. Leaving it keeps it.

        The other arguments count only for a session that does not exist yet.
        """
        return self._open(session, cwd, env, config, agent, user_id)

    def _open(
        self,
        session: str | SessionRef | None,
        cwd: str | None,
        env: Mapping[str, str] | None,
        config: Mapping[str, Any] | None,
        agent: str | None,
        user_id: str | None,
    ) -> Session:
        name = session["session_id"] if isinstance(session, dict) else session
        body = {"session_id": name, "cwd": cwd, "env": env, "config": config, "agent": agent, "user_id": user_id}
        found = self.post("/v1/sessions", body, repeatable=name is not None)
        return Session(self, SessionInfo.from_json(found))

    def attach(self, session: str | SessionRef) -> Session:
        """The session of this name; raises `SessionNotFound` if there is none."""
        name = session if isinstance(session, str) else session["session_id"]
        return Session(self, SessionInfo.from_json(self.get(f"/v1/sessions/{segment(name)}")))

    def path_of(self, name: str) -> str:
        """The route of the session that `session(name)` opens, which need not exist.

        The sessions of an agent have longer names than it gives them, so for an agent it is made.
        """
        if not self.wire.endpoint.is_agent:
            return f"/v1/sessions/{segment(name)}"
        path = self._paths.get(name)
        if path is None:
            made = self.post("/v1/sessions", {"session_id": name}, repeatable=True)
            path = self._paths[name] = f"/v1/sessions/{segment(made['session_id'])}"
        return path

    def sessions(self, *, agent: str | None = None, deleted: bool | None = None) -> Iterator[SessionInfo]:
        """Every session, by name."""
        after: str | None = None
        while True:
            query = {"agent": agent, "deleted": deleted, "limit": PAGE, "after": after}
            page = SessionList.from_json(self.get("/v1/sessions", query))
            for info in page.sessions:
                yield info
            after = page.next
            if after is None:
                return

    def services(self, *, agent: str | None = None) -> Sequence[ServiceInfo]:
        """The services of all sessions."""
        return ServiceList.from_json(self.get("/v1/services", {"agent": agent})).services

    def node(self) -> Node:
        """How busy the node is."""
        return Node.from_json(self.get("/v1/node"))

    def quotas(self) -> QuotasResponse:
        """The quotas in force."""
        return QuotasResponse.from_json(self.get("/v1/quotas"))

    def set_quotas(self, **quotas: int | None) -> QuotasResponse:
        """Changes quotas; `None` returns to the configured value."""
        return QuotasResponse.from_json(self.put("/v1/quotas", quotas))

    def audit(self, *, limit: int | None = None) -> Sequence[AuditEntry]:
        """The audit trail, newest last."""
        return AuditList.from_json(self.get("/v1/audit", {"limit": limit})).audit

    def end_agent(self, agent: str) -> None:
        """Ends an agent: its sessions, processes and services."""
        self.post(f"/v1/agents/{segment(agent)}/end", None)

    def ready(self) -> Readiness:
        """Whether the daemon works as it should."""
        return Readiness.from_json(self.get("/readyz"))

    def version(self) -> str:
        """The daemon's version."""
        return Health.from_json(self.get("/healthz")).version

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """Reads a route as JSON."""
        return (self.wire.request(Request("GET", path, query or {}, repeatable=True))).json()

    def post(self, path: str, body: Mapping[str, Any] | None, *, repeatable: bool = False) -> Any:
        """Posts JSON, without the fields that are `None`, and reads JSON; `None` if there is no answer."""
        return self._send("POST", path, body, repeatable)

    def put(self, path: str, body: Mapping[str, Any]) -> Any:
        """Puts JSON and reads JSON."""
        content = encode_json(body)
        return (self.wire.request(Request("PUT", path, body=content, repeatable=True))).json()

    def delete(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """Deletes, and reads JSON; `None` if there is no answer."""
        response = self.wire.request(Request("DELETE", path, query or {}))
        return response.json() if response.body else None

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None, repeatable: bool) -> Any:
        content = None if body is None else encode_json({k: v for k, v in body.items() if v is not None})
        response = self.wire.request(Request(method, path, body=content, repeatable=repeatable))
        return response.json() if response.body else None


class Tokens:
    """The agents' tokens. The host's right."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def create(self, agent: str, *, name: str | None = None, may_restart: bool | None = None) -> IssuedToken:
        """A new token; its secret is in this answer only."""
        body = {"agent": agent, "name": name, "may_restart": may_restart}
        return IssuedToken.from_json(self._client.post("/v1/tokens", body))

    def list(self) -> Sequence[TokenInfo]:
        """All tokens, without their secrets."""
        return TokenList.from_json(self._client.get("/v1/tokens")).tokens

    def revoke(self, token_id: str) -> None:
        """Makes a token useless."""
        self._client.delete(f"/v1/tokens/{segment(token_id)}")
