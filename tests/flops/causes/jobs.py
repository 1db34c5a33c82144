"""Makes jobs with a planted mistake, or with none, and asks for the causes of their reports.

Nothing of the package counts here: FLOPs are written out from the sizes of the model cards, peaks are those of the data
sheets. A mistake is a ratio of two such counts. The user knows configuration, length, card, number of GPUs, precision
and tokens per second, and says of what is recomputed nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

from ofu_exporter import flops
from ofu_exporter.flops.causes import CauseFacts, Side, causes
from ofu_exporter.flops.counted_step import CountedStep
from ofu_exporter.flops.explain import Explanation, Observation, explain
from tests.flops.counting import config

SEEDS = 5
ERROR = 0.01
"""Standard error of OFU."""
REAL = (1.03, 1.16)
"""OFU over the FLOPs that a job runs."""
SAME = 0.01
"""Two mistakes whose reports differ by less than this are facts apart by no number."""

PEAKS = {
    "NVIDIA A100-SXM4-80GB": 312,
    "NVIDIA H100 80GB HBM3": 989.4,
    "NVIDIA H100 PCIe": 756,
    "NVIDIA H200": 989.4,
    "NVIDIA H20": 148,
    "NVIDIA B200": 2250,
    "NVIDIA GB200": 2500,
    "NVIDIA B300 SXM6 AC": 2250,
    "NVIDIA GB300": 2500,
}
"""Dense BF16 TFLOP/s."""
A100, H100, PCIE, H200, H20, B200, GB200, B300, GB300 = PEAKS


@dataclass(frozen=True)
class Sizes:
    """A model by the numbers of its card, or as somebody takes it who has something wrong."""

    name: str
    length: int
    layers: int
    """Layers with attention."""
    hidden: int
    heads: int
    groups: int
    dim: int
    width: int
    vocab: int
    matrices: int = 3
    blocks: int | None = None
    """Layers with a dense block; None = as many as have attention."""
    sparse: int = 0
    """Layers with experts."""
    experts: int = 0
    active: int = 0
    shared: int = 0
    expert_width: int = 0
    latent: int = 0
    """Rank of the latent keys and values; heads then are `dim` wide, and 64 more for the positions of the keys."""
    window: int = 0
    """Of every other layer."""
    states: int = 0
    """Layers of Mamba-2: 128 heads of 64, 8 groups of 128 states, kernels of 4."""
    causal: bool = True
    cores: bool = True
    head: bool = True
    embedding: bool = False

    def forward(self) -> float:
        """FLOPs of a forward pass over one sequence: two for each multiply-add."""
        dense = self.layers if self.blocks is None else self.blocks
        per_token = self.layers * self._projections() + self.states * self._mamba()
        per_token += dense * self.matrices * self.hidden * self.width
        used = self.matrices * (self.active + self.shared) * self.expert_width
        per_token += self.sparse * self.hidden * (used + self.experts)
        per_token += self.hidden * self.vocab * (self.head + self.embedding)
        return 2 * self.length * per_token + 2 * self.cores * self._cores()

    def _projections(self) -> float:
        q, kv = self.heads * self.dim, self.groups * self.dim
        if not self.latent:
            return self.hidden * (2 * q + 2 * kv)
        query = self.hidden * self.heads * (self.dim + 64)
        keys = self.hidden * (self.latent + 64) + self.latent * 2 * q
        return query + keys + q * self.hidden

    def _cores(self) -> float:
        """Queries with keys, and their weights with values."""
        length = self.length
        widths = self.heads * (2 * self.dim + (64 if self.latent else 0))
        whole = length**2 / (2 if self.causal else 1)
        band = self.window * length - self.window * (self.window - 1) / 2
        pairs = (whole + band) / 2 if self.window else whole
        return self.layers * widths * pairs

    def _mamba(self) -> float:
        inner, groups, states = 128 * 64, 8, 128
        ins = self.hidden * (2 * inner + 2 * groups * states + 128)
        return ins + inner * self.hidden + 3.5 * inner * states


@dataclass(frozen=True)
class Job:
    """A job, and what its report is times the right one."""

    cause: str
    model: Sizes
    ratio: float = 1.0
    gpu: str = H100
    precision: Mapping[str, float] = field(default_factory=lambda: {"bf16": 1.0})
    gpus: int = 64
    facts: Mapping[str, Any] = field(default_factory=dict)
    recomputes: float = 0.0
    """Share of the layers that run again in the backward pass; the head does not."""

    def facts_of(self) -> CauseFacts:
        """What the user says."""
        lengths = flops.fixed(8, tokens=self.model.length)
        step = CountedStep(read(self.model.name), lengths, flops.Counting(), flops.Passes())
        facts = {"gpu": self.gpu, "gpus": self.gpus, "precision": self.precision, **self.facts}
        return CauseFacts(step, forward_only=False, **facts)

    def right_mfu(self, right: float) -> float:
        """MFU as the package has it from tokens per second, which are made of the FLOPs and peaks written here."""
        # FP8 runs at twice the rate of BF16 (data sheets), so a share of it takes half of the time.
        seconds = sum(share / (2 if name == "fp8" else 1) for name, share in self.precision.items())
        peak = PEAKS[self.gpu] * 1e12 / seconds
        step = self.facts_of().step
        assert step
        rate = right * self.gpus * peak / (3 * self.model.forward() / self.model.length)
        used = flops.utilization(
            flops.count(step.model, step.lengths),
            flops.Pace(tokens_per_second=rate),
            gpu=self.gpu,
            number=self.gpus,
            precision=self.precision,
        )
        return used.mfu

    def explained(self, seed: int, is_rate_known: bool = True) -> Explanation:
        """One run; the report has three digits after the point, or three that count.

        Of the throughput, where the user knows it, the package makes the right MFU.
        """
        draw = random.Random(f"{self.cause} {self.model.name} {self.gpu} {seed}")
        head = 2 * self.model.length * self.model.hidden * self.model.vocab
        again = self.recomputes * (1 - head / self.model.forward())
        ran = draw.uniform(*REAL) * (1 + again / 3)
        right = draw.uniform(0.25, 0.5)
        report = right * self.ratio
        seen = Observation(
            round(report, 3 if report > 0.1 else 5),
            right * ran + draw.gauss(0, ERROR),
            ERROR,
            self.right_mfu(right) if is_rate_known else None,
        )
        return explain(seen, self.facts_of())


@cache
def read(name: str) -> flops.Model:
    return flops.read(config(name))


def counted(cause: str, right: Sizes, **wrong: Any) -> Job:
    """A mistake of the count, which takes the model for another one."""
    return Job(cause, right, replace(right, **wrong).forward() / right.forward())


class Missed(NamedTuple):
    """A mistake that is not named first."""

    job: Job
    first: str
    """What is named instead; "nothing" if nothing fits."""
    is_twin: bool
    """Whether no number tells the two apart."""


def missed(mistakes: Iterable[Job], seed: int) -> Iterator[Missed]:
    """The mistakes that are not named first."""
    for job in mistakes:
        first = next(iter(job.explained(seed).causes), None)
        if first is None or first.cause != job.cause:
            is_twin = first is not None and abs(first.expected_ratio / job.ratio - 1) < SAME
            yield Missed(job, first.cause if first else "nothing", is_twin)


def is_accused(run: Explanation) -> bool:
    """Whether the first cause blames the report."""
    blaming = {cause.slug for cause in causes() if cause.side is Side.REPORT}
    return bool(run.causes) and bool(blaming & {*run.causes[0].causes})
