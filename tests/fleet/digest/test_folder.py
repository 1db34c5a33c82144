"""Whatever a user is called, the files of a digest stay in their folder and are nobody else's."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.digest.folder import file_name, write
from tests.helpers.digests import many
from tests.helpers.every import every

HOSTILE = (
    "../x",
    "..",
    ".",
    "",
    "/etc/passwd",
    "a\x00b",
    "a\nb",
    "x" * 300,
    "\ud800",
    "~root",
    "-rf",
    "a b",
)


@every(["ada", "ada.lovelace", "svc_7", "x-1"])
def test_a_plain_name_is_the_name_of_its_file(name: str) -> None:
    assert file_name(name) == name


@every(HOSTILE, repr)
def test_a_hostile_name_is_one_short_plain_part_of_a_path(name: str) -> None:
    made = file_name(name)
    assert PurePosixPath(made).name == made
    assert made.isascii()
    assert made.isprintable()
    assert len(made) < 120
    assert made[0].isalnum()


def test_names_that_look_alike_have_files_of_their_own() -> None:
    names = ["../x", "..x", "x", "X", "x/", "x ", "x" * 300, "x" * 301, "Ada", "ada", *HOSTILE]
    made = {file_name(name) for name in names}
    assert len(made) == len(set(names))


def test_nobody_takes_the_file_of_another_by_being_called_so() -> None:
    wanted = file_name("../x")
    assert file_name(wanted) != wanted


@given(st.text(), st.text())
def test_no_two_names_share_a_file(one: str, other: str) -> None:
    assert (file_name(one) == file_name(other)) == (one == other)


def test_everybody_has_a_text_and_a_page(tmp_path: Path) -> None:
    files = list(write(many("ada", "../eve"), tmp_path / "new" / "out", 20))
    assert [each.fault for each in files] == [None] * 4
    found = sorted(path.name for path in (tmp_path / "new" / "out").iterdir())
    assert [name for name in found if name.startswith("ada")] == ["ada.html", "ada.txt"]
    assert len(found) == 4
    assert not (tmp_path / "new" / "eve.txt").exists()
    assert (tmp_path / "new" / "out" / "ada.txt").read_text().startswith("GPU use of ada, ")


def test_a_link_that_somebody_left_is_replaced_and_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / "out").mkdir()
    for name in ("ada.txt", "ada.txt.part"):
        (tmp_path / "out" / name).symlink_to(precious)
    assert [each.fault for each in write(many("ada"), tmp_path / "out", 20)] == [None, None]
    assert precious.read_text() == "mine"
    assert not (tmp_path / "out" / "ada.txt").is_symlink()


def test_a_file_that_cannot_be_written_costs_no_other(tmp_path: Path) -> None:
    (tmp_path / "ada.txt").mkdir()
    files = {each.path.name: each.fault for each in write(many("ada", "bob"), tmp_path, 20)}
    assert files.pop("ada.txt")
    assert files == {"ada.html": None, "bob.txt": None, "bob.html": None}
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["ada.txt", *files])


def test_a_folder_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"--output: .*file"):
        list(write(many("ada"), tmp_path / "file" / "out", 20))
