"""Finding the daemon, and starting one when none runs, by the rules of the command line."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from urllib.parse import urlsplit

from ._binary import find_bin
from .errors import DaemonUnavailable, InvalidRequest

#: What every agent's token begins with; any other token is the host's.
AGENT_TOKEN_PREFIX = "sk_"
#: The longest a start of the daemon may take.
START_TIMEOUT = 60.0
#: Seconds to connect to an address. One that drops packets would hold a caller for the two minutes of the system.
CONNECT_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a daemon listens: a Unix socket, or a host and port."""

    socket: str | None
    host: str
    port: int
    token: str | None
    #: The data directory of a daemon that may be started; `None` if none may be.
    data: str | None

    @property
    def is_agent(self) -> bool:
        """Whether requests are an agent's, not the host's."""
        return self.token is not None and self.token.startswith(AGENT_TOKEN_PREFIX)

    def headers(self) -> bytes:
        """The header lines that every request has."""
        host = "localhost" if self.socket is not None else f"{self.host}:{self.port}"
        lines = f"host: {host}\r\nuser-agent: shellkeep-python\r\n"
        if self.token is not None:
            lines += f"authorization: Bearer {self.token}\r\n"
        return lines.encode("latin-1")

    def __str__(self) -> str:
        return self.socket if self.socket is not None else f"http://{self.host}:{self.port}"

    def unreachable(self, error: object) -> DaemonUnavailable:
        """The error for a daemon that does not answer."""
        remedy = "start one with `shellkeep serve`" if self.socket is not None else "check the address"
        return DaemonUnavailable("daemon_unavailable", f"no daemon answers on {self}: {error}; {remedy}")


def find(
    url: str | None = None,
    *,
    token: str | None = None,
    socket: str | os.PathLike[str] | None = None,
    data: str | os.PathLike[str] | None = None,
    start: bool = True,
) -> Endpoint:
    """The daemon that the arguments, the environment and the settings file name, in this order."""
    url = url or (_variable("SHELLKEEP_URL") if socket is None else None)
    named = _socket_in(url) if url is not None else None
    if url is not None and named is None:
        return _tcp(url, token, data)
    socket = named or socket
    data_path = os.path.abspath(data) if data is not None else _variable("SHELLKEEP_DATA")
    socket_path = os.path.abspath(socket) if socket is not None else _variable("SHELLKEEP_SOCKET")
    if (data_path is None or socket_path is None) and _settings_file() is not None:
        settings = _settings(data_path, socket_path)
        data_path = data_path or settings["data"]
        socket_path = socket_path or settings["socket"]
    data_path = os.path.abspath(data_path or _default_data())
    socket_path = os.path.abspath(socket_path or os.path.join(data_path, "shellkeep.sock"))
    if token is None:
        # The socket needs no token of the host; an agent's token limits what may be done.
        token = _variable("SHELLKEEP_TOKEN")
        token = token if token is not None and token.startswith(AGENT_TOKEN_PREFIX) else None
    return Endpoint(socket_path, "", 0, token, data_path if start else None)


def start(endpoint: Endpoint) -> None:
    """Starts a daemon on the endpoint's socket. The program itself does it, so there is one set of rules."""
    if endpoint.socket is None or endpoint.data is None:
        raise ValueError("a daemon is started on a socket only")
    command = [find_bin(), "quotas", "--json"]
    command += ["--data", endpoint.data, "--socket", endpoint.socket]
    environment = {name: value for name, value in os.environ.items() if name != "SHELLKEEP_URL"}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=START_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DaemonUnavailable("daemon_unavailable", f"the daemon could not be started: {error}") from error
    # An agent's token may be refused the quotas; the daemon runs all the same, and the next request says so.
    if done.returncode != 0 and not os.path.exists(endpoint.socket):
        reason = done.stderr.strip().removeprefix("shellkeep: ") or f"exit code {done.returncode}"
        raise DaemonUnavailable("daemon_unavailable", reason)


def _variable(name: str) -> str | None:
    return os.environ.get(name) or None


def _default_data() -> str:
    base = _variable("XDG_DATA_HOME")
    if base is None or not os.path.isabs(base):
        home = _variable("HOME")
        if home is None:
            raise InvalidRequest(
                "no_data_directory",
                "neither XDG_DATA_HOME nor HOME is set; pass data=DIR or set SHELLKEEP_DATA",
            )
        base = os.path.join(home, ".local/share")
    return os.path.join(base, "shellkeep")


def _settings_file() -> str | None:
    named = _variable("SHELLKEEP_CONFIG")
    if named is not None:
        return named
    base = _variable("XDG_CONFIG_HOME")
    if base is None or not os.path.isabs(base):
        home = _variable("HOME")
        base = os.path.join(home, ".config") if home is not None else None
    path = os.path.join(base, "shellkeep/config.toml") if base is not None else None
    return path if path is not None and os.path.exists(path) else None


def _settings(data: str | None, socket: str | None) -> dict[str, str]:
    """What the program makes of the settings file."""
    environment = dict(os.environ)
    if data is not None:
        environment["SHELLKEEP_DATA"] = data
    if socket is not None:
        environment["SHELLKEEP_SOCKET"] = socket
    done = subprocess.run([find_bin(), "config", "--json"], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise InvalidRequest("bad_settings", done.stderr.strip().removeprefix("shellkeep: "))
    settings = json.loads(done.stdout)["settings"]
    return {name: settings[name]["value"] for name in ("data", "socket")}


def _socket_in(url: str) -> str | None:
    """The path in `unix:/PATH`, which is how a daemon names its socket, or in `unix:///PATH`."""
    if not url.startswith("unix:"):
        return None
    path = url.removeprefix("unix:").removeprefix("//")
    return path if path.startswith("/") and len(path) > 1 else None


def _tcp(url: str, token: str | None, data: str | os.PathLike[str] | None) -> Endpoint:
    forms = "write http://HOST:PORT, or unix:/PATH for a socket"
    wrong = InvalidRequest("bad_url", f"'{url}' is not the address of a daemon; {forms}")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or 80
    except ValueError:
        raise wrong from None
    if parts.scheme != "http" or host is None:
        raise wrong
    token = token or _variable("SHELLKEEP_TOKEN") or _kept_token(data)
    if token is not None and not token.isprintable():
        raise InvalidRequest("bad_token", "the token must be one line of printable characters")
    return Endpoint(None, host, port, token, None)


def _kept_token(data: str | os.PathLike[str] | None) -> str | None:
    try:
        directory = os.fspath(data) if data is not None else _variable("SHELLKEEP_DATA") or _default_data()
        with open(os.path.join(directory, "token"), encoding="ascii") as file:
            return file.read().strip() or None
    except (OSError, ValueError, InvalidRequest):
        return None
