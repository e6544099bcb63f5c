"""Taking a session along when a graph goes back to an old checkpoint."""

from __future__ import annotations

from typing import Literal

from .._async.client import AsyncClient
from .._sync.client import Client
from ..results import SessionRef


def travel(client: Client, ref: SessionRef, how: Literal["fork", "rewind"] = "fork") -> SessionRef:
    """Brings files and shell back to the moment of a `session.ref` that was in an old state.

    `fork` makes a new session at that moment and leaves the old one as it is; `rewind` takes the session itself back.
    Put the returned ref into the state.
    """
    session = client.attach(ref)
    if how == "fork":
        return session.fork(at=ref["seq"]).ref
    session.rewind(ref["seq"])
    return session.ref


async def atravel(client: AsyncClient, ref: SessionRef, how: Literal["fork", "rewind"] = "fork") -> SessionRef:
    """The same as `travel`, to be awaited."""
    session = await client.attach(ref)
    if how == "fork":
        return (await session.fork(at=ref["seq"])).ref
    await session.rewind(ref["seq"])
    return session.ref
