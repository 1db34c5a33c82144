"""The watch of directories: what the kernel tells of, and when it is not relied on."""

from __future__ import annotations

import resource
import select
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ofu_exporter.support.directory_watch import DirectoryWatch


@pytest.fixture
def watch() -> Iterator[DirectoryWatch]:
    watch = DirectoryWatch()
    yield watch
    watch.close()


def is_told(watch: DirectoryWatch) -> bool:
    """Whether something was told; the kernel does that before the call that makes a change returns."""
    assert watch.told is not None
    return bool(select.select([watch.told], [], [], 0)[0])


def settle(watch: DirectoryWatch, folder: Path) -> None:
    """Take in the changes until now, and the end of the watch of a directory that is watched no more."""
    for _ in range(3):
        watch.renew(folder)


def write(folder: Path) -> None:
    (folder / "7.json").write_text("{}")


def append(folder: Path) -> None:
    with (folder / "there").open("a") as file:
        file.write("more")


def rename(folder: Path) -> None:
    (folder / "there").rename(folder / "elsewhere")


def remove(folder: Path) -> None:
    (folder / "there").unlink()


def give_to_all(folder: Path) -> None:
    (folder / "there").chmod(0o666)


def open_to_all(folder: Path) -> None:
    folder.chmod(0o777)


def replace(folder: Path) -> None:
    folder.rename(folder.with_name("old"))


@pytest.mark.parametrize(
    "change", [write, append, rename, remove, give_to_all, open_to_all, replace]
)
def test_every_change_of_a_directory_is_told(
    watch: DirectoryWatch, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "there").write_text("")
    watch.renew(folder)
    (folder / "there").read_text()
    assert not is_told(watch), "to read is no change"
    change(folder)
    assert is_told(watch)


def test_a_directory_that_is_not_there_yet_is_told_of_when_it_comes(
    watch: DirectoryWatch, tmp_path: Path
) -> None:
    folder = tmp_path / "run" / "jobs"
    watch.renew(folder)
    for made in (folder.parent, folder, folder / "7.json"):
        made.mkdir()
        assert is_told(watch)
        watch.renew(folder)
        assert watch.told is None, "another change may have come with this one: look again"
        settle(watch, folder)


def test_a_directory_in_the_place_of_another_is_watched_and_the_other_one_is_not(
    watch: DirectoryWatch, tmp_path: Path
) -> None:
    folder, old = tmp_path / "jobs", tmp_path / "old"
    folder.mkdir()
    watch.renew(folder)
    folder.rename(old)
    folder.mkdir()
    settle(watch, folder)
    write(old)
    assert not is_told(watch)
    write(folder)
    assert is_told(watch)


def test_one_of_several_directories_that_may_change_unseen_costs_the_trust(
    watch: DirectoryWatch, tmp_path: Path
) -> None:
    """A file system of another type stands for one of a network: /proc takes a watch, and tells nothing."""
    watch.renew(tmp_path)
    assert watch.told is not None
    watch.renew(tmp_path, Path("/proc/self"))
    assert watch.told is None
    watch.renew(tmp_path)
    assert watch.told is not None


def test_without_a_descriptor_to_be_had_nothing_is_told_and_nothing_fails(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        watch = DirectoryWatch()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    watch.renew(tmp_path)
    assert watch.told is None
    watch.rest(0.0)
    watch.close()


def test_a_rest_ends_with_a_change(watch: DirectoryWatch, tmp_path: Path) -> None:
    watch.renew(tmp_path)
    write(tmp_path)
    watch.rest(1e6)


def test_nothing_is_told_after_the_end(watch: DirectoryWatch, tmp_path: Path) -> None:
    watch.renew(tmp_path)
    watch.close()
    assert watch.told is None
    watch.renew(tmp_path)
    assert watch.told is None
