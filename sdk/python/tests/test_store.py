"""Long-term memory, beside LangGraph's own store."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from langgraph.store.base import BaseStore, GetOp, PutOp
from langgraph.store.memory import InMemoryStore

import shellkeep
from shellkeep.langgraph import ShellkeepStore


@pytest.fixture
def store(client: shellkeep.Client) -> ShellkeepStore:
    return ShellkeepStore(client, session=f"store-{uuid.uuid4().hex[:12]}")


def fill(store: BaseStore) -> None:
    store.put(("users", "ann"), "likes", {"food": "rice", "rank": 1})
    store.put(("users", "ann", "notes"), "n/1 ü", {"text": "x" * 1000, "rank": 2})
    store.put(("users", "bob"), "likes", {"food": "figs", "rank": 3})
    store.put(("usersx",), "other", {"rank": 4})
    nested = {"food": {"kind": "rice", "rank": 1}, "tags": ["x", {"n": 1, "m": 2}], "no": None, "rank": 6}
    store.put(("users", "eve"), "likes", nested)
    store.put(("users", "bob"), "gone", {"rank": 5})
    store.delete(("users", "bob"), "gone")


NESTED: list[dict[str, Any]] = [
    {"food": {"kind": "rice"}},
    {"food": {"kind": "figs"}},
    {"food": {"rank": {"$lt": 2}}},
    {"food": {}},
    {"food": {"kind": "rice", "more": None}},
    {"food": {"$eq": {"kind": "rice"}}},
    {"tags": ["x", {"n": 1}]},
    {"tags": ("x", {"n": 1, "m": 2})},
    {"tags": ["x"]},
    {"tags": {}},
    {"no": None},
    {"no": {}},
    {"none": {"kind": "rice"}},
]


def found(items: Any) -> list[Any]:
    return sorted((item.namespace, item.key, str(item.value)) for item in items)


def test_the_same_as_in_memory(store: ShellkeepStore) -> None:
    model = InMemoryStore()
    for one in (model, store):
        fill(one)
    searches: list[tuple[tuple[str, ...], dict[str, Any]]] = [
        ((), {}),
        (("users",), {}),
        (("users", "ann"), {}),
        (("users",), {"filter": {"rank": {"$gt": 1}}}),
        (("users",), {"filter": {"food": "rice"}}),
        # Of a mapping only the keys count that the filter names.
        *((("users", "eve"), {"filter": filter}) for filter in NESTED),
        (("none",), {}),
    ]
    for prefix, query in searches:
        assert found(store.search(prefix, **query)) == found(model.search(prefix, **query)), (prefix, query)
    for options in [{}, {"prefix": ("users",)}, {"max_depth": 1}, {"suffix": ("notes",)}, {"prefix": ("users", "*")}]:
        assert store.list_namespaces(**options) == model.list_namespaces(**options), options  # type: ignore[arg-type]
    assert store.get(("users", "bob"), "gone") is None


async def test_a_batch_reads_first_and_writes_at_once(store: ShellkeepStore) -> None:
    place = ("a",)
    await store.aput(place, "k", {"n": 1})
    first = await store.aget(place, "k")
    results = await store.abatch([PutOp(place, "k", {"n": 2}), GetOp(place, "k"), PutOp(place, "l", {"n": 3})])
    assert results[0] is None and results[1].value == {"n": 1}  # type: ignore[union-attr]
    again = await store.aget(place, "k")
    assert first is not None and again is not None
    assert (again.value, again.created_at == first.created_at, again.updated_at > first.updated_at) == ({"n": 2}, True, True)
    assert len(await store.asearch(place)) == 2


def test_items_past_their_time_are_gone(store: ShellkeepStore) -> None:
    store.put(("t",), "short", {"n": 1}, ttl=-1)
    store.put(("t",), "long", {"n": 2}, ttl=60)
    assert [item.key for item in store.search(("t",))] == ["long"]
    assert store.get(("t",), "short") is None


async def test_items_past_their_time_take_no_room(client: shellkeep.Client) -> None:
    """They were not returned, but never removed."""
    name = f"store-{uuid.uuid4().hex[:12]}"
    store = ShellkeepStore(client, session=name)
    for number in range(3):
        store.put(("t",), f"short{number}", {"n": number}, ttl=-1)
    store.put(("t",), "long", {"n": 2}, ttl=60)

    def left() -> list[str]:
        return [entry.key.rsplit("=")[-1] for entry in client.attach(name).kv.list()]

    assert store.get(("t",), "short0") is None
    assert left() == ["long", "short1", "short2"]
    assert store.search(("t",))[0].key == "long"
    assert left() == ["long"]
    await store.aput(("t",), "again", {"n": 1}, ttl=-1)
    assert (await store.asweep_ttl(), store.sweep_ttl(), left()) == (1, 0, ["long"])
    swept = ShellkeepStore(client, session=name, ttl={"sweep_interval_minutes": 0})
    swept.put(("t",), "short", {"n": 1}, ttl=-1)
    assert left() == ["long"]


async def test_reading_an_item_starts_its_time_again(client: shellkeep.Client) -> None:
    """`ttl` counts from the last access. A read that says so leaves the time alone."""
    name = f"store-{uuid.uuid4().hex[:12]}"
    store = ShellkeepStore(client, session=name, ttl={"default_ttl": 60})

    def ends() -> dict[str, float]:
        entries = client.attach(name).kv.list(values=True)
        return {entry.key.rsplit("=")[-1]: json.loads(entry.value or b"")["x"] for entry in entries}

    place = ("t",)
    for key in ("a", "b", "c"):
        store.put(place, key, {"n": key})
    first = ends()
    item = store.get(place, "a")
    assert item is not None and ends()["a"] > first["a"]
    again = store.get(place, "a", refresh_ttl=False)
    assert again is not None and (again.value, again.updated_at) == (item.value, item.updated_at)
    assert [item.key for item in await store.asearch(place, filter={"n": "b"})] == ["b"]
    later = ends()
    assert (later["b"] > first["b"], later["c"] == first["c"]) == (True, True)
    store.search(place, refresh_ttl=False)
    assert ends() == later
    quiet = ShellkeepStore(client, session=name, ttl={"refresh_on_read": False})
    quiet.get(place, "c")
    assert ends() == later
    store.put(place, "c", {"n": "c"}, ttl=None)
    assert "x" not in json.loads(client.attach(name).kv.get("s/t/=c") or b"")


def test_what_it_cannot_do_is_said(store: ShellkeepStore) -> None:
    with pytest.raises(shellkeep.InvalidRequest, match="filter="):
        store.search(("t",), query="meaning")
    store.put(("t",), "k", {"n": 2})
    with pytest.raises(shellkeep.InvalidRequest, match=r"\$gte"):
        store.search(("t",), filter={"n": {"$near": 1}})
