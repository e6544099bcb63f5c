"""The keyed store of a session."""

from __future__ import annotations

import pytest

import shellkeep
from shellkeep import Delete, Put


def test_values_have_versions(session: shellkeep.Session) -> None:
    assert session.kv.get("a") is None
    first = session.kv.put("a", b"\x00one")
    second = session.kv.put("a", b"two", if_version=first.version)
    assert second.version > first.version
    assert session.kv.get_versioned("a") == (b"two", second.version)
    with pytest.raises(shellkeep.VersionConflict) as conflict:
        session.kv.put("a", b"three", if_version=first.version)
    assert conflict.value.version == second.version
    with pytest.raises(shellkeep.VersionConflict):
        session.kv.put("a", b"three", if_version=0)
    session.kv.delete("a", if_version=second.version)
    session.kv.delete("a")
    assert session.kv.get("a") is None
    assert session.kv.put("a", b"again", if_version=0).version > second.version


def test_text_is_stored_as_utf_8_and_data_is_refused(session: shellkeep.Session) -> None:
    session.kv.put("a", "grün")
    session.kv.batch([Put("b", "blau 🐚")])
    assert (session.kv.get("a"), session.kv.get("b")) == ("grün".encode(), "blau 🐚".encode())
    for wrong in ({"plan": 1}, 5):
        with pytest.raises(TypeError, match="json.dumps"):
            session.kv.put("a", wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="json.dumps"):
            session.kv.batch([Put("b", wrong)])  # type: ignore[arg-type]


def test_keys_are_any_text(session: shellkeep.Session) -> None:
    keys = ["plain", "with/slash", "ü 🐚", "%2F", "a?b#c", ".", "q&r=s+t"]
    for key in keys:
        session.kv.put(key, key.encode())
    assert {key: session.kv.get(key) for key in keys} == {key: key.encode() for key in keys}
    assert [entry.key for entry in session.kv.list()] == sorted(keys, key=str.encode)
    for wrong in ("k" * 600, "line\nbreak"):
        with pytest.raises(shellkeep.InvalidRequest):
            session.kv.put(wrong, b"")


def test_a_batch_is_done_or_not_done(session: shellkeep.Session) -> None:
    done = session.kv.batch([Put("x/1", b"1"), Put("x/2", b"2"), Put("y", b"3")])
    assert len(done) == 3
    with pytest.raises(shellkeep.VersionConflict):
        session.kv.batch([Put("x/3", b"3"), Delete("x/1", if_version=10**6)])
    assert [(entry.key, entry.value) for entry in session.kv.list("x/", values=True)] == [("x/1", b"1"), ("x/2", b"2")]
    session.kv.batch([Delete("x/1"), Put("x/4", sha256=session.kv.put("z", b"same").sha256)])
    assert session.kv.get("x/4") == b"same"
    assert [entry.key for entry in session.kv.list("x/")] == ["x/2", "x/4"]


def test_many_keys_are_listed_in_pages(session: shellkeep.Session) -> None:
    for start in range(0, 1500, 500):
        session.kv.batch([Put(f"k{number:05}", b"v") for number in range(start, start + 500)])
    assert [entry.key for entry in session.kv.list("k")] == [f"k{number:05}" for number in range(1500)]
    assert len(list(session.kv.list("k", limit=7))) == 7


def test_the_store_goes_along(session: shellkeep.Session) -> None:
    session.kv.put("k", b"before")
    seq = session.refresh().seq
    session.kv.put("k", b"after")
    fork = session.fork(at=seq)
    assert (fork.kv.get("k"), session.kv.get("k")) == (b"before", b"after")
    session.rewind(seq)
    assert session.kv.get("k") == b"before"
    fork.delete()


async def test_awaited(asession: shellkeep.AsyncSession) -> None:
    await asession.kv.put("a", b"1")
    assert [entry.key async for entry in asession.kv.list()] == ["a"]
    await asession.kv.delete("a")
    assert await asession.kv.get("a") is None
