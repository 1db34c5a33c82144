"""Runs products on a machine one after the other, while a watch measures, and stores the trials."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ofu_exporter.errors import ConfigError, GpuError
from ofu_exporter.hardware.profiles import Profile
from ofu_exporter.hardware.tile_overhead import overhead
from ofu_exporter.validation import Machine, Product, Tiling, Trial, Watch
from ofu_exporter.validation.storage import ResultsFile
from ofu_exporter.values.reasons import Reason

Progress = Callable[[int, int, Product], None]
"""Called with the number of a product, the number of all, and the product, before it is run."""


@dataclass(frozen=True, slots=True)
class ValidationSession:
    machine: Machine
    watch: Watch
    store: ResultsFile
    clock: Callable[[], float] = time.monotonic

    def run(
        self, products: Sequence[Product], deadline: float | None, progress: Progress
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
