"""What the client costs: `run("true")` beside the same request over a bare connection, in turns.

The sync client is compared with a socket that blocks, the async client with the streams of asyncio. The processor time is that of this process, without the daemon. On a busy machine every wake finds cold caches, so the
fastest tenth is printed beside the median.

Usage: overhead.py [ROUNDS]
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time

import shellkeep

#: Commands of one kind between two commands of the other, so that both see the same machine.
BLOCK = 50


#: The wall time and the processor time of each command.
Times = list[tuple[float, float]]


def now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def since(start: tuple[float, float]) -> tuple[float, float]:
    wall, cpu = now()
    return wall - start[0], cpu - start[1]


def request(name: str, number: int) -> bytes:
    """The client's request, written by hand."""
    body = json.dumps({"command": "true", "request_id": f"{name}-{time.monotonic_ns()}-{number}"}).encode()
    head = f"POST /v1/sessions/{name}/run HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def length_of(head: bytes) -> int:
    return int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])


def raw(path: str, name: str, count: int) -> Times:
    """Requests over a socket that blocks, each read until its answer is whole."""
    times = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(path)
        for number in range(count):
            data = request(name, number)
            start = now()
            connection.sendall(data)
            answer = b""
            while b"\r\n\r\n" not in answer:
                answer += connection.recv(65536)
            end = answer.index(b"\r\n\r\n") + 4 + length_of(answer)
            while len(answer) < end:
                answer += connection.recv(65536)
            times.append(since(start))
    return times


async def raw_async(path: str, name: str, count: int) -> Times:
    """The same over the streams of asyncio."""
    times = []
    reader, writer = await asyncio.open_unix_connection(path)
    for number in range(count):
        data = request(name, number)
        start = now()
        writer.write(data)
        await reader.readexactly(length_of(await reader.readuntil(b"\r\n\r\n")))
        times.append(since(start))
    writer.close()
    await writer.wait_closed()
    return times


def sync(session: shellkeep.Session, count: int) -> Times:
    times = []
    for _ in range(count):
        start = now()
        session.run("true")
        times.append(since(start))
    return times


async def awaited(session: shellkeep.AsyncSession, count: int) -> Times:
    times = []
    for _ in range(count):
        start = now()
        await session.run("true")
        times.append(since(start))
    return times


async def main(rounds: int) -> None:
    with shellkeep.Client.local() as client:
        assert client.daemon is not None
        path = client.daemon.socket
        session = client.session("bench")
        async with shellkeep.AsyncClient(socket=path) as other:
            twin = await other.session("bench")
            found: dict[str, Times] = {"raw": [], "sync": [], "raw async": [], "async": []}
            for number in range(rounds + 1):
                pieces = {"raw": raw(path, "bench", BLOCK), "sync": sync(session, BLOCK)}
                pieces["raw async"] = await raw_async(path, "bench", BLOCK)
                pieces["async"] = await awaited(twin, BLOCK)
                if number > 0:
                    for kind, times in pieces.items():
                        found[kind] += times
    for kind, bare in (("sync", "raw"), ("async", "raw async")):
        show(bare, found[bare], found[bare])
        show(kind, found[kind], found[bare])


def show(kind: str, times: Times, bare: Times) -> None:
    parts = [f"{kind:9} n={len(times)}"]
    for name, (wall, cpu), (raw_wall, raw_cpu) in zip(("median", "fastest tenth"), summary(times), summary(bare)):
        above = f"above raw {wall - raw_wall:4.0f} and {cpu - raw_cpu:4.0f}"
        parts.append(f"{name}: wall {wall:5.0f} us, processor {cpu:4.0f} us, {above}")
    print("; ".join(parts))


def summary(times: Times) -> list[tuple[float, float]]:
    """Wall and processor time in microseconds: the median, and the slowest of the fastest tenth."""
    columns = [sorted(column) for column in zip(*times)]
    return [(columns[0][at] * 1e6, columns[1][at] * 1e6) for at in (len(times) // 2, len(times) // 10)]


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20))
