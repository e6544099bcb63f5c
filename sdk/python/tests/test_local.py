"""A private daemon: what ends with it, and what does not."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from pathlib import Path
from typing import Any, NoReturn

import pytest

import shellkeep
from shellkeep import _local


def ends(pid: int) -> bool:
    """Waits for a process that is no child of this one."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 30)[0])
    finally:
        os.close(descriptor)


def test_a_forked_process_leaves_the_daemon_of_its_parent() -> None:
    """It removed the data of the daemon that its parent still used: a `multiprocessing` worker was enough."""
    with shellkeep.Client.local() as client:
        assert client.daemon is not None
        session = client.session("demo")
        session.run("echo kept >file")
        child = os.fork()
        if child == 0:
            client.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert os.path.exists(client.daemon.data)
        assert session.run("cat file").stdout == "kept\n"
        assert client.session("new").run("echo works").stdout == "works\n"
    assert not os.path.exists(client.daemon.data)


@pytest.mark.parametrize("service", ["exec sleep 300", "trap '' TERM; while :; do sleep 1; done"])
def test_services_end_with_temporary_data(service: str) -> None:
    """They went on without data and without a daemon that could stop them."""
    with shellkeep.Client.local() as client:
        info = client.session("demo").service(service, restart="always").info
        assert info.pid is not None
    assert ends(info.pid)


def test_services_outlive_a_daemon_whose_data_stays(tmp_path: Path) -> None:
    with shellkeep.Client.local(tmp_path / "data") as client:
        pid = client.session("demo").service("exec sleep 300", name="s").info.pid
    with shellkeep.Client.local(tmp_path / "data") as client:
        (service,) = client.session("demo").services()
        assert (service.info.status, service.info.pid) == ("running", pid)
        service.stop()


def test_a_daemon_that_hangs_is_killed_with_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking it for its services has a bound too."""
    monkeypatch.setattr(_local, "SERVICE_TIMEOUT", 0.1)
    monkeypatch.setattr(_local, "STOP_TIMEOUT", 0.1)
    client = shellkeep.Client.local()
    assert client.daemon is not None
    os.kill(client.daemon.pid, signal.SIGSTOP)
    client.close()
    assert not os.path.exists(client.daemon.data)


def test_an_interrupted_start_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ctrl-C while the daemon started left it running, with its data."""
    started: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            started.append(self)

    def interrupt(*args: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(subprocess, "Popen", Noted)
    monkeypatch.setattr(select, "select", interrupt)
    with pytest.raises(KeyboardInterrupt):
        shellkeep.Client.local()
    (process,) = started
    assert process.returncode is not None
    assert list(tmp_path.iterdir()) == []
