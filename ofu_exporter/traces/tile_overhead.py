"""Sums over profiles what tiles add to the FLOPs of a job, and in which precisions the job computes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ofu_exporter.errors import ConfigError
from ofu_exporter.hardware.tiles import Gemm
from ofu_exporter.traces import kernel_names
from ofu_exporter.traces.formats import KernelLaunches, Profile
from ofu_exporter.traces.gemm_csv import GemmRow
from ofu_exporter.values.reported import Bound

NO_GRAMMAR = "its name fits no known grammar"
OTHER = "other"
"""The family of a kernel whose name has no grammar, but whose FLOPs were counted."""
UNKNOWN = "unknown"
"""The precision of a kernel whose name does not say it."""


@dataclass(frozen=True, slots=True)
class OverheadRow:
    """All launches of one family in one precision whose executed FLOPs are known."""

    family: str
    precision: str
    launches: int
    seconds: float
    """Time on the GPU."""
    executed_flops: int
    theoretical_flops: int | None
    """None = not known for every launch."""
    bound: Bound

    @property
    def overhead_ratio(self) -> float | None:
        return _ratio(self.executed_flops, self.theoretical_flops)


@dataclass(frozen=True, slots=True)
class Unattributed:
    """Launches of a kernel on tensor pipes whose tile overhead is not known."""

    kernel: str
    why: str
    launches: int
    seconds: float


RowT = TypeVar("RowT", OverheadRow, Unattributed)
SUMMED = ("launches", "seconds", "executed_flops", "theoretical_flops")


@dataclass(frozen=True, slots=True)
class Overhead:
    """The sums over some profiles."""

    rows: tuple[OverheadRow, ...]
    unattributed: tuple[Unattributed, ...]
    """Kernels, longest first."""
    other_seconds: float
    """Time on the GPU in kernels that run on no tensor pipe."""
    gpus: frozenset[str]

    @property
    def executed_flops(self) -> int:
        """Executed FLOPs of the rows whose theoretical FLOPs are known."""
        return sum(row.executed_flops for row in self._complete)

    @property
    def theoretical_flops(self) -> int:
        """Theoretical FLOPs of the same rows."""
        return sum(row.theoretical_flops or 0 for row in self._complete)

    @property
    def overhead_ratio(self) -> float | None:
        """The overhead of these rows, weighted by FLOPs; None if no product has known sides."""
        return _ratio(self.executed_flops, self.theoretical_flops)

    @property
    def bound(self) -> Bound:
        return "lower" if any(row.bound == "lower" for row in self._complete) else "exact"

    @property
    def precision_shares(self) -> dict[str, float]:
        """Shares of the executed FLOPs whose precision is known, largest first; empty when there are none.

        Executed FLOPs are used because an adjusted OFU is an MFU against their effective peak (arXiv:2605.20799, eq.
        12).
        """
        flops: dict[str, int] = {}
        for row in self.rows:
            if row.precision != UNKNOWN:
                flops[row.precision] = flops.get(row.precision, 0) + row.executed_flops
        total = sum(flops.values())
        largest_first = sorted(flops, key=lambda each: -flops[each])
        return {each: flops[each] / total for each in largest_first if flops[each]}

    @property
    def attributed_share(self) -> float | None:
        """Share of the time in kernels on tensor pipes that the overhead covers; without times, share of the
        launches."""
        complete = self._complete
        every: list[OverheadRow | Unattributed] = [*self.rows, *self.unattributed]
        if seconds := math.fsum(each.seconds for each in every):
            return math.fsum(each.seconds for each in complete) / seconds
        launches = sum(each.launches for each in every)
        return sum(each.launches for each in complete) / launches if launches else None

    @property
    def _complete(self) -> list[OverheadRow]:
        return [row for row in self.rows if row.theoretical_flops is not None]


def overhead(profiles: Sequence[Profile], shapes: Sequence[GemmRow] = ()) -> Overhead:
    """The sums over some profiles. `shapes` say what kernels compute where a profile does not.

    Raises ConfigError for shapes of a kernel that did not run, or not as often as they say.
    """
    launches = [each for profile in profiles for each in profile.launches]
    of_kernel: dict[str, list[GemmRow]] = {}
    for shape in shapes:
        of_kernel.setdefault(shape.kernel, []).append(shape)
    if unused := of_kernel.keys() - {each.kernel for each in launches}:
        raise ConfigError(f"shapes: no kernel {sorted(unused)[0]!r} ran on a tensor pipe")
    rows: dict[tuple[object, ...], OverheadRow] = {}
    unattributed: dict[tuple[str, str], Unattributed] = {}
    for each in launches:
        row = _row(each, _products(each, of_kernel.get(each.kernel, [])))
        if isinstance(row, OverheadRow):
            kind = (row.family, row.precision, row.bound, row.theoretical_flops is None)
            rows[kind] = _added(rows[kind], row) if kind in rows else row
        else:
            why = (row.kernel, row.why)
            unattributed[why] = _added(unattributed[why], row) if why in unattributed else row
    return Overhead(
        tuple(sorted(rows.values(), key=lambda row: -row.executed_flops)),
        tuple(sorted(unattributed.values(), key=lambda each: -each.seconds)),
        math.fsum(profile.other_seconds for profile in profiles),
        frozenset(gpu for profile in profiles for gpu in profile.gpus),
    )


def _products(launches: KernelLaunches, shapes: Sequence[GemmRow]) -> list[tuple[Gemm, int]]:
    """The products that the launches compute, and how many launches compute each; empty = not known."""
    if launches.gemm is not None:
        return [(launches.gemm, launches.number)]
    if len(shapes) == 1 and shapes[0].launches is None:
        return [(shapes[0].gemm, launches.number)]
    products = [(shape.gemm, 1 if shape.launches is None else shape.launches) for shape in shapes]
    number = sum(launched for _, launched in products)
    if products and number != launches.number:
        raise ConfigError(
            f"shapes: {number} launches of {launches.kernel!r}, but {launches.number} are in the profile"
        )
    return products


def _row(
    launches: KernelLaunches, products: Sequence[tuple[Gemm, int]]
) -> OverheadRow | Unattributed:
    """What launches of one kernel executed. Counted FLOPs are exact; those of two precisions stand under the larger."""
    kernel = kernel_names.find(launches.kernel)
    spent = launches.number, launches.seconds
    theoretical = sum(gemm.theoretical_flops * number for gemm, number in products)
    if counts := launches.counted_flops:
        family = kernel.family if kernel else OTHER
        main, counted = max(counts, key=lambda each: counts[each]), sum(counts.values())
        needed = theoretical if products else None
        return OverheadRow(family, main, *spent, counted, needed, "exact")
    if kernel and products:
        executed = sum(kernel.executed_flops(gemm) * number for gemm, number in products)
        precision = kernel.precision or UNKNOWN
        return OverheadRow(kernel.family, precision, *spent, executed, theoretical, kernel.bound)
    why = NO_GRAMMAR if products or not launches.why else launches.why
    return Unattributed(launches.kernel, why, *spent)


def _added(one: RowT, other: RowT) -> RowT:
    """Two rows of one kind as one: both know their theoretical FLOPs, or neither."""
    names = [name for name in SUMMED if getattr(one, name, None) is not None]
    return replace(one, **{name: getattr(one, name) + getattr(other, name) for name in names})


def _ratio(executed: int, theoretical: int | None) -> float | None:
    return (executed - theoretical) / theoretical if theoretical else None
