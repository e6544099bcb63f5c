"""Many sessions at once from one asyncio process: each sets a variable and reads it back.

Usage: many.py [SESSIONS]
"""

from __future__ import annotations

import asyncio
import sys
import time

import shellkeep


async def work(client: shellkeep.AsyncClient, number: int) -> bool:
    session = await client.session(f"many-{number}")
    await session.run(f"X={number}", timeout=300)
    result = await session.run("echo $X", timeout=300)
    return result.stdout.strip() == str(number)


async def main(count: int) -> None:
    with shellkeep.Client.local() as local:
        assert local.daemon is not None
        async with shellkeep.AsyncClient(socket=local.daemon.socket) as client:
            start = time.perf_counter()
            right = await asyncio.gather(*(work(client, number) for number in range(count)))
            took = time.perf_counter() - start
    print(f"{count} sessions at once, 2 commands each: {sum(right)} right, {took:.1f} s")
    if not all(right):
        sys.exit(1)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
