"""`profile --post`: the agent of the node is told what tiles add to a job, and what it answers is said."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.traces.formats import NO_SHAPE
from ofu_exporter.values.reasons import ReportRejection
from tests.doubles.report_agent import Reply, report_agent
from tests.helpers.agent import SIMULATED, Agent, agent, page_server, until
from tests.helpers.in_process import call
from tests.helpers.job_node import Node
from tests.traces.formats.test_ncu import BF16, long
from tests.traces.formats.test_nsys_csv import SUM
from tests.traces.formats.tracing import FLASH, FP8, NVJET, kernel, operator, write

JOB = "1001"
"""Of the simulated node."""
NOBODY = {"OFU_EXPORTER_URL": "http://127.0.0.1:9"}


def trace(path: Path, other_microseconds: float) -> Path:
    """Products in two precisions, and another kernel that nothing is known of."""
    return write(
        path,
        operator("aten::mm", 201, [3000, 4096], [4096, 2176]),
        operator("aten::_scaled_mm", 202, [1000, 2048], [2048, 2048]),
        kernel(NVJET, 201, microseconds=60),
        kernel(FP8, 202, microseconds=20),
        kernel(FLASH, 1, microseconds=other_microseconds),
    )


def peak(running: Agent) -> float:
    """What the agent measures the job's MFU against, once it has taken a report."""
    until(lambda: running.value("ofu_job_reports_total", job_id=JOB, outcome="accepted") == 1)
    found = running.value("ofu_job_report_peak_flops", job_id=JOB)
    assert found is not None
    return found


def _trace(running: Agent) -> Any:
    """The trace that the agent shows of the job."""
    reported = json.loads(running.get(f"/v1/jobs/{JOB}")[1])["reported"]
    return reported and reported["trace"]


def test_the_agent_takes_it(tmp_path: Path) -> None:
    path = trace(tmp_path / "trace.json", 20)
    with agent(*SIMULATED) as running:
        until(lambda: running.values("ofu_job_info", job_id=JOB))
        env = {"OFU_EXPORTER_URL": running.url}
        done = call("profile", str(path), "--post", "--job", JOB, "--format", "json", env=env)
        assert (done.returncode, done.stderr) == (
            0,
            f"Told the agent of this node what the profile says of job {JOB}\n",
        )
        out = json.loads(done.stdout)
        assert peak(running) == pytest.approx(out["effective_peak_tflops"] * 1e12)
        until(lambda: _trace(running) is not None)
        assert _trace(running)["parts"] == pytest.approx(out["time"]["ranks"][0]["parts"])
        told = running.values("ofu_job_tile_overhead_bound", job_id=JOB, bound=out["bound"])
        assert list(told) == [1.0]
        foreign = call("profile", str(path), "--post", "--job", "9999", env=env)
        assert foreign.returncode == 2
        assert f"ofu-exporter: {running.url} refused it with status 404: " in foreign.stderr
        assert foreign.stderr.count("\n") == 1


def test_a_job_that_has_ended_is_told_as_one(tmp_path: Path) -> None:
    """The agent would count from now on, and nothing comes: no word of success."""
    node = Node(tmp_path)
    node.start("7", "0")
    with agent(*node.flags()) as running:
        until(lambda: running.values("ofu_job_info", job_id="7"))
        node.end("7")
        until(lambda: json.loads(running.get("/v1/jobs/7")[1])["ended"])
        path = trace(tmp_path / "trace.json", 20)
        env = {"OFU_EXPORTER_URL": running.url}
        done = call("profile", str(path), "--post", "--job", "7", env=env)
        assert done.returncode == 2
        assert done.stderr == (
            f"ofu-exporter: {running.url} refused it with status 409: "
            f"'7' has ended. {ReportRejection.ENDED.advice}\n"
        )
        assert not running.values("ofu_job_tile_overhead_ratio", job_id="7")


def test_precisions_alone_are_told_too(tmp_path: Path) -> None:
    path = long(tmp_path / "a.csv", (NVJET, {f"{BF16}.sum": ("", "3000")}))
    with agent(*SIMULATED) as running:
        until(lambda: running.values("ofu_job_info", job_id=JOB))
        done = call(
            *("profile", str(path), "--post", "--job", JOB), env={"OFU_EXPORTER_URL": running.url}
        )
        assert done.returncode == 0, done.stderr
        assert peak(running) == pytest.approx(989.4e12, rel=1e-3)


def test_no_answer_is_said(tmp_path: Path) -> None:
    path = trace(tmp_path / "trace.json", 20)
    done = call("profile", str(path), "--post", "--job", JOB, env=NOBODY)
    assert done.returncode == 3
    assert done.stderr.startswith("ofu-exporter: the agent of this node does not answer: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_busy_agent_is_waited_for(tmp_path: Path) -> None:
    path = trace(tmp_path / "trace.json", 20)

    def late(*_: object) -> Reply:
        time.sleep(3.0)
        return Reply(content={})

    with report_agent() as busy:
        busy.behave = late
        env = {"OFU_EXPORTER_URL": busy.url}
        done = call("profile", str(path), "--post", "--job", JOB, env=env)
    assert done.returncode == 0, done.stderr
    assert len(busy.reports) == 1


def test_another_program_at_the_address_is_said(tmp_path: Path) -> None:
    path = trace(tmp_path / "trace.json", 20)
    with page_server(lambda: "hello") as url:
        env = {"OFU_EXPORTER_URL": url.removesuffix("/metrics")}
        done = call("profile", str(path), "--post", "--job", JOB, env=env)
    assert done.returncode == 2
    assert "refused it with status 501: " in done.stderr


def test_an_overhead_of_a_small_part_is_not_told_and_the_time_is(tmp_path: Path) -> None:
    path = trace(tmp_path / "trace.json", 800)
    with agent(*SIMULATED) as running:
        until(lambda: running.values("ofu_job_info", job_id=JOB))
        env = {"OFU_EXPORTER_URL": running.url}
        done = call("profile", str(path), "--post", "--job", JOB, env=env)
        assert done.returncode == 0
        assert done.stderr.startswith(
            "Tiles are left out: the overhead is of 9.1% of the time in tensor kernels, less than 50%\n"
        )
        until(lambda: _trace(running))
        assert not running.values("ofu_job_tile_overhead_ratio", job_id=JOB)


def test_an_overhead_that_none_is_is_not_told(tmp_path: Path) -> None:
    path = long(tmp_path / "a.csv", (NVJET, {f"{BF16}.sum": ("", "3000")}))
    shapes = tmp_path / "shapes.csv"
    shapes.write_text(f"kernel,m,n,k\n{NVJET},100,100,100\n", encoding="utf-8-sig")
    done = call(
        *("profile", str(path), "--shapes", str(shapes), "--post", "--job", JOB), env=NOBODY
    )
    assert done.returncode == 2
    assert done.stderr == (
        "ofu-exporter: --post: no job has an overhead of -99.9%: are the shapes right?\n"
    )


def test_nothing_known_is_not_told(tmp_path: Path) -> None:
    path = tmp_path / "sum.csv"
    path.write_text(SUM)
    done = call("profile", str(path), "--post", "--job", JOB, env=NOBODY)
    assert done.returncode == 2
    assert NO_SHAPE in done.stdout
    assert "neither where the time went, nor what tiles add" in done.stderr


@pytest.mark.parametrize(
    ("args", "line"), [(["--post"], "--post needs --job"), (["--job", "1"], "--job is for --post")]
)
def test_a_job_and_post_go_together(args: list[str], line: str, tmp_path: Path) -> None:
    done = call("profile", str(trace(tmp_path / "trace.json", 20)), *args)
    assert (done.returncode, done.stderr) == (2, f"ofu-exporter: {line}\n")
