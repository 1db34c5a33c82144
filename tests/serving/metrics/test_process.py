"""The metrics of the agent's own process: what Prometheus' own library reads from the same /proc."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, ProcessCollector

from ofu_exporter.serving.families import filled
from ofu_exporter.serving.metrics.process import READ_SECONDS, ProcessReader
from ofu_exporter.serving.text_format import TEXT, written
from tests.helpers.values import FakeClock


def test_names_help_and_values_are_those_of_the_library() -> None:
    theirs = {
        family.name: (family.documentation, family.type, family.samples[0])
        for family in ProcessCollector(registry=CollectorRegistry()).collect()
    }
    ours = ProcessReader(FakeClock()).values()
    assert {spec.name for spec, _ in ours} == set(theirs)
    for spec, value in ours:
        help_, kind, sample = theirs[spec.name]
        assert (spec.help, spec.kind, spec.shown_name) == (help_, kind, sample.name)
        assert value == pytest.approx(sample.value, rel=0.2, abs=3.0)
        assert written(filled(spec, [((), value)]), TEXT, lambda *_: None).startswith(b"# HELP")


def test_proc_is_read_at_most_once_a_second() -> None:
    clock = FakeClock(10.0)
    reader = ProcessReader(clock)
    first = reader.values()
    clock.now += READ_SECONDS / 2
    assert reader.values() is first
    clock.now += READ_SECONDS
    assert reader.values() is not first


def made_up(folder: Path, boot: str = "btime 1000") -> ProcessReader:
    (folder / "self" / "fd").mkdir(parents=True)
    for name in ("0", "1", "2"):
        (folder / "self" / "fd" / name).touch()
    fields = [str(number) for number in range(3, 53)]
    (folder / "self" / "stat").write_text(f"7 (a) b) S) {' '.join(fields)}\n")
    (folder / "stat").write_text(f"cpu 1 2 3\n{boot}\n")
    return ProcessReader(FakeClock(), folder)


def test_every_value_is_that_of_its_field(tmp_path: Path) -> None:
    """proc(5): utime 14, stime 15, starttime 22, vsize 23, rss 24, counted from 1."""
    found = {spec.name: value for spec, value in made_up(tmp_path).values()}
    assert found["process_cpu_seconds"] == pytest.approx((14 + 15) / 100)
    assert found["process_start_time_seconds"] == pytest.approx(1000 + 22 / 100)
    assert found["process_virtual_memory_bytes"] == 23
    assert found["process_resident_memory_bytes"] % 24 == 0
    assert found["process_open_fds"] == 3


def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    without_boot = {spec.name for spec, _ in made_up(tmp_path / "a", "nothing").values()}
    assert "process_start_time_seconds" not in without_boot
    assert "process_cpu_seconds" in without_boot
    assert ProcessReader(FakeClock(), tmp_path / "gone").values() == []
