"""Whatever a user is called, the files of a digest stay in their folder and are nobody else's."""

from __future__ import annotations

from pathlib import PurePosixPath

from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.fleet.digest.file_names import file_name
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
