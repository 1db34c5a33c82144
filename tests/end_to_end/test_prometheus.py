"""A real Prometheus scrapes a real agent, and its rates are the OFU of the recording."""

from __future__ import annotations

import itertools
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ofu_exporter.recordings.recording import RecordingHeader, RecordingWriter
from ofu_exporter.values.reading import ClockSample, Reading
from tests.helpers.agent import SIMULATED, Agent, agent, page_server, until
from tests.helpers.prometheus_server import Prometheus
from tests.helpers.values import gpu

pytestmark = [pytest.mark.prometheus, pytest.mark.xdist_group("prometheus")]

GOLDEN = Path(__file__).parents[1] / "golden"
WINDOW = 0.5
WINDOWS = 30
GPUS = 2


def tensor(index: int, window: int) -> float:
    """A load that never repeats, so that a wrong range cannot look right."""
    return 0.9 * ((window * 7 + index * 3) % 31) / 31


def clock_hz(window: int) -> float:
    return 1200e6 + 20e6 * (window % 17)


def ofu_by_hand(index: int, window: int) -> float:
    return tensor(index, window) * clock_hz(window) / 1830e6


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recording") / "known.jsonl.gz"
    writer = RecordingWriter(path, RecordingHeader("nvml", True, "2026-01-01T00:00:00+00:00"), 0.0)
    for window, index in itertools.product(range(WINDOWS), range(GPUS)):
        start, end = window * WINDOW, (window + 1) * WINDOW
        reads = [ClockSample(start + WINDOW * part, clock_hz(window)) for part in (0.0, 0.5, 1.0)]
        writer.write([Reading(gpu(index), start, end, tensor(index, window), {}, tuple(reads))])
    writer.close()
    return path


@pytest.fixture(scope="module")
def scraped(
    recorded: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Prometheus, float]]:
    """A Prometheus that has scraped the whole replay, once directly and once through a bad network."""
    turns = itertools.count()
    with agent(
        "run", "--source", "replay", "--path", str(recorded), "--interval", "0.5s"
    ) as running:

        def every_second_one() -> str:
            return running.get("/metrics")[1] if next(turns) % 2 else "<dropped>"

        with page_server(every_second_one) as lossy:
            targets = {
                "direct": running.url.removeprefix("http://"),
                "lossy": lossy.removeprefix("http://").removesuffix("/metrics"),
            }
            prometheus = Prometheus(tmp_path_factory.mktemp("prometheus"), targets)
            try:
                until(prometheus.ready)
                until(lambda: ended(running), seconds=60)
                at = time.time() + 2.5  # two more scrapes
                until(lambda: time.time() > at)
                yield prometheus, at
            finally:
                prometheus.stop()


def ended(running: Agent) -> bool:
    return running.values("ofu_gpu_unavailable", reason="recording_ended") == [1.0] * GPUS


@pytest.mark.parametrize("job", ["direct", "lossy"])
@pytest.mark.parametrize("index", range(GPUS))
def test_the_rate_is_the_ofu_of_the_recording(
    scraped: tuple[Prometheus, float], job: str, index: int
) -> None:
    prometheus, at = scraped
    labels = f'{{job="{job}",gpu="{index}"}}'
    (samples,) = prometheus.query(f"ofu_gpu_observed_seconds_total{labels}[1m]", at)
    observed = [float(value) for _, value in samples["values"]]
    first, last = (round(seconds / WINDOW) for seconds in (observed[0], observed[-1]))
    assert last == WINDOWS
    assert last - first >= 5, "windows that are unlike each other were scraped"
    by_hand = sum(ofu_by_hand(index, window) for window in range(first, last)) / (last - first)
    (rate,) = prometheus.query(
        f"rate(ofu_gpu_utilization_seconds_total{labels}[1m])"
        f" / rate(ofu_gpu_observed_seconds_total{labels}[1m])",
        at,
    )
    assert float(rate["value"][1]) == pytest.approx(by_hand, rel=1e-6)


def test_scrapes_were_really_dropped(scraped: tuple[Prometheus, float]) -> None:
    prometheus, at = scraped
    (samples,) = prometheus.query('up{job="lossy"}[1m]', at)
    states = [value for _, value in samples["values"]]
    assert states.count("0") >= 5
    assert states.count("1") >= 5


def test_promtool_finds_nothing_to_complain_about() -> None:
    with agent(*SIMULATED) as running:
        until(lambda: running.value("ofu_gpu_up", gpu="7") == 1)
        page = running.get("/metrics")[1]
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=page, text=True, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("page", sorted(GOLDEN.glob("*.prom")), ids=lambda path: path.stem)
def test_promtool_finds_no_fault_in_a_page(page: Path) -> None:
    checked = ["promtool", "check", "metrics"]
    done = subprocess.run(
        checked, input=page.read_text(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
