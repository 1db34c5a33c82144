"""Schedulers are asked side by side; one that fails, hangs or lies costs the others nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import pytest

from ofu_exporter.agent import attribution
from ofu_exporter.agent.attribution import HUNG_SECONDS, Attribution
from ofu_exporter.errors import SchedulerError
from ofu_exporter.schedulers import Scheduler
from ofu_exporter.values.job import Claim, Job, Ownership
from ofu_exporter.values.reasons import SchedulerReason
from ofu_exporter.values.snapshot import SchedulerHealth
from tests.helpers.agent import until
from tests.helpers.values import FakeClock

ONE = Claim(Job("slurm", "1"), ("0",))
TWO = Claim(Job("kubernetes", "ns/pod"), ("1",))


class FakeScheduler:
    """Says what a test tells it to."""

    poll_seconds = 0.005

    def __init__(self, *claims: Claim, error: Exception | None = None) -> None:
        self.said: Sequence[Claim] = claims
        self.error = error
        self.rejected: Mapping[str, int] = {}
        self.hold = threading.Event()
        self.hold.set()
        self.closed = threading.Event()
        self.asked = 0
        self.waits = False

    def claims(self) -> Sequence[Claim]:
        self.waits = not self.hold.is_set()
        self.hold.wait()
        self.asked += 1
        if self.error is not None:
            raise self.error
        return self.said

    def close(self) -> None:
        self.closed.set()


def _itself(scheduler: Scheduler) -> Scheduler:
    return scheduler


class Unbuildable:
    """Builds a scheduler only once a test lets it."""

    def __init__(self, error: Exception) -> None:
        self.error: Exception | None = error
        self.tried = 0

    def __call__(self) -> Scheduler:
        self.tried += 1
        if self.error is not None:
            raise self.error
        return FakeScheduler(ONE)


class Listening:
    """An attribution, and everything it has said."""

    def __init__(
        self,
        earlier: Listening | None = None,
        optional: bool = False,
        **schedulers: Scheduler | Unbuildable,
    ) -> None:
        self.clock = FakeClock()
        builders: list[tuple[str, Callable[[], Scheduler]]] = [
            (name, each if isinstance(each, Unbuildable) else partial(_itself, each))
            for name, each in schedulers.items()
        ]
        self.cycles: int | None = None
        self.attribution = Attribution(
            builders, 300.0, self.clock, optional, cycles=lambda _: self.cycles
        )
        self.calls = 0
        self.heard: list[Ownership] = earlier.heard[-1:] if earlier else []
        if earlier:
            self.attribution.go_on_from(earlier.attribution, earlier.heard[-1])
        self.attribution.start(self._called)

    def _called(self) -> None:
        self.calls += 1

    def claims(self) -> tuple[Claim, ...]:
        self.heard += self.attribution.take_changes()
        return self.heard[-1].claims if self.heard else ()

    def until(self, *claims: Claim) -> None:
        until(lambda: set(self.claims()) == set(claims))

    def health(self, name: str) -> SchedulerHealth:
        return next(health for health in self.attribution.health() if health.name == name)


@pytest.fixture
def started() -> Iterator[list[Listening]]:
    running: list[Listening] = []
    yield running
    for listening in running:
        listening.attribution.stop()


def test_the_answers_of_all_schedulers_are_merged(started: list[Listening]) -> None:
    listening = Listening(slurm=FakeScheduler(ONE), kubernetes=FakeScheduler(TWO))
    started.append(listening)
    listening.until(ONE, TWO)
    assert listening.health("slurm").up
    assert listening.calls >= 1


def test_an_answer_that_is_no_news_is_no_change(started: list[Listening]) -> None:
    scheduler = FakeScheduler(ONE)
    listening = Listening(slurm=scheduler)
    started.append(listening)
    listening.until(ONE)
    asked = scheduler.asked
    until(lambda: scheduler.asked > asked + 5)
    listening.claims()
    assert len(listening.heard) == 1
    assert listening.calls == 1


def test_every_change_is_told_with_its_time(started: list[Listening]) -> None:
    scheduler = FakeScheduler(ONE)
    listening = Listening(slurm=scheduler)
    started.append(listening)
    listening.until(ONE)
    listening.clock.now += 7.0
    scheduler.said = ()
    listening.until()
    assert [change.at for change in listening.heard] == [1000.0, 1007.0]


def test_a_scheduler_that_fails_keeps_its_last_answer_for_a_bounded_time(
    started: list[Listening],
) -> None:
    scheduler = FakeScheduler(ONE)
    listening = Listening(slurm=scheduler, kubernetes=FakeScheduler(TWO))
    started.append(listening)
    listening.until(ONE, TWO)
    scheduler.error = SchedulerError(SchedulerReason.UNREACHABLE, "no socket")
    until(lambda: not listening.health("slurm").up)
    health = listening.health("slurm")
    assert (health.reason, health.detail) == (SchedulerReason.UNREACHABLE, "no socket")
    assert set(listening.claims()) == {ONE, TWO}
    listening.clock.now += 301.0
    listening.until(TWO)
    assert listening.health("slurm").failures["unreachable"] >= 1
    scheduler.error = None
    listening.until(ONE, TWO)


def test_an_answer_is_unsure_while_its_scheduler_fails_and_no_window_is_cut_for_it(
    started: list[Listening],
) -> None:
    scheduler = FakeScheduler(ONE)
    listening = Listening(slurm=scheduler, kubernetes=FakeScheduler(TWO))
    started.append(listening)
    listening.until(ONE, TWO)
    calls = listening.calls
    scheduler.error = SchedulerError(SchedulerReason.SETTLING, "kubelet was restarted")
    until(lambda: listening.claims() and listening.heard[-1].unsure == {"slurm"})
    assert set(listening.heard[-1].claims) == {ONE, TWO}
    scheduler.error = None
    until(lambda: listening.claims() and not listening.heard[-1].unsure)
    assert set(listening.heard[-1].claims) == {ONE, TWO}
    assert listening.calls == calls


def test_windows_are_cut_too_for_a_restart_of_nvrx_that_the_tick_hears_of_first(
    started: list[Listening],
) -> None:
    scheduler = FakeScheduler(ONE)
    listening = Listening(slurm=scheduler)
    started.append(listening)
    listening.until(ONE)
    scheduler.hold.clear()
    calls, listening.cycles = listening.calls, 1
    assert [claim.job.cycles for claim in listening.claims()] == [1]
    assert listening.calls == calls + 1
    listening.claims()
    assert listening.calls == calls + 1, "that is no news"
    scheduler.hold.set()


def test_a_scheduler_that_hangs_holds_up_nobody_and_ages_out(started: list[Listening]) -> None:
    hanging = FakeScheduler(ONE)
    listening = Listening(slurm=hanging, kubernetes=FakeScheduler(TWO))
    started.append(listening)
    listening.until(ONE, TWO)
    hanging.hold.clear()
    until(lambda: hanging.waits)
    listening.clock.now += HUNG_SECONDS
    listening.claims()
    assert listening.heard[-1].unsure == {"slurm"}, "what it said last may be true no more"
    health = listening.health("slurm")
    assert (health.up, health.reason) == (False, SchedulerReason.UNREACHABLE)
    until(lambda: listening.health("kubernetes").up)
    listening.clock.now += 281.0
    listening.until(TWO)
    hanging.hold.set()
    listening.until(ONE, TWO)
    assert listening.health("slurm").up


def test_an_unexpected_error_is_named_and_the_scheduler_asked_again(
    started: list[Listening],
) -> None:
    scheduler = FakeScheduler(ONE, error=ZeroDivisionError("oops"))
    listening = Listening(slurm=scheduler)
    started.append(listening)
    until(lambda: listening.health("slurm").reason is SchedulerReason.FAILED)
    assert listening.health("slurm").detail == "ZeroDivisionError: oops"
    scheduler.error = None
    listening.until(ONE)


@pytest.mark.parametrize(
    ("error", "reason", "detail"),
    [
        (ValueError("no such thing"), SchedulerReason.FAILED, "ValueError: no such thing"),
        (SchedulerError(SchedulerReason.NO_LIBRARY, "no h2"), SchedulerReason.NO_LIBRARY, "no h2"),
    ],
)
def test_a_scheduler_that_cannot_be_built_says_why_and_is_built_anew(
    error: Exception,
    reason: SchedulerReason,
    detail: str,
    started: list[Listening],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attribution, "FIRST_RETRY_SECONDS", 0.005)
    unbuildable = Unbuildable(error)
    listening = Listening(slurm=unbuildable, kubernetes=FakeScheduler(TWO))
    started.append(listening)
    until(lambda: unbuildable.tried > 2)
    health = listening.health("slurm")
    assert (health.up, health.reason, health.detail) == (False, reason, detail)
    assert health.failures[reason.value] >= 2
    listening.until(TWO)
    unbuildable.error = None
    listening.until(ONE, TWO)
    assert listening.health("slurm").up


def test_a_scheduler_that_was_never_built_is_let_go_of() -> None:
    listening = Listening(slurm=Unbuildable(ValueError("no")))
    until(lambda: listening.health("slurm").reason is SchedulerReason.FAILED)
    listening.attribution.stop(5.0)
    assert all(thread.name != "ofu-slurm" for thread in threading.enumerate())


@pytest.mark.parametrize(
    "failing", [FakeScheduler(error=ValueError("no")), Unbuildable(ValueError("no"))]
)
def test_however_often_it_has_failed_a_scheduler_is_asked_again_within_a_bounded_time(
    failing: FakeScheduler | Unbuildable, started: list[Listening], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice as long after each failure without an end would be 43 minutes after the 19th."""
    monkeypatch.setattr(attribution, "FIRST_RETRY_SECONDS", 0.005)
    monkeypatch.setattr(attribution, "SLOWEST_RETRY_SECONDS", 0.02)
    listening = Listening(slurm=failing)
    started.append(listening)
    until(lambda: listening.health("slurm").failures.get("failed", 0) >= 20)


def test_a_scheduler_nobody_asked_for_and_that_is_absent_is_not_shown(
    started: list[Listening],
) -> None:
    absent = FakeScheduler(error=SchedulerError(SchedulerReason.ABSENT))
    listening = Listening(optional=True, kubernetes=absent, slurm=FakeScheduler(ONE))
    started.append(listening)
    listening.until(ONE)
    until(lambda: absent.asked)
    assert [health.name for health in listening.attribution.health()] == ["slurm"]


@pytest.mark.parametrize("optional", [True, False])
def test_a_scheduler_that_had_no_job_yet_is_up_from_its_first_one(
    started: list[Listening], optional: bool
) -> None:
    """It is asked on as often as ever, for the first job is not to wait, and that it had none is no failure."""
    slurm = FakeScheduler(ONE, error=SchedulerError(SchedulerReason.NO_JOB_YET, "/run/jobs"))
    listening = Listening(optional=optional, slurm=slurm)
    started.append(listening)
    until(lambda: slurm.asked > 20)
    shown = [(health.up, health.reason) for health in listening.attribution.health()]
    assert shown == ([] if optional else [(False, SchedulerReason.NO_JOB_YET)])
    slurm.error = None
    listening.until(ONE)
    assert listening.health("slurm").up
    assert not listening.health("slurm").failures


def test_a_scheduler_that_settles_is_asked_on_as_often_as_ever(started: list[Listening]) -> None:
    """It answers already, and every pause more would stop the totals of its jobs for longer."""
    settling = SchedulerError(SchedulerReason.SETTLING, "kubelet was restarted")
    kubelet = FakeScheduler(ONE, error=settling)
    listening = Listening(kubernetes=kubelet)
    started.append(listening)
    until(lambda: kubelet.asked > 20)
    kubelet.error = None
    listening.until(ONE)


def test_a_scheduler_that_was_asked_for_and_is_absent_is_shown(started: list[Listening]) -> None:
    absent = FakeScheduler(error=SchedulerError(SchedulerReason.ABSENT))
    listening = Listening(kubernetes=absent)
    started.append(listening)
    until(lambda: listening.health("kubernetes").reason is SchedulerReason.ABSENT)


@pytest.mark.parametrize(
    ("afterwards", "claims"),
    [
        ({"slurm": FakeScheduler(ONE), "kubernetes": FakeScheduler(TWO)}, (ONE, TWO)),
        ({"slurm": FakeScheduler(), "kubernetes": FakeScheduler()}, ()),
        ({"kubernetes": FakeScheduler(TWO)}, (TWO,)),
        ({}, ()),
    ],
    ids=["goes on", "all ended meanwhile", "one is asked no more", "none is asked"],
)
def test_after_a_reload_the_claims_are_those_of_the_schedulers_asked_now(
    afterwards: dict[str, Scheduler], claims: tuple[Claim, ...], started: list[Listening]
) -> None:
    before = Listening(slurm=FakeScheduler(ONE), kubernetes=FakeScheduler(TWO))
    before.until(ONE, TWO)
    before.attribution.stop()
    after = Listening(before, optional=False, **afterwards)
    started.append(after)
    after.until(*claims)


def test_after_a_reload_an_answer_is_believed_no_longer_than_without(
    started: list[Listening],
) -> None:
    before = Listening(slurm=FakeScheduler(ONE))
    before.until(ONE)
    before.attribution.stop()
    after = Listening(
        before, slurm=FakeScheduler(error=SchedulerError(SchedulerReason.UNREACHABLE))
    )
    started.append(after)
    until(lambda: after.claims() == (ONE,) and after.heard[-1].unsure == {"slurm"})
    assert after.calls == 0
    after.clock.now += 301.0
    after.until()


def test_stopping_lets_go_of_every_scheduler() -> None:
    slurm, kubernetes = FakeScheduler(ONE), FakeScheduler(TWO)
    slurm.poll_seconds = 1e6
    listening = Listening(slurm=slurm, kubernetes=kubernetes)
    listening.until(ONE, TWO)
    listening.attribution.stop()
    assert slurm.closed.is_set()
    assert kubernetes.closed.is_set()
