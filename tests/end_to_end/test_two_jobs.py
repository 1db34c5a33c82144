"""Two jobs report through the client, one of them wrongly: every face of the agent says the same of them.

The GPUs are those of a recording that is made here: two H100s that do what the two jobs would have them do.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ofu_exporter.client import Reporter
from ofu_exporter.flops import Counting, Passes, dense_peak, fixed, read
from ofu_exporter.flops.counted_step import CountedStep
from ofu_exporter.recordings.recording import RecordingHeader, RecordingWriter
from ofu_exporter.schedulers.slurm import job_files
from ofu_exporter.schedulers.slurm.job_files import JobFile
from ofu_exporter.support.boot import boot_id
from ofu_exporter.values.job import Claim, Job
from tests.flops.causes.synthetic import LATENT
from tests.helpers.agent import Agent, agent, until
from tests.helpers.early import Early
from tests.helpers.in_process import call
from tests.helpers.values import H100, gpu, reading

SECONDS = 900
"""Of the recording; the test needs a good minute of it, and whatever else waits then is tested meanwhile."""
WINDOW = 1.0
CLOCK_HZ = 1400e6
TENSOR_CLOCK_HZ = 1830e6
TILES = 1.01
GPUS, SEQ_LEN = 288, 4096
HONEST, LATENT_MOE = "41", "42"
REPORTED, RIGHT = 0.5427, 0.1845
"""arXiv:2605.20799, section V-C: the experts of a latent MoE counted at the full hidden size, and counted right."""
HONEST_MFU = 0.42


def record(path: Path) -> None:
    """Both GPUs at the OFU that the jobs' right MFU makes, with clocks that are read with some noise."""
    draw = random.Random("a node")
    writer = RecordingWriter(
        path, RecordingHeader("nvml", False, "2026-11-21T00:00:00Z", gpus=(H100, H100)), 0.0
    )
    for number in range(int(SECONDS / WINDOW)):
        start, end = number * WINDOW, (number + 1) * WINDOW
        writer.write(
            reading(
                start,
                end,
                mfu * TILES * TENSOR_CLOCK_HZ / CLOCK_HZ,
                [CLOCK_HZ + draw.gauss(0, 10e6) for _ in range(10)],
                gpu(index),
            )
            for index, mfu in enumerate((HONEST_MFU, RIGHT))
        )
    writer.close()


def start(folder: Path, job_id: str, device: str, name: str) -> None:
    job = Job("slurm", job_id, name=name, user="ada")
    job_files.write(folder, JobFile(Claim(job, (device,)), None, boot_id()))


def tokens_per_second() -> float:
    """How fast the latent MoE goes when its MFU is the right one."""
    model = read(dict(LATENT.config))
    counted = CountedStep(model, fixed(1, tokens=SEQ_LEN), Counting(), Passes())
    return RIGHT * GPUS * dense_peak(H100, "bf16") / (counted.flops() / SEQ_LEN)


class JobAnswers(NamedTuple):
    """An agent that two jobs have reported to, and what it answered last."""

    agent: Agent
    honest: dict[str, Any]
    latent: dict[str, Any]


@contextlib.contextmanager
def begin(folder: Path) -> Iterator[JobAnswers]:
    """A verdict takes a minute of observed time: all of these tests share the one that they wait for."""
    jobs = folder / "jobs"
    jobs.mkdir(mode=0o755)
    record(folder / "node.jsonl.gz")
    start(jobs, HONEST, "0", "llama")
    start(jobs, LATENT_MOE, "1", "latent")
    flags = ("run", "--source", "replay", "--path", str(folder / "node.jsonl.gz"))
    pace = ("--interval", f"{WINDOW}s", "--scheduler", "slurm", "--job-dir", str(jobs))
    model = {"config": dict(LATENT.config), "seq_len": SEQ_LEN}
    with (
        agent(*flags, *pace, "--slurm-poll", "0.1s") as running,
        Reporter(HONEST, running.url, every=2.0, gpus=8, precision="bf16") as honest,
        Reporter(
            LATENT_MOE, running.url, every=2.0, gpus=GPUS, precision="bf16", model=model
        ) as latent,
    ):
        speed = tokens_per_second()

        def judged() -> bool:
            honest.report(mfu=HONEST_MFU)
            latent.report(mfu=REPORTED, tokens_per_second=speed)
            answers = [reporter.last_answer for reporter in (honest, latent)]
            verdicts = [answer["horizon"]["verdict"] for answer in answers if answer]
            return len(verdicts) == 2 and "insufficient_data" not in verdicts

        until(judged, 150.0)
        until(lambda: running.values("ofu_job_divergence_cause"))
        assert honest.counts["refused"] == latent.counts["refused"] == 0
        assert honest.last_answer is not None
        assert latent.last_answer is not None
        yield JobAnswers(running, honest.last_answer, latent.last_answer)


pytestmark = pytest.mark.early(begin=begin)


@pytest.fixture(scope="module")
def told(early: Early) -> Iterator[JobAnswers]:
    with early.of(begin) as answers:
        yield answers


def test_the_answers_tell_the_honest_job_from_the_other(told: JobAnswers) -> None:
    assert told.honest["horizon"]["verdict"] == "agree"
    assert told.honest["causes"] == []
    assert told.honest["horizon"]["ofu"] == pytest.approx(HONEST_MFU * TILES, abs=0.005)
    horizon = told.latent["horizon"]
    assert horizon["verdict"] == "mfu_above_ofu"
    assert horizon["mfu"] == pytest.approx(REPORTED)
    assert horizon["ofu"] == pytest.approx(RIGHT * TILES, abs=0.005)
    first = told.latent["causes"][0]
    assert first["cause"] == "latent_moe_full_hidden"
    assert first["expected_ratio"] == pytest.approx(REPORTED / RIGHT, rel=0.01)
    put_right = float(first["evidence"].rpartition("MFU: ")[2].rstrip("%"))
    assert put_right == pytest.approx(100 * RIGHT, abs=0.05)


def test_so_do_the_metrics(told: JobAnswers) -> None:
    def verdict(job_id: str, name: str) -> float | None:
        return told.agent.value("ofu_job_divergence_verdict", job_id=job_id, verdict=name)

    until(lambda: verdict(HONEST, "agree") == verdict(LATENT_MOE, "mfu_above_ofu") == 1)
    cause = "ofu_job_divergence_cause"
    assert told.agent.value(cause, job_id=LATENT_MOE, cause="latent_moe_full_hidden") == 1
    assert told.agent.values(cause, job_id=HONEST) == []
    for job_id, answer in ((HONEST, told.honest), (LATENT_MOE, told.latent)):
        horizon = answer["horizon"]
        shown = told.agent.value("ofu_job_divergence_ratio", job_id=job_id)
        assert shown == pytest.approx(horizon["difference"], abs=0.003)
        shown = told.agent.value("ofu_job_reported_mfu_ratio", job_id=job_id)
        assert shown == pytest.approx(horizon["mfu"])
        accepted = told.agent.value("ofu_job_reports_total", job_id=job_id, outcome="accepted")
        assert accepted is not None
        assert accepted > 20


def test_so_does_explain_with_the_same_numbers(told: JobAnswers, tmp_path: Path) -> None:
    configuration = tmp_path / "config.json"
    configuration.write_text(json.dumps(LATENT.config))
    horizon = told.latent["horizon"]
    found = call(
        *(
            "explain",
            "--format",
            "json",
            "--mfu",
            str(horizon["mfu"]),
            "--ofu",
            str(horizon["ofu"]),
        ),
        *("--ofu-stderr", str(max(horizon["stderr"], 0.01)), "--config", str(configuration)),
        *("--seq-len", str(SEQ_LEN), "--gpu", H100, "--gpus", str(GPUS), "--precision", "bf16"),
        *("--tokens-per-second", str(tokens_per_second()), "--training"),
    )
    assert found.returncode == 0, found.stderr
    explained = json.loads(found.stdout)
    assert explained["verdict"] == horizon["verdict"]
    assert [each["cause"] for each in explained["causes"]] == [
        each["cause"] for each in told.latent["causes"]
    ]
    for each, answered in zip(explained["causes"], told.latent["causes"], strict=True):
        assert each["evidence"] == answered["evidence"]
        assert each["expected_ratio"] == pytest.approx(answered["expected_ratio"])


def test_so_do_the_api_and_the_start_page(told: JobAnswers) -> None:
    for job_id, verdict in ((HONEST, "agree"), (LATENT_MOE, "mfu_above_ofu")):
        reported = json.loads(told.agent.get(f"/v1/jobs/{job_id}")[1])["reported"]
        assert reported["verdict"] == reported["recent_verdict"] == verdict
    first = reported["causes"]["fitting"][0]
    assert first["cause"] == "latent_moe_full_hidden"
    assert reported["mfu_ratio"] == pytest.approx(REPORTED)
    assert reported["utilization_ratio"] == pytest.approx(RIGHT * TILES, abs=0.005)
    rows = told.agent.get("/")[1].partition("<h2>Jobs</h2>")[2].split("</tr>")[1:]
    assert "42.0%</td>" in rows[0]
    assert "agrees with OFU</span></td>" in rows[0]
    assert "54.3%</td>" in rows[1]
    assert re.search(r"MFU \d+ points above OFU</span> <small>latent moe full hidden", rows[1])


def test_so_does_the_summary_of_the_job(told: JobAnswers) -> None:
    honest = call("job", "show", HONEST, "--agent", told.agent.url).stdout
    assert "Reported MFU 42.0%, OFU of the same seconds 42.4%: agree" in honest
    assert "Likeliest cause" not in honest
    latent = call("job", "show", LATENT_MOE, "--agent", told.agent.url).stdout
    assert "Reported MFU 54.3%, OFU of the same seconds 18.6%: mfu_above_ofu" in latent
    assert re.search(r"Likeliest cause( \(\d+ fit equally well\))?: latent_moe_full_hid", latent)
