"""The tick: what was measured becomes totals and a snapshot, the same for the same input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.hardware.gpu_models import custom_row
from ofu_exporter.ofu.tick import FORGET_AFTER_SECONDS, MOST_GONE, State, Tick, step
from ofu_exporter.reports.coverage import reported_sums
from ofu_exporter.values.gpu import Gpu, Share
from ofu_exporter.values.job import Job
from ofu_exporter.values.reading import Fault, Reading
from ofu_exporter.values.reasons import Reason, Rejection
from ofu_exporter.values.snapshot import GpuView, Snapshot
from tests.helpers.node import Node, whole
from tests.helpers.values import fault, gpu, health, reading

Event = Reading | Fault


class Agent:
    """A state that is stepped along."""

    def __init__(self) -> None:
        self.state = State()
        self.last: Snapshot | None = None

    def tick(
        self, events: Sequence[Event] = (), now: float = 0.0, present: Sequence[Gpu] | None = None
    ) -> Snapshot:
        gpus = [event.gpu for event in events] if present is None else present
        tick = Tick(now, 5.0, gpus, events, health())
        self.state, self.last = step(self.state, tick)
        return self.last

    def view(self, index: int = 0) -> GpuView:
        assert self.last is not None
        return next(view for view in self.last.gpus if view.gpu.index == str(index))


@pytest.fixture
def agent() -> Agent:
    return Agent()


def test_a_known_gpu_is_starting_until_its_first_window(agent: Agent) -> None:
    agent.tick(present=[gpu()])
    assert agent.view().reason is Reason.STARTING
    assert agent.view().sampled_at is None


def test_one_bad_gpu_costs_the_others_nothing(agent: Agent) -> None:
    bad = gpu(1)
    agent.tick([reading(0, 5), reading(0, 5, tensor=7.0, device=bad), fault(5, device=gpu(2))], 5)
    assert agent.view(0).window is not None
    assert agent.view(1).reason is Reason.IMPOSSIBLE
    assert agent.view(1).rejected == {"tensor_out_of_range": 1}
    assert agent.view(2).reason is Reason.LOST


def test_an_old_window_is_not_served(agent: Agent) -> None:
    agent.tick([reading(0, 5)], now=5)
    assert agent.tick(present=[gpu()], now=18).gpus[0].window is not None
    stale = agent.tick(present=[gpu()], now=19).gpus[0]
    assert (stale.window, stale.reason) == (None, Reason.STALE)


def test_two_gpus_with_one_uuid_the_first_is_measured(agent: Agent) -> None:
    first, second = gpu(0, uuid="GPU-x"), gpu(1, uuid="GPU-x")
    snapshot = agent.tick(
        [reading(0, 5, tensor=0.5, device=first), reading(0, 5, tensor=0.9, device=second)], now=5
    )
    (view,) = snapshot.gpus
    assert view.gpu.index == "0"
    assert view.window is not None
    assert view.window.tensor_active == 0.5
    assert view.rejected == {"duplicate_uuid": 1}


def test_mig_instances_of_one_gpu_are_measured_each(agent: Agent) -> None:
    agent.tick([reading(0, 5, device=gpu(0, instance=i)) for i in ("1", "2")], now=5)
    assert agent.last is not None
    assert {view.gpu.instance for view in agent.last.gpus} == {"1", "2"}


def test_a_row_of_the_users_takes_effect_at_the_next_tick(agent: Agent) -> None:
    unknown = Gpu("0", "GPU-u", name="NVIDIA Z999", max_sm_clock_hz=2000e6)
    agent.tick(present=[unknown])
    row = custom_row(name="NVIDIA Z999", tensor_clock_hz=1600e6)
    _, snapshot = step(agent.state, Tick(1.0, 5.0, [unknown], [], health(), (row,)))
    rating = snapshot.gpus[0].rating
    assert rating is not None
    assert (rating.origin, rating.tensor_clock_hz["low_precision"]) == ("configured", 1600e6)

    _, at_once = step(State(), Tick(1.0, 5.0, [unknown], [], health(), (row,)))
    assert at_once.gpus[0].rating == rating


def test_what_a_source_learns_of_a_gpu_takes_effect_at_once(agent: Agent) -> None:
    """A driver may tell the name later than the uuid."""
    agent.tick(present=[Gpu("0", "GPU-0000")])
    assert agent.view().rating is None
    agent.tick([reading(0, 5)], now=5)
    assert agent.view().gpu == gpu()
    assert agent.view().rating is not None
    assert agent.view().window is not None


@pytest.mark.parametrize("renamed", [False, True])
@pytest.mark.parametrize("observed", [0.5, 5.0])
def test_a_gpu_that_is_gone_is_remembered_for_an_hour_since_it_was_seen(
    agent: Agent, renamed: bool, observed: float
) -> None:
    agent.tick([reading(0, observed)], now=5)
    last = replace(gpu(), driver="595.45") if renamed else gpu()
    agent.tick(present=[last], now=5000)
    assert agent.tick(present=[], now=5000 + FORGET_AFTER_SECONDS - 1).gpus
    assert not agent.tick(present=[], now=5000 + FORGET_AFTER_SECONDS + 1).gpus


def test_of_more_gpus_than_are_remembered_the_one_gone_longest_is_forgotten(agent: Agent) -> None:
    all_of_them = [gpu(index) for index in range(MOST_GONE + 1)]
    agent.tick([reading(device=each) for each in all_of_them], now=5)
    agent.tick(present=all_of_them[:-1], now=100)
    left = {view.gpu.index for view in agent.tick(present=[], now=200).gpus}
    assert left == {str(index) for index in range(MOST_GONE)}


def test_a_gpu_that_was_never_measured_is_forgotten_with_its_going(agent: Agent) -> None:
    agent.tick(present=[gpu()], now=5)
    assert not agent.tick(present=[], now=6).gpus


def test_a_placeholder_is_forgotten_when_the_gpu_has_its_name(agent: Agent) -> None:
    agent.tick([fault(0, device=Gpu("0", "index-0"))])
    agent.tick([reading(0, 5)], now=5)
    assert agent.last is not None
    assert [view.gpu.uuid for view in agent.last.gpus] == ["GPU-0000"]


def test_a_gpu_that_is_lost_when_it_is_found_anew_is_there_once(agent: Agent) -> None:
    """As at a reload and after a pause: the driver tells of an index, and nothing of what is there."""
    parts = [replace(gpu(1), instance=part) for part in "12"]
    agent.tick([reading(0, 5, device=each) for each in (gpu(0), *parts)], now=5)
    unknown = [Gpu(str(index), f"index-{index}") for index in range(3)]
    shown = agent.tick(present=unknown, now=6).gpus
    assert [view.gpu for view in shown] == [gpu(0), *parts, unknown[2]]
    assert [view.reason for view in shown] == [None] * 3 + [Reason.STARTING]
    lost = agent.tick([fault(7, Reason.LOST, device=each) for each in unknown], now=7).gpus
    assert [view.gpu for view in lost] == [gpu(0), *parts, unknown[2]]
    assert {view.reason for view in lost} == {Reason.LOST}
    both: list[Event] = [fault(11, device=unknown[2]), reading(7, 12, device=gpu(2))]
    back = agent.tick(both, now=12, present=[unknown[0], gpu(2)]).gpus
    assert [view.gpu for view in back] == [gpu(0), gpu(2), *parts]
    assert back[1].reason is None


def test_an_index_is_of_the_gpu_that_was_seen_there_last(agent: Agent) -> None:
    agent.tick([reading(0, 5)], now=5)
    other = replace(gpu(), uuid="GPU-1111")
    agent.tick([reading(5, 10, device=other)], now=10)
    unknown = Gpu("0", "index-0")
    views = agent.tick([fault(15, Reason.HUNG, device=unknown)], now=15).gpus
    assert {view.gpu.uuid: view.reason for view in views}["GPU-1111"] is Reason.HUNG
    assert len(views) == 2
    moved = replace(other, index="1")
    views = agent.tick(present=[moved, unknown], now=16).gpus
    assert [view.gpu.key for view in views] == [moved.key, gpu().key], "it has moved"


def test_another_instance_with_the_number_of_one_shows_nothing_of_it(agent: Agent) -> None:
    first = replace(gpu(instance="1"), profile="3g.40gb", mig_uuid="MIG-1")
    agent.tick([reading(0, 5, device=first)], now=5)
    assert agent.tick(present=[first], now=6).gpus[0].window is not None
    other = agent.tick(present=[replace(first, profile="1g.10gb", mig_uuid="MIG-2")], now=7).gpus[0]
    assert (other.window, other.reason) == (None, Reason.STARTING)
    assert other.observed_seconds > 0, "no counter goes back"


def test_a_snapshot_says_when_by_which_source_and_beside_which_others(agent: Agent) -> None:
    page = health("page")
    tick = Tick(
        *(7.0, 5.0, [gpu(0), gpu(1)], [], health("nvml")),
        other_sources=(page,),
        readers={gpu(1).uuid: "page"},
    )
    _, snapshot = step(agent.state, tick)
    assert (snapshot.at, snapshot.source.name, snapshot.other_sources) == (7.0, "nvml", (page,))
    assert [view.source for view in snapshot.gpus] == ["", "page"]


def clock_steps(*times: tuple[float, float]) -> int:
    """How often the node's clock was set, by (monotonic, Unix) times of ticks."""
    state = State()
    for now, unix in times:
        state, snapshot = step(state, Tick(now, 5.0, [], [], health(), unix=unix))
    return snapshot.clock_steps


def test_a_clock_that_was_set_is_noticed_and_one_that_drifts_is_not() -> None:
    assert clock_steps((10, 5010), (15, 5015.9), (20, 5020.1)) == 0
    assert clock_steps((10, 5010), (15, 5016.1), (20, 5021.1), (25, 4000)) == 2
    assert clock_steps((10, 5010), (15, 0.0), (20, 5020)) == 0, "one that is not known says nothing"
    assert clock_steps((10, 0.0), (15, 5015)) == 0


@given(st.permutations(range(4)))
def test_the_tick_is_pure(order: list[int]) -> None:
    events = [reading(0, 5, tensor=0.1 * i, device=gpu(i)) for i in order]
    one = step(State(), Tick(5.0, 5.0, [e.gpu for e in events], events, health()))
    two = step(State(), Tick(5.0, 5.0, [e.gpu for e in events], events, health()))
    assert one == two


def test_what_an_earlier_agent_counted_is_not_counted_again() -> None:
    state = State(counted_before={gpu().key: 30.0})
    tick = Tick(35.0, 5.0, [gpu()], [reading(5.0, 35.0), reading(35.0, 40.0)], health())
    _, snapshot = step(state, tick)
    (view,) = snapshot.gpus
    assert view.observed_seconds == pytest.approx(5.0)
    assert view.rejected == {Rejection.OVERLAP.value: 1}


@given(
    st.lists(st.tuples(st.sampled_from([1, 2, 3]), st.floats(0, 1)), min_size=1, max_size=7).filter(
        lambda parts: sum(slices for slices, _ in parts) <= 7
    ),
    st.lists(st.floats(0.5, 20.0), min_size=1, max_size=5),
)
def test_instances_add_up_as_the_parts_of_one_gpu(
    parts: list[tuple[int, float]], lengths: list[float]
) -> None:
    """One job has every instance, another has a whole GPU beside them, and both report an MFU of 0.5."""
    instances = [
        replace(gpu(0, instance=str(number)), profile=f"{slices}g.{10 * slices}gb")
        for number, (slices, _) in enumerate(parts, start=1)
    ]
    node = Node(0)
    node.gpus = [*instances, gpu(1)]
    node.give(0.0, whole(Job("slurm", "parts"), "0"), whole(Job("slurm", "whole"), "1"))
    at = 0.0
    for length in lengths:
        ends = at + length
        node.tick(
            ends,
            *(
                reading(at, ends, tensor, device=device)
                for device, (_, tensor) in zip(instances, parts, strict=True)
            ),
            reading(at, ends, 0.5, device=gpu(1)),
        )
        at = ends
    share = sum(slices for slices, _ in parts) / 7
    ofu = sum(slices * tensor * 1400 / 1830 for slices, tensor in parts) / 7
    job, other = node.job("parts"), node.job("whole")
    assert job.held_seconds == pytest.approx(share * at)
    assert job.observed_seconds == pytest.approx(share * at)
    assert job.utilization_seconds == pytest.approx(ofu * at, abs=1e-7)
    assert sum(job.distribution.values()) == pytest.approx(share * at)
    assert other.held_seconds == pytest.approx(at)
    views = [view for view in node.last.gpus if view.gpu.instance]
    assert sum(view.observed_seconds for view in views) == pytest.approx(share * at)
    used = sum(view.utilization_seconds for view in views)
    assert used == pytest.approx(ofu * at, abs=1e-7)
    compared = reported_sums(0.5, 0.0, at, job.usage.values())
    assert compared.gpu_seconds == pytest.approx(share * at)
    assert compared.utilization_seconds == pytest.approx(ofu * at)
    assert compared.mfu_seconds == pytest.approx(0.5 * share * at)


def test_a_share_that_is_only_guessed_follows_the_instances_there_are() -> None:
    """Sums keep what was added before; nothing is weighed anew."""
    node = Node(0)
    node.gpus = [gpu(0, instance=number) for number in "12"]
    node.give(0.0, whole(Job("slurm", "1"), "0.1"))
    node.run(0.0, 10.0)
    node.gpus = node.gpus[:1]
    node.run(10.0, 20.0)
    (view,) = node.last.gpus
    assert view.share == Share(1.0, "instances")
    assert view.observed_seconds == pytest.approx(0.5 * 10 + 10)
    assert node.job("1").observed_seconds == pytest.approx(0.5 * 10 + 10)
    assert node.job("1").held_seconds == pytest.approx(0.5 * 10 + 10)
