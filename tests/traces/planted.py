"""Training jobs with one known loss of time each, and such without: what `trace_maker` writes of them.

`python -m tests.traces.planted` writes the example of the docs, which has two.

A job's steps are alike. A sound one keeps the GPU busy with products, attention and some element-wise kernels, has its
all-reduce run beside the backward pass and its optimizer fused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.traces import trace_maker as made
from tests.traces.trace_maker import COMPUTE, NCCL, Maker

Plant = Callable[[Maker, float], float]
"""Loses about so many microseconds in a step; returns how many they were."""


@dataclass(frozen=True)
class Job:
    """A job and its truth."""

    finding: str
    share: float
    maker: Maker


def sound(maker: Maker, random: Random) -> None:
    """The work of a step, of some 30 ms."""
    for layer in range(24):
        backward = layer >= 12
        for _ in range(2):
            maker.kernel(made.PRODUCT, 400 + random.uniform(0, 60))
        maker.kernel(made.FLASH, 250, "aten::_flash_attention_forward")
        maker.kernel(made.NORM, 40, "aten::native_layer_norm")
        maker.kernel(made.ADD, 25, "aten::add")
        if backward:
            maker.kernel(made.ALL_REDUCE, 300, "nccl:all_reduce", NCCL, after=maker.free[COMPUTE])
    maker.copy(made.TO_GPU, 30)
    with maker.during("Optimizer.step#AdamW.step"):
        for _ in range(4):
            maker.kernel(made.FUSED_ADAM, 200, "aten::_fused_adamw_")


def job(finding: str, plant: Plant | None, lost: float, seed: int, steps: int = 6) -> Job:
    """A job that loses about so many microseconds a step; `ProfilerStep` is there with every other seed."""
    random = Random(seed)
    maker = Maker(rank=0)
    total = 0.0
    for step in range(steps):
        with maker.during(f"ProfilerStep#{step}" if seed % 2 else "train_step"):
            sound(maker, random)
            total += plant(maker, lost) if plant else 0.0
    return Job(finding, total / maker.span(), maker)


def paused(name: str, kind: str = "user_annotation") -> Plant:
    """The host is in something while the GPU runs empty."""

    def plant(maker: Maker, lost: float) -> float:
        ahead = max(maker.free.values()) - maker.host
        before = maker.idle
        maker.pause(name, max(ahead, 0.0) + lost, kind)
        maker.kernel(made.ADD, 20, "aten::add")
        return maker.idle - before

    return plant


def ran(name: str, operator: str, each: float = 200.0, **more: Any) -> Plant:
    """Kernels that would not have to be."""

    def plant(maker: Maker, lost: float) -> float:
        for _ in range(round(lost / each)):
            maker.kernel(name, each, operator, **more)
        return round(lost / each) * each

    return plant


def waited(maker: Maker, lost: float) -> float:
    """Every few milliseconds the host asks for a value, and is slow to go on."""
    before = maker.idle
    for _ in range(4):
        with maker.during("aten::item", "cpu_op"):
            maker.wait()
        maker.host += lost / 4
        maker.kernel(made.ADD, 20, "aten::add")
    return maker.idle - before


def exposed(name: str, operator: str) -> Plant:
    """A collective that the next kernel waits for."""

    def plant(maker: Maker, lost: float) -> float:
        ready = max(maker.free.values())
        start, end = maker.kernel(name, lost, operator, NCCL, after=ready)
        maker.kernel(made.ADD, 20, "aten::add", after=end)
        return end - start

    return plant


def starved(maker: Maker, lost: float) -> float:
    """Small kernels, for each of which the host takes longer than the GPU."""
    ahead = max(maker.free.values()) - maker.host
    maker.host += max(ahead, 0.0)
    before = maker.idle
    while maker.idle - before < lost:
        maker.host += 40
        maker.kernel(made.ADD, 6, "aten::add")
    return maker.idle - before


def attention(maker: Maker, lost: float) -> float:
    """A product, a softmax and a product for each layer."""
    layers = round(lost / 400)
    for _ in range(layers):
        maker.kernel(made.PRODUCT, 130, "aten::bmm")
        maker.kernel(made.SOFTMAX, 140, "aten::_softmax")
        maker.kernel(made.PRODUCT, 130, "aten::bmm")
    return layers * 400.0


def recomputed(maker: Maker, lost: float) -> float:
    with maker.during("CheckpointFunctionBackward", "cpu_op"):
        return ran(made.PRODUCT, "aten::mm")(maker, lost)


def optimizer(maker: Maker, lost: float) -> float:
    with maker.during("Optimizer.step#AdamW.step"):
        return ran(made.ADD, "aten::addcmul_", 20.0)(maker, lost)


def checked(maker: Maker, lost: float) -> float:
    """What TORCH_DISTRIBUTED_DEBUG=DETAIL does: CPUs send each other what they are about to reduce."""
    maker.host += max(max(maker.free.values()) - maker.host, 0.0)
    before = maker.idle
    for _ in range(8):
        maker.pause("gloo:all_gather", lost / 24, "cpu_op")
        for _ in range(16):
            maker.pause("gloo:send", lost / 8 / 24, "cpu_op")
            maker.pause("gloo:recv", lost / 8 / 48, "cpu_op")
    maker.kernel(made.ADD, 20, "aten::add")
    return maker.idle - before


def copied(maker: Maker, lost: float) -> float:
    start = max(maker.free.values())
    maker.free[COMPUTE] = start
    maker.copy("Memcpy HtoD (Pageable -> Device)", lost)
    return lost


PLANTS: dict[str, Plant] = {
    "data_loader": paused("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"),
    "checkpoint": paused("torch/serialization.py(913): save", "python_function"),
    "garbage_collection": paused("gc.collect", "user_annotation"),
    "cpu_collectives": checked,
    "synchronisation": waited,
    "pageable_copies": copied,
    "fp32_products": ran(made.SGEMM, "aten::mm"),
    "older_instructions": ran(made.AMPERE, "aten::mm"),
    "recompute": recomputed,
    "unfused_attention": attention,
    "layout_copies": ran(made.NHWC, "aten::cudnn_convolution"),
    "optimizer_per_tensor": optimizer,
    "small_products": ran(made.PRODUCT, "aten::mm", 40.0, **{"blocks per SM": 0.2}),
    "unfused_elementwise": ran(made.ADD, "aten::mul", 25.0),
    "all_to_all": exposed(made.SEND_RECEIVE, "nccl:all_to_all"),
    "all_reduce_not_hidden": exposed(made.ALL_REDUCE, "nccl:all_reduce"),
    "host_bound": starved,
}
"""By the finding that each is. `slow_rank` and `padding` have tests of their own."""


def planted(seed: int) -> Job:
    """One of 40 jobs: each loss several times, small and large."""
    kinds = list(PLANTS)
    finding = kinds[seed % len(kinds)]
    least = 8000.0 if finding == "unfused_elementwise" else 3000.0
    return job(finding, PLANTS[finding], least + 2500.0 * (seed // len(kinds)), seed)


def clean(seed: int) -> Job:
    """One of 30 jobs that lose nothing."""
    return job("", None, 0.0, 100 + seed, steps=3 + seed % 5)


EXAMPLE = Path(__file__).parent / "example_rank0.json.gz"


def example() -> Maker:
    """A job that waits for its data, and computes some products in FP32."""

    def both(maker: Maker, lost: float) -> float:
        return PLANTS["fp32_products"](maker, lost) + PLANTS["data_loader"](maker, 2 * lost)

    return job("data_loader", both, 6000.0, seed=1, steps=3).maker


if __name__ == "__main__":
    example().write(EXAMPLE)
