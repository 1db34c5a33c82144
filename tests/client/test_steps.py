"""Callbacks make rates of readings, take evaluations out, and never disturb the training."""

from __future__ import annotations

import logging

import pytest

from ofu_exporter.client.steps import LoggedAnswers, OfuReporting, Rate, StepMeter, quiet
from tests.client.listener import Listener


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, in a box."""
    box = [1000.0]
    monkeypatch.setattr("ofu_exporter.client.steps.time.time", lambda: box[0])
    return box


@pytest.mark.parametrize("rate", ["tokens_per_second", "model_flops_per_second"])
def test_a_rate_is_what_was_done_since_the_reading_before(rate: Rate, now: list[float]) -> None:
    listener = Listener()
    meter = StepMeter(listener, rate)
    meter.begin(100, 5e6)
    now[0] += 2.0
    meter.reached(101, 5e6 + 4000)
    now[0] += 4.0
    meter.reached(103, 5e6 + 12000)
    assert listener.told == [
        {rate: 2000.0, "step": 101, "start": 1000.0},
        {rate: 2000.0, "step": 103, "start": 1002.0},
    ]


def test_an_evaluation_between_two_readings_is_taken_out(now: list[float]) -> None:
    listener = Listener()
    meter = StepMeter(listener, "tokens_per_second")
    meter.begin(0, 0.0)
    now[0] += 1.0
    meter.reached(1, 100.0)
    now[0] += 60.0
    meter.note_interruption(1, "evaluation")
    now[0] += 1.0
    meter.reached(2, 200.0)
    assert listener.told[1] == {"tokens_per_second": 100.0, "step": 2, "start": 1061.0}
    assert listener.events == [("evaluation", 1001.0, 1)]


def test_steps_of_which_it_is_not_known_how_long_they_took_are_left_out(now: list[float]) -> None:
    listener = Listener()
    meter = StepMeter(listener, "model_flops_per_second")
    meter.begin(0, 0.0)
    now[0] += 90.0
    meter.note_interruption(
        5, "checkpoint"
    )  # an evaluation after five steps that nothing was read after
    now[0] += 5.0
    meter.reached(10, 1000.0)
    assert listener.told == [{"step": 10}], "the step is"
    assert listener.events == [], "nor is it known when it began"
    now[0] += 5.0
    meter.reached(15, 1500.0)
    assert listener.told[1:] == [{"model_flops_per_second": 100.0, "step": 15, "start": 1095.0}]


def test_where_nothing_was_done_there_is_no_rate_but_a_step(now: list[float]) -> None:
    listener = Listener()
    meter = StepMeter(listener, "tokens_per_second")
    meter.begin(0, 10.0)
    now[0] += 1.0
    meter.reached(0, 10.0)
    assert listener.told == []
    meter.reached(1, 10.0)
    assert listener.told == [{"step": 1}]


def test_the_answer_becomes_metrics_and_a_change_of_verdict_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    listener = Listener()
    answers = LoggedAnswers(listener)
    assert answers.metrics() == {}
    horizon = {"mfu": 0.5427, "ofu": 0.2558, "difference": 0.2869, "verdict": "mfu_above_ofu"}
    listener.answer = {"horizon": horizon, "causes": [{"cause": "latent_moe_full_hidden"}]}
    wanted = {"mfu": 0.5427, "ofu": 0.2558, "mfu_minus_ofu": 0.2869, "mfu_ofu_agree": 0.0}
    assert answers.metrics() == answers.metrics() == wanted
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "mfu_above_ofu, likeliest cause latent_moe_full_hidden" in record.message
    none = {"mfu": 0.4, "ofu": None, "difference": None, "verdict": "insufficient_data"}
    listener.answer = {"horizon": none, "causes": []}
    assert answers.metrics() == {"mfu": 0.4}
    listener.answer = {"horizon": None}
    assert answers.metrics() == {}


class Evaluating(OfuReporting):
    @quiet
    def hook(self) -> None:
        assert self._meter is None, "an evaluation after the training interrupts no step"
        self.has_ended = True


def test_what_comes_after_the_training_is_not_reported() -> None:
    callback = Evaluating()
    callback._begin({}, False, "tokens_per_second", 0, 0.0)
    callback.on_train_end()
    callback.hook()
    assert callback.has_ended


class Broken(OfuReporting):
    @quiet
    def hook(self) -> None:
        raise KeyError("changed in this version of the framework")


def test_an_error_in_a_hook_is_logged_once_and_goes_no_further(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = Broken()
    for _ in range(3):
        broken.hook()
    assert len(caplog.records) == 1


def test_nor_does_one_of_the_handler_that_is_to_log_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(record: logging.LogRecord) -> bool:
        raise RuntimeError(record.getMessage())

    handler = logging.Handler()
    handler.addFilter(refuse)
    monkeypatch.setattr(logging.getLogger("ofu_exporter.client"), "handlers", [handler])
    Broken().hook()
