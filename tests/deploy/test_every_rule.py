"""Every recording rule has a case: one that nothing else tests gives what steady jobs come to by hand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import pytest

from ofu_exporter.fleet.changes import peer_hours
from ofu_exporter.fleet.digest import signs
from ofu_exporter.fleet.history import progress_reader, queries, served
from ofu_exporter.fleet.history.queries import Quantity
from tests.deploy.promtool import ALERTS, RULES, groups, patterns, read_yaml, run, the_alert

MINUTES = 240
IDLE = {"a": 0.03, "b": 0.95, "c": 1.0}
"""Shares of the time in which no kernel ran on the one GPU of each job, whose node and owners have its name."""
OFU, TENSOR = {"a": 0.4, "b": 0.2, "c": 0.0}, {"a": 0.5, "b": 0.4, "c": 0.0}
MFU, SEEN, COMPARED = {"a": 0.5, "b": 0.3}, {"a": 0.45, "b": 0.25}, {"a": 0.8, "b": 0.5}
"""What was reported of compared seconds, their OFU, and how many of all they are."""
STARTING, PAUSED = 0.05, 0.02
"""Shares of the time that went into starts and evaluations."""


def _steady(job: str) -> Iterator[tuple[str, str]]:
    """The series of a job: counters by what they gain in a second, and what stays as it is."""
    node, gpu = f'instance="{job}",job_id="{job}"', f'instance="{job}",gpu="0",uuid="{job}"'
    owners = ",".join(f'{each}="{job}"' for each in ("user", "account", "partition", "namespace"))
    counters = {
        f"ofu_gpu_observed_seconds_total{{{gpu}}}": 1.0,
        f"ofu_gpu_utilization_seconds_total{{{gpu}}}": OFU[job],
        f'ofu_gpu_lost_seconds_total{{{gpu},part="idle"}}': IDLE[job],
        f"ofu_gpu_idle_energy_joules_total{{{gpu}}}": 10.0,
        f"ofu_job_gpu_seconds_total{{{node}}}": 1.0,
        f"ofu_job_held_gpu_seconds_total{{{node}}}": 1.0,
        f"ofu_job_utilization_seconds_total{{{node}}}": OFU[job],
        f'ofu_job_lost_seconds_total{{{node},part="idle"}}': IDLE[job],
        f"ofu_job_gained_seconds_total{{{node}}}": 0.05,
        f"ofu_job_energy_joules_total{{{node}}}": 100.0,
        f'ofu_job_reports_total{{{node},outcome="accepted"}}': 0.1,
        f'ofu_job_lost_progress_gpu_seconds_total{{{node},reason="starting"}}': STARTING,
        f'ofu_job_lost_progress_gpu_seconds_total{{{node},reason="evaluation"}}': PAUSED,
        f"ofu_job_step{{{node}}}": 1 / 60,
    }
    if job in MFU:
        counters |= {
            f"ofu_job_compared_gpu_seconds_total{{{node}}}": COMPARED[job],
            f"ofu_job_compared_mfu_seconds_total{{{node}}}": COMPARED[job] * MFU[job],
            f"ofu_job_compared_utilization_seconds_total{{{node}}}": COMPARED[job] * SEEN[job],
        }
    yield from ((name, f"0+{60 * each:.12g}x{MINUTES}") for name, each in counters.items())
    yield f'ofu_gpu_info{{{gpu},model="H100",job_id="{job}"}}', f"1x{MINUTES}"
    yield f"ofu_gpu_tensor_active_ratio{{{gpu}}}", f"{TENSOR[job]}x{MINUTES}"
    yield f"ofu_job_info{{{node},{owners}}}", f"1x{MINUTES}"
    yield f'ofu_job_divergence_verdict{{{node},verdict="mfu_above_ofu"}}', f"1x{MINUTES}"


HOURS_COMPARED = 0.8 + 0.5
MFU_HOURS, SEEN_HOURS = 0.8 * 0.5 + 0.5 * 0.3, 0.8 * 0.45 + 0.5 * 0.25
STANDS = 0.95 + 1.0
"""GPUs that stand for more than nine tenths of a minute: what that costs are these without their starts."""
LOST_WORK = 0.4 * (0.05 + 0.02 - 0.03) / 0.97
"""Of what job a works: its starts and evaluations are first the time in which no kernel ran."""
SUMS = {
    **{f"{by}:ofu:ratio_rate5m": 0.4 + 0.2 for by in ("account", "partition")},
    **{f"{by}:ofu_compared:ratio_rate15m": 0.45 + 0.25 for by in ("user", "account", "partition")},
    "namespace:mfu:ratio_rate15m": 0.5 + 0.3,
    "namespace:ofu_compared:ratio_rate15m": 0.45 + 0.25,
    **{f"{by}:observed_gpu_hours:increase1h": 3 for by in ("job", "owner", "model", "cluster")},
    **{f"{by}:utilized_gpu_hours:increase1h": 0.4 + 0.2 for by in ("job", "owner", "model")},
    "cluster:utilized_gpu_hours:increase1h": 0.4 + 0.2,
    "cluster:job_ofu:ratio_rate5m": (0.4 + 0.2) / 3,
    "cluster:ofu_compared:ratio_rate15m": SEEN_HOURS / HOURS_COMPARED,
    "cluster:ofu_job_divergence_verdict:count": 3,
    "cluster:ofu_job_gpu_seconds:rate5m": 3,
    "cluster:ofu_job_utilization_seconds:rate5m": 0.4 + 0.2,
    "job:ofu:ratio_sum1d": 0.4 + 0.2,
    "job:ofu_gpu_tensor_active:avg5m": 0.5 + 0.4,
    "job:clock:ratio_rate5m": 0.4 / 0.5 + 0.2 / 0.4,
    "job:compared_gpu_hours:increase1h": HOURS_COMPARED,
    "job:compared_mfu_gpu_hours:increase1h": MFU_HOURS,
    "job:compared_utilized_gpu_hours:increase1h": SEEN_HOURS,
    "job:gained_gpu_hours:increase1h": 3 * 0.05,
    "job:energy_joules:increase1h": 3 * 100 * 3600,
    "job:idle_energy_joules:increase1h": 3 * 10 * 3600,
    "job:idle_gpu_hours:avg1h": 1,
    "job:ofu_job_reports:rate15m": 3 * 0.1,
    "job:ofu_job_step:max1h": 3 * MINUTES,
    "job_gpu:engine_idle:ratio1m": 0.03 + 0.95 + 1,
    "job:idle_gpus:sum1m": 0.03 + 0.95 + 1,
    "job:busy_gpus:sum1m": 0.97 + 0.05,
    "job:watched_gpu_hours:sum1h": 3,
    "job:standing_gpus:sum1m": STANDS,
    "job:starting_gpus:rate1m": 3 * STARTING,
    "job:lost_progress_gpus:rate1m": STANDS - 2 * STARTING,
    "job:lost_progress_paused_gpus:rate1m": PAUSED,
    "job:lost_progress_gpu_hours:sum1h": 3 * STARTING + STANDS - 2 * STARTING + PAUSED,
    "job:lost_progress_utilization:rate1m": LOST_WORK,
    "job:lost_progress_utilized_gpu_hours:sum1h": LOST_WORK,
    "owner:held_gpu_hours:increase1h": 3,
    "owner:lost_gpu_hours:increase1h": 0.03 + 0.95 + 1,
    "owner:compared_gpu_hours:increase1h": HOURS_COMPARED,
    "owner:compared_mfu_gpu_hours:increase1h": MFU_HOURS,
    "owner:compared_utilized_gpu_hours:increase1h": SEEN_HOURS,
    "owner:ofu_job_compared_utilization_seconds:rate15m": SEEN_HOURS,
}
"""What each rule comes to, added up over its series."""


@pytest.mark.slow
@pytest.mark.prometheus
def test_what_steady_jobs_come_to(tmp_path: Path) -> None:
    series = [{"series": each, "values": values} for job in IDLE for each, values in _steady(job)]
    at = f"{MINUTES}m"
    cases = [
        {
            "expr": f"round(sum({rule}), 1e-6)",
            "eval_time": at,
            "exp_samples": [{"labels": "{}", "value": round(value, 6)}],
        }
        for rule, value in SUMS.items()
    ]
    assert run([{"input_series": series, "promql_expr_test": cases}], tmp_path) == "SUCCESS"


def _beside() -> Iterator[tuple[str, str]]:
    """What a job of three GPUs has, of which the last is slow, a GPU of no job, and what jobs are seen with."""
    for gpu, ofu in {"0": 0.4, "1": 0.4, "2": 0.1, "3": 0.0005}.items():
        job = "" if gpu == "3" else ',job_id="d"'
        which = f'instance="d",gpu="{gpu}",uuid="d{gpu}"'
        yield f"ofu_gpu_observed_seconds_total{{{which}}}", f"0+60x{MINUTES}"
        yield f"ofu_gpu_utilization_seconds_total{{{which}}}", f"0+{60 * ofu}x{MINUTES}"
        yield f"ofu_gpu_tensor_active_ratio{{{which}}}", f"{ofu}x{MINUTES}"
        yield f"ofu_gpu_sm_clock_hertz{{{which}}}", f"{1e9 + 1e9 * ofu:.0f}x{MINUTES}"
        yield f'ofu_gpu_info{{{which},model="H100"{job}}}', f"1x{MINUTES}"
    yield 'ofu_exporter_simulated{instance="d"}', f"0x{MINUTES}"
    for name, by, values in (
        ("divergence_cause", ',cause="wrong_peak"', "1"),
        ("finding_seconds_total", ',finding="launch"', "0+3"),
        ("traced_seconds_total", "", "0+12"),
        ("restarts_total", "", "0+1"),
        ("memory_busy_seconds_total", "", "0+6"),
        ("memory_gpu_seconds_total", "", "0+60"),
        ("engines", ',role="both"', "2"),
        ("tokens_total", ',served_model="llama",kind="answer"', "0+90"),
    ):
        yield f'ofu_job_{name}{{instance="a",job_id="a"{by}}}', f"{values}x{MINUTES}"
    asked_nothing = 'instance="c",job_id="c",served_model="llama"'
    yield f'ofu_job_tokens_total{{{asked_nothing},kind="answer"}}', f"5x{MINUTES}"
    yield f"ofu_job_requests_running{{{asked_nothing}}}", f"0x{MINUTES}"


QUANTITIES = {
    each
    for module in (queries, progress_reader, served, peer_hours, signs)
    for value in vars(module).values()
    for each in (value if type(value) is tuple else (value,))
    if isinstance(each, Quantity) and each.recorded and each.raw
} - {progress_reader.LOST, progress_reader.UTILIZED}
"""What a report reads of recorded series or of the agents' own; lost progress is told only roughly by the latter."""


@pytest.mark.slow
@pytest.mark.prometheus
def test_a_report_reads_the_same_where_no_rule_kept_anything(tmp_path: Path) -> None:
    every = [*chain.from_iterable(map(_steady, IDLE)), *_beside()]
    series = [{"series": each, "values": values} for each, values in every]
    cases = [
        {
            "expr": f"abs(sum({each.recorded}) - sum({raw})) < bool 0.005 * sum({raw}) + 1e-9",
            "eval_time": f"{MINUTES}m",
            "exp_samples": [{"labels": "{}", "value": 1}],
        }
        for each in QUANTITIES
        for raw in [each.of_cluster("")]
    ]
    assert run([{"input_series": series, "promql_expr_test": cases}], tmp_path) == "SUCCESS"


def test_no_rule_is_without_a_case() -> None:
    """Its own here or in rules/, or that of an alert or a rule that reads it."""
    rules = {
        rule["record"]: rule["expr"]
        for path in RULES
        for group in groups(path)
        for rule in group["rules"]
    }
    asked = [
        case["expr"]
        for path in (Path(__file__).parent / "rules").glob("*.test.yaml")
        for test in read_yaml(path)["tests"]
        for case in test.get("promql_expr_test", ())
    ]
    asked += [the_alert(path)["expr"] for path in ALERTS]
    assert sorted(rules.keys() - _read(rules, [*asked, *SUMS])) == []


def _read(rules: dict[str, str], expressions: Iterable[str]) -> set[str]:
    """The rules that expressions read, directly or not."""
    found: set[str] = set()
    todo = list(expressions)
    while todo:
        wanted = re.compile("|".join(patterns(todo.pop())))
        new = {name for name in rules.keys() - found if wanted.fullmatch(name)}
        found |= new
        todo += [rules[name] for name in new]
    return found
