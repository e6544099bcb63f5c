"""Connections that break, daemons that die, daemons of another version."""

from __future__ import annotations

import asyncio
import http.server
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cutter import Cutter

import shellkeep
from shellkeep._http import EventParser, ProtocolError, ResponseParser


def socket_of(client: shellkeep.Client) -> str:
    assert client.daemon is not None
    return client.daemon.socket


def test_an_answer_that_never_came_is_asked_for_again(client: shellkeep.Client, session: shellkeep.Session) -> None:
    """The command has run when its answer is cut off; asking again must not run it twice."""
    left = [2]

    def cut(request: bytes, answer: bytes) -> int | None:
        if b"/run HTTP" in request and left[0] > 0:
            left[0] -= 1
            return 0
        return None

    with Cutter(socket_of(client), cut) as cutter, shellkeep.Client(socket=cutter.path, start=False) as shaky:
        result = shaky.attach(session.id).run("echo x >>count; wc -l <count")
    assert (result.stdout.strip(), cutter.cuts) == ("1", 2)


def test_a_stream_goes_on_where_it_broke(client: shellkeep.Client, session: shellkeep.Session) -> None:
    """Cut in the middle of a character and of an event: what was read before is not read again."""
    left = [3]

    def cut(request: bytes, answer: bytes) -> int | None:
        if b"text/event-stream" in request and left[0] > 0 and b"line 2" in answer:
            left[0] -= 1
            return 40
        return None

    command = "for i in $(seq 5); do echo \"line $i é\"; sleep 0.05; done; echo x >>count; wc -l <count"
    with Cutter(socket_of(client), cut) as cutter, shellkeep.Client(socket=cutter.path, start=False) as shaky:
        pieces: list[str] = []
        result = shaky.attach(session.id).run(command, on_stdout=pieces.append)
    expected = "".join(f"line {n} é\n" for n in range(1, 6)) + "1\n"
    assert ("".join(pieces), result.stdout, cutter.cuts) == (expected, expected, 3)


def test_a_stream_that_broke_has_all_output_of_a_run_that_ended(
    client: shellkeep.Client, session: shellkeep.Session
) -> None:
    """The stream of a run that has ended has as much output as its result; the rest was lost after a break."""
    left = [1]

    def cut(request: bytes, answer: bytes) -> int | None:
        if b"text/event-stream" in request and left[0] > 0 and b"event: stdout" in answer:
            left[0] -= 1
            # Waits for its turn, so the command of the stream has ended.
            session.run("true")
            return 60
        return None

    command = "head -c 3000000 /dev/zero | tr '\\0' x; echo é; printf '\\xff' >&2"
    with Cutter(socket_of(client), cut) as cutter, shellkeep.Client(socket=cutter.path, start=False) as shaky:
        with shaky.attach(session.id).stream(command, max_output=1000) as stream:
            pieces = list(stream)
    out = b"".join(piece.data for piece in pieces if piece.stream == "stdout")
    assert out == b"x" * 3_000_000 + "é\n".encode()
    assert [piece.data for piece in pieces if piece.stream == "stderr"] == [b"\xff"]
    assert (stream.result.truncated, len(stream.result.stdout) < 2000, cutter.cuts) == (True, True, 1)
    again = b"".join(piece.data for piece in session.get_run(stream.result.run_id))
    assert again == out + b"\xff"


async def test_awaited_too(client: shellkeep.Client, session: shellkeep.Session) -> None:
    """An answer is cut off, then a stream twice: each command runs once, and no output is missing."""
    left = {b"/run HTTP": 1, b"text/event-stream": 2}

    def cut(request: bytes, answer: bytes) -> int | None:
        kind = b"text/event-stream" if b"text/event-stream" in request else b"/run HTTP"
        if kind not in request or left[kind] == 0 or (kind == b"text/event-stream" and b"line 2" not in answer):
            return None
        left[kind] -= 1
        return 0 if kind == b"/run HTTP" else 40

    command = "for i in $(seq 5); do echo \"line $i é\"; sleep 0.05; done; echo x >>count; wc -l <count"
    with Cutter(socket_of(client), cut) as cutter:
        async with shellkeep.AsyncClient(socket=cutter.path, start=False) as shaky:
            attached = await shaky.attach(session.id)
            once = await attached.run("echo x >>count; wc -l <count")
            pieces: list[str] = []
            result = await attached.run(command, on_stdout=pieces.append)
    expected = "".join(f"line {n} é\n" for n in range(1, 6)) + "2\n"
    assert (once.stdout, "".join(pieces), result.stdout, cutter.cuts) == ("1\n", expected, expected, 3)


def test_what_must_not_be_repeated_is_not(client: shellkeep.Client, session: shellkeep.Session) -> None:
    def cut(request: bytes, answer: bytes) -> int | None:
        return 0 if b"/messages HTTP" in request else None

    with Cutter(socket_of(client), cut) as cutter, shellkeep.Client(socket=cutter.path, start=False) as shaky:
        with pytest.raises(shellkeep.DaemonUnavailable, match="broke"):
            shaky.attach(session.id).messages.add("user", "once")
    assert [message.content for message in session.messages.list()] == ["once"]


def test_a_killed_daemon_in_mid_stream(tmp_path: Path) -> None:
    """The run is lost, and said to be lost; it is not run again."""
    with shellkeep.Client.local(tmp_path / "data") as client:
        assert client.daemon is not None
        daemon = client.daemon
        session = client.session("demo")
        session.run("export KEPT=yes")
        restarts: list[threading.Thread] = []

        def kill(text: str) -> None:
            if not restarts:
                daemon.kill()
                restarts.append(threading.Thread(target=daemon.restart))
                restarts[0].start()

        result = session.run("echo x >>count; echo started; sleep 300", on_stdout=kill)
        restarts[0].join()
        assert result.status == "lost"
        with pytest.raises(shellkeep.CommandLost):
            result.check()
        assert session.run("echo $KEPT; wc -l <count").stdout.split() == ["yes", "1"]


def test_a_daemon_is_started_when_none_runs(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with shellkeep.Client(data=data) as client:
        assert client.session("demo").run("echo up").stdout == "up\n"
        pid = client.ready().pid
        with shellkeep.Client(data=data) as second:
            assert second.ready().pid == pid
    subprocess_stop(pid)


def subprocess_stop(pid: int) -> None:
    import os
    import select
    import signal

    descriptor = os.pidfd_open(pid)
    os.kill(pid, signal.SIGTERM)
    select.select([descriptor], [], [], 30)
    os.close(descriptor)


def test_no_daemon_is_started_on_request(tmp_path: Path) -> None:
    with shellkeep.Client(data=tmp_path / "none", start=False) as client:
        with pytest.raises(shellkeep.DaemonUnavailable, match="shellkeep serve"):
            client.node()
    with shellkeep.Client("http://127.0.0.1:1") as client:
        with pytest.raises(shellkeep.DaemonUnavailable, match="check the address"):
            client.node()


@pytest.mark.parametrize("url", ["ftp://x", "127.0.0.1:7433", "http://", "http://x:y", "unix:s", "unix://s/t"])
def test_a_wrong_address_is_refused(url: str) -> None:
    with pytest.raises(shellkeep.InvalidRequest, match="http://HOST:PORT, or unix:/PATH"):
        shellkeep.Client(url)


@pytest.mark.parametrize("form", ["unix:{}", "unix://{}"])
def test_the_address_that_a_daemon_prints_is_one(
    client: shellkeep.Client, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = form.format(socket_of(client))
    with shellkeep.Client(url, start=False) as by_argument:
        assert by_argument.node().memory > 0
    monkeypatch.setenv("SHELLKEEP_URL", url)
    with shellkeep.Client(start=False) as by_variable:
        assert by_variable.node().memory > 0


def test_interrupting_does_not_wait_for_a_daemon_that_hangs(
    own_client: shellkeep.Client, frozen: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C waited for the daemon to interrupt the command, and so for ever."""
    monkeypatch.setattr("shellkeep._sync.run.FAREWELL", 0.1)
    session = own_client.session("demo")

    def interrupt(text: str) -> None:
        frozen()
        raise KeyboardInterrupt

    def work() -> None:
        with pytest.raises(KeyboardInterrupt):
            session.run("echo started; sleep 300", on_stdout=interrupt)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(60)
    assert not worker.is_alive()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_address_that_drops_packets_is_given_up(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """The system tries for two minutes. A listener whose queue is full does not answer either."""
    monkeypatch.setattr(f"shellkeep._{kind}.io.CONNECT_TIMEOUT", 0.1)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        host, port = listener.getsockname()
        with socket.create_connection((host, port)):
            url = f"http://{host}:{port}"
            failures: list[BaseException] = []

            def ask() -> None:
                with pytest.raises(shellkeep.DaemonUnavailable) as raised:
                    if kind == "sync":
                        shellkeep.Client(url).node()
                    else:
                        asyncio.run(ask_awaited())
                failures.append(raised.value)

            async def ask_awaited() -> None:
                await shellkeep.AsyncClient(url).node()

            worker = threading.Thread(target=ask, daemon=True)
            worker.start()
            worker.join(60)
            assert len(failures) == 1 and "timed out" in str(failures[0])


class Other(http.server.BaseHTTPRequestHandler):
    """A daemon of another version."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = b'{"status":"ok","version":"9.9.9"}'
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_daemon_of_another_version_is_refused() -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with shellkeep.Client(f"http://127.0.0.1:{server.server_address[1]}") as client:
            with pytest.raises(shellkeep.VersionMismatch, match="9.9.9") as raised:
                client.node()
        server.shutdown()
    assert shellkeep.__version__ in str(raised.value)


ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: x\r\ntransfer-encoding: chunked\r\n\r\n4\r\nWiki\r\n6;a=b\r\npedia \r\n0\r\n\r\n"


def test_an_answer_is_whole_however_it_is_cut() -> None:
    for size in range(1, len(ANSWER) + 1):
        parser = ResponseParser()
        parts: list[bytes] = []
        for start in range(0, len(ANSWER), size):
            parts += parser.feed(ANSWER[start : start + size])
        assert (b"".join(parts), parser.done) == (b"Wikipedia ", True), size


@pytest.mark.parametrize(
    "wrong",
    [
        b"hello\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc\r\n",
        b"x" * 100_000,
    ],
)
def test_what_is_not_http_is_an_error(wrong: bytes) -> None:
    with pytest.raises(ProtocolError):
        ResponseParser().feed(wrong)


def test_a_cut_answer_is_an_error() -> None:
    for end in range(len(ANSWER) - 1):
        parser = ResponseParser()
        parser.feed(ANSWER[:end])
        if not parser.done:
            with pytest.raises(ProtocolError):
                parser.end()


def test_events_are_whole_however_they_are_cut() -> None:
    text = ': alive\n\nevent: stdout\ndata: {"text":"é"}\n\nevent: result\r\ndata: x\r\ndata: y\r\n\r\n'.encode()
    for size in range(1, len(text)):
        parser = EventParser()
        events = [e for start in range(0, len(text), size) for e in parser.feed(text[start : start + size])]
        assert [(e.name, e.data) for e in events] == [("stdout", '{"text":"é"}'), ("result", "x\ny")], size


def mine(events: Iterator[shellkeep.models.Event], count: int) -> list[Any]:
    return [next(events).data["n"] for _ in range(count)]


def test_followed_events_go_on_where_they_broke(client: shellkeep.Client, session: shellkeep.Session) -> None:
    """Cut in the middle of an event, twice: none is missed, and none comes twice."""
    left = [2]

    def cut(request: bytes, answer: bytes) -> int | None:
        if b"text/event-stream" in request and left[0] > 0 and b'"n":3' in answer:
            left[0] -= 1
            return 40
        return None

    with Cutter(socket_of(client), cut) as cutter, shellkeep.Client(socket=cutter.path, start=False) as shaky:
        for number in range(3):
            session.events.post("x_mine", {"n": number})
        events = shaky.attach(session.id).events.follow(type="x_mine")
        assert mine(events, 3) == [0, 1, 2]
        for number in range(3, 6):
            session.events.post("x_mine", {"n": number})
        assert (mine(events, 3), cutter.cuts) == ([3, 4, 5], 2)


def test_a_followed_log_goes_on_where_it_broke(client: shellkeep.Client, session: shellkeep.Session) -> None:
    left = [2]

    def cut(request: bytes, answer: bytes) -> int | None:
        if b"text/event-stream" in request and left[0] > 0 and b"second" in answer:
            left[0] -= 1
            return 40
        return None

    with Cutter(socket_of(client), cut) as cutter, shellkeep.Client(socket=cutter.path, start=False) as shaky:
        service = session.service("echo first; until [ -e go ]; do sleep 0.05; done; echo second é")
        (seen,) = shaky.attach(session.id).services()
        log = seen.follow()
        pieces = [next(log)]
        session.run("touch go")
        assert (b"".join([*pieces, *log]).decode(), cutter.cuts) == ("first\nsecond é\n", 2)
        assert service.refresh().status == "exited"


def test_followed_events_survive_a_restart(own_client: shellkeep.Client) -> None:
    daemon = own_client.daemon
    assert daemon is not None
    session = own_client.session("demo")
    events = session.events.follow(type="x_mine")
    session.events.post("x_mine", {"n": 0})
    assert mine(events, 1) == [0]
    daemon.restart()
    session.events.post("x_mine", {"n": 1})
    assert mine(events, 1) == [1]


def test_following_says_why_it_ended(own_client: shellkeep.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended like a list when the daemon stopped, and `error` events were skipped."""
    monkeypatch.setattr("shellkeep._sync.follow.PAUSES", (0.0, 0.0))
    daemon = own_client.daemon
    assert daemon is not None
    gone = own_client.session("gone")
    events = gone.events.follow()
    assert next(events).event_type == "session_created"
    gone.delete()
    with pytest.raises(shellkeep.SessionNotFound):
        list(events)
    session = own_client.session("demo")
    service = session.service("exec sleep 300")
    events, log = session.events.follow(type="session_created"), service.follow()
    assert next(events).event_type == "session_created"
    subprocess_stop(daemon.pid)
    for followed in (events, log):
        with pytest.raises(shellkeep.DaemonUnavailable):
            list(followed)
    daemon.restart()
