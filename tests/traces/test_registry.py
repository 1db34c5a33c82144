"""Which processes would record: what may be forged takes nothing from others."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ofu_exporter.traces.daemon_messages import DaemonQuestion, Registration
from ofu_exporter.traces.registry import MOST_OF_A_USER, MOST_USERS, Peer, ProcessRegistry
from tests.helpers.every import every


def asked(registry: ProcessRegistry, uid: int, name: str, job: int = 7, now: float = 0.0) -> None:
    registry.take(DaemonQuestion(3, job, (5,)), Peer(0, uid, name.encode()), now)


def test_a_flood_of_one_user_takes_no_room_from_another(tmp_path: Path) -> None:
    registry = ProcessRegistry(tmp_path)
    for number in range(10 * MOST_OF_A_USER):
        asked(registry, 1, f"flood{number}")
    asked(registry, 2, "honest")
    assert len(registry.of("7", 1.0)) == MOST_OF_A_USER + 1
    assert registry.refused["too_many"] == 9 * MOST_OF_A_USER
    for uid in range(3, 3 + 2 * MOST_USERS):
        asked(registry, uid, "one")
    assert len({each.peer.uid for each in registry.of("7", 1.0)}) == MOST_USERS


def test_who_is_silent_for_a_minute_is_forgotten(tmp_path: Path) -> None:
    registry = ProcessRegistry(tmp_path)
    asked(registry, 1, "a")
    assert registry.of("7", 59.0)
    assert not registry.of("7", 61.0)


def test_the_control_group_of_slurm_counts_more_than_the_message(tmp_path: Path) -> None:
    (tmp_path / "42").mkdir()
    path = "0::/system.slice/slurmstepd.scope/job_1001/step_0/user/task_0\n"
    (tmp_path / "42" / "cgroup").write_text(path)
    registry = ProcessRegistry(tmp_path)
    registry.take(DaemonQuestion(3, 2002, (5,)), Peer(42, 1, b"a"), 0.0)
    assert [each.job for each in registry.of("1001", 0.0)] == ["1001"]
    assert not registry.of("2002", 0.0)


def test_the_control_group_of_slurm_26_05_names_no_job(tmp_path: Path) -> None:
    """By its SLUID, as in cgroup.conf(5): a process has to say which job it is of."""
    (tmp_path / "42").mkdir()
    path = "0::/system.slice/slurmstepd.scope/sEKNKTV3WPV500/step_0/user/task_0\n"
    (tmp_path / "42" / "cgroup").write_text(path)
    registry = ProcessRegistry(tmp_path)
    registry.take(DaemonQuestion(3, 2002, (5,)), Peer(42, 1, b"a"), 0.0)
    assert [(each.job, each.is_proven) for each in registry.of("2002", 0.0)] == [("2002", False)]


POD = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
CONTAINER = "cri-containerd-5a6b.scope"


@every(
    [
        f"0::/kubepods/burstable/pod{POD}/5a6b",
        f"0::/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/{CONTAINER}",
        f"0::/../../kubepods-besteffort-pod{POD.replace('-', '_')}.slice/{CONTAINER}",
        f"12:memory:/kubepods/pod{POD}/5a6b\n0::/",
    ]
)
def test_a_process_of_a_pod_is_known_by_its_control_group(groups: str) -> None:
    """As kubelet names them: pkg/kubelet/cm/cgroup_manager_linux.go; the third from within a name space."""
    with tempfile.TemporaryDirectory() as folder:
        registry = ProcessRegistry(Path(folder))
        for pid, text in ((42, groups), (43, groups.replace("0a1b", "ffff"))):
            (Path(folder) / str(pid)).mkdir()
            (Path(folder) / str(pid) / "cgroup").write_text(f"{text}\n")
            registry.take(DaemonQuestion(3, 0, (5,)), Peer(pid, 1, str(pid).encode()), 0.0)
        asked(registry, 1, "forged", job=7)
        found = registry.of("7", 0.0, (POD,))
        assert [(each.peer.pid, each.is_proven) for each in found] == [(42, True)]
        assert not registry.of("ns/train", 0.0, ("",))


def test_who_only_says_that_it_is_of_a_job_is_none_beside_those_who_are(tmp_path: Path) -> None:
    (tmp_path / "42").mkdir()
    (tmp_path / "42" / "cgroup").write_text("0::/slurmstepd.scope/job_7/step_0\n")
    registry = ProcessRegistry(tmp_path)
    asked(registry, 2, "forged")
    assert [each.is_proven for each in registry.of("7", 0.0)] == [False]
    registry.take(DaemonQuestion(3, 7, (5,)), Peer(42, 1, b"a"), 0.0)
    assert [each.peer.uid for each in registry.of("7", 0.0)] == [1]


def test_a_process_of_another_pod_cannot_say_that_it_is_of_a_job(tmp_path: Path) -> None:
    for pid, pod in ((42, POD), (43, POD.replace("0a1b", "ffff"))):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cgroup").write_text(f"0::/kubepods/pod{pod}/5a6b\n")
    (tmp_path / "self").symlink_to("42")
    registry = ProcessRegistry(tmp_path)
    for pid in (42, 43):
        registry.take(DaemonQuestion(3, 7, (5,)), Peer(pid, 0, str(pid).encode()), 0.0)
    assert [each.peer.pid for each in registry.of("7", 0.0)] == [42], (
        "of this agent's own pod alone"
    )


def test_a_process_that_only_registers_records_nothing(tmp_path: Path) -> None:
    registry = ProcessRegistry(tmp_path)
    registry.take(Registration(3, 5, 7), Peer(0, 1, b"a"), 0.0)
    assert not registry.of("7", 0.0)
    asked(registry, 1, "a")
    assert [each.gpu for each in registry.of("7", 0.0)] == [3]
