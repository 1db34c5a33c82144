"""What the simulation promises: values as the paper measured them, the same for the same seed."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from ofu_exporter.hardware.gpu_models import find_row
from ofu_exporter.sources.simulate import driver
from ofu_exporter.values.reading import Reading
from tests.helpers.values import FakeClock


class Node:
    """A simulated node and its clock."""

    def __init__(self, **options: object) -> None:
        self.clock = FakeClock()
        self.source = driver.Source(driver.Options.model_validate(options), self.clock)
        self.probes = self.source.open()

    def run(self, seconds: float, interval: float = 5.0, polls: int = 9) -> list[Reading]:
        """Read every GPU window by window, with clock reads in between."""
        self.clock.now += driver.STEP_SECONDS / 2  # so that no read is on the edge of a step
        taken: list[Reading] = self.read()
        for _ in range(round(seconds / interval)):
            for _ in range(polls):
                self.clock.now += interval / (polls + 1)
                for probe in self.probes:
                    probe.poll()
            self.clock.now += interval / (polls + 1)
            taken += self.read()
        return taken

    def read(self) -> list[Reading]:
        events = [event for probe in self.probes for event in probe.read()]
        return [event for event in events if isinstance(event, Reading)]


def of(taken: Sequence[Reading], index: int) -> list[Reading]:
    return [reading for reading in taken if reading.gpu.index == str(index)]


def test_it_says_that_it_is_simulated() -> None:
    node = Node()
    assert node.source.simulated
    uuids = [gpu.uuid for probe in node.probes for gpu in probe.gpus()]
    assert len(set(uuids)) == 8
    assert all("SIMULATED" in uuid for uuid in uuids)


def test_its_card_is_known_by_its_pci_id_too() -> None:
    (gpu,) = Node().probes[0].gpus()
    row = find_row(gpu)
    assert row is not None
    assert find_row(replace(gpu, name="NVIDIA Graphics Device")) == row


def test_it_has_as_many_gpus_as_asked_for() -> None:
    assert len(Node(simulated_gpus=17).probes) == 17


@pytest.mark.parametrize("number", [0, -1, 73])
def test_the_number_of_gpus_is_bounded(number: int) -> None:
    with pytest.raises(ValidationError):
        driver.Options(simulated_gpus=number)


def test_one_seed_gives_the_same_values_twice() -> None:
    assert Node(seed=7).run(60) == Node(seed=7).run(60)


def test_another_seed_gives_other_values() -> None:
    one, other = (Node(seed=seed).run(60) for seed in (1, 2))
    assert [r.tensor_active for r in one] != [r.tensor_active for r in other]


def test_how_often_the_clock_is_read_changes_nothing() -> None:
    often, rarely = (Node().run(60, polls=polls) for polls in (49, 0))
    assert [r.tensor_active for r in often] == pytest.approx([r.tensor_active for r in rarely])


def test_the_first_read_only_begins_a_window() -> None:
    assert Node().read() == []


def test_windows_tile() -> None:
    taken = Node().run(100)
    for index in range(8):
        mine = of(taken, index)
        assert len(mine) == 20
        assert all(a.end == b.start for a, b in itertools.pairwise(mine))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.08, 0.12), min_size=2, max_size=30))
def test_windows_as_short_as_allowed_tile_in_spite_of_jitter(waits: list[float]) -> None:
    node = Node(simulated_gpus=1)
    began = node.clock.now
    taken = node.read()
    for wait in waits:
        node.clock.now += wait
        taken += node.read()
    assert taken[0].start == began
    assert all(a.end == b.start for a, b in itertools.pairwise(taken))


@pytest.mark.slow
def test_under_full_load_the_clock_moves_as_the_paper_measured() -> None:
    """H100, arXiv:2605.20799, IV-C: 1,201 to 1,558 MHz, mean 1,352, standard deviation 32."""
    pretraining = of(Node(simulated_gpus=4).run(1500, interval=50.0, polls=499), 3)
    reads = [sample.hz for reading in pretraining for sample in reading.clocks]
    hz = [value for value in reads if value < 1600e6]  # its other phase runs well above
    assert len(hz) > 10_000
    assert statistics.fmean(hz) == pytest.approx(1352e6, abs=3e6)
    assert statistics.stdev(hz) == pytest.approx(32e6, abs=2e6)
    assert min(hz) >= 1201e6
    assert max(hz) <= 1558e6


@pytest.mark.parametrize(
    ("index", "phases"),
    [
        (0, [(2.4, 1352e6, 0.74), (0.4, 1755e6, 0.02), (0.2, 1980e6, 0.0)]),
        (3, [(5.0, 1352e6, 0.82), (0.3, 1755e6, 0.05)]),
        (4, [(0.3, 1500e6, 0.61), (1.9, 1980e6, 0.11), (0.5, 1980e6, 0.0)]),
        (5, [(0.8, 1620e6, 0.45), (0.9, 1980e6, 0.04)]),
        (6, [(3.0, 1640e6, 0.58), (1.0, 1980e6, 0.0)]),
    ],
)
def test_a_load_repeats_its_phases(index: int, phases: list[tuple[float, float, float]]) -> None:
    """Seconds, SM clock and activity of each, by which the mean over cycles is worked out."""
    seconds = sum(length for length, _, _ in phases)
    cycles = sum(length * hz for length, hz, _ in phases)
    active = sum(length * hz * activity for length, hz, activity in phases) / cycles
    taken = of(Node(simulated_cycles=True).run(20 * seconds, interval=seconds, polls=0), index)
    assert [r.tensor_active for r in taken] == pytest.approx([active] * len(taken), rel=0.03)
    first, last = taken[0].cycles, taken[-1].cycles
    assert first is not None
    assert last is not None
    rounds = len(taken) - 1
    assert last.elapsed - first.elapsed == pytest.approx(rounds * cycles, rel=0.01)


def test_no_clock_is_above_the_cards_highest() -> None:
    for reading in Node().run(100):
        assert reading.gpu.max_sm_clock_hz is not None
        assert all(0 < sample.hz <= reading.gpu.max_sm_clock_hz for sample in reading.clocks)


def test_clock_reads_lie_in_their_window_and_hold_both_its_ends() -> None:
    for reading in Node().run(30):
        at = [sample.at for sample in reading.clocks]
        assert at == sorted(at)
        assert (at[0], at[-1], len(at)) == (reading.start, reading.end, 11)


def test_the_ratio_is_the_true_mean_of_its_window() -> None:
    taken = of(Node(simulated_cycles=True).run(60), 0)
    for before, after in itertools.pairwise(taken):
        assert before.cycles is not None
        assert after.cycles is not None
        tensor = after.cycles.tensor - before.cycles.tensor
        elapsed = after.cycles.elapsed - before.cycles.elapsed
        assert after.tensor_active == pytest.approx(tensor / elapsed)


def test_elapsed_cycles_are_the_clock_integrated() -> None:
    """Over a minute, as closely as reads ten times a second show it."""
    taken = of(Node(simulated_cycles=True).run(60, polls=49), 0)
    assert taken[0].cycles is not None
    assert taken[-1].cycles is not None
    cycles = taken[-1].cycles.elapsed - taken[0].cycles.elapsed
    mean = statistics.fmean(s.hz for reading in taken[1:] for s in reading.clocks)
    assert cycles == pytest.approx(mean * (taken[-1].end - taken[0].end), rel=0.01)


def test_cycle_counters_are_there_only_when_asked_for() -> None:
    assert all(reading.cycles is None for reading in Node().run(10))


def test_pipes_sum_to_the_total() -> None:
    for reading in Node().run(60):
        assert sum(reading.pipes.values()) == pytest.approx(reading.tensor_active)


def test_the_node_shows_every_pipe_and_an_idle_gpu() -> None:
    taken = Node().run(60)
    busy = {pipe for reading in taken for pipe, value in reading.pipes.items() if value > 0}
    assert busy == {"hmma", "imma", "dfma"}
    assert any(all(r.tensor_active == 0 for r in of(taken, index)) for index in range(8))


def test_activity_is_a_ratio() -> None:
    for reading in Node().run(60):
        assert reading.tensor_active is not None
        assert 0 <= reading.tensor_active <= 1
