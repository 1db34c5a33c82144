"""A job's totals as JSON and as words, of one node and of many."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ofu_exporter.jobs.gpu_totals import GpuTotals, RunTotals, of_sums
from ofu_exporter.jobs.reported_mfu import ComparedSums
from ofu_exporter.jobs.summary import one_line
from ofu_exporter.jobs.totals import JobTotals, merged, resumed_job, totals_of
from ofu_exporter.ofu.ownership.job_state import JobState, views
from ofu_exporter.values.gpu import GpuKey
from ofu_exporter.values.instant import Instant
from ofu_exporter.values.job import GpuUsage, Job, Start
from ofu_exporter.values.losses import Bottleneck, Bounds, Loss, LossSums, MemorySums
from ofu_exporter.values.reported import Compared
from ofu_exporter.values.snapshot import JobView
from tests.helpers.documents import VIEW, made, reporting
from tests.helpers.every import every


def test_what_an_older_agent_did_not_write_is_0_or_unknown() -> None:
    assert {*ComparedSums().__dict__.values()} == {*Compared()} == {0.0}
    gpu = GpuTotals.model_validate(VALUE)
    assert gpu.gained_seconds == gpu.memory_busy_seconds == gpu.memory_seconds == 0.0
    assert (gpu.share_ratio, gpu.in_last_run, gpu.waiting_seconds) == (1.0, True, None)
    usage = GpuUsage("0", GpuKey("GPU-0", ""))
    assert usage.held_seconds == usage.observed_seconds == usage.utilization_seconds == 0.0
    assert (usage.share, usage.in_last_run) == (1.0, True)


def test_the_mean_is_a_sum_over_a_sum() -> None:
    assert made().utilization_ratio == pytest.approx(51.0 / 150.0)
    assert made().gpu_seconds == pytest.approx(150.0)
    assert made().observed_ratio == pytest.approx(0.75)


def test_a_job_that_went_on_elsewhere_has_the_gpus_of_its_last_run() -> None:
    """Requeued from one node to another, which has other GPUs; or still ending on the first."""
    over, late, second = (
        with_a_run(made(node, began=began, ended=ended))
        for node, began, ended in (
            ("n1", 1000.0, 1100.0),
            ("n1", 1000.0, 1250.0),
            ("n2", 1200.0, 1300.0),
        )
    )
    other = second.gpus[0].model_copy(update={"uuid": "GPU-other"})
    second = second.model_copy(update={"gpus": (other,)})
    assert merged([over, second]).gpu_count == 1
    assert merged([late, second]).gpu_count == over.gpu_count + 1


def with_a_run(job: JobTotals) -> JobTotals:
    sums = {"held_seconds": 1.0, "observed_seconds": 1.0, "utilization_seconds": 0.1}
    run = RunTotals.model_validate({"began": job.began, "ended": job.ended, **sums})
    return job.model_copy(update={"runs": (run,)})


def test_percentiles_are_of_observed_time() -> None:
    assert made().window_percentiles == {"p10": 0.1, "p50": 0.5, "p90": 0.5}


def test_a_percentile_is_the_first_ofu_below_which_that_share_of_the_time_was() -> None:
    halves = made(distribution={20: 50.0, 80: 40.0, 120: 10.0})
    assert halves.window_percentiles == {"p10": 0.1, "p50": 0.1, "p90": 0.4}


def test_a_job_of_which_nothing_was_observed_has_no_ofu() -> None:
    nothing = made(gpus=(), distribution={})
    assert nothing.utilization_ratio is None
    assert nothing.observed_ratio is None
    assert nothing.window_percentiles == {}
    assert one_line(nothing) == "ofu=none gpus=0 gpu_hours=0.00 observed=none nodes=1"


def test_json_and_back() -> None:
    assert JobTotals.model_validate_json(made().model_dump_json()) == made()


@every([{"version": 2}, {"began": "soon"}, {"distribution": {"1": -1}}, {"gpus": [{}]}])
def test_what_is_no_report_is_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        JobTotals.model_validate({**made().model_dump(), **damage})


def test_nodes_are_added_as_numerator_and_denominator() -> None:
    other = GpuTotals(
        gpu="0",
        uuid="GPU-9",
        node="n2",
        held_seconds=50,
        observed_seconds=50,
        utilization_seconds=50,
    )
    both = merged([made(), made("n2", gpus=(other,), distribution={200: 50.0})])
    assert both.utilization_ratio == pytest.approx(101.0 / 200.0)
    assert both.nodes == ("n1", "n2")
    assert len(both.gpus) == 3
    assert both.window_percentiles["p90"] == 1.0


def test_a_job_runs_as_long_as_it_runs_on_any_node() -> None:
    assert merged([made(ended=1100.0), made("n2")]).ended is None


@given(st.lists(st.integers(0, 300), min_size=1, max_size=20))
def test_merging_in_any_order_gives_the_same(steps: list[int]) -> None:
    parts = [
        made(f"n{number}", distribution={step: 1.0}, updated=1100.0 + number)
        for number, step in enumerate(steps)
    ]
    one, other = merged(parts), merged(parts[::-1])
    assert one.window_percentiles == other.window_percentiles
    assert one.gpu_seconds == pytest.approx(other.gpu_seconds)
    assert set(one.nodes) == set(other.nodes)
    assert math.fsum(one.distribution.values()) == len(steps)


def test_it_survives_json() -> None:
    assert JobTotals.model_validate_json(reporting().model_dump_json()) == reporting()


def test_a_merged_job_is_held_since_the_earliest_of_its_nodes() -> None:
    nodes = [made("n1", held_since=950.0), made("n2", held_since=900.0), made("n3")]
    for order in itertools.permutations(nodes):
        assert merged(order).held_since == 900.0
    assert merged([made("n1"), made("n2")]).held_since is None


SUMS = LossSums(
    lost={Loss.CLOCK: 5.0, Loss.IDLE: 45.0},
    gained=5.0,
    bottlenecks={Bottleneck.MEMORY: Bounds(1.0, 2.0)},
    energy_joules=9e5,
    idle_energy_joules=2e5,
    memory=MemorySums(70.0, 90.0, 9e13),
)


def test_every_sum_has_a_value_above_and_is_added() -> None:
    """So that the tests below see each of them survive the file."""
    unlike = {name: value for name, value in SUMS._asdict().items() if value}
    assert unlike.keys() == {*LossSums._fields}, "give it one in SUMS"
    twice = SUMS.plus(SUMS)
    assert [name for name, value in unlike.items() if getattr(twice, name) == value] == []
    assert twice.gained == 10.0
    assert GpuTotals.model_validate({**VALUE, **of_sums(twice)}).sums == twice


VALUE = {"gpu": "0", "uuid": "", "held_seconds": 7, "observed_seconds": 7, "utilization_seconds": 7}
EVERYTHING = JobView(
    job=Job(*("slurm", "12", "llama", "ada", "physics", "gpu", "ml", "10", "2"), uid="a run's own"),
    usage={
        GpuKey("GPU-0", ""): GpuUsage(
            *("0", GpuKey("GPU-0", ""), 100.0, 90.0, 45.0),
            sums=SUMS,
        ),
        GpuKey("GPU-1", "3"): GpuUsage("1", GpuKey("GPU-1", "3"), 80.0, 60.0, 6.0),
    },
    distribution={100: 90.0, 20: 60.0},
    began=1000.0,
    ended=1090.0,
    updated=1100.0,
)


def test_all_that_is_known_of_a_job_survives_the_file() -> None:
    document = totals_of(EVERYTHING, "n1", simulated=True).model_dump_json()
    again = resumed_job(JobTotals.model_validate_json(document), Instant(5.0, 1100.0))
    assert again == JobState(
        job=EVERYTHING.job,
        began=1000.0,
        usage=EVERYTHING.usage,
        distribution=EVERYTHING.distribution,
        run_began=1000.0,
        ended=1090.0,
        ended_at=-5.0,
    )


def test_a_document_says_which_node_and_whether_it_was_simulated_and_over() -> None:
    document = totals_of(EVERYTHING, "n1", simulated=True)
    assert (document.nodes, document.simulated, document.ended) == (("n1",), True, 1090.0)
    assert [gpu.node for gpu in document.gpus] == ["n1", "n1"]
    assert not made().simulated
    reported = reporting(precision={"bf16": 0.3, "fp8": 0.7}).reported
    assert reported is not None
    assert (reported.peak_flops, reported.last) == (989.4e12, 1095.0)
    assert reported.precision == {"bf16": 0.3, "fp8": 0.7}


def test_what_an_earlier_agent_left_is_not_shown_until_the_job_is_seen() -> None:
    left = resumed_job(made(), Instant(5.0, 1100.0))
    assert left.unseen_since == 1100.0
    assert views([left], Instant(105.0, 1200.0)) == ()


def run(began: float, node: str = "n1") -> RunTotals:
    """A run of 50 s."""
    return RunTotals(
        node=node,
        began=began,
        ended=began + 50.0,
        held_seconds=50.0,
        observed_seconds=50.0,
        utilization_seconds=50.0,
    )


def test_runs_of_several_nodes_are_in_the_order_of_time_then_of_nodes() -> None:
    first = made(runs=(run(1000.0), run(1200.0)))
    other = made("n2", runs=(run(1000.0, "n2"), run(1100.0, "n2")))
    assert merged([other, first]).runs == (
        *(run(1000.0), run(1000.0, "n2")),
        *(run(1100.0, "n2"), run(1200.0)),
    )


def test_the_last_run_of_a_file_is_the_one_that_goes_on() -> None:
    left = resumed_job(made(runs=(run(1000.0), run(1100.0), run(1200.0))), Instant(5.0, 1300.0))
    assert left.run_began == 1200.0
    assert [each.began for each in left.earlier] == [1000.0, 1100.0]


def test_a_node_whose_job_ended_as_the_last_run_began_has_none_of_its_gpus() -> None:
    """Requeued at once: what held until then is of the run before."""
    held = tuple(gpu.model_copy(update={"uuid": f"old{gpu.gpu}"}) for gpu in made().gpus)
    first = made("n1", ended=1100.0, runs=(run(1000.0),), gpus=held)
    assert merged([first, made("n2", runs=(run(1100.0, "n2"),))]).gpu_count == 2
    assert merged([first, made("n2", runs=(run(1050.0, "n2"),))]).gpu_count == 4


def test_of_many_starts_the_last_stay_and_restarts_of_nodes_are_the_same_ones() -> None:
    one, other = (
        made(node, starts=tuple((float(n), n + 1.0) for n in begins), restarts=count)
        for node, begins, count in (("n1", range(20), 3), ("n2", range(10, 40), 4))
    )
    both = merged([one, other])
    assert [since for since, _ in both.starts] == [float(n) for n in range(8, 40)]
    assert both.restarts == 4


@pytest.mark.parametrize(("ended", "is_starting"), [(None, True), (1100.0, False)])
def test_a_job_that_has_ended_starts_no_more(ended: float | None, is_starting: bool) -> None:
    view = replace(VIEW, ended=ended, start=Start(0.0, is_open=True, since=1000.0))
    assert totals_of(view, "n1", simulated=False).is_starting is is_starting
