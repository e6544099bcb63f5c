"""Commands, results, errors: the blocking client against the built program."""

from __future__ import annotations

import copy
import os
import pickle
import threading
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import shellkeep
from shellkeep import errors


def test_a_session_remembers(session: shellkeep.Session) -> None:
    session.run("cd /tmp; export NAME=ann; greet() { echo hi; }")
    result = session.run('echo "$NAME in $PWD"; greet')
    assert result.stdout == "ann in /tmp\nhi\n"
    assert (result.ok, result.exit_code, result.status) == (True, 0, "exited")


def test_a_failed_command_is_a_result(session: shellkeep.Session) -> None:
    result = session.run("echo out; echo oops >&2; exit 3")
    assert (result.ok, result.exit_code) == (False, 3)
    assert (result.stdout, result.stderr, result.output) == ("out\n", "oops\n", "out\noops\n")
    with pytest.raises(shellkeep.CommandFailed, match="exited with 3: oops") as raised:
        session.run("echo oops >&2; exit 3", check=True)
    assert raised.value.result.exit_code == 3
    assert session.run("echo on").stdout == "on\n"


def test_a_timeout_is_a_result(session: shellkeep.Session) -> None:
    result = session.run("echo before; sleep 60", timeout=0.2)
    assert (result.status, result.stdout, result.ok) == ("timed_out", "before\n", False)
    with pytest.raises(shellkeep.CommandTimedOut):
        session.run("sleep 60", timeout=0.2, check=True)


def test_bytes_that_are_not_text_come_exactly(session: shellkeep.Session) -> None:
    result = session.run(r"printf '\xff\x00\xfe'; printf 'ok' >&2")
    assert result.stdout_bytes_exact() == b"\xff\x00\xfe"
    assert result.stderr_bytes_exact() == b"ok"
    assert session.run("od -An -tx1", stdin=b"\xff\x01").stdout.split() == ["ff", "01"]


def test_ten_mebibytes_of_output(session: shellkeep.Session) -> None:
    size = 10 * 1024 * 1024
    result = session.run(f"head -c {size} /dev/zero | tr '\\0' x", max_output=16 * 1024 * 1024)
    assert (len(result.stdout), result.stdout_bytes, result.truncated) == (size, size, False)
    cut = session.run(f"head -c {size} /dev/zero | tr '\\0' x", max_output=1000)
    assert cut.truncated and cut.stdout_bytes == size
    total = 0
    with session.stream(f"head -c {size} /dev/zero | tr '\\0' x") as stream:
        for chunk in stream:
            total += len(chunk.data)
    assert total == size


def test_output_as_it_comes(session: shellkeep.Session) -> None:
    out: list[str] = []
    err: list[str] = []
    result = session.run("echo a; echo b >&2; echo c", on_stdout=out.append, on_stderr=err.append)
    assert ("".join(out), "".join(err), result.ok) == ("a\nc\n", "b\n", True)
    with session.stream("echo x; exit 4") as stream:
        assert [(chunk.stream, chunk.text) for chunk in stream] == [("stdout", "x\n")]
        assert stream.result.exit_code == 4


def test_a_stream_that_is_not_read_starts_nothing(session: shellkeep.Session) -> None:
    with session.stream("touch begun"):
        pass
    assert session.run("ls").stdout == ""


def test_a_refused_command_does_not_run_later(session: shellkeep.Session) -> None:
    busy = session.start("sleep 60")
    with pytest.raises(shellkeep.SessionBusy):
        with session.stream("touch begun", if_busy="reject") as stream:
            try:
                next(stream)
            finally:
                busy.signal("KILL")
                busy.wait()
    assert session.run("ls").stdout == ""


def test_leaving_a_stream_interrupts_its_command(session: shellkeep.Session) -> None:
    with session.stream("echo started; sleep 300; echo never") as stream:
        assert next(stream).text == "started\n"
    assert session.run("echo free").stdout == "free\n"


def test_leaving_a_loop_over_a_stream_interrupts_its_command(session: shellkeep.Session) -> None:
    """Nothing closed the stream, so the command went on and the session was busy."""
    for chunk in session.stream("echo started; sleep 300"):
        assert chunk.text == "started\n"
        break
    assert session.run("echo free").stdout == "free\n"
    stream = session.stream("echo started; sleep 300")
    for _ in stream:
        break
    assert session.run("echo free").stdout == "free\n"


def test_an_entered_stream_can_be_read_in_several_loops(session: shellkeep.Session) -> None:
    with session.stream("echo one; until [ -e go ]; do sleep 0.05; done; echo two") as stream:
        for chunk in stream:
            assert chunk.text == "one\n"
            break
        session.files.write("go", "")
        assert [chunk.text for chunk in stream] == ["two\n"]
        assert stream.result.ok


def test_leaving_a_loop_over_a_run_leaves_the_run_alone(session: shellkeep.Session) -> None:
    run = session.start("echo started; until [ -e go ]; do sleep 0.05; done; echo ended")
    for _ in run:
        break
    session.files.write("go", "")
    assert run.wait().stdout == "started\nended\n"


def test_a_command_in_the_background(session: shellkeep.Session) -> None:
    run = session.start("read name; echo hi $name; exit 5")
    assert run.poll().status == "running"
    run.send("ann\n")
    result = run.wait()
    assert (result.stdout, result.exit_code) == ("hi ann\n", 5)
    assert run.output().text == "hi ann\n"
    assert "".join(chunk.text for chunk in run) == "hi ann\n"
    assert session.get_run(run.run_id).wait().exit_code == 5


def test_pieces_of_kept_output_are_whole_characters(session: shellkeep.Session) -> None:
    """A page ends at any byte. The halves of a character came as two characters that say that something is wrong."""
    run = session.start("printf a; yes é | head -n 1000000 | tr -d '\\n'; printf '\\xc3'")
    run.wait()
    pieces = list(run)
    assert len(pieces) > 1
    assert b"".join(piece.data for piece in pieces) == b"a" + "é".encode() * 1_000_000 + b"\xc3"
    assert "".join(piece.text for piece in pieces) == "a" + "é" * 1_000_000 + "\ufffd"
    assert all(piece.text == piece.data.decode("utf-8", "replace") for piece in pieces)


def test_a_signal_ends_a_command(session: shellkeep.Session) -> None:
    run = session.start("sleep 300")
    run.signal("TERM")
    assert run.wait().exit_code == 143


def test_the_same_request_runs_once(session: shellkeep.Session) -> None:
    for _ in range(3):
        result = session.run("echo x >>count; wc -l <count", request_id="only-once")
        assert result.stdout.strip() == "1"
    with pytest.raises(shellkeep.RequestIdReused):
        session.run("echo other", request_id="only-once")


def test_errors_have_a_class_and_a_code(client: shellkeep.Client, session: shellkeep.Session) -> None:
    with pytest.raises(shellkeep.SessionNotFound) as missing:
        client.attach(f"none-{uuid.uuid4().hex}")
    assert (missing.value.code, missing.value.status, missing.value.retryable) == ("session_not_found", 404, False)
    with pytest.raises(shellkeep.InvalidRequest):
        client.session("not a name")
    with pytest.raises(shellkeep.InvalidRequest, match="half a character"):
        session.run("echo \udc80")
    with pytest.raises(shellkeep.InvalidRequest, match="not JSON|only what JSON has"):
        session.events.post("x_mine", {"handle": session})
    with pytest.raises(shellkeep.InvalidRequest):
        session.run("true", timeout=-1)
    run = session.start("sleep 300")
    with pytest.raises(shellkeep.SessionBusy) as busy:
        session.run("true", if_busy="reject")
    assert busy.value.data["run_id"] == run.run_id
    run.interrupt()
    run.wait()
    with pytest.raises(shellkeep.VersionConflict) as conflict:
        session.agent_state.put(b"1", if_version=7)
    assert conflict.value.code == "version_conflict"


def test_handles_refuse_to_be_pickled(client: shellkeep.Client, session: shellkeep.Session) -> None:
    run = session.start("true")
    for handle in (client, session, run):
        for serialise in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match=r"session\.ref"):
                serialise(handle)
    run.wait()


def test_a_ref_is_plain_data(client: shellkeep.Client, session: shellkeep.Session) -> None:
    result = session.run("touch made")
    ref = pickle.loads(pickle.dumps(session.ref))
    assert ref == {"session_id": session.id, "seq": result.seq}
    assert client.session(ref).run("ls").stdout == "made\n"


def test_notes_are_kept(session: shellkeep.Session) -> None:
    first = session.record.user_input("hello")
    session.record.llm_call("p", "r", {"total": 3}, 0.1)
    session.events.post("x_mine", {"a": 1})
    kinds = [event.event_type for event in session.events.list(after=first - 1)]
    assert kinds == ["user_input", "llm_call", "x_mine"]
    assert (session.messages.add("user", "hi"), session.messages.add("assistant", "ho")) == (1, 2)
    assert [message.content for message in session.messages.list()] == ["hi", "ho"]
    assert session.agent_state.get() is None
    saved = session.agent_state.put(b"\x00state", if_version=0)
    assert session.agent_state.get() == (b"\x00state", saved.version)


def test_an_empty_page_is_not_the_end(
    client: shellkeep.Client, session: shellkeep.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search that takes long answers with an empty page that has a `next`; a list ended there."""
    for number in range(3):
        session.events.post("x_mine", {"n": number})
    session.messages.add("user", "hi")
    get = client.get

    def search(path: str, query: Mapping[str, Any] | None = None) -> Any:
        if query is not None and "after" in query and query["after"] is None:
            return {"events": [], "messages": [], "next": 0}
        return get(path, query)

    monkeypatch.setattr(client, "get", search)
    assert len(list(session.events.list(type="x_mine"))) == 3
    assert [message.content for message in session.messages.list()] == ["hi"]


def test_files_go_back_with_a_session(session: shellkeep.Session) -> None:
    before = session.run("echo one >file; export STEP=1")
    session.run("echo two >file; export STEP=2")
    fork = session.fork(at=before.seq)
    assert fork.run("cat file; echo $STEP").stdout == "one\n1\n"
    session.rewind(before.seq)
    assert session.run("cat file; echo $STEP").stdout == "one\n1\n"
    assert session.verify().intact
    fork.delete()


def test_a_service_keeps_running(session: shellkeep.Session) -> None:
    service = session.service("echo up; sleep 300", name="web", ready={"log": "up"}, wait=10)
    assert service.info.status == "running"
    assert "up" in service.logs().text
    assert [found.id for found in session.services()] == [service.id]
    assert service.stop().status == "stopped"


def test_tokens_limit_an_agent(tmp_path: Path) -> None:
    with shellkeep.Client.local(tmp_path / "data") as host:
        assert host.daemon is not None
        token = host.tokens.create("ann")
        host.session("hosts")
        agent = shellkeep.Client(socket=host.daemon.socket, token=token.token)
        with agent:
            mine = agent.session("mine")
            assert [info.session_id for info in agent.sessions()] == [mine.id]
            with pytest.raises(shellkeep.SessionNotFound):
                agent.attach("hosts")
        with shellkeep.Client(socket=host.daemon.socket, token="sk_wrong") as wrong:
            with pytest.raises(shellkeep.Unauthorized):
                wrong.node()


def test_many_threads_share_a_client(client: shellkeep.Client) -> None:
    names = [f"t-{uuid.uuid4().hex[:12]}" for _ in range(8)]
    results: dict[str, str] = {}

    def work(name: str) -> None:
        session = client.session(name)
        session.run(f"X={name}")
        results[name] = session.run("echo $X").stdout.strip()

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {name: name for name in names}
    for name in names:
        client.attach(name).delete()


def test_a_forked_process_has_its_own_connections(session: shellkeep.Session) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, session.run("echo child").stdout.encode())
        os._exit(0)
    os.close(writer)
    assert session.run("echo parent").stdout == "parent\n"
    assert os.read(reader, 100) == b"child\n"
    os.close(reader)
    os.waitpid(child, 0)


def test_a_closed_client_says_so(client: shellkeep.Client) -> None:
    assert client.daemon is not None
    other = shellkeep.Client(socket=client.daemon.socket)
    other.close()
    with pytest.raises(shellkeep.ShellkeepError, match="was closed"):
        other.node()


def test_problems_without_a_body_are_errors_too() -> None:
    error = errors.from_problem(502, b"<html>bad gateway")
    assert (error.code, error.status) == ("unexpected_answer", 502)
    busy = errors.from_problem(503, b'{"code":"overloaded","detail":"busy"}', "7")
    assert isinstance(busy, shellkeep.Overloaded) and busy.retry_after == 7 and busy.retryable


def classes_of_errors(kind: type[shellkeep.ShellkeepError]) -> list[type[shellkeep.ShellkeepError]]:
    return [kind, *(found for below in kind.__subclasses__() for found in classes_of_errors(below))]


def test_errors_go_to_another_process_as_they_are(session: shellkeep.Session) -> None:
    """They could not be unpickled, so `multiprocessing.Pool.get` never returned when a worker raised one."""
    kinds = [kind for kind in classes_of_errors(shellkeep.ShellkeepError) if not issubclass(kind, errors.CommandError)]
    assert shellkeep.VersionConflict in kinds
    raised = [kind("some_code", "what happened", status=412, data={"version": 3}) for kind in kinds]
    with pytest.raises(shellkeep.CommandFailed) as failed:
        session.run("exit 3", check=True)
    for error in [*raised, failed.value]:
        for copied in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
            assert (type(copied), str(copied), copied.args) == (type(error), str(error), error.args)
            assert vars(copied) == vars(error)


def test_an_option_that_does_not_exist_is_refused(session: shellkeep.Session) -> None:
    wrong: Any = {"timout": 3}
    with pytest.raises(TypeError, match="timout.*timeout"):
        session.run("true", **wrong)
    late: Any = {"max_output": 3}
    with pytest.raises(TypeError, match="max_output"):
        session.start("true", **late)
