"""The file tools of deepagents, over a session's files.

Files of the workspace are reached through the daemon: beside a running command, without a trace in the session's shell,
and with each change recorded. What is elsewhere, or too large to be fetched, is left to deepagents' own scripts, which
run in a second session.
"""

from __future__ import annotations

import base64
import mimetypes
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import cast

from deepagents.backends.protocol import (
    DeleteResult,
    EditResult,
    ExecuteResponse,
    FileData,
    FileDownloadResponse,
    FileInfo,
    FileOperationError,
    FileUploadResponse,
    GlobResult,
    GrepMatch,
    GrepResult,
    LsResult,
    ReadResult,
    WriteResult,
)
from deepagents.backends.sandbox import MAX_BINARY_BYTES, MAX_OUTPUT_BYTES, BaseSandbox
from deepagents.backends.utils import (
    EMPTY_CONTENT_WARNING,
    InvalidGlobPatternError,
    compile_grep_include_glob,
    slice_read_response,
)

from ._sync.beside import ELSEWHERE, Beside
from ._sync.session import Session
from .errors import NotFound, ShellkeepError
from .values import FileInfo as Entry

#: The largest file that is fetched to be read in pages.
MAX_PAGED = 4 * 1024 * 1024
#: Seconds that a glob may take, and its most matches: those of deepagents.
GLOB_SECONDS = 5.0
MAX_MATCHES = 10_000
#: The most files, and bytes of them, that a grep fetches. Above that grep itself is faster.
MAX_SEARCHED_FILES = 1000
MAX_SEARCHED_BYTES = 16 * 1024 * 1024
#: A file with a zero byte in this many bytes is not searched, as grep has it.
BINARY_PREFIX = 32 * 1024


class Files(BaseSandbox):
    """File tools for the session that `session` returns."""

    def __init__(self, session: Callable[[], Session]) -> None:
        self._session = session

    @property
    def id(self) -> str:
        return self._session().id

    @property
    def _beside(self) -> Beside:
        return Beside(self._session())

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Runs a script of deepagents, in the second session."""
        result = self._beside.run(command) if timeout is None else self._beside.run(command, timeout=timeout)
        # Notices of this shell are dropped: no model uses it.
        return ExecuteResponse(output=result.output, exit_code=result.exit_code, truncated=result.truncated)

    def ls(self, path: str) -> LsResult:
        try:
            files = self._session().files
            kind = files.stat(path).kind
            if kind == "file":
                return LsResult(entries=None, error=f"Path '{path}': not_a_directory")
            if kind == "directory":
                listed = [(os.path.join(path, entry.name), entry.kind == "directory") for entry in files.list(path)]
                return LsResult(entries=[file_info(*entry) for entry in listed])
        except ShellkeepError as error:
            if error.code == "file_not_found":
                return LsResult(entries=None, error=f"Path '{path}': path_not_found")
            if error.code not in ELSEWHERE:
                raise
        return super().ls(path)

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        try:
            files = self._session().files
            found = files.stat(file_path)
            if found.kind == "directory":
                return ReadResult(error=f"File '{file_path}': not_a_file")
            if found.kind == "file" and found.size <= MAX_PAGED:
                read = page(file_path, files.read(file_path), offset, limit)
                if read is not None:
                    return read
        except ShellkeepError as error:
            if error.code == "file_not_found":
                return ReadResult(error=f"File '{file_path}': file_not_found")
            if error.code not in ELSEWHERE:
                raise
        return super().read(file_path, offset, limit)

    def write(self, file_path: str, content: str) -> WriteResult:
        error = self._upload(file_path, content.encode())
        if error is not None:
            return WriteResult(error=f"Failed to write file '{file_path}': {error}")
        return WriteResult(path=file_path)

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        """Edits a text through the daemon. What cannot be edited so, and every error, is left to deepagents."""
        edited = self._edited(file_path, old_string, new_string, replace_all)
        if edited is None or self._upload(file_path, edited[0]) is not None:
            return super().edit(file_path, old_string, new_string, replace_all)
        return EditResult(path=file_path, occurrences=edited[1])

    def _edited(self, path: str, old: str, new: str, replace_all: bool) -> tuple[bytes, int] | None:
        """The file with the text replaced, and how often that was done."""
        if not old or not is_absolute(path):
            return None
        try:
            text = self._beside.read(path).decode()
        except (OSError, UnicodeDecodeError):
            return None
        # A model sees line feeds only, whatever the file has.
        plain_old, plain_new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
        dos = plain_old.replace("\n", "\r\n"), plain_new.replace("\n", "\r\n")
        for wanted, other in ((old, new), dos, (plain_old, plain_new)):
            count = text.count(wanted)
            if count == 1 or (count > 1 and replace_all):
                return text.replace(wanted, other).encode(), count
            if count > 1:
                return None
        return None

    def delete(self, file_path: str) -> DeleteResult:
        try:
            self._session().files.remove(file_path, recursive=True)
        except ShellkeepError as error:
            if error.code == "file_not_found":
                return DeleteResult(error=f"Error: '{file_path}' not found")
            if error.code not in ELSEWHERE:
                return DeleteResult(error=f"Error deleting file '{file_path}': {error.detail}")
            return super().delete(file_path)
        return DeleteResult(path=file_path)

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        root = path if path and path.startswith("/") else f"/{path or ''}"
        try:
            fits = compile_grep_include_glob(pattern)
        except InvalidGlobPatternError as error:
            return GlobResult(error=str(error), matches=None)
        try:
            return self._glob(fits, root)
        except ShellkeepError as error:
            if error.code not in ELSEWHERE:
                return GlobResult(error=f"Path '{root}': {error.detail}", matches=None)
        return super().glob(pattern, path)

    def _glob(self, fits: Callable[[str], bool], root: str) -> GlobResult:
        deadline = time.monotonic() + GLOB_SECONDS
        matches: list[FileInfo] = []
        is_cut = False
        for below, entry in walk(self._session(), root):
            is_cut = len(matches) >= MAX_MATCHES or time.monotonic() > deadline
            if is_cut:
                break
            if fits(below) and self._is_file(entry):
                matches.append(file_info(os.path.join(root, below), False))
        matches.sort(key=lambda match: match["path"])
        if is_cut:
            return GlobResult(matches=matches, truncated=True, truncation_reason="budget")
        return GlobResult(matches=matches)

    def _is_file(self, entry: Entry) -> bool:
        """Whether it is a file, or a link to one in the workspace."""
        if entry.kind != "symlink":
            return entry.kind == "file"
        try:
            self._session().files.read(entry.path, limit=1)
        except ShellkeepError:
            return False
        return True

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        try:
            fits = compile_grep_include_glob(glob) if glob else None
            targets = self._targets(path or ".", fits)
        except (ShellkeepError, InvalidGlobPatternError):
            targets = None
        if targets is None:
            return super().grep(pattern, path, glob, max_count=max_count)
        wanted = [part.encode() for part in pattern.split("\n")]
        matches: list[GrepMatch] = []
        for name in targets:
            matches += self._matches(name, wanted)
            if max_count is not None and len(matches) > max_count:
                return GrepResult(matches=matches[:max_count], truncated=True)
        return GrepResult(matches=matches)

    def _targets(self, root: str, fits: Callable[[str], bool] | None) -> list[str] | None:
        """The files to search; `None` if they are too many to be fetched."""
        session = self._session()
        if session.files.stat(root).kind != "directory":
            return None
        skipped = [name for name in self.grep_exclude_dirs if name != os.path.basename(root)]
        targets: list[str] = []
        left = MAX_SEARCHED_BYTES
        for below, entry in walk(session, root, skipped):
            if entry.kind == "file" and (fits is None or fits(below)):
                targets.append(os.path.join(root, below))
                left -= entry.size
            if left < 0 or len(targets) > MAX_SEARCHED_FILES:
                return None
        return targets

    def _matches(self, path: str, wanted: Sequence[bytes]) -> list[GrepMatch]:
        try:
            data = self._session().files.read(path)
        except ShellkeepError:
            # It was removed meanwhile, or may not be read.
            return []
        if b"\0" in data[:BINARY_PREFIX] or not any(part in data for part in wanted):
            return []
        lines = data.removesuffix(b"\n").split(b"\n")
        found = [(number, line) for number, line in enumerate(lines, 1) if any(part in line for part in wanted)]
        return [grep_match(path, number, line.decode(errors="replace")) for number, line in found]

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [FileUploadResponse(path=path, error=self._upload(path, content)) for path, content in files]

    def _upload(self, path: str, content: bytes) -> FileOperationError | None:
        if not is_absolute(path):
            return "invalid_path"
        try:
            self._beside.write(path, content)
        except OSError as error:
            return name_of(error)
        return None

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [self._download(path) for path in paths]

    def _download(self, path: str) -> FileDownloadResponse:
        if not is_absolute(path):
            return FileDownloadResponse(path=path, content=None, error="invalid_path")
        try:
            return FileDownloadResponse(path=path, content=self._beside.read(path), error=None)
        except OSError as error:
            return FileDownloadResponse(path=path, content=None, error=name_of(error))


def walk(session: Session, root: str, skipped: Sequence[str] = ()) -> Iterator[tuple[str, Entry]]:
    """What is below a directory, each with its path below it, but no directories. Links are not followed."""
    left = [""]
    while left:
        at = left.pop()
        try:
            for entry in session.files.list(os.path.join(root, at)):
                below = f"{at}{entry.name}"
                if entry.kind != "directory":
                    yield below, entry
                elif entry.name not in skipped:
                    left.append(f"{below}/")
        except NotFound as error:
            # A directory that was removed meanwhile.
            if not at or error.code != "file_not_found":
                raise


# Casts, because the types are checked for Python 3.10, where deepagents' optional fields are not known as such.


def file_info(path: str, is_dir: bool) -> FileInfo:
    return cast("FileInfo", {"path": path, "is_dir": is_dir})


def file_data(content: str, encoding: str) -> FileData:
    return cast("FileData", {"content": content, "encoding": encoding})


def grep_match(path: str, line: int, text: str) -> GrepMatch:
    return cast("GrepMatch", {"path": path, "line": line, "text": text})


def page(path: str, data: bytes, offset: int, limit: int) -> ReadResult | None:
    """Lines of a text, or a binary file as a whole; `None` for a page that deepagents must cut."""
    if not data:
        return ReadResult(file_data=file_data(EMPTY_CONTENT_WARNING, "utf-8"))
    try:
        text = None if is_media(path) else data.decode()
    except UnicodeDecodeError:
        text = None
    if text is None:
        if is_media(path) and len(data) > MAX_BINARY_BYTES:
            problem = f"Binary file exceeds maximum preview size of {MAX_BINARY_BYTES} bytes"
            return ReadResult(error=f"File '{path}': {problem}")
        return ReadResult(file_data=file_data(base64.b64encode(data).decode(), "base64"))
    read = slice_read_response(file_data(text, "utf-8"), offset, limit)
    if read.file_data is None:
        return read
    content = read.file_data["content"]
    if len(content.encode()) > MAX_OUTPUT_BYTES:
        return None
    # A page of a sandbox ends without the end of its last line.
    read.file_data["content"] = content.removesuffix("\n")
    return read


def is_media(path: str) -> bool:
    """Whether the name is that of a file that a model gets as bytes."""
    kind = mimetypes.guess_type(path)[0] or ""
    return kind == "application/pdf" or (kind.startswith(("image/", "audio/", "video/")) and not kind.endswith("+xml"))


def is_absolute(path: str) -> bool:
    return path.startswith("/") and "\0" not in path


def name_of(error: OSError) -> FileOperationError:
    """What went wrong, in deepagents' words."""
    if isinstance(error, IsADirectoryError):
        return "is_directory"
    if isinstance(error, PermissionError):
        return "permission_denied"
    return "file_not_found" if isinstance(error, FileNotFoundError) else "invalid_path"
