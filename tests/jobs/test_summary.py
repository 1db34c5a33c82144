"""A job's totals in words: one line for a comment field, and a text for people."""

from __future__ import annotations

from typing import Any

from ofu_exporter.jobs.gpu_totals import GpuTotals, RunTotals
from ofu_exporter.jobs.summary import one_line, summary_text
from ofu_exporter.jobs.totals import merged
from ofu_exporter.values.losses import Bottleneck, Bounds, Loss
from ofu_exporter.values.reported import Adjusted, Bound, Causes, Compared, Verdict
from ofu_exporter.values.trace import Finding, TimeParts, TraceSummary
from tests.helpers.documents import FIRST, made, reporting
from tests.helpers.every import every

HOUR = 3600.0
ABOVE: dict[str, Any] = {"verdict": Verdict.MFU_ABOVE_OFU}
"""As in the last minutes, of which the causes are."""
LONG = GpuTotals(
    gpu="3",
    uuid="GPU-3",
    gpu_instance="7",
    node="n1",
    held_seconds=200 * HOUR,
    observed_seconds=100 * HOUR,
    utilization_seconds=25 * HOUR,
    share_ratio=1.0,
)


def test_the_line_for_a_comment_field() -> None:
    assert one_line(made()) == (
        "ofu=34.0% p10=10.0% p50=50.0% p90=50.0% gpus=2 gpu_hours=0.04 observed=75.0% nodes=1"
    )
    assert one_line(made(gpus=(LONG,), distribution={}), of_nodes=4) == (
        "ofu=25.0% gpus=1 gpu_hours=100.00 observed=50.0% nodes=1/4"
    )


def test_the_line_names_no_cause_where_none_was_found_or_looked_for() -> None:
    for causes in (None, Causes()):
        assert "mfu=40.0% verdict=agree gpus=2" in one_line(reporting(causes=causes))


def test_what_the_last_minutes_were_of_is_no_cause_of_another_verdict() -> None:
    assert "mfu=40.0% verdict=agree gpus=2" in one_line(reporting())
    lines = summary_text(reporting()).splitlines()
    assert (
        f"Likeliest cause of mfu_above_ofu in the last minutes: {FIRST.cause}: {FIRST.evidence}"
        in lines
    )
    assert not [line for line in lines if line.startswith("With more facts")]
    assert "No known cause of mfu_above_ofu in the last minutes fits" in summary_text(
        reporting(causes=Causes())
    )


def test_the_text_for_people() -> None:
    assert summary_text(made(ended=1100.0)) == (
        "Job 12, name llama, user ada, array 10_2 (ended)\n"
        "OFU 34.0% over 0.04 GPU-hours, 2 GPUs on n1, measured 75.0% of the time\n"
        "OFU of its windows: p10 10.0%, p50 50.0%, p90 50.0%\n"
        "  n1 GPU 0 (GPU-0): OFU 50.0%, observed 90 of 100 s\n"
        "  n1 GPU 1 (GPU-1): OFU 10.0%, observed 60 of 100 s"
    )


def test_the_text_says_what_is_known_and_leaves_out_what_is_not() -> None:
    bare = made(job_name="", user="", array_job_id="", array_task_id="", distribution={})
    named = {"account": "physics", "partition": "gpu", "simulated": True, "nodes": ("n1", "n2")}
    assert summary_text(bare.model_copy(update={**named, "gpus": (LONG,)})) == (
        "Job 12, account physics, partition gpu (running) SIMULATED, no GPU was measured\n"
        "OFU 25.0% over 100.00 GPU-hours, 1 GPU (1 MIG instance) on n1, n2, measured 50.0% of the time\n"
        "  n1 GPU 3/7 (GPU-3, 1 GPUs): OFU 25.0%, observed 360000 of 720000 GPU-seconds"
    )
    assert summary_text(bare.model_copy(update={"gpus": ()})) == (
        "Job 12 (running)\nOFU none over 0.00 GPU-hours, 0 GPUs on n1, measured none of the time"
    )


def test_the_text_of_a_job_that_reports() -> None:
    adjusted = Adjusted(0.024, "exact", 27 * HOUR, 90 * HOUR)
    told = reporting(
        outcomes={"overlap": 3}, causes=Causes((FIRST, FIRST), 2), adjusted=adjusted, **ABOVE
    )
    assert summary_text(
        told.model_copy(update={"gpus": (LONG,), "distribution": {}})
    ).splitlines() == [
        "Job 12, name llama, user ada, array 10_2 (running)",
        "OFU 25.0% over 100.00 GPU-hours, 1 GPU (1 MIG instance) on n1, measured 50.0% of the time",
        "Reported MFU 40.0%, OFU of the same seconds 34.0%: mfu_above_ofu (0 reports, 3 refused)",
        "OFU without what tiles add 30.0%, over 90.00 GPU-hours: they add 2.4%",
        "Likeliest cause (2 fit equally well): fp8_peak_for_bf16: "
        "the peak of fp8 is twice that of bf16",
        "With more facts: ofu-exporter explain --mfu 40.00% --ofu 34.00% --clock cycles --gpu NAME "
        "--gpus N --config FILE --seq-len N --tokens-per-second N",
        "  n1 GPU 3/7 (GPU-3, 1 GPUs): OFU 25.0%, observed 360000 of 720000 GPU-seconds",
    ]
    assert "No known cause fits" in summary_text(reporting(causes=Causes(), **ABOVE))


def test_a_simulated_node_makes_the_whole_simulated() -> None:
    both = merged([made(), made("n2", simulated=True)])
    assert one_line(both).endswith("simulated=yes")
    assert "SIMULATED" in summary_text(both)


def test_a_recorded_job_is_told_from_one_that_runs_here() -> None:
    recorded = made().model_copy(update={"scheduler": "replay"})
    assert summary_text(recorded).splitlines()[0].endswith(" RECORDED, not on this machine")
    assert "RECORDED" not in summary_text(made())


def test_a_summary_says_what_was_reported_and_why_it_may_differ() -> None:
    assert "mfu=40.0% verdict=mfu_above_ofu cause=fp8_peak_for_bf16" in one_line(reporting(**ABOVE))
    lines = summary_text(reporting(**ABOVE)).splitlines()
    compared = "Reported MFU 40.0%, OFU of the same seconds 34.0%: mfu_above_ofu"
    assert f"{compared} (5 reports, 1 refused)" in lines
    assert f"Likeliest cause: {FIRST.cause}: {FIRST.evidence}" in lines
    several = summary_text(reporting(causes=Causes((FIRST, FIRST, FIRST), 3), **ABOVE))
    assert "Likeliest cause (3 fit equally well): fp8" in several
    assert "No known cause fits" in summary_text(reporting(causes=Causes(), **ABOVE))


def test_a_summary_of_what_was_not_compared_says_so() -> None:
    early = reporting(total=Compared(), outcomes={"accepted": 1}, causes=None)
    assert "Reported MFU 42.0%, too little data: needs 60 s, has 0 (1 report)" in summary_text(
        early
    )
    assert "mfu=" not in one_line(early)


@every(
    [
        ("exact", "OFU without what tiles add 30.0%, over 10.00 GPU-hours: they add 2.4%"),
        (None, "OFU without what tiles add 30.0%, over 10.00 GPU-hours: they add 2.4%"),
        (
            "lower",
            "OFU without what tiles add, at most 30.0%, over 10.00 GPU-hours: they add at least 2.4%",
        ),
    ]
)
def test_a_summary_says_ofu_without_tiles_and_whether_it_is_a_bound(
    bound: Bound | None, line: str
) -> None:
    adjusted = Adjusted(0.024, bound, 10800.0, 36000.0)
    assert line in summary_text(reporting(adjusted=adjusted)).splitlines()
    assert line in summary_text(reporting(adjusted=adjusted, total=Compared())).splitlines()
    assert "without what tiles add" not in summary_text(reporting())


def test_instances_are_parts_of_gpus_in_words_too() -> None:
    parts = [
        LONG.model_copy(update={"gpu_instance": number, "share_ratio": share})
        for number, share in (("1", 3 / 7), ("2", 4 / 7))
    ]
    both = made(gpus=tuple(parts))
    assert " gpus=1 gpu_hours=200.00 " in one_line(both)
    assert "1 GPU (2 MIG instances) on n1, measured" in summary_text(both)
    line = "GPU 3/1 (GPU-3, 0.43 GPUs): OFU 25.0%, observed 360000 of 720000 GPU-seconds"
    assert line in summary_text(both)
    assert " gpus=0.43 " in one_line(made(gpus=(parts[0],)))
    assert "0.43 GPUs (1 MIG instance) on n1, measured" in summary_text(made(gpus=(parts[0],)))


def test_the_text_says_where_the_peak_went_the_largest_loss_first() -> None:
    lost = {Loss.CLOCK: 36_000.0, Loss.NO_TENSOR: 180_000.0, Loss.IDLE: 72_000.0}
    bounds = {
        Bottleneck.MEMORY: Bounds(144_000.0, 162_000.0),
        Bottleneck.LINKS: Bounds(0.0, 18_000.0),
    }
    split = LONG.model_copy(
        update={
            "lost_seconds": lost,
            "gained_seconds": 18_000.0,
            "no_tensor_bounds": bounds,
            "energy_joules": 7.2e6,
            "idle_energy_joules": 3.6e5,
        }
    )
    lines = summary_text(reporting().model_copy(update={"gpus": (split,)})).splitlines()
    assert lines[2:5] == [
        "Of the peak: used 25.0%; no tensor work 50.0%, idle 20.0%, clock 5.0%",
        "While no tensor work ran: memory 40% to 45%, links 0% to 5%; most of it memory",
        "Energy 2 kWh, 0.1 kWh of it in windows without a kernel",
    ]


def test_where_it_cannot_be_told_the_text_says_so() -> None:
    bounds = {
        Bottleneck.MEMORY: Bounds(0.0, 90_000.0),
        Bottleneck.LINKS: Bounds(0.0, 90_000.0),
    }
    split = LONG.model_copy(
        update={"lost_seconds": {Loss.NO_TENSOR: 270_000.0}, "no_tensor_bounds": bounds}
    )
    said = summary_text(reporting().model_copy(update={"gpus": (split,)}))
    assert "links 0% to 25%; these counters cannot tell which is largest" in said


def test_runs_are_listed_where_a_node_had_more_than_one() -> None:
    """One run on each of two nodes is one run of the job."""
    once = merged([made("n1"), made("n2")])
    assert len(once.runs) == 2
    assert " run since " not in summary_text(once)
    again = RunTotals(
        node="n1",
        began=500.0,
        ended=600.0,
        held_seconds=10.0,
        observed_seconds=9.0,
        utilization_seconds=3.0,
    )
    twice = once.model_copy(update={"runs": (again, *once.runs)})
    assert summary_text(twice).count(" run since ") == 3


def test_the_text_says_where_the_time_of_a_trace_went() -> None:
    parts = TimeParts(0.4, 0.2, 0.05, 0.04, 0.31)._asdict()
    finding = Finding("host_bound", 0.31, 0.6, "9000 launches\x1b[2J", "Fuse them.")
    traced = summary_text(
        reporting(trace=TraceSummary(5.0, 2, 4.0, parts, (finding,), slowest_rank=1))
    )
    assert "A trace of 2 ranks, 2 s each: tensor 40.0%, other 20.0%" in traced
    assert "  the others waited most for rank 1\n" in traced
    assert "  host_bound, at most 31.0%: 9000 launches\\x1b[2J. Fuse them." in traced
    seen = TraceSummary(5.0, 2, 4.0, parts, counters={"used": 0.3, "idle": 0.7})
    beside = summary_text(reporting(trace=seen))
    assert "  the counters meanwhile, of the peak: used 30.0%, idle 70.0%\n" in beside
