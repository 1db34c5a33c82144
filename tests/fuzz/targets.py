"""What is fed with inputs that mean harm: each way in of the agent, as bytes, and what must hold whatever they are."""

from __future__ import annotations

import contextlib
import json
import math
import re
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from ofu_exporter import flops
from ofu_exporter.agent.records import Records
from ofu_exporter.cli.settings import configure
from ofu_exporter.errors import ConfigError, GpuError, SourceError
from ofu_exporter.jobs.state_file import StateFile
from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.schedulers.slurm import driver as slurm
from ofu_exporter.settings import Settings
from ofu_exporter.sources.dcgm_exporter import driver as dcgm_exporter
from ofu_exporter.sources.dcgm_exporter.page import FIELDS
from ofu_exporter.sources.replay import driver as replay
from ofu_exporter.support.boot import boot_id
from ofu_exporter.traces import daemon_messages as messages
from ofu_exporter.traces import job as traces
from ofu_exporter.traces.registry import Peer, ProcessRegistry
from ofu_exporter.values.job import Job, Ownership
from ofu_exporter.values.reading import Fault, Reading
from ofu_exporter.values.trace import ON_A_NODE, TraceResult, reported
from tests.flops.test_recipes import RECIPE
from tests.fuzz import served
from tests.fuzz.documents import NUMBERS, TEXTS, cut, json_like, json_lines
from tests.fuzz.faces import Faces, shown, strict_json
from tests.helpers.desk import Desk
from tests.helpers.stored_job import TOTALS
from tests.helpers.values import FakeClock, gpu, reading
from tests.reports.test_trace_body import TRACE
from tests.traces import test_daemon_messages as daemon_messages
from tests.traces import trace_maker
from tests.traces.trace_maker import Maker


@dataclass(frozen=True, slots=True)
class FuzzTarget:
    """One way in."""

    inputs: SearchStrategy[bytes]
    check: Callable[[bytes], None]
    """Raises whatever the agent would have raised, and AssertionError where the agent would have lied."""


@contextlib.contextmanager
def file_of(data: bytes, name: str = "input") -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        path.chmod(0o600)
        yield path


# --- what a job says of itself, POST /v1/mfu ------------------------------------------------------

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 1000,
    "tie_word_embeddings": False,
}
REPORTS = (
    {"job_id": "1", "mfu": 0.4},
    {
        "job_id": "1",
        "tokens_per_second": 1e4,
        "model": {"config": CONFIG, "seq_len": 128, "batch_size": 2, "freeze": ["lm_head"]},
        "gpus": 2,
        "precision": {"bf16": 0.3, "fp8": 0.7},
        "recompute": "full",
        "framework": "megatron",
    },
    {
        "job_id": "1",
        "tflops_per_gpu": 400.0,
        "peak_tflops": 989.4,
        "precision": "bf16",
        "start": 1_800_000_000.0,
        "end": 1_800_000_060.0,
        "step": 3,
        "tile_overhead": 0.02,
        "tile_overhead_bound": "lower",
    },
    {"job_id": "2", "tokens_per_second": 1e4, "flops_per_token": 6e9, "gpus": 8},
    {"job_id": "1", "step": 7, "run": "run-1", "accumulation": 4, "pack_length": 4096, "mfu": 0.3},
    {"job_id": "1", "event": "checkpoint", "start": 1_800_000_000.0, "end": 1_800_000_060.0},
    {"job_id": "1", "trace": TRACE},
)


def check_report(data: bytes) -> None:
    """An answer that is JSON, below 500, and a page that still shows everything."""
    desk = Desk()
    desk.give(Job("slurm", "1", uid="1"), "0", "1")
    desk.run(60.0)
    faces = Faces()
    faces.publish(desk.node.last)
    reply = faces.ask("POST", "/v1/mfu", data)
    assert 200 <= reply.status < 500, reply
    strict_json(reply.body)
    desk.run(60.0)
    faces.publish(desk.node.last)
    faces.check()


# --- the page of another exporter -----------------------------------------------------------------

NAMES = st.sampled_from([*FIELDS, "DCGM_FI_DEV_ENCODER_UTIL", "dcgm_sm_clock"])
LABELS = {
    "gpu": st.sampled_from(["0", "1", ""]) | TEXTS,
    "UUID": st.sampled_from(["GPU-0", "GPU-1", ""]) | TEXTS,
    "modelName": st.just("NVIDIA H100 80GB HBM3") | TEXTS,
    "GPU_I_ID": st.just("1") | TEXTS,
    "GPU_I_PROFILE": st.just("1g.10gb") | TEXTS,
    "pci_bus_id": TEXTS,
}


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    inside = ",".join(f'{key}="{text}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value}"


LINES = st.builds(
    _line,
    NAMES,
    st.fixed_dictionaries(
        {name: LABELS[name] for name in ("gpu", "UUID", "modelName")},
        optional={name: LABELS[name] for name in ("GPU_I_ID", "GPU_I_PROFILE", "pci_bus_id")},
    ),
    st.sampled_from([0.4, 1410, 2**47, 0x7FFFFFF0]) | NUMBERS,
)
PAGES = cut(st.lists(LINES, max_size=12).map("\n".join).map(lambda t: t.encode("utf-8", "replace")))


class Pages:
    """Stands where the client of the page does, without HTTP."""

    shown_url = "http://fuzz/metrics"

    def __init__(self, *texts: str) -> None:
        self._texts = list(texts)

    def fetch(self, _max_bytes: int) -> str:
        return self._texts.pop(0) if len(self._texts) > 1 else self._texts[0]

    def close(self) -> None:
        """Nothing is open."""


def check_page(data: bytes) -> None:
    """A page and the next, on which other values stand."""
    clock = FakeClock(1.0)
    text = data.decode("utf-8", "replace")
    probe = dcgm_exporter.Probe(dcgm_exporter.Options(), clock, Counter())
    probe._client = Pages(text, text.replace("4", "5"))  # type: ignore[assignment]
    events: list[Reading | Fault] = []
    for seconds in (0.0, 30.0):
        clock.now += seconds
        with contextlib.suppress(GpuError):
            events += probe.read()
    shown(probe.gpus(), events)


# --- a recording ----------------------------------------------------------------------------------

GPU = {"index": "0", "uuid": "GPU-0", "name": "NVIDIA H100 80GB HBM3", "sm_count": 132}
WINDOW = {
    "n": 0,
    "start": 0.0,
    "end": 5.0,
    "tensor": 0.5,
    "clocks": [[0.0, 1.4e9], [5.0, 1.41e9]],
    "pipes": {"hmma": 0.5},
}
HEADER = {"format": "ofu-recording", "version": 1, "source": "nvml", "simulated": False}
HEADER["created"] = "2026-01-01T00:00:00Z"
RECORDING: list[Any] = [
    HEADER,
    {"gpu": {**GPU, "compute_capability": [9, 0], "max_sm_clock_hz": 1.98e9}, "n": 0},
    WINDOW,
    {**WINDOW, "start": 5.0, "end": 10.0, "cycles": [1e10, 5e9], "evidence": [0.9, 0.8, 0.9, 400]},
    {"n": 0, "at": 12.0, "fault": "lost", "detail": "gone"},
]


def check_recording(data: bytes) -> None:
    clock = FakeClock(0.0)
    with file_of(data) as path:
        try:
            (probe,) = replay.Source(replay.Options(path=path), clock).open()
            clock.now = 1e12
            events = probe.read()
        except (SourceError, GpuError):
            return
        shown(probe.gpus(), events)


# --- rows of the state file -----------------------------------------------------------------------

TOTALS_JSON = {**json.loads(TOTALS.model_dump_json()), **{"began": 1.8e9, "updated": 1.8e9 + 100}}
STATE = {
    "jobs": [["slurm", "12", 1.8e9, 1.8e9, None, TOTALS_JSON]],
    "gpus": [["GPU-0000", "", True, 0.0]],
    "watched": 1.8e9,
}


def check_state(data: bytes) -> None:
    """An agent starts on the file, goes on with its jobs and writes it again."""
    with file_of(b"", "state.sqlite") as path:
        path.unlink()
        try:
            fill(path, json.loads(data))
        except (ValueError, TypeError, LookupError, OverflowError, RecursionError, sqlite3.Error):
            return  # no such rows can be in a file
        settings = Settings(source="replay", state_file=path)
        records = Records(settings)
        try:
            shown([gpu(0)], [reading(0.0, 5.0)], state=records.left_state())
        finally:
            if records._state_writer is not None:
                records._state_writer._close()


def fill(path: Path, rows: Any) -> None:
    """Put rows into a new state file as something else than the agent would."""
    StateFile(path).close()
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        for scheduler, job_id, began, updated, ended, totals in rows["jobs"]:
            said = totals if isinstance(totals, (str, type(None))) else json.dumps(totals)
            values = (scheduler, job_id, began, updated, ended, said)
            database.execute("INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?)", values)
        for uuid, instance, boot, until in rows["gpus"]:
            mark = (uuid, instance, boot_id() if boot is True else boot, until)
            database.execute("INSERT INTO gpus VALUES (?, ?, ?, ?)", mark)
        database.execute("INSERT INTO watched VALUES (0, ?)", (rows["watched"],))


# --- job files ------------------------------------------------------------------------------------

JOB_FILES = (
    {"version": 1, "job_id": "7", "gpus": ["0"]},
    {
        "version": 1,
        "job_id": "7",
        "gpus": ["0", "GPU-1", "MIG-1"],
        "name": "llama",
        "user": "ada",
        "account": "physics",
        "partition": "gpu",
        "nodes": "n[1-4]",
        "started": 1_800_000_000.0,
        "ends": 1_800_003_600.0,
        "noted": 1_800_000_000.0,
        "boot_id": "",
        "token_sha256": "0" * 64,
    },
)


def check_job_file(data: bytes) -> None:
    with file_of(data, "7.json") as path:
        path.parent.chmod(0o755)
        scheduler = slurm.Scheduler(slurm.Options(job_dir=path.parent))
        claims = tuple(scheduler.claims())
        scheduler.close()
    events = [reading(0.0, 5.0, device=gpu(number)) for number in range(2)]
    shown([gpu(0), gpu(1)], events, [Ownership(0.0, claims)])


# --- the configuration file -----------------------------------------------------------------------

MOST_SAID = 10_000
"""Most characters that a refusal may have: they go into a log."""
SETTINGS = (
    {"source": "simulate", "simulated_gpus": 4, "interval": "1s", "listen": "127.0.0.1:0"},
    {
        "source": "replay",
        "path": "x",
        "scheduler": "slurm, simulate",
        "horizon": "10m",
        "mfu_above": 0.02,
        "job_tokens": True,
        "gpus": [
            {"name": "X1", "tensor_clock_hz": 1.83e9, "flops_per_cycle_per_sm": {"bf16": 4096}}
        ],
        "pull": [{"job_id": "7", "url": "http://127.0.0.1:8000/metrics", "every": 15}],
    },
)
YAML = st.sampled_from(
    [
        b"",
        b"---\n---\n",
        b"a: &a [*a]",
        b"? [a]\n: b",
        b"<<: [1]",
        b"!!python/object/apply:os.system [id]",
        b"interval: 1:2:3.4",
        b"source: 2001-01-01",
        b"source: !!binary aGVq",
        b"source: !!set {a}",
        b"\xff\xfe",
    ]
)


def check_settings(data: bytes) -> None:
    """Settings, or a refusal that is short."""
    with file_of(data, "agent.yaml") as path:
        try:
            configure({"config": path}, environ={})
        except ConfigError as error:
            said = str(error)
        else:
            return
        assert len(said) <= MOST_SAID, len(said)


# --- recipes of models ----------------------------------------------------------------------------


def check_recipe(data: bytes) -> None:
    """It is refused in a sentence, or is counted, however its model runs: to no more than a float holds."""
    model, refusal = None, ""
    with file_of(data, "own.json") as path:
        try:
            model = flops.read_file(path)
        except ConfigError as error:
            refusal = str(error)
    assert len(refusal) < MOST_SAID
    if model is None:
        return
    lengths = flops.fixed(1, **dict.fromkeys(model.streams, 64))
    for recompute in flops.Recompute:
        how = flops.How(passes=flops.Passes(recompute=recompute))
        with contextlib.suppress(ConfigError):
            assert math.isfinite(float(flops.count(model, lengths, how).hardware_flops_per_step))


# --- a trace that a process of a job has written, and what it sends to the agent for it -----------


def _trace(steps: int) -> dict[str, Any]:
    maker = Maker(rank=1)
    for step in range(steps + 1):
        with maker.during(f"ProfilerStep#{step}" if steps else "train"):
            maker.kernel(trace_maker.SGEMM, 300)
            maker.kernel(trace_maker.ADD, 20, "aten::add")
            maker.kernel(trace_maker.ALL_REDUCE, 90, "nccl:all_reduce", trace_maker.NCCL)
            maker.copy(trace_maker.TO_GPU, 30)
            maker.pause("enumerate(DataLoader)#__next__", 200)
    device = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "computeMajor": 9, "computeMinor": 0}
    return {
        "deviceProperties": [device],
        "distributedInfo": {"rank": 1, "world_size": 8},
        "traceEvents": maker.events,
    }


def check_trace(data: bytes) -> None:
    """It is refused in a sentence, or its parts are shares, and what is said of it is what a report takes."""
    refusal = ""
    with file_of(data, "trace.json") as path:
        try:
            result, _ = traces.read([path], ON_A_NODE)
        except ConfigError as error:
            refusal = str(error)
    assert len(refusal) < MOST_SAID
    if refusal:
        return
    for rank in result.ranks:
        assert all(0 <= each <= 1 for each in rank.parts)
        assert math.isclose(sum(rank.parts), 1.0, abs_tol=1e-6) or not rank.seconds
    assert sum(each.share for each in result.findings) <= 1 + 1e-6
    if body := reported(result):
        MfuReport.model_validate({"job_id": "1", **body})
    again = json.loads(json.dumps(result.as_data(), allow_nan=False))
    assert TraceResult.from_data(again) == result


MESSAGES = cut(
    st.builds(
        daemon_messages.registration,
        *(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1), st.integers(-9, 9)),
    )
    | st.lists(st.integers(-(2**31), 2**31 - 1), max_size=80).map(
        lambda pids: daemon_messages.question(1, *pids)
    )
)


def check_message(data: bytes) -> None:
    """A process that would record has a name of a file, whatever it says of itself."""
    registry = ProcessRegistry()
    with contextlib.suppress(ValueError):
        registry.take(messages.parsed(data), Peer(1, 1, b"a"), 0.0)
    for each in registry.of("1", 0.0):
        assert each.can_record
        assert re.fullmatch(r"-?\d{1,10}", str(each.pid))


TARGETS = {
    "trace": FuzzTarget(json_like(_trace(0), _trace(2)), check_trace),
    "message": FuzzTarget(MESSAGES, check_message),
    "recipe": FuzzTarget(json_like(RECIPE), check_recipe),
    "report": FuzzTarget(json_like(*REPORTS), check_report),
    "page": FuzzTarget(PAGES, check_page),
    "engine": FuzzTarget(served.PAGES, served.check_engine),
    "recording": FuzzTarget(cut(json_lines(RECORDING)), check_recording),
    "state": FuzzTarget(json_like(STATE), check_state),
    "job_file": FuzzTarget(json_like(*JOB_FILES), check_job_file),
    "settings": FuzzTarget(json_like(*SETTINGS) | cut(YAML), check_settings),
}
