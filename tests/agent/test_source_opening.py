"""A source that does not open holds up nobody, and nothing of it is left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pytest

from ofu_exporter.agent.lanes import SamplingPace
from ofu_exporter.agent.source_opening import OpenedSource, SourceBuilder, SourceOpening
from ofu_exporter.errors import SourceError
from ofu_exporter.sources import Probe
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import Fault, Reading
from ofu_exporter.values.reasons import Reason
from tests.helpers.agent import until
from tests.helpers.every import every
from tests.helpers.values import FakeClock


class IdleProbe(Probe):
    """Never measures anything."""

    def gpus(self) -> Sequence[Gpu]:
        return []

    def poll(self) -> None:
        pass

    def read(self) -> Sequence[Reading | Fault]:
        return []

    def close(self) -> None:
        pass


class SlowSource:
    """A source whose library answers when it is told to."""

    simulated = False
    recorded = ""
    rejected: dict[str, int] = {}  # noqa: RUF012

    def __init__(self, error: Exception | None = None) -> None:
        self.probes: Sequence[Probe] = [IdleProbe()]
        self.answers = threading.Event()
        self.closed = False
        self._error = error
        self.lets_go = threading.Event()
        self.lets_go.set()

    def open(self) -> Sequence[Probe]:
        self.answers.wait()
        if self._error is not None:
            raise self._error
        return self.probes

    def close(self) -> None:
        self.lets_go.wait(20.0)
        self.closed = True


def test_what_is_not_open_yet_is_waited_for_by_whoever_wants_to() -> None:
    clock, source = FakeClock(0.0), SlowSource()
    opening = SourceOpening(SourceBuilder("slow", lambda: source), clock)
    assert opening.result(0.0) is None
    clock.now = 7.0
    assert opening.seconds == 7.0
    source.answers.set()
    opened = opening.result(20.0)
    assert opened is not None
    assert opened.source is source


@every([(SourceError(Reason.NO_LIBRARY), Reason.NO_LIBRARY), (ValueError("odd"), Reason.FAILED)])
def test_why_it_cannot_be_opened_is_said(error: Exception, reason: Reason) -> None:
    source = SlowSource(error)
    source.answers.set()
    with pytest.raises(SourceError) as raised:
        SourceOpening(SourceBuilder("slow", lambda: source), FakeClock(0.0)).result(20.0)
    assert raised.value.reason is reason


def test_a_source_that_finds_no_gpu_says_so() -> None:
    source = SlowSource()
    source.probes = []
    source.answers.set()
    with pytest.raises(SourceError) as raised:
        SourceOpening(SourceBuilder("slow", lambda: source), FakeClock(0.0)).result(20.0)
    assert raised.value.reason is Reason.NO_GPU


@pytest.mark.parametrize("is_open", [False, True])
def test_a_source_that_nobody_wants_any_more_is_closed(is_open: bool) -> None:
    source = SlowSource()
    opening = SourceOpening(SourceBuilder("slow", lambda: source), FakeClock(0.0))
    if is_open:
        source.answers.set()
        opening.result(20.0)
    opening.give_up()
    source.answers.set()
    until(lambda: source.closed)


def test_who_waits_for_a_source_goes_on_when_nobody_wants_it_any_more() -> None:
    source = SlowSource()
    opening = SourceOpening(SourceBuilder("slow", lambda: source), FakeClock(0.0))
    results: list[object] = []
    waiting = threading.Thread(target=lambda: results.append(opening.result(3600.0)), daemon=True)
    waiting.start()
    opening.give_up()
    waiting.join(20.0)
    assert results == [None]
    assert not opening.join(0.0), "the call itself has not returned"
    source.answers.set()
    assert opening.join(20.0)


@pytest.mark.parametrize("is_adopted", [False, True])
def test_a_shutdown_that_hangs_holds_up_nobody_and_is_waited_for_again(is_adopted: bool) -> None:
    source = SlowSource()
    source.answers.set()
    source.lets_go.clear()
    pace = SamplingPace(0.1)
    opening = SourceOpening(SourceBuilder("slow", lambda: source), time.monotonic)
    opened = opening.result(20.0)
    assert opened is not None
    reading = OpenedSource("slow", source, [], pace, time.monotonic)

    def close(seconds: float) -> bool:
        if is_adopted:
            return reading.close(time.monotonic() + seconds)
        opening.give_up()
        return opening.join(seconds)

    assert not close(0.1)
    assert not close(0.0)
    source.lets_go.set()
    assert close(20.0)
    assert source.closed
