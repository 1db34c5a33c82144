"""Input made to break the agent, given to the running command: by HTTP, in a recording, in files."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import signal
import sqlite3
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.doubles.slow_disk import slow_disk
from tests.helpers.agent import SIMULATED, SOON, Agent, agent, call, page_server, until
from tests.helpers.job_node import Node, seconds

HALF = "\\ud800"
"""Half a surrogate pair, as JSON writes it."""
BODIES = {
    "a key of the model": '{"job_id":"7","mfu":0.4,"model":{"config":{"%s":1e300},"seq_len":1}}',
    "a text of the model": '{"job_id":"7","mfu":0.4,"model":{"config":{"architectures":["%s"]},"seq_len":1}}',
    "a field": '{"job_id":"7","mfu":0.4,"%s":1}',
    "the job": '{"job_id":"%s","mfu":0.4}',
    "a precision": '{"job_id":"7","mfu":0.4,"precision":{"%s":1.0}}',
    "the precision": '{"job_id":"7","mfu":0.4,"precision":"%s"}',
    "the framework": '{"job_id":"7","mfu":0.4,"framework":"%s"}',
    "a frozen part": '{"job_id":"7","mfu":0.4,"model":{"config":{},"seq_len":1,"freeze":["%s"]}}',
    "nothing else": '"%s"',
    "a list": '["%s"]',
    "something deep": '{"job_id":"7","mfu":0.4,"model":{"config":'
    + '{"a":' * 400
    + '"%s"'
    + "}" * 402,
}


def sent(running: Agent, body: bytes, path: str = "/v1/mfu") -> int:
    """The status of the answer to a body, which must be JSON."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(running.url + path, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=SOON) as answer:
            json.load(answer)
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            json.load(error)
            return error.code


def is_unharmed(running: Agent) -> None:
    """Nothing failed: no 5xx was counted, no error of the program, and no trace logged."""
    assert not running.values("ofu_exporter_faults_total")
    assert not [
        code
        for code in map(str, range(500, 600))
        if running.values("ofu_exporter_http_requests_total", code=code)
    ]
    assert not running.logged("Traceback")


@pytest.fixture(scope="module")
def reported_to(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    node = Node(tmp_path_factory.mktemp("node"))
    node.start("7", "0", "1")
    with agent(*node.flags()) as started:
        until(lambda: seconds(started) > 0.2)
        yield started


@pytest.mark.parametrize("where", BODIES)
def test_half_a_surrogate_pair_in_a_report_is_refused(where: str, reported_to: Agent) -> None:
    before = sum(reported_to.values("ofu_exporter_rejected_reports_total"))
    escaped = (BODIES[where] % HALF).encode()
    raw = (BODIES[where] % "\ud800").encode("utf-8", "surrogatepass")
    assert [sent(reported_to, body) for body in (escaped, raw)] == [422, 422]
    assert sum(reported_to.values("ofu_exporter_rejected_reports_total")) == before + 2
    is_unharmed(reported_to)


def test_half_a_surrogate_pair_in_a_path_is_a_job_that_is_not_known(reported_to: Agent) -> None:
    assert reported_to.get("/v1/jobs/%ED%A0%80")[0] == 404
    is_unharmed(reported_to)


def recording(path: Path, name: str) -> Path:
    """A recording of a GPU of this name beside a sound one."""
    head = '{"format":"ofu-recording","version":1,"source":"x","simulated":false,"created":"","software":{}}'
    gpus = [
        f'{{"gpu":{{"index":"0","uuid":"GPU-{HALF}","name":"{name}"}},"n":0}}',
        '{"gpu":{"index":"1","uuid":"GPU-1","name":"NVIDIA H100 80GB HBM3"},"n":1}',
    ]
    readings = [
        f'{{"n":{n},"start":{at},"end":{at + 0.2},"tensor":0.5,'
        f'"clocks":[[{at + 0.1},1400e6]],"pipes":{{"{HALF}":0.5}}}}'
        for at in range(1, 600)
        for n in (0, 1)
    ]
    path.write_bytes(gzip.compress("\n".join([head, *gpus, *readings, ""]).encode()))
    return path


def test_a_gpu_name_that_is_no_text_costs_no_page(tmp_path: Path) -> None:
    path = recording(tmp_path / "a.rec", f"NVIDIA {HALF}\\u001b[2J H100")
    flags = ("--interval", "0.2s", "--clock-interval", "0.1s", "--scheduler", "none")
    with agent("run", "--source", "replay", "--path", str(path), *flags) as running:
        until(lambda: running.value("ofu_gpu_tensor_active_ratio", uuid="GPU-1"))
        for page in ("/metrics", "/v1/gpus", "/", "/readyz", "/v1/jobs"):
            assert running.get(page)[0] == 200, page
        names = [each["name"] for each in json.loads(running.get("/v1/gpus")[1])]
        assert names == [r"NVIDIA \ud800\x1b[2J H100", "NVIDIA H100 80GB HBM3"]
        assert running.value("ofu_gpu_tensor_active_ratio", gpu="0") == 0.5
        is_unharmed(running)


@pytest.mark.parametrize("mark", ["NULL", "'text'", "1e999", "9e15"])
def test_marks_that_cannot_be_keep_no_gpu_from_being_measured(mark: str, tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.start("7", "0", "1")
    with agent(*node.flags()) as first:
        until(lambda: seconds(first) > 0.2)
        first.stop()
    with closing(sqlite3.connect(node.state)) as db:
        assert db.execute("SELECT count(*) FROM gpus").fetchone()[0] > 0
        db.execute(
            "CREATE TABLE made AS SELECT uuid, instance, boot_id, NULL AS counted_until FROM gpus"
        )
        db.execute("DROP TABLE gpus")
        db.execute("ALTER TABLE made RENAME TO gpus")
        db.execute(f"UPDATE gpus SET counted_until = {mark}")
        db.commit()
    with agent(*node.flags()) as second:
        until(lambda: second.value("ofu_gpu_up", gpu="0") == 1)
        before = seconds(second)
        until(lambda: seconds(second) > before + 0.2)
        assert second.logs("times up to which GPUs were counted are impossible and are left out")
        is_unharmed(second)


def test_of_two_agents_on_one_state_file_one_writes_it_and_the_other_says_so(
    tmp_path: Path,
) -> None:
    node = Node(tmp_path)
    node.start("7", "0", "1")
    with agent(*node.flags()) as first:
        until(lambda: first.value("ofu_exporter_state_writes_total", outcome="written"))
        with agent(*node.flags()) as second:
            until(lambda: seconds(second) > 0.2)
            until(
                lambda: (second.value("ofu_exporter_state_writes_total", outcome="failed") or 0) > 2
            )
            assert second.value("ofu_exporter_state_writes_total", outcome="written") == 0
            lines = [line for line in second.log if "another agent writes it" in line]
            assert len(lines) == 1
            is_unharmed(second)
            written = first.value("ofu_exporter_state_writes_total", outcome="written") or 0.0
            until(
                lambda: (
                    (first.value("ofu_exporter_state_writes_total", outcome="written") or 0)
                    > written
                )
            )
            first.kill()
            until(lambda: second.value("ofu_exporter_state_writes_total", outcome="written"))


CONFIG = (
    "source: simulate\nscheduler: none\ninterval: 0.2s\nclock_interval: 0.1s\nsimulated_gpus: 2\n"
)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "config.yaml").write_text(CONFIG)
    return folder / "config.yaml"


@pytest.mark.slow
def test_a_file_system_that_hangs_under_the_configuration_costs_nothing_else(config: Path) -> None:
    hangs = config.parent.parent / "hangs"
    env = slow_disk(config.parent, seconds=1000, when=hangs)
    with agent("run", "--config", str(config), env=env) as running:
        until(lambda: running.value("ofu_gpu_up", gpu="0") == 1)
        hangs.touch()
        running.process.send_signal(signal.SIGHUP)
        assert running.logs("its file system does not answer; the settings stay")
        until(lambda: running.value("ofu_exporter_config_reloads_total", outcome="failed"))
        before = running.value("ofu_gpu_observed_seconds_total", gpu="0") or 0.0
        until(
            lambda: (running.value("ofu_gpu_observed_seconds_total", gpu="0") or 0) > before + 0.5
        )
        threads = len(list(Path(f"/proc/{running.process.pid}/task").iterdir()))
        for _ in range(5):
            running.process.send_signal(signal.SIGHUP)
            time.sleep(0.2)
        assert len(list(Path(f"/proc/{running.process.pid}/task").iterdir())) <= threads + 3
        is_unharmed(running)
        assert running.stop() == 0


@pytest.mark.parametrize("kind", ["pipe", "zeros", "folder", "large", "nothing", "comment", "gone"])
def test_a_configuration_that_is_no_file_with_settings_is_refused_at_a_reload(
    kind: str, config: Path
) -> None:
    with agent("run", "--config", str(config)) as running:
        until(lambda: running.value("ofu_gpu_up", gpu="0") == 1)
        config.unlink()
        if kind == "pipe":
            os.mkfifo(config)
        elif kind == "zeros":
            config.symlink_to("/dev/zero")
        elif kind == "folder":
            config.mkdir()
        elif kind == "large":
            config.write_text(CONFIG + "#" * (1 << 20))
        elif kind == "nothing":
            config.touch()
        elif kind == "comment":
            config.write_text("# nothing yet\n")
        running.process.send_signal(signal.SIGHUP)
        until(lambda: running.value("ofu_exporter_config_reloads_total", outcome="failed"))
        assert running.value("ofu_exporter_config_reloads_total", outcome="applied") == 0
        assert running.logs("configuration not applied")
        (line,) = [each for each in running.log if "configuration not applied" in each]
        assert f"configuration file {config}" in line
        assert running.value("ofu_exporter_simulated") == 1
        assert len(running.values("ofu_gpu_up")) == 2
        is_unharmed(running)
        assert running.stop() == 0


def test_a_configuration_that_was_empty_from_the_start_may_stay_so(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.touch()
    with agent(*SIMULATED, "--config", str(config)) as running:
        running.process.send_signal(signal.SIGHUP)
        until(lambda: running.value("ofu_exporter_config_reloads_total", outcome="applied"))


@pytest.mark.parametrize("flag", ["--config", "--report-token-file", "--tls-cert", "--tls-key"])
def test_a_start_with_a_pipe_or_device_for_a_file_ends_with_one_line(
    flag: str, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    certificate = ("--tls-cert", str(tmp_path / "none.pem")) if flag == "--tls-key" else ()
    for path in (str(pipe), "/dev/zero", str(tmp_path)):
        done = call("run", "--listen", "127.0.0.1:0", *certificate, flag, path)
        assert done.returncode == 2
        assert f"{path}: it is not a file" in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_page_of_3000_unknown_gpus_costs_the_real_ones_nothing() -> None:
    """The first page is of 8 GPUs; from then on 3,000 others stand before them, others on each page."""
    turns = itertools.count(1)
    attacks = False

    def row(index: int, uuid: str, value: float) -> str:
        labels = f'gpu="{index}",UUID="{uuid}",modelName="NVIDIA H100 80GB HBM3"'
        return (
            f"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{{labels}}} {value}\n"
            f"DCGM_FI_DEV_SM_CLOCK{{{labels}}} 1410\nDCGM_FI_DEV_POWER_USAGE{{{labels}}} {value}\n"
        )

    def page() -> str:
        turn = next(turns)
        value = 0.25 + turn % 100 / 1000
        fakes = range(3000 * turn, 3000 * (turn + 1)) if attacks else ()
        unknown = "".join(row(9, f"GPU-fake-{number}", value) for number in fakes)
        return unknown + "".join(row(index, f"GPU-real-{index}", value) for index in range(8))

    pace = ("--interval", "2s", "--clock-interval", "1s", "--collect-interval", "2s")
    with page_server(page) as url:
        flags = ("--source", "dcgm-exporter", "--url", url, *pace, "--scheduler", "none")
        with agent("run", *flags) as running:
            until(lambda: running.value("ofu_gpu_observed_seconds_total", gpu="0"))
            attacks = True
            until(lambda: running.value("ofu_exporter_rejected_rows_total", reason="too_many_gpus"))
            began = time.monotonic()
            before = [
                running.value("ofu_gpu_observed_seconds_total", gpu=str(i)) or 0.0 for i in range(8)
            ]
            until(lambda: time.monotonic() - began > 12)
            after = [
                running.value("ofu_gpu_observed_seconds_total", gpu=str(i)) or 0.0 for i in range(8)
            ]
            assert min(now - then for now, then in zip(after, before, strict=True)) > 0
            # Those measured now, and as many again that were here within the hour.
            assert len(running.values("ofu_gpu_up")) <= 2 * 128
            assert len(running.get("/metrics")[1]) < 1 << 20
            assert len([line for line in running.log if "more than are measured" in line]) == 1
            is_unharmed(running)
            assert running.stop() == 0
