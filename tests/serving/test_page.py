"""The page: golden to the byte, true to the clock, and readable by Prometheus' own parsers."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as text_format

from ofu_exporter.errors import ReportError
from ofu_exporter.ofu.tick import State, Tick, step
from ofu_exporter.reports.entry import Policy
from ofu_exporter.serving import metrics
from ofu_exporter.serving.page import FORGET_SECONDS, MOST_AHEAD, Page
from ofu_exporter.values.job import Claim, Job
from ofu_exporter.values.reported import Verdict
from ofu_exporter.values.snapshot import Snapshot
from tests.helpers import seldom
from tests.helpers.desk import Desk
from tests.helpers.node import EPOCH, Node, snapshot_of, whole
from tests.helpers.playback import RECORDINGS, play
from tests.helpers.values import FakeClock, fault, gpu, health, reading

GOLDEN = Path(__file__).parents[1] / "golden"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def page_of(snapshot: Snapshot, now: float | None = None) -> Page:
    page = Page(FakeClock(snapshot.at if now is None else now), process=False)
    page.publish(snapshot)
    return page


def small_snapshot() -> Snapshot:
    return snapshot_of(reading(), reading(device=gpu(1)), fault(5, device=gpu(2)))


def values(text: str) -> dict[str, float]:
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in text_format(text)
        for sample in family.samples
    }


def a_node_with_jobs() -> Snapshot:
    """A job alone on two GPUs, one that ended, two that share a GPU, one that waits, and a device that is not here."""
    node = Node(4)
    alone = Job(
        "slurm", "41", "llama", "ada", "physics", "gpu", array_job_id="40", array_task_id="1"
    )
    first, second = (Job("kubernetes", f"ml/{name}", name, namespace="ml") for name in "ab")
    node.give(0.0, whole(alone, "0", "1"), whole(Job("slurm", "39"), "3", "GPU-elsewhere"))
    node.run(0.0, 10.0)
    sharing = (whole(first, "GPU-0002::0"), whole(second, "GPU-0002::1"))
    waits = Claim(Job("kubernetes", "ml/c", "c", namespace="ml"), ("3",), waiting=frozenset({"3"}))
    node.give(10.0, whole(alone, "0", "1"), *sharing, waits)
    return node.run(10.0, 20.0)


def a_node_with_reports() -> Snapshot:
    """A job that agrees, one that over-counts, one that has reported too little, and one without a GPU here."""
    desk = Desk(4, Policy(unowned=True))
    jobs = [Job("slurm", str(number), f"job-{number}", "ada") for number in (41, 42, 43)]
    desk.node.give(0.0, *(whole(job, str(place)) for place, job in enumerate(jobs)))
    for _ in range(20):
        desk.run(10.0)
        desk.report("41", mfu=0.38, precision="bf16", framework="nemo 2.1")
        desk.report("42", mfu=0.765, gpus=64, precision="bf16", recompute="none")
    desk.report("43", mfu=0.4, start=EPOCH + 190, tile_overhead=0.01, tile_overhead_bound="lower")
    desk.report("head", mfu=0.5, peak_tflops=989.4, gpus=8)
    with pytest.raises(ReportError):
        desk.report("43", mfu=0.4, precision="fp4")
    desk.run(5.0)
    return desk.shown


def page_played(path: Path) -> Page:
    return page_of(play(path))


PAGES: dict[str, Callable[[], Page]] = {
    "jobs": lambda: page_of(a_node_with_jobs()),
    "reports": lambda: page_of(a_node_with_reports()),
    "seldom": seldom.page,
    **{
        path.name.split(".")[0]: partial(page_played, path)
        for path in sorted(RECORDINGS.glob("*.jsonl*"))
    },
}


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("accept", ["", OPENMETRICS], ids=["text", "openmetrics"])
def test_the_page_is_as_it_was(name: str, accept: str, golden: Callable[[str, str], None]) -> None:
    body = PAGES[name]().render(accept).body.decode()
    body = re.sub(r'(python|version|revision)="[^"]*"', r'\1="any"', body)
    golden(name + (".openmetrics" if accept else ".prom"), body)


def test_every_metric_has_a_row_on_a_golden_page() -> None:
    """One that has none: have it happen in tests/helpers/seldom.py, and read the value that the page then shows."""
    pages = "".join(path.read_text() for path in GOLDEN.glob("*.prom"))
    shown = {*re.findall(r"^(\w+?)(?:_sum|_count)?[{ ]", pages, re.MULTILINE)}
    assert [
        each.shown_name for each in metrics.every_metric() if each.shown_name not in shown
    ] == []


def test_every_golden_page_is_still_made() -> None:
    pages = [*GOLDEN.glob("*.prom"), *GOLDEN.glob("*.openmetrics")]
    assert {path.stem for path in pages} == set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_both_formats_parse_and_say_the_same(name: str) -> None:
    page = PAGES[name]()
    text = page.render("").body.decode()
    om = page.render(OPENMETRICS).body.decode()
    assert om.endswith("# EOF\n")
    assert om.count("# EOF") == 1
    of_om = {
        (s.name, *sorted(s.labels.items())): s.value for f in openmetrics(om) for s in f.samples
    }
    of_text = {
        (s.name, *sorted(s.labels.items())): s.value for f in text_format(text) for s in f.samples
    }
    assert of_om == of_text


def test_no_series_stands_twice() -> None:
    body = page_of(play(RECORDINGS / "faults.jsonl")).render().body.decode()
    series = [line.rpartition(" ")[0] for line in body.splitlines() if not line.startswith("#")]
    assert len(series) == len(set(series))


def test_what_is_not_measured_is_absent_and_says_why() -> None:
    text = page_of(small_snapshot()).render().body.decode()
    lost = [line for line in text.splitlines() if 'uuid="GPU-0002"' in line]
    names = {line.partition("{")[0] for line in lost}
    assert names == {"ofu_gpu_info", "ofu_gpu_up", "ofu_gpu_unavailable"}
    assert any(line.startswith("ofu_gpu_unavailable") and 'reason="lost"' in line for line in lost)


def test_a_window_is_not_served_after_it_became_too_old() -> None:
    """The sampler is dead: the page itself must notice."""
    snapshot = small_snapshot()
    fresh = page_of(snapshot, snapshot.gpus[0].fresh_until).render().body.decode()
    old = page_of(snapshot, snapshot.gpus[0].fresh_until + 0.1).render().body.decode()
    assert "ofu_gpu_utilization_ratio{" in fresh
    assert "ofu_gpu_utilization_ratio{" not in old
    assert 'ofu_gpu_unavailable{gpu="0",gpu_instance="",reason="stale",uuid="GPU-0000"}' in old
    assert "ofu_gpu_utilization_seconds_total{" in old, "totals stay true"


def test_a_page_that_was_written_ends_with_its_first_window() -> None:
    snapshot = snapshot_of(reading())
    page = page_of(snapshot, snapshot.gpus[0].fresh_until - 0.1)
    assert b"ofu_gpu_utilization_ratio{" in page.render().body
    page._clock.now += 0.2  # type: ignore[attr-defined]
    assert b"ofu_gpu_utilization_ratio{" not in page.render().body


SAMPLED = (
    "ofu_gpu_sample_timestamp_seconds[('gpu', '0'), ('gpu_instance', ''), ('uuid', 'GPU-0000')]"
)
MADE = "ofu_exporter_snapshot_timestamp_seconds[]"


def test_a_page_of_one_snapshot_is_the_same_at_every_scrape() -> None:
    snapshot = small_snapshot()
    clock = FakeClock(snapshot.at)
    page = Page(clock, process=False, unix=lambda: EPOCH + clock.now + 0.01)
    page.publish(snapshot)
    first = page.render().body
    clock.now += 7
    assert page.render().body == first
    assert values(first.decode())[SAMPLED] == values(first.decode())[MADE] == EPOCH + 5.0


def test_a_window_of_before_the_snapshot_keeps_its_time_and_a_gpu_never_measured_has_none() -> None:
    node = Node(2)
    node.tick(5.0, reading(0.0, 5.0))
    shown = values(page_of(node.tick(65.0)).render().body.decode())
    assert shown[SAMPLED] == EPOCH + 5.0
    assert shown[MADE] == EPOCH + 65.0
    assert not any("sample_timestamp" in key and "GPU-0001" in key for key in shown)


@pytest.mark.parametrize("step", [-7200.0, -2.0, 0.0, 2.0, 7200.0])
def test_setting_the_clock_never_makes_an_old_value_look_new(step: float) -> None:
    """The reader's clock is right: the sampler hangs, and somebody sets the clock of the node."""
    snapshot = small_snapshot()
    clock = FakeClock(snapshot.at)
    page = Page(clock, process=False, unix=lambda: EPOCH + step + clock.now)
    page.publish(snapshot)
    clock.now += 100
    shown = values(page.render().body.decode())
    by_the_nodes_clock = EPOCH + step + clock.now
    for key in (SAMPLED, MADE):
        assert by_the_nodes_clock - shown[key] >= 100 - 1e-3
    written = page.render().body
    clock.now += 1
    assert page.render().body is written, "a clock that was set costs one page, and not each scrape"


def test_the_next_snapshot_dates_old_windows_by_the_clock_that_was_set() -> None:
    node = Node(1)
    node.run(0.0, 5.0)
    node.set_clock(-3600.0)
    shown = values(page_of(node.tick(35.0)).render().body.decode())
    assert shown[MADE] - shown[SAMPLED] == 30.0
    assert shown[MADE] == EPOCH - 3600.0 + 35.0


def test_without_the_time_of_day_nothing_is_dated() -> None:
    shown = values(page_of(replace(small_snapshot(), unix=0.0)).render().body.decode())
    assert not any("timestamp" in key for key in shown)


def test_a_new_snapshot_replaces_the_old_one_at_once() -> None:
    snapshot = small_snapshot()
    page = page_of(snapshot)
    before = page.render().body
    page.publish(replace(snapshot, gpus=()))
    assert b"ofu_gpu_up{" in before
    assert b"ofu_gpu_up{" not in page.render().body


def test_a_page_is_written_once_for_those_who_take_gzip_and_those_who_do_not() -> None:
    page, written = page_of(play(RECORDINGS / "simulated-8gpu.jsonl.gz")), list[bytes]()

    def encoder(_: object) -> bytes:
        written.append(b"ofu 1")
        return written[-1]

    assert page._page("text", False, encoder) == b"ofu 1"
    assert gzip.decompress(page._page("text", True, encoder)) == b"ofu 1"
    assert page._page("text", True, encoder) is page._page("text", True, encoder)
    assert len(written) == 1


def test_gzip_is_the_same_page() -> None:
    page = page_of(play(RECORDINGS / "simulated-8gpu.jsonl.gz"))
    packed = page.render("", "gzip, deflate")
    assert packed.encoding == "gzip"
    assert gzip.decompress(packed.body) == page.render().body
    assert len(packed.body) < len(page.render().body) / 4


def test_simulated_data_is_marked() -> None:
    snapshot = small_snapshot()
    simulated = replace(snapshot, source=health("simulate", simulated=True))
    assert "ofu_exporter_simulated 1.0" in page_of(simulated).render().body.decode()
    assert "ofu_exporter_simulated 0.0" in page_of(snapshot).render().body.decode()


def test_a_label_with_quotes_and_backslashes_is_escaped_and_a_newline_shown_as_one() -> None:
    odd = replace(gpu(), name='a"b\\c\nd')
    snapshot = step(State(), Tick(5.0, 5.0, [odd], [], health()))[1]
    body = page_of(snapshot).render().body.decode()
    (info,) = [s for f in text_format(body) for s in f.samples if s.name == "ofu_gpu_info"]
    assert info.labels["model"] == 'a"b\\c\\nd'


UNITS = "ratio seconds hertz flops joules bytes"
COUNTED = (
    "samples failures rows deadlines reloads requests polls rejected writes set_aside reports pulls clock_steps "
    "faults lines tokens traces engines step restarts"
)
STATES = (
    "info up unavailable simulated shared gpu paused released verdict cause bound successful "
    "running waiting"
)
ENDS = tuple(f"_{end}" for end in f"{UNITS} {COUNTED} {STATES}".split())


def test_a_name_ends_in_its_unit_and_has_help() -> None:
    for spec in metrics.every_metric():
        assert spec.name.endswith(ENDS), (
            f"{spec.name}: a new unit or count is added to the lists above"
        )
        assert spec.help.endswith("."), spec.name


def test_before_the_first_snapshot_the_page_is_about_the_agent_alone() -> None:
    body = Page(FakeClock(), process=False).render().body.decode()
    assert "ofu_exporter_build_info" in body
    assert "ofu_gpu" not in body


def test_a_comparison_is_not_shown_any_more_when_the_sampler_hangs() -> None:
    snapshot = a_node_with_reports()
    now = values(page_of(snapshot).render().body.decode())
    later = values(page_of(snapshot, snapshot.at + 60.0).render().body.decode())
    of_the_moment = (
        "ofu_job_reported_mfu_ratio",
        "ofu_job_divergence_ratio",
        "ofu_job_divergence_cause",
    )
    assert any(name.startswith(of_the_moment) for name in now)
    assert not any(name.startswith(of_the_moment) for name in later)
    sums = {name: value for name, value in now.items() if name.startswith("ofu_job_compared_")}
    assert sums
    assert sums.items() <= later.items()


def test_a_cause_is_shown_beside_the_verdict_that_it_explains_and_once_it_is_found() -> None:
    snapshot = a_node_with_reports()
    (job,) = (view for view in snapshot.jobs if view.reports and view.reports.causes)
    assert job.reports is not None
    for change, shown in (
        ({}, 1),
        ({"recent_verdict": Verdict.AGREE}, 0),
        ({"causes": None}, 0),
    ):
        changed = replace(job, reports=replace(job.reports, **change))
        body = page_of(replace(snapshot, jobs=(changed,))).render().body.decode()
        assert body.count("\nofu_job_divergence_cause{") == shown


def test_only_what_is_asked_for_again_and_again_is_written_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twenty formats that were asked for once each would cost every snapshot twenty pages."""
    snapshot = small_snapshot()
    clock = FakeClock(snapshot.at)
    page = Page(clock, process=False)
    page.publish(snapshot)
    formats = [(accept, packed) for accept in ("", OPENMETRICS) for packed in ("", "gzip")]
    for each in formats:
        page.render(*each)
    made: list[tuple[str, bool]] = []
    write = Page._page

    def counted(self: Page, kind: str, packed: bool, encoder: Any) -> bytes:
        made.append((kind, packed))
        return write(self, kind, packed, encoder)

    monkeypatch.setattr(Page, "_page", counted)
    page.publish(replace(snapshot, at=snapshot.at + 5))
    assert made == [], "once is not again and again"
    for each in formats:
        page.render(*each)
    for _ in range(9):
        page.render(OPENMETRICS, "gzip")
    made.clear()
    page.publish(replace(snapshot, at=snapshot.at + 10))
    assert len(made) == MOST_AHEAD
    assert made[0] == (page.render(OPENMETRICS, "gzip").content_type, True)
    clock.now += FORGET_SECONDS + 1
    made.clear()
    page.publish(replace(snapshot, at=snapshot.at + 15))
    assert made == []
