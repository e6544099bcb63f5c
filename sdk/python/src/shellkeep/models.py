"""What the daemon answers. Generated from /openapi.json by tools/generate_models.py; do not edit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

#: The version of the daemon that this package was made for.
API_VERSION = "0.1.0"


@dataclass(frozen=True, slots=True)
class AgentEnded:
    """Response of `POST /v1/agents/{agent}/end`."""

    #: The agent.
    agent: str
    #: Services that were stopped.
    services: int
    #: Sessions that were ended.
    sessions: int
    #: Nodes that did not answer, where the agent may go on.
    missing_nodes: list[str] = field(default_factory=list)

    @classmethod
    def from_json(cls: type[_AgentEnded], data: Mapping[str, Any]) -> _AgentEnded:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            agent=data["agent"],
            services=data["services"],
            sessions=data["sessions"],
            missing_nodes=data.get("missing_nodes") or [],
        )


_AgentEnded = TypeVar("_AgentEnded", bound=AgentEnded)


@dataclass(frozen=True, slots=True)
class AgentStateSaved:
    """Response to a saved state."""

    #: Number of its event in the recording.
    seq: int
    #: Its version, which is also the `ETag`.
    version: int
    #: Notices.
    notices: list[NoticeView] = field(default_factory=list)

    @classmethod
    def from_json(cls: type[_AgentStateSaved], data: Mapping[str, Any]) -> _AgentStateSaved:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            seq=data["seq"],
            version=data["version"],
            notices=[NoticeView.from_json(x) for x in (data.get("notices") or [])],
        )


_AgentStateSaved = TypeVar("_AgentStateSaved", bound=AgentStateSaved)


@dataclass(frozen=True, slots=True)
class AnswerEvent:
    """Data of the event `output` of a streamed response."""

    #: A piece of the answer.
    text: str

    @classmethod
    def from_json(cls: type[_AnswerEvent], data: Mapping[str, Any]) -> _AnswerEvent:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            text=data["text"],
        )


_AnswerEvent = TypeVar("_AnswerEvent", bound=AnswerEvent)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An operation that changed permissions or deleted something, or a request that was rejected."""

    #: When it happened.
    at: str
    #: The door it came through.
    door: str
    #: What it was about.
    object: str
    #: The operation, or `refused`.
    what: str
    #: Who.
    who: str
    #: The agent whose token it was.
    agent: str | None = None
    #: Why it was rejected.
    code: str | None = None
    #: How many more entries were left out here, because there were too many at once.
    left_out: int | None = None

    @classmethod
    def from_json(cls: type[_AuditEntry], data: Mapping[str, Any]) -> _AuditEntry:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            at=data["at"],
            door=data["door"],
            object=data["object"],
            what=data["what"],
            who=data["who"],
            agent=data.get("agent"),
            code=data.get("code"),
            left_out=data.get("left_out"),
        )


_AuditEntry = TypeVar("_AuditEntry", bound=AuditEntry)


@dataclass(frozen=True, slots=True)
class AuditList:
    """Response of `GET /v1/audit`."""

    #: The entries, oldest first.
    audit: list[AuditEntry]

    @classmethod
    def from_json(cls: type[_AuditList], data: Mapping[str, Any]) -> _AuditList:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            audit=[AuditEntry.from_json(x) for x in data["audit"]],
        )


_AuditList = TypeVar("_AuditList", bound=AuditList)


@dataclass(frozen=True, slots=True)
class Bad:
    """An event or file that is wrong."""

    #: The file it is in.
    file: str
    #: Its line in that file, from 1.
    line: int
    #: What is wrong.
    reason: str
    #: Its number, if that can be read.
    seq: int | None = None

    @classmethod
    def from_json(cls: type[_Bad], data: Mapping[str, Any]) -> _Bad:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            file=data["file"],
            line=data["line"],
            reason=data["reason"],
            seq=data.get("seq"),
        )


_Bad = TypeVar("_Bad", bound=Bad)


@dataclass(frozen=True, slots=True)
class ChangedSetting:
    """A setting whose configured value has changed."""

    #: The value before.
    from_: str
    #: Its name.
    name: str
    #: The value now.
    to: str

    @classmethod
    def from_json(cls: type[_ChangedSetting], data: Mapping[str, Any]) -> _ChangedSetting:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            from_=data["from"],
            name=data["name"],
            to=data["to"],
        )


_ChangedSetting = TypeVar("_ChangedSetting", bound=ChangedSetting)


@dataclass(frozen=True, slots=True)
class Changes:
    """What a command changed."""

    aliases: NameChanges | None = None
    #: The new working directory.
    cwd: str | None = None
    #: Exported variables with their new values.
    env: dict[str, str | None] = field(default_factory=dict)
    functions: NameChanges | None = None
    #: `set -o` and `shopt` options that were turned on or off.
    options: dict[str, bool] = field(default_factory=dict)
    traps: NameChanges | None = None
    #: The new umask, in octal.
    umask: str | None = None
    variables: NameChanges | None = None

    @classmethod
    def from_json(cls: type[_Changes], data: Mapping[str, Any]) -> _Changes:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            aliases=None if (y := data.get("aliases")) is None else NameChanges.from_json(y),
            cwd=data.get("cwd"),
            env=data.get("env") or {},
            functions=None if (y := data.get("functions")) is None else NameChanges.from_json(y),
            options=data.get("options") or {},
            traps=None if (y := data.get("traps")) is None else NameChanges.from_json(y),
            umask=data.get("umask"),
            variables=None if (y := data.get("variables")) is None else NameChanges.from_json(y),
        )


_Changes = TypeVar("_Changes", bound=Changes)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A saved version of a session's files."""

    #: Number of added files.
    added: int
    #: Bytes that it added to the disk.
    bytes: int
    #: Why it was taken.
    cause: Literal["tool", "base", "rewind", "fork", "merge", "manual", "outside"]
    #: Number of changed files.
    changed: int
    #: Its name, which is also its tag in the repository, as in `tool_bash_20261115T183000.123456Z`.
    checkpoint_id: str
    #: Its commit.
    commit: str
    #: Number of the last record whose file changes it contains.
    covers: int
    #: When it was taken (RFC 3339, UTC).
    created_at: str
    #: Number of deleted files.
    deleted: int
    #: Whether its files are still kept.
    kept: bool
    #: Paths that it does not contain, each with the reason.
    left_out: list[LeftOut]
    #: Total number of paths that it does not contain.
    left_out_total: int
    #: Whether the next command started before it was complete, so that it may contain some of that command's changes.
    overtaken: bool
    #: Number of its record.
    seq: int
    #: The command of that run.
    command: str | None = None
    #: The run that changed the files.
    run_id: str | None = None
    #: The tool that changed the files.
    tool_name: str | None = None
    #: Paths that may have been different at record `covers`, each with the reason.
    uncertain: list[LeftOut] = field(default_factory=list)
    #: Total number of such paths.
    uncertain_total: int | None = None

    @classmethod
    def from_json(cls: type[_Checkpoint], data: Mapping[str, Any]) -> _Checkpoint:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            added=data["added"],
            bytes=data["bytes"],
            cause=data["cause"],
            changed=data["changed"],
            checkpoint_id=data["checkpoint_id"],
            commit=data["commit"],
            covers=data["covers"],
            created_at=data["created_at"],
            deleted=data["deleted"],
            kept=data["kept"],
            left_out=[LeftOut.from_json(x) for x in data["left_out"]],
            left_out_total=data["left_out_total"],
            overtaken=data["overtaken"],
            seq=data["seq"],
            command=data.get("command"),
            run_id=data.get("run_id"),
            tool_name=data.get("tool_name"),
            uncertain=[LeftOut.from_json(x) for x in (data.get("uncertain") or [])],
            uncertain_total=data.get("uncertain_total"),
        )


_Checkpoint = TypeVar("_Checkpoint", bound=Checkpoint)


@dataclass(frozen=True, slots=True)
class CheckpointDetail:
    """A checkpoint and what it changed."""

    #: Number of added files.
    added: int
    #: Bytes that it added to the disk.
    bytes: int
    #: Why it was taken.
    cause: Literal["tool", "base", "rewind", "fork", "merge", "manual", "outside"]
    #: Number of changed files.
    changed: int
    #: Its name, which is also its tag in the repository, as in `tool_bash_20261115T183000.123456Z`.
    checkpoint_id: str
    #: Its commit.
    commit: str
    #: Number of the last record whose file changes it contains.
    covers: int
    #: When it was taken (RFC 3339, UTC).
    created_at: str
    #: Number of deleted files.
    deleted: int
    #: Whether its files are still kept.
    kept: bool
    #: Paths that it does not contain, each with the reason.
    left_out: list[LeftOut]
    #: Total number of paths that it does not contain.
    left_out_total: int
    #: Whether the next command started before it was complete, so that it may contain some of that command's changes.
    overtaken: bool
    #: Number of its record.
    seq: int
    #: How its files differ from those of the previous checkpoint.
    files: list[FileChange]
    #: The command of that run.
    command: str | None = None
    #: The run that changed the files.
    run_id: str | None = None
    #: The tool that changed the files.
    tool_name: str | None = None
    #: Paths that may have been different at record `covers`, each with the reason.
    uncertain: list[LeftOut] = field(default_factory=list)
    #: Total number of such paths.
    uncertain_total: int | None = None

    @classmethod
    def from_json(cls: type[_CheckpointDetail], data: Mapping[str, Any]) -> _CheckpointDetail:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            added=data["added"],
            bytes=data["bytes"],
            cause=data["cause"],
            changed=data["changed"],
            checkpoint_id=data["checkpoint_id"],
            commit=data["commit"],
            covers=data["covers"],
            created_at=data["created_at"],
            deleted=data["deleted"],
            kept=data["kept"],
            left_out=[LeftOut.from_json(x) for x in data["left_out"]],
            left_out_total=data["left_out_total"],
            overtaken=data["overtaken"],
            seq=data["seq"],
            files=[FileChange.from_json(x) for x in data["files"]],
            command=data.get("command"),
            run_id=data.get("run_id"),
            tool_name=data.get("tool_name"),
            uncertain=[LeftOut.from_json(x) for x in (data.get("uncertain") or [])],
            uncertain_total=data.get("uncertain_total"),
        )


_CheckpointDetail = TypeVar("_CheckpointDetail", bound=CheckpointDetail)


@dataclass(frozen=True, slots=True)
class CheckpointList:
    """A page of checkpoints, oldest first."""

    #: The checkpoints.
    checkpoints: list[Checkpoint]
    #: The id of the checkpoint that the files were last saved in or rewound to.
    current: str | None = None
    #: Pass this as `after` for the next page.
    next: int | None = None

    @classmethod
    def from_json(cls: type[_CheckpointList], data: Mapping[str, Any]) -> _CheckpointList:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            checkpoints=[Checkpoint.from_json(x) for x in data["checkpoints"]],
            current=data.get("current"),
            next=data.get("next"),
        )


_CheckpointList = TypeVar("_CheckpointList", bound=CheckpointList)


@dataclass(frozen=True, slots=True)
class CheckpointName:
    """A checkpoint, by its two names."""

    #: Its name.
    checkpoint_id: str
    #: Its commit.
    commit: str

    @classmethod
    def from_json(cls: type[_CheckpointName], data: Mapping[str, Any]) -> _CheckpointName:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            checkpoint_id=data["checkpoint_id"],
            commit=data["commit"],
        )


_CheckpointName = TypeVar("_CheckpointName", bound=CheckpointName)


@dataclass(frozen=True, slots=True)
class CheckpointUsage:
    """The disk space that a session's checkpoints use."""

    #: Bytes on the disk.
    bytes: int
    #: Checkpoints that are kept.
    checkpoints: int
    #: The limit in bytes.
    limit: int
    #: The session.
    session_id: str
    #: Bytes that `thin` has just freed.
    reclaimed: int | None = None

    @classmethod
    def from_json(cls: type[_CheckpointUsage], data: Mapping[str, Any]) -> _CheckpointUsage:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            bytes=data["bytes"],
            checkpoints=data["checkpoints"],
            limit=data["limit"],
            session_id=data["session_id"],
            reclaimed=data.get("reclaimed"),
        )


_CheckpointUsage = TypeVar("_CheckpointUsage", bound=CheckpointUsage)


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A node among those that share a store."""

    #: Its name.
    name: str
    #: How many sessions are awake there.
    sessions: int
    #: When it started.
    since: str
    #: Whether it takes sessions.
    status: Literal["up", "draining", "drained"]
    #: The URL at which other nodes reach it.
    url: str
    #: Version of its program.
    version: str

    @classmethod
    def from_json(cls: type[_ClusterNode], data: Mapping[str, Any]) -> _ClusterNode:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            name=data["name"],
            sessions=data["sessions"],
            since=data["since"],
            status=data["status"],
            url=data["url"],
            version=data["version"],
        )


_ClusterNode = TypeVar("_ClusterNode", bound=ClusterNode)


@dataclass(frozen=True, slots=True)
class ConsoleCode:
    """A code for the console."""

    #: The code, for the fragment of the console's address.
    code: str
    #: Seconds for which it works.
    expires_in: float
    #: The daemon's addresses that a browser can open, `http://HOST:PORT`.
    urls: list[str]

    @classmethod
    def from_json(cls: type[_ConsoleCode], data: Mapping[str, Any]) -> _ConsoleCode:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            code=data["code"],
            expires_in=data["expires_in"],
            urls=data["urls"],
        )


_ConsoleCode = TypeVar("_ConsoleCode", bound=ConsoleCode)


@dataclass(frozen=True, slots=True)
class DaemonStatus:
    """Response of `GET /v1/daemon`."""

    #: Its data directory.
    data: str
    #: Where it listens.
    doors: list[str]
    #: Sessions with a shell.
    live_shells: int
    #: Its process id.
    pid: int
    #: Why it is degraded, one sentence each.
    problems: list[str]
    #: Running commands.
    running: int
    #: Running services.
    services: int
    #: Number of sessions.
    sessions: int
    #: When it was started.
    started_at: str
    #: Its status.
    status: Literal["ready", "degraded", "draining"]
    #: Seconds that running commands get to finish when it stops.
    stop_grace: float
    #: The kind of its store, as in `sqlite`.
    store: str
    #: Seconds since then.
    uptime: float
    #: Its version.
    version: str
    #: Its configuration file, if it read one.
    config_file: str | None = None

    @classmethod
    def from_json(cls: type[_DaemonStatus], data: Mapping[str, Any]) -> _DaemonStatus:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            data=data["data"],
            doors=data["doors"],
            live_shells=data["live_shells"],
            pid=data["pid"],
            problems=data["problems"],
            running=data["running"],
            services=data["services"],
            sessions=data["sessions"],
            started_at=data["started_at"],
            status=data["status"],
            stop_grace=data["stop_grace"],
            store=data["store"],
            uptime=data["uptime"],
            version=data["version"],
            config_file=data.get("config_file"),
        )


_DaemonStatus = TypeVar("_DaemonStatus", bound=DaemonStatus)


@dataclass(frozen=True, slots=True)
class Deleted:
    """The deletion of a session by its agent."""

    #: When (RFC 3339, UTC).
    at: str
    #: The name that the session had.
    session_id: str
    #: The id of the token that deleted it.
    by: str | None = None

    @classmethod
    def from_json(cls: type[_Deleted], data: Mapping[str, Any]) -> _Deleted:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            at=data["at"],
            session_id=data["session_id"],
            by=data.get("by"),
        )


_Deleted = TypeVar("_Deleted", bound=Deleted)


@dataclass(frozen=True, slots=True)
class DiffResponse:
    """The difference between two states of the files."""

    #: The files that differ.
    files: list[FileChange]
    #: Whether the patch was truncated.
    truncated: bool
    from_: CheckpointName | None = None
    #: The difference in git's format.
    patch: str | None = None
    #: The exact bytes of the patch, where they are not UTF-8.
    patch_base64: str | None = None
    to: CheckpointName | None = None

    @classmethod
    def from_json(cls: type[_DiffResponse], data: Mapping[str, Any]) -> _DiffResponse:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            files=[FileChange.from_json(x) for x in data["files"]],
            truncated=data["truncated"],
            from_=None if (y := data.get("from")) is None else CheckpointName.from_json(y),
            patch=data.get("patch"),
            patch_base64=data.get("patch_base64"),
            to=None if (y := data.get("to")) is None else CheckpointName.from_json(y),
        )


_DiffResponse = TypeVar("_DiffResponse", bound=DiffResponse)


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a recording."""

    #: Its fields.
    data: dict[str, Any]
    #: The type.
    event_type: str
    #: Its hash, which also covers the previous event.
    hash: str
    #: Position in the session, from 1, no gaps.
    seq: int
    #: Where it comes from, set by the daemon whatever `data` says.
    source: str
    #: When (RFC 3339, UTC).
    timestamp: str
    #: The id of the agent's token that posted or requested it.
    by: str | None = None
    #: Fields that are masked, by path, each with the commitment to what it was.
    masked: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls: type[_Event], data: Mapping[str, Any]) -> _Event:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            data=data["data"],
            event_type=data["event_type"],
            hash=data["hash"],
            seq=data["seq"],
            source=data["source"],
            timestamp=data["timestamp"],
            by=data.get("by"),
            masked=data.get("masked") or {},
        )


_Event = TypeVar("_Event", bound=Event)


@dataclass(frozen=True, slots=True)
class EventBucket:
    """Some events in a row."""

    #: How many there are.
    events: int
    #: How many went wrong.
    failed: int
    #: Seconds that they took together.
    seconds: float
    #: Number of the first.
    seq: int
    #: When the first of them happened.
    from_: str | None = None

    @classmethod
    def from_json(cls: type[_EventBucket], data: Mapping[str, Any]) -> _EventBucket:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            events=data["events"],
            failed=data["failed"],
            seconds=data["seconds"],
            seq=data["seq"],
            from_=data.get("from"),
        )


_EventBucket = TypeVar("_EventBucket", bound=EventBucket)


@dataclass(frozen=True, slots=True)
class EventList:
    """A page of events."""

    #: The events, in order.
    events: list[Event]
    #: Pass this as `after` for the next page.
    next: int | None = None

    @classmethod
    def from_json(cls: type[_EventList], data: Mapping[str, Any]) -> _EventList:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            events=[Event.from_json(x) for x in data["events"]],
            next=data.get("next"),
        )


_EventList = TypeVar("_EventList", bound=EventList)


@dataclass(frozen=True, slots=True)
class EventOverview:
    """A recording as a row of bars, each of the same number of events."""

    #: The bars, in order.
    buckets: list[EventBucket]
    #: Whether the figures are estimates from some events of each bar, because the recording is long.
    sampled: bool

    @classmethod
    def from_json(cls: type[_EventOverview], data: Mapping[str, Any]) -> _EventOverview:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            buckets=[EventBucket.from_json(x) for x in data["buckets"]],
            sampled=data["sampled"],
        )


_EventOverview = TypeVar("_EventOverview", bound=EventOverview)


@dataclass(frozen=True, slots=True)
class EventSummary:
    """An event in one line."""

    #: The type.
    event_type: str
    #: What it is about.
    kind: Literal["input", "model", "tool", "output", "agent", "session", "service", "record", "other"]
    #: Position in the session.
    seq: int
    #: Where it comes from.
    source: str
    #: What it says, truncated after 100 characters.
    text: str
    #: When (RFC 3339, UTC).
    timestamp: str
    #: The id of the token that posted or requested it.
    by: str | None = None
    #: Whether it went wrong.
    failed: bool | None = None
    #: How many notices it has.
    notices: int | None = None
    #: How it went, as in `exit 2`.
    outcome: str | None = None
    #: The run that it is about.
    run_id: str | None = None
    #: Seconds that it took.
    seconds: float | None = None

    @classmethod
    def from_json(cls: type[_EventSummary], data: Mapping[str, Any]) -> _EventSummary:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            event_type=data["event_type"],
            kind=data["kind"],
            seq=data["seq"],
            source=data["source"],
            text=data["text"],
            timestamp=data["timestamp"],
            by=data.get("by"),
            failed=data.get("failed"),
            notices=data.get("notices"),
            outcome=data.get("outcome"),
            run_id=data.get("run_id"),
            seconds=data.get("seconds"),
        )


_EventSummary = TypeVar("_EventSummary", bound=EventSummary)


@dataclass(frozen=True, slots=True)
class EventSummaryList:
    """A page of events, each in one line."""

    #: The events, in order.
    events: list[EventSummary]
    #: Pass this as `after` for the next page.
    next: int | None = None

    @classmethod
    def from_json(cls: type[_EventSummaryList], data: Mapping[str, Any]) -> _EventSummaryList:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            events=[EventSummary.from_json(x) for x in data["events"]],
            next=data.get("next"),
        )


_EventSummaryList = TypeVar("_EventSummaryList", bound=EventSummaryList)


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that differs."""

    #: Whether it is a binary file.
    binary: bool
    #: How it differs.
    kind: Literal["added", "modified", "deleted", "renamed", "type_changed"]
    #: The path, relative to the workspace.
    path: str
    #: Number of deleted lines, for a text file.
    deletions: int | None = None
    #: Number of added lines, for a text file.
    insertions: int | None = None
    #: Its exact bytes, where they are not UTF-8.
    path_base64: str | None = None
    #: Its previous path.
    renamed_from: str | None = None
    #: The exact bytes of that path, where they are not UTF-8.
    renamed_from_base64: str | None = None

    @classmethod
    def from_json(cls: type[_FileChange], data: Mapping[str, Any]) -> _FileChange:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            binary=data["binary"],
            kind=data["kind"],
            path=data["path"],
            deletions=data.get("deletions"),
            insertions=data.get("insertions"),
            path_base64=data.get("path_base64"),
            renamed_from=data.get("renamed_from"),
            renamed_from_base64=data.get("renamed_from_base64"),
        )


_FileChange = TypeVar("_FileChange", bound=FileChange)


@dataclass(frozen=True, slots=True)
class FileEntry:
    """What is at a path."""

    #: Its kind.
    kind: Literal["file", "directory", "symlink", "other"]
    #: Its permissions in octal, such as `0644`.
    mode: str
    #: When its content last changed.
    modified_at: str
    #: The last part of the path.
    name: str
    #: The path, relative to the workspace.
    path: str
    #: Its size in bytes.
    size: int
    #: The exact bytes of it, where they are not UTF-8.
    path_base64: str | None = None
    #: Where a symbolic link points to.
    target: str | None = None

    @classmethod
    def from_json(cls: type[_FileEntry], data: Mapping[str, Any]) -> _FileEntry:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            kind=data["kind"],
            mode=data["mode"],
            modified_at=data["modified_at"],
            name=data["name"],
            path=data["path"],
            size=data["size"],
            path_base64=data.get("path_base64"),
            target=data.get("target"),
        )


_FileEntry = TypeVar("_FileEntry", bound=FileEntry)


@dataclass(frozen=True, slots=True)
class FileHistory:
    """When a path changed, oldest first."""

    #: The changes.
    changes: list[HistoryEntry]

    @classmethod
    def from_json(cls: type[_FileHistory], data: Mapping[str, Any]) -> _FileHistory:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            changes=[HistoryEntry.from_json(x) for x in data["changes"]],
        )


_FileHistory = TypeVar("_FileHistory", bound=FileHistory)


@dataclass(frozen=True, slots=True)
class FileListing:
    """What is at a path, and in it if it is a directory."""

    #: What is at the path.
    file: FileEntry
    #: What is in the directory, by name.
    files: list[FileEntry] | None = field(default_factory=list)
    #: Where the next page starts.
    next: str | None = None

    @classmethod
    def from_json(cls: type[_FileListing], data: Mapping[str, Any]) -> _FileListing:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            file=FileEntry.from_json(data["file"]),
            files=data.get("files") or [],
            next=data.get("next"),
        )


_FileListing = TypeVar("_FileListing", bound=FileListing)


@dataclass(frozen=True, slots=True)
class FileRemoved:
    """A file or directory that was removed."""

    #: The path, relative to the workspace.
    path: str
    #: Number of the record.
    seq: int
    #: Notices.
    notices: list[NoticeView] = field(default_factory=list)
    #: The exact bytes of it, where they are not UTF-8.
    path_base64: str | None = None

    @classmethod
    def from_json(cls: type[_FileRemoved], data: Mapping[str, Any]) -> _FileRemoved:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            path=data["path"],
            seq=data["seq"],
            notices=[NoticeView.from_json(x) for x in (data.get("notices") or [])],
            path_base64=data.get("path_base64"),
        )


_FileRemoved = TypeVar("_FileRemoved", bound=FileRemoved)


@dataclass(frozen=True, slots=True)
class FileWritten:
    """A file that was written."""

    #: The path, relative to the workspace.
    path: str
    #: Number of the record, to rewind or fork to.
    seq: int
    #: The SHA-256 of its content, in hexadecimal.
    sha256: str
    #: Its size in bytes.
    size: int
    #: Notices.
    notices: list[NoticeView] = field(default_factory=list)
    #: The exact bytes of it, where they are not UTF-8.
    path_base64: str | None = None

    @classmethod
    def from_json(cls: type[_FileWritten], data: Mapping[str, Any]) -> _FileWritten:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            path=data["path"],
            seq=data["seq"],
            sha256=data["sha256"],
            size=data["size"],
            notices=[NoticeView.from_json(x) for x in (data.get("notices") or [])],
            path_base64=data.get("path_base64"),
        )


_FileWritten = TypeVar("_FileWritten", bound=FileWritten)


@dataclass(frozen=True, slots=True)
class ForkResponse:
    """Response to `POST …/fork`."""

    #: The configuration it was created with.
    agent_config: dict[str, Any]
    #: When it was created (RFC 3339, UTC).
    created_at: str
    #: Its working directory.
    cwd: str
    #: How many shells it has had.
    generation: int
    #: When something last happened in it.
    last_active_at: str
    #: Whether it has a shell now.
    live: bool
    #: Number of its last record.
    seq: int
    #: Its name.
    session_id: str
    #: Its workspace.
    workspace: str
    #: Notices.
    notices: list[NoticeView]
    #: The agent that it belongs to.
    agent: str | None = None
    deleted: Deleted | None = None
    forked_from: ForkedFrom | None = None
    held: Held | None = None
    sandbox: Literal["none", "user", "fence", "room"] | None = None
    #: The names of the secrets that it was created with.
    secrets: list[str] = field(default_factory=list)
    #: That shell's process id.
    shell_pid: int | None = None

    @classmethod
    def from_json(cls: type[_ForkResponse], data: Mapping[str, Any]) -> _ForkResponse:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            agent_config=data["agent_config"],
            created_at=data["created_at"],
            cwd=data["cwd"],
            generation=data["generation"],
            last_active_at=data["last_active_at"],
            live=data["live"],
            seq=data["seq"],
            session_id=data["session_id"],
            workspace=data["workspace"],
            notices=[NoticeView.from_json(x) for x in data["notices"]],
            agent=data.get("agent"),
            deleted=None if (y := data.get("deleted")) is None else Deleted.from_json(y),
            forked_from=None if (y := data.get("forked_from")) is None else ForkedFrom.from_json(y),
            held=None if (y := data.get("held")) is None else Held.from_json(y),
            sandbox=data.get("sandbox"),
            secrets=data.get("secrets") or [],
            shell_pid=data.get("shell_pid"),
        )


_ForkResponse = TypeVar("_ForkResponse", bound=ForkResponse)


@dataclass(frozen=True, slots=True)
class ForkedFrom:
    """The origin of a fork."""

    #: Number of the record that the fork starts after.
    seq: int
    #: The session.
    session_id: str

    @classmethod
    def from_json(cls: type[_ForkedFrom], data: Mapping[str, Any]) -> _ForkedFrom:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            seq=data["seq"],
            session_id=data["session_id"],
        )


_ForkedFrom = TypeVar("_ForkedFrom", bound=ForkedFrom)


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a recording."""

    #: Its hash.
    hash: str
    #: Number of the last event.
    seq: int

    @classmethod
    def from_json(cls: type[_Head], data: Mapping[str, Any]) -> _Head:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            hash=data["hash"],
            seq=data["seq"],
        )


_Head = TypeVar("_Head", bound=Head)


@dataclass(frozen=True, slots=True)
class Held:
    """Who holds a session."""

    holder: str
    #: When it ends unless it is extended (RFC 3339, UTC).
    until: str
    #: Why.
    reason: str | None = None

    @classmethod
    def from_json(cls: type[_Held], data: Mapping[str, Any]) -> _Held:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            holder=data["holder"],
            until=data["until"],
            reason=data.get("reason"),
        )


_Held = TypeVar("_Held", bound=Held)


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One change of a path."""

    #: The first checkpoint that contains it.
    checkpoint_id: str
    #: The commit of that checkpoint.
    commit: str
    #: How the path changed.
    kind: Literal["added", "modified", "deleted", "renamed", "type_changed"]
    #: Number of the checkpoint's record.
    seq: int
    #: When (RFC 3339, UTC).
    timestamp: str
    #: The run that made the change.
    run_id: str | None = None
    #: Bytes of the file afterwards, if it is one.
    size: int | None = None
    #: The tool that made the change.
    tool_name: str | None = None

    @classmethod
    def from_json(cls: type[_HistoryEntry], data: Mapping[str, Any]) -> _HistoryEntry:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            checkpoint_id=data["checkpoint_id"],
            commit=data["commit"],
            kind=data["kind"],
            seq=data["seq"],
            timestamp=data["timestamp"],
            run_id=data.get("run_id"),
            size=data.get("size"),
            tool_name=data.get("tool_name"),
        )


_HistoryEntry = TypeVar("_HistoryEntry", bound=HistoryEntry)


@dataclass(frozen=True, slots=True)
class HoldResponse:
    """A hold, for its holder."""

    holder: str
    #: When it ends unless it is extended (RFC 3339, UTC).
    until: str
    #: Pass it as `hold` with your commands.
    hold_id: str
    #: The session.
    session_id: str
    #: Commands of others that wait for its end.
    waiting: int
    #: Why.
    reason: str | None = None
    running: RunningNow | None = None

    @classmethod
    def from_json(cls: type[_HoldResponse], data: Mapping[str, Any]) -> _HoldResponse:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            holder=data["holder"],
            until=data["until"],
            hold_id=data["hold_id"],
            session_id=data["session_id"],
            waiting=data["waiting"],
            reason=data.get("reason"),
            running=None if (y := data.get("running")) is None else RunningNow.from_json(y),
        )


_HoldResponse = TypeVar("_HoldResponse", bound=HoldResponse)


@dataclass(frozen=True, slots=True)
class Hole:
    """Numbers without events."""

    #: Whether the runtime itself reported them as lost.
    declared: bool
    #: The first.
    from_: int
    #: Why.
    reason: str
    #: The last.
    through: int

    @classmethod
    def from_json(cls: type[_Hole], data: Mapping[str, Any]) -> _Hole:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            declared=data["declared"],
            from_=data["from"],
            reason=data["reason"],
            through=data["through"],
        )


_Hole = TypeVar("_Hole", bound=Hole)


@dataclass(frozen=True, slots=True)
class InputAccepted:
    """Response to sent input."""

    #: Bytes accepted.
    bytes: int
    #: The run.
    run_id: str

    @classmethod
    def from_json(cls: type[_InputAccepted], data: Mapping[str, Any]) -> _InputAccepted:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            bytes=data["bytes"],
            run_id=data["run_id"],
        )


_InputAccepted = TypeVar("_InputAccepted", bound=InputAccepted)


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token."""

    #: When it was created.
    created_at: str
    #: Its public name, as in the audit trail and in `by` of a run.
    id: str
    #: Whether it may restart its sessions.
    may_restart: bool
    #: Its role.
    role: Literal["agent", "auditor", "metrics", "watch", "act"]
    #: The secret, for `Authorization.
    token: str
    #: The agent it is for.
    agent: str | None = None
    #: When it stops being valid.
    expires_at: str | None = None
    #: Its label.
    name: str | None = None
    #: When it was revoked.
    revoked_at: str | None = None

    @classmethod
    def from_json(cls: type[_IssuedToken], data: Mapping[str, Any]) -> _IssuedToken:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            created_at=data["created_at"],
            id=data["id"],
            may_restart=data["may_restart"],
            role=data["role"],
            token=data["token"],
            agent=data.get("agent"),
            expires_at=data.get("expires_at"),
            name=data.get("name"),
            revoked_at=data.get("revoked_at"),
        )


_IssuedToken = TypeVar("_IssuedToken", bound=IssuedToken)


@dataclass(frozen=True, slots=True)
class KvChanged:
    """What a batch changed."""

    #: The keys in the order of the batch.
    kv: list[KvChangedKey]
    #: Number of the record, to rewind or fork to.
    seq: int
    #: The version of the change.
    version: int
    #: Notices.
    notices: list[NoticeView] = field(default_factory=list)

    @classmethod
    def from_json(cls: type[_KvChanged], data: Mapping[str, Any]) -> _KvChanged:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            kv=[KvChangedKey.from_json(x) for x in data["kv"]],
            seq=data["seq"],
            version=data["version"],
            notices=[NoticeView.from_json(x) for x in (data.get("notices") or [])],
        )


_KvChanged = TypeVar("_KvChanged", bound=KvChanged)


@dataclass(frozen=True, slots=True)
class KvChangedKey:
    """A key that was changed."""

    #: The key.
    key: str
    #: The version of the change.
    version: int
    #: The SHA-256 of its value, in hexadecimal.
    sha256: str | None = None
    #: Bytes of its value.
    size: int | None = None

    @classmethod
    def from_json(cls: type[_KvChangedKey], data: Mapping[str, Any]) -> _KvChangedKey:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            key=data["key"],
            version=data["version"],
            sha256=data.get("sha256"),
            size=data.get("size"),
        )


_KvChangedKey = TypeVar("_KvChangedKey", bound=KvChangedKey)


@dataclass(frozen=True, slots=True)
class KvEntry:
    """A key."""

    #: The content type of its value.
    content_type: str
    #: The key.
    key: str
    #: The SHA-256 of its value, in hexadecimal.
    sha256: str
    #: Bytes of its value.
    size: int
    #: Its version.
    version: int
    #: The value, if it was requested.
    value_base64: str | None = None

    @classmethod
    def from_json(cls: type[_KvEntry], data: Mapping[str, Any]) -> _KvEntry:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            content_type=data["content_type"],
            key=data["key"],
            sha256=data["sha256"],
            size=data["size"],
            version=data["version"],
            value_base64=data.get("value_base64"),
        )


_KvEntry = TypeVar("_KvEntry", bound=KvEntry)


@dataclass(frozen=True, slots=True)
class KvList:
    """A page of keys."""

    #: The keys, sorted.
    kv: list[KvEntry]
    #: Where the next page starts.
    next: str | None = None

    @classmethod
    def from_json(cls: type[_KvList], data: Mapping[str, Any]) -> _KvList:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            kv=[KvEntry.from_json(x) for x in data["kv"]],
            next=data.get("next"),
        )


_KvList = TypeVar("_KvList", bound=KvList)


@dataclass(frozen=True, slots=True)
class KvWritten:
    """A value that was put."""

    #: The key.
    key: str
    #: Number of the record, to rewind or fork to.
    seq: int
    #: The SHA-256 of its value, in hexadecimal.
    sha256: str
    #: Bytes of its value.
    size: int
    #: Its version.
    version: int
    #: Notices.
    notices: list[NoticeView] = field(default_factory=list)

    @classmethod
    def from_json(cls: type[_KvWritten], data: Mapping[str, Any]) -> _KvWritten:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            key=data["key"],
            seq=data["seq"],
            sha256=data["sha256"],
            size=data["size"],
            version=data["version"],
            notices=[NoticeView.from_json(x) for x in (data.get("notices") or [])],
        )


_KvWritten = TypeVar("_KvWritten", bound=KvWritten)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A path that was skipped, and why."""

    #: The path, relative to the workspace.
    path: str
    #: Why.
    reason: str
    #: Its exact bytes, where they are not UTF-8.
    path_base64: str | None = None

    @classmethod
    def from_json(cls: type[_LeftOut], data: Mapping[str, Any]) -> _LeftOut:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            path=data["path"],
            reason=data["reason"],
            path_base64=data.get("path_base64"),
        )


_LeftOut = TypeVar("_LeftOut", bound=LeftOut)


@dataclass(frozen=True, slots=True)
class LimitChange:
    """A limit that was changed because of the machine's pressure."""

    #: When it was changed.
    at: str
    #: The value before.
    from_: int
    #: Which limit.
    limit: str
    #: The reason, as a sentence.
    reason: str
    #: The value after.
    to: int

    @classmethod
    def from_json(cls: type[_LimitChange], data: Mapping[str, Any]) -> _LimitChange:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            at=data["at"],
            from_=data["from"],
            limit=data["limit"],
            reason=data["reason"],
            to=data["to"],
        )


_LimitChange = TypeVar("_LimitChange", bound=LimitChange)


@dataclass(frozen=True, slots=True)
class Health:
    """Response of `GET /healthz`."""

    #: Always `ok`.
    status: str
    #: The daemon's version.
    version: str

    @classmethod
    def from_json(cls: type[_Health], data: Mapping[str, Any]) -> _Health:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            status=data["status"],
            version=data["version"],
        )


_Health = TypeVar("_Health", bound=Health)


@dataclass(frozen=True, slots=True)
class LogEvent:
    """Data of the event `log` of a log that is followed."""

    #: Where the next event continues.
    next_offset: int
    #: Where it starts.
    offset: int
    #: The text.
    text: str
    #: The exact bytes, where they are not UTF-8.
    base64: str | None = None

    @classmethod
    def from_json(cls: type[_LogEvent], data: Mapping[str, Any]) -> _LogEvent:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            next_offset=data["next_offset"],
            offset=data["offset"],
            text=data["text"],
            base64=data.get("base64"),
        )


_LogEvent = TypeVar("_LogEvent", bound=LogEvent)


@dataclass(frozen=True, slots=True)
class LogResponse:
    """A page of a service's log."""

    #: Whether the service has ended, so that `total` is final.
    complete: bool
    #: The first byte that is still kept.
    first: int
    #: Where the next page starts.
    next_offset: int
    #: Where the page starts.
    offset: int
    #: The text.
    text: str
    #: Bytes written so far.
    total: int
    #: The exact bytes, where they are not UTF-8.
    base64: str | None = None

    @classmethod
    def from_json(cls: type[_LogResponse], data: Mapping[str, Any]) -> _LogResponse:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            complete=data["complete"],
            first=data["first"],
            next_offset=data["next_offset"],
            offset=data["offset"],
            text=data["text"],
            total=data["total"],
            base64=data.get("base64"),
        )


_LogResponse = TypeVar("_LogResponse", bound=LogResponse)


@dataclass(frozen=True, slots=True)
class MergeBackResponse:
    """What a merge changed, or would change."""

    #: Files with conflicting changes.
    conflicts: list[LeftOut]
    #: Whether this was a dry run.
    dry_run: bool
    #: The files that change in it.
    files: list[FileChange]
    #: Total number of files that change.
    files_total: int
    #: The session that was changed.
    into: str
    #: Notices.
    notices: list[NoticeView]
    #: Number of the record of the checkpoint after the merge.
    seq: int | None = None
    #: Rewind that session to this record to undo the merge.
    undo: int | None = None

    @classmethod
    def from_json(cls: type[_MergeBackResponse], data: Mapping[str, Any]) -> _MergeBackResponse:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            conflicts=[LeftOut.from_json(x) for x in data["conflicts"]],
            dry_run=data["dry_run"],
            files=[FileChange.from_json(x) for x in data["files"]],
            files_total=data["files_total"],
            into=data["into"],
            notices=[NoticeView.from_json(x) for x in data["notices"]],
            seq=data.get("seq"),
            undo=data.get("undo"),
        )


_MergeBackResponse = TypeVar("_MergeBackResponse", bound=MergeBackResponse)


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the conversation."""

    #: The content.
    content: str | list[Any] | dict[str, Any]
    #: When (RFC 3339, UTC).
    created_at: str
    #: The author.
    role: str
    #: Its number.
    seq_id: int

    @classmethod
    def from_json(cls: type[_Message], data: Mapping[str, Any]) -> _Message:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            content=data["content"],
            created_at=data["created_at"],
            role=data["role"],
            seq_id=data["seq_id"],
        )


_Message = TypeVar("_Message", bound=Message)


@dataclass(frozen=True, slots=True)
class MessageAdded:
    """Response to a message."""

    #: Number of its event in the recording.
    seq: int
    #: Its number in the conversation, from 1, no gaps.
    seq_id: int
    #: Notices.
    notices: list[NoticeView] = field(default_factory=list)

    @classmethod
    def from_json(cls: type[_MessageAdded], data: Mapping[str, Any]) -> _MessageAdded:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            seq=data["seq"],
            seq_id=data["seq_id"],
            notices=[NoticeView.from_json(x) for x in (data.get("notices") or [])],
        )


_MessageAdded = TypeVar("_MessageAdded", bound=MessageAdded)


@dataclass(frozen=True, slots=True)
class MessageList:
    """A page of the conversation."""

    #: The messages, by `seq_id`.
    messages: list[Message]
    #: Pass this as `after` for the next page.
    next: int | None = None

    @classmethod
    def from_json(cls: type[_MessageList], data: Mapping[str, Any]) -> _MessageList:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            messages=[Message.from_json(x) for x in data["messages"]],
            next=data.get("next"),
        )


_MessageList = TypeVar("_MessageList", bound=MessageList)


@dataclass(frozen=True, slots=True)
class NameChanges:
    """Names that were set, changed or removed."""

    #: New or changed.
    set: list[str] = field(default_factory=list)
    #: Removed.
    unset: list[str] = field(default_factory=list)

    @classmethod
    def from_json(cls: type[_NameChanges], data: Mapping[str, Any]) -> _NameChanges:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            set=data.get("set") or [],
            unset=data.get("unset") or [],
        )


_NameChanges = TypeVar("_NameChanges", bound=NameChanges)


@dataclass(frozen=True, slots=True)
class Node:
    """Response of `GET /v1/node`."""

    #: The latest changes caused by the machine's pressure, newest first.
    changes: list[LimitChange]
    #: The quotas by name.
    quotas: dict[str, Quota]
    #: Agents whose commands wait.
    agents_waiting: int
    #: The commands that have run longest, at most 100 of them.
    commands: list[RunningCommand]
    #: Commands started since the daemon started.
    commands_total: int
    #: Share of time in which a task waited for a processor, 0 to 1.
    cpu_pressure: float
    #: Sessions with a shell.
    live_shells: int
    #: Resident memory of the daemon, in bytes.
    memory: int
    #: Share of memory that is available, 0 to 1.
    memory_free: float
    #: Share of time in which a task waited for memory, 0 to 1.
    memory_pressure: float
    #: Why it is degraded.
    problems: list[str]
    #: Processes of all sessions and services.
    processes: int
    #: Running commands.
    running: int
    #: How many commands may run at once now.
    running_limit: int
    #: Running services.
    services: int
    #: Number of sessions.
    sessions: int
    #: Shells started in advance.
    spare_shells: int
    #: Seconds since the daemon was started.
    uptime: float
    #: Commands that wait in the queue of the node.
    waiting: int

    @classmethod
    def from_json(cls: type[_Node], data: Mapping[str, Any]) -> _Node:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            changes=[LimitChange.from_json(x) for x in data["changes"]],
            quotas={k: Quota.from_json(x) for k, x in data["quotas"].items()},
            agents_waiting=data["agents_waiting"],
            commands=[RunningCommand.from_json(x) for x in data["commands"]],
            commands_total=data["commands_total"],
            cpu_pressure=data["cpu_pressure"],
            live_shells=data["live_shells"],
            memory=data["memory"],
            memory_free=data["memory_free"],
            memory_pressure=data["memory_pressure"],
            problems=data["problems"],
            processes=data["processes"],
            running=data["running"],
            running_limit=data["running_limit"],
            services=data["services"],
            sessions=data["sessions"],
            spare_shells=data["spare_shells"],
            uptime=data["uptime"],
            waiting=data["waiting"],
        )


_Node = TypeVar("_Node", bound=Node)


@dataclass(frozen=True, slots=True)
class NodeList:
    """Answer of `GET /v1/nodes`."""

    #: The nodes that share a store, by name.
    nodes: list[ClusterNode]
    #: The name of the node that answers.
    this: str | None = None

    @classmethod
    def from_json(cls: type[_NodeList], data: Mapping[str, Any]) -> _NodeList:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            nodes=[ClusterNode.from_json(x) for x in data["nodes"]],
            this=data.get("this"),
        )


_NodeList = TypeVar("_NodeList", bound=NodeList)


@dataclass(frozen=True, slots=True)
class NoticeView:
    """A notice."""

    #: Stable code in snake_case.
    code: str
    #: What happened and what to do next.
    message: str

    @classmethod
    def from_json(cls: type[_NoticeView], data: Mapping[str, Any]) -> _NoticeView:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            code=data["code"],
            message=data["message"],
        )


_NoticeView = TypeVar("_NoticeView", bound=NoticeView)


@dataclass(frozen=True, slots=True)
class OptionsView:
    """Options that are on."""

    #: Names of `set -o`.
    set: list[str]
    #: Names of `shopt`.
    shopt: list[str]

    @classmethod
    def from_json(cls: type[_OptionsView], data: Mapping[str, Any]) -> _OptionsView:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            set=data["set"],
            shopt=data["shopt"],
        )


_OptionsView = TypeVar("_OptionsView", bound=OptionsView)


@dataclass(frozen=True, slots=True)
class OutputEvent:
    """Data of the events `stdout` and `stderr` of a streamed run."""

    #: The text.
    text: str
    #: The exact bytes, where they are not UTF-8.
    base64: str | None = None

    @classmethod
    def from_json(cls: type[_OutputEvent], data: Mapping[str, Any]) -> _OutputEvent:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            text=data["text"],
            base64=data.get("base64"),
        )


_OutputEvent = TypeVar("_OutputEvent", bound=OutputEvent)


@dataclass(frozen=True, slots=True)
class OutputResponse:
    """A page of a run's output."""

    #: Whether the run has ended, so that `total` is final.
    complete: bool
    #: Where the next page starts.
    next_offset: int
    #: Where the page starts.
    offset: int
    #: Which stream.
    stream: Literal["stdout", "stderr"]
    #: The text.
    text: str
    #: Bytes written so far.
    total: int
    #: The exact bytes, where they are not UTF-8.
    base64: str | None = None
    #: Bytes from `offset` to `next_offset` that were not kept, because the output exceeded its quota.
    dropped: int | None = None
    #: Whether the run's standard error is merged into `stdout`, so that this stream stays empty.
    merged: bool | None = None

    @classmethod
    def from_json(cls: type[_OutputResponse], data: Mapping[str, Any]) -> _OutputResponse:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            complete=data["complete"],
            next_offset=data["next_offset"],
            offset=data["offset"],
            stream=data["stream"],
            text=data["text"],
            total=data["total"],
            base64=data.get("base64"),
            dropped=data.get("dropped"),
            merged=data.get("merged"),
        )


_OutputResponse = TypeVar("_OutputResponse", bound=OutputResponse)


@dataclass(frozen=True, slots=True)
class PastScreen:
    """A screen as it was."""

    #: Whether the program used the alternate screen, as full-screen programs do.
    alternate: bool
    #: When it was drawn, in milliseconds since the run started.
    at_ms: int
    #: The rows that differ from those of the screen before it in the list.
    changed: list[PastScreenRow]
    cols: int
    cursor: ScreenCursor
    rows: int

    @classmethod
    def from_json(cls: type[_PastScreen], data: Mapping[str, Any]) -> _PastScreen:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            alternate=data["alternate"],
            at_ms=data["at_ms"],
            changed=[PastScreenRow.from_json(x) for x in data["changed"]],
            cols=data["cols"],
            cursor=ScreenCursor.from_json(data["cursor"]),
            rows=data["rows"],
        )


_PastScreen = TypeVar("_PastScreen", bound=PastScreen)


@dataclass(frozen=True, slots=True)
class PastScreenList:
    """The screens that a run with a terminal had, in order."""

    #: The run.
    run_id: str
    #: The screens.
    screens: list[PastScreen]
    #: Pass this as `from_ms` for the next page.
    next: int | None = None

    @classmethod
    def from_json(cls: type[_PastScreenList], data: Mapping[str, Any]) -> _PastScreenList:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            run_id=data["run_id"],
            screens=[PastScreen.from_json(x) for x in data["screens"]],
            next=data.get("next"),
        )


_PastScreenList = TypeVar("_PastScreenList", bound=PastScreenList)


@dataclass(frozen=True, slots=True)
class PastScreenRow:
    """A row of a screen."""

    #: Its pieces of text, each in one style.
    cells: list[ScreenSpan]
    #: Which one, counted from 0.
    row: int

    @classmethod
    def from_json(cls: type[_PastScreenRow], data: Mapping[str, Any]) -> _PastScreenRow:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            cells=[ScreenSpan.from_json(x) for x in data["cells"]],
            row=data["row"],
        )


_PastScreenRow = TypeVar("_PastScreenRow", bound=PastScreenRow)


@dataclass(frozen=True, slots=True)
class PostedEvents:
    """Where posted events are in the recording."""

    #: Number of the event, or of the last of many.
    seq: int
    #: Number of the first of many.
    first_seq: int | None = None
    #: Notices.
    notices: list[NoticeView] = field(default_factory=list)

    @classmethod
    def from_json(cls: type[_PostedEvents], data: Mapping[str, Any]) -> _PostedEvents:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            seq=data["seq"],
            first_seq=data.get("first_seq"),
            notices=[NoticeView.from_json(x) for x in (data.get("notices") or [])],
        )


_PostedEvents = TypeVar("_PostedEvents", bound=PostedEvents)


@dataclass(frozen=True, slots=True)
class Quota:
    """One quota."""

    #: The configured value.
    configured: int
    #: The limit in effect.
    limit: int
    #: The value set at run time, if any.
    set: int | None = None
    #: What is used now, where that is one number.
    used: int | None = None

    @classmethod
    def from_json(cls: type[_Quota], data: Mapping[str, Any]) -> _Quota:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            configured=data["configured"],
            limit=data["limit"],
            set=data.get("set"),
            used=data.get("used"),
        )


_Quota = TypeVar("_Quota", bound=Quota)


@dataclass(frozen=True, slots=True)
class QuotasResponse:
    """Response of `GET /v1/quotas` and of `PUT /v1/quotas`."""

    #: The latest changes caused by the machine's pressure, newest first.
    changes: list[LimitChange]
    #: The quotas by name.
    quotas: dict[str, Quota]

    @classmethod
    def from_json(cls: type[_QuotasResponse], data: Mapping[str, Any]) -> _QuotasResponse:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            changes=[LimitChange.from_json(x) for x in data["changes"]],
            quotas={k: Quota.from_json(x) for k, x in data["quotas"].items()},
        )


_QuotasResponse = TypeVar("_QuotasResponse", bound=QuotasResponse)


@dataclass(frozen=True, slots=True)
class Readiness:
    """Response of `GET /readyz`."""

    #: Sessions with a shell.
    live_shells: int
    #: The daemon's process id.
    pid: int
    #: Why it is degraded, one sentence each.
    problems: list[str]
    #: The same as `problems`.
    reasons: list[str]
    #: Shells started in advance.
    spare_shells: int
    #: The status.
    status: Literal["ready", "degraded", "draining"]
    #: The daemon's version.
    version: str

    @classmethod
    def from_json(cls: type[_Readiness], data: Mapping[str, Any]) -> _Readiness:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            live_shells=data["live_shells"],
            pid=data["pid"],
            problems=data["problems"],
            reasons=data["reasons"],
            spare_shells=data["spare_shells"],
            status=data["status"],
            version=data["version"],
        )


_Readiness = TypeVar("_Readiness", bound=Readiness)


@dataclass(frozen=True, slots=True)
class ReleaseResponse:
    """The end of a hold."""

    #: Whether it was held.
    released: bool
    #: The session.
    session_id: str
    #: What the agent's next result says about it.
    notice: str | None = None

    @classmethod
    def from_json(cls: type[_ReleaseResponse], data: Mapping[str, Any]) -> _ReleaseResponse:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            released=data["released"],
            session_id=data["session_id"],
            notice=data.get("notice"),
        )


_ReleaseResponse = TypeVar("_ReleaseResponse", bound=ReleaseResponse)


@dataclass(frozen=True, slots=True)
class Reloaded:
    """Response of `POST /v1/daemon/reload`."""

    #: Changes that are in effect now.
    changed: list[ChangedSetting]
    #: Changes that need a restart.
    needs_restart: list[ChangedSetting]

    @classmethod
    def from_json(cls: type[_Reloaded], data: Mapping[str, Any]) -> _Reloaded:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            changed=[ChangedSetting.from_json(x) for x in data["changed"]],
            needs_restart=[ChangedSetting.from_json(x) for x in data["needs_restart"]],
        )


_Reloaded = TypeVar("_Reloaded", bound=Reloaded)


@dataclass(frozen=True, slots=True)
class ResumeResponse:
    """The result of a message."""

    #: Version of its saved state.
    agent_state_version: int
    #: The agent's answer.
    output: str
    #: Its id in the recording.
    resume_id: str
    #: Number of the message's event.
    seq_from: int
    #: Number of the last event.
    seq_to: int
    #: How its work ended.
    status: Literal["done", "interrupted", "failed", "timed_out"]
    #: Steps it completed.
    steps: int
    #: Why it is not done, and what to do next.
    error: str | None = None

    @classmethod
    def from_json(cls: type[_ResumeResponse], data: Mapping[str, Any]) -> _ResumeResponse:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            agent_state_version=data["agent_state_version"],
            output=data["output"],
            resume_id=data["resume_id"],
            seq_from=data["seq_from"],
            seq_to=data["seq_to"],
            status=data["status"],
            steps=data["steps"],
            error=data.get("error"),
        )


_ResumeResponse = TypeVar("_ResumeResponse", bound=ResumeResponse)


@dataclass(frozen=True, slots=True)
class RewindResponse:
    """What a rewind changed, or would change."""

    #: The working directory afterwards.
    cwd: str
    #: Whether this was a dry run.
    dry_run: bool
    #: The files that change.
    files: list[FileChange]
    #: Total number of files that change.
    files_total: int
    #: Paths that were not changed, and why.
    kept_back: list[LeftOut]
    #: Notices.
    notices: list[NoticeView]
    #: Services that were stopped, or would be.
    services_stopped: list[str]
    #: What changes in the shell.
    shell: Changes
    #: Number of the record that the session was rewound to.
    to: int
    #: The last run before that moment, if nothing but runs has changed the session up to it.
    after_run: str | None = None
    #: The version of the agent's state that was restored.
    agent_state_version: int | None = None
    #: The version that the keyed store gets.
    kv_version: int | None = None
    #: The first of the paths that other sessions in the same directory have changed since, and who did.
    of_others: list[LeftOut] = field(default_factory=list)
    #: Number of the rewind's record.
    seq: int | None = None
    #: Paths that may differ from that moment, each with the reason.
    uncertain: list[LeftOut] = field(default_factory=list)
    #: Total number of such paths.
    uncertain_total: int | None = None
    #: Rewind to this record to undo the rewind.
    undo: int | None = None
    #: The run that `undo` undoes.
    undone: str | None = None
    undone_kind: Literal["run", "file", "kv", "merge", "rewind"] | None = None

    @classmethod
    def from_json(cls: type[_RewindResponse], data: Mapping[str, Any]) -> _RewindResponse:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            cwd=data["cwd"],
            dry_run=data["dry_run"],
            files=[FileChange.from_json(x) for x in data["files"]],
            files_total=data["files_total"],
            kept_back=[LeftOut.from_json(x) for x in data["kept_back"]],
            notices=[NoticeView.from_json(x) for x in data["notices"]],
            services_stopped=data["services_stopped"],
            shell=Changes.from_json(data["shell"]),
            to=data["to"],
            after_run=data.get("after_run"),
            agent_state_version=data.get("agent_state_version"),
            kv_version=data.get("kv_version"),
            of_others=[LeftOut.from_json(x) for x in (data.get("of_others") or [])],
            seq=data.get("seq"),
            uncertain=[LeftOut.from_json(x) for x in (data.get("uncertain") or [])],
            uncertain_total=data.get("uncertain_total"),
            undo=data.get("undo"),
            undone=data.get("undone"),
            undone_kind=data.get("undone_kind"),
        )


_RewindResponse = TypeVar("_RewindResponse", bound=RewindResponse)


@dataclass(frozen=True, slots=True)
class RunDetail:
    """A run with its command."""

    #: What it changed in the session.
    changes: Changes
    #: The session's working directory.
    cwd: str
    #: Wall time in milliseconds.
    duration_ms: float
    #: Notices.
    notices: list[NoticeView]
    #: Its id.
    run_id: str
    #: Number of the record of its end, so that a rewind or fork to it includes the run's changes.
    seq: int
    #: Its status.
    status: Literal["exited", "timed_out", "interrupted", "running", "lost"]
    #: Standard error as text.
    stderr: str
    #: Bytes the command wrote to standard error.
    stderr_bytes: int
    #: Standard output as text.
    stdout: str
    #: Bytes the command wrote to standard output.
    stdout_bytes: int
    #: Whether `stdout` or `stderr` was truncated.
    truncated: bool
    #: The text.
    command: str
    #: When it started.
    started_at: str
    #: Late output of earlier background jobs.
    background_output: str | None = None
    #: The exact bytes of it, where they are not UTF-8.
    background_output_base64: str | None = None
    #: The id of the agent's token that requested it.
    by: str | None = None
    #: Exit code as bash reports it, 128+n for a signal.
    exit_code: int | None = None
    #: The signal that ended it, without `SIG`.
    signal: str | None = None
    #: The exact bytes of it, where they are not UTF-8.
    stderr_base64: str | None = None
    #: The exact bytes of it, where they are not UTF-8.
    stdout_base64: str | None = None
    #: What was typed at its terminal and not read before it ended.
    unread_input: str | None = None

    @classmethod
    def from_json(cls: type[_RunDetail], data: Mapping[str, Any]) -> _RunDetail:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            changes=Changes.from_json(data["changes"]),
            cwd=data["cwd"],
            duration_ms=data["duration_ms"],
            notices=[NoticeView.from_json(x) for x in data["notices"]],
            run_id=data["run_id"],
            seq=data["seq"],
            status=data["status"],
            stderr=data["stderr"],
            stderr_bytes=data["stderr_bytes"],
            stdout=data["stdout"],
            stdout_bytes=data["stdout_bytes"],
            truncated=data["truncated"],
            command=data["command"],
            started_at=data["started_at"],
            background_output=data.get("background_output"),
            background_output_base64=data.get("background_output_base64"),
            by=data.get("by"),
            exit_code=data.get("exit_code"),
            signal=data.get("signal"),
            stderr_base64=data.get("stderr_base64"),
            stdout_base64=data.get("stdout_base64"),
            unread_input=data.get("unread_input"),
        )


_RunDetail = TypeVar("_RunDetail", bound=RunDetail)


@dataclass(frozen=True, slots=True)
class RunList:
    """A page of runs, newest first."""

    #: The runs.
    runs: list[RunSummary]
    #: Where the next page starts, if there is one.
    next: str | None = None

    @classmethod
    def from_json(cls: type[_RunList], data: Mapping[str, Any]) -> _RunList:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            runs=[RunSummary.from_json(x) for x in data["runs"]],
            next=data.get("next"),
        )


_RunList = TypeVar("_RunList", bound=RunList)


@dataclass(frozen=True, slots=True)
class RunResponse:
    """A run."""

    #: What it changed in the session.
    changes: Changes
    #: The session's working directory.
    cwd: str
    #: Wall time in milliseconds.
    duration_ms: float
    #: Notices.
    notices: list[NoticeView]
    #: Its id.
    run_id: str
    #: Number of the record of its end, so that a rewind or fork to it includes the run's changes.
    seq: int
    #: Its status.
    status: Literal["exited", "timed_out", "interrupted", "running", "lost"]
    #: Standard error as text.
    stderr: str
    #: Bytes the command wrote to standard error.
    stderr_bytes: int
    #: Standard output as text.
    stdout: str
    #: Bytes the command wrote to standard output.
    stdout_bytes: int
    #: Whether `stdout` or `stderr` was truncated.
    truncated: bool
    #: Late output of earlier background jobs.
    background_output: str | None = None
    #: The exact bytes of it, where they are not UTF-8.
    background_output_base64: str | None = None
    #: The id of the agent's token that requested it.
    by: str | None = None
    #: Exit code as bash reports it, 128+n for a signal.
    exit_code: int | None = None
    #: The signal that ended it, without `SIG`.
    signal: str | None = None
    #: The exact bytes of it, where they are not UTF-8.
    stderr_base64: str | None = None
    #: The exact bytes of it, where they are not UTF-8.
    stdout_base64: str | None = None
    #: What was typed at its terminal and not read before it ended.
    unread_input: str | None = None

    @classmethod
    def from_json(cls: type[_RunResponse], data: Mapping[str, Any]) -> _RunResponse:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            changes=Changes.from_json(data["changes"]),
            cwd=data["cwd"],
            duration_ms=data["duration_ms"],
            notices=[NoticeView.from_json(x) for x in data["notices"]],
            run_id=data["run_id"],
            seq=data["seq"],
            status=data["status"],
            stderr=data["stderr"],
            stderr_bytes=data["stderr_bytes"],
            stdout=data["stdout"],
            stdout_bytes=data["stdout_bytes"],
            truncated=data["truncated"],
            background_output=data.get("background_output"),
            background_output_base64=data.get("background_output_base64"),
            by=data.get("by"),
            exit_code=data.get("exit_code"),
            signal=data.get("signal"),
            stderr_base64=data.get("stderr_base64"),
            stdout_base64=data.get("stdout_base64"),
            unread_input=data.get("unread_input"),
        )


_RunResponse = TypeVar("_RunResponse", bound=RunResponse)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run in a list, without its output."""

    #: Whether it runs in the background, so that the session no longer waits for it.
    background: bool
    #: The text.
    command: str
    #: Bytes of the whole text.
    command_bytes: int
    #: Wall time in milliseconds.
    duration_ms: float
    #: Its id.
    run_id: str
    #: Number of the record of its end, so that a rewind or fork to it includes the run's changes.
    seq: int
    #: The session that it ran in.
    session_id: str
    #: When it started.
    started_at: str
    #: Its status.
    status: Literal["exited", "timed_out", "interrupted", "running", "lost"]
    #: Bytes the command wrote to standard error.
    stderr_bytes: int
    #: Bytes the command wrote to standard output.
    stdout_bytes: int
    #: The id of the agent's token that requested it.
    by: str | None = None
    #: The session's working directory after it.
    cwd: str | None = None
    #: Exit code as bash reports it, 128+n for a signal.
    exit_code: int | None = None
    #: How many notices its result has.
    notices: int | None = None
    #: The idempotency key, if there is one.
    request_id: str | None = None
    #: The signal that ended it, without `SIG`.
    signal: str | None = None

    @classmethod
    def from_json(cls: type[_RunSummary], data: Mapping[str, Any]) -> _RunSummary:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            background=data["background"],
            command=data["command"],
            command_bytes=data["command_bytes"],
            duration_ms=data["duration_ms"],
            run_id=data["run_id"],
            seq=data["seq"],
            session_id=data["session_id"],
            started_at=data["started_at"],
            status=data["status"],
            stderr_bytes=data["stderr_bytes"],
            stdout_bytes=data["stdout_bytes"],
            by=data.get("by"),
            cwd=data.get("cwd"),
            exit_code=data.get("exit_code"),
            notices=data.get("notices"),
            request_id=data.get("request_id"),
            signal=data.get("signal"),
        )


_RunSummary = TypeVar("_RunSummary", bound=RunSummary)


@dataclass(frozen=True, slots=True)
class RunningCommand:
    """A running command."""

    #: Whether it moved to the background at its timeout.
    background: bool
    #: Its text, truncated after 1,000 characters.
    command: str
    #: The run.
    run_id: str
    #: Seconds since it started.
    seconds: float
    #: The session that it runs in.
    session_id: str
    #: The agent that the session belongs to.
    agent: str | None = None

    @classmethod
    def from_json(cls: type[_RunningCommand], data: Mapping[str, Any]) -> _RunningCommand:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            background=data["background"],
            command=data["command"],
            run_id=data["run_id"],
            seconds=data["seconds"],
            session_id=data["session_id"],
            agent=data.get("agent"),
        )


_RunningCommand = TypeVar("_RunningCommand", bound=RunningCommand)


@dataclass(frozen=True, slots=True)
class RunningNow:
    """A command that runs while a hold begins."""

    command: str
    #: The run.
    run_id: str

    @classmethod
    def from_json(cls: type[_RunningNow], data: Mapping[str, Any]) -> _RunningNow:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            command=data["command"],
            run_id=data["run_id"],
        )


_RunningNow = TypeVar("_RunningNow", bound=RunningNow)


@dataclass(frozen=True, slots=True)
class SandboxInForce:
    """How a session is confined, and why."""

    #: What the sandbox does not stop on this machine.
    missing: list[str]
    #: How far its processes are confined.
    sandbox: Literal["none", "user", "fence", "room"]
    #: The session.
    session_id: str
    #: Who set that.
    set_by: Literal["node", "session"]
    #: `HOME` of its commands, if they are confined.
    home: str | None = None
    #: The hosts that it may connect to nevertheless, as `NAME:PORT`, if it is in a room with the network `none`.
    hosts: list[str] = field(default_factory=list)
    network: Literal["none", "full"] | None = None
    #: Directories and files that its commands may only read, if they are confined.
    read: list[str] = field(default_factory=list)
    #: `TMPDIR` of its commands, if they are confined.
    tmp: str | None = None
    #: Why no command can run.
    unavailable: str | None = None
    #: Directories that its commands may read and write, if they are confined.
    write: list[str] = field(default_factory=list)

    @classmethod
    def from_json(cls: type[_SandboxInForce], data: Mapping[str, Any]) -> _SandboxInForce:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            missing=data["missing"],
            sandbox=data["sandbox"],
            session_id=data["session_id"],
            set_by=data["set_by"],
            home=data.get("home"),
            hosts=data.get("hosts") or [],
            network=data.get("network"),
            read=data.get("read") or [],
            tmp=data.get("tmp"),
            unavailable=data.get("unavailable"),
            write=data.get("write") or [],
        )


_SandboxInForce = TypeVar("_SandboxInForce", bound=SandboxInForce)


@dataclass(frozen=True, slots=True)
class ScreenCursor:
    """The cursor of a screen, counted from 0."""

    col: int
    row: int
    visible: bool

    @classmethod
    def from_json(cls: type[_ScreenCursor], data: Mapping[str, Any]) -> _ScreenCursor:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            col=data["col"],
            row=data["row"],
            visible=data["visible"],
        )


_ScreenCursor = TypeVar("_ScreenCursor", bound=ScreenCursor)


@dataclass(frozen=True, slots=True)
class ScreenResponse:
    """What the terminal of a run shows."""

    #: Whether the program uses the alternate screen, as full-screen programs do.
    alternate: bool
    cols: int
    cursor: ScreenCursor
    #: The rows from the top, without blanks at their ends.
    lines: list[str]
    #: Whether a secret was masked.
    masked: bool
    #: Bytes of output that are in it.
    offset: int
    rows: int
    #: The run.
    run_id: str
    #: Whether the run has not ended.
    running: bool
    #: Whether the wait reached its timeout.
    timed_out: bool
    #: Grows with every change.
    version: int
    #: With `format=cells`.
    cells: list[list[ScreenSpan]] | None = field(default_factory=list)
    #: With `format=ansi`.
    dump: str | None = None
    #: The window title that the program set.
    title: str | None = None

    @classmethod
    def from_json(cls: type[_ScreenResponse], data: Mapping[str, Any]) -> _ScreenResponse:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            alternate=data["alternate"],
            cols=data["cols"],
            cursor=ScreenCursor.from_json(data["cursor"]),
            lines=data["lines"],
            masked=data["masked"],
            offset=data["offset"],
            rows=data["rows"],
            run_id=data["run_id"],
            running=data["running"],
            timed_out=data["timed_out"],
            version=data["version"],
            cells=data.get("cells") or [],
            dump=data.get("dump"),
            title=data.get("title"),
        )


_ScreenResponse = TypeVar("_ScreenResponse", bound=ScreenResponse)


@dataclass(frozen=True, slots=True)
class ScreenSpan:
    """Text in one style."""

    text: str
    #: The colour behind the text, in the same form.
    background: str | None = None
    blink: bool | None = None
    bold: bool | None = None
    faint: bool | None = None
    #: The colour of the text.
    foreground: str | None = None
    inverse: bool | None = None
    italic: bool | None = None
    strikethrough: bool | None = None
    underline: bool | None = None

    @classmethod
    def from_json(cls: type[_ScreenSpan], data: Mapping[str, Any]) -> _ScreenSpan:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            text=data["text"],
            background=data.get("background"),
            blink=data.get("blink"),
            bold=data.get("bold"),
            faint=data.get("faint"),
            foreground=data.get("foreground"),
            inverse=data.get("inverse"),
            italic=data.get("italic"),
            strikethrough=data.get("strikethrough"),
            underline=data.get("underline"),
        )


_ScreenSpan = TypeVar("_ScreenSpan", bound=ScreenSpan)


@dataclass(frozen=True, slots=True)
class ScrubReport:
    """Where a secret was masked."""

    #: Files that contained it.
    files: list[str]
    #: Number of the event of the scrub.
    seq: int
    #: Numbers of the events that contained it.
    seqs: list[int]
    #: Names of the checkpoints that contained it and were deleted.
    checkpoints: list[str] = field(default_factory=list)
    #: Names of the nodes that had the session earlier, whose data directories may contain it.
    earlier_nodes: list[str] = field(default_factory=list)
    #: Its forks and their forks, which are sessions of their own and may contain it.
    forks: list[str] = field(default_factory=list)
    #: Copies that may contain it and could not be masked.
    not_reached: list[Literal["history_logs", "broker_messages", "consumer_database", "earlier_nodes", "forks"]] = field(default_factory=list)

    @classmethod
    def from_json(cls: type[_ScrubReport], data: Mapping[str, Any]) -> _ScrubReport:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            files=data["files"],
            seq=data["seq"],
            seqs=data["seqs"],
            checkpoints=data.get("checkpoints") or [],
            earlier_nodes=data.get("earlier_nodes") or [],
            forks=data.get("forks") or [],
            not_reached=data.get("not_reached") or [],
        )


_ScrubReport = TypeVar("_ScrubReport", bound=ScrubReport)


@dataclass(frozen=True, slots=True)
class ServiceInfo:
    """A service."""

    #: The text.
    command: str
    #: Its working directory at the start.
    cwd: str
    #: When it last wrote output, used the processor or had a connection.
    last_active_at: str
    #: Bytes written to its log, including those no longer kept.
    log_bytes: int
    #: Its name.
    name: str
    #: TCP ports that it listens on.
    ports: list[int]
    #: How many processes it has.
    processes: int
    #: What to do when it exits on its own.
    restart: Literal["never", "on_failure", "on-failure", "always"]
    #: How often it was restarted.
    restarts: int
    #: Its id within its session.
    service_id: str
    #: Its session.
    session_id: str
    #: When it was first started.
    started_at: str
    #: Its status.
    status: Literal["starting", "running", "exited", "stopped", "failed"]
    #: The agent that it belongs to.
    agent: str | None = None
    #: Details about its status, as a sentence.
    detail: str | None = None
    #: When it exited, if it has.
    ended_at: str | None = None
    #: Exit code as bash reports it, 128+n for a signal, once it has one.
    exit_code: int | None = None
    #: Its first process, or the oldest one left.
    pid: int | None = None
    #: The signal that ended it, without `SIG`.
    signal: str | None = None

    @classmethod
    def from_json(cls: type[_ServiceInfo], data: Mapping[str, Any]) -> _ServiceInfo:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            command=data["command"],
            cwd=data["cwd"],
            last_active_at=data["last_active_at"],
            log_bytes=data["log_bytes"],
            name=data["name"],
            ports=data["ports"],
            processes=data["processes"],
            restart=data["restart"],
            restarts=data["restarts"],
            service_id=data["service_id"],
            session_id=data["session_id"],
            started_at=data["started_at"],
            status=data["status"],
            agent=data.get("agent"),
            detail=data.get("detail"),
            ended_at=data.get("ended_at"),
            exit_code=data.get("exit_code"),
            pid=data.get("pid"),
            signal=data.get("signal"),
        )


_ServiceInfo = TypeVar("_ServiceInfo", bound=ServiceInfo)


@dataclass(frozen=True, slots=True)
class ServiceList:
    """Response of `GET …/services` and of `GET /v1/services`."""

    #: The services.
    services: list[ServiceInfo]

    @classmethod
    def from_json(cls: type[_ServiceList], data: Mapping[str, Any]) -> _ServiceList:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            services=[ServiceInfo.from_json(x) for x in data["services"]],
        )


_ServiceList = TypeVar("_ServiceList", bound=ServiceList)


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session."""

    #: The configuration it was created with.
    agent_config: dict[str, Any]
    #: When it was created (RFC 3339, UTC).
    created_at: str
    #: Its working directory.
    cwd: str
    #: How many shells it has had.
    generation: int
    #: When something last happened in it.
    last_active_at: str
    #: Whether it has a shell now.
    live: bool
    #: Number of its last record.
    seq: int
    #: Its name.
    session_id: str
    #: Its workspace.
    workspace: str
    #: The agent that it belongs to.
    agent: str | None = None
    deleted: Deleted | None = None
    forked_from: ForkedFrom | None = None
    held: Held | None = None
    sandbox: Literal["none", "user", "fence", "room"] | None = None
    #: The names of the secrets that it was created with.
    secrets: list[str] = field(default_factory=list)
    #: That shell's process id.
    shell_pid: int | None = None

    @classmethod
    def from_json(cls: type[_SessionInfo], data: Mapping[str, Any]) -> _SessionInfo:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            agent_config=data["agent_config"],
            created_at=data["created_at"],
            cwd=data["cwd"],
            generation=data["generation"],
            last_active_at=data["last_active_at"],
            live=data["live"],
            seq=data["seq"],
            session_id=data["session_id"],
            workspace=data["workspace"],
            agent=data.get("agent"),
            deleted=None if (y := data.get("deleted")) is None else Deleted.from_json(y),
            forked_from=None if (y := data.get("forked_from")) is None else ForkedFrom.from_json(y),
            held=None if (y := data.get("held")) is None else Held.from_json(y),
            sandbox=data.get("sandbox"),
            secrets=data.get("secrets") or [],
            shell_pid=data.get("shell_pid"),
        )


_SessionInfo = TypeVar("_SessionInfo", bound=SessionInfo)


@dataclass(frozen=True, slots=True)
class SessionList:
    """One page of sessions."""

    #: The sessions.
    sessions: list[SessionInfo]
    #: Pass this as `after` for the next page, with the same filters and order.
    next: str | None = None

    @classmethod
    def from_json(cls: type[_SessionList], data: Mapping[str, Any]) -> _SessionList:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            sessions=[SessionInfo.from_json(x) for x in data["sessions"]],
            next=data.get("next"),
        )


_SessionList = TypeVar("_SessionList", bound=SessionList)


@dataclass(frozen=True, slots=True)
class SettingInForce:
    """A setting in effect."""

    #: Where it came from.
    source: str
    #: Its value, as text.
    value: str

    @classmethod
    def from_json(cls: type[_SettingInForce], data: Mapping[str, Any]) -> _SettingInForce:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            source=data["source"],
            value=data["value"],
        )


_SettingInForce = TypeVar("_SettingInForce", bound=SettingInForce)


@dataclass(frozen=True, slots=True)
class SettingsInForce:
    """Response of `GET /v1/daemon/settings`."""

    #: By name, as in the configuration file.
    settings: dict[str, SettingInForce]
    #: The file that was read, if one was.
    file: str | None = None

    @classmethod
    def from_json(cls: type[_SettingsInForce], data: Mapping[str, Any]) -> _SettingsInForce:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            settings={k: SettingInForce.from_json(x) for k, x in data["settings"].items()},
            file=data.get("file"),
        )


_SettingsInForce = TypeVar("_SettingsInForce", bound=SettingsInForce)


@dataclass(frozen=True, slots=True)
class SignalSent:
    """Response to a sent signal."""

    #: The run.
    run_id: str
    #: The signal.
    signal: str
    #: Whether the command had not started and was cancelled.
    cancelled: bool | None = None

    @classmethod
    def from_json(cls: type[_SignalSent], data: Mapping[str, Any]) -> _SignalSent:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            run_id=data["run_id"],
            signal=data["signal"],
            cancelled=data.get("cancelled"),
        )


_SignalSent = TypeVar("_SignalSent", bound=SignalSent)


@dataclass(frozen=True, slots=True)
class Signed:
    """A signature."""

    #: When it was made.
    at: str
    #: The public key, 64 hex digits.
    key: str
    #: Number of the last event that it covers, including all before it.
    seq: int

    @classmethod
    def from_json(cls: type[_Signed], data: Mapping[str, Any]) -> _Signed:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            at=data["at"],
            key=data["key"],
            seq=data["seq"],
        )


_Signed = TypeVar("_Signed", bound=Signed)


@dataclass(frozen=True, slots=True)
class StateResponse:
    """Response of `GET /v1/sessions/{id}/state`."""

    #: Aliases and their definitions.
    aliases: dict[str, str]
    #: The working directory.
    cwd: str
    #: The directory stack below the working directory.
    directory_stack: list[str | dict[str, Any]]
    #: Builtins disabled with `enable -n`.
    disabled_builtins: list[str]
    #: Exported variables and their values.
    env: dict[str, str]
    #: Functions and their definitions.
    functions: dict[str, str]
    #: Soft resource limits that differ from the daemon's, by the letter of `ulimit`.
    limits: dict[str, int | None]
    #: Options that are on.
    options: OptionsView
    #: `$1`, `$2`, ….
    positional: list[str | dict[str, Any]]
    #: `$?`.
    status: int
    #: Traps.
    traps: dict[str, str]
    #: Every variable that differs from a bare bash, exported or not.
    variables: dict[str, VariableView]
    #: The umask in octal.
    umask: str | None = None

    @classmethod
    def from_json(cls: type[_StateResponse], data: Mapping[str, Any]) -> _StateResponse:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            aliases=data["aliases"],
            cwd=data["cwd"],
            directory_stack=data["directory_stack"],
            disabled_builtins=data["disabled_builtins"],
            env=data["env"],
            functions=data["functions"],
            limits=data["limits"],
            options=OptionsView.from_json(data["options"]),
            positional=data["positional"],
            status=data["status"],
            traps=data["traps"],
            variables={k: VariableView.from_json(x) for k, x in data["variables"].items()},
            umask=data.get("umask"),
        )


_StateResponse = TypeVar("_StateResponse", bound=StateResponse)


@dataclass(frozen=True, slots=True)
class Stopping:
    """Response of `POST /v1/daemon/stop`."""

    #: Seconds that they get to finish.
    grace: float
    #: The daemon's process id.
    pid: int
    #: Running commands.
    running: int

    @classmethod
    def from_json(cls: type[_Stopping], data: Mapping[str, Any]) -> _Stopping:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            grace=data["grace"],
            pid=data["pid"],
            running=data["running"],
        )


_Stopping = TypeVar("_Stopping", bound=Stopping)


@dataclass(frozen=True, slots=True)
class TerminalResized:
    """Response to a changed size."""

    cols: int
    rows: int
    #: The run.
    run_id: str

    @classmethod
    def from_json(cls: type[_TerminalResized], data: Mapping[str, Any]) -> _TerminalResized:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            cols=data["cols"],
            rows=data["rows"],
            run_id=data["run_id"],
        )


_TerminalResized = TypeVar("_TerminalResized", bound=TerminalResized)


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """A token, without its secret."""

    #: When it was created.
    created_at: str
    #: Its public name, as in the audit trail and in `by` of a run.
    id: str
    #: Whether it may restart its sessions.
    may_restart: bool
    #: Its role.
    role: Literal["agent", "auditor", "metrics", "watch", "act"]
    #: The agent it is for.
    agent: str | None = None
    #: When it stops being valid.
    expires_at: str | None = None
    #: Its label.
    name: str | None = None
    #: When it was revoked.
    revoked_at: str | None = None

    @classmethod
    def from_json(cls: type[_TokenInfo], data: Mapping[str, Any]) -> _TokenInfo:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            created_at=data["created_at"],
            id=data["id"],
            may_restart=data["may_restart"],
            role=data["role"],
            agent=data.get("agent"),
            expires_at=data.get("expires_at"),
            name=data.get("name"),
            revoked_at=data.get("revoked_at"),
        )


_TokenInfo = TypeVar("_TokenInfo", bound=TokenInfo)


@dataclass(frozen=True, slots=True)
class TokenList:
    """Response of `GET /v1/tokens`."""

    #: The tokens, oldest first.
    tokens: list[TokenInfo]

    @classmethod
    def from_json(cls: type[_TokenList], data: Mapping[str, Any]) -> _TokenList:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            tokens=[TokenInfo.from_json(x) for x in data["tokens"]],
        )


_TokenList = TypeVar("_TokenList", bound=TokenList)


@dataclass(frozen=True, slots=True)
class VariableView:
    """A variable."""

    #: The letters of `declare`, sorted.
    attributes: str
    #: An indexed array.
    array: list[list[Any]] | None = field(default_factory=list)
    #: Declared without a value.
    declared: str | None = None
    #: An associative array.
    map: dict[str, str | dict[str, Any]] | None = field(default_factory=dict)
    value: str | dict[str, Any] | None = None

    @classmethod
    def from_json(cls: type[_VariableView], data: Mapping[str, Any]) -> _VariableView:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            attributes=data["attributes"],
            array=data.get("array") or [],
            declared=data.get("declared"),
            map=data.get("map") or {},
            value=data.get("value"),
        )


_VariableView = TypeVar("_VariableView", bound=VariableView)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of verifying a recording."""

    #: Number of events that were checked.
    events: int
    #: Whether nothing was changed, dropped or reordered.
    intact: bool
    #: Fields that were masked after they were recorded.
    masked_fields: int
    #: Signatures of other nodes for earlier events, if the session was on several.
    also_signed: list[Signed] = field(default_factory=list)
    bad: Bad | None = None
    #: Attached files that match their recorded hashes.
    files: int | None = None
    #: Files that were deleted to make room.
    files_reclaimed: int | None = None
    head: Head | None = None
    #: Numbers without an event, because it could not be written.
    holes: list[Hole] = field(default_factory=list)
    #: Whether all these signatures were made by known keys.
    key_is_known: bool | None = None
    #: Remarks, as sentences.
    remarks: list[str] = field(default_factory=list)
    signed: Signed | None = None

    @classmethod
    def from_json(cls: type[_Verdict], data: Mapping[str, Any]) -> _Verdict:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            events=data["events"],
            intact=data["intact"],
            masked_fields=data["masked_fields"],
            also_signed=[Signed.from_json(x) for x in (data.get("also_signed") or [])],
            bad=None if (y := data.get("bad")) is None else Bad.from_json(y),
            files=data.get("files"),
            files_reclaimed=data.get("files_reclaimed"),
            head=None if (y := data.get("head")) is None else Head.from_json(y),
            holes=[Hole.from_json(x) for x in (data.get("holes") or [])],
            key_is_known=data.get("key_is_known"),
            remarks=data.get("remarks") or [],
            signed=None if (y := data.get("signed")) is None else Signed.from_json(y),
        )


_Verdict = TypeVar("_Verdict", bound=Verdict)
