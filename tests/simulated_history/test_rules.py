"""Rules are evaluated as Prometheus does it: test_history.py compares all of ours, here are forms and longer times."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest

from tests.helpers.fleets import BEGIN, NODES, with_history
from tests.simulated_history import history, rules
from tests.simulated_history.series import RecordedSeries

RULES = """
groups:
  - name: ofu-own
    interval: 1m
    rules: [{record: "own:a:sum", expr: "EXPRESSION"}]
"""


def test_the_day_before_of_a_job_is_there_for_as_long_as_the_job_was_90_minutes_ago(
    tmp_path: Path,
) -> None:
    """As in Prometheus 2.42, which marks a series that ends as stale; the job's names end at minute 29."""
    text = NODES + "length: 130m\njobs:\n  - {name: a, gpus: 8, ofu: 0.3, lasts: 20m}\n"
    series = history.recorded(with_history(text, tmp_path), BEGIN)
    (day,) = (one for one in series if one.name == "job:ofu:ratio_sum1d")
    assert [minute for minute, _ in day.samples(0, 131)] == [*range(93, 120, 3)]


def evaluated(
    expression: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[int, float]]:
    (folder / "own.yaml").write_text(RULES.replace("EXPRESSION", expression))
    monkeypatch.setattr(rules, "folder", lambda _: folder)
    monkeypatch.setattr(rules, "FILES", ("own",))
    columns = [
        RecordedSeries("a", {"job_id": "1", "part": part}, first, array("d", values))
        for part, first, values in (("x", 1, (1.0, 2.0, 4.0)), ("y", 2, (10.0, 20.0)))
    ]
    return [sample for one in rules.recorded(columns, 5) for sample in one.samples(0, 6)]


@pytest.mark.parametrize(
    ("expression", "samples"),
    [
        ("sum by (job_id) (a)", [(1, 1), (2, 12), (3, 24)]),
        ("max by (job_id) (a)", [(1, 1), (2, 10), (3, 20)]),
        ("count by (job_id) (a > 3)", [(2, 1), (3, 2)]),
        ("topk by (job_id) (1, a) unless a{part='x'}", [(2, 10), (3, 20)]),
        ("increase(a{part='x'}[1m])", [(1, 1), (2, 1), (3, 2), (4, 0)]),
        ("sum_over_time(a{part='x'}[1m])", [(1, 1), (2, 3), (3, 6), (4, 4)]),
        ("count_over_time(a{part='x'}[2m])", [(1, 1), (2, 2), (3, 3), (4, 2), (5, 1)]),
        ("last_over_time(a{part='x'}[1m])", [(1, 1), (2, 2), (3, 4), (4, 4)]),
        ("a{part='x'} offset 2m", [(3, 1), (4, 2), (5, 4)]),
        ("a{part='x'} - on (job_id) a{part='y'}", [(2, -8), (3, -16)]),
    ],
)
def test_an_expression_gives_what_it_gives_by_hand(
    expression: str,
    samples: list[tuple[int, float]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert evaluated(expression, tmp_path, monkeypatch) == samples


@pytest.mark.parametrize("expression", ["stddev by (job_id) (a)", "deriv(a[2m])", "a % a", "a ^ 2"])
def test_a_form_that_is_not_known_is_an_error_and_not_a_wrong_number(
    expression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KeyError):
        evaluated(expression, tmp_path, monkeypatch)
