"""Several sources: the first that can reads a GPU, and others are opened and closed as GPUs need them."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace

import pytest

from ofu_exporter.errors import SourceError
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reasons import Reason
from tests.helpers.sampled import (
    PACE,
    SOON,
    FakeProbe,
    FakeSource,
    Watch,
    fails,
    reasons,
    sampler,
    unable,
)
from tests.helpers.values import gpu


def test_no_usable_source_is_a_reason_that_names_each(watch: Watch) -> None:
    first = FakeSource(error=SourceError(Reason.NO_LIBRARY, "no libnvidia-ml"))
    second = FakeSource(error=SourceError(Reason.UNREACHABLE, "connection refused"))
    agent = sampler(watch, ("one", first), ("two", second))
    agent.start()
    snapshot = watch.until(lambda s: s.source.reason is not Reason.STARTING)
    assert not snapshot.source.up
    assert snapshot.source.reason is Reason.NO_LIBRARY
    assert snapshot.source.detail == "one: no libnvidia-ml; two: connection refused"
    assert snapshot.source.failures["no_library"] >= 1
    assert agent.stop()


def test_no_other_source_is_read_where_only_a_new_process_can_read_the_first(watch: Watch) -> None:
    """After a pause in which the driver was replaced: the agent ends for it, and reads the GPUs as before."""
    nvml = FakeSource(error=SourceError(Reason.DRIVER_REPLACED))
    engine = FakeSource(FakeProbe(gpu(0)))
    agent = sampler(watch, ("nvml", nvml), ("dcgm", engine))
    agent.start()
    snapshot = watch.until(lambda s: s.source.reason is not Reason.STARTING)
    assert (snapshot.source.name, snapshot.source.reason) == ("nvml", Reason.DRIVER_REPLACED)
    assert engine.opened == 0
    assert agent.stop()


@pytest.mark.slow
def test_a_source_that_comes_up_later_is_used(watch: Watch) -> None:
    source = FakeSource(FakeProbe(gpu(0)), error=SourceError(Reason.NO_DRIVER))
    agent = sampler(watch, ("fake", source))
    agent.start()
    watch.until(lambda s: s.source.reason is Reason.NO_DRIVER)
    source.error = None
    watch.until(lambda s: s.source.up and reasons(s) == {"0": None})
    assert agent.stop()


@pytest.mark.slow
def test_a_source_that_fails_unexpectedly_is_tried_again(watch: Watch) -> None:
    source = FakeSource(FakeProbe(gpu(0)), error=ZeroDivisionError("surprise"))
    agent = sampler(watch, ("fake", source))
    agent.start()
    snapshot = watch.until(lambda s: s.source.reason is Reason.FAILED)
    assert snapshot.source.detail == "fake: ZeroDivisionError: surprise"
    source.error = None
    watch.until(lambda s: s.source.up and reasons(s) == {"0": None})
    assert agent.stop()


def test_the_next_source_is_read_when_the_first_has_no_counters(watch: Watch) -> None:
    agent = sampler(watch, ("nvml", FakeSource(unable(0))), ("page", FakeSource(FakeProbe(gpu(0)))))
    agent.start()
    snapshot = watch.until(lambda s: reasons(s) == {"0": None})
    assert (snapshot.source.name, snapshot.source.up) == ("page", True)
    assert [(health.name, health.reason) for health in snapshot.other_sources] == [
        ("nvml", Reason.NOT_SUPPORTED)
    ]
    assert agent.stop()


def test_each_gpu_is_read_by_the_first_source_that_can(watch: Watch) -> None:
    """An H100 and an A30: the first has the counters, the second has them only on the page."""
    nvml = FakeSource(FakeProbe(gpu(0)), unable(1))
    page = FakeSource(FakeProbe(gpu(0)), FakeProbe(gpu(1)))
    agent = sampler(watch, ("nvml", nvml), ("page", page))
    agent.start()
    snapshot = watch.until(lambda s: reasons(s) == {"0": None, "1": None})
    assert [view.source for view in snapshot.gpus] == ["nvml", "page"]
    assert snapshot.source.name == "nvml"
    assert agent.stop()
    assert nvml.closed.is_set()
    assert page.closed.is_set()


def test_a_gpu_that_the_first_source_may_not_reach_is_one_gpu(watch: Watch) -> None:
    unnamed = FakeProbe(Gpu("1", "index-1"), fails(Reason.NO_PERMISSION))
    engine = FakeSource(FakeProbe(gpu(0)), FakeProbe(gpu(1)))
    agent = sampler(watch, ("nvml", FakeSource(FakeProbe(gpu(0)), unnamed)), ("dcgm", engine))
    agent.start()
    snapshot = watch.until(lambda s: reasons(s) == {"0": None, "1": None})
    assert [view.gpu.uuid for view in snapshot.gpus] == [gpu(0).uuid, gpu(1).uuid]
    assert agent.stop()


def test_no_time_is_counted_twice_where_two_sources_measure_a_gpu(watch: Watch) -> None:
    began = time.monotonic()
    nvml = FakeSource(FakeProbe(gpu(0)), unable(1))
    page = FakeSource(FakeProbe(gpu(0)), FakeProbe(gpu(1)))
    agent = sampler(watch, ("nvml", nvml), ("page", page))
    agent.start()
    snapshot = watch.until(lambda s: len(s.gpus) == 2 and s.gpus[1].observed_seconds > 0.5)
    assert snapshot.gpus[0].observed_seconds < time.monotonic() - began
    assert "overlap" not in snapshot.gpus[0].rejected
    assert agent.stop()


def test_a_gpu_that_passing_trouble_keeps_from_being_measured_stays_where_it_is(
    watch: Watch,
) -> None:
    lost = FakeProbe(gpu(1), fails(Reason.LOST))
    page = FakeSource(FakeProbe(gpu(1)))
    agent = sampler(watch, ("nvml", FakeSource(FakeProbe(gpu(0)), lost)), ("page", page))
    agent.start()
    watch.until(lambda s: bool(s.gpus) and s.gpus[0].observed_seconds > 0.5)
    assert page.opened == 0
    assert agent.stop()


def test_a_source_that_measures_all_is_the_only_one(watch: Watch) -> None:
    page = FakeSource(FakeProbe(gpu(0)))
    agent = sampler(watch, ("nvml", FakeSource(FakeProbe(gpu(0)))), ("page", page))
    agent.start()
    snapshot = watch.until(lambda s: bool(s.gpus) and s.gpus[0].observed_seconds > 0.3)
    assert (page.opened, snapshot.other_sources) == (0, ())
    assert agent.stop()


def test_a_source_that_cannot_be_opened_for_the_rest_is_named_and_tried_again(
    watch: Watch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    away = FakeSource(FakeProbe(gpu(1)), error=SourceError(Reason.UNREACHABLE, "nobody there"))
    nvml = FakeSource(FakeProbe(gpu(0)), unable(1))
    agent = sampler(watch, ("nvml", nvml), ("page", away))
    agent.start()
    snapshot = watch.until(
        lambda s: (
            any(h.failures.get("unreachable", 0) > 1 for h in s.other_sources)
            and reasons(s) == {"0": None, "1": Reason.NOT_SUPPORTED}
        )
    )
    assert snapshot.other_sources[0].detail == "nobody there"
    assert caplog.text.count("source page cannot measure the GPUs that the other") == 1
    away.error = None
    watch.until(lambda s: reasons(s) == {"0": None, "1": None})
    assert agent.stop()


def test_a_source_that_hangs_while_it_is_opened_for_the_rest_is_one_failure(watch: Watch) -> None:
    hangs = FakeSource(FakeProbe(gpu(1)))
    hangs.answers.clear()
    agent = sampler(watch, ("nvml", FakeSource(FakeProbe(gpu(0)), unable(1))), ("page", hangs))
    agent.start()
    watch.until(lambda s: any(h.reason is Reason.HUNG for h in s.other_sources))
    seen = watch.published
    snapshot = watch.until(lambda _: watch.published > seen + 10)
    assert [each.failures for each in snapshot.other_sources] == [{"hung": 1}]
    hangs.answers.set()
    watch.until(lambda s: reasons(s) == {"0": None, "1": None})
    assert agent.stop()


def test_the_first_source_reads_the_gpus_once_its_opening_that_hung_is_over(watch: Watch) -> None:
    """Until then the next one does, and the page says why."""
    nvml, page = FakeSource(FakeProbe(gpu(0))), FakeSource(FakeProbe(gpu(0)))
    nvml.answers.clear()
    agent = sampler(watch, ("nvml", nvml), ("page", page))
    agent.start()
    watch.until(lambda s: reasons(s) == {"0": None} and s.gpus[0].source == "page")
    hung = ("nvml", Reason.HUNG)
    watch.until(lambda s: [(each.name, each.reason) for each in s.other_sources] == [hung])
    nvml.answers.set()
    watch.until(lambda s: reasons(s) == {"0": None} and s.gpus[0].source == "nvml")
    assert page.closed.wait(SOON)
    assert nvml.opened == 1
    assert agent.stop()


@pytest.mark.parametrize("hangs", [False, True])
def test_of_two_sources_for_the_rest_the_second_is_opened_only_where_the_first_hangs(
    watch: Watch, hangs: bool
) -> None:
    first, second = (FakeSource(FakeProbe(gpu(1))) for _ in "ab")
    if hangs:
        first.answers.clear()
    nvml = FakeSource(FakeProbe(gpu(0)), unable(1))
    agent = sampler(watch, ("nvml", nvml), ("dcgm", first), ("page", second))
    agent.start()
    watch.until(lambda s: reasons(s) == {"0": None, "1": None})
    assert second.opened == hangs
    first.answers.set()
    assert agent.stop()


def test_a_source_that_measures_no_more_than_the_others_is_closed(watch: Watch) -> None:
    useless = FakeSource(FakeProbe(gpu(0)), unable(1))
    nvml = FakeSource(FakeProbe(gpu(0)), unable(1))
    page = FakeSource(FakeProbe(gpu(1)))
    pace = replace(PACE, reprobe=60.0)
    agent = sampler(watch, ("nvml", nvml), ("dcgm", useless), ("page", page), pace=pace)
    agent.start()
    snapshot = watch.until(lambda s: reasons(s) == {"0": None, "1": None})
    assert useless.closed.wait(SOON)
    pause = agent._sources._try_at["dcgm"] - time.monotonic()
    assert 9 * pace.reprobe < pause <= 10 * pace.reprobe, (
        "what measured nothing new is tried again much later"
    )
    assert [view.source for view in snapshot.gpus] == ["nvml", "page"]
    assert agent.stop()


def test_a_gpu_that_gets_its_counters_is_read_by_the_better_source_again(watch: Watch) -> None:
    probe, page = unable(0), FakeSource(FakeProbe(gpu(0), lambda: time.sleep(0.25)))
    agent = sampler(watch, ("nvml", FakeSource(probe)), ("page", page))
    agent.start()
    watch.until(lambda s: reasons(s) == {"0": None} and s.gpus[0].source == "page")
    missed = watch.until(lambda s: s.source.missed_deadlines > 20).source.missed_deadlines
    probe.behave = lambda: None
    watch.until(lambda s: reasons(s) == {"0": None} and s.gpus[0].source == "nvml")
    assert page.closed.wait(SOON)
    snapshot = watch.until(lambda s: s.other_sources[0].reason is Reason.NOT_SUPPORTED)
    assert snapshot.source.missed_deadlines >= missed, "no counter falls"
    assert agent.stop()


def test_a_source_that_is_not_needed_is_closed_once_its_call_that_hangs_returns(
    watch: Watch,
) -> None:
    """Until then a pause says that not everything is released."""
    entered, release = threading.Event(), threading.Event()

    def hang() -> None:
        entered.set()
        release.wait(SOON)

    probe, further = unable(0), FakeProbe(gpu(0))
    page = FakeSource(further)
    agent = sampler(watch, ("nvml", FakeSource(probe)), ("page", page))
    agent.start()
    watch.until(lambda s: reasons(s) == {"0": None} and s.gpus[0].source == "page")
    further.behave = hang
    assert entered.wait(SOON)
    probe.behave = lambda: None
    dropped = ("page", Reason.NOT_SUPPORTED)
    watch.until(lambda s: [(each.name, each.reason) for each in s.other_sources] == [dropped])
    agent.set_paused(True)
    assert not watch.until(lambda s: s.paused).released
    release.set()
    watch.until(lambda s: s.released)
    assert page.closed.is_set()
    assert agent.stop()


def test_a_source_without_counters_stays_when_nothing_else_opens(watch: Watch) -> None:
    old = FakeSource(unable(0))
    away = FakeSource(error=SourceError(Reason.UNREACHABLE))
    agent = sampler(watch, ("nvml", old), ("page", away))
    agent.start()
    watch.until(lambda s: not agent.choosing and s.source.name == "nvml" and s.source.reads > 2)
    assert agent.stop()
