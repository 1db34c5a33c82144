"""Which time of a GPU is credited: no second twice, whatever comes late, and no more memory than so much."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.ofu.ownership.held_time import (
    MOST_GPUS,
    MOST_SPANS,
    Credited,
    credit_span,
    free,
    gap,
)
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.job import Job
from ofu_exporter.values.reasons import Reason
from tests.helpers.node import EPOCH, Node, whole
from tests.helpers.values import fault, gpu

KEY = gpu(0).key
SECONDS = st.integers(0, 60)


@given(st.lists(st.tuples(SECONDS, SECONDS), max_size=30), SECONDS, SECONDS)
def test_what_is_free_is_every_second_that_nobody_was_credited_with(
    spans: list[tuple[int, int]], start: int, end: int
) -> None:
    credited: Credited = {}
    taken: set[int] = set()
    for first, last in spans:
        assert free(credited, KEY, first, last) == len({*range(first, last)} - taken)
        credited = credit_span(credited, KEY, first, last)
        taken |= {*range(first, last)}
    assert free(credited, KEY, start, end) == len({*range(start, end)} - taken)


def test_a_span_that_is_credited_late_is_one_with_its_neighbour() -> None:
    late = credit_span(credit_span({}, KEY, 5.0, 6.0), KEY, 4.0, 5.0)
    assert late == {KEY: ((4.0, 6.0),)}


def test_of_too_many_spans_the_oldest_are_one_and_nothing_is_free_in_it() -> None:
    credited: Credited = {}
    for start in range(0, 4 * MOST_SPANS, 2):
        credited = credit_span(credited, KEY, start, start + 1)
    assert len(credited[KEY]) == MOST_SPANS
    assert free(credited, KEY, 0, 4 * MOST_SPANS) == pytest.approx(MOST_SPANS)


def test_of_too_many_gpus_the_one_that_was_held_longest_ago_is_forgotten() -> None:
    credited: Credited = {}
    for number in range(MOST_GPUS):
        credited = credit_span(credited, gpu(number).key, number, number + 1)
    credited = credit_span(credited, KEY, 2 * MOST_GPUS, 2 * MOST_GPUS + 1)
    for number in range(MOST_GPUS, MOST_GPUS + 10):
        credited = credit_span(credited, gpu(number).key, number, number + 1)
    assert len(credited) == MOST_GPUS
    assert KEY in credited, "it was held first, and last too"
    assert gpu(10).key not in credited
    assert gpu(11).key in credited


@pytest.mark.parametrize(("days", "believed"), [(89.9, 89.9), (90.1, 0.0), (0.0, 0.0), (-1.0, 0.0)])
def test_no_job_began_more_than_90_days_ago_or_in_the_future(days: float, believed: float) -> None:
    assert gap(2e9 - days * 86400, 2e9) == pytest.approx(believed * 86400)


UNNAMED = Gpu("1", "index-1")
HOUR_OLD = Job("slurm", "1", started=EPOCH - 3600.0)


def test_a_gpu_that_says_later_which_it_is_was_held_once() -> None:
    """The driver of one GPU answers some seconds later than that of the other, when the agent starts."""
    node = Node(0)
    node.gpus = [gpu(0), UNNAMED]
    node.give(0.0, whole(HOUR_OLD, "0", "1"))
    node.gpus = [gpu(0), gpu(1)]
    node.run(0.0, 10.0)
    assert {key.uuid for key in node.job().usage} == {gpu(0).uuid, gpu(1).uuid}
    assert node.job().held_seconds == pytest.approx(2 * 3610.0)
    assert node.job().gpu_count == 2.0


def test_time_of_a_gpu_that_was_lost_before_it_said_which_it_is_stays_with_its_job() -> None:
    node = Node(0)
    node.gpus = [UNNAMED]
    node.tick(0.0, fault(0.0, Reason.LOST, UNNAMED))
    node.give(10.0, whole(HOUR_OLD, "1"))
    node.tick(30.0, fault(30.0, Reason.LOST, UNNAMED))
    assert node.job().held_seconds == pytest.approx(3630.0)
    assert node.job().gpu_count == 1.0
    node.gpus = [gpu(1)]
    node.run(30.0, 40.0)
    assert node.job().held_seconds == pytest.approx(3640.0)
    assert node.job().gpu_count == 1.0


def test_a_gpu_that_turns_out_to_be_divided_was_held_in_its_parts() -> None:
    node = Node(0)
    node.gpus = [UNNAMED]
    node.give(0.0, whole(HOUR_OLD, "1"))
    node.gpus = [gpu(1, instance=part) for part in ("1", "2")]
    node.run(0.0, 10.0)
    assert {key.instance for key in node.job().usage} == {"1", "2"}
    assert node.job().held_seconds == pytest.approx(3610.0)


def test_a_gpu_that_is_read_anew_is_not_held_beside_itself() -> None:
    """After a pause a source has not heard from the driver yet which GPU has this number."""
    node = Node(2)
    node.give(0.0, whole(HOUR_OLD, "1"))
    node.run(0.0, 10.0)
    node.tick(15.0, present=[gpu(0), UNNAMED])
    assert node.job().gpu_count == 1.0
    node.run(15.0, 20.0)
    assert node.job().held_seconds == pytest.approx(3620.0)
