"""Small files that an operator named: what is read, and what is refused, before it costs time or memory or because
others may have read or written a secret."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.support.small_files import MOST_BYTES, read_secret, read_small, stamp

SECRET = "0123456789abcdef"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "file"
    made.write_text("text\n")
    return made


def refusal(path: Path) -> str:
    with pytest.raises(ConfigError) as refused:
        read_small(path, "file of a test")
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_links_are_followed_as_kubernetes_puts_files_in_place_by_them(path: Path) -> None:
    link, further = path.with_name("link"), path.with_name("further")
    link.symlink_to(path.name)
    further.symlink_to(link.name)
    assert read_small(further, "file") == "text\n"


def test_a_file_of_the_largest_size_is_read_and_one_byte_more_is_not(path: Path) -> None:
    path.write_bytes(b"x" * MOST_BYTES)
    assert len(read_small(path, "file")) == MOST_BYTES
    path.write_bytes(b"x" * (MOST_BYTES + 1))
    assert "is larger than 1024 KiB" in refusal(path)


def test_a_file_of_terabytes_costs_no_memory(path: Path) -> None:
    os.truncate(path, 1 << 40)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "is larger than" in refusal(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 << 10  # KiB


def test_what_is_no_file_is_refused_at_once_and_by_name(path: Path) -> None:
    pipe, loop, zeros = (path.with_name(name) for name in ("pipe", "loop", "zeros"))
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    zeros.symlink_to("/dev/zero")
    for each in (pipe, zeros, Path("/dev/zero"), path.parent):
        assert refusal(each) == f"file of a test {each}: it is not a file"
    assert "Too many levels of symbolic links" in refusal(loop)
    assert "No such file" in refusal(path.with_name("nowhere"))
    assert "embedded null" in refusal(path.with_name("a\0b"))


def test_what_is_no_text_is_refused(path: Path) -> None:
    path.write_bytes(b"\xed\xa0\x80")
    assert "is not UTF-8" in refusal(path)


def test_a_stamp_changes_when_the_file_is_written_replaced_or_given_another_mode(
    path: Path,
) -> None:
    stamps = [stamp(path)]
    path.write_text("another text")
    stamps.append(stamp(path))
    path.with_name("new").write_text("text\n")
    path.with_name("new").rename(path)
    stamps.append(stamp(path))
    path.chmod(0o640)
    stamps.append(stamp(path))
    path.unlink()
    stamps.append(stamp(path))
    assert stamps[-1] is None
    assert len(set(stamps)) == len(stamps)


def secret(path: Path, text: str) -> Path:
    path.write_text(f"{text}\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return secret(tmp_path / "key", SECRET)


def test_a_group_may_read_as_a_secret_in_kubernetes_does(key: Path) -> None:
    key.chmod(0o440)
    link = key.with_name("link")
    link.symlink_to(key)
    assert read_secret(link, "key") == f"{SECRET}\n"


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o602, 0o604])
def test_a_file_that_others_can_read_or_write_is_refused(key: Path, mode: int) -> None:
    key.chmod(mode)
    with pytest.raises(ConfigError, match=f"mode 0{mode:o}"):
        read_secret(key, "key")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_is_refused(key: Path) -> None:
    os.chown(key, 4242, 4242)
    with pytest.raises(ConfigError, match="owned by user 4242"):
        read_secret(key, "key")


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
