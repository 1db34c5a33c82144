"""Lines of a log that state a step: with suffixes, in colours, and about all steps since the line before."""

from __future__ import annotations

import re

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops import readers
from ofu_exporter.flops.log_lines import LineForm, plain, quantity
from ofu_exporter.flops.statements import JobFacts, Statement
from tests.helpers.every import every

FORM = LineForm(
    re.compile(r"step (\S+)"),
    quantity(r"tflops (\S+)", "tflops", 1e12),
    quantity(r"mfu (\S+)", "mfu", 0.01),
    quantity(r"took (\S+)", "took"),
    also="|",
    is_since_last=True,
)
JOB = JobFacts(peak_flops=1e15)


@every([("12", 12.0), ("1,200", 1200.0), ("1.5K", 1500.0), ("2M", 2e6), ("3B", 3e9), ("1T", 1e12)])
def test_numbers_are_read_as_frameworks_shorten_them(text: str, value: float) -> None:
    tokens = quantity(r"tokens (\S+)", "tokens", 2.0)
    assert tokens.of(f"tokens {text} |") == 2 * value
    assert tokens.of("nothing") is None
    with pytest.raises(ConfigError, match="tokens: 'K' is not a number"):
        tokens.of("tokens KK")


def test_a_rate_goes_before_an_mfu_and_a_line_of_another_form_is_none() -> None:
    both = FORM.statement("step 7 | tflops 400 mfu 99 took 2", JOB)
    assert both == Statement(7, flops=8e14, seconds=2.0, flops_per_second=4e14, mfu=0.4)
    assert FORM.statement("step 7 | mfu 38", JOB) == Statement(7, mfu=0.38)
    assert FORM.statement("step 7 tflops 400", JOB) is None
    assert plain("\x1b[31mstep 7\x1b[0m |") == "step 7 |"


def test_a_line_is_about_all_steps_since_the_one_before_and_after_a_restart_about_one() -> None:
    follower = FORM.follower(JOB)
    lines = [f"step {step} | tflops 1 took 2" for step in (10, 20, 5, 6)]
    found = [follower.line(line) for line in ("hello", *lines)]
    assert [each and each.seconds for each in found] == [None, 2.0, 20.0, 2.0, 2.0]
    assert [each and each.flops for each in found] == [None, 2e12, 2e13, 2e12, 2e12]


def megatron(step: int, seconds: float, stamp: str = "2026-01-01 10:00:00.123456") -> str:
    """As core 0.19 writes it, of 2,102 TFLOP an iteration for each GPU."""
    return (
        f" [{stamp}] iteration {step:8d}/     100 | consumed samples:         1920 | elapsed time per iteration (ms): "
        f"{1e3 * seconds:.1f} | throughput per GPU (TFLOP/s/GPU): {2102 / seconds:.1f} | learning rate: 3.0E-06 |"
    )


BEGIN = "[before the start of training step] datetime: 2026-01-01 10:00:00.123456 "
SLOW_FIRST = (1, 60.0), (10, (60.0 + 9 * 5.0) / 10), (20, 5.0)


@every(
    {
        "from the start": (["", *(megatron(*each) for each in SLOW_FIRST)], [60, 45, 50]),
        "each iteration": ([megatron(1, 60.0), megatron(2, 32.5), megatron(3, 5.0)], [60, 5, 5]),
        "after a restart": (
            [megatron(30, 5.0), *(megatron(20 + step, mean) for step, mean in SLOW_FIRST)],
            [5, 60, 45, 50],
        ),
        "after a restart from a step that was not logged": (
            [megatron(20, 5.0), BEGIN, megatron(26, 60.0), megatron(30, (60 + 4 * 5) / 5)],
            [5, 60, 20],
        ),
        "from the middle": ([megatron(30, 6.0), megatron(40, 5.0)], [6, 50]),
        "before core 0.16": (
            [megatron(each, 5.0, "2025-01-01 10:00:00") for each in (1, 11, 21)],
            [5, 50, 50],
        ),
    }.items()
)
def test_the_slow_first_iteration_of_megatron_is_in_one_statement(
    name: str, log: tuple[list[str], list[float]]
) -> None:
    """Since core 0.16 the first iteration is logged without a reset of the timer."""
    lines, seconds = log
    follower = readers.follower("megatron", JobFacts())
    found = [one for one in map(follower.line, lines) if one]
    assert [one.seconds for one in found] == pytest.approx(seconds), name
    own = [one for one in found if one.seconds not in (6, 60)]
    rates = [(one.flops_per_second or 0.0) / 1e12 for one in own]
    assert rates == pytest.approx([420.4] * len(own), rel=2e-3)
