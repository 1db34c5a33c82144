"""Files that are believed: whose they must be, what they must be, and that one bad file costs itself."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ofu_exporter.errors import SchedulerError
from ofu_exporter.schedulers.slurm import trusted_files
from ofu_exporter.schedulers.slurm.trusted_files import (
    MAX_BYTES,
    MAX_FILES,
    Contents,
    UntrustedFileError,
)
from ofu_exporter.values.reasons import ClaimRejection, SchedulerReason

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory that another user can reach, unlike pytest's own."""
    made = Path(tempfile.mkdtemp(prefix="ofu-trust-"))
    made.chmod(0o755)
    yield made
    made.chmod(0o755)
    shutil.rmtree(made)


@contextmanager
def another_user() -> Iterator[None]:
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def read(folder: Path) -> Contents[str]:
    return trusted_files.read_all(folder, lambda _name, text: text, lambda _name: 0)


def only_refusal(folder: Path) -> ClaimRejection:
    contents = read(folder)
    assert contents.values == {"good": "text"}, "one bad file costs itself"
    (refusal,) = contents.refused
    assert refusal.name == "bad"
    return refusal.reason


def test_files_are_read_by_name_and_hidden_ones_left_alone(folder: Path) -> None:
    (folder / "a").write_text("one")
    (folder / "b").write_text("")
    (folder / ".c").write_text("hidden")
    assert read(folder) == Contents({"a": "one", "b": ""}, [])


def test_no_directory_is_nothing(folder: Path) -> None:
    assert read(folder / "nowhere") == Contents()
    assert trusted_files.look(folder / "nowhere") is None


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
def test_a_directory_that_others_can_write_to_is_not_trusted(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    for use in (read, trusted_files.look):
        with pytest.raises(SchedulerError) as caught:
            use(folder)
        assert caught.value.reason is SchedulerReason.UNTRUSTED
        assert f"{folder} is mode {mode:o}" in str(caught.value)


@as_root
def test_a_directory_of_another_user_is_not_trusted(folder: Path) -> None:
    os.chown(folder, 4242, 4242)
    for use in (read, trusted_files.look):
        with pytest.raises(SchedulerError, match="owned by user 4242") as caught:
            use(folder)
        assert caught.value.reason is SchedulerReason.UNTRUSTED


@pytest.mark.parametrize("what", ["link", "file"])
def test_what_is_not_a_directory_is_not_trusted(folder: Path, what: str) -> None:
    (folder / "real").mkdir()
    path = folder / "path"
    if what == "link":
        path.symlink_to(folder / "real")
    else:
        path.write_text("")
    for use in (read, trusted_files.look):
        with pytest.raises(SchedulerError, match=r"is a link|is no directory") as caught:
            use(path)
        assert caught.value.reason is SchedulerReason.UNTRUSTED


@as_root
def test_a_directory_that_cannot_be_read_is_named(folder: Path) -> None:
    folder.chmod(0o700)
    with another_user(), pytest.raises(SchedulerError) as caught:
        read(folder)
    assert caught.value.reason is SchedulerReason.NO_PERMISSION
    assert str(folder) in caught.value.detail


@as_root
def test_roots_files_and_ones_own_are_believed(folder: Path) -> None:
    for name, owner in (("root", 0), ("own", NOBODY)):
        (folder / name).write_text(name)
        os.chown(folder / name, owner, owner)
    with another_user():
        assert read(folder).values == {"root": "root", "own": "own"}


@as_root
@pytest.mark.parametrize(
    ("owner", "mode", "reason"),
    [
        (4242, 0o644, ClaimRejection.FOREIGN_OWNER),
        (0, 0o664, ClaimRejection.WRITABLE_BY_OTHERS),
        (0, 0o646, ClaimRejection.WRITABLE_BY_OTHERS),
        (0, 0o600, ClaimRejection.UNREADABLE),
    ],
)
def test_whose_a_file_must_be(folder: Path, owner: int, mode: int, reason: ClaimRejection) -> None:
    for name in ("good", "bad"):
        (folder / name).write_text("text")
    os.chown(folder / "bad", owner, owner)
    (folder / "bad").chmod(mode)
    with another_user():
        assert only_refusal(folder) is reason


@pytest.mark.parametrize("what", ["link", "dangling", "pipe", "socket", "directory"])
def test_what_is_not_a_file_is_refused_at_once(folder: Path, what: str) -> None:
    (folder / "good").write_text("text")
    bad = folder / "bad"
    with socket.socket(socket.AF_UNIX) as listener:
        if what == "link":
            bad.symlink_to(folder / "good")
        elif what == "dangling":
            bad.symlink_to(folder / "nothing")
        elif what == "pipe":
            os.mkfifo(bad)
        elif what == "socket":
            listener.bind(str(bad))
        else:
            bad.mkdir()
        assert only_refusal(folder) is ClaimRejection.NOT_A_FILE


def test_what_a_file_must_hold(folder: Path) -> None:
    (folder / "good").write_text("text")
    (folder / "bad").write_bytes(b"x" * (MAX_BYTES + 1))
    assert only_refusal(folder) is ClaimRejection.TOO_LARGE
    (folder / "bad").write_bytes(b"\xff")
    assert only_refusal(folder) is ClaimRejection.NOT_TEXT
    (folder / "bad").write_bytes(b"x" * MAX_BYTES)
    assert len(read(folder).values["bad"]) == MAX_BYTES


def test_what_a_file_says_of_its_size_is_not_believed() -> None:
    """Those of /proc say 0; one that grows between the look and the read is alike."""
    assert Path("/proc/kallsyms").stat().st_size == 0
    with trusted_files.opened_folder(Path("/proc")) as handle:
        assert trusted_files.read_trusted(handle, "version").startswith("Linux")
        with pytest.raises(UntrustedFileError) as caught:
            trusted_files.read_trusted(handle, "kallsyms")
    assert caught.value.reason is ClaimRejection.TOO_LARGE


def test_a_file_that_vanishes_meanwhile_is_nothing(folder: Path) -> None:
    for name in ("a", "b"):
        (folder / name).write_text(name)

    def parse(name: str, text: str) -> str:
        for other in folder.iterdir():
            if other.name != name:
                other.unlink()
        return text

    contents = trusted_files.read_all(folder, parse, ord)
    assert contents == Contents({"a": "a"}, [])


@pytest.mark.slow
def test_of_too_many_files_the_last_in_order_are_read(folder: Path) -> None:
    for number in range(MAX_FILES + 3):
        (folder / str(number)).touch()
    contents = trusted_files.read_all(folder, lambda _name, text: text, int)
    assert set(contents.values) == {str(number) for number in range(3, MAX_FILES + 3)}
    (refusal,) = contents.refused
    assert refusal.reason is ClaimRejection.TOO_MANY


def test_an_open_directory_stays_the_same_whatever_its_path_means(folder: Path) -> None:
    first = folder / "first"
    first.mkdir()
    (first / "a").write_text("right")
    with trusted_files.opened_folder(first) as handle:
        first.rename(folder / "second")
        first.mkdir()
        (first / "a").write_text("wrong")
        assert trusted_files.read_trusted(handle, "a") == "right"
