"""Plants 310 mistakes of 31 kinds in models of 2025 and 2026, and makes honest jobs, on cards of these years.

`python -m tests.flops.causes.held_out final` prints how many are named first. FLOPs are written out in `cards`, peaks
are those of the data sheets; nothing of the causes' code makes a mistake. A job runs as real training was measured to
run on an H100: its right MFU is 0.86 to 0.97 of OFU (docs/hardware.md). Every third recomputes its layers. `TUNING`
models tuned the causes; `FINAL` ones, with other seeds, made the numbers of tests/measured/causes.md.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

from ofu_exporter import flops
from ofu_exporter.flops.causes import CauseFacts, Side, causes
from ofu_exporter.flops.counted_step import CountedStep
from ofu_exporter.flops.explain import Explanation, Observation, explain
from ofu_exporter.values.reported import Verdict
from tests.flops.causes.cards import FINAL, TUNING, Card

EACH = 10
HONEST_RATIO = (0.86, 0.97)
LEAST = 0.03
"""A mistake that changes a report by less is not planted."""
TWIN = 0.01
"""Two mistakes whose reports differ by less are told apart by no number."""
PEAKS = {
    "NVIDIA A100-SXM4-80GB": 311.9,
    "NVIDIA H100 80GB HBM3": 989.4,
    "NVIDIA H100 PCIe": 756.4,
    "NVIDIA H100 NVL": 835.3,
    "NVIDIA H200": 989.4,
    "NVIDIA GH200 480GB": 989.4,
    "NVIDIA H20": 148.0,
    "NVIDIA L40S": 366.4,
    "NVIDIA B200": 2250.2,
    "NVIDIA GB200": 2500.3,
    "NVIDIA B300 SXM6 AC": 2250.2,
    "NVIDIA GB300": 2500.3,
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": 467.8,
}
"""Dense BF16 TFLOP/s."""
A100, H100, PCIE, NVL, H200, GH200, H20, L40S, B200, GB200, B300, GB300, PRO = PEAKS
BIG = (H100, H200, B200, GB200, B300, GB300)
WORLDS = (8, 32, 64, 128, 256, 512, 1024)
BF16 = {"bf16": 1.0}


@dataclass(frozen=True)
class Job:
    """A job, and what its report is times the right one."""

    kind: str
    named: tuple[str, ...]
    """The causes that are right."""
    card: Card
    ratio: float = 1.0
    gpu: str = H100
    gpus: int = 64
    precision: Mapping[str, float] = field(default_factory=lambda: BF16)
    ran: float = 1.0
    """What the hardware runs besides what is common, over what the model needs."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    passes: flops.Passes = field(default_factory=flops.Passes)
    counting: flops.Counting = field(default_factory=flops.Counting)


class Numbers(NamedTuple):
    """What is seen of a job."""

    mfu: float
    ofu: float
    error: float
    rate: float
    """Tokens per second, with four digits."""


Draw = random.Random
Kind = Callable[[Draw, Sequence[Card]], Job | None]
KINDS: dict[str, Kind] = {}


def kind(make: Kind) -> Kind:
    KINDS[make.__name__] = make
    return make


def _pick(draw: Draw, cards: Sequence[Card], has: Callable[[Card], Any]) -> Card | None:
    able = [card for card in cards if has(card)]
    return draw.choice(able) if able else None


def _length(draw: Draw, card: Card) -> Card:
    longer = draw.choice([card.length // 2, card.length, 2 * card.length])
    return replace(card, length=min(longer, card.longest // 2))


def _counted(
    draw: Draw, name: str, card: Card | None, named: tuple[str, ...] = (), **wrong: Any
) -> Job | None:
    """A mistake of the count, which takes the model for another one."""
    if card is None:
        return None
    right = _length(draw, card)
    ratio = replace(right, **wrong).forward() / right.forward()
    return Job(name, named or (name,), right, ratio, draw.choice(BIG), draw.choice(WORLDS))


def _plain(draw: Draw, cards: Sequence[Card], name: str, ratio: float, **more: Any) -> Job:
    gpu = more.pop("gpu", None) or draw.choice(BIG)
    gpus = more.pop("gpus", None) or draw.choice(WORLDS)
    card = _length(draw, draw.choice(cards))
    return Job(name, more.pop("named", (name,)), card, ratio, gpu, gpus, **more)


@kind
def full_attention_counted(draw: Draw, cards: Sequence[Card]) -> Job | None:
    card = _pick(draw, cards, lambda each: not (each.latent and each.latent.keys))
    return _counted(draw, "full_attention_counted", card, causal=False, window=0)


@kind
def attention_omitted(draw: Draw, cards: Sequence[Card]) -> Job | None:
    return _counted(draw, "attention_omitted", draw.choice(cards), cores=False)


@kind
def embedding_counted(draw: Draw, cards: Sequence[Card]) -> Job | None:
    return _counted(draw, "embedding_counted", draw.choice(cards), embedding=True)


@kind
def head_omitted(draw: Draw, cards: Sequence[Card]) -> Job | None:
    return _counted(draw, "head_omitted", draw.choice(cards), head=False)


@kind
def all_experts_counted(draw: Draw, cards: Sequence[Card]) -> Job | None:
    card = _pick(draw, cards, lambda each: each.experts)
    every = card.experts if card else 0
    return _counted(draw, "all_experts_counted", card, active=every)


@kind
def shared_experts_omitted(draw: Draw, cards: Sequence[Card]) -> Job | None:
    card = _pick(draw, cards, lambda each: each.shared_width)
    return _counted(draw, "shared_experts_omitted", card, shared_width=0)


@kind
def gating_miscounted(draw: Draw, cards: Sequence[Card]) -> Job | None:
    card = _pick(draw, cards, lambda each: each.dense is None)
    return _counted(draw, "gating_miscounted", card, matrices=2)


@kind
def groups_ignored(draw: Draw, cards: Sequence[Card]) -> Job | None:
    card = _pick(draw, cards, lambda each: not each.latent and each.groups < each.heads)
    return _counted(draw, "groups_ignored", card, groups=card.heads if card else 0)


@kind
def head_dim_from_hidden(draw: Draw, cards: Sequence[Card]) -> Job | None:
    card = _pick(draw, cards, lambda e: not e.latent and e.dim != e.hidden // e.heads)
    narrow = card.hidden // card.heads if card else 0
    return _counted(draw, "head_dim_from_hidden", card, dim=narrow)


@kind
def latent_attention_as_heads(draw: Draw, cards: Sequence[Card]) -> Job | None:
    """Heads as wide as the hidden size over them, or as the card's queries and keys are."""
    card = _pick(draw, cards, lambda each: each.latent)
    if card is None or card.latent is None:
        return None
    of = card.latent
    wide = draw.choice([card.hidden // card.heads, of.nope + of.rope])
    job = _counted(draw, "latent_attention_as_heads", card, latent=None, dim=wide)
    if of.keys and job:  # which then attends to every key
        return replace(job, named=(*job.named, "sparse_attention_as_dense"))
    return job


@kind
def sparse_attention_as_dense(draw: Draw, cards: Sequence[Card]) -> Job | None:
    card = _pick(draw, cards, lambda each: each.latent and each.latent.keys)
    if card is None or card.latent is None:
        return None
    indexed = draw.choice([True, False])
    dense = replace(card.latent, keys=0, **({} if indexed else {"index_heads": 0}))
    return _counted(draw, "sparse_attention_as_dense", card, latent=dense)


@kind
def predictions(draw: Draw, cards: Sequence[Card]) -> Job | None:
    """Counted though they are not trained, or trained and forgotten."""
    card = _pick(draw, cards, lambda each: each.depth)
    if card is None:
        return None
    if draw.random() < 0.5:
        return _counted(draw, "predictions", card, ("predictions_counted",), predicts=True)
    right = replace(card, predicts=True)
    job = _counted(draw, "predictions", right, ("predictions_omitted",), predicts=False)
    return job and replace(job, counting=flops.Counting(predictions=True))


@kind
def capacity(draw: Draw, cards: Sequence[Card]) -> Job | None:
    """Counted with a capacity factor though no slot is empty; or tokens are dropped, and counted."""
    card = _pick(draw, cards, lambda each: each.experts)
    if card is None:
        return None
    if draw.random() < 0.6:
        times = draw.choice([1.25, 1.5, 2.0])
        return _counted(draw, "capacity", card, ("capacity_counted",), active=times * card.active)
    card = _length(draw, card)
    kept = replace(card, active=draw.uniform(0.4, 0.75) * card.active).forward() / card.forward()
    return Job("capacity", ("tokens_dropped",), card, 1.0, draw.choice(BIG), 64, ran=kept)


@kind
def data_parallel_size(draw: Draw, cards: Sequence[Card]) -> Job | None:
    world = draw.choice(WORLDS[1:])
    model = draw.choice([each for each in (2, 4, 6, 8, 16, 32) if world % each == 0])
    return _plain(draw, cards, "data_parallel_size", model, gpus=world, named=("wrong_gpu_count",))


@kind
def longest_for_length(draw: Draw, cards: Sequence[Card]) -> Job | None:
    card = _pick(draw, cards, lambda each: not each.vision)
    if card is None:
        return None
    card = replace(card, length=card.length // 2)
    ratio = card.forward(card.longest) / card.longest / (card.forward() / card.length)
    named = ("longest_length_counted",)
    return Job("longest_for_length", named, card, ratio, draw.choice(BIG), draw.choice(WORLDS))


@kind
def mlp_of_four_hidden(draw: Draw, cards: Sequence[Card]) -> Job | None:
    card = _pick(draw, cards, lambda each: each.dense is None)
    width = 4 * card.hidden if card else 0
    return _counted(draw, "mlp_of_four_hidden", card, ("mlp_as_4h",), matrices=2, width=width)


@kind
def all_parameters_and_pairs(draw: Draw, cards: Sequence[Card]) -> Job | None:
    """6 for each parameter and token, and 12 layers x width x length."""
    card = _pick(draw, cards, lambda each: not (each.latent or each.vision or each.window))
    if card is None:
        return None
    card = _length(draw, card)
    pairs = 12 * card.layers * card.heads * card.dim * card.length
    ratio = (6 * card.parameters() + pairs) * card.length / (3 * card.forward())
    named = ("all_parameters_and_pairs",)
    return Job("all_parameters_and_pairs", named, card, ratio, draw.choice(BIG), 64)


@kind
def time_left_out(draw: Draw, cards: Sequence[Card]) -> Job | None:
    return _plain(draw, cards, "time_left_out", 1 / draw.uniform(0.6, 0.95))


@kind
def warm_up_in_mean(draw: Draw, cards: Sequence[Card]) -> Job | None:
    return _plain(draw, cards, "warm_up_in_mean", draw.uniform(0.5, 0.95))


@kind
def selective_counted(draw: Draw, cards: Sequence[Card]) -> Job | None:
    card = _length(draw, draw.choice(cards))
    cores = 1 - replace(card, cores=False).forward() / card.forward()
    named = ("selective_recompute_counted",)
    return Job("selective_counted", named, card, 1 + cores / 3, draw.choice(BIG), 64)


@kind
def recompute_counted(draw: Draw, cards: Sequence[Card]) -> Job | None:
    card = _length(draw, draw.choice(cards))
    layers = replace(card, head=False, vision=None).forward()
    again = draw.choice([1.0, layers / card.forward()])
    return Job("recompute_counted", ("recompute_counted",), card, 1 + again / 3, draw.choice(BIG))


SISTERS = (
    *((H100, PCIE), (PCIE, H100), (NVL, H100), (H100, NVL), (H200, NVL)),
    *((H200, H20), (GH200, H20), (H20, H200), (GB200, B200), (B200, GB200), (B300, GB300)),
)


def _other_card(draw: Draw, cards: Sequence[Card], name: str, gpu: str, other: str) -> Job:
    ratio = PEAKS[gpu] / PEAKS[other]
    return _plain(draw, cards, name, ratio, gpu=gpu, named=("wrong_device",))


@kind
def sister_card(draw: Draw, cards: Sequence[Card]) -> Job | None:
    return _other_card(draw, cards, "sister_card", *draw.choice(SISTERS))


@kind
def peak_of_h100(draw: Draw, cards: Sequence[Card]) -> Job | None:
    gpu = draw.choice([A100, L40S, PRO, B200, GB200, B300, GB300, H20])
    return _other_card(draw, cards, "peak_of_h100", gpu, H100)


@kind
def peak_of_a100(draw: Draw, cards: Sequence[Card]) -> Job | None:
    gpu = draw.choice([H100, H200, L40S, PRO, B200, GB300, PCIE])
    return _other_card(draw, cards, "peak_of_a100", gpu, A100)


@kind
def vision_omitted(draw: Draw, cards: Sequence[Card]) -> Job | None:
    return _counted(draw, "vision_omitted", _pick(draw, cards, lambda e: e.vision), vision=None)


@kind
def sparse_peak(draw: Draw, cards: Sequence[Card]) -> Job | None:
    return _plain(draw, cards, "sparse_peak", 0.5, named=("sparse_peak", "fp8_peak_for_bf16"))


@kind
def bf16_peak_for_fp8(draw: Draw, cards: Sequence[Card]) -> Job | None:
    share = draw.choice([0.6, 0.7, 0.8, 0.9, 1.0])
    mix = {"fp8": share, "bf16": round(1 - share, 2)} if share < 1 else {"fp8": 1.0}
    return _plain(draw, cards, "bf16_peak_for_fp8", 1 / (1 - share / 2), precision=mix)


@kind
def gradient_accumulation(draw: Draw, cards: Sequence[Card]) -> Job | None:
    steps = draw.choice([2, 4, 8, 16, 32])
    ratio = draw.choice([1 / steps, float(steps)])
    facts = {"accumulation": steps}
    return _plain(draw, cards, "gradient_accumulation", ratio, facts=facts)


@kind
def forward_only(draw: Draw, cards: Sequence[Card]) -> Job | None:
    if draw.random() < 0.5:
        return _plain(draw, cards, "forward_only", 1 / 3)
    passes = flops.Passes(forward_only=True)
    return _plain(draw, cards, "forward_only", 3.0, passes=passes)


@kind
def frozen_counted(draw: Draw, cards: Sequence[Card]) -> Job | None:
    """Adapters of a rank beside each matrix of attention and MLP; everything is counted as trained."""
    card = _pick(draw, cards, lambda each: each.dense is None and not each.vision)
    if card is None:
        return None
    card, rank = _length(draw, card), draw.choice([16, 64, 128])
    h, q, kv = card.hidden, card.heads * card.dim, card.groups * card.dim
    sides = 2 * (h + q) + 2 * (h + kv) + 3 * (h + card.width)
    low = 2 * card.length * card.layers * rank * sides
    cores = card.forward() - replace(card, cores=False).forward()
    ratio = 3 * card.forward() / (2 * (card.forward() - cores) + 3 * (low + cores))
    passes = flops.Passes(lora=flops.Lora(rank))
    return Job("frozen_counted", ("frozen_counted",), card, ratio, H100, 8, passes=passes)


@kind
def nodes_gpus(draw: Draw, cards: Sequence[Card]) -> Job | None:
    """The GPUs of one node are divided by, or the throughput of one GPU by all."""
    world = draw.choice(WORLDS[1:])
    ratio = draw.choice([world / 8, float(world), 1 / world])
    return _plain(draw, cards, "nodes_gpus", ratio, gpus=world, named=("wrong_gpu_count",))


def planted(seed: str, cards: Sequence[Card], each: int = EACH) -> Iterator[Job]:
    """Jobs of every kind."""
    for name, make in KINDS.items():
        draw, found = random.Random(f"{seed} {name}"), 0
        for _ in range(1000):
            job = make(draw, cards)
            if job and (abs(job.ratio * job.ran - 1) >= LEAST):
                found += 1
                yield job
            if found == each:
                break


@cache
def _read(name: str) -> flops.Model:
    return flops.read(next(each for each in TUNING + FINAL if each.name == name).config())


def model_of(card: Card) -> flops.Model:
    """The package's reading of a card's configuration."""
    return _read(card.name)


def facts_of(job: Job, with_config: bool = True) -> CauseFacts:
    """What the user says; of what is recomputed, nothing."""
    lengths = flops.fixed(8, tokens=job.card.length)
    if job.card.vision:
        lengths += flops.fixed(8 * job.card.vision.images, image=job.card.vision.patches)
    step = CountedStep(model_of(job.card), lengths, job.counting, job.passes)
    bare = CauseFacts(gpu=job.gpu, gpus=job.gpus, precision=job.precision)
    if not with_config:
        return bare
    return replace(bare, step=step, forward_only=job.passes.forward_only, **job.facts)


def peak_of(job: Job) -> float:
    """FLOP/s of a GPU; FP8 takes half of the time."""
    seconds = sum(share / (2 if name == "fp8" else 1) for name, share in job.precision.items())
    return PEAKS[job.gpu] * 1e12 / seconds


def seen(job: Job, seed: str, pause: float = 0.0) -> Numbers:
    """One run of a job; the report has three digits after the point, or four that count."""
    draw = random.Random(f"{seed} {job.kind} {job.card.name} {job.gpu} {job.ratio}")
    error = draw.choice([0.002, 0.005, 0.01])
    ofu = draw.uniform(0.15, 0.60)
    recomputes = not job.passes.forward_only and not job.passes.lora and draw.random() < 1 / 3
    layers = replace(job.card, head=False, vision=None).forward() / job.card.forward()
    ran = job.ran * (1 + layers / 3 if recomputes else 1.0)
    right = draw.uniform(*HONEST_RATIO) * ofu / ran
    passes = 1 if job.passes.forward_only else 3
    per_token = passes * job.card.forward() / job.card.length
    if job.passes.lora:  # what is needed is less than three forwards
        per_token /= job.ratio
    rate = right * job.gpus * peak_of(job) / per_token
    report = right * job.ratio
    mfu = round(report, 3) if report > 0.1 else float(f"{report:.3g}")
    measured = (ofu + draw.gauss(0, error)) * (1 - pause)
    return Numbers(mfu, measured, error, float(f"{rate:.4g}"))


def explained(job: Job, seed: str, level: str = "throughput", pause: float = 0.0) -> Explanation:
    """What is said of a job: with its throughput, with its configuration alone, or bare."""
    numbers = seen(job, seed, pause)
    facts, right = facts_of(job, level != "bare"), None
    if level == "throughput":
        assert facts.step
        how = flops.How("model", job.counting, job.passes)
        right = flops.utilization(
            flops.count(facts.step.model, facts.step.lengths, how),
            flops.Pace(tokens_per_second=numbers.rate),
            gpu=job.gpu,
            number=job.gpus,
            precision=job.precision,
        ).mfu
    return explain(Observation(numbers.mfu, numbers.ofu, numbers.error, right), facts)


class Score(NamedTuple):
    right: int
    twins: int
    """Another is first, whose report is the same within 1 %, and the right one is in the list."""
    wrong: int
    """A cause of the report that is not the right one is first."""
    missed: Counter[str]


REPORT = {each.slug for each in causes() if each.side is Side.REPORT}


def blames(run: Explanation) -> bool:
    """Whether the first cause blames the report."""
    return bool(run.causes) and bool(REPORT & {*run.causes[0].causes})


def scored(jobs: Sequence[Job], seed: str, level: str = "throughput") -> Score:
    """How many planted mistakes are named first."""
    right = twins = wrong = 0
    missed: Counter[str] = Counter()
    for number, job in enumerate(jobs):
        run = explained(job, f"{seed} {number}", level)
        # What the hardware runs besides comes with a mistake in every third job.
        first = {*run.causes[0].causes} if run.causes else set()
        if first & {*job.named} and not first & REPORT - {*job.named}:
            right += 1
            continue
        listed = [each for each in run.causes if {*each.causes} & {*job.named}]
        is_twin = bool(listed) and abs(run.causes[0].report_ratio / job.ratio - 1) < TWIN
        twins += is_twin
        wrong += blames(run) and not is_twin
        missed[
            f"{job.kind}: {run.causes[0].cause if run.causes else run.advice[:40] or 'nothing'}"
        ] += 1
    return Score(right, twins, wrong, missed)


def honest(seed: str, cards: Sequence[Card], number: int) -> Iterator[tuple[Job, float]]:
    """Honest jobs, and the share of OFU that a pause at the edge of a report takes from it."""
    draw = random.Random(f"honest {seed}")
    for _ in range(number):
        card, gpu = _length(draw, draw.choice(cards)), draw.choice(tuple(PEAKS))
        pause = draw.choice([0.0, 0.0, draw.uniform(0, 0.02)])
        yield Job("honest", (), card, gpu=gpu, gpus=draw.choice(WORLDS)), pause


def accused(seed: str, cards: Sequence[Card], number: int, level: str) -> list[str]:
    """Honest jobs that are accused."""
    found = []
    for index, (job, pause) in enumerate(honest(seed, cards, number)):
        run = explained(job, f"{seed} {index}", level, pause)
        if blames(run) or run.divergence.verdict is Verdict.MFU_ABOVE_OFU:
            first = run.causes[0].cause if run.causes else run.advice[:40]
            found.append(f"{job.card.name} on {job.gpu}: {first}")
    return found


def main(which: str) -> None:
    """Print every number of one set."""
    cards, seed = (FINAL, "final") if which == "final" else (TUNING, which)
    jobs = [*planted(seed, cards)]
    print(f"{len(jobs)} mistakes of {len({job.kind for job in jobs})} kinds")
    for level in ("throughput", "config", "bare"):
        score = scored(jobs, seed, level)
        print(f"{level}: {score.right} first, {score.twins} twins first, {score.wrong} wrong first")
        if level == "throughput":
            for text, times in score.missed.most_common():
                print(f"  {times} {text}")
        blamed = accused(seed, cards, 800, level)
        print(f"  {len(blamed)} of 800 honest jobs accused", *blamed[:8], sep="\n    ")


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["tuning"]))
