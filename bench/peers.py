"""Other session tools, each through its own interface, in one process per tool.

    peers.py NAME COMMANDS OUTPUTS

writes a JSON object per line: {"version": …}, then {"figure": NAME, "seconds": […]} or {"figure": NAME, "failed": WHY}
for the figures `session`, `true` and `output`. Lines are written as soon as they are known, so that a tool that hangs
later still has its first figures counted.
"""

import asyncio
import importlib.metadata
import json
import os
import sys
import time

# Longest wait for one command.
CAP = 30
# New sessions timed; the slowest tool takes a third of a second for each.
SESSIONS = 5
# 1 MiB that ends in a newline: one of the tools waits forever without it.
LARGE = "yes 0123456789abcde | head -c 1048576"


class LangChain:
    """The session that ShellToolMiddleware keeps in an agent's state."""

    package = "langchain"

    async def open(self):
        from langchain.agents.middleware import ShellToolMiddleware

        self.middleware = ShellToolMiddleware(env=dict(os.environ))
        self.state = {}
        self.state.update(self.middleware.before_agent(self.state, None))
        self.session = self.state["shell_session_resources"].session

    async def run(self, command):
        result = self.session.execute(command, timeout=CAP)
        if result.timed_out:
            raise TimeoutError
        return result.exit_code, result.output

    async def close(self):
        self.middleware.after_agent(self.state, None)


class SweRex:
    """A BashSession of the local runtime."""

    package = "swe-rex"

    async def open(self):
        import logging

        logging.disable(logging.INFO)
        from swerex.runtime.abstract import CreateBashSessionRequest
        from swerex.runtime.local import LocalRuntime

        self.runtime = LocalRuntime()
        await self.runtime.create_session(CreateBashSessionRequest())

    async def run(self, command):
        from swerex.exceptions import CommandTimeoutError
        from swerex.runtime.abstract import BashAction

        try:
            result = await self.runtime.run_in_session(BashAction(command=command, timeout=CAP))
        except CommandTimeoutError as error:
            raise TimeoutError from error
        return result.exit_code, result.output

    async def close(self):
        await self.runtime.close()


class Sentinel:
    """The classic bash tool: a shell on pipes, the command and a sentinel's echo, a look at the buffer every 0.2 s."""

    package = None
    delay = 0.2
    sentinel = "<<exit>>"

    async def open(self):
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_shell(
            "/bin/bash", stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )

    async def run(self, command):
        self.process.stdin.write(f"{command}; echo '{self.sentinel}'\n".encode())
        await self.process.stdin.drain()
        # Such tools look into the reader's buffer, since a read would wait; that buffer stops growing at 128 KiB.
        buffer = self.process.stdout._buffer
        until = time.monotonic() + CAP
        while time.monotonic() < until:
            await asyncio.sleep(self.delay)
            output = buffer.decode(errors="replace")
            if self.sentinel in output:
                buffer.clear()
                return 0, output[: output.index(self.sentinel)]
        raise TimeoutError

    async def close(self):
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


PEERS = {"langchain": LangChain, "swe-rex": SweRex, "sentinel": Sentinel}


def say(**line):
    print(json.dumps(line), flush=True)


async def times(work, count):
    """How long each of `count` turns of `work` takes, and what the last one gave."""
    seconds, last = [], None
    for _ in range(count):
        start = time.perf_counter()
        last = await work()
        seconds.append(time.perf_counter() - start)
    return seconds, last


async def figure(name, peer, command, count):
    try:
        await peer.run("true")
        seconds, (code, output) = await times(lambda: peer.run(command), count)
    except TimeoutError:
        return say(figure=name, failed=f"no answer in {CAP} s")
    except Exception as error:
        return say(figure=name, failed=f"{type(error).__name__}: {error}")
    if code != 0:
        return say(figure=name, failed=f"exit code {code}")
    say(figure=name, seconds=seconds, kept=len(output))


async def main(name, commands, outputs):
    kind = PEERS[name]
    say(version=importlib.metadata.version(kind.package) if kind.package else "")
    opened = []

    async def new_session():
        opened.append(kind())
        await opened[-1].open()
        await opened[-1].run("true")

    # What is imported once, or started once, is not part of a session.
    await new_session()
    seconds, _ = await times(new_session, SESSIONS)
    say(figure="session", seconds=seconds)
    await figure("true", opened[0], "true", commands)
    # Last, since a tool that does not survive it is of no use afterwards.
    await figure("output", opened[1], LARGE, outputs)
    for peer in opened:
        try:
            await asyncio.wait_for(peer.close(), 5)
        except Exception:
            pass
    # A tool's reader threads may still wait for a shell that is stuck; they must not keep us.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
