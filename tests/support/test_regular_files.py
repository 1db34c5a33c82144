"""Files that a user names: a pipe is refused at once, whatever somebody writes into it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ofu_exporter.support.regular_files import opened


def test_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    (tmp_path / "link").symlink_to("file")
    with opened(tmp_path / "link") as file:
        assert file.read() == b"text"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_anything_else_is_refused(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    make(tmp_path / "it")
    with pytest.raises(OSError, match=r"is not a file"):
        opened(tmp_path / "it")
