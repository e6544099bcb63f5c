"""Files of a session, beside whatever runs in it."""

from __future__ import annotations

import hashlib

import pytest

import shellkeep


def test_files_are_written_and_read(session: shellkeep.Session) -> None:
    written = session.files.write("a/b/hello.txt", "grüße\n")
    assert (written.size, written.sha256) == (8, hashlib.sha256("grüße\n".encode()).hexdigest())
    assert session.run("cat a/b/hello.txt").stdout == "grüße\n"
    assert session.files.read_text("a/b/hello.txt") == "grüße\n"
    assert session.files.read("a/b/hello.txt", offset=6, limit=2) == b"e\n"
    session.files.write("run.sh", b"#!/bin/sh\necho ran\n", mode=0o755)
    assert session.run("./run.sh").stdout == "ran\n"


def test_a_large_file_comes_whole(session: shellkeep.Session) -> None:
    data = bytes(range(256)) * 4096 * 20
    session.files.write("large", data)
    assert session.files.read("large") == data


def test_a_directory_is_listed(session: shellkeep.Session) -> None:
    session.run("mkdir -p d/sub; echo 1 >d/one; ln -s one d/link; touch d/$'odd\\nname'")
    found = {entry.name: entry.kind for entry in session.files.list("d")}
    assert found == {"sub": "directory", "one": "file", "link": "symlink", "odd\nname": "file"}
    assert (session.files.stat("d/one").size, session.files.stat("d").kind) == (2, "directory")
    assert session.files.exists("d/one") and not session.files.exists("d/none")
    session.files.remove("d/one")
    assert not session.files.exists("d/one")
    with pytest.raises(shellkeep.Conflict) as refused:
        session.files.remove("d")
    assert refused.value.code == "directory_not_empty"
    session.files.remove("d", recursive=True)
    assert not session.files.exists("d")


def test_files_work_beside_a_command(session: shellkeep.Session) -> None:
    run = session.start("while [ ! -e go ]; do sleep 0.05; done; cat go")
    session.files.write("go", "went\n")
    assert run.wait(20).stdout == "went\n"


def test_changes_are_kept_and_go_back(session: shellkeep.Session) -> None:
    first = session.files.write("f", "one")
    session.files.write("f", "two")
    assert first.seq is not None
    session.rewind(first.seq)
    assert session.files.read_text("f") == "one"
    assert len(session.files.history("f")) >= 1


def test_what_must_not_be_replaced_is_not(session: shellkeep.Session) -> None:
    written = session.files.write("f", "one", create=True)
    with pytest.raises(shellkeep.VersionConflict):
        session.files.write("f", "two", create=True)
    with pytest.raises(shellkeep.VersionConflict):
        session.files.write("f", "two", if_sha256="0" * 64)
    session.files.write("f", "two", if_sha256=written.sha256)
    assert session.files.read_text("f") == "two"


@pytest.mark.parametrize("path", ["../out", "/etc/passwd", "link/passwd"])
def test_no_path_leads_out(session: shellkeep.Session, path: str) -> None:
    session.run("ln -s /etc link")
    with pytest.raises(shellkeep.NotAllowed) as refused:
        session.files.read(path)
    assert refused.value.code == "path_outside"


def test_wrong_paths_are_named(session: shellkeep.Session) -> None:
    with pytest.raises(shellkeep.NotFound) as missing:
        session.files.read("none")
    assert missing.value.code == "file_not_found"
    session.run("mkdir dir")
    with pytest.raises(shellkeep.Conflict) as directory:
        session.files.read("dir")
    assert directory.value.code == "is_directory"


async def test_awaited(asession: shellkeep.AsyncSession) -> None:
    await asession.files.write("f", b"\x00\xff")
    assert await asession.files.read("f") == b"\x00\xff"
    assert [entry.name async for entry in asession.files.list()] == ["f"]


def test_both_streams_in_their_order(session: shellkeep.Session) -> None:
    result = session.run("for i in 1 2 3; do echo o$i; echo e$i >&2; done", stderr="merge")
    assert (result.stdout, result.stderr) == ("o1\ne1\no2\ne2\no3\ne3\n", "")


def test_a_stream_names_its_run_first(session: shellkeep.Session) -> None:
    with session.stream("echo a; sleep 300") as stream:
        next(stream)
        assert stream.run_id is not None
        session.get_run(stream.run_id).signal("TERM")
        assert list(stream) == []
    assert stream.result.exit_code == 143
