"""Inputs that mean harm, in each way in: those that were found, and some that are new each time."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.corpus_file import FOLDER, kept
from tests.fuzz.missed import MISSED
from tests.fuzz.targets import TARGETS

CORPUS = [(name, path) for name in TARGETS for path in kept(name)]
EXAMPLES = 40


def case(name: str, path: Path) -> object:
    what = f"{name}/{path.name}"
    marks = [pytest.mark.xfail(reason=MISSED[what], strict=True)] if what in MISSED else []
    return pytest.param(name, path, marks=marks, id=what)


@pytest.mark.parametrize(("name", "path"), [case(*each) for each in CORPUS])
def test_what_was_found_once_does_no_harm_any_more(name: str, path: Path) -> None:
    TARGETS[name].check(path.read_bytes())


def test_what_is_missed_is_in_the_corpus_and_all_of_that_is_of_a_target() -> None:
    assert MISSED.keys() <= {f"{name}/{path.name}" for name, path in CORPUS}
    assert {path.name for path in FOLDER.iterdir()} <= TARGETS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_nothing_does_harm(name: str) -> None:
    """The same inputs each time: what is new is for `python -m tests.fuzz` to find."""

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(TARGETS[name].inputs)
    def look(data: bytes) -> None:
        TARGETS[name].check(data)

    look()


@pytest.mark.parametrize("name", TARGETS)
def test_most_inputs_differ(name: str) -> None:
    """An input that is always refused at its first byte would find nothing."""
    drawn: set[bytes] = set()

    @settings(max_examples=30, derandomize=True, database=None)
    @given(st.data())
    def draw(data: st.DataObject) -> None:
        drawn.add(data.draw(TARGETS[name].inputs))

    draw()
    assert len(drawn) > 15
