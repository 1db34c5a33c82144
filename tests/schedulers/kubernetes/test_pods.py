"""When the API server is asked about a pod, what is believed of its answer, and for how long."""

from __future__ import annotations

import pytest

from ofu_exporter.schedulers.kubernetes import driver, pods
from ofu_exporter.values.reasons import SchedulerReason
from tests.doubles import api_server as doubles
from tests.doubles.kubelet import pod
from tests.helpers.kubernetes_bench import Bench, holding


def test_a_pod_is_asked_about_once(bench: Bench) -> None:
    bench.api.add(doubles.pod("p", {"ray.io/cluster": "ray"}))
    bench.hold(holding("p", "GPU-a"), pod("plain"))
    for _ in range(5):
        assert bench.claims(after=5.0) == {"ns/ray": ("GPU-a",)}
    assert bench.api.seen == [doubles.pod_path("p") + "?resourceVersion=0"]


def test_a_pod_is_asked_about_again_now_and_then(bench: Bench) -> None:
    bench.api.add(doubles.pod("p", owner=("batch/v1", "Job", "train", "uid-1")))
    assert bench.jobs(holding("p", "GPU-a"))["ns/train"].uid == "uid-1"
    bench.api.add(doubles.pod("p", owner=("batch/v1", "Job", "train", "uid-2")))
    assert bench.jobs(after=pods.NODE_SECONDS)["ns/train"].uid == "uid-2"


def test_a_pod_of_many_is_asked_about_every_ten_minutes(bench: Bench) -> None:
    many = [holding(f"p{number}", f"GPU-{number}") for number in range(20)]
    for number in range(20):
        bench.api.add(doubles.pod(f"p{number}"))
    asked = []
    for seconds in (0.0, pods.REFRESH_SECONDS - 1.0, 1.0):
        bench.claims(*many, after=seconds)
        asked.append(len(bench.api.seen))
    assert asked == [20, 20, 40]


def test_a_pod_that_has_other_gpus_is_another_of_its_name(bench: Bench) -> None:
    """A training job that is deleted and made again has pods of the same names, often between two polls."""
    bench.api.add(doubles.pod("p", owner=("kubeflow.org/v1", "PyTorchJob", "train", "uid-1")))
    bench.claims(holding("p", "GPU-a"))
    again = doubles.pod("p", owner=("kubeflow.org/v1", "PyTorchJob", "train", "uid-2"))
    bench.api.add({**again, "status": {**again["status"], "phase": "Pending"}})  # type: ignore[dict-item]
    (claim,) = bench.answer(holding("p", "GPU-b"), after=5.0)
    assert claim.job.uid == "uid-2"
    assert claim.waiting == {"GPU-b"}


def test_what_was_said_of_the_one_before_holds_until_the_api_server_answers(bench: Bench) -> None:
    bench.api.add(doubles.pod("p", {"ray.io/cluster": "ray"}))
    bench.claims(holding("p", "GPU-a"))
    bench.api.statuses["/"] = 500
    assert bench.claims(holding("p", "GPU-b"), after=5.0) == {"ns/ray": ("GPU-b",)}


STARTED, RUN = "2026-03-01T10:00:00Z", "2026-03-01T10:14:00Z"
RUN_UNIX = 1772360040.0


def pending(phase: str = "Pending", **containers: doubles.Document) -> doubles.Document:
    return doubles.pod("p", phase=phase, started=STARTED, containers=containers)


def test_a_pod_whose_image_is_pulled_has_its_gpu_and_waits(bench: Bench) -> None:
    bench.api.add(pending(worker=doubles.WAITING, sidecar=doubles.WAITING))
    (claim,) = bench.answer(holding("p", "GPU-a"))
    assert claim.waiting == {"GPU-a"}
    assert (claim.job.started, claim.job.running_since) == (RUN_UNIX - 840.0, None)
    running = doubles.running(RUN)
    bench.api.add(pending("Running", worker=running, sidecar=running))
    (claim,) = bench.answer(after=pods.PACE_SECONDS)
    assert (claim.waiting, claim.job.running_since) == (frozenset(), RUN_UNIX)


def test_a_pod_that_kubelet_has_said_nothing_of_waits(bench: Bench) -> None:
    bench.api.add(doubles.pod("p", phase="Pending", started=""))
    (claim,) = bench.answer(holding("p", "GPU-a"))
    assert claim.waiting == {"GPU-a"}


def test_the_container_that_has_the_gpu_decides(bench: Bench) -> None:
    """The double's kubelet gives devices to the container worker."""
    bench.api.add(pending(worker=doubles.WAITING, sidecar=doubles.running(STARTED)))
    (claim,) = bench.answer(holding("p", "GPU-a"))
    assert claim.waiting == {"GPU-a"}
    bench.api.add(pending(worker=doubles.running(RUN), sidecar=doubles.WAITING))
    (claim,) = bench.answer(after=pods.PACE_SECONDS)
    assert (claim.waiting, claim.job.running_since) == (frozenset(), RUN_UNIX)


def test_a_container_that_crashed_has_run_since_its_first_start(bench: Bench) -> None:
    bench.api.add(pending("Running", worker=doubles.running(RUN)))
    bench.answer(holding("p", "GPU-a"))
    again = doubles.crashed("2026-03-01T11:00:00Z", "2026-03-01T11:05:00Z")
    bench.api.add(pending("Running", worker=again))
    (claim,) = bench.answer(after=pods.REFRESH_SECONDS)
    assert (claim.waiting, claim.job.running_since) == (frozenset(), RUN_UNIX)


def test_without_the_api_server_nobody_says_whether_a_pod_runs(bare: Bench) -> None:
    bare.api.add(pending(worker=doubles.WAITING))
    (claim,) = bare.answer(holding("p", "GPU-a"))
    assert (claim.waiting, claim.job.running_since) == (frozenset(), None)


def test_that_a_pod_waits_is_not_believed_for_long(bench: Bench) -> None:
    """It may run by now, and its work would be credited to nobody."""
    bench.api.add(pending(worker=doubles.WAITING))
    bench.answer(holding("p", "GPU-a"))
    bench.api.statuses["/"] = 500
    (claim,) = bench.answer(after=pods.PENDING_SECONDS - 1.0)
    assert claim.waiting
    (claim,) = bench.answer(after=1.0)
    assert not claim.waiting


def test_a_gpu_that_two_pods_of_a_job_share_waits_for_the_last_of_them(bench: Bench) -> None:
    owner = ("batch/v1", "Job", "train", "uid-1")
    for name, state in {"a": doubles.WAITING, "b": doubles.running(RUN)}.items():
        phase = "Running" if "running" in str(state) else "Pending"
        bench.api.add(doubles.pod(name, owner=owner, phase=phase, containers={"worker": state}))
    a, b = holding("a", "GPU-a", "GPU-b"), holding("b", "GPU-b")
    (claim,) = bench.answer(a, b)
    assert claim.devices == ("GPU-a", "GPU-b")
    assert claim.waiting == {"GPU-a"}


@pytest.mark.parametrize(
    "statuses",
    [
        None,
        5,
        [None],
        [{}],
        [{"name": 1, "state": 2}],
        [{"name": "worker", "state": {"running": 1}}],
    ],
)
def test_a_status_that_cannot_be_is_none(bench: Bench, statuses: object) -> None:
    document = doubles.pod("p")
    document["status"] = {"phase": "Running", "startTime": STARTED, "containerStatuses": statuses}
    bench.api.add(document)
    (claim,) = bench.answer(holding("p", "GPU-a"))
    assert (claim.waiting, claim.job.running_since) == (frozenset(), None)


def test_what_was_known_outlives_a_failure(bench: Bench) -> None:
    bench.api.add(doubles.pod("p", {"ray.io/cluster": "ray"}))
    bench.claims(holding("p", "GPU-a"))
    del bench.api.objects[doubles.pod_path("p")]
    assert bench.claims(after=pods.REFRESH_SECONDS) == {"ns/ray": ("GPU-a",)}
    bench.api.statuses["/"] = 500
    assert bench.claims(after=pods.REFRESH_SECONDS) == {"ns/ray": ("GPU-a",)}


def test_a_pod_that_is_gone_is_forgotten(bench: Bench) -> None:
    bench.api.add(doubles.pod("p", {"ray.io/cluster": "first"}))
    assert set(bench.claims(holding("p", "GPU-a"))) == {"ns/first"}
    assert bench.claims(pod("plain"), after=10.0) == {}
    bench.api.add(doubles.pod("p", {"ray.io/cluster": "second"}))
    assert set(bench.claims(holding("p", "GPU-a"), after=10.0)) == {"ns/second"}


def test_a_new_pod_is_asked_about_at_once(bench: Bench) -> None:
    """However lately others were, but not where the API server fails."""
    bench.api.add(doubles.pod("a"))
    bench.claims(holding("a", "GPU-a"))
    bench.api.add(doubles.pod("b", {"ray.io/cluster": "ray"}))
    both = (holding("a", "GPU-a"), holding("b", "GPU-b"))
    assert set(bench.claims(*both, after=1.0)) == {"ns/a", "ns/ray"}
    assert len(bench.api.seen) == 2, "a question for each"
    bench.api.statuses["/"] = 503
    bench.claims(*both, holding("c", "GPU-c"), after=1.0)
    bench.claims(*both, holding("c", "GPU-c"), holding("d", "GPU-d"), after=1.0)
    assert len(bench.api.seen) == 3
    bench.api.statuses.clear()
    bench.claims(*both, after=pods.REFRESH_SECONDS)
    assert len(bench.api.seen) == 5, "it answers again"
    bench.claims(*both, holding("e", "GPU-e"), after=1.0)
    assert len(bench.api.seen) == 6


def test_pods_that_are_known_are_asked_about_in_rounds(bench: Bench) -> None:
    for name in "ab":
        bench.api.add(doubles.pod(name))
    bench.claims(holding("a", "GPU-a"))
    bench.claims(holding("a", "GPU-a"), holding("b", "GPU-b"), after=1.0)
    asked = []
    for seconds in (2 * pods.NODE_SECONDS - 1.0, 1.0, pods.PACE_SECONDS):
        bench.claims(after=seconds)
        asked.append(len(bench.api.seen))
    assert asked == [3, 3, 4]


def test_a_new_pod_waits_for_its_job_rather_than_change_it(bench: Bench) -> None:
    bench.hold(holding("b", "GPU-b"))
    assert bench.claims() == {}, "the API server does not know it yet"
    bench.api.add(doubles.pod("b", {"ray.io/cluster": "ray"}))
    assert bench.claims(after=5.0) == {}, "asked less than 10 s ago"
    assert set(bench.claims(after=5.0)) == {"ns/ray"}


def test_a_pod_that_waits_is_asked_about_at_every_poll(bench: Bench) -> None:
    bench.api.add(pending(worker=doubles.WAITING))
    bench.hold(holding("p", "GPU-a"))
    bench.answer()
    bench.api.add(pending("Running", worker=doubles.running(RUN)))
    (claim,) = bench.answer(after=5.0)
    assert (claim.waiting, claim.job.running_since) == (frozenset(), RUN_UNIX)
    bench.answer(after=5.0)
    assert len(bench.api.seen) == 2, "and then no more"


@pytest.mark.parametrize(
    ("gone", "ends"),
    [
        (doubles.pod("p", phase="Succeeded", containers={"c": doubles.finished(STARTED, RUN)}), 1),
        (doubles.pod("p", phase="Running", containers={"c": doubles.running(STARTED)}), 0),
        (doubles.pod("p", phase="Failed"), 0),
        (None, 0),
        (500, 0),
    ],
    ids=["ended", "runs", "ended without a time", "deleted", "not answered"],
)
def test_the_api_server_knows_when_a_pod_ended_while_kubelet_was_down(
    bench: Bench, gone: doubles.Document | int | None, ends: int
) -> None:
    for name in ("p", "stays"):
        bench.api.add(doubles.pod(name))
    assert len(bench.answer(holding("p", "GPU-a"), holding("stays", "GPU-b"))) == 2
    bench.kubelet.stop()
    assert bench.failure().reason is SchedulerReason.UNREACHABLE
    bench.api.objects.pop(doubles.pod_path("p"))
    if isinstance(gone, int):
        bench.api.statuses["/"] = gone
    elif gone is not None:
        bench.api.add(gone)
    bench.hold(holding("stays", "GPU-b"))
    bench.kubelet.start()
    bench.failure()
    after = bench.answer(after=driver.SETTLE_SECONDS)
    assert [claim.job.job_id for claim in after if claim.ended is None] == ["ns/stays"]
    ended = [(claim.job.job_id, claim.ended) for claim in after if claim.ended is not None]
    assert ended == [("ns/p", RUN_UNIX)] * ends
    assert len(bench.answer(after=5.0)) == 1 + ends


@pytest.mark.parametrize("both", [True, False], ids=["both known", "one deleted"])
def test_a_job_of_two_pods_ended_with_the_last_of_them_where_both_are_known(
    bench: Bench, both: bool
) -> None:
    ray = {"ray.io/cluster": "ray"}
    ends = {"a": RUN, "b": STARTED}
    for name in ends:
        bench.api.add(doubles.pod(name, ray))
    assert set(bench.claims(holding("a", "GPU-a"), holding("b", "GPU-b"))) == {"ns/ray"}
    bench.kubelet.stop()
    bench.failure()
    for name, end in ends.items():
        over = {"c": doubles.finished(STARTED, end)}
        bench.api.add(doubles.pod(name, ray, phase="Succeeded", containers=over))
    if not both:
        bench.api.objects.pop(doubles.pod_path("b"))
    bench.hold(holding("stays", "GPU-c"))
    bench.api.add(doubles.pod("stays"))
    bench.kubelet.start()
    bench.failure()
    after = bench.answer(after=driver.SETTLE_SECONDS)
    assert [claim.ended for claim in after if claim.ended is not None] == [RUN_UNIX] * both


def test_a_pod_that_the_api_server_does_not_know_is_its_own_job_until_it_does(bench: Bench) -> None:
    bench.hold(holding("p", "GPU-a"))
    assert bench.claims() == {}
    assert bench.claims(after=5.0) == {}
    assert set(bench.claims(after=5.0)) == {"ns/p"}
    bench.api.add(doubles.pod("p", {"ray.io/cluster": "ray"}))
    assert set(bench.claims(after=5.0)) == {"ns/p"}
    assert set(bench.claims(after=15.0)) == {"ns/ray"}
    assert bench.rejected == {}


@pytest.mark.slow
def test_it_is_asked_about_less_and_less_often(bench: Bench) -> None:
    bench.hold(holding("p", "GPU-a"))
    for _ in range(0, 3600, 5):
        bench.claims(after=5.0)
    assert 10 <= len(bench.api.seen) <= 20


@pytest.mark.parametrize("status", [401, 403])
def test_without_permission_a_pod_is_a_job_at_once(
    bench: Bench, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    bench.api.statuses["/"] = status
    bench.hold(holding("p", "GPU-a"))
    for _ in range(10):
        assert set(bench.claims(after=5.0)) == {"ns/p"}
    assert len(bench.api.seen) == 1
    assert len(caplog.records) == 1
    bench.api.statuses.clear()
    bench.api.add(doubles.pod("p", {"ray.io/cluster": "ray"}))
    assert set(bench.claims(after=300.0)) == {"ns/ray"}


@pytest.mark.parametrize("status", [410, 429, 500, 503])
def test_a_failure_costs_no_claim(bench: Bench, status: int) -> None:
    bench.api.statuses["/"] = status
    bench.hold(holding("p", "GPU-a"))
    assert bench.claims() == {}
    assert set(bench.claims(after=10.0)) == {"ns/p"}
    assert bench.rejected == {"unreadable": 2}


@pytest.mark.slow
def test_a_failing_api_server_is_asked_less_and_less_often(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.api.statuses["/"] = 500
    bench.hold(holding("p", "GPU-a"))
    for _ in range(0, 3600, 5):
        bench.claims(after=5.0)
    assert 10 <= len(bench.api.seen) <= 20
    bench.api.statuses.clear()
    bench.api.add(doubles.pod("p"))
    caplog.set_level("INFO")
    bench.claims(after=pods.SLOWEST_SECONDS)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_when_it_has_failed_for_long_a_new_pod_does_not_wait(bench: Bench) -> None:
    bench.api.statuses["/"] = 500
    bench.hold(holding("p", "GPU-a"))
    for _ in range(20):
        bench.claims(after=10.0)
    assert set(bench.claims(holding("q", "GPU-a"))) == {"ns/q"}
