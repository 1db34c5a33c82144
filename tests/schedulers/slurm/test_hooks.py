"""What the hooks make of a job's environment, and which files they clear away."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ofu_exporter.schedulers.slurm import ended_files, hooks, job_files
from ofu_exporter.schedulers.slurm.hooks import Node
from ofu_exporter.schedulers.slurm.job_files import JobFile
from ofu_exporter.schedulers.slurm.squeue import SqueueJob
from ofu_exporter.support.boot import boot_id
from ofu_exporter.values.job import Claim, Job

NOW = 5000.0
ENVIRON = {
    "SLURM_JOB_GPUS": "0,1",
    "SLURM_JOB_USER": "ada",
    "SLURM_JOB_PARTITION": "gpu",
    "SLURM_NODELIST": "n[1-2]",
}
INFORMATION = """\
Model: 		 NVIDIA H100 80GB HBM3
IRQ:   		 44
GPU UUID: 	 {uuid}
Bus Location: 	 0000:{number}7:00.0
Device Minor: 	 {number}
GPU Firmware: 	 535.104.12
GPU Excluded:	 No
"""


class Slurm:
    """Answers about the jobs that it was told of, and remembers what it was asked."""

    def __init__(self, **answers: SqueueJob | None) -> None:
        self.answers = {name.removeprefix("job"): answer for name, answer in answers.items()}
        self.asked: list[str] = []

    def __call__(self, job_id: str) -> SqueueJob | None:
        self.asked.append(job_id)
        return self.answers.get(job_id)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """Its driver numbers the GPUs otherwise than the bus does."""
    for number, uuid in enumerate(("GPU-b", "GPU-a")):
        folder = tmp_path / "driver" / f"0000:{1 - number}7:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text(INFORMATION.format(uuid=uuid, number=number))
    return Node(tmp_path / "jobs", tmp_path / "tokens", tmp_path / "driver")


def write(
    node: Node, job_id: str, *gpus: str, ends: float | None = None, boot: str | None = None
) -> None:
    claim = Claim(Job("slurm", job_id), gpus)
    job_files.write(node.directory, JobFile(claim, ends, boot_id() if boot is None else boot))


def left(node: Node) -> set[str]:
    return set(job_files.read(node.directory).values)


# Which GPUs a job has.


@pytest.mark.parametrize(
    ("environ", "gpus"),
    [
        ({"SLURM_JOB_GPUS": "0,1"}, ("GPU-b", "GPU-a")),
        ({"SLURM_JOB_GPUS": "1", "CUDA_VISIBLE_DEVICES": "0"}, ("GPU-a",)),
        ({"SLURM_JOB_GPUS": "0", "CUDA_VISIBLE_DEVICES": "GPU-x,GPU-y"}, ("GPU-x", "GPU-y")),
        ({"SLURM_JOB_GPUS": "0", "CUDA_VISIBLE_DEVICES": "MIG-x"}, ("MIG-x",)),
        ({"SLURM_JOB_GPUS": "0", "CUDA_VISIBLE_DEVICES": "MIG-x,1"}, ("GPU-b",)),
        ({"CUDA_VISIBLE_DEVICES": "1"}, ("GPU-a",)),
        ({"SLURM_JOB_GPUS": "", "CUDA_VISIBLE_DEVICES": "1"}, ()),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, ()),
        ({}, ()),
        ({"SLURM_JOB_GPUS": "0-1"}, ("GPU-b", "GPU-a")),
        ({"SLURM_JOB_GPUS": "gpu:1"}, ("GPU-a",)),
        ({"SLURM_JOB_GPUS": "gpu:h100:0-1"}, ("GPU-b", "GPU-a")),
        ({"SLURM_JOB_GPUS": " 0, 1 "}, ("GPU-b", "GPU-a")),
        ({"SLURM_JOB_GPUS": "1,1,0"}, ("GPU-a", "GPU-b")),
        ({"SLURM_JOB_GPUS": "0,7"}, ("GPU-b", "7")),
        ({"SLURM_JOB_GPUS": "1-0"}, ()),
        ({"SLURM_JOB_GPUS": "0,none,-1,1.5,99999"}, ("GPU-b",)),
    ],
)
def test_which_gpus_a_job_has(node: Node, environ: dict[str, str], gpus: tuple[str, ...]) -> None:
    assert hooks.devices(environ, node.driver) == gpus


def test_without_a_driver_numbers_stay_numbers(tmp_path: Path) -> None:
    assert hooks.devices({"SLURM_JOB_GPUS": "0,1"}, tmp_path / "nowhere") == ("0", "1")


def test_a_uuid_that_the_driver_does_not_tell_is_none(node: Node) -> None:
    hidden = INFORMATION.format(uuid="GPU-????????-????-????-????-????????????", number=2)
    for name, text in (("0", hidden), ("1", "Model: x\n"), ("2", "\xff")):
        (node.driver / name).mkdir()
        (node.driver / name / "information").write_text(text, encoding="latin-1")
    (node.driver / "3").touch()
    assert hooks.uuids_by_minor(node.driver) == {0: "GPU-b", 1: "GPU-a"}


def test_a_senseless_range_is_no_work_without_end(node: Node) -> None:
    assert len(hooks.devices({"SLURM_JOB_GPUS": "0-9999,0-9999"}, node.driver)) == 1024


# What is written.


def test_what_the_environment_lacks_slurm_is_asked_for(node: Node) -> None:
    slurm = Slurm(job7=SqueueJob("R", "5", "2", 4990.0, 8590.0, "physics", "train"))
    file = hooks.start(node, "7", ENVIRON, slurm, NOW)
    assert file == JobFile(
        Claim(
            Job(
                "slurm",
                "7",
                name="train",
                user="ada",
                account="physics",
                partition="gpu",
                array_job_id="5",
                array_task_id="2",
                nodes="n[1-2]",
                started=4990.0,
            ),
            ("GPU-b", "GPU-a"),
        ),
        ends=8590.0,
        boot_id=boot_id(),
        noted=NOW,
    )
    (written,) = job_files.read(node.directory).values.values()
    assert written.claim.job.name == "train"


def test_where_slurm_does_not_answer_the_rest_is_written(node: Node) -> None:
    file = hooks.start(node, "7", ENVIRON, Slurm(), NOW + 0.4)
    assert file is not None
    job = file.claim.job
    assert (job.user, job.name, job.started, file.ends) == ("ada", "", NOW + 0.4, None)
    assert left(node) == {"7.json"}


def test_the_environment_wins_and_spares_the_question(node: Node) -> None:
    told = {
        "SLURM_JOB_NAME": "train",
        "SLURM_JOB_ACCOUNT": "physics",
        "SLURM_JOB_START_TIME": "4995",
        "SLURM_JOB_END_TIME": "8595",
        "SLURM_ARRAY_JOB_ID": "6",
        "SLURM_ARRAY_TASK_ID": "1",
        "SLURM_JOB_NODELIST": "n3",
        "SLURM_JOB_RESTART_COUNT": "3",
    }
    slurm = Slurm(job7=SqueueJob("R", name="other"))
    file = hooks.start(node, "7", {**ENVIRON, **told}, slurm, NOW)
    assert file is not None
    job = file.claim.job
    assert (job.name, job.account, job.started, file.ends) == ("train", "physics", 4995.0, 8595.0)
    assert (job.array_job_id, job.array_task_id, job.nodes) == ("6", "1", "n3")
    assert job.restarts == 3
    assert slurm.asked == []


def test_a_job_name_cannot_make_its_file_unreadable(node: Node) -> None:
    slurm = Slurm(job7=SqueueJob("R", name="x\n\x00\ud800" * 200))
    hooks.start(node, "7", ENVIRON, slurm, NOW)
    assert left(node) == {"7.json"}


def test_a_job_without_a_gpu_has_no_file(node: Node) -> None:
    assert hooks.start(node, "7", {}, Slurm(), NOW) is None
    assert not node.directory.exists()


def test_the_end_takes_the_file_away(node: Node) -> None:
    hooks.start(node, "7", ENVIRON, Slurm(), NOW)
    assert hooks.stop(node, "7", Slurm(), NOW)
    assert left(node) == set()
    assert hooks.stop(node, "7", Slurm(), NOW), "and it may come twice"
    assert not hooks.stop(node, "8", Slurm(), NOW)


def test_a_requeued_job_writes_its_file_anew(node: Node) -> None:
    hooks.start(node, "7", ENVIRON, Slurm(job7=SqueueJob("R", started=4000.0)), NOW)
    hooks.start(node, "7", ENVIRON, Slurm(job7=SqueueJob("R", started=4990.0)), NOW)
    (file,) = job_files.read(node.directory).values.values()
    assert file.claim.job.started == 4990.0


class Watching:
    """Slurm, asked about a job: remembers what the files say at that moment, and does something meanwhile."""

    def __init__(self, node: Node, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.node = node
        self.meanwhile = meanwhile
        self.seen: list[JobFile] = []

    def __call__(self, _job_id: str) -> SqueueJob | None:
        self.seen += job_files.read(self.node.directory).values.values()
        self.meanwhile()
        return SqueueJob("R", started=NOW - 10, name="train")


def test_the_file_is_there_before_slurm_is_asked(node: Node) -> None:
    slurm = Watching(node)
    hooks.start(node, "7", ENVIRON, slurm, NOW + 0.4)
    (first,) = slurm.seen
    assert (first.claim.devices, first.claim.job.user) == (("GPU-b", "GPU-a"), "ada")
    (last,) = job_files.read(node.directory).values.values()
    assert first.claim.job.started == NOW + 0.4
    assert first.claim.job.uid == last.claim.job.uid, "it is the same run all along"
    assert (last.claim.job.name, last.claim.job.started) == ("train", NOW - 10)
    assert (first.noted, last.noted) == (NOW + 0.4, NOW + 0.4)


def test_an_answer_that_comes_after_the_jobs_end_brings_no_file_back(node: Node) -> None:
    """On a node without a free core the epilog may run before the prolog's question is answered."""
    node = node._replace(tokens=node.directory.parent / "tokens")
    slurm = Watching(node, lambda: ended_files.put_aside(node.directory, "7", NOW + 3))
    hooks.start(node, "7", {**ENVIRON, "SLURM_JOB_UID": str(os.getuid())}, slurm, NOW)
    assert left(node) == set()
    assert node.tokens is not None
    assert list(node.tokens.iterdir()) == []


def test_an_end_between_the_last_look_and_the_writing_counts(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = job_files.write
    ends = iter((False, True))

    def write_after(directory: Path, file: JobFile) -> None:
        if next(ends):
            ended_files.put_aside(directory, "7", NOW)
        real(directory, file)

    monkeypatch.setattr(job_files, "write", write_after)
    hooks.start(node, "7", ENVIRON, Slurm(), NOW)
    assert left(node) == set()


def test_a_question_of_an_earlier_run_leaves_the_file_of_the_next_alone(node: Node) -> None:
    def requeue() -> None:
        ended_files.put_aside(node.directory, "7", NOW + 3)
        hooks.start(node, "7", {"SLURM_JOB_GPUS": "1"}, Slurm(), NOW + 9)

    hooks.start(node, "7", ENVIRON, Watching(node, requeue), NOW)
    (file,) = job_files.read(node.directory).values.values()
    assert (file.claim.devices, file.noted) == (("GPU-a",), NOW + 9)


def test_what_hook_sh_has_written_is_completed_and_never_made_anew(node: Node) -> None:
    assert hooks.start(node, "7", ENVIRON, Slurm(), NOW, noted=NOW - 3)
    assert left(node) == set(), "the job is over"
    job_files.write(node.directory, JobFile(Claim(Job("slurm", "7"), ("0",)), noted=NOW - 3))
    hooks.start(node, "7", ENVIRON, Slurm(), NOW, noted=NOW - 3)
    (file,) = job_files.read(node.directory).values.values()
    assert file.claim.devices == ("GPU-b", "GPU-a")
    assert (file.claim.job.started, file.noted) == (NOW - 3, NOW - 3)


SHARES = ("GPU-b::0", "GPU-a::0")


def test_a_job_that_asked_for_shards_has_a_share_of_its_gpu(node: Node) -> None:
    file = hooks.start(node, "7", ENVIRON, Slurm(job7=SqueueJob("R", has_shares=True)), NOW)
    assert file is not None
    assert file.claim.devices == SHARES


def test_a_job_with_a_part_of_mps_is_known_without_asking(node: Node) -> None:
    """Slurm 22.05 gives the prolog this variable for gres/mps, and nothing of the kind for shards."""
    environ = {**ENVIRON, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "20"}
    file = hooks.start(node, "7", environ, lambda _: None, NOW)
    assert file is not None
    assert file.claim.devices == SHARES


def test_the_file_of_a_share_goes_when_its_gpu_is_given_to_another(node: Node) -> None:
    hooks.start(node, "7", ENVIRON, Slurm(job7=SqueueJob("R", has_shares=True)), NOW)
    hooks.start(node, "8", ENVIRON, Slurm(job7=SqueueJob("CD"), job8=SqueueJob("R")), NOW)
    assert left(node) == {"8.json"}


# What is cleared away.


@pytest.mark.parametrize(
    ("answer", "stays"),
    [
        (SqueueJob(), False),
        (SqueueJob("CD"), False),
        (SqueueJob("PD"), False),
        (SqueueJob("CG"), False),
        (SqueueJob("R"), True),
        (SqueueJob("S"), True),
        (None, True),
    ],
)
def test_who_gets_a_gpu_asks_after_its_last_owner(
    node: Node, answer: SqueueJob | None, stays: bool
) -> None:
    """One that is completing elsewhere has left this node, or its GPU would not have been given away."""
    write(node, "3", "GPU-a")
    hooks.start(node, "7", ENVIRON, Slurm(job3=answer), NOW)
    assert ("3.json" in left(node)) is stays
    assert "7.json" in left(node)


@pytest.mark.parametrize(
    ("answer", "stays"),
    [
        (SqueueJob(), False),
        (SqueueJob("TO"), False),
        (SqueueJob("CG"), True),
        (SqueueJob("R"), True),
    ],
)
@pytest.mark.parametrize("hook", ["start", "stop"])
def test_a_job_past_its_time_limit_is_asked_after(
    node: Node, hook: str, answer: SqueueJob, stays: bool
) -> None:
    """Its own epilog may be under way."""
    write(node, "3", "GPU-z", ends=NOW - 1)
    if hook == "start":
        hooks.start(node, "7", ENVIRON, Slurm(job3=answer), NOW)
    else:
        hooks.stop(node, "7", Slurm(job3=answer), NOW)
    assert ("3.json" in left(node)) is stays


def test_nobody_asks_after_a_job_that_is_in_no_ones_way(node: Node) -> None:
    write(node, "3", "GPU-z", ends=NOW + 1)
    write(node, "4", "GPU-y")
    slurm = Slurm()
    hooks.stop(node, "7", slurm, NOW)
    assert slurm.asked == []
    assert left(node) == {"3.json", "4.json"}


def test_a_job_of_an_earlier_boot_is_over_without_a_question(node: Node) -> None:
    write(node, "3", "GPU-z", boot="another")
    write(node, "4", "GPU-y", boot="")
    slurm = Slurm()
    hooks.stop(node, "7", slurm, NOW)
    assert (left(node), slurm.asked) == ({"4.json"}, [])


def test_the_stop_of_one_job_leaves_another_on_the_same_gpu(node: Node) -> None:
    write(node, "3", "GPU-a")
    write(node, "7", "GPU-a")
    hooks.stop(node, "7", Slurm(job3=SqueueJob()), NOW)
    assert left(node) == {"3.json"}
