"""A session that is being opened: `await` it, or enter it with `async with`. The sync client needs no such thing."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Generic, TypeVar

T = TypeVar("T", bound="AbstractAsyncContextManager[Any]")


class Opening(Generic[T]):
    """Awaitable, and a context manager."""

    __slots__ = ("_opened", "_work")

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._opened: T | None = None

    def __await__(self) -> Generator[Any, None, T]:
        return self._work.__await__()

    async def __aenter__(self) -> T:
        self._opened = await self._work
        await self._opened.__aenter__()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is not None:
            await self._opened.__aexit__(kind, error, trace)
