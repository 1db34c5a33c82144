"""Reads small text files from a directory that only root or this process's user can have written.

Their content is believed. So neither the directory nor a file may belong to another user, be writable by
others, or be a link to somewhere else.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from ofu_exporter.errors import OfuError, SchedulerError
from ofu_exporter.values.reasons import ClaimRejection, SchedulerReason

MAX_FILES = 4096
MAX_BYTES = 64 << 10

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Without O_NONBLOCK a named pipe would block the reader until somebody writes to it."""

ValueT = TypeVar("ValueT")


class UntrustedFileError(OfuError):
    """One file that is rejected."""

    def __init__(self, reason: ClaimRejection, detail: str = "") -> None:
        super().__init__(detail or reason.value)
        self.reason = reason
        self.detail = detail


class Refusal(NamedTuple):
    """A file that was rejected, with its time of change."""

    name: str
    mtime_ns: int
    reason: ClaimRejection
    detail: str


@dataclass(slots=True)
class Contents(Generic[ValueT]):
    values: dict[str, ValueT] = field(default_factory=dict)
    """Values by the file's name."""
    refused: list[Refusal] = field(default_factory=list)


def look(directory: Path) -> os.stat_result | None:
    """The directory's status; None when it is not there. Raises SchedulerError when it is not trusted."""
    try:
        status = os.lstat(directory)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unreadable(directory, error) from error
    _check(directory, status)
    return status


@contextmanager
def opened_folder(directory: Path) -> Iterator[int]:
    """A handle of a trusted directory. It keeps pointing to this directory even if the path is replaced.

    Raises SchedulerError, and FileNotFoundError when the directory is not there.
    """
    try:
        handle = os.open(directory, _READ | os.O_DIRECTORY)
    except FileNotFoundError:
        raise
    except OSError as error:
        if look(directory) is None:  # it may be a link or a file, which `_check` reports
            raise FileNotFoundError(error.errno, error.strerror, str(directory)) from error
        raise _unreadable(directory, error) from error
    try:
        _check(directory, os.fstat(handle))
        yield handle
    finally:
        os.close(handle)


def _check(directory: Path, status: os.stat_result) -> None:
    if not stat.S_ISDIR(status.st_mode):
        what = "a link" if stat.S_ISLNK(status.st_mode) else "no directory"
    elif not _is_ours(status):
        what = f"owned by user {status.st_uid}"
    elif status.st_mode & _WRITABLE_BY_OTHERS:
        what = f"mode {stat.S_IMODE(status.st_mode):o}"
    else:
        return
    raise SchedulerError(SchedulerReason.UNTRUSTED, f"{directory} is {what}")


def _is_ours(status: os.stat_result) -> bool:
    return status.st_uid in (0, os.geteuid())


def _unreadable(directory: Path, error: OSError) -> SchedulerError:
    detail = f"{directory}: {error.strerror or error}"
    if isinstance(error, PermissionError):
        return SchedulerError(SchedulerReason.NO_PERMISSION, detail)
    return SchedulerError(SchedulerReason.FAILED, detail)


def read_all(
    directory: Path, parse: Callable[[str, str], ValueT], order: Callable[[str], int | None]
) -> Contents[ValueT]:
    """Read every file of a directory; empty when there is no directory.

    `parse(name, text)` makes a value from a file, or raises UntrustedFileError. Names that begin with a dot are
    ignored, and those for which `order` is None. Of more files than MAX_FILES the last are read. A rejected file does
    not affect the others. Raises SchedulerError.
    """
    contents: Contents[ValueT] = Contents()
    try:
        with opened_folder(directory) as folder:
            ranked = [(order(name), name) for name in _names(folder, directory)]
            names = [name for rank, name in sorted(ranked) if rank is not None]
            if len(names) > MAX_FILES:
                detail = f"{len(names)} files, {MAX_FILES} of them are read"
                contents.refused.append(Refusal(".", 0, ClaimRejection.TOO_MANY, detail))
            for name in names[-MAX_FILES:]:
                _add(contents, folder, name, parse)
    except FileNotFoundError:
        return Contents()
    return contents


def _names(folder: int, directory: Path) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if not name.startswith(".")]
    except FileNotFoundError:
        raise  # removed since it was opened
    except OSError as error:
        raise _unreadable(directory, error) from error


def _add(
    contents: Contents[ValueT], folder: int, name: str, parse: Callable[[str, str], ValueT]
) -> None:
    mtime_ns = 0
    try:
        mtime_ns = os.lstat(name, dir_fd=folder).st_mtime_ns
        contents.values[name] = parse(name, read_trusted(folder, name))
    except FileNotFoundError:
        return  # removed since the directory was listed
    except UntrustedFileError as refused:
        contents.refused.append(Refusal(name, mtime_ns, refused.reason, refused.detail))


def read_trusted(folder: int, name: str) -> str:
    """The text of one file. Raises UntrustedFileError, and FileNotFoundError when it is gone."""
    try:
        handle = os.open(name, _READ, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        special = error.errno in (errno.ELOOP, errno.ENXIO, errno.ENODEV)  # a link, a socket
        reason = ClaimRejection.NOT_A_FILE if special else ClaimRejection.UNREADABLE
        raise UntrustedFileError(reason, error.strerror or str(error)) from error
    try:
        _check_file(os.fstat(handle))
        return _read_text(handle)
    except OSError as error:
        raise UntrustedFileError(ClaimRejection.UNREADABLE, error.strerror or str(error)) from error
    finally:
        os.close(handle)


def _check_file(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UntrustedFileError(ClaimRejection.NOT_A_FILE)
    if not _is_ours(status):
        raise UntrustedFileError(ClaimRejection.FOREIGN_OWNER, f"owned by user {status.st_uid}")
    if status.st_mode & _WRITABLE_BY_OTHERS:
        mode = f"mode {stat.S_IMODE(status.st_mode):o}"
        raise UntrustedFileError(ClaimRejection.WRITABLE_BY_OTHERS, mode)
    if status.st_size > MAX_BYTES:
        raise UntrustedFileError(ClaimRejection.TOO_LARGE, f"{status.st_size} bytes")


def _read_text(handle: int) -> str:
    content = b""
    while piece := os.read(handle, MAX_BYTES + 1 - len(content)):
        content += piece
        if len(content) > MAX_BYTES:  # it has grown since it was checked
            raise UntrustedFileError(ClaimRejection.TOO_LARGE)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise UntrustedFileError(ClaimRejection.NOT_TEXT, error.reason) from error
