"""A loss is over 15 % beyond the noise of the run, in each of three tries; all else passes, and says why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from pathlib import Path

import pytest

from tests.bench import ratios
from tests.bench.code_costs import ROWS, CannotRunError, Code, Found, Sitting
from tests.bench.last_release import NoReleaseError
from tests.bench.ratios import (
    NOTES,
    ROUNDS,
    WORST,
    Allowed,
    Notes,
    Ratio,
    compare,
    losses,
    measured,
    ratio,
    read_notes,
    shown,
)

CODES = [Code("today's code", Path("a")), Code("v1", Path("b")), Code("v1", Path("c"))]
NOTHING = Notes(None, ())


class Costs:
    """A sitting whose costs are known: of today's code, and of the last release under two names."""

    def __init__(self, *tries: Sequence[float]) -> None:
        """`tries` hold from one try to the next, and the last one for ever."""
        self.sittings = 0
        self._next: Iterator[Sequence[float]] = chain(
            chain.from_iterable([costs] * ROUNDS for costs in tries), repeat(tries[-1])
        )

    def __call__(self, codes: Sequence[Code]) -> Found:
        assert [*codes] == CODES
        self.sittings += 1
        return {"page": list(next(self._next))}


@pytest.fixture(autouse=True)
def cold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ratios, "warm_up", lambda _: None)


def lost(monkeypatch: pytest.MonkeyPatch, sitting: Sitting, notes: Notes = NOTHING) -> set[str]:
    monkeypatch.setattr(ratios, "SITTINGS", (sitting,))
    return compare(CODES, "v1", notes)


def test_the_ratio_is_to_the_mean_of_the_last_release_and_the_noise_how_far_that_is_from_itself() -> (
    None
):
    found = ratio([(1.2, 0.9, 1.1), (1.0, 1.0, 1.0), (3.0, 1.0, 1.04)])
    assert found.value == pytest.approx(1.2)
    assert found.noise == pytest.approx(0.04)


def test_noise_is_the_same_whichever_name_costs_more() -> None:
    assert ratio([(1.0, 1.0, 0.94)]).noise == pytest.approx(0.06)


@pytest.mark.parametrize(
    ("value", "noise", "is_lost"),
    [
        (1.0, 0.0, False),
        (1.14, 0.0, False),
        (1.16, 0.0, True),
        (1.2, 0.06, False),
        (1.3, 0.1, True),
        (9.0, 0.11, False),
    ],
)
def test_a_loss_is_beyond_the_limit_and_the_noise_of_a_machine_that_is_quiet_enough(
    value: float, noise: float, is_lost: bool
) -> None:
    assert losses({"page": Ratio(value, noise)}, "v1", NOTHING) == ({"page"} if is_lost else set())


def test_one_round_in_five_says_nothing() -> None:
    assert ratio([(9.0, 1.0, 1.0), *[(1.0, 1.0, 1.0)] * 4]) == Ratio(1.0, 0.0)


def test_what_is_lost_in_each_of_three_tries_is_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sitting = Costs((1.3, 1.0, 1.0))
    assert lost(monkeypatch, sitting) == {"page"}
    assert sitting.sittings == 3 * ROUNDS
    assert capsys.readouterr().out.count("| page | 1.300 | 0.000 | lost |") == 3


@pytest.mark.parametrize(
    "tries",
    [
        [(1.0, 1.0, 1.0)],
        [(1.3, 1.0, 1.0), (1.0, 1.0, 1.0)],
        [(1.3, 1.0, 1.0), (1.3, 1.0, 1.0), (1.1, 1.0, 1.0)],
        [(1.3, 1.0, 1.2)],
    ],
)
def test_what_is_not_lost_each_time_is_not(
    monkeypatch: pytest.MonkeyPatch, tries: list[tuple[float, ...]]
) -> None:
    sitting = Costs(*tries)
    assert lost(monkeypatch, sitting) == set()
    assert sitting.sittings == len(tries) * ROUNDS


def test_too_much_noise_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lost(monkeypatch, Costs((2.0, 1.0, 1.2))) == set()
    assert "| page | 1.818 | 0.200 | too noisy to tell |" in capsys.readouterr().out


def test_only_what_seems_lost_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    well, ill = Costs((1.0, 1.0, 1.0)), Costs((1.3, 1.0, 1.0))
    monkeypatch.setattr(ratios, "SITTINGS", (lambda codes: {"memory": well(codes)["page"]}, ill))
    assert compare(CODES, "v1", NOTHING) == {"page"}
    assert (well.sittings, ill.sittings) == (ROUNDS, 3 * ROUNDS)


def test_what_is_allowed_since_this_release_is_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    for since, what, most, expected in (
        ("v1", "page", 1.35, set()),
        ("v1", "page", 1.25, {"page"}),
        ("v0", "page", 1.35, {"page"}),
        ("v1", "memory", 1.35, {"page"}),
        ("v1", "page", 1.0, {"page"}),
    ):
        notes = Notes(None, (Allowed(since, what, most, "it is worth it"),))
        assert lost(monkeypatch, Costs((1.3, 1.0, 1.0)), notes) == expected, (since, what, most)
    assert Notes(None, (Allowed("v1", "page", 1.0, ""),)).limit("v1", "page") == WORST


def test_an_old_code_that_does_not_run_here_is_said_and_no_loss(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def old_fails(codes: Sequence[Code]) -> Found:
        raise CannotRunError(codes[1], "No module named 'gone'")

    well = Costs((1.0, 1.0, 1.0))
    found = measured(CODES, (old_fails, well))
    assert found == {well: {"page": Ratio(1.0, 0.0)}}
    assert (
        capsys.readouterr().out
        == "not compared: old_fails, because of v1: No module named 'gone'\n"
    )


def test_todays_code_has_to_run() -> None:
    def today_fails(codes: Sequence[Code]) -> Found:
        raise CannotRunError(codes[0], "No module named 'gone'")

    with pytest.raises(SystemExit, match="today_fails: today's code: No module named 'gone'"):
        measured(CODES, (today_fails,))


def test_without_a_release_it_says_so_and_passes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none(root: Path, commit: str | None) -> str:
        raise NoReleaseError("not a git repository")

    monkeypatch.setattr(ratios, "last_release", none)
    ratios.main([])
    assert capsys.readouterr().out == "not compared: not a git repository\n"


def test_a_commit_is_shown_by_its_beginning() -> None:
    assert shown("081cf39363846ddc35986e283546319a47a9dc6d") == "081cf39363"
    assert shown("v0.10.0-rc1") == "v0.10.0-rc1"


def test_what_is_allowed_is_a_row_and_says_why() -> None:
    for each in read_notes(NOTES).allowed:
        assert each.what in ROWS
        assert each.ratio > WORST
        assert each.why


def test_a_line_as_the_file_shows_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "notes.yaml"
    example = '{since: v0.1.0, what: page, ratio: 1.3, why: "two more lines for each GPU"}'
    assert example in NOTES.read_text()
    path.write_text(f"allowed:\n  - {example}\n")
    assert read_notes(path) == Notes(
        None, (Allowed("v0.1.0", "page", 1.3, "two more lines for each GPU"),)
    )
