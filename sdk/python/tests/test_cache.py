"""What a saver remembers, used by many threads at once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from shellkeep._graph import Cache


@pytest.fixture
def eager_switches() -> Iterator[None]:
    """Threads take turns after a microsecond instead of after five milliseconds."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_switches")
def test_one_thread_forgets_while_others_learn() -> None:
    """A saver that was shared by threads failed with "Set changed size during iteration".

    Forgetting a thread goes through all that is known, and another thread added to it meanwhile. Each look at the
    retention forgets a thread, so this happened in ordinary use of a saver with `keep_last`.
    """
    cache = Cache()
    for number in range(20_000):
        cache.know("other", [number.to_bytes(20, "big")], 0)
    cache.add_indexed(f"r/{number}/other" for number in range(20_000))
    done = threading.Event()

    def learn(thread: str) -> None:
        number = 0
        while not done.is_set():
            number += 1
            cache.know(thread, [str(number).encode()], 0)
            cache.add_indexed([f"r/{number}/{thread}"])

    def forget() -> None:
        try:
            for _ in range(20):
                cache.forget("gone")
        finally:
            done.set()

    with ThreadPoolExecutor() as pool:
        for future in [pool.submit(learn, "a"), pool.submit(learn, "b"), pool.submit(forget)]:
            future.result()


def test_what_was_learned_before_forgetting_does_not_count() -> None:
    cache = Cache()
    before = cache.epoch("t")
    cache.add_indexed(["t/t", "t/other"])
    cache.forget("t")
    cache.know("t", [b"late"], before)
    assert not cache.is_known("t", b"late")
    cache.know("t", [b"new"], cache.epoch("t"))
    assert cache.is_known("t", b"new")
    assert (cache.is_indexed("t/t"), cache.is_indexed("t/other")) == (False, True)
