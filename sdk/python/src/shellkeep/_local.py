"""A daemon of its own for tests: private data, stopped with its client or at the end of the program."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path

from ._binary import find_bin
from ._endpoint import START_TIMEOUT, Endpoint
from ._http import Request, encode_json, segment
from ._sync.wire import Wire
from .errors import DaemonUnavailable, ShellkeepError

#: How long a daemon may take to stop before it is killed.
STOP_TIMEOUT = 20.0
#: Seconds between SIGTERM and SIGKILL for a service whose data is about to be removed.
SERVICE_GRACE = 1.0
#: Seconds in which the daemon answers about its services. One that hangs must not hold the end of the program.
SERVICE_TIMEOUT = 5.0


class LocalDaemon:
    """A child process that serves on a socket in its data directory."""

    def __init__(self, data: str | os.PathLike[str] | None = None, env: Mapping[str, str] | None = None) -> None:
        self._temporary = tempfile.mkdtemp(prefix="shellkeep-") if data is None else None
        self.data = os.path.abspath(data) if data is not None else str(self._temporary)
        self.socket = os.path.join(self.data, "shellkeep.sock")
        self._environment = {**os.environ, **(env or {})}
        for name in ("SHELLKEEP_URL", "SHELLKEEP_SOCKET", "SHELLKEEP_DATA", "SHELLKEEP_TOKEN"):
            self._environment.pop(name, None)
        self.endpoint = Endpoint(self.socket, "", 0, None, None)
        try:
            self._process = self._launch()
        except BaseException:
            _remove(self._temporary)
            raise
        self._finalizer = self._stopping()

    @property
    def pid(self) -> int:
        """The daemon's process."""
        return self._process.pid

    def kill(self) -> None:
        """Kills the daemon, as a power cut would."""
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        """Starts a daemon on the same data, after `kill`."""
        if self._process.poll() is None:
            _end(self._process)
        self._finalizer.detach()
        self._process = self._launch()
        self._finalizer = self._stopping()

    def _stopping(self) -> weakref.finalize[..., LocalDaemon]:
        return weakref.finalize(self, _stop, self._process, self.endpoint, self._temporary, os.getpid())

    def stop(self) -> None:
        """Stops the daemon. If its data is temporary, its services end with it and the data is removed."""
        self._finalizer()

    def _launch(self) -> subprocess.Popen[bytes]:
        Path(self.data).mkdir(mode=0o700, parents=True, exist_ok=True)
        reader, writer = os.pipe()
        log = os.path.join(self.data, "daemon.log")
        process = None
        try:
            with open(log, "ab") as output:
                command = [find_bin(), "serve", "--no-listen", "--data", self.data, "--socket", self.socket]
                process = subprocess.Popen(
                    [*command, "--ready-fd", "1"],
                    stdin=subprocess.DEVNULL,
                    stdout=writer,
                    stderr=output,
                    env=self._environment,
                    start_new_session=True,
                )
            os.close(writer)
            writer = -1
            ready, _, _ = select.select([reader], [], [], START_TIMEOUT)
            if ready and os.read(reader, 1):
                return process
        except BaseException:
            # Ctrl-C does not reach the daemon, which has a terminal session of its own.
            if process is not None:
                _end(process)
            raise
        finally:
            os.close(reader)
            if writer >= 0:
                os.close(writer)
        _end(process)
        tail = Path(log).read_text("utf-8", "replace")[-2000:].strip()
        raise DaemonUnavailable("daemon_unavailable", f"the daemon did not start: {tail or 'it wrote nothing'}")


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _stop(process: subprocess.Popen[bytes], endpoint: Endpoint, temporary: str | None, owner: int) -> None:
    if os.getpid() != owner:
        # A forked process has a copy of the handle; the daemon and its data are its parent's.
        return
    if temporary is not None and process.poll() is None:
        _stop_services(endpoint)
    _end(process)
    _remove(temporary)


def _stop_services(endpoint: Endpoint) -> None:
    """Stops all services. They outlive a daemon, for the next one on the same data; here there will be none."""
    wire = Wire(endpoint)
    try:
        found = wire.request(Request("GET", "/v1/services", patience=SERVICE_TIMEOUT)).json()["services"]
        for service in found:
            if service["status"] in ("starting", "running"):
                path = f"/v1/sessions/{segment(service['session_id'])}/services/{segment(service['service_id'])}/stop"
                body = encode_json({"grace": SERVICE_GRACE})
                wire.request(Request("POST", path, body=body, patience=SERVICE_GRACE + SERVICE_TIMEOUT))
    except ShellkeepError:
        # A daemon that does not answer is killed next.
        return
    finally:
        wire.close()


def _remove(temporary: str | None) -> None:
    if temporary is not None:
        shutil.rmtree(temporary, ignore_errors=True)
