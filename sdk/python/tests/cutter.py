"""A proxy in front of a daemon that breaks connections on purpose."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Callable
from types import TracebackType

#: Decides on a piece of an answer: how many of its bytes to let through, or `None` for all and going on.
Cut = Callable[[bytes, bytes], "int | None"]


class Cutter:
    """Listens on a socket of its own. `cut(request, answer)` sees each request with what was answered so far."""

    def __init__(self, target: str, cut: Cut) -> None:
        self._target = target
        self._cut = cut
        self._directory = tempfile.TemporaryDirectory(prefix="cutter-")
        self.path = os.path.join(self._directory.name, "s")
        self.cuts = 0
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen(64)
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def __enter__(self) -> Cutter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        self._directory.cleanup()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        """Carries requests one after the other; a client of this package does not send the next one early."""
        with near, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as far:
            far.connect(self._target)
            state = {"request": b"", "answer": b""}

            def forward() -> None:
                try:
                    while data := near.recv(65536):
                        if state["answer"]:
                            state["request"] = state["answer"] = b""
                        state["request"] += data
                        far.sendall(data)
                    far.shutdown(socket.SHUT_WR)
                except OSError:
                    return

            threading.Thread(target=forward, daemon=True).start()
            try:
                while data := far.recv(65536):
                    state["answer"] += data
                    allowed = self._cut(state["request"], state["answer"])
                    if allowed is not None:
                        self.cuts += 1
                        near.sendall(data[: max(0, allowed)])
                        near.shutdown(socket.SHUT_RDWR)
                        return
                    near.sendall(data)
            except OSError:
                return
