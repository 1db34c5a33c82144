"""Files and answers of others, with each part changed: what is read of them or why not, golden."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.digest.config_file import read_config
from ofu_exporter.fleet.history.prices import read_prices
from ofu_exporter.fleet.simulation.fleet import fleet_of
from ofu_exporter.fleet.simulation.spec import read_spec
from ofu_exporter.recordings import recording
from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.serving.web_config import read_web_config
from ofu_exporter.values.gpu import Gpu
from tests.flops.test_recipes import RECIPE
from tests.helpers.changed import outcomes, wronged

pytestmark = pytest.mark.slow

PYDANTICS = re.compile(
    r"((?:Input|String|List|Tuple|Dictionary|Value) should|Field required|Extra inputs|Unable to) ?.*"
)
"""Its words differ from version to version."""
Judged = str | dict[str, Any]

SPEC = """
seed: 3
length: 6h
cluster: demo
interval: 15
clock_reads: 4
models:
  chat: {seq_len: 4096, config: {architectures: [LlamaForCausalLM], hidden_size: 1024, intermediate_size: 4096,
    num_hidden_layers: 4, num_attention_heads: 16, vocab_size: 32000, tie_word_embeddings: false}}
nodes:
  - {name: n, count: 2, model: H100, gpus: 8, partition: batch}
  - {name: m, count: 1, model: H100, gpus: 2, mig: [3g.40gb, 1g.10gb]}
jobs:
  - {name: llama, users: [ada, eve], account: physics, partition: batch, gpus: 4, count: 2, every: 1h, start: 10m,
     lasts: {mean: 40m, deviation: 0.2, longest: 2h}, mfu: {mean: 0.4, deviation: 0.05, lowest: 0.2, highest: 0.6},
     left_out: 0.02, noise: 0.01, clock_mhz: 1700, idle: 0.05, empty_sms: 0.06, watts: 600,
     report: {every: 2m, model: chat, framework: nemo, mistake: full_attention_counted, precision: bf16, step: 4.5},
     changes: [{at: 20m, factor: 0.5}], straggler: {gpu: 1, share: 0.5},
     crashes: {every: 1h, pause: 3m, start: 2m, again: 5m}}
  - {name: serving, users: [eve], mig: 3g.40gb, gpus: 1, ofu: 0.2, work: inference,
     serves: {model: chat, tokens: {prompt: 100, generation: 30}, memory: 0.8}}
  - {name: whole, users: [marie], nodes: [n2], count: 1, ofu: 0.3, start: 5h}
  - {name: notebook, users: [alan], gpus: 1, work: idle, ofu: null, mfu: null, report: null, serves: null}
faults:
  - {fault: gpu_lost, nodes: [n1], gpus: [3], at: 2h, lasts: 30m}
  - {fault: clock_limit, nodes: ["n1..2"], clock_mhz: 900, at: 3h}
"""
DIGESTS = """
exempt: {partitions: [debug], job_names: [x*], users: [root], shorter_than: 10m, dram_busy: 0.5}
targets: {gpu: 0.35, "big*": {alpha: 0.4, "*": 0.3}}
low_clock: 0.6
ranks: true
most_jobs: 5
contact: Ask us.
prices: {currency: EUR, gpu_hour: {H100*: 2.5, "*": 1}}
send: {url: "mailtos://u:p@example.org?to={to}", to: "{name}@example.org", report_to: [a@example.org]}
"""
WEB = f"""
tls_server_config: {{cert_file: a.pem, key_file: b.pem, client_ca_file: c.pem,
  client_auth_type: RequireAndVerifyClientCert, min_version: TLS12, max_version: TLS13,
  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_AES_128_GCM_SHA256], prefer_server_cipher_suites: true}}
http_server_config: {{http2: false, headers: {{Content-Security-Policy: self, Strict-Transport-Security: max,
  X-Content-Type-Options: nosniff, X-Frame-Options: deny, X-XSS-Protection: "1"}}}}
basic_auth_users: {{ada: "$2y$10${"a" * 53}"}}
"""
REPORT: dict[str, Any] = {
    "job_id": "7",
    "mfu": 0.41,
    "model": {"config": {"architectures": ["x"]}, "seq_len": 4096, "batch_size": 2, "lora_rank": 8},
    "start": 1000.0,
    "end": 1060.0,
    "step": 10,
    "reached": 12,
    "reached_at": 900.0,
    "run": "r",
    "gpus": 8,
    "peak_tflops": 989.4,
    "precision": {"bf16": 0.5, "fp8": 0.5},
    "recompute": "full",
    "accumulation": 4,
    "pack_length": 8192,
    "framework": "nemo",
    "tile_overhead": "2%",
    "tile_overhead_bound": "lower",
}
GPU = Gpu("0", "GPU-a")
READING: dict[str, Any] = {
    "start": 0.0,
    "end": 5.0,
    "tensor": 0.5,
    "pipes": {"hmma": 0.5},
    "clocks": [[1.0, 1.7e9], [2.0, 1.8e9]],
    "pace": 0.5,
    "evidence": {"graphics_active": 0.9},
    "parts": [[0.0, 1.0, 0.5, {"hmma": 0.5}, 0.9], [1.0, 5.0, 0.5, {}]],
    "counts": False,
    "edge_seconds": 0.1,
    "cut_seconds": 0.2,
    "activity": {"sm": 0.8, "energy_joules": 100.0},
    "clock_limits": ["sw_power_cap", "unknown_to_us"],
}


def refused(error: Exception, *hidden: Path) -> str:
    text = PYDANTICS.sub("(as pydantic says)", str(error))
    for path in hidden:
        text = text.replace(str(path), "FILE")
    return text


def of_file(read: Callable[[Path], Judged], folder: Path) -> Callable[[dict[str, Any]], Judged]:
    """What is read of a file of YAML."""
    path = folder / "file.yaml"

    def judged(content: dict[str, Any]) -> Judged:
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        path.chmod(0o600)
        try:
            return read(path)
        except ConfigError as error:
            return refused(error, path, folder)

    return judged


def fleet(path: Path) -> Judged:
    made = fleet_of(read_spec(path))
    jobs = {}
    for truth in made.jobs:
        job, draft = truth.job, truth.job.draft
        numbers = (draft.ofu, draft.mfu, draft.clock_hz, draft.reported_over_right)
        told = " ".join(f"{each:.6g}" for each in numbers)
        jobs[draft.job_id] = f"{draft.user} {job.start} {job.end} {job.devices} {told}"
    return {"nodes": len(made.nodes), "faults": [*map(str, made.faults.items())], **jobs}


def web(path: Path) -> Judged:
    found = read_web_config(path)
    folder = str(path.parent)
    tls = asdict(found.tls) if found.tls else {}
    return {
        **{key: getattr(each, "name", str(each)).replace(folder, "") for key, each in tls.items()},
        "users": sorted(found.users),
        "headers": dict(found.headers),
        "says": str(found).replace(folder, ""),
    }


def dumped(read: Callable[[dict[str, Any]], BaseModel]) -> Callable[[dict[str, Any]], Judged]:
    def judged(content: dict[str, Any]) -> Judged:
        try:
            return read(content).model_dump(mode="json")
        except ConfigError as error:
            return refused(error)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            return f"{where}: {refused(ValueError(first['msg']))}"

    return judged


def recipe(content: dict[str, Any]) -> Judged:
    try:
        found = flops.count(flops.read(content), flops.fixed(1, tokens=48, images=1), flops.How())
    except ConfigError as error:
        return refused(error)
    return f"{found.parameters} {found.model_flops_per_step} {' '.join(found.warnings)}"


def reading(content: dict[str, Any]) -> Judged:
    try:
        return recording.encode(recording.decode(content, GPU), 0.0)
    except recording.BAD_LINE as error:
        return type(error).__name__


def made_yaml(text: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


@pytest.mark.parametrize("part", ["models", "nodes", "jobs", "faults", "rest"])
def test_a_changed_part_of_a_fleet_is_read_or_refused_as_it_was(
    part: str, golden: Callable[[str, str], None], tmp_path: Path
) -> None:
    spec = made_yaml(SPEC)
    rest = {key: each for key, each in spec.items() if not isinstance(each, (list, dict))}
    changed = rest if part == "rest" else {part: spec[part]}
    read = of_file(fleet, tmp_path)
    found = outcomes(changed, lambda content: read({**spec, **content}), never=("config",))
    golden(f"documents/fleet-{part}.txt", found)


@pytest.mark.parametrize("name", ["digests", "prices", "web"])
def test_a_changed_file_is_read_or_refused_as_it_was(
    name: str, golden: Callable[[str, str], None], tmp_path: Path
) -> None:
    digests = made_yaml(DIGESTS)
    document, read = {
        "digests": (digests, lambda path: read_config(path).model_dump(mode="json")),
        "prices": (digests["prices"], lambda path: read_prices(path).model_dump(mode="json")),
        "web": (made_yaml(WEB), web),
    }[name]
    golden(f"documents/{name}.txt", outcomes(document, of_file(read, tmp_path), wronged))


@pytest.mark.parametrize("name", ["recipe", "report", "reading"])
def test_a_changed_answer_is_read_or_refused_as_it_was(
    name: str, golden: Callable[[str, str], None]
) -> None:
    document, judged = {
        "recipe": (RECIPE, recipe),
        "report": (REPORT, dumped(MfuReport.model_validate)),
        "reading": (json.loads(json.dumps(READING)), reading),
    }[name]
    golden(f"documents/{name}.txt", outcomes(document, judged, wronged, never=("made_with",)))
