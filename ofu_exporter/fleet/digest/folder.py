"""Writes digests into a folder: a text and a page for each. A file that cannot be written does not stop the others."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.digest.result import Digest
from ofu_exporter.fleet.digest.text import page, text
from ofu_exporter.support.whole_file import whole_file

_PLAIN = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_OTHERS = re.compile(r"[^a-z0-9_-]+")
_LONGEST = 40


def file_name(name: str) -> str:
    """The name itself if all of its characters are safe; otherwise the safe ones, a tilde and a hash of the whole name.

    No safe name has a tilde, so nobody can choose a name that overwrites another's file.
    """
    if _PLAIN.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:32]
    safe = _OTHERS.sub("_", name.lower())[:_LONGEST].strip("_-") or "name"
    return f"{safe}~{digest}"


class WrittenFile(NamedTuple):
    path: Path
    fault: str | None


def write(digests: Iterable[Digest], folder: Path, most_jobs: int) -> Iterator[WrittenFile]:
    """Write all digests. Raises ConfigError if the folder cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--output: {folder}: {error.strerror or error}") from error
    for digest in digests:
        name = file_name(digest.name)
        yield _written(folder / f"{name}.txt", text(digest, most_jobs) + "\n")
        yield _written(folder / f"{name}.html", page(digest, most_jobs))


def _written(path: Path, content: str) -> WrittenFile:
    try:
        with whole_file(path) as file:
            file.write(content)
    except OSError as error:
        return WrittenFile(path, error.strerror or str(error))
    return WrittenFile(path, None)
