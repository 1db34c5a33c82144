"""The history of a fleet is what the recording rules would have kept, and can be read back."""

from __future__ import annotations

import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path

import pytest

from tests.deploy.monitoring import victoria_metrics
from tests.deploy.promtool import RULES, groups
from tests.helpers.agent import until
from tests.helpers.fleets import BEGIN, with_history
from tests.helpers.prometheus_server import Prometheus
from tests.helpers.rule_engine import Labels, name_of, recorded
from tests.simulated_history import __main__ as command
from tests.simulated_history import history
from tests.simulated_history.fleet import LEVELS, RecordedFleet
from tests.simulated_history.history import level_of
from tests.simulated_history.raw_pages import raw_lines
from tests.simulated_history.series import RecordedSeries

PER_GPU = ("gpu:", "job_gpu:", "job:idle_gpu_hours:", "job:idle_energy_joules:")
OF_PROGRESS = (
    *("job:busy_gpus:", "job:idle_gpus:sum1m", "job:standing_gpus:", "job:starting_gpus:"),
    *("job:lost_progress_", "job:ofu_job_step:", "job:restarts:", "job:done_again_gpu_seconds:"),
    "job:watched_gpu_hours:",
)
"""What the written history lacks: it takes a minute of each GPU, and steps."""
"""What rules keep of each GPU is no part of the history: it would be as large as the pages."""
LOADS = """
length: 130m
cluster: test
models:
  dense:
    seq_len: 4096
    config: {architectures: [LlamaForCausalLM], hidden_size: 512, intermediate_size: 2048, num_hidden_layers: 4,
      num_attention_heads: 8, num_key_value_heads: 8, vocab_size: 1000, tie_word_embeddings: false}
nodes:
  - {name: h, count: 3, model: H100, gpus: 2, partition: batch}
  - {name: a, count: 1, model: A100, gpus: 2, partition: old}
  - {name: mig, count: 1, model: H100, gpus: 1, mig: [3g.40gb, 3g.40gb], partition: mig}
jobs:
  - {name: honest, users: [ada], account: physics, partition: batch, gpus: 2, mfu: 0.38,
     report: {framework: lightning}, lasts: 75m}
  - {name: over, users: [grace], namespace: ml, partition: batch, gpus: 2, mfu: 0.30, start: 10m,
     report: {model: dense, mistake: full_attention_counted}}
  - {name: slow, users: [alan], partition: old, gpus: 1, ofu: 0.35, changes: [{at: 30m, factor: 0.4}],
     watts: 250, serves: {model: rollouts, role: decode, tokens: {generation: 90}, memory: 0.5}}
  - {name: idle, users: [alan], partition: old, gpus: 1, work: idle}
  - {name: crash, users: [eve], partition: batch, gpus: 2, mfu: 0.3, start: 5m, lasts: 100m, report: {framework: nemo},
     crashes: {every: 40m, pause: 2m}}
  - {name: mig, users: [eve], mig: 3g.40gb, gpus: 2, ofu: 0.2, work: inference,
     serves: {tokens: {prompt: 900, cached: 100, generation: 50}, memory: 0.7}}
faults:
  - {fault: gpu_lost, nodes: [h1], gpus: [1], at: 40m, lasts: 20m}
history: {segment: 1h, raw: [{nodes: [h1..3, a1, mig1], lasts: 130m}]}
"""
FAULTS = """
length: 80m
nodes:
  - {name: h, count: 4, model: H100, gpus: 2}
jobs:
  - {name: straggler, users: [ada], gpus: 2, mfu: 0.38, report: {every: 2m}, straggler: {gpu: 0, share: 0.3}}
  - {name: missing, users: [eve], gpus: 4, ofu: 0.3, straggler: {gpu: 1, clock_mhz: 900}}
  - {name: unread, users: [eve], gpus: 2, ofu: 0.3}
faults:
  - {fault: agent_missing, nodes: [h2], at: 20m, lasts: 20m}
  - {fault: clock_limit, nodes: [h3], gpus: [1], clock_mhz: 700, at: 10m, lasts: 40m}
  - {fault: counters_dead, nodes: [h3], gpus: [0], at: 30m, lasts: 10m}
  - {fault: source_lost, nodes: [h4], at: 20m, lasts: 15m}
history: {raw: [{nodes: [h1..4], lasts: 80m}]}
"""
CALM = (18, 60, 78)
"""Minutes of it that are at least 15 away from the begin and the end of what goes wrong on counters."""
MINUTES = (3, 7, 12, 20, 45, 60, 75, 79, 84, 90, 100, 107, 114, 120, 126)
"""Some at which jobs begin, crash, end and are forgotten."""
NEAR = 0.02
"""Error of the history that its documentation states, as a share of the value."""
NEAR_AT_BEGIN = 0.06
"""The same of a mean over GPUs in the first 5 minutes of a job: scrapes and minutes count the time before it."""


def samples(lines: Iterator[tuple[str, int]] | None) -> dict[str, dict[int, float]]:
    """Values by series and second since the begin."""
    found: dict[str, dict[int, float]] = {}
    assert lines is not None
    for text, _ in lines:
        for line in text.splitlines():
            if not line.startswith("#"):
                series, value, unix = line.rsplit(" ", 2)
                found.setdefault(series, {})[int(float(unix) - BEGIN)] = float(value)
    return found


def kept(recorded: Iterable[RecordedSeries], minute: int) -> dict[Labels, float]:
    """What the history has at a minute."""
    found = {}
    for series in recorded:
        labels = {"__name__": series.name, **series.labels}
        for _, value in series.samples(minute, minute + 1):
            found[frozenset((k, v) for k, v in labels.items() if v)] = value
    return found


def is_kept_at(minute: int) -> Callable[[str], bool]:
    """Whether a series of this name has a sample at a minute: hours and baselines are not evaluated at each."""

    def kept(name: str) -> bool:
        if name.startswith((*PER_GPU, *OF_PROGRESS)):
            return False
        if name.endswith(("increase1h", "topk1_1h", "avg1h", "max1h")):
            return minute % 60 == 0
        baselines = ("sum30m", "sum1h", "sum1d", "count1h", "quantile10_1d", "job_ofu:count")
        return minute % 3 == 0 or not name.endswith(baselines)

    return kept


@pytest.fixture(scope="module")
def loads(tmp_path_factory: pytest.TempPathFactory) -> RecordedFleet:
    return with_history(LOADS, tmp_path_factory.mktemp("loads"))


@pytest.fixture(scope="module")
def series(loads: RecordedFleet) -> list[RecordedSeries]:
    """The history of the fleet of LOADS."""
    return history.recorded(loads, BEGIN)


@pytest.fixture(scope="module")
def pages(loads: RecordedFleet) -> dict[str, dict[int, float]]:
    """The pages of all of its nodes."""
    return samples(raw_lines(loads, BEGIN, (0, 130)))


@pytest.mark.slow
@pytest.mark.prometheus
def test_the_history_is_what_the_rules_make_of_the_pages(
    series: list[RecordedSeries], pages: dict[str, dict[int, float]], tmp_path: Path
) -> None:
    """Prometheus' own engine evaluates our rules over the pages of all nodes."""
    ours = {name: values for name, values in pages.items() if name.startswith("ofu_")}
    for minute, wanted in recorded(ours, 15, MINUTES, tmp_path).items():
        is_kept = is_kept_at(minute)
        expected = {labels: value for labels, value in wanted.items() if is_kept(name_of(labels))}
        found = kept(series, minute)
        assert found.keys() == expected.keys(), minute
        for labels, value in expected.items():
            is_mean = name_of(labels) in (
                "job:ofu_gpu_tensor_active:avg5m",
                "job:clock:ratio_rate5m",
            )
            near = NEAR_AT_BEGIN if is_mean else NEAR
            least = near if "lost" in name_of(labels) else near / 10
            assert found[labels] == pytest.approx(value, rel=near, abs=least), (minute, labels)


@pytest.mark.slow
@pytest.mark.prometheus
def test_around_faults_there_are_the_same_series_with_other_values(tmp_path: Path) -> None:
    made = with_history(FAULTS, tmp_path)
    series, pages = history.recorded(made, BEGIN), samples(raw_lines(made, BEGIN, (0, 80)))
    ours = {name: values for name, values in pages.items() if name.startswith("ofu_")}
    minutes = tuple(sorted({*CALM, 24, 27, 33, 36, 39, 42, 48}))
    for minute, wanted in recorded(ours, 15, minutes, tmp_path).items():
        is_kept = is_kept_at(minute)
        expected = {labels: value for labels, value in wanted.items() if is_kept(name_of(labels))}
        found = kept(series, minute)
        assert found.keys() == expected.keys(), minute
        for labels, value in expected.items() if minute in CALM else ():
            if not name_of(labels).endswith("increase1h"):
                least = NEAR if "lost" in name_of(labels) else NEAR / 10
                assert found[labels] == pytest.approx(value, rel=NEAR, abs=least), (
                    minute,
                    labels,
                )


def test_every_rule_is_kept_or_of_single_gpus(series: list[RecordedSeries]) -> None:
    rules = {rule["record"] for path in RULES for group in groups(path) for rule in group["rules"]}
    made = {one.name for one in series}
    no_job_is_traced = {"job:ofu_job_finding:ratio"}
    no_report_is_refused = {"cluster:ofu_exporter_rejected_reports:rate15m"}
    no_engine_is_idle = {"job:idle_engine_joules:increase1h"}
    of_gpus = {rule for rule in rules if rule.startswith((*PER_GPU, *OF_PROGRESS))}
    assert rules - made == (of_gpus | no_job_is_traced | no_report_is_refused | no_engine_is_idle)
    assert made <= rules


def written(text: str, folder: Path) -> dict[str, bytes]:
    folder.mkdir()
    made = with_history(text, folder)
    (folder / "fleet.yaml").unlink()
    list(history.write(made, BEGIN, folder))
    return {path.name: path.read_bytes() for path in folder.iterdir()}


SHORT = LOADS.replace("nodes: [h1..3, a1, mig1], lasts: 130m", "nodes: [h1], at: 50m, lasts: 20m")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of SHORT."""
    return written(SHORT, tmp_path_factory.mktemp("short") / "whole")


@pytest.mark.slow
def test_equal_seeds_make_equal_bytes(whole: dict[str, bytes], tmp_path: Path) -> None:
    assert whole == written(SHORT, tmp_path / "b")
    assert whole.keys() == {
        "recorded-2025-08-27T0000Z.om",
        "recorded-2025-08-27T0100Z.om",
        "recorded-2025-08-27T0200Z.om",
        "raw-2025-08-27T0000Z.om",
        "raw-2025-08-27T0100Z.om",
    }
    assert whole != written(SHORT + "seed: 2\n", tmp_path / "c")


def test_levels_that_are_not_wanted_are_left_out(
    series: list[RecordedSeries], tmp_path: Path
) -> None:
    text = LOADS.replace("history: {", "history: {levels: [node, hour], ")
    some = history.recorded(with_history(text, tmp_path), BEGIN)
    assert {level_of(one.name) for one in some} == {"node", "hour"}
    assert {level_of(one.name) for one in series} == {*LEVELS}


def test_recorded_series_say_what_is_true(
    loads: RecordedFleet, series: list[RecordedSeries]
) -> None:
    """What is not measured has no weight, so that a lost GPU moves the mean a little."""
    for truth in loads.jobs:
        start, end = truth.job.start, truth.job.end
        if start >= 60 or not truth.job.draft.ofu:
            continue
        found = {
            one.name: value
            for one in series
            if one.labels.get("job_id") == truth.job.draft.job_id
            for _, value in one.samples(60, 61)
        }
        running = sum(truth.is_running[: 60 - start])
        mean = truth.mean(60 * start, 3600) * (60 - start) / running
        assert end >= 60
        assert found["job:ofu:ratio_increase1h"] == pytest.approx(mean, rel=2e-3)


@pytest.fixture(scope="module")
def yesterday(tmp_path_factory: pytest.TempPathFactory) -> tuple[float, Path]:
    """History of yesterday: databases drop what is older than they keep. With the Unix time of its begin."""
    folder = tmp_path_factory.mktemp("yesterday")
    begin = time.time() // 86400 * 86400 - 86400
    list(history.write(with_history(SHORT, folder), begin, folder))
    return begin, folder


QUERIES = {
    'job:ofu:ratio_rate5m{job_name="honest"}': "job:ofu:ratio_rate5m",
    "cluster:ofu:ratio_rate5m": "cluster:ofu:ratio_rate5m",
    'user:mfu:ratio_rate15m{user="grace"}': "user:mfu:ratio_rate15m",
    "sum(node:ofu_gpu_info:topk1)": "",
}


def expected(folder: Path, query: str, unix: float) -> float:
    """The value that the files have."""
    name, _, rest = query.partition("{")
    label = rest.rstrip("}")
    lines = (line for path in folder.glob("recorded*") for line in path.read_text().splitlines())
    (value,) = (
        float(line.split()[-2])
        for line in lines
        if line.partition("{")[0] == name and label in line and line.endswith(f" {unix:.0f}")
    )
    return value


def check(ask: Callable[[str, float], float], begin: float, folder: Path) -> None:
    unix = begin + 3600
    for query, name in QUERIES.items():
        wanted = expected(folder, query, unix) if name else 5.0
        assert ask(query, unix) == pytest.approx(wanted, rel=1e-8), query
    assert ask("ofu_exporter_simulated", unix) == 1.0
    assert ask('up{instance="h1",cluster="test"}', unix) == 1.0


def run_as_documented(program: str, history_folder: Path, folder: Path, url: str = "") -> None:
    """Run the line of the command's own documentation that has this program, in a folder."""
    lines = (command.__doc__ or "").splitlines()
    (line,) = (
        line.strip() for line in lines if "for file in history/*.om" in line and program in line
    )
    (folder / "history").symlink_to(history_folder)
    filled = line.replace("http://127.0.0.1:8428", url)
    subprocess.run(["bash", "-ec", filled], cwd=folder, check=True, capture_output=True)


@pytest.mark.slow
@pytest.mark.prometheus
def test_prometheus_reads_the_history_back(yesterday: tuple[float, Path], tmp_path: Path) -> None:
    begin, folder = yesterday
    run_as_documented("promtool", folder, tmp_path)
    server = Prometheus(tmp_path, {})
    try:
        until(server.ready)

        def ask(query: str, unix: float) -> float:
            (row,) = server.query(query, unix)
            return float(row["value"][1])

        check(ask, begin, folder)
    finally:
        server.stop()


@pytest.mark.slow
@pytest.mark.prometheus
def test_victoria_metrics_reads_the_history_back(
    yesterday: tuple[float, Path], tmp_path: Path
) -> None:
    begin, folder = yesterday
    with victoria_metrics(tmp_path / "victoria", []) as server:
        run_as_documented("curl", folder, tmp_path, server.url)
        urllib.request.urlopen(f"{server.url}/internal/force_flush", timeout=20).close()

        def ask(query: str, unix: float) -> float:
            (row,) = server.query(f"({query}) @ {unix:.0f}")
            return float(row["value"][1])

        check(ask, begin, folder)


@pytest.mark.slow
def test_raw_pages_and_recorded_series_are_of_one_truth(
    loads: RecordedFleet, pages: dict[str, dict[int, float]]
) -> None:
    used, seconds = (
        {
            series: values[3585]
            for series, values in pages.items()
            if series.startswith(f"ofu_job_{name}_total") and 'job_id="1003"' in series
        }
        for name in ("utilization_seconds", "gpu_seconds")
    )
    ofu = sum(used.values()) / sum(seconds.values())
    assert ofu == pytest.approx(loads.jobs[2].mean(0, 3585), rel=0.005)


@pytest.mark.slow
def test_a_file_has_each_metric_once_and_its_end(whole: dict[str, bytes]) -> None:
    for name, content in whole.items():
        lines = content.decode().splitlines()
        assert lines[-1] == "# EOF", name
        metrics = [line.partition("{")[0].split()[0] for line in lines if not line.startswith("#")]
        runs = [metric for metric, _ in groupby(metrics)]
        assert len(runs) == len(set(runs)), name
