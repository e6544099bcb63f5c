"""The checkpointer and the store, against LangGraph's own suite, its own savers, and whatever may go wrong."""

from __future__ import annotations

import asyncio
import operator
import pickle
import random
import string
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, copy_checkpoint, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt
from typing_extensions import TypedDict

import shellkeep
from shellkeep._sync.checkpoints import Checkpoints
from shellkeep.langgraph import (
    ShellkeepSaver,
    UnknownType,
    UnserialisableState,
    aresume_session,
    resume_session,
    session_id,
    travel,
)


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def config(thread_id: Any, **more: Any) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, **more}}


def name() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


#: As many words as a conversation may have.
WORDS = ["".join(random.Random(n).choices(string.ascii_lowercase, k=n % 7 + 3)) for n in range(2000)]


def texts(seed: int, size: int = 1000) -> Iterator[str]:
    source = random.Random(seed)
    while True:
        yield " ".join(source.choices(WORDS, k=size))[:size]


def chat(saver: BaseCheckpointSaver[Any], answers: Iterator[str]) -> Any:
    count = [0]

    def answer(state: Chat) -> dict[str, Any]:
        count[0] += 1
        return {"messages": [AIMessage(next(answers), id=f"a{count[0]}")]}

    builder = StateGraph(Chat)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    return builder.compile(checkpointer=saver)


@pytest.fixture
def saver(client: shellkeep.Client) -> ShellkeepSaver:
    return ShellkeepSaver(client)


async def test_conformance(client: shellkeep.Client) -> None:
    @checkpointer_test(name="ShellkeepSaver")
    async def made() -> Any:
        saver = ShellkeepSaver(client, prefix=name())
        yield saver
        await saver.aclose()

    report = await validate(made)
    counts = {key: (result.detected, result.tests_passed, result.tests_failed) for key, result in report.results.items()}
    assert len(counts) == 8 and all(detected for detected, _, _ in counts.values()), counts
    assert (sum(passed for _, passed, _ in counts.values()), sum(failed for _, _, failed in counts.values())) == (81, 0)


def size_of(directory: Path) -> int:
    return sum(path.lstat().st_size for path in directory.rglob("*") if path.is_file())


def test_a_conversation_is_stored_once(tmp_path: Path) -> None:
    """100 turns with 0.2 MB of text, beside the SQLite saver in the same run."""

    def talk(saver: BaseCheckpointSaver[Any]) -> list[Any]:
        graph, questions = chat(saver, texts(1)), texts(2)
        for number in range(100):
            graph.invoke({"messages": [HumanMessage(next(questions), id=f"h{number}")]}, config("talk"))
        return list(graph.get_state(config("talk")).values["messages"])

    data = tmp_path / "data"
    with shellkeep.Client.local(data):
        pass
    empty = size_of(data)
    with shellkeep.Client.local(data) as client:
        saver = ShellkeepSaver(client)
        mine = talk(saver)
        usage = saver.usage("talk")
    taken = size_of(data) - empty
    with SqliteSaver.from_conn_string(str(tmp_path / "other.db")) as other:
        assert talk(other) == mine
    theirs = (tmp_path / "other.db").stat().st_size
    print(f"shellkeep {taken} bytes on disk, {usage.bytes} of values; sqlite {theirs} bytes")
    assert taken <= 1_000_000
    assert theirs > 20 * taken


async def test_a_saver_leaves_a_given_client_open(aclient: shellkeep.AsyncClient) -> None:
    async with ShellkeepSaver(aclient):
        pass
    assert (await (await aclient.session(name())).run("echo open")).stdout == "open\n"


def test_another_process_reads_the_same(client: shellkeep.Client, saver: ShellkeepSaver) -> None:
    thread = name()
    graph = chat(saver, texts(3, 200))
    for number in range(12):
        graph.invoke({"messages": [("user", f"question {number}" * 20)]}, config(thread))
    fresh = chat(ShellkeepSaver(client), texts(3, 200))
    assert fresh.get_state(config(thread)) == graph.get_state(config(thread))
    assert list(fresh.get_state_history(config(thread))) == list(graph.get_state_history(config(thread)))


def test_the_same_as_in_memory_whatever_is_done(client: shellkeep.Client) -> None:
    """A random walk: messages added, replaced and removed, branches, pruning. InMemorySaver is the model."""
    thread, source = name(), random.Random(7)
    memory, kept = InMemorySaver(), ShellkeepSaver(client)
    graphs = [chat(memory, texts(4, 150)), chat(kept, texts(4, 150))]

    def both(step: Any) -> None:
        assert len({repr(step(graph)) for graph in graphs}) == 1

    def values(graph: Any, at: RunnableConfig) -> Any:
        return [(message.id, message.content) for message in graph.get_state(at).values.get("messages", [])]

    added = 0
    for number in range(40):
        ids = [message.id for message in graphs[0].get_state(config(thread)).values.get("messages", [])]
        choice = source.random()
        if choice < 0.6 or len(ids) < 4:
            added += 1
            update: Any = HumanMessage(f"question {number} " * source.choice([1, 30]), id=f"h{added}")
        elif choice < 0.8:
            update = HumanMessage("replaced " * 20, id=source.choice(ids))
        else:
            update = RemoveMessage(id=source.choice(ids))
        where = [config(thread), config(thread)]
        if source.random() < 0.15:
            back = source.randrange(8)
            histories = [list(graph.get_state_history(config(thread))) for graph in graphs]
            at = min(back, len(histories[0]) - 1)
            if source.random() < 0.3:
                kept.prune([thread])
                where = [histories[0][0].config, histories[1][0].config]
            else:
                where = [history[at].config for history in histories]
        for graph, target in zip(graphs, where):
            graph.invoke({"messages": [update]}, target)
        both(lambda graph: values(graph, config(thread)))
    fresh = chat(ShellkeepSaver(client), texts(4))
    assert values(fresh, config(thread)) == values(graphs[0], config(thread))


async def test_one_saver_for_threads_and_loops(saver: ShellkeepSaver) -> None:
    graph, thread = chat(saver, texts(5, 50)), name()
    await graph.ainvoke({"messages": [("user", "one")]}, config(thread))
    await asyncio.to_thread(graph.invoke, {"messages": [("user", "two")]}, config(thread))
    other = threading.Thread(target=lambda: asyncio.run(graph.ainvoke({"messages": [("user", "three")]}, config(thread))))
    other.start()
    other.join()
    graph.invoke({"messages": [("user", "four")]}, config(thread))
    assert len((await graph.aget_state(config(thread))).values["messages"]) == 8
    assert len([found async for found in graph.aget_state_history(config(thread))]) == 12


class Delta(TypedDict):
    notes: Annotated[list[str], DeltaChannel(lambda state, writes: [*state, *(n for w in writes for n in w)], snapshot_frequency=50)]
    total: Annotated[int, operator.add]


def noted(saver: BaseCheckpointSaver[Any]) -> Any:
    builder = StateGraph(Delta)
    builder.add_node("a", lambda state: {"notes": [f"a{state['total']}"], "total": 1})
    builder.add_node("b", lambda state: {"notes": [f"b{state['total']}"], "total": 1})
    builder.add_edge(START, "a")
    builder.add_edge("a", "b")
    builder.add_edge("b", END)
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize("limits", [{"keep_last": 3}, {"ttl": 1e-9}, {"max_bytes": 2000}, {}])
def test_retention_does_not_break_delta_channels(client: shellkeep.Client, limits: dict[str, Any]) -> None:
    """Delta channels are rebuilt from the writes of ancestors, which a retention removes."""
    thread = name()
    model, kept = noted(InMemorySaver()), ShellkeepSaver(client, **limits)
    graph = noted(kept)
    for number in range(12):
        for one in (model, graph):
            one.invoke({"notes": [f"in{number}"], "total": 0}, config(thread))
        if not limits:
            kept.prune([thread])
        assert graph.get_state(config(thread)).values == model.get_state(config(thread)).values
    kept.retain(thread)
    fresh = noted(ShellkeepSaver(client))
    assert fresh.get_state(config(thread)).values == model.get_state(config(thread)).values
    left = len(list(fresh.get_state_history(config(thread))))
    assert left < len(list(model.get_state_history(config(thread))))
    assert left == {"keep_last": 3}.get(next(iter(limits), ""), left)
    kept.copy_thread(thread, f"{thread}-copy")
    assert fresh.get_state(config(f"{thread}-copy")).values == model.get_state(config(thread)).values


def numbered(number: int) -> Any:
    """A checkpoint, the newest so far."""
    made = empty_checkpoint()
    return {**made, "channel_values": {"n": number}, "channel_versions": {"n": number}}


def test_retention_spares_writes_that_come_before_their_checkpoint(client: shellkeep.Client) -> None:
    """A node that had finished ran again when its graph was resumed.

    LangGraph stores a checkpoint and the writes on top of it at the same time. The retention removed the writes of every
    checkpoint that it did not find, so also those of one that was still on its way. What belongs to no checkpoint and
    is older than what goes is still removed: nothing else would.
    """
    saver, thread = ShellkeepSaver(client, keep_last=2), name()
    place = config(thread, checkpoint_ns="")
    late = numbered(0)["id"]
    for number in range(1, 6):
        place = saver.put(place, numbered(number), {"step": number}, {"n": number})
    coming = numbered(6)
    for checkpoint_id in (late, coming["id"]):
        saver.put_writes(config(thread, checkpoint_ns="", checkpoint_id=checkpoint_id), [("n", "done")], "task")
    assert saver.retain(thread) == 3
    place = saver.put(place, coming, {"step": 6}, {"n": 6})
    found = saver.get_tuple(place)
    assert found is not None and found.pending_writes == [("task", "n", "done")]
    assert saver.usage(thread).writes == 1


def test_what_is_removed_takes_no_room(saver: ShellkeepSaver) -> None:
    graph, thread = chat(saver, texts(6)), name()
    for number in range(10):
        graph.invoke({"messages": [("user", f"{number}" * 500)]}, config(thread))
    before = saver.usage(thread)
    saver.prune([thread])
    after = saver.usage(thread)
    assert (before.checkpoints, after.checkpoints, after.writes) == (30, 1, 0)
    assert after.bytes < before.bytes
    assert len(graph.get_state(config(thread)).values["messages"]) == 20
    saver.prune([thread], strategy="delete")
    assert saver.usage(thread).checkpoints == 0
    with pytest.raises(shellkeep.InvalidRequest, match="keep_latest"):
        saver.prune([thread], strategy="some")


def test_pruning_beside_a_running_graph(client: shellkeep.Client) -> None:
    """Another process removes old checkpoints all the time; the graph that runs loses nothing."""
    thread, ended = name(), threading.Event()
    failures: list[BaseException] = []

    def prune() -> None:
        pruner = ShellkeepSaver(client)
        try:
            while not ended.is_set():
                pruner.prune([thread])
        except BaseException as error:
            failures.append(error)

    worker = threading.Thread(target=prune)
    worker.start()
    graph = chat(ShellkeepSaver(client), texts(13, 150))
    try:
        for number in range(15):
            state = graph.invoke({"messages": [HumanMessage(f"question {number} " * 10, id=f"h{number}")]}, config(thread))
            assert len(state["messages"]) == 2 * number + 2
    finally:
        ended.set()
        worker.join()
    assert failures == []
    fresh = chat(ShellkeepSaver(client), texts(13))
    assert fresh.get_state(config(thread)).values["messages"] == state["messages"]


def test_pruning_waits_for_a_graph_that_does_not_rest(client: shellkeep.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty tries in a row took less time than one busy turn of a graph, and pruning gave up."""
    thread = name()
    graph = chat(ShellkeepSaver(client), texts(3, 150))
    for number in range(3):
        graph.invoke({"messages": [HumanMessage(f"question {number} " * 10, id=f"h{number}")]}, config(thread))
    busy_until = time.monotonic() + 2
    real = Checkpoints._fenced

    def fenced(self: Checkpoints, place: Any, fences: Any, ops: Any) -> None:
        if time.monotonic() < busy_until:
            stale = {fence: version - 1 for fence, version in fences.items()}
            return real(self, place, stale, ops)
        return real(self, place, fences, ops)

    monkeypatch.setattr(Checkpoints, "_fenced", fenced)
    ShellkeepSaver(client).prune([thread])
    assert len(list(graph.get_state_history(config(thread)))) == 1


def test_a_checkpoint_that_comes_in_the_middle_of_a_removal(
    client: shellkeep.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the first batch of a removal was fenced: a checkpoint that came after it lost the parent it builds on."""
    thread = name()
    graph = chat(ShellkeepSaver(client), texts(9, 150))
    for number in range(5):
        graph.invoke({"messages": [HumanMessage(f"question {number} " * 10, id=f"h{number}")]}, config(thread))
    old = list(graph.get_state_history(config(thread)))[6].config
    states: list[Any] = []
    batches: list[int] = []
    real = Checkpoints._batch

    def batch(self: Checkpoints, place: Any, ops: Any) -> Any:
        done = real(self, place, ops)
        batches.append(len(ops))
        if len(batches) == 3:
            states.append(graph.invoke({"messages": [HumanMessage("another " * 20, id="other")]}, old))
        return done

    monkeypatch.setattr("shellkeep._sync.checkpoints.BATCH", 4)
    pruner = ShellkeepSaver(client)
    monkeypatch.setattr(Checkpoints, "_batch", batch)
    pruner.prune([thread])
    assert len(states) == 1
    fresh = chat(ShellkeepSaver(client), texts(9))
    assert fresh.get_state(config(thread)).values["messages"] == states[0]["messages"]
    assert len(list(fresh.get_state_history(config(thread)))) == 1


def test_a_stale_parent_becomes_a_branch(client: shellkeep.Client) -> None:
    """Two processes go on from the same checkpoint: neither overwrites the other, and the later one knows of it."""
    thread, first, second = name(), ShellkeepSaver(client), ShellkeepSaver(client)
    chat(first, texts(8, 50)).invoke({"messages": [("user", "start")]}, config(thread))
    start = second.get_tuple(config(thread))
    assert start is not None and first.get_tuple(config(thread)) is not None

    def step(saver: ShellkeepSaver, text: str) -> RunnableConfig:
        checkpoint = copy_checkpoint(start.checkpoint)
        checkpoint["id"] = empty_checkpoint()["id"]
        checkpoint["channel_values"]["messages"] = [HumanMessage(text, id=text)]
        checkpoint["channel_versions"]["messages"] = f"9.{text}"
        return saver.put(start.config, checkpoint, {"source": "loop", "step": 9}, {"messages": f"9.{text}"})

    mine, theirs = step(first, "first"), step(second, "second")
    assert first.stale == []
    assert [found.newest for found in second.stale] == [mine["configurable"]["checkpoint_id"]]
    for where, text in ((mine, "first"), (theirs, "second")):
        found = ShellkeepSaver(client).get_tuple(where)
        assert found is not None and found.parent_config == start.config
        assert [message.content for message in found.checkpoint["channel_values"]["messages"]] == [text]


def test_a_deleted_thread_does_not_come_back(client: shellkeep.Client, saver: ShellkeepSaver) -> None:
    thread = name()
    graph = chat(saver, texts(9, 50))
    graph.invoke({"messages": [("user", "hi")]}, config(thread))
    last = saver.get_tuple(config(thread))
    assert last is not None
    other = ShellkeepSaver(client)
    saver.delete_thread(thread)
    for late in (saver, other):
        late.put_writes(last.config, [("messages", ["late"])], "task")
        late.put(last.config, {**last.checkpoint, "id": empty_checkpoint()["id"]}, {"source": "loop", "step": 3}, {})
        assert late.get_tuple(config(thread)) is None
    assert thread not in {found.config["configurable"]["thread_id"] for found in saver.list(None)}
    graph.invoke({"messages": [("user", "again")]}, config(thread))
    assert len(graph.get_state(config(thread)).values["messages"]) == 2


class Free(TypedDict, total=False):
    value: Any


def holding(saver: BaseCheckpointSaver[Any], value: Any) -> Any:
    builder = StateGraph(Free)
    builder.add_node("node", lambda state: {"value": value})
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    return builder.compile(checkpointer=saver)


@dataclass
class Mine:
    number: int


def test_what_cannot_be_stored_is_named(client: shellkeep.Client, session: shellkeep.Session) -> None:
    saver = ShellkeepSaver(client)
    with pytest.raises(UnserialisableState, match=r"state\['value'\]\['shell'\]\[1\].*session\.ref"):
        holding(saver, {"shell": ["x" * 200, session]}).invoke({}, config(name()), durability="sync")
    with pytest.raises(UnserialisableState, match=r"state\['value'\]\['lock'\]"):
        holding(saver, {"lock": threading.Lock()}).invoke({}, config(name()), durability="sync")
    with pytest.raises(UnknownType, match=r"state\['value'\]\[0\].*allowed_types=\[Mine\]"):
        holding(saver, [Mine(1)]).invoke({}, config(name()), durability="sync")
    for kind in (UnserialisableState, UnknownType):
        error = kind("state['x']", object())
        copied = pickle.loads(pickle.dumps(error))
        assert (type(copied), str(copied), vars(copied)) == (kind, str(error), vars(error))
    thread = name()
    allowed = holding(ShellkeepSaver(client, allowed_types=[Mine]), [Mine(1)])
    allowed.invoke({}, config(thread))
    assert allowed.get_state(config(thread)).values["value"] == [Mine(1)]


ODD = ["a/b", "ü" * 60, "x" * 500, ".hidden", "line\nbreak", "nul\0", "%2F", "lg-" + "0" * 40, "🐚", 7, "7.", " "]


@pytest.mark.parametrize("thread", ODD, ids=repr)
def test_a_thread_id_is_any_text(client: shellkeep.Client, thread: Any) -> None:
    saver = ShellkeepSaver(client, prefix="odd")
    graph = chat(saver, texts(10, 20))
    graph.invoke({"messages": [("user", "hi")]}, config(thread))
    assert len(ShellkeepSaver(client, prefix="odd").get_tuple(config(thread)).checkpoint["channel_values"]["messages"]) == 2  # type: ignore[union-attr]
    saver.delete_thread(thread)
    assert saver.get_tuple(config(thread)) is None


def test_threads_have_sessions_of_their_own(saver: ShellkeepSaver) -> None:
    names = [session_id(thread) for thread in ODD]
    assert len(set(names)) == len(ODD)
    assert session_id("plain-1") == "plain-1"
    with pytest.raises(shellkeep.InvalidRequest, match="thread_id"):
        saver.get_tuple({"configurable": {}})


class Shell(TypedDict, total=False):
    shell: dict[str, Any]
    step: int


def shelled(client: shellkeep.Client, saver: BaseCheckpointSaver[Any], home: str) -> Any:
    """A graph of three nodes that each change files, working directory and functions of one session."""

    def work(number: int) -> Any:
        def node(state: Shell) -> dict[str, Any]:
            session = client.session(state.get("shell", home))  # type: ignore[arg-type]
            session.run(f"mkdir -p d{number}; echo {number} >>log; cd \"$PWD\"; f() {{ echo f{number}; }}; export N={number}")
            return {"shell": session.ref, "step": number}

        return node

    builder = StateGraph(Shell)
    for number in (1, 2, 3):
        builder.add_node(f"n{number}", work(number))
        builder.add_edge(START if number == 1 else f"n{number - 1}", f"n{number}")
    builder.add_edge("n3", END)
    return builder.compile(checkpointer=saver)


def test_a_moment_can_be_forked(client: shellkeep.Client, saver: ShellkeepSaver) -> None:
    home = name()
    graph = shelled(client, saver, home)
    graph.invoke({}, config(home))
    look = "cat log; f; echo $N; ls -d d*"
    session = client.attach(home)
    assert session.run(look).stdout.split() == "1 2 3 f3 3 d1 d2 d3".split()
    first = next(found for found in graph.get_state_history(config(home)) if found.values.get("step") == 1)
    moment = saver.moment(first.config)
    assert moment is not None and moment["session_id"] == home

    forked = travel(client, moment, "fork")
    assert client.attach(forked).run(look).stdout.split() == "1 f1 1 d1".split()
    assert session.run("cat log").stdout.split() == ["1", "2", "3"]


@pytest.mark.parametrize("how", ["fork", "rewind", "ignore"])
@pytest.mark.parametrize("is_async", [False, True])
def test_time_travel_takes_the_session_along(client: shellkeep.Client, how: Any, is_async: bool) -> None:
    """A run from step 1 sees the files, variables and functions of step 1, also if a node runs at once."""
    home, saver = name(), ShellkeepSaver(client, on_time_travel=how)
    graph = shelled(client, saver, home)
    graph.invoke({}, config(home))
    session = client.attach(home)
    session.run("echo later >>log; export LATER=1")
    first = next(found for found in graph.get_state_history(config(home)) if found.values.get("step") == 1)
    if is_async:
        asyncio.run(graph.ainvoke(None, first.config))
    else:
        graph.invoke(None, first.config)
    used = graph.get_state(config(home)).values["shell"]["session_id"]
    assert (used == home) == (how != "fork")
    seen = client.attach(used).run("cat log; echo N$N L$LATER").stdout.split()
    old = session.run("cat log").stdout.split()
    if how == "ignore":
        assert seen == "1 2 3 later 2 3 N3 L1".split()
    else:
        assert seen == "1 2 3 N3 L".split()
        assert old == ("1 2 3 later".split() if how == "fork" else "1 2 3".split())
    assert graph.get_state(first.config).values["step"] == 1


def asking(saver: BaseCheckpointSaver[Any], fail: list[bool]) -> Any:
    def ask(state: Chat) -> dict[str, Any]:
        if "secret" in state["messages"][-1].content:
            return {"messages": [AIMessage(f"you said {interrupt('sure?')}")]}
        return {"messages": [AIMessage("plain")]}

    def check(state: Chat) -> dict[str, Any]:
        if fail.pop() if fail else False:
            raise RuntimeError("cut off")
        return {"messages": [AIMessage("checked")]}

    builder = StateGraph(Chat)
    builder.add_node("ask", ask)
    builder.add_node("check", check)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", "check")
    builder.add_edge("check", END)
    return builder.compile(checkpointer=saver)


async def test_a_graph_goes_on_where_it_was(saver: ShellkeepSaver) -> None:
    thread, fail = name(), [True]
    graph = asking(saver, fail)
    with pytest.raises(shellkeep.SessionNotFound, match="no state"):
        resume_session(graph, thread, "hello")
    with pytest.raises(RuntimeError):
        graph.invoke({"messages": [("user", "hello")]}, config(thread))

    def said(state: Any) -> list[Any]:
        return [message.content for message in state["messages"]]

    assert said(resume_session(graph, thread, "more")) == ["hello", "plain", "checked", "more", "plain", "checked"]
    updates = list(resume_session(graph, thread, "a secret", stream=True))
    assert [next(iter(update)) for update in updates] == ["__interrupt__"]
    state = await aresume_session(graph, thread, "yes")
    assert said(state)[-3:] == ["a secret", "you said yes", "checked"]


def test_a_killed_daemon_loses_no_checkpoint(tmp_path: Path) -> None:
    with shellkeep.Client.local(tmp_path / "data") as client:
        assert client.daemon is not None
        graph = chat(ShellkeepSaver(client), texts(11, 50))
        for number in range(5):
            graph.invoke({"messages": [("user", f"{number}")]}, config("t"))
            client.daemon.kill()
            client.daemon.restart()
            assert len(graph.get_state(config("t")).values["messages"]) == 2 * number + 2
        assert client.attach("graph:t").verify().intact


def test_an_agent_has_its_own_threads(tmp_path: Path) -> None:
    with shellkeep.Client.local(tmp_path / "data") as host:
        assert host.daemon is not None
        chat(ShellkeepSaver(host), texts(12, 50)).invoke({"messages": [("user", "host")]}, config("t"))
        for agent in ("ann", "bob"):
            token = host.tokens.create(agent).token
            with shellkeep.Client(socket=host.daemon.socket, token=token) as client:
                graph = chat(ShellkeepSaver(client), texts(12, 50))
                assert graph.get_state(config("t")).values == {}
                graph.invoke({"messages": [("user", agent)]}, config("t"))
                fresh = chat(ShellkeepSaver(client), texts(12, 50))
                assert fresh.get_state(config("t")).values["messages"][0].content == agent
