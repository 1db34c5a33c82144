"""A report from dcgm-exporter's history alone: old and new names, pods and Slurm jobs, MIG, and what is not known.

The lines have the labels that pages of dcgm-exporter have: with Slurm's mapping `hpc_job`, in Kubernetes `pod` and
`namespace`, pushed aside to `exported_...` where Prometheus does not honour labels, and `GPU_I_PROFILE` of MIG
(https://github.com/NVIDIA/dcgm-exporter).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ofu_exporter.errors import QueryError
from ofu_exporter.fleet.chunks import ChunkReader
from ofu_exporter.fleet.history.dcgm_queries import SPREAD
from ofu_exporter.fleet.history.fleet_history import ClusterJob, FleetHistory
from ofu_exporter.fleet.history.from_dcgm import _Looks, _parts, owner_of, read_dcgm_history
from ofu_exporter.fleet.history.prices import Prices
from ofu_exporter.fleet.prometheus import PrometheusClient
from ofu_exporter.fleet.reports.fleet_report import ReportOptions, fleet_report
from ofu_exporter.fleet.series import Series
from ofu_exporter.hardware.gpu_models import rate
from ofu_exporter.values.gpu import LOW_PRECISION, Gpu
from ofu_exporter.values.reasons import QueryReason
from tests.fleet.reports.test_funnel import told
from tests.helpers.every import every
from tests.helpers.prometheus_server import Prometheus
from tests.helpers.stored_fleet import BEGIN, HOUR, labelled, openmetrics, reading, stored_pages

H100, A100, T4 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "Some GPU of tomorrow"


class DcgmGpu(NamedTuple):
    """One GPU or instance, busy from one hour to another."""

    labels: dict[str, str]
    activity: float | None
    clock_mhz: float
    begin: float = 0.0
    end: float = 6.0
    is_new: bool = False
    engine: float | None = None
    sms: float | None = None


def gpu(number: int, model: str, **labels: str) -> dict[str, str]:
    named = {"gpu": str(number), "UUID": f"GPU-{model}-{number}", "modelName": model}
    return {"job": "dcgm", "instance": "n1:9400", **named, **labels}


GPUS = (
    DcgmGpu(gpu(0, H100, hpc_job="77"), 0.5, 1464.0, engine=0.9, sms=0.8),
    DcgmGpu(gpu(1, H100, hpc_job="77"), 0.3, 1830.0, engine=0.7),
    DcgmGpu(gpu(2, H100, pod="train-0", namespace="ml"), 0.4, 915.0, 1.0, 4.0, is_new=True),
    DcgmGpu(gpu(3, H100), 0.0, 345.0),
    DcgmGpu(
        gpu(4, A100, GPU_I_ID="1", GPU_I_PROFILE="3g.40gb", pod="infer", namespace="web"),
        0.0,
        1410.0,
    ),
    DcgmGpu(gpu(5, T4, hpc_job="78"), 0.9, 1500.0),
    DcgmGpu(gpu(6, H100, hpc_job="79"), None, 1500.0),
    DcgmGpu(
        {**gpu(7, H100, pod="nvidia-dcgm-exporter-x", namespace="gpu"), "job": "operator"},
        0.0,
        345.0,
    ),
    DcgmGpu(
        gpu(8, H100, exported_pod="real", exported_namespace="ml", pod="x", namespace="gpu")
        | {"job": "operator"},
        0.1,
        1830.0,
    ),
)
OLD = ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_DEV_SM_CLOCK", 1.0)
NEW = ("DCGM_FI_PROF_TENSOR_UTIL_RATIO", "DCGM_FI_DEV_SM_CLOCK_HERTZ", 1e6)


def pages(gpus: Sequence[DcgmGpu] = GPUS) -> str:
    families: dict[str, list[str]] = {}
    for each in gpus:
        activity, clock, unit = NEW if each.is_new else OLD
        first, last = BEGIN + HOUR * each.begin, BEGIN + HOUR * each.end
        times = [first + 30.0 * step for step in range(1, round((last - first) / 30) + 1)]
        values = {
            clock: each.clock_mhz * unit,
            activity: each.activity,
            "DCGM_FI_PROF_GR_ENGINE_ACTIVE": each.engine,
            "DCGM_FI_PROF_SM_ACTIVE": each.sms,
        }
        for name, value in values.items():
            if value is not None:
                lines = [f"{name}{labelled(**each.labels)} {value!r} {time:.3f}" for time in times]
                families.setdefault(name, []).extend(lines)
    return openmetrics(families)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with stored_pages(tmp_path_factory.mktemp("dcgm"), pages()) as running:
        yield running


@pytest.fixture(scope="module")
def history(prometheus: Prometheus) -> FleetHistory:
    return read(prometheus, 24)


def read(prometheus: Prometheus, at_once: int) -> FleetHistory:
    with reading(prometheus.url, at_once) as reader:
        return read_dcgm_history(reader, BEGIN, BEGIN + 6 * HOUR)


@pytest.mark.slow
@pytest.mark.prometheus
@pytest.mark.parametrize("lacking", [range(2, 3), range(6)])
def test_of_hours_that_could_not_be_read_nothing_is_lost(
    prometheus: Prometheus, lacking: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The spread of clocks is too much for the server there, and whose work it was is not."""
    reader = ChunkReader(PrometheusClient(prometheus.url))
    steps = reader.client.steps

    def but_for_some(expression: str, start: float, end: float, step: float) -> list[Series]:
        begin = round((start - BEGIN) / HOUR)
        if expression == SPREAD and {*lacking} & {*range(begin, round((end - BEGIN) / HOUR))}:
            raise QueryError(QueryReason.TOO_MUCH, "too many samples")
        return steps(expression, start, end, step)

    monkeypatch.setattr(reader.client, "steps", but_for_some)
    history = read_dcgm_history(reader, BEGIN, BEGIN + 6 * HOUR)
    reader.client.close()
    assert [each.span.hours for each in reader.missing] == [len(lacking)]
    assert len(history.jobs) == (6 if len(lacking) < 6 else 0)
    assert history.progress.keys() <= history.jobs.keys()
    for each in (job.total for job in history.jobs.values()):
        unused = pytest.approx(each.observed - each.utilized)
        assert each.ofu is None or sum(each.lost.values()) == unused


@pytest.mark.slow
@pytest.mark.prometheus
def test_instances_of_an_unknown_part_of_a_gpu_are_left_out_and_named(tmp_path: Path) -> None:
    profiles = (("3g.40gb", "7"), ("q9.40gb", "8"), ("q9.40gb" + "9" * 20_000, "9"))
    instances = [
        DcgmGpu(gpu(4, A100, GPU_I_ID=job, GPU_I_PROFILE=profile, hpc_job=job), 0.7, 1410.0, end=1)
        for profile, job in profiles
    ]
    with stored_pages(tmp_path, pages(instances)) as running:
        found = read(running, 24)
    held = {key.job_id: job.total.held for key, job in found.jobs.items()}
    assert held == {"7": pytest.approx(3 / 7, rel=0.1)}, "a series ends five minutes late"
    assert f"of an unknown part of a GPU: q9.40gb of {A100}, q9.40gb999" in found.remark
    assert len(found.remark) < 1000


@pytest.mark.slow
@pytest.mark.prometheus
def test_an_hour_is_covered_from_when_pages_were_scraped(tmp_path: Path) -> None:
    """Of the first of two hours the last quarter is known."""
    gpus = [DcgmGpu(gpu(number, H100), 0.4, 1410.0, begin=4.75) for number in (0, 1)]
    with stored_pages(tmp_path, pages(gpus)) as running:
        history = read(running, 24)
    (row,) = fleet_report(
        history, ReportOptions("user", Prices()), ChunkReader(PrometheusClient("http://x"))
    ).clusters
    assert row.covered_ratio == pytest.approx(1.25 / 6, rel=0.02)
    assert row.gpus == pytest.approx(2)


@pytest.mark.slow
@pytest.mark.prometheus
def test_the_chain_says_in_which_hours_all_gpus_of_a_job_worked(tmp_path: Path) -> None:
    """One of two stands for two of six hours, and the other waits for it."""
    labels = [gpu(number, H100, hpc_job="9") for number in (0, 1)]
    stood = DcgmGpu(labels[0], 0.0, 1410.0, end=2, engine=0.0)
    worked = DcgmGpu(labels[0], 0.4, 1410.0, begin=2, engine=0.9)
    with stored_pages(
        tmp_path, pages([stood, worked, DcgmGpu(labels[1], 0.4, 1410.0, engine=0.9)])
    ) as running:
        history = read(running, 24)
    report = fleet_report(
        history, ReportOptions("user", Prices()), ChunkReader(PrometheusClient("http://x"))
    )
    hours = {step.factor: step.gpu_hours for step in report.chain}
    assert [*hours] == ["capacity", "allocated", "together", "ofu"]
    assert hours["allocated"] == pytest.approx(12, rel=0.01)
    assert hours["together"] == pytest.approx(8, rel=0.01)
    whole = report.progress[0]
    assert (whole.held_idle_gpu_hours, whole.alone_gpu_hours) == pytest.approx((2, 2), rel=0.02)
    assert whole.watched_ratio == pytest.approx(1.0, abs=0.01)
    assert (whole.starting_gpu_hours, whole.progress_gpu_hours, whole.restarts) == (None,) * 3


@pytest.mark.slow
@pytest.mark.prometheus
@pytest.mark.xdist_group("dcgm history")
class TestOnARealPrometheus:
    def test_what_is_not_used_goes_to_the_parts_that_each_page_tells_apart(
        self, history: FleetHistory
    ) -> None:
        """GPU 0 has engine and SMs, GPU 1 the engine alone."""
        total = history.jobs[ClusterJob("", "77")].total
        assert total.net_losses == pytest.approx(
            {
                "clock": 6 * (0.5 - 0.4),
                "no_tensor": 6 * 0.3,
                "empty_sms": 6 * 0.1,
                "idle": 6 * (0.1 + 0.3),
                "engine_without_tensor": 6 * 0.4,
            },
            rel=0.01,
        )
        left = total.observed - total.utilized - sum(total.net_losses.values())
        assert left == pytest.approx(0.0, abs=1e-9)

    def test_a_page_without_both_has_one_part_for_all_three(self, history: FleetHistory) -> None:
        total = history.jobs[ClusterJob("", "ml/train-0")].total
        assert total.net_losses.keys() == {"clock", "without_tensor"}

    def test_ofu_is_activity_times_clock_over_the_models_tensor_clock(
        self, history: FleetHistory
    ) -> None:
        job = history.jobs[ClusterJob("", "77")]
        by_hand = (0.5 * 1464e6 / 1830e6 + 0.3) / 2
        assert job.total.ofu == pytest.approx(by_hand, rel=1e-3)
        assert job.total.held == pytest.approx(12, rel=0.01)
        assert max(job.sizes) == 2.0

    def test_new_names_in_hertz_say_the_same(self, history: FleetHistory) -> None:
        job = history.jobs[ClusterJob("", "ml/train-0")]
        assert job.total.ofu == pytest.approx(0.2, rel=1e-3)
        assert job.total.held == pytest.approx(3, rel=0.05)

    def test_an_instance_counts_as_its_part_and_is_idle_without_activity(
        self, history: FleetHistory
    ) -> None:
        total = history.jobs[ClusterJob("", "web/infer")].total
        assert total.held == pytest.approx(6 * 3 / 7, rel=0.01)
        assert total.idle == pytest.approx(total.observed)
        assert total.ofu == 0.0

    @pytest.mark.parametrize("job_id", ["78", "79"])
    def test_an_unknown_model_and_a_gpu_without_the_counter_are_unmeasured_and_not_0(
        self, history: FleetHistory, job_id: str
    ) -> None:
        total = history.jobs[ClusterJob("", job_id)].total
        assert total.held == pytest.approx(6, rel=0.01)
        assert total.observed == 0.0
        assert total.ofu is None

    def test_the_exporters_own_pod_holds_no_gpu(self, history: FleetHistory) -> None:
        assert {key.job_id for key in history.jobs} == {
            *("77", "78", "79", "ml/train-0", "web/infer", "ml/real")
        }

    def test_the_sums_are_the_same_however_the_time_is_cut(
        self, history: FleetHistory, prometheus: Prometheus
    ) -> None:
        for at_once in (1, 2, 4):
            cut = read(prometheus, at_once)
            assert cut.jobs == history.jobs
            assert cut.models == history.models

    def test_the_report_says_how_far_to_trust_it(self, history: FleetHistory) -> None:
        wanted = ReportOptions("namespace", Prices(), 0.4)
        found = fleet_report(history, wanted, ChunkReader(PrometheusClient("http://x")))
        assert "By the spread of activity and clocks in this history, by at most" in found.notes[0]
        assert not any("Load helm" in note for note in found.notes)
        assert found.reporting_ratio == 0.0
        assert {row.name for row in found.groups} == {"(not known)", "ml", "web"}


@every(
    [
        ({"hpc_job": "5", "pod": "x"}, "5"),
        ({"jobid": "51234567", "userid": "12"}, "51234567"),
        ({"pod": "p", "namespace": "n"}, "n/p"),
        ({"pod_name": "p", "pod_namespace": "n", "pod": "dcgm-exporter-1"}, "n/p"),
        ({"job": "op", "exported_pod": "p", "exported_namespace": "n", "pod": "x"}, "n/p"),
        ({"job": "op", "pod": "x", "namespace": "n"}, None),
        ({"pod": "nvidia-dcgm-exporter-abc", "namespace": "gpu"}, None),
        ({}, None),
    ]
)
def test_whose_a_gpu_is_by_its_labels(labels: dict[str, str], job: str | None) -> None:
    found, _ = owner_of(labels, {"op"})
    assert (None if found is None else found.job_id) == job


TESTS = Path(__file__).parents[2]
SAMPLES = TESTS.parents[1] / "shared" / "samples" / "dcgm-exporter"
"""Real pages of others, which are no part of the project. Without them, the invented ones are replayed alone."""
PAGES = (*sorted((TESTS / "pages").glob("*.prom")), *sorted(SAMPLES.glob("*.prom")))
CLOCKS = {"DCGM_FI_DEV_SM_CLOCK": 1e6, "DCGM_FI_DEV_SM_CLOCK_HERTZ": 1.0}
ACTIVITIES = ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_TENSOR_UTIL_RATIO")
Row = tuple[tuple[str, str], ...]


def rows_of(page: Path) -> dict[str, dict[Row, float]]:
    """What a page says, by metric and labels, with those that a scrape adds."""
    found: dict[str, dict[Row, float]] = {}
    scraped = {"cluster": page.stem, "job": "dcgm", "instance": "n1:9400"}
    for family in text_string_to_metric_families(page.read_text()):
        for sample in family.samples:
            own = {
                f"exported_{name}" if name in scraped else name: value
                for name, value in sample.labels.items()
            }
            labels = tuple(sorted({**own, **scraped}.items()))
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def replayed(pages: Iterable[Path]) -> str:
    """An hour in which every page stays as it is, scraped every half minute."""
    families: dict[str, list[str]] = {}
    for page in pages:
        for name, rows in rows_of(page).items():
            for labels, value in rows.items():
                if name in (*CLOCKS, *ACTIVITIES) or name.startswith("DCGM_FI_DEV_GPU_UTIL"):
                    series = f"{name}{labelled(**dict(labels))} {value!r}"
                    times = (BEGIN + 30.0 * step for step in range(1, 121))
                    families.setdefault(name, []).extend(f"{series} {at:.0f}" for at in times)
    return openmetrics(families)


class OnPage(NamedTuple):
    """What the rows of a page come to, by hand."""

    gpus: float
    measured: float
    used: float


def on_page(page: Path) -> OnPage:
    """GPUs with a clock; of these, with an activity and a model that has a tensor clock; and their OFU, added up."""
    rows = rows_of(page)
    activity = {
        labels: value for name in ACTIVITIES for labels, value in rows.get(name, {}).items()
    }
    gpus = measured = used = 0.0
    for name, unit in CLOCKS.items():
        for labels, value in rows.get(name, {}).items():
            named = dict(labels)
            if not 0 < value * unit < 5e9:
                continue
            profile = named.get("GPU_I_PROFILE", "")
            share = int(profile[0]) / SLICES.get(named.get("modelName", ""), 7) if profile else 1.0
            gpus += share
            rating = rate(Gpu("0", "GPU", name=named.get("modelName", "")))
            busy = activity.get(labels)
            if rating is not None and busy is not None and 0 <= busy <= 1.05:
                measured += share
                used += share * busy * value * unit / rating.tensor_clock_hz[LOW_PRECISION]
    return OnPage(gpus, measured, used)


SLICES = {"NVIDIA A30": 4}
"""Slices of a GPU, where they are not 7."""


PERIODS = (10.0, 13.7, 20.0, 25.3, 30.0, 40.0)
HIGH, LOW = (0.95, 1200.0), (0.1, 1980.0)
"""Activity and clock in MHz of both halves of a wave: under load the clock falls."""


def wave(time: float, period: float, phase: float) -> tuple[float, float]:
    return HIGH if (time / period + phase) % 1 < 0.5 else LOW


def wave_pages(per_period: int) -> str:
    """GPUs whose load is a square wave, as dcgm-exporter shows it: mean activity of 30 s, the clock at their end."""
    activities, clocks = [], []
    for number, period in enumerate(PERIODS * per_period):
        labels = labelled(**gpu(number, H100, hpc_job=f"{period:g}"))
        for step in range(1, 241):
            end = BEGIN + 30.0 * step
            phase = number / 7
            seconds = [wave(end - 30 + each / 10, period, phase) for each in range(300)]
            mean = sum(activity for activity, _ in seconds) / 300
            activities.append(f"{OLD[0]}{labels} {mean!r} {end:.3f}")
            clocks.append(f"{OLD[1]}{labels} {wave(end, period, phase)[1]!r} {end:.3f}")
    return openmetrics({OLD[0]: activities, OLD[1]: clocks})


@pytest.mark.slow
@pytest.mark.prometheus
@pytest.mark.xdist_group("dcgm history")
def test_the_stated_bound_holds_where_clock_and_load_change_within_an_interval(
    tmp_path: Path,
) -> None:
    """Some periods divide the interval, so that each of their GPUs shows one clock alone."""
    with stored_pages(tmp_path, wave_pages(4)) as prometheus:
        found = told(prometheus.url, "--from", "dcgm-exporter", end=BEGIN + 2 * HOUR, hours=2)
    truth = (HIGH[0] * HIGH[1] + LOW[0] * LOW[1]) / 2 / 1830
    off = {row.job_id: (row.ofu or 0.0) / truth - 1 for row in found.jobs}
    stated = re.findall(r"(?:at most|and) ([\d.]+)%", found.notes[0])
    fleet, worst = (float(each) / 100 for each in stated)
    assert max(map(abs, off.values())) > 0.1
    assert max(map(abs, off.values())) <= worst
    assert abs((found.ofu or found.total.ofu or 0.0) / truth - 1) <= fleet < 0.6


@pytest.mark.slow
@pytest.mark.prometheus
@pytest.mark.xdist_group("dcgm history")
def test_pages_of_every_form_come_to_what_their_rows_say(tmp_path: Path) -> None:
    """By the command, from a Prometheus that has scraped each page for an hour, each in a cluster of its own."""
    with stored_pages(tmp_path, replayed(PAGES)) as prometheus:
        found = told(prometheus.url, "--from", "dcgm-exporter", end=BEGIN + HOUR, hours=1)
    wanted = {page.stem: on_page(page) for page in PAGES}
    steps = {step.name: step.gpu_hours for step in found.funnel}
    assert steps["installed"] == pytest.approx(sum(each.gpus for each in wanted.values()), rel=0.01)
    assert steps["effective"] == pytest.approx(sum(each.used for each in wanted.values()), rel=0.01)
    measured = sum(each.measured for each in wanted.values())
    outside = 0.0 if found.no_job is None else found.no_job.observed_gpu_hours
    assert found.total.observed_gpu_hours + outside == pytest.approx(measured, rel=0.01)
    gpus = {row.cluster: row.gpus for row in found.clusters}
    assert gpus == {
        name: pytest.approx(each.gpus, rel=0.02) for name, each in wanted.items() if each.gpus
    }
    assert {row.job_id for row in found.jobs if row.cluster == "old-names"} == {"team/train-0"}
    assert found.missing == []


def test_the_rows_of_a_page_are_read_as_a_person_reads_them() -> None:
    """One H200 with 0.375 at 1410 MHz, whose tensor clock is 1830 MHz; an A100 in three and four of seven slices."""
    found = on_page(TESTS / "pages" / "new-names.prom")
    assert (found.gpus, found.measured) == (1.0, 1.0)
    assert found.used == pytest.approx(0.375 * 1410 / 1830)
    assert on_page(TESTS / "pages" / "mig.prom").gpus == pytest.approx(3 / 7 + 4 / 7 + 1)


def test_counters_that_contradict_each_other_by_their_rounding_are_used_and_by_more_are_not() -> (
    None
):
    for sms, parts in ((39.5, {"no_tensor", "empty_sms", "idle"}), (38.5, {"without_tensor"})):
        looks = _Looks(
            100, 30, 40, with_engine=100, engine=90, tensor_e=40, sms=sms, engine_s=90, tensor_s=40
        )
        lost = _parts(looks)
        assert lost.keys() - {"clock"} == parts
        assert sum(lost.values()) == pytest.approx(100 - 30)
