"""A folder of pages is whole at any time, leads to all of them, and is spoilt by nothing that lies in it."""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.history.fleet_history import JobSums
from ofu_exporter.fleet.pages import folder
from ofu_exporter.fleet.pages.folder import INDEX, keep_page
from ofu_exporter.fleet.reports.result import ActionRow, FleetReport
from tests.fleet.reports.test_fleet_report import history, job, report

HOSTILE = "<script>alert(1)</script>\u202e"
ACTION = ActionRow(
    kind="held_idle",
    who=HOSTILE,
    what="ran nothing",
    gpu_hours=10.0,
    cost=None,
    why="No kernel ran.",
    next="End it.",
    link="docs/runbooks.md",
)


def week(number: int, used: float = 30.0) -> FleetReport:
    made = report(history(job("1", "ada", JobSums(100, 100, used))))
    day = f"2026-{1 + number // 28:02}-{1 + number % 28:02}"
    time = made.time.model_copy(update={"start": f"{day}T00:00:00Z", "end": f"{day}T06:30:00Z"})
    steps = [
        step.model_copy(update={"share": used / 100}) if step.name == "effective" else step
        for step in made.funnel
    ]
    return made.model_copy(update={"time": time, "funnel": steps, "actions": [ACTION]})


def rows(folder: Path) -> list[str]:
    return re.findall(r'<a href="([^"]*)"', (folder / INDEX).read_text())


def test_the_index_leads_to_every_page_the_newest_first(tmp_path: Path) -> None:
    for number in (3, 1, 2):
        path = keep_page(week(number), b"page %d" % number, tmp_path / "made" / "here")
        assert path.read_bytes() == b"page %d" % number
    here = tmp_path / "made" / "here"
    assert rows(here) == [f"2026-01-0{day}T0000Z_2026-01-0{day}T0630Z.html" for day in (4, 3, 2)]
    assert all((here / name).is_file() for name in rows(here))
    assert not list(here.glob("*.part"))


def test_the_same_time_is_replaced(tmp_path: Path) -> None:
    keep_page(week(1), b"old", tmp_path)
    path = keep_page(week(1, 45.0), b"new", tmp_path)
    assert path.read_bytes() == b"new"
    assert len(rows(tmp_path)) == 1
    assert "45.0%" in (tmp_path / INDEX).read_text()


def test_the_trend_has_a_bar_for_every_page_in_the_order_of_time(tmp_path: Path) -> None:
    for number, used in enumerate((20.0, 40.0, 30.0)):
        keep_page(week(number, used), b"", tmp_path)
    text = (tmp_path / INDEX).read_text()
    assert "<h2>Share of the peak that became work</h2>" in text
    heights = [float(each) for each in re.findall(r'<rect [^>]*height="([\d.]+)"', text)]
    assert [round(height / heights[1], 2) for height in heights] == [0.5, 1.0, 0.75]


def test_the_oldest_is_deleted_where_there_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "MOST_PAGES", 2)
    for number in range(4):
        keep_page(week(number), b"", tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    stems = {"2026-01-04T0000Z_2026-01-04T0630Z", "2026-01-03T0000Z_2026-01-03T0630Z"}
    assert names == {INDEX, *(f"{stem}{end}" for stem in stems for end in (".html", ".json"))}


def test_names_and_files_of_others_do_no_harm(tmp_path: Path) -> None:
    """A page that somebody named, numbers that are none, a pipe, a link, and a name of a job that is markup."""
    (tmp_path / 'a"><script>.html').write_text("x")
    (tmp_path / "notes.txt").write_text("mine")
    other = "2025-01-01T0000Z_2025-01-08T0000Z"
    (tmp_path / f"{other}.html").write_text("old")
    os.mkfifo(tmp_path / f"{other}.json")
    target = tmp_path / "target"
    target.write_text("mine")
    (tmp_path / INDEX).symlink_to(target)
    keep_page(week(1), b"", tmp_path)
    text = (tmp_path / INDEX).read_text()
    assert rows(tmp_path) == ["2026-01-02T0000Z_2026-01-02T0630Z.html", f"{other}.html"]
    assert "Its numbers cannot be read" in text
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert (target.read_text(), (tmp_path / "notes.txt").read_text()) == ("mine", "mine")


@pytest.mark.parametrize("numbers", ["", "{", "[]", '{"start": 1}', "x" * 100_000, "\udcff"])
def test_numbers_that_are_none_cost_their_own_line_alone(tmp_path: Path, numbers: str) -> None:
    keep_page(week(1), b"", tmp_path)
    file = tmp_path / "2026-01-02T0000Z_2026-01-02T0630Z.json"
    file.write_bytes(numbers.encode(errors="surrogateescape"))
    keep_page(week(2), b"", tmp_path)
    text = (tmp_path / INDEX).read_text()
    assert len(rows(tmp_path)) == 2
    assert text.count("Its numbers cannot be read") == 1


def test_a_folder_that_another_run_writes_is_left_alone(tmp_path: Path) -> None:
    place = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(place, fcntl.LOCK_EX)
    try:
        with pytest.raises(ConfigError, match="another run is writing it"):
            keep_page(week(1), b"", tmp_path)
    finally:
        os.close(place)
    keep_page(week(1), b"", tmp_path)


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=f"--folder: {tmp_path}/file: "):
        keep_page(week(1), b"", tmp_path / "file")


def test_a_stop_before_the_index_leaves_the_old_one_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_page(week(1), b"", tmp_path)
    before = (tmp_path / INDEX).read_text()

    def stop(*_: object) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(folder, "index", stop)
        with pytest.raises(KeyboardInterrupt):
            keep_page(week(2), b"", tmp_path)
    assert (tmp_path / INDEX).read_text() == before
    keep_page(week(3), b"", tmp_path)
    assert len(rows(tmp_path)) == 3


def test_an_index_that_is_of_no_report_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / INDEX).write_text("mine")
    with pytest.raises(ConfigError, match="that is of no report"):
        keep_page(week(1), b"", tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {INDEX: "mine"}
