"""What the daemon answers. Generated from /openapi.json by tools/generate_models.py; do not edit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

#: The version of the daemon that this package was made for.
API_VERSION = "0.1.0"


@dataclass(frozen=True, slots=True)
class AgentEnded:
    """Answer of `POST /v1/agents/{agent}/end`."""

    #: Whose end it was.
    agent: str
    #: Services that were stopped.
    services: int
    #: Sessions that were ended.
    sessions: int

    @classmethod
    def from_json(cls: type[_AgentEnded], data: Mapping[str, Any]) -> _AgentEnded:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            agent=data["agent"],
            services=data["services"],
            sessions=data["sessions"],
        )


_AgentEnded = TypeVar("_AgentEnded", bound=AgentEnded)


@dataclass(frozen=True, slots=True)
class AgentStateSaved:
    """Answer to a saved state."""

    #: Number of its event in the recording.
    seq: int
    #: Its version, which is also the `ETag`.
    version: int
    #: What you should know.
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
    """Data of the event `output` of a streamed answer."""

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
    """Something that changed rights or removed something, or a request that was refused."""

    #: When.
    at: str
    #: Through which door.
    door: str
    #: To what.
    object: str
    #: What was done, or `refused`.
    what: str
    #: Who.
    who: str
    #: Why it was refused.
    code: str | None = None
    #: How many more there were of which nothing was kept, because they were too many at once.
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
            code=data.get("code"),
            left_out=data.get("left_out"),
        )


_AuditEntry = TypeVar("_AuditEntry", bound=AuditEntry)


@dataclass(frozen=True, slots=True)
class AuditList:
    """Answer of `GET /v1/audit`."""

    #: The entries, the oldest first.
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
    """An event with which something is wrong."""

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
    """A setting that has another value in the configuration than before."""

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
    #: `set -o` and `shopt` names switched on or off.
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

    #: Files that are new.
    added: int
    #: Bytes that it added to the disk.
    bytes: int
    #: What it was taken for.
    cause: Literal["tool", "base", "rewind", "fork", "merge", "manual"]
    #: Files that are not what they were.
    changed: int
    #: Its name, which is also its tag in the repository, as in `tool_bash_20261115T183000.123456Z`.
    checkpoint_id: str
    #: Its commit.
    commit: str
    #: Number of the last record whose effects on the files it holds.
    covers: int
    #: When it was taken (RFC 3339, UTC).
    created_at: str
    #: Files that are gone.
    deleted: int
    #: Whether its files are still there.
    kept: bool
    #: The first of what it does not hold, each with the reason.
    left_out: list[LeftOut]
    #: How much it does not hold, all in all.
    left_out_total: int
    #: Whether the next command had begun before it was complete, so that it may hold some of that one's changes.
    overtaken: bool
    #: Number of the record that tells of it.
    seq: int
    #: The command of that run.
    command: str | None = None
    #: The run that changed the files.
    run_id: str | None = None
    #: The tool that changed the files.
    tool_name: str | None = None
    #: The first of the paths that may have been something else at record `covers`, each with the reason.
    uncertain: list[LeftOut] = field(default_factory=list)
    #: How many such paths there are.
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

    #: Files that are new.
    added: int
    #: Bytes that it added to the disk.
    bytes: int
    #: What it was taken for.
    cause: Literal["tool", "base", "rewind", "fork", "merge", "manual"]
    #: Files that are not what they were.
    changed: int
    #: Its name, which is also its tag in the repository, as in `tool_bash_20261115T183000.123456Z`.
    checkpoint_id: str
    #: Its commit.
    commit: str
    #: Number of the last record whose effects on the files it holds.
    covers: int
    #: When it was taken (RFC 3339, UTC).
    created_at: str
    #: Files that are gone.
    deleted: int
    #: Whether its files are still there.
    kept: bool
    #: The first of what it does not hold, each with the reason.
    left_out: list[LeftOut]
    #: How much it does not hold, all in all.
    left_out_total: int
    #: Whether the next command had begun before it was complete, so that it may hold some of that one's changes.
    overtaken: bool
    #: Number of the record that tells of it.
    seq: int
    #: How its files differ from those of the checkpoint before it.
    files: list[FileChange]
    #: The command of that run.
    command: str | None = None
    #: The run that changed the files.
    run_id: str | None = None
    #: The tool that changed the files.
    tool_name: str | None = None
    #: The first of the paths that may have been something else at record `covers`, each with the reason.
    uncertain: list[LeftOut] = field(default_factory=list)
    #: How many such paths there are.
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
    #: The id of the checkpoint that the files were last kept in, or rewound to.
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
    """What a session's checkpoints take of the disk."""

    #: Bytes on the disk.
    bytes: int
    #: Checkpoints that are kept.
    checkpoints: int
    #: How many they may be.
    limit: int
    #: The session.
    session_id: str
    #: Bytes that were given back just now, by `thin`.
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
class DaemonStatus:
    """Answer of `GET /v1/daemon`."""

    #: Its data directory.
    data: str
    #: Where it listens.
    doors: list[str]
    #: Of them, with a shell.
    live_shells: int
    #: Its process id.
    pid: int
    #: Why it is degraded, one sentence each.
    problems: list[str]
    #: Commands that run.
    running: int
    #: Services that run.
    services: int
    #: Sessions it keeps.
    sessions: int
    #: When it was started.
    started_at: str
    #: In a word.
    status: Literal["ready", "degraded"]
    #: Seconds that running commands get to finish when it stops.
    stop_grace: float
    #: The kind of its store, as in `sqlite`.
    store: str
    #: Seconds since then.
    uptime: float
    #: Its version.
    version: str
    #: Its configuration file, if it has read one.
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
    """The removal of a session by its agent."""

    #: When (RFC 3339, UTC).
    at: str
    #: The name that the session had.
    session_id: str
    #: The id of the token that removed it.
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
    """How two states of the files differ."""

    #: What differs.
    files: list[FileChange]
    #: Whether the patch is not all of it.
    truncated: bool
    from_: CheckpointName | None = None
    #: The difference in git's format.
    patch: str | None = None
    #: The exact bytes of that, where they are not UTF-8.
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
    #: What kind of event.
    event_type: str
    #: Ties it to the event before it.
    hash: str
    #: Position in the session, from 1, no gaps.
    seq: int
    #: Who it comes from, as the daemon knows it and whatever `data` says.
    source: str
    #: When (RFC 3339, UTC).
    timestamp: str
    #: The id of the agent's token that posted it or asked for it.
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
class FileChange:
    """A file that differs."""

    #: Whether it is no text.
    binary: bool
    #: How.
    kind: Literal["added", "modified", "deleted", "renamed", "type_changed"]
    #: Where, below the workspace.
    path: str
    #: Lines that are gone, for a text.
    deletions: int | None = None
    #: Lines that are new, for a text.
    insertions: int | None = None
    #: Its exact bytes, where they are not UTF-8.
    path_base64: str | None = None
    #: What it was called before.
    renamed_from: str | None = None
    #: The exact bytes of that, where they are not UTF-8.
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

    #: What it is.
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
    #: What you should know.
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
    #: What you should know.
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
    """Answer to `POST …/fork`."""

    #: The configuration it was made with.
    agent_config: dict[str, Any]
    #: When it began (RFC 3339, UTC).
    created_at: str
    #: Its working directory.
    cwd: str
    #: How many shells it has worn.
    generation: int
    #: When something last happened in it.
    last_active_at: str
    #: Whether it wears a shell now.
    live: bool
    #: Number of its last record.
    seq: int
    #: Its name.
    session_id: str
    #: The directory its files are in.
    workspace: str
    #: What the caller should know.
    notices: list[NoticeView]
    #: Whose it is.
    agent: str | None = None
    deleted: Deleted | None = None
    forked_from: ForkedFrom | None = None
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
            shell_pid=data.get("shell_pid"),
        )


_ForkResponse = TypeVar("_ForkResponse", bound=ForkResponse)


@dataclass(frozen=True, slots=True)
class ForkedFrom:
    """Where a forked session came from."""

    #: Number of its record that the fork begins after.
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
class HistoryEntry:
    """One change of a path."""

    #: The checkpoint in which it is seen first.
    checkpoint_id: str
    #: The commit of that.
    commit: str
    #: How the path changed.
    kind: Literal["added", "modified", "deleted", "renamed", "type_changed"]
    #: Number of the record that tells of the checkpoint.
    seq: int
    #: When (RFC 3339, UTC).
    timestamp: str
    #: The run that did it.
    run_id: str | None = None
    #: Bytes of the file afterwards, if it is one.
    size: int | None = None
    #: The tool that did it.
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
class Hole:
    """Numbers without events."""

    #: Whether the runtime itself said that they were lost.
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
    """Answer to sent input."""

    #: Bytes taken.
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
    """A token that was just made."""

    #: When it was made.
    created_at: str
    #: Its public name, as in the audit trail and in `by` of a run.
    id: str
    #: Whether it may restart its sessions.
    may_restart: bool
    #: What it may do.
    role: Literal["agent", "auditor", "metrics"]
    #: The secret, for `Authorization.
    token: str
    #: The agent it is for.
    agent: str | None = None
    #: What the host calls it.
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
    #: What you should know.
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

    #: What its value is, as whoever put it said.
    content_type: str
    #: The key.
    key: str
    #: The SHA-256 of its value, in hexadecimal.
    sha256: str
    #: Bytes of its value.
    size: int
    #: Its version.
    version: int
    #: The value, if it was asked for.
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

    #: The keys, in their order.
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
    #: What you should know.
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
    """A path that was passed over, and why."""

    #: Which, below the workspace.
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
    """A limit that followed the machine's pressure."""

    #: When.
    at: str
    #: What it was.
    from_: int
    #: Which limit.
    limit: str
    #: Why, in a sentence.
    reason: str
    #: What it is since.
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
    """Answer of `GET /healthz`."""

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

    #: Where it goes on.
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

    #: Files that both changed so that they do not fit together.
    conflicts: list[LeftOut]
    #: Whether nothing was done.
    dry_run: bool
    #: The first of the files that change in it.
    files: list[FileChange]
    #: How many change, all in all.
    files_total: int
    #: The session that was changed.
    into: str
    #: What the caller should know.
    notices: list[NoticeView]
    #: Number of the record in it that tells of its files afterwards.
    seq: int | None = None
    #: Rewind that session to this in order to take the merge back.
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

    #: What was said.
    content: str | list[Any] | dict[str, Any]
    #: When (RFC 3339, UTC).
    created_at: str
    #: Who said it.
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
    """Answer to a message."""

    #: Number of its event in the recording.
    seq: int
    #: Its number in the conversation, from 1, no gaps.
    seq_id: int
    #: What you should know.
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
    """Names that came, changed or went."""

    #: New or changed.
    set: list[str] = field(default_factory=list)
    #: Gone.
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
    """Answer of `GET /v1/node`."""

    #: The last changes that the machine's pressure made, the newest first.
    changes: list[LimitChange]
    #: The quotas by name.
    quotas: dict[str, Quota]
    #: Agents whose commands wait.
    agents_waiting: int
    #: The commands that have run longest, at most 100 of them.
    commands: list[RunningCommand]
    #: Commands started since the daemon runs.
    commands_total: int
    #: Share of time in which something waited for a processor, 0 to 1.
    cpu_pressure: float
    #: Of them, with a shell.
    live_shells: int
    #: Resident memory of the daemon, in bytes.
    memory: int
    #: Share of memory that is free to use, 0 to 1.
    memory_free: float
    #: Share of time in which something waited for memory, 0 to 1.
    memory_pressure: float
    #: Why it is degraded.
    problems: list[str]
    #: Processes of all sessions and services.
    processes: int
    #: Commands that run.
    running: int
    #: Most commands that may run at once now.
    running_limit: int
    #: Services that run.
    services: int
    #: Sessions there are.
    sessions: int
    #: Shells started ahead.
    spare_shells: int
    #: Seconds since the daemon was started.
    uptime: float
    #: Commands that wait for their turn on the node.
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
class NoticeView:
    """Something the caller should know."""

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
    #: Whether the run writes its standard error into `stdout`, so that this stream stays empty.
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
            merged=data.get("merged"),
        )


_OutputResponse = TypeVar("_OutputResponse", bound=OutputResponse)


@dataclass(frozen=True, slots=True)
class PostedEvents:
    """Where posted events are in the recording."""

    #: Number of the event, or of the last of many.
    seq: int
    #: Number of the first of many.
    first_seq: int | None = None
    #: What you should know.
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

    #: What the settings say.
    configured: int
    #: What is in force now.
    limit: int
    #: What was set since, if it was.
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
    """Answer of `GET /v1/quotas` and of `PUT /v1/quotas`."""

    #: The last changes that the machine's pressure made, the newest first.
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
    """Answer of `GET /readyz`."""

    #: Sessions with a shell.
    live_shells: int
    #: The daemon's process id.
    pid: int
    #: Why it is degraded, one sentence each.
    problems: list[str]
    #: Shells started ahead.
    spare_shells: int
    #: In a word.
    status: Literal["ready", "degraded"]
    #: The daemon's version.
    version: str

    @classmethod
    def from_json(cls: type[_Readiness], data: Mapping[str, Any]) -> _Readiness:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            live_shells=data["live_shells"],
            pid=data["pid"],
            problems=data["problems"],
            spare_shells=data["spare_shells"],
            status=data["status"],
            version=data["version"],
        )


_Readiness = TypeVar("_Readiness", bound=Readiness)


@dataclass(frozen=True, slots=True)
class Reloaded:
    """Answer of `POST /v1/daemon/reload`."""

    #: What is in force now.
    changed: list[ChangedSetting]
    #: What takes a restart to come into force.
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
    """What came of a message."""

    #: Version of its state that is kept.
    agent_state_version: int
    #: What the agent answered.
    output: str
    #: Its name in the recording.
    resume_id: str
    #: Number of the event that holds the message.
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
    #: Whether nothing was done.
    dry_run: bool
    #: The first of the files that change.
    files: list[FileChange]
    #: How many files change, all in all.
    files_total: int
    #: Paths that are left as they are, and why.
    kept_back: list[LeftOut]
    #: What you should know.
    notices: list[NoticeView]
    #: Services that were stopped, or would be.
    services_stopped: list[str]
    #: What changes in the shell.
    shell: Changes
    #: Number of the record that the session is as after.
    to: int
    #: The version of the agent's state that is brought back.
    agent_state_version: int | None = None
    #: Number of the record that tells of the rewind.
    seq: int | None = None
    #: The first of the paths that may not be as they were then, each with the reason.
    uncertain: list[LeftOut] = field(default_factory=list)
    #: How many such paths there are.
    uncertain_total: int | None = None
    #: Rewind to this in order to take it back.
    undo: int | None = None
    #: The run that `undo` takes back.
    undone: str | None = None

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
            agent_state_version=data.get("agent_state_version"),
            seq=data.get("seq"),
            uncertain=[LeftOut.from_json(x) for x in (data.get("uncertain") or [])],
            uncertain_total=data.get("uncertain_total"),
            undo=data.get("undo"),
            undone=data.get("undone"),
        )


_RewindResponse = TypeVar("_RewindResponse", bound=RewindResponse)


@dataclass(frozen=True, slots=True)
class RunDetail:
    """A run with what it was asked to do."""

    #: What it changed in the session.
    changes: Changes
    #: The session's working directory.
    cwd: str
    #: Wall time in milliseconds.
    duration_ms: float
    #: What you should know.
    notices: list[NoticeView]
    #: Its id.
    run_id: str
    #: Number of the record of its end, so that a rewind or fork to it has what the run did.
    seq: int
    #: How it stands.
    status: Literal["exited", "timed_out", "interrupted", "running", "lost"]
    #: Standard error as text.
    stderr: str
    #: Bytes the command wrote to standard error.
    stderr_bytes: int
    #: Standard output as text.
    stdout: str
    #: Bytes the command wrote to standard output.
    stdout_bytes: int
    #: Whether `stdout` or `stderr` is not all of it.
    truncated: bool
    #: The text.
    command: str
    #: When it started.
    started_at: str
    #: Late output of earlier background work.
    background_output: str | None = None
    #: The exact bytes of it, where they are not UTF-8.
    background_output_base64: str | None = None
    #: The id of the agent's token that asked for it.
    by: str | None = None
    #: Exit code as bash says it, 128+n for a signal.
    exit_code: int | None = None
    #: The signal that ended it, without `SIG`.
    signal: str | None = None
    #: The exact bytes of it, where they are not UTF-8.
    stderr_base64: str | None = None
    #: The exact bytes of it, where they are not UTF-8.
    stdout_base64: str | None = None

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
    #: What you should know.
    notices: list[NoticeView]
    #: Its id.
    run_id: str
    #: Number of the record of its end, so that a rewind or fork to it has what the run did.
    seq: int
    #: How it stands.
    status: Literal["exited", "timed_out", "interrupted", "running", "lost"]
    #: Standard error as text.
    stderr: str
    #: Bytes the command wrote to standard error.
    stderr_bytes: int
    #: Standard output as text.
    stdout: str
    #: Bytes the command wrote to standard output.
    stdout_bytes: int
    #: Whether `stdout` or `stderr` is not all of it.
    truncated: bool
    #: Late output of earlier background work.
    background_output: str | None = None
    #: The exact bytes of it, where they are not UTF-8.
    background_output_base64: str | None = None
    #: The id of the agent's token that asked for it.
    by: str | None = None
    #: Exit code as bash says it, 128+n for a signal.
    exit_code: int | None = None
    #: The signal that ended it, without `SIG`.
    signal: str | None = None
    #: The exact bytes of it, where they are not UTF-8.
    stderr_base64: str | None = None
    #: The exact bytes of it, where they are not UTF-8.
    stdout_base64: str | None = None

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
        )


_RunResponse = TypeVar("_RunResponse", bound=RunResponse)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run in a list, without its output."""

    #: Whether it runs on in the background, so that the session no longer waits for it.
    background: bool
    #: The text.
    command: str
    #: Bytes of the whole text.
    command_bytes: int
    #: Wall time in milliseconds.
    duration_ms: float
    #: Its id.
    run_id: str
    #: Number of the record of its end, so that a rewind or fork to it has what the run did.
    seq: int
    #: When it started.
    started_at: str
    #: How it stands.
    status: Literal["exited", "timed_out", "interrupted", "running", "lost"]
    #: Bytes the command wrote to standard error.
    stderr_bytes: int
    #: Bytes the command wrote to standard output.
    stdout_bytes: int
    #: The id of the agent's token that asked for it.
    by: str | None = None
    #: The session's working directory after it.
    cwd: str | None = None
    #: Exit code as bash says it, 128+n for a signal.
    exit_code: int | None = None
    #: The caller's key, if it gave one.
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
            started_at=data["started_at"],
            status=data["status"],
            stderr_bytes=data["stderr_bytes"],
            stdout_bytes=data["stdout_bytes"],
            by=data.get("by"),
            cwd=data.get("cwd"),
            exit_code=data.get("exit_code"),
            request_id=data.get("request_id"),
            signal=data.get("signal"),
        )


_RunSummary = TypeVar("_RunSummary", bound=RunSummary)


@dataclass(frozen=True, slots=True)
class RunningCommand:
    """A command that runs."""

    #: Whether it outgrew its timeout and runs in the background.
    background: bool
    #: Its text, cut after 1,000 characters.
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
class ScrubReport:
    """Where a secret was masked."""

    #: Files in which it stood.
    files: list[str]
    #: Number of the event that says so.
    seq: int
    #: Numbers of the events in which it stood.
    seqs: list[int]
    #: Names of the checkpoints that held it and are gone.
    checkpoints: list[str] = field(default_factory=list)

    @classmethod
    def from_json(cls: type[_ScrubReport], data: Mapping[str, Any]) -> _ScrubReport:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            files=data["files"],
            seq=data["seq"],
            seqs=data["seqs"],
            checkpoints=data.get("checkpoints") or [],
        )


_ScrubReport = TypeVar("_ScrubReport", bound=ScrubReport)


@dataclass(frozen=True, slots=True)
class ServiceInfo:
    """A service."""

    #: The text.
    command: str
    #: Where it started.
    cwd: str
    #: When it last wrote, computed or talked to anybody.
    last_active_at: str
    #: Bytes it has written to its log, kept or not.
    log_bytes: int
    #: What its caller calls it.
    name: str
    #: TCP ports on which it listens.
    ports: list[int]
    #: How many processes it has.
    processes: int
    #: What happens when it ends by itself.
    restart: Literal["never", "on_failure", "on-failure", "always"]
    #: How often it was started again.
    restarts: int
    #: Its id within its session.
    service_id: str
    #: Its session.
    session_id: str
    #: When it was first started.
    started_at: str
    #: How it stands.
    status: Literal["starting", "running", "exited", "stopped", "failed"]
    #: Whose it is.
    agent: str | None = None
    #: What there is to say about its status, in a sentence.
    detail: str | None = None
    #: When it ended, if it has.
    ended_at: str | None = None
    #: Exit code as bash says it, 128+n for a signal, once it has one.
    exit_code: int | None = None
    #: Its first process, or the oldest that is left of it.
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
    """Answer of `GET …/services` and of `GET /v1/services`."""

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

    #: The configuration it was made with.
    agent_config: dict[str, Any]
    #: When it began (RFC 3339, UTC).
    created_at: str
    #: Its working directory.
    cwd: str
    #: How many shells it has worn.
    generation: int
    #: When something last happened in it.
    last_active_at: str
    #: Whether it wears a shell now.
    live: bool
    #: Number of its last record.
    seq: int
    #: Its name.
    session_id: str
    #: The directory its files are in.
    workspace: str
    #: Whose it is.
    agent: str | None = None
    deleted: Deleted | None = None
    forked_from: ForkedFrom | None = None
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
            shell_pid=data.get("shell_pid"),
        )


_SessionInfo = TypeVar("_SessionInfo", bound=SessionInfo)


@dataclass(frozen=True, slots=True)
class SessionList:
    """One page of sessions, ordered by id."""

    #: The sessions.
    sessions: list[SessionInfo]
    #: Pass this as `after` for the next page.
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
    """A setting in force."""

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
    """Answer of `GET /v1/daemon/settings`."""

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
    """Answer to a sent signal."""

    #: The run.
    run_id: str
    #: The signal.
    signal: str

    @classmethod
    def from_json(cls: type[_SignalSent], data: Mapping[str, Any]) -> _SignalSent:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            run_id=data["run_id"],
            signal=data["signal"],
        )


_SignalSent = TypeVar("_SignalSent", bound=SignalSent)


@dataclass(frozen=True, slots=True)
class Signed:
    """A signature."""

    #: When it was made.
    at: str
    #: The public key, 64 hex digits.
    key: str
    #: Number of the last event that it covers, with all before it.
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
    """Answer of `GET /v1/sessions/{id}/state`."""

    #: Aliases and what they stand for.
    aliases: dict[str, str]
    #: The working directory.
    cwd: str
    #: The directory stack below the working directory.
    directory_stack: list[str | dict[str, Any]]
    #: Builtins that `enable -n` switched off.
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
    """Answer of `POST /v1/daemon/stop`."""

    #: Seconds that they get to finish.
    grace: float
    #: The daemon's process id.
    pid: int
    #: Commands that run now.
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
class TokenInfo:
    """A token, without its secret."""

    #: When it was made.
    created_at: str
    #: Its public name, as in the audit trail and in `by` of a run.
    id: str
    #: Whether it may restart its sessions.
    may_restart: bool
    #: What it may do.
    role: Literal["agent", "auditor", "metrics"]
    #: The agent it is for.
    agent: str | None = None
    #: What the host calls it.
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
            name=data.get("name"),
            revoked_at=data.get("revoked_at"),
        )


_TokenInfo = TypeVar("_TokenInfo", bound=TokenInfo)


@dataclass(frozen=True, slots=True)
class TokenList:
    """Answer of `GET /v1/tokens`."""

    #: The tokens, the oldest first.
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
    """What checking a recording found."""

    #: How many events are there and were checked.
    events: int
    #: Whether nothing was changed, dropped or reordered.
    intact: bool
    #: Fields that were masked since they were recorded.
    masked_fields: int
    bad: Bad | None = None
    #: Files beside the events that are as they were recorded.
    files: int | None = None
    #: Files that were removed to make room.
    files_reclaimed: int | None = None
    head: Head | None = None
    #: Numbers that have no event, because no disk took it at the time.
    holes: list[Hole] = field(default_factory=list)
    #: Whether that signature was made by a key that whoever checked it knew before.
    key_is_known: bool | None = None
    #: What else should be known, in sentences.
    remarks: list[str] = field(default_factory=list)
    signed: Signed | None = None

    @classmethod
    def from_json(cls: type[_Verdict], data: Mapping[str, Any]) -> _Verdict:
        """Reads an answer; fields that a newer daemon added are left out."""
        return cls(
            events=data["events"],
            intact=data["intact"],
            masked_fields=data["masked_fields"],
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
