"""What each way to read counters gives, against the truth: means, totals, clocks, and when they are of."""

from __future__ import annotations

import itertools
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path

import httpx  # noqa: F401 - its first import draws from the chance that runs draw from
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ofu_exporter.sources.dcgm.host_engine import HostEngine
from ofu_exporter.sources.dcgm.library import GPU, Entity, Library, Sample
from ofu_exporter.values.reading import Reading
from tests.simulator import agent
from tests.simulator.curve import Curve
from tests.simulator.driver_servers import (
    EPOCH,
    START,
    DcgmServer,
    NvmlServer,
    renewed,
    renewed_of_nvml,
)
from tests.simulator.loads import BY_NAME
from tests.simulator.mishaps import GONE, OUTAGE
from tests.simulator.page_server import PHASE, Pages, PageServer
from tests.simulator.run import ran
from tests.simulator.score import Span
from tests.simulator.sources import Page
from tests.simulator.world import SimulatedTime, World

TENSOR, IMMA, HMMA, CLOCK = 1004, 1013, 1014, 100
ELAPSED, MMA, DMMA_CYCLES, HMMA_CYCLES = 1084, 1086, 1087, 1088


LOADS = ("training", "hard steps", "square, 0.5 s")


@cache
def curves() -> list[Curve]:
    return [BY_NAME[name].curve for name in LOADS]


# NVML.


def nvml_readings(folder: Path, call_seconds: float) -> list[Reading]:
    server = NvmlServer(folder, curves()[:1], cycles=True)
    with closing(server):
        server.say(f"call_seconds {call_seconds}")
        source = agent.nvml_source(World(server, 1))
        (probe,) = source.open()
        taken = []
        for second in (10.0, 10.7, 13.1, 25.0, 26.0, 80.3):
            server.advance(second)
            probe.poll()
            taken += [each for each in probe.read() if isinstance(each, Reading)]
        probe.close()
        source.close()
    return taken


def test_gpm_gives_the_share_of_cycles_between_two_samples(tmp_path: Path) -> None:
    readings = nvml_readings(tmp_path, call_seconds=0.0)
    assert len(readings) == 5
    for each in readings:
        start, end = (renewed_of_nvml(at - START) for at in (each.start, each.end))
        assert each.tensor_active == pytest.approx(curves()[0].tensor_active(start, end), abs=1e-9)
        assert each.pipes["hmma"] == pytest.approx(each.tensor_active)
        assert each.evidence is not None
        assert each.evidence.graphics_active == pytest.approx(1.0)


def test_gpm_counts_cycles(tmp_path: Path) -> None:
    for before, after in itertools.pairwise(nvml_readings(tmp_path, call_seconds=0.0)):
        done, then = (
            curves()[0].done(renewed_of_nvml(at - START)) for at in (after.end, before.end)
        )
        assert before.cycles is not None
        assert after.cycles is not None
        elapsed = after.cycles.elapsed - before.cycles.elapsed
        tensor = after.cycles.tensor - before.cycles.tensor
        assert elapsed == pytest.approx(1e6 * (done.cycles - then.cycles), rel=1e-6)
        assert tensor == pytest.approx(1e6 * (done.tensor - then.tensor), rel=1e-6)


def test_what_a_call_gives_is_of_its_middle(tmp_path: Path) -> None:
    for each in nvml_readings(tmp_path, call_seconds=0.02):
        start, end = (renewed_of_nvml(at - START - 0.01) for at in (each.start, each.end))
        assert each.tensor_active == pytest.approx(curves()[0].tensor_active(start, end), abs=1e-9)
        inside = [clock for clock in each.clocks if each.start < clock.at < each.end]
        assert [clock.hz for clock in inside] == [
            1e6 * curves()[0].at(renewed_of_nvml(clock.at - START - 0.01)).mhz for clock in inside
        ]


# A host engine.


class Watched:
    """A host engine with three GPUs, and samples of it by field."""

    def __init__(self, folder: Path) -> None:
        self.server = DcgmServer(folder, curves(), "4.6")
        self.server.say("thread 0 0")
        self._library = Library()
        self.engine = HostEngine(self._library, "127.0.0.1:5555", lambda: EPOCH + self.server.now())

    def close(self) -> None:
        self.engine.close()
        self._library.close()
        self.server.close()

    def samples(self, gpu: int, fields: list[int], begin: float, end: float) -> list[list[Sample]]:
        """Those of one GPU, watched every second from `begin` on."""
        self.server.advance(begin)
        watch = self.engine.watch([Entity(GPU, gpu)], fields, 1.0)
        self.server.advance(end)
        found = watch.samples()
        return [[each for each in found if each.field == field] for field in fields]


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    made = Watched(tmp_path)
    yield made
    made.close()


def second(sample: Sample) -> float:
    return sample.micros * 1e-6 - EPOCH


@pytest.mark.parametrize("gpu", range(len(LOADS)))
def test_a_host_engine_gives_the_share_of_cycles_since_the_last_sample(
    watched: Watched, gpu: int
) -> None:
    tensor, clock = watched.samples(gpu, [TENSOR, CLOCK], 20.1313, 50.2)
    assert tensor[0].value is None
    assert len(tensor) == len(clock) == 31
    for before, after in itertools.pairwise(tensor):
        truth = curves()[gpu].tensor_active(
            *(renewed(second(each), gpu) for each in (before, after))
        )
        assert after.value == pytest.approx(truth, abs=1e-6)
    truths = [curves()[gpu].at(renewed(second(each), gpu)).mhz for each in clock]
    assert [each.value for each in clock] == truths


def test_a_host_engine_counts_cycles_of_each_pipe(watched: Watched) -> None:
    fields = [ELAPSED, MMA, DMMA_CYCLES, HMMA_CYCLES]
    elapsed, tensor, dmma, hmma = watched.samples(0, fields, 20.131, 30.2)
    first, last = (renewed(second(elapsed[place])) for place in (1, -1))
    done, then = curves()[0].done(last), curves()[0].done(first)

    def grown(samples: list[Sample]) -> float:
        values = [samples[1].value, samples[-1].value]
        assert isinstance(values[0], int)
        assert isinstance(values[1], int)
        return values[1] - values[0]

    assert grown(elapsed) == pytest.approx(1e6 * (done.cycles - then.cycles), rel=1e-6)
    assert grown(tensor) == pytest.approx(1e6 * (done.tensor - then.tensor), rel=1e-6)
    assert (grown(dmma), grown(hmma)) == (0, grown(tensor))


def test_a_field_keeps_the_time_of_the_second_at_which_it_was_first_watched(
    watched: Watched,
) -> None:
    """Also when the client that began it has left."""
    watched.server.advance(10.352)
    watched.server.say(f"watch {TENSOR} 1")
    watched.server.advance(20.558)
    watch = watched.engine.watch([Entity(GPU, 0)], [TENSOR, IMMA], 1.0)
    watched.server.advance(25)
    watched.server.say(f"watch {TENSOR} 0")
    watched.server.advance(30.6)
    samples = watch.samples()
    for field, phase, count in ((TENSOR, 0.352, 10), (IMMA, 0.558, 11)):
        times = [second(each) for each in samples if each.field == field]
        assert [time % 1 for time in times] == pytest.approx([phase] * count, abs=1e-4)


def test_fields_of_one_gpu_share_samples_whatever_time_they_bear(watched: Watched) -> None:
    """Who first watched a profiling field decides when it is measured; the others only stamp the result."""
    watched.server.advance(10.9)
    watched.server.say("watch 1001 1")
    tensor, hmma = watched.samples(1, [TENSOR, HMMA], 20.1313, 50.2)
    assert tensor[0].value is not None
    for each in [*tensor, *hmma]:
        measured = second(each) - 0.2313
        truth = curves()[1].tensor_active(renewed(measured - 1, 1), renewed(measured, 1))
        assert each.value == pytest.approx(truth, abs=1e-6)


# A page.


def page_values(server: PageServer) -> dict[tuple[str, str], float]:
    with urllib.request.urlopen(server.url, timeout=5) as answer:
        text = answer.read().decode()
    return {
        (sample.name, sample.labels["gpu"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.parametrize("interval", [1.0, 5.0, 30.0])
def test_a_page_has_the_mean_up_to_its_last_collection_and_the_clock_there(interval: float) -> None:
    time = SimulatedTime()
    with closing(PageServer(Pages(curves(), interval, time.now))) as server:
        for now in (70.0, 70.0 + interval * 0.99, 200.0):
            time.advance(now)
            found = page_values(server)
            collected = (now // interval + PHASE) * interval
            collected -= interval if collected > now else 0
            for gpu, curve in enumerate(curves()):
                tensor = curve.tensor_active(collected - interval, collected)
                named = found["DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", str(gpu)]
                assert named == pytest.approx(tensor, abs=1e-6)
                assert found["DCGM_FI_DEV_SM_CLOCK", str(gpu)] == curve.at(collected).mhz


def test_a_page_that_is_gone_comes_back_without_a_mean() -> None:
    time = SimulatedTime()
    pages = Pages(curves(), 1.0, time.now)
    with closing(PageServer(pages)) as server:
        pages.restart(Span(50.0, 60.0))
        time.advance(49.9)
        assert ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "0") in page_values(server)
        time.advance(55.0)
        with pytest.raises(urllib.error.HTTPError, match="503") as caught:
            page_values(server)
        caught.value.close()
        time.advance(60.5)
        assert ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "0") not in page_values(server)
        assert ("DCGM_FI_DEV_SM_CLOCK", "0") in page_values(server)
        time.advance(61.5)
        assert ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "0") in page_values(server)


@pytest.mark.slow
def test_a_page_that_is_given_as_text_is_counted_like_one_that_is_fetched() -> None:
    given = Page(5.0, 5.0)
    loads = [BY_NAME["training"], BY_NAME["hard steps"]]
    end = OUTAGE.end + 60.0
    fetched = ran(replace(given, over_http=True), loads, GONE, end)
    assert len(fetched.windows["training"]) > 50
    assert ran(given, loads, GONE, end) == fetched
