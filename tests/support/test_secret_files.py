"""Files that hold secrets: what is read, and what is refused because others may have read or written it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.support.secret_files import read_secret

SECRET = "0123456789abcdef"


def secret(path: Path, text: str) -> Path:
    path.write_text(f"{text}\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return secret(tmp_path / "key", SECRET)


def test_a_group_may_read_as_a_secret_in_kubernetes_does(path: Path) -> None:
    path.chmod(0o440)
    link = path.with_name("link")
    link.symlink_to(path)
    assert read_secret(link, "key") == f"{SECRET}\n"


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o602, 0o604])
def test_a_file_that_others_can_read_or_write_is_refused(path: Path, mode: int) -> None:
    path.chmod(mode)
    with pytest.raises(ConfigError, match=f"mode 0{mode:o}"):
        read_secret(path, "key")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_is_refused(path: Path) -> None:
    os.chown(path, 4242, 4242)
    with pytest.raises(ConfigError, match="owned by user 4242"):
        read_secret(path, "key")


def test_what_is_no_small_file_of_text_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    large = secret(tmp_path / "large", "x" * (65 << 10))
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff" * 32)
    binary.chmod(0o600)
    for path, said in (
        (tmp_path / "nowhere", "No such file"),
        (tmp_path, "is not a file"),
        (pipe, "is not a file"),
        (large, "larger than 64 KiB"),
        (binary, "is not UTF-8"),
    ):
        with pytest.raises(ConfigError, match=said) as refused:
            read_secret(path, "key")
        assert f"key {path}" in str(refused.value)
