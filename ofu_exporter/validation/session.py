"""Draws the products to run from a seed, runs them one after the other while a watch measures, and stores the trials.

Equal seeds draw equal products, so that an interrupted run can be continued.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from ofu_exporter.errors import ConfigError, GpuError
from ofu_exporter.traces.formats import Profile
from ofu_exporter.traces.tile_overhead import overhead
from ofu_exporter.validation import Machine, Product, Tiling, Trial, Watch
from ofu_exporter.validation.storage import ResultsFile
from ofu_exporter.values.reasons import Reason

PRECISIONS = ("bf16", "fp8", "tf32", "fp16", "int8", "fp64", "fp4")
"""Every precision that products are run in, the most important first."""
SMALLEST, LARGEST = 1024, 8192
STEP = 16
"""Sides of random products are multiples of this, as in the paper (arXiv:2605.20799, section V-A)."""
FINEST: Mapping[str, int] = {"fp8": 16, "int8": 8, "fp4": 128}
"""The libraries need sides that are multiples of this; the other precisions accept any side."""
NOISE_SIDE = 8192
CLOCK_SIDES = (8192, 4096)


@dataclass(frozen=True, slots=True)
class Size:
    aligned: int
    unaligned: int
    squares: tuple[int, ...]
    """Sides: multiples of 128 as in the paper (section IV-A), but not powers of two, which fill their tiles."""
    seconds: float
    """Time of each product."""
    noise_seconds: float
    """Time of the one product with which clock noise is measured; 0 = not measured."""
    deadline: float | None = None
    """Seconds after which no product is started; None = all products are run."""


QUICK = Size(10, 4, (640, 1152, 2176, 3200, 4736, 8064), 3.0, 60.0, deadline=570.0)
FULL = Size(100, 30, tuple(range(384, 8193, 384)), 30.0, 3000.0)


def products(size: Size, precisions: Sequence[str], seed: int) -> tuple[Product, ...]:
    """All products, alternating between precisions, so that a part of them has some of each.

    Raises ConfigError for a precision that is not known.
    """
    lists = [
        list(_of_precision(size, precision, seed)) for precision in known_precisions(precisions)
    ]
    turns = [product for turn in zip_longest(*lists) for product in turn if product]
    if size.noise_seconds and precisions:
        sides = (NOISE_SIDE,) * 3
        turns.insert(0, Product("noise", precisions[0], *sides, size.noise_seconds))
    return tuple(turns)


def clock_products(precisions: Sequence[str], seconds: float) -> tuple[Product, ...]:
    """Products that show FLOPs per cycle and the highest clock: large ones, of noise and of zeros."""
    return tuple(
        Product("clock", precision, side, side, side, seconds, zeros)
        for precision in known_precisions(precisions)
        for side in CLOCK_SIDES
        for zeros in (False, True)
    )


def known_precisions(precisions: Sequence[str]) -> Sequence[str]:
    """The precisions, each once. Raises ConfigError for one that no machine knows."""
    for precision in precisions:
        if precision not in PRECISIONS:
            raise ConfigError(
                f"--precisions: {precision!r} is not known; known: {', '.join(PRECISIONS)}"
            )
    return tuple(dict.fromkeys(precisions))


def _of_precision(size: Size, precision: str, seed: int) -> Iterator[Product]:
    source = random.Random(f"{seed}/{precision}")
    finest = FINEST.get(precision, 1)
    step = max(STEP, finest)
    aligned = [
        Product("aligned", precision, *_sides(source, step), size.seconds)
        for _ in range(size.aligned)
    ]
    unaligned = [
        Product("unaligned", precision, *_sides(source, finest, past=step), size.seconds)
        for _ in range(size.unaligned if finest < STEP else 0)
    ]
    squares = [
        Product("square", precision, side, side, side, size.seconds) for side in size.squares
    ]
    for turn in zip_longest(aligned, squares, unaligned):
        yield from (product for product in turn if product)


def _sides(source: random.Random, step: int, past: int = 0) -> tuple[int, int, int]:
    """Three sides in whole steps; none of them is a multiple of `past`."""

    def side() -> int:
        length = source.randrange(SMALLEST, LARGEST + 1, step)
        return side() if past and length % past == 0 else length

    return side(), side(), side()


OnProduct = Callable[[int, int, Product], None]
"""Called with the number of a product, the number of all, and the product, before it is run."""


@dataclass(frozen=True, slots=True)
class ValidationSession:
    machine: Machine
    watch: Watch
    store: ResultsFile
    clock: Callable[[], float]

    def run(
        self, products: Sequence[Product], deadline: float | None, progress: OnProduct
    ) -> tuple[Product, ...]:
        """Run the products that are not in the store yet; those that would end too late are left out and returned.

        `deadline` is in seconds from now. Raises OfuError if the GPU is no longer measured; earlier trials stay in
        the store.
        """
        began = self.clock()
        done = {trial.product for trial in self.store.trials}
        wanted = [product for product in products if product not in done]
        left_out = []
        for number, product in enumerate(wanted, start=len(products) - len(wanted) + 1):
            if deadline is not None and self.clock() - began > deadline - product.seconds:
                left_out.append(product)
                continue
            progress(number, len(products), product)
            self.store.add(self.trial(product))
        return tuple(left_out)

    def trial(self, product: Product) -> Trial:
        """Profile one product and then run it. Raises GpuError for a GPU without tensor activity."""
        tiles = tiling(self.machine.profile(product))
        marks = tuple(self.machine.run(product))
        readings = self.watch.readings(self.machine.uuid, marks[0].at, marks[-1].at)
        if readings and all(each.tensor_active is None for each in readings):
            raise GpuError(
                Reason.NO_TENSOR_COUNTER, f"GPU {self.machine.uuid} has no tensor activity"
            )
        return Trial(product, marks, tuple(readings), tiles)


def runnable(machine: Machine, precisions: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The precisions that a machine runs, and why it does not run the others.

    Raises ConfigError if it runs none.
    """
    refused = dict(machine.refusals(precisions))
    possible = [precision for precision in precisions if precision not in refused]
    if not possible:
        why = "; ".join(f"{precision}: {reason}" for precision, reason in refused.items())
        raise ConfigError(f"no precision can be run here: {why}")
    return possible, refused


def tiling(profile: Profile) -> Tiling:
    """The tiles of one product, by the names of the tensor kernels in its profile."""
    added = overhead([profile])
    names = tuple(dict.fromkeys(launches.kernel for launches in profile.launches))
    return Tiling(added.overhead_ratio, added.bound, added.attributed_share or 0.0, names)
