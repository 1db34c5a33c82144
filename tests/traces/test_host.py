"""What the host was about: who launched what, and in which pauses it launched nothing."""

from __future__ import annotations

from ofu_exporter.traces.host import Idle, Launches, Scope, cpu_collectives, pauses
from ofu_exporter.traces.sweep import NOTHING
from ofu_exporter.traces.timeline import Timeline
from ofu_exporter.values.trace import UNLIMITED

MAIN, OTHER = "main", "other"


def host(*events: tuple[str, str, float, float], calls: tuple[tuple[float, int], ...]) -> Timeline:
    """Events by thread, name, start and end; launches of the main thread by time and correlation."""
    timeline = Timeline(UNLIMITED)
    for thread, name, start, end in events:
        timeline.did(thread, name, (start, end))
    for start, correlation in calls:
        timeline.did(MAIN, "cudaLaunchKernel", (start, start + 1), call=correlation)
    return timeline


def test_a_launch_is_of_the_innermost_operator_and_of_all_scopes_around_it() -> None:
    made = host(
        (MAIN, "Optimizer.step#AdamW.step", 0.0, 100.0),
        (MAIN, "aten::addcmul_", 10.0, 20.0),
        (MAIN, "CheckpointFunctionBackward", 200.0, 300.0),
        (MAIN, "aten::mm", 210.0, 220.0),
        (OTHER, "aten::conv2d", 0.0, 500.0),
        calls=((15.0, 3), (50.0, 2), (215.0, 9), (400.0, 1)),
    )
    launches = Launches(made)

    def of(correlation: int) -> tuple[str, Scope]:
        place = launches.place(correlation)
        assert place is not None
        operator = launches.operators[place]
        name = "" if operator == NOTHING else made.names.texts[operator]
        return name, Scope(launches.scopes[place])

    assert of(3) == ("aten::addcmul_", Scope.OPTIMIZER)
    assert of(2) == ("Optimizer.step#AdamW.step", Scope.OPTIMIZER)
    assert of(9) == ("aten::mm", Scope.RECOMPUTE)
    assert of(1) == ("", Scope.NONE)
    assert launches.place(4) is None


def test_of_two_pauses_at_once_the_foremost_counts_and_only_of_threads_that_launch() -> None:
    """A thread that launches nothing holds nothing up, but for collectives of the CPUs."""
    made = host(
        (MAIN, "enumerate(DataLoader)#next", 0.0, 100.0),
        (MAIN, "gc.collect", 40.0, 60.0),
        (OTHER, "enumerate(DataLoader)#next", 150.0, 180.0),
        (OTHER, "gloo:all_gather", 200.0, 210.0),
        (OTHER, "gloo:all_gather", 220.0, 230.0),
        calls=((300.0, 1),),
    )
    assert [each[:3] for each in pauses(made)] == [
        (0.0, 40.0, Idle.DATA_LOADER),
        (40.0, 60.0, Idle.GARBAGE_COLLECTION),
        (60.0, 100.0, Idle.DATA_LOADER),
        (200.0, 210.0, Idle.CPU_COLLECTIVE),
        (220.0, 230.0, Idle.CPU_COLLECTIVE),
    ]
    assert cpu_collectives(made) == {"gloo:all_gather": 2}


def test_a_call_that_copies_has_waited_only_where_it_took_long() -> None:
    made = host(calls=((500.0, 1),))
    for start, end in ((0.0, 99.0), (200.0, 300.0)):
        made.did(MAIN, "cudaMemcpyAsync", (start, end), call=2)
    assert [each[:3] for each in pauses(made)] == [(200.0, 300.0, Idle.SYNCHRONISATION)]
