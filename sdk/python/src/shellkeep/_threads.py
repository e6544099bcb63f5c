"""Names: which session belongs to a framework's thread, and which key to a tool call of it."""

from __future__ import annotations

import hashlib
import re

_NAME = re.compile(r"[A-Za-z0-9_:-][A-Za-z0-9._:-]{0,127}")
#: The form of a name for an id that is not a valid name. A thread with such an id is hashed too, so that no two share one.
_HASHED = re.compile(r"lg-[0-9a-f]{40}")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def session_id_for(thread_id: object) -> str:
    """The session of a thread: its id as it is where it can be a session's name, else `lg-` and a hash of it."""
    text = str(thread_id)
    if _NAME.fullmatch(text) and not _HASHED.fullmatch(text):
        return text
    return f"lg-{_hash(text)}"


def fork_id_for(session_id: str, step: str) -> str:
    """The name of the fork of a session that a step of a graph makes: the same whenever that step is run again."""
    name = f"{session_id}.{_hash(step)[:12]}"
    return name if len(name) <= 128 else f"lg-{_hash(name)}"


def request_id_for(*parts: object) -> str:
    """The key of a call, of the ids that identify it; the same parts give the same key."""
    key = ":".join(str(part) for part in parts)
    return key if _NAME.fullmatch(key) else f"lg-{_hash(key)}"
