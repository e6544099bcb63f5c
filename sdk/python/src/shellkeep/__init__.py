"""Durable shell sessions for AI agents.

    import shellkeep

    with shellkeep.Client() as client:
        with client.session("demo") as session:
            session.run("cd /tmp; export NAME=ann")
            print(session.run('echo "$NAME in $PWD"').stdout)

`AsyncClient` has the same names, to be awaited.
"""

from __future__ import annotations

from . import errors, models
from ._async.client import AsyncClient
from ._async.run import AsyncRun, AsyncRunStream
from ._async.service import AsyncService
from ._async.session import AsyncSession
from ._binary import find_bin
from ._sync.client import Client
from ._sync.run import Run, RunStream
from ._sync.service import Service
from ._sync.session import Session
from .errors import (
    CommandError,
    CommandFailed,
    CommandLost,
    CommandTimedOut,
    Conflict,
    DaemonUnavailable,
    InvalidRequest,
    NotAllowed,
    NotFound,
    Overloaded,
    QuotaExceeded,
    RequestIdReused,
    SessionBusy,
    SessionNotFound,
    ShellkeepError,
    TooLarge,
    Unauthorized,
    VersionConflict,
    VersionMismatch,
)
from .options import RunOptions, StartOptions, StreamOptions
from .results import Chunk, RunResult, SessionRef
from .values import Delete, FileInfo, FileWritten, KvEntry, Put

__version__ = models.API_VERSION

__all__ = [
    "AsyncClient",
    "AsyncRun",
    "AsyncRunStream",
    "AsyncService",
    "AsyncSession",
    "Chunk",
    "Client",
    "CommandError",
    "CommandFailed",
    "CommandLost",
    "CommandTimedOut",
    "Conflict",
    "DaemonUnavailable",
    "Delete",
    "FileInfo",
    "FileWritten",
    "InvalidRequest",
    "KvEntry",
    "NotAllowed",
    "NotFound",
    "Overloaded",
    "Put",
    "QuotaExceeded",
    "RequestIdReused",
    "Run",
    "RunOptions",
    "RunResult",
    "RunStream",
    "Service",
    "Session",
    "SessionBusy",
    "SessionNotFound",
    "SessionRef",
    "ShellkeepError",
    "StartOptions",
    "StreamOptions",
    "TooLarge",
    "Unauthorized",
    "VersionConflict",
    "VersionMismatch",
    "__version__",
    "errors",
    "find_bin",
    "models",
]
