"""The same names, awaited; cancelling; many at once."""

from __future__ import annotations

import asyncio
import inspect
import os
import resource
import threading
import uuid
from collections.abc import AsyncGenerator, Callable

import pytest

import shellkeep


async def test_a_session_remembers(asession: shellkeep.AsyncSession) -> None:
    await asession.run("cd /tmp; export NAME=ann")
    assert (await asession.run('echo "$NAME in $PWD"')).stdout == "ann in /tmp\n"


async def test_opening_is_awaited_or_entered(aclient: shellkeep.AsyncClient) -> None:
    name = f"t-{uuid.uuid4().hex[:12]}"
    awaited = await aclient.session(name)
    async with aclient.session(name) as entered:
        assert entered.id == awaited.id
    await awaited.delete()


async def test_cancelling_interrupts_the_command(asession: shellkeep.AsyncSession) -> None:
    follow = asession.events.follow(type="run_started")
    task = asyncio.create_task(asession.run("sleep 300"))
    await anext(follow)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert isinstance(follow, AsyncGenerator)
    await follow.aclose()
    assert (await asession.run("echo free")).stdout == "free\n"


async def test_wait_for_interrupts_the_command(asession: shellkeep.AsyncSession) -> None:
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(asession.run("sleep 300", on_stdout=print), 0.5)
    assert (await asession.run("echo free")).stdout == "free\n"


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_cancelling_does_not_wait_for_a_daemon_that_hangs(
    own_client: shellkeep.Client, frozen: Callable[[], None], monkeypatch: pytest.MonkeyPatch, is_streamed: bool
) -> None:
    """A cancelled run waited for the daemon to interrupt its command, and so for ever."""
    monkeypatch.setattr("shellkeep._async.run.FAREWELL", 0.1)
    assert own_client.daemon is not None
    async with shellkeep.AsyncClient(socket=own_client.daemon.socket) as client:
        session = await client.session("demo")
        follow = session.events.follow(type="run_started")
        on_stdout = print if is_streamed else None
        task = asyncio.create_task(session.run("sleep 300", on_stdout=on_stdout))
        await anext(follow)
        assert isinstance(follow, AsyncGenerator)
        await follow.aclose()
        frozen()
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=60)
        assert done and task.cancelled()


async def test_cancelling_takes_a_command_out_of_the_queue(asession: shellkeep.AsyncSession) -> None:
    """Cancelling asked for the command again, was refused because it waited, and the command ran later."""
    busy = await asession.start("sleep 300")
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(asession.run("touch queued"), 0.5)
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(asession.run("touch streamed", on_stdout=print), 0.5)
    await busy.interrupt()
    await busy.wait()
    assert (await asession.run("ls")).stdout == ""


async def test_streams(asession: shellkeep.AsyncSession) -> None:
    async with asession.stream("echo a; echo b >&2") as stream:
        found = [(chunk.stream, chunk.text) async for chunk in stream]
    assert sorted(found) == [("stderr", "b\n"), ("stdout", "a\n")]
    run = await asession.start("read x; echo $x")
    await run.send("y\n", eof=True)
    assert (await run.wait()).stdout == "y\n"
    assert [chunk.text async for chunk in run] == ["y\n"]


async def test_leaving_a_loop_over_a_stream_interrupts_its_command(asession: shellkeep.AsyncSession) -> None:
    """The event loop closes what an abandoned `async for` holds."""
    async for chunk in asession.stream("echo started; sleep 300"):
        assert chunk.text == "started\n"
        break
    assert (await asession.run("echo free")).stdout == "free\n"
    async with asession.stream("echo one; until [ -e go ]; do sleep 0.05; done; echo two") as stream:
        async for chunk in stream:
            break
        await asession.files.write("go", "")
        assert [chunk.text async for chunk in stream] == ["two\n"]


async def test_a_hundred_sessions_at_once(aclient: shellkeep.AsyncClient) -> None:
    async def work(number: int) -> str:
        async with aclient.session(f"many-{number}") as session:
            await session.run(f"X={number}")
            result = await session.run("echo $X", timeout=120)
            await session.delete()
            return result.stdout.strip()

    assert await asyncio.gather(*(work(n) for n in range(100))) == [str(n) for n in range(100)]


def test_both_clients_have_the_same_names() -> None:
    pairs = [
        (shellkeep.Client, shellkeep.AsyncClient),
        (shellkeep.Session, shellkeep.AsyncSession),
        (shellkeep.Run, shellkeep.AsyncRun),
        (shellkeep.Service, shellkeep.AsyncService),
    ]
    for sync, other in pairs:
        names = {name for name in dir(sync) if not name.startswith("_")}
        assert names == {name for name in dir(other) if not name.startswith("_")}
        for name in names:
            mine, theirs = getattr(sync, name), getattr(other, name)
            if inspect.isfunction(mine):
                assert list(inspect.signature(mine).parameters) == list(inspect.signature(theirs).parameters), name


def open_sockets() -> set[str]:
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:
            # The descriptor with which this list was read.
            continue
    return {name for name in found if name.startswith("socket:")}


def test_a_client_serves_loops_one_after_another_and_at_once(session: shellkeep.Session) -> None:
    """A connection is registered with one loop, and closed there."""
    assert session.client.daemon is not None
    before = open_sockets()

    async def echo(client: shellkeep.AsyncClient, text: str) -> str:
        attached = await client.attach(session.id)
        return (await attached.run(f"echo {text}")).stdout

    for _ in range(3):
        client = shellkeep.AsyncClient(socket=session.client.daemon.socket)
        assert asyncio.run(echo(client, "one")) == "one\n"
        kept = open_sockets()
        assert asyncio.run(echo(client, "two")) == "two\n"
        assert open_sockets() == kept, "the second loop uses the connections of the first"
        answered, close = threading.Event(), threading.Event()

        async def stay() -> None:
            assert await echo(client, "three") == "three\n"
            answered.set()
            await asyncio.to_thread(close.wait)

        other = threading.Thread(target=asyncio.run, args=(stay(),))
        other.start()
        answered.wait()
        assert asyncio.run(echo(client, "four")) == "four\n"
        asyncio.run(client.close())
        close.set()
        other.join()
        assert open_sockets() == before


async def test_a_loop_serves_clients_one_after_another(session: shellkeep.Session) -> None:
    """A closed socket's number comes back as another's, so it must not stay registered."""
    assert session.client.daemon is not None
    for _ in range(3):
        async with shellkeep.AsyncClient(socket=session.client.daemon.socket) as client:
            attached = await client.attach(session.id)
            assert (await attached.run("echo one")).stdout == "one\n"


async def test_a_slow_reader_gets_everything(asession: shellkeep.AsyncSession) -> None:
    """While nobody reads, the connection is not watched; then it is again."""
    size = 0
    async with asession.stream("seq 200000") as stream:
        async for chunk in stream:
            size += len(chunk.data)
            for _ in range(5):
                await asyncio.sleep(0)
    assert size == sum(len(f"{number}\n") for number in range(1, 200001))


async def test_a_thousand_sessions_at_once() -> None:
    """One event loop, one client, a connection for each command that runs; each session keeps its own shell."""

    async def use(client: shellkeep.AsyncClient, number: int) -> str:
        session = await client.session(f"many-{number}")
        return (await session.run(f"X={number}; echo $X", timeout=600)).stdout

    # Each connection is a descriptor, and many systems allow a process 1024.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with shellkeep.Client.local() as local:
        assert local.daemon is not None
        async with shellkeep.AsyncClient(socket=local.daemon.socket) as client:
            answers = await asyncio.gather(*(use(client, number) for number in range(1000)))
            assert answers == [f"{number}\n" for number in range(1000)]
            assert len([info async for info in client.sessions()]) == 1000
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
