"""A host engine: what is watched ends with the connection, and nothing is asked that would kill it."""

from __future__ import annotations

import os
import socket
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from ofu_exporter.sources.dcgm import host_engine
from ofu_exporter.sources.dcgm.host_engine import HostEngine
from ofu_exporter.sources.dcgm.library import GPU, DcgmError, Entity, Library
from ofu_exporter.values.reasons import Reason
from tests.doubles import dcgm as double

ADDRESS = "127.0.0.1:5555"
FIRST, SECOND = Entity(GPU, 0), Entity(GPU, 1)
TENSOR, CYCLES = 1004, 1084
EPOCH = 1.8e9
NOBODY = 65534


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> double.Scenario:
    scenario = double.Scenario(tmp_path / "scenario", gpus=2)
    monkeypatch.setenv(double.SCENARIO_VARIABLE, str(scenario.path))
    double.load().test_reset()
    scenario.at(EPOCH)
    return scenario


@pytest.fixture
def engine(scenario: double.Scenario) -> Iterator[HostEngine]:
    library = Library()
    engine = HostEngine(library, ADDRESS, lambda: EPOCH + 20)
    yield engine
    engine.close()
    library.close()


@pytest.mark.parametrize("field", [1001, TENSOR, 1015, CYCLES, 1096])
def test_live_values_of_a_profiling_field_are_never_asked_for(
    engine: HostEngine, field: int
) -> None:
    """The host engine, and all of its clients on the node, would end there."""
    with pytest.raises(ValueError, match="crash the host engine"):
        engine.live(FIRST, [100, field])


def test_live_values_of_the_rest_are(engine: HostEngine) -> None:
    (clock, name) = engine.live(FIRST, [100, 50])
    assert (clock.value, name.value) == (1500, "NVIDIA H100 80GB HBM3")


def test_samples_come_once_and_in_order(engine: HostEngine, scenario: double.Scenario) -> None:
    watch = engine.watch([FIRST, SECOND], [TENSOR], 1.0)
    watch.skip_to(EPOCH)
    scenario.at(EPOCH + 20)
    samples = watch.samples()
    for entity in (FIRST, SECOND):
        times = [s.micros for s in samples if s.entity == entity]
        assert times == [round((EPOCH + second) * 1e6) for second in range(21)]
    assert samples[0].value is None
    assert watch.samples() == []
    scenario.at(EPOCH + 30)
    (last, *_) = watch.samples()
    assert last.micros == round((EPOCH + 21) * 1e6)
    watch.close()


def test_a_sample_that_comes_to_light_behind_a_read_is_not_lost(
    engine: HostEngine, scenario: double.Scenario
) -> None:
    """It bears the time at which the host engine began to take it."""
    watch = engine.watch([FIRST], [TENSOR], 1.0)
    watch.skip_to(EPOCH)
    scenario.at(EPOCH + 4)
    scenario.add("late 1")
    scenario.at(EPOCH + 5.5)
    seconds = [s.micros - EPOCH * 1e6 for s in watch.samples()]
    scenario.at(EPOCH + 6.5)
    seconds += [s.micros - EPOCH * 1e6 for s in watch.samples()]
    assert [second / 1e6 for second in seconds] == [0, 1, 2, 3, 4, 5, 6]
    watch.close()


def test_a_watch_says_at_which_entity_a_read_broke_off_and_nothing_is_lost(
    engine: HostEngine, scenario: double.Scenario
) -> None:
    watch = engine.watch([FIRST, SECOND], [TENSOR], 1.0)
    scenario.error("dcgmGetValuesSince_v2", -18, gpu=1)
    with pytest.raises(DcgmError, match="-18"):
        watch.samples()
    assert watch.failed == SECOND
    watch.drop(SECOND)
    watch.skip_to(EPOCH)
    scenario.at(EPOCH + 3)
    assert [s.micros / 1e6 - EPOCH for s in watch.samples()] == [0, 1, 2, 3]
    watch.close()


def test_a_new_watch_leaves_out_what_others_had_sampled_before(
    engine: HostEngine, scenario: double.Scenario
) -> None:
    engine.watch([FIRST], [TENSOR], 1.0)
    scenario.at(EPOCH + 20)
    later = engine.watch([FIRST], [TENSOR], 1.0)
    assert [s.micros for s in later.samples()] == [round((EPOCH + 20) * 1e6)]


def test_what_one_connection_watched_ends_with_it(engine: HostEngine) -> None:
    library = double.load()
    engine.watch([FIRST], [TENSOR], 1.0)
    assert library.test_watches() == 1
    engine.close()
    assert (library.test_watches(), library.test_groups()) == (0, 0)


def test_fields_are_let_go_of_one_by_one(engine: HostEngine) -> None:
    library = double.load()
    engine.watch([FIRST, SECOND], [TENSOR, CYCLES], 1.0)
    engine.unwatch(FIRST, [CYCLES])
    watched = [(e, f) for e in (0, 1) for f in (TENSOR, CYCLES) if library.test_is_watched(1, e, f)]
    assert watched == [(0, TENSOR), (1, TENSOR), (1, CYCLES)]


def test_a_watch_that_fails_leaves_no_group_behind(
    engine: HostEngine, scenario: double.Scenario
) -> None:
    for call in ("dcgmFieldGroupCreate", "dcgmWatchFields", "dcgmGroupAddEntity"):
        scenario.error(call, -3)
        with pytest.raises(DcgmError):
            engine.watch([FIRST], [TENSOR], 1.0)
        scenario.error(call, 0)
        assert double.load().test_groups() == 0


def test_two_clients_may_watch_the_same(engine: HostEngine) -> None:
    """Names of field groups must differ among all clients of a host engine."""
    engine.watch([FIRST], [TENSOR], 1.0)
    engine.watch([FIRST], [TENSOR], 1.0)


def test_it_is_found_where_it_usually_listens(
    engine: HostEngine, scenario: double.Scenario
) -> None:
    library = Library()
    assert host_engine.running(library) == ADDRESS
    scenario.add("address unix:/tmp/nv-hostengine")
    assert host_engine.running(library) == "unix:/tmp/nv-hostengine"
    scenario.add("engine 0")
    assert host_engine.running(library) is None
    library.close()


# --- a socket that others may not write to ---------------------------------------------------------


def refusal_without_rights(library: Library, address: str) -> str:
    """How a connection fails for a user who is not root, in a process of its own; "" when it does not."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # of other threads, which the child does not need
        child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            HostEngine(library, address)
        except DcgmError as error:
            os.write(writer, f"{error.reason.value}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with open(reader, encoding="utf-8") as answer:
        return answer.read()


@pytest.mark.parametrize(
    ("mode", "reason"), [(0o555, Reason.NO_PERMISSION), (0o777, Reason.UNREACHABLE)]
)
def test_a_socket_that_the_user_may_not_write_to_says_so(
    monkeypatch: pytest.MonkeyPatch, mode: int, reason: Reason
) -> None:
    """`nv-hostengine -d` makes it root's, with mode 755, and the library answers -21 as if nobody were there."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        Path(folder).chmod(0o755)
        path = Path(folder) / "nv-hostengine"
        listener.bind(str(path))
        listener.listen()
        path.chmod(mode)
        scenario = double.Scenario(Path(folder) / "scenario")
        scenario.error("dcgmConnect_v2", -21)
        monkeypatch.setenv(double.SCENARIO_VARIABLE, str(scenario.path))
        double.load().test_reset()
        library = Library()
        refusal = refusal_without_rights(library, f"unix:{path}")
        library.close()
        assert refusal.startswith(reason.value)
        assert (str(path) in refusal) == (reason is Reason.NO_PERMISSION)


@pytest.mark.parametrize("path", ["/nowhere/nv-hostengine", "/" + "x" * 200])
def test_a_socket_that_is_not_there_is_unreachable(scenario: double.Scenario, path: str) -> None:
    library = Library()
    with pytest.raises(DcgmError) as caught:
        HostEngine(library, f"unix:{path}")
    library.close()
    assert caught.value.reason is Reason.UNREACHABLE


def test_a_host_engine_that_may_not_be_reached_runs_all_the_same(scenario: double.Scenario) -> None:
    """A second one would not be started beside it."""
    scenario.error("dcgmConnect_v2", -17)
    library = Library()
    assert host_engine.running(library, [ADDRESS]) == ADDRESS
    scenario.error("dcgmConnect_v2", -21)
    assert host_engine.running(library, [ADDRESS]) is None
    library.close()
