"""The time of one GPU is split by what ran, and where nothing ran by what the host was about."""

from __future__ import annotations

import pytest

from ofu_exporter.traces.families import Kind
from ofu_exporter.traces.host import Idle, Launches, pauses
from ofu_exporter.traces.seconds import IDLE_PART, Split, SplitTime
from ofu_exporter.traces.timeline import Timeline
from ofu_exporter.values.trace import UNLIMITED
from tests.traces.trace_maker import ADD, ALL_REDUCE, PRODUCT, TO_GPU


def split(
    *ran: tuple[str, float, float, float],
    events: tuple[tuple[str, float, float], ...] = (),
    steps: tuple[tuple[float, float], ...] = (),
    one_stream: bool = False,
) -> SplitTime:
    """Of what ran by name, launch, start and end, each on a stream of its own."""
    timeline = Timeline(UNLIMITED)
    for number, (name, launch, start, end) in enumerate(ran, start=1):
        timeline.did("main", "cudaLaunchKernel", (launch, launch + 1), call=number)
        stream = 1 if one_stream else number
        timeline.add_event(0, name, (start, end), (stream, number), -1.0)
    for name, start, end in events:
        timeline.did("main", name, (start, end))
    gpu = timeline.gpus[0]
    made = Split(gpu, Launches(timeline), pauses(timeline))
    return made.run(range(len(gpu)), timeline.names, steps)


def seconds(found: SplitTime, kind: int) -> float:
    return sum(cell.seconds for cell in found.cells if cell.kind == kind) * 1e6


def test_where_kinds_overlap_the_first_of_them_counts_and_all_adds_up() -> None:
    collectives = ((ALL_REDUCE, 2.0, 20.0, 70.0), (ALL_REDUCE, 3.0, 50.0, 90.0))
    found = split((PRODUCT, 0.0, 10.0, 40.0), (ADD, 1.0, 30.0, 60.0), *collectives)
    assert seconds(found, Kind.TENSOR) == pytest.approx(30)
    assert seconds(found, Kind.OTHER) == pytest.approx(20)
    assert seconds(found, Kind.COMMUNICATION) == pytest.approx(30)
    assert found.communication_seconds == pytest.approx(70e-6)
    assert found.seconds == pytest.approx(80e-6)
    assert found.parts == pytest.approx((3 / 8, 2 / 8, 3 / 8, 0, 0))


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ((), {Idle.OTHER_HOST: 59.0}),
        ((("gc.collect", 25.0, 45.0),), {Idle.GARBAGE_COLLECTION: 20.0, Idle.OTHER_HOST: 39.0}),
        ((("aten::mm", 60.0, 75.0),), {Idle.OPERATOR: 59.0}),
        ((("cudaDeviceSynchronize", 5.0, 30.0),), {Idle.SYNCHRONISATION: 59.0}),
        (
            (("cudaDeviceSynchronize", 25.0, 30.0),),
            {Idle.SYNCHRONISATION: 5.0, Idle.OTHER_HOST: 54.0},
        ),
        ((("gc.collect", 72.0, 78.0),), {Idle.OTHER_HOST: 59.0}),
    ],
)
def test_idle_time_is_what_the_host_was_in_until_the_next_launch(
    events: tuple[tuple[str, float, float], ...], why: dict[Idle, float]
) -> None:
    """The GPU runs empty from 20 to 79; what follows was launched at 70. A wait for an empty GPU costs all of it."""
    found = split((PRODUCT, 0.0, 10.0, 20.0), (PRODUCT, 70.0, 79.0, 90.0), events=events)
    idle = {cell.idle: cell.seconds * 1e6 for cell in found.cells if cell.kind == IDLE_PART}
    assert idle == pytest.approx(why)


def test_the_shortest_times_without_work_add_up_too() -> None:
    """Half a microsecond before each of 20 kernels, which were launched late and all but as late as they could be."""
    begins = [3.0 * number for number in range(20)]
    found = split(*((PRODUCT, at - 0.25, at, at + 2.5) for at in begins))
    assert sum(cell.seconds for cell in found.cells) == pytest.approx(found.seconds, rel=1e-9)
    assert seconds(found, IDLE_PART) == pytest.approx(19 * 0.5)


def test_work_that_was_queued_and_waited_is_told_from_work_that_was_not_launched() -> None:
    """Launched before the first kernel had ended, it ran 10 us after that, or later."""
    soon = split((PRODUCT, 0.0, 10.0, 20.0), (PRODUCT, 17.0, 30.0, 40.0))
    late = split((PRODUCT, 0.0, 10.0, 20.0), (PRODUCT, 1.0, 30.1, 80.0))
    why = [{cell.idle for cell in each.cells if cell.kind == IDLE_PART} for each in (soon, late)]
    assert why == [{Idle.BETWEEN_LAUNCHES}, {Idle.OTHER_STREAM}]
    alone = split(
        (PRODUCT, 0.0, 10.0, 20.0), (PRODUCT, 1.0, 30.1, 80.0), one_stream=True
    )  # and so for no other stream
    assert {each.idle for each in alone.cells} == {None, Idle.BETWEEN_LAUNCHES}


@pytest.mark.parametrize(("fill", "is_small"), [(0.49, True), (0.5, False), (-1.0, False)])
def test_a_product_is_small_whose_blocks_are_fewer_than_half_of_the_sms(
    fill: float, is_small: bool
) -> None:
    """A fill below 0 is not known."""
    timeline = Timeline(UNLIMITED)
    timeline.add_event(0, PRODUCT, (0.0, 10.0), (1, 1), fill)
    gpu = timeline.gpus[0]
    (cell,) = Split(gpu, Launches(timeline), []).run(range(1), timeline.names, ()).cells
    assert cell.is_small is is_small


def test_each_step_has_its_own_parts() -> None:
    ran = ((PRODUCT, 0.0, 0.0, 30.0), (TO_GPU, 1.0, 30.0, 40.0), (PRODUCT, 2.0, 60.0, 80.0))
    found = split(*ran, steps=((0.0, 40.0), (40.0, 80.0), (90.0, 99.0)))
    (first, one), (second, other), (third, nothing) = found.steps
    assert (first, second, third) == pytest.approx((40e-6, 40e-6, 0))
    assert one == pytest.approx((3 / 4, 0, 0, 1 / 4, 0))
    assert other == pytest.approx((1 / 2, 0, 0, 0, 1 / 2))
    assert nothing is None
