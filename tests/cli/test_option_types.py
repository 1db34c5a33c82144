"""Numbers of the command line are read as people write them."""

from __future__ import annotations

import pytest

from tests.flops.counting import LLAMA
from tests.helpers.in_process import call


@pytest.mark.parametrize("written", ["12,000", "12k", "12_000", "1.2e4"])
def test_a_rate_is_read_as_people_write_it(written: str) -> None:
    gpu = ("--gpu", "NVIDIA L40", "--gpus", "1")
    rates = ("12000", written)
    done = [
        call("mfu", LLAMA, "--seq-len", "8", *gpu, "--tokens-per-second", rate) for rate in rates
    ]
    assert done[0].returncode == 0
    assert done[0].stdout == done[1].stdout


def test_a_number_is_read_with_commas_between_thousands_alone() -> None:
    plain, grouped, wrong = (
        call("flops", LLAMA, "--seq-len", length) for length in ("8192", "8,192", "8,19")
    )
    assert plain.returncode == 0
    assert plain.stdout == grouped.stdout
    assert "'8,19' is not a valid integer" in wrong.stderr


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (("flops", LLAMA), "--seq-len"),
        (("flops", LLAMA), "--length=tokens="),
        (
            ("mfu", LLAMA, "--seq-len", "8", "--gpu", "NVIDIA L40", "--tokens-per-second", "1"),
            "--gpus",
        ),
        (("explain", "--mfu", "60%", "--ofu", "40%"), "--accumulation"),
    ],
)
def test_a_number_that_no_float_holds_is_refused(command: tuple[str, ...], option: str) -> None:
    many = "1" + 400 * "0"
    done = call(*command, *((option + many,) if "=" in option else (option, many)))
    assert done.returncode == 2
    assert "... is above 9007199254740992" in done.stderr
    assert "Traceback" not in done.stderr
