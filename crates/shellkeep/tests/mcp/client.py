"""The official Python client against shellkeep, in two processes: the first one dies in the middle of a command, the
second one finds everything again. Run by `others.rs`, which says where the server is; exits with 0 if all is well.

  client.py first|second stdio|http legacy|auto DIRECTORY -- COMMAND... | URL TOKEN
"""

import os
import sys
from pathlib import Path

import anyio
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

MEBIBYTES = 10 * 1024 * 1024


def server(door, where):
    if door == "stdio":
        return StdioServerParameters(command=where[0], args=where[1:])
    headers = {"authorization": f"Bearer {where[1]}", "shellkeep-session": where[2]}
    return streamable_http_client(where[0], http_client=httpx2.AsyncClient(headers=headers, timeout=60))


async def run(client, command, **more):
    result = await client.call_tool("run_command", {"command": command, **more})
    assert not result.is_error, result
    return result


async def large_output(client):
    result = await run(client, f"head -c {MEBIBYTES} /dev/zero | tr '\\0' x")
    data = result.structured_content
    assert data["stdout_bytes"] == MEBIBYTES and data["truncated"], data["stdout_bytes"]
    assert len(result.content[0].text) < 40_000
    offset = 0
    while offset < MEBIBYTES:
        page = await client.call_tool("read_output", {"id": data["run_id"], "offset": offset})
        assert page.structured_content["next_offset"] > offset
        offset = page.structured_content["next_offset"]


async def progress(client, directory):
    told = []

    async def note(done, total, message):
        told.append((done, message))
        Path(directory, message).touch()

    command = f"for i in 1 2 3; do echo line $i; until [ -e {directory}/line\\ $i ]; do sleep 0.01; done; done"
    await client.call_tool("run_command", {"command": command}, progress_callback=note)
    assert [message for _, message in told] == ["line 1", "line 2", "line 3"] and told == sorted(told), told


async def cancellation(client):
    await run(client, "x=kept")
    arguments = {"command": "echo begun; sleep 3600", "timeout": 600, "request_id": f"c{os.getpid()}"}
    async with anyio.create_task_group() as group:

        async def note(done, total, message):
            group.cancel_scope.cancel()

        group.start_soon(lambda: client.call_tool("run_command", arguments, progress_callback=note))
    with anyio.fail_after(20):
        after = await run(client, "echo $x")
    assert after.content[0].text == "kept\n", after
    again = await client.call_tool("run_command", arguments)
    assert again.structured_content["status"] == "interrupted", again


async def first(client, directory, mode, door):
    tools = [tool.name for tool in (await client.list_tools()).tools]
    assert tools[:6] == ["run_command", "start_service", "stop_service", "list_services", "read_output", "send_input"], tools
    assert tools[6:] == ["signal", "list_checkpoints", "diff", "rewind"], tools
    await run(client, "cd /usr; export STAGE=test; hi() { echo hi $1; }")
    failed = await run(client, "echo oops >&2; exit 3")
    assert failed.content[0].text.startswith("[stderr]\noops\n[exit code 3; cwd "), failed
    wrong = await client.call_tool("run_command", {"comand": "true"})
    assert wrong.is_error and "comand" in wrong.content[0].text, wrong
    await large_output(client)
    await progress(client, directory)
    await cancellation(client)

    async def note(done, total, message):
        # As a crash would: no goodbye, in the middle of a command.
        os._exit(0)

    command = f"echo begun; until [ -e {directory}/go ]; do sleep 0.01; done; echo over"
    await client.call_tool("run_command", {"command": command, "request_id": "late"}, progress_callback=note)
    raise AssertionError("the command ended before its client did")


async def second(client, directory, mode, door):
    # Over HTTP and without MCP sessions, to hang up is to cancel; everywhere else the command went on.
    is_cancelled = door == "http" and mode == "auto"
    if not is_cancelled:
        Path(directory, "go").touch()
    command = f"echo begun; until [ -e {directory}/go ]; do sleep 0.01; done; echo over"
    result = await run(client, command, request_id="late")
    data = result.structured_content
    if is_cancelled:
        assert data["status"] == "interrupted" and data["stdout"] == "begun\n", data
    else:
        assert data["status"] == "exited" and data["stdout"] == "begun\nover\n", data
    page = await client.call_tool("read_output", {"id": data["run_id"]})
    assert page.structured_content["text"] == data["stdout"], page
    result = await run(client, "hi ann; echo $STAGE $PWD")
    assert result.content[0].text == "hi ann\ntest /usr\n", result
    resources = (await client.list_resources()).resources
    text = (await client.read_resource(str(resources[1].uri))).contents[0].text
    assert text == "hi ann\ntest /usr\n", text


async def main(act, door, mode, directory, _, *where):
    async with Client(server(door, list(where)), mode=mode) as client:
        await {"first": first, "second": second}[act](client, directory, mode, door)


anyio.run(main, *sys.argv[1:])
