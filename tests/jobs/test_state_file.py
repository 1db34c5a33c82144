"""The state file: totals that survive, and a file that is damaged, foreign or in part unreadable."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from ofu_exporter.jobs.clock_mark import ClockMark
from ofu_exporter.jobs.state_file import (
    KEEP_SECONDS,
    MOST_ROWS,
    PRUNE_SECONDS,
    StateFile,
    open_store,
)
from ofu_exporter.jobs.state_rows import find_in_file
from ofu_exporter.jobs.totals import resumed_job, totals_of
from ofu_exporter.ofu.ownership.job_state import GRACE_SECONDS
from ofu_exporter.support import boot
from ofu_exporter.values.gpu import GpuKey
from ofu_exporter.values.instant import Instant
from ofu_exporter.values.reported import Adjusted, Compared, ReportsView
from ofu_exporter.values.trace import Finding, TraceSummary
from tests.helpers.stored_job import NOW, TOTALS, VIEW, change


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "deeper" / "state.sqlite"


_OPENED: list[StateFile] = []


def opened(path: Path) -> tuple[StateFile, Path | None]:
    aside: list[Path] = []
    store = open_store(path, aside.append)
    _OPENED.append(store)
    return store, next(iter(aside), None)


def stored(path: Path) -> StateFile:
    return opened(path)[0]


@pytest.fixture(autouse=True)
def _closed_at_the_end() -> Iterator[None]:
    yield
    while _OPENED:
        _OPENED.pop().close()


def test_a_running_job_is_what_the_next_agent_goes_on_with(path: Path) -> None:
    first = stored(path)
    first.save([TOTALS], {GpuKey("GPU-0", ""): 77.0}, NOW)
    first.close()
    saved = stored(path).load(NOW)
    assert saved.jobs == (TOTALS,)
    assert saved.counted_until == {GpuKey("GPU-0", ""): 77.0}


def test_a_job_that_ended_is_gone_on_with_while_it_is_shown_and_is_found_later(path: Path) -> None:
    store = stored(path)
    ended = TOTALS.model_copy(update={"ended": NOW})
    store.save([ended], {}, NOW)
    assert store.load(NOW + GRACE_SECONDS - 1).jobs == (ended,)
    assert store.load(NOW + GRACE_SECONDS).jobs == ()
    assert [run.ended for run in store.find("12")] == [NOW]
    assert store.find("13") == ()


def test_an_agent_that_dies_at_its_start_costs_the_next_one_nothing(path: Path) -> None:
    first = stored(path)
    first.save([TOTALS], {}, NOW)
    first.close()
    for _ in range(3):
        again = stored(path)
        assert again.load(NOW).jobs == (TOTALS,)
        again.close()


def test_a_job_that_does_not_come_back_has_ended(path: Path) -> None:
    store = stored(path)
    store.save([TOTALS], {}, NOW)
    store.prune(TOTALS.updated + PRUNE_SECONDS - 1)
    assert store.load(NOW).jobs == (TOTALS,)
    store.prune(TOTALS.updated + PRUNE_SECONDS + 1)
    assert store.load(TOTALS.updated + PRUNE_SECONDS + 1).jobs == ()
    assert [run.ended for run in store.find("12")] == [TOTALS.updated]


def test_the_file_says_up_to_when_somebody_watched(path: Path) -> None:
    store = stored(path)
    assert store.load(NOW).watched_until is None
    store.save([], {}, NOW - 30)
    store.save([], {}, NOW - 15)
    assert store.load(NOW).watched_until == NOW - 15


def test_a_file_of_an_agent_that_did_not_say_so_is_read_all_the_same(path: Path) -> None:
    first = stored(path)
    first.save([TOTALS], {}, NOW)
    first.close()
    change(path, "DROP TABLE watched")
    saved = stored(path).load(NOW)
    assert (saved.jobs, saved.watched_until) == ((TOTALS,), None)


def test_a_file_that_has_less_and_more_than_this_version_knows_is_read_and_completed(
    path: Path,
) -> None:
    """The tables and fields of the first version alone, and one field that nobody knows."""
    first = stored(path)
    first.save([TOTALS], {}, NOW)
    first.close()
    for table in ("watched", "gpus"):
        change(path, f"DROP TABLE {table}")
    gone = "'$.runs', '$.distribution', '$.reported', '$.uid', '$.array_job_id'"
    change(path, f"UPDATE jobs SET report = json_remove(report, {gone})")
    change(path, "UPDATE jobs SET report = json_set(report, '$.of_the_future', 7)")
    again = stored(path)
    (job,) = again.load(NOW).jobs
    assert (job.job_id, job.gpus) == (TOTALS.job_id, TOTALS.gpus)
    assert (job.runs, job.reported, job.distribution) == ((), None, {})
    again.save([job], {}, NOW + 15)
    assert again.load(NOW + 15).watched_until == NOW + 15


def test_saving_again_replaces_and_adds_nothing(path: Path) -> None:
    store = stored(path)
    for updated in (NOW, NOW + 15, NOW + 30):
        store.save([TOTALS.model_copy(update={"updated": updated})], {}, NOW)
    assert [run.updated for run in store.find("12")] == [NOW + 30]


def test_monotonic_time_of_another_boot_is_not_used(path: Path) -> None:
    store = stored(path)
    store.save([], {GpuKey("GPU-0", ""): 77.0}, NOW)
    change(path, "UPDATE gpus SET boot_id = 'another'")
    assert store.load(NOW).counted_until == {}
    store.prune(NOW)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT * FROM gpus").fetchall() == []


@pytest.mark.parametrize(
    "mark", ["NULL", "'text'", "x'00'", "1e999", "-1e999", "-1", "'nan'", "9e15", "'77'"]
)
def test_a_mark_that_cannot_be_is_left_out_and_costs_no_other(
    mark: str, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = stored(path)
    store.save([], {GpuKey("GPU-0", ""): 7.0, GpuKey("GPU-1", ""): 7.0}, NOW)
    # A column of type REAL would make a number of text; a file that was made elsewhere need not have one.
    change(path, "ALTER TABLE gpus RENAME TO old")
    change(
        path, "CREATE TABLE gpus AS SELECT uuid, instance, boot_id, NULL AS counted_until FROM old"
    )
    change(path, "UPDATE gpus SET counted_until = 7.0")
    change(path, f"UPDATE gpus SET counted_until = {mark} WHERE uuid = 'GPU-1'")
    assert store.load(NOW).counted_until == {GpuKey("GPU-0", ""): 7.0}
    assert "1 times up to which GPUs were counted are impossible" in caplog.text


@pytest.mark.parametrize("column", ["uuid", "instance"])
@pytest.mark.parametrize("name", ["NULL", "x'ff'"])
def test_so_is_a_mark_of_no_gpu(column: str, name: str, path: Path) -> None:
    store = stored(path)
    store.save([], {GpuKey("GPU-0", ""): 7.0, GpuKey("GPU-1", ""): 7.0}, NOW)
    change(path, f"UPDATE gpus SET {column} = {name} WHERE uuid = 'GPU-1'")
    assert store.load(NOW).counted_until == {GpuKey("GPU-0", ""): 7.0}


def test_marks_of_a_boot_that_nobody_knows_are_neither_written_nor_believed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = stored(path)
    store.save([], {GpuKey("GPU-0", ""): 7.0}, NOW)
    change(path, "UPDATE gpus SET boot_id = ''")
    monkeypatch.setattr(boot, "_BOOT_ID", path.with_name("no-boot-id"))
    assert store.load(NOW).counted_until == {}
    store.save([], {GpuKey("GPU-1", ""): 7.0}, NOW)
    monkeypatch.undo()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT uuid FROM gpus").fetchall() == [("GPU-0",)]


@pytest.mark.parametrize("last", ["NULL", "'text'", "1e999", "1.01e11", "x'00'"])
def test_a_last_time_that_cannot_be_is_not_known(last: str, path: Path) -> None:
    store = stored(path)
    store.save([TOTALS], {}, NOW)
    change(path, f"UPDATE watched SET until = {last}")
    saved = store.load(NOW)
    assert (saved.watched_until, saved.jobs) == (None, (TOTALS,))


def endless(field: str) -> str:
    """A report with a number without end."""
    return f"replace(json_set(report, '$.{field}', 'X'), '\"X\"', '1e999')"


@pytest.mark.parametrize(
    "report", ["'{}'", *map(endless, ("began", "updated", "gpus[0].held_seconds"))]
)
def test_a_row_that_cannot_be_read_costs_itself(report: str, path: Path) -> None:
    store = stored(path)
    store.save([TOTALS, TOTALS.model_copy(update={"job_id": "13"})], {}, NOW)
    change(path, f"UPDATE jobs SET report = {report} WHERE job_id = '12'")
    assert [job.job_id for job in store.load(NOW).jobs] == ["13"]


_TRACE = TraceSummary(
    NOW,
    2,
    10.0,
    {"tensor": 0.5, "other": 0.1, "communication": 0.1, "copies": 0.1, "idle": 0.2},
    (Finding("host_bound", 0.1, 1.0, "why", "what"),),
    1,
    {"used": 0.4, "idle": 0.6},
)
_REPORTS = ReportsView(
    total=Compared(mfu_seconds=40.0, utilization_seconds=45.0, gpu_seconds=90.0),
    last=NOW,
    peak_flops=989e12,
    precision={"bf16": 1.0},
    outcomes={"accepted": 3},
    adjusted=Adjusted(0.02, "lower", 44.0, 90.0),
    trace=_TRACE,
    finding_seconds={"host_bound": 1.0},
    traced_seconds=4.0,
)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("finding_seconds", f'{{"host_bound": {value}}}') for value in ("-5", "NaN", "1e999")),
        *(("traced_seconds", value) for value in ("-1", "NaN", "1e999")),
        ("finding_seconds", '{"a\\"b": 1}'),
        ("finding_seconds", json.dumps({f"x{n}": 1 for n in range(1000)})),
        *(("trace.seconds", value) for value in ("NaN", "0", "-1", "1e999")),
        *(("trace.parts.tensor", value) for value in ("9", "-1", "NaN")),
        *(("trace.at", value) for value in ("1e18", "-1")),
        *(("trace.ranks", value) for value in ("0", str((1 << 20) + 1))),
        ("trace.slowest_rank", "-3"),
        *(("trace.findings[0].share", value) for value in ("77", "NaN")),
        ("trace.findings[0].finding", '"<script>"'),
        ("trace.findings[0].evidence", json.dumps("e" * 1000)),
        ("trace", "{}"),
        *(("outcomes", text) for text in ('{"accepted": -5}', '{"a b": 1}')),
        ("outcomes", json.dumps({"x" * 41: 1})),
        ("outcomes", json.dumps({a + b: 1 for a in "abcde" for b in "abcdefghijklm"})),
        *(("peak_flops", value) for value in ("-1", "NaN", "1e999")),
        *(("precision", text) for text in ('{"bf16": NaN}', '{"bf16": 7}', '{"bf16": -1}')),
        *(("last", value) for value in ("NaN", "1.01e11", "-1")),
        *(("adjusted.tile_overhead", value) for value in ("-1", "NaN", "1e999")),
        *(("adjusted.gpu_seconds", value) for value in ("-1", "1e999")),
        *(("mfu_seconds", value) for value in ("1e999", "900001", "-1", "NaN")),
    ],
)
def test_so_does_a_job_whose_reports_cannot_be(field: str, value: str, path: Path) -> None:
    whole = totals_of(replace(VIEW, reports=_REPORTS), "n1", simulated=False)
    store = stored(path)
    store.save([whole, whole.model_copy(update={"job_id": "13"})], {}, NOW)
    assert [job.reported for job in store.load(NOW).jobs] == [whole.reported] * 2
    changed = f"replace(json_set(report, '$.reported.{field}', 'X'), '\"X\"', '{value}')"
    change(path, f"UPDATE jobs SET report = {changed} WHERE job_id = '12'")
    assert [job.job_id for job in store.load(NOW).jobs] == ["13"]


@pytest.mark.parametrize("field", ["began", "updated", "runs[0].began"])
@pytest.mark.parametrize("value", ["1e18", "-1e12"])
def test_so_does_a_job_of_a_time_that_no_calendar_has(field: str, value: str, path: Path) -> None:
    store = stored(path)
    store.save([TOTALS, TOTALS.model_copy(update={"job_id": "13"})], {}, NOW)
    changed = f"json_set(report, '$.{field}', {value})"
    change(path, f"UPDATE jobs SET report = {changed} WHERE job_id = '12'")
    assert (store.find("12"), len(store.find("13"))) == ((), 1)


def test_so_does_a_job_whose_end_is_no_time(path: Path) -> None:
    store = stored(path)
    store.save([TOTALS, TOTALS.model_copy(update={"job_id": "13"})], {}, NOW)
    change(path, "UPDATE jobs SET ended = 'text' WHERE job_id = '12'")
    assert store.find("12") == ()
    assert store.find("13")


def test_a_second_agent_is_refused_the_file_until_the_first_is_gone(path: Path) -> None:
    first = stored(path)
    first.save([TOTALS], {}, NOW)
    with pytest.raises(OSError, match="another agent writes it"):
        stored(path)
    assert find_in_file(path, "12") == (TOTALS,)
    first.close()
    assert stored(path).load(NOW).jobs == (TOTALS,)


def test_a_lock_that_was_removed_is_noticed(path: Path) -> None:
    store = stored(path)
    assert store.is_there()
    path.with_name(f"{path.name}.lock").unlink()
    assert not store.is_there()


def test_what_ended_long_ago_is_dropped(path: Path) -> None:
    store = stored(path)
    store.save([TOTALS.model_copy(update={"ended": NOW})], {}, NOW)
    store.prune(NOW + KEEP_SECONDS - 1)
    assert store.find("12")
    store.prune(NOW + KEEP_SECONDS + 1)
    assert not store.find("12")


@pytest.mark.slow
def test_the_file_holds_a_bounded_number_of_jobs(path: Path) -> None:
    store = stored(path)
    many = [
        TOTALS.model_copy(update={"job_id": str(number), "updated": float(number), "ended": 1.0})
        for number in range(MOST_ROWS + 10)
    ]
    store.save(many, {}, NOW)
    store.prune(0.0)
    assert not store.find("9")
    assert store.find("10")


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda path: path.write_bytes(b"no database at all" * 100), id="another file"),
        pytest.param(lambda path: os.truncate(path, 5000), id="cut short"),
        pytest.param(
            lambda path: path.write_bytes(path.read_bytes()[:4096] + os.urandom(9000)), id="garbage"
        ),
    ],
)
def test_a_damaged_file_is_set_aside_and_kept(path: Path, damage: object) -> None:
    store = stored(path)
    store.save([TOTALS.model_copy(update={"job_id": str(n)}) for n in range(100)], {}, NOW)
    store.close()
    assert callable(damage)
    damage(path)
    again, aside = opened(path)
    assert aside is not None
    assert aside.exists()
    assert again.load(NOW).jobs == ()
    again.save([TOTALS], {}, NOW)
    assert again.find("12") == (TOTALS,)


@pytest.mark.parametrize("version", [99, -1])
def test_a_file_of_another_version_is_refused_and_stays_as_it_is(path: Path, version: int) -> None:
    other = stored(path)
    other.save([TOTALS], {}, NOW)
    other.close()
    change(path, f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(
            sqlite3.OperationalError, match=rf"\({version}, not 1\) and is left alone"
        ):
            opened(path)
    assert path.read_bytes() == before
    assert {each.name for each in path.parent.iterdir()} == {path.name, f"{path.name}.lock"}
    change(path, "PRAGMA user_version = 1")
    assert stored(path).load(NOW).jobs == (TOTALS,)


def test_the_share_of_an_instance_comes_back(path: Path) -> None:
    (gpu,) = TOTALS.gpus
    part = gpu.model_copy(update={"gpu_instance": "3", "share_ratio": 3 / 7})
    store = stored(path)
    store.save([TOTALS.model_copy(update={"gpus": (part,)})], {}, NOW)
    (job,) = store.load(NOW).jobs
    assert job.gpus == (part,)
    (usage,) = resumed_job(job, Instant(0.0, NOW)).usage.values()
    assert (usage.share, usage.observed_seconds) == (3 / 7, 90.0)


def test_a_pod_whose_time_is_its_jobs_now_leaves_the_file(path: Path) -> None:
    """Others of that name stay: an earlier pod, one that was a job itself, and one of another scheduler."""
    store = stored(path)
    pod = TOTALS.model_copy(update={"job_id": "ns/pod", "uid": ""})
    over = NOW - 800
    earlier = pod.model_copy(update={"began": over - 100, "updated": over, "ended": over})
    alone = pod.model_copy(update={"uid": "u1", "began": NOW - 5})
    elsewhere = pod.model_copy(update={"scheduler": "other"})
    store.save([earlier, pod, alone, elsewhere], {}, NOW)
    assert pod in store.find("ns/pod")
    job = pod.model_copy(update={"job_id": "ns/job", "uid": "u2", "aliases": ("ns/pod",)})
    store.save([job], {}, NOW)
    assert [*store.find("ns/pod")] == [earlier, elsewhere, alone]
    assert store.find("ns/job") == (job,)


@pytest.mark.parametrize("seconds", [6 * 3600.0, -40.0, -86400.0])
def test_what_the_clock_was_set_by_moves_the_times_of_the_file(
    path: Path, seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    store = stored(path)
    job = TOTALS.model_copy(update={"updated": NOW, "ended": NOW - 100})
    store.save([job], {}, NOW, ClockMark("boot", 100.0, NOW))
    now = NOW + 60 + seconds
    saved = store.load(now, ClockMark("boot", 160.0, now))
    assert (saved.watched_until, saved.is_clock_set) == (NOW + seconds, True)
    assert [each.updated for each in saved.jobs] == [NOW + seconds]
    assert f"was set {'forward' if seconds > 0 else 'back'} by" in caplog.text
    assert "no job is credited with it" in caplog.text


@pytest.mark.parametrize(
    "row", ["NULL, 1, 1", "'boot', 'x', 1", "'boot', 1, 1e999", "'boot', 1, -1"]
)
def test_a_clock_that_cannot_be_moves_nothing(path: Path, row: str) -> None:
    store = stored(path)
    store.save([TOTALS], {}, NOW, ClockMark("boot", 100.0, NOW))
    change(path, f"INSERT OR REPLACE INTO clock VALUES (0, {row})")
    saved = store.load(NOW, ClockMark("boot", 160.0, NOW))
    assert (saved.watched_until, saved.is_clock_set) == (NOW, False)
