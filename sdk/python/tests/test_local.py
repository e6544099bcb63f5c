"""A private daemon: what ends with it, and what does not."""

from __future__ import annotations

import os

import shellkeep


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
