"""Makes reports for the simulated jobs: one job reports its right MFU, one counts attention in full."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ofu_exporter.ofu.job_state import observed
from ofu_exporter.reports.book import ReportBook
from ofu_exporter.reports.own_reports import OwnReports
from ofu_exporter.values import quantities
from ofu_exporter.values.snapshot import JobView, Snapshot

SCHEDULER = "simulate"
EVERY_SECONDS = 5.0
NOISE = 0.005
"""Standard deviation of the reported MFU, as a share of it."""


@dataclass(frozen=True, slots=True)
class SimulatedReporting:
    ratio: float
    """Reported MFU over the OFU of its GPUs."""
    facts: Mapping[str, Any]


# A right MFU is below OFU: tiles add 1.5 % to the FLOPs.
_RIGHT = 1 / 1.015
_MOE = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "vocab_size": 151936,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "tie_word_embeddings": False,
}
_FULL_OVER_CAUSAL = 1.3462
"""FLOPs of this model at 8192 tokens with every pair of attention, divided by those with half of the pairs."""
REPORTING: Mapping[str, SimulatedReporting] = {
    "llama-8b-train": SimulatedReporting(
        _RIGHT, {"precision": "bf16", "recompute": "none", "gpus": 3}
    ),
    "moe-pretrain": SimulatedReporting(
        _RIGHT * _FULL_OVER_CAUSAL,
        {
            "precision": "bf16",
            "recompute": "none",
            "gpus": 1,
            "model": {"config": _MOE, "seq_len": 8192},
        },
    ),
}
"""By the job's name; the other jobs report nothing."""


class SimulatedReports(OwnReports):
    kind = "simulated"
    scheduler = SCHEDULER
    every_seconds = EVERY_SECONDS

    def __init__(self, snapshot: Callable[[], Snapshot | None], book: ReportBook) -> None:
        super().__init__(snapshot, book)
        self._random = random.Random(1)

    def due(self, view: JobView) -> Iterator[Mapping[str, Any]]:
        """The time since the last report, for a job that reports."""
        reporting = REPORTING.get(view.job.name)
        if reporting is None or view.ended is not None:
            return
        end = view.updated
        start = self.until.get(view.job.job_id, end - EVERY_SECONDS)
        back = [usage.recent[-1].end for usage in view.usage.values() if usage.recent]
        if not back or end <= start:
            return
        latest = max(back)
        sums = observed(view.usage.values(), latest - (end - start), latest)
        mfu = sums.utilization_seconds / sums.gpu_seconds * reporting.ratio
        mfu *= 1 + self._random.gauss(0, NOISE)
        stated = {"job_id": view.job.job_id, "mfu": quantities.written(mfu)}
        yield {**stated, "start": start, "end": end, **reporting.facts}
