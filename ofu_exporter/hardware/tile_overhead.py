"""Sums over profiles what tiles add to the FLOPs of a job, and in which precisions the job computes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ofu_exporter.errors import ConfigError
from ofu_exporter.hardware import kernel_names
from ofu_exporter.hardware.gemm_csv import Shape
from ofu_exporter.hardware.profiles import Launches, Profile
from ofu_exporter.hardware.tiles import Gemm
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


def overhead(profiles: Sequence[Profile], shapes: Sequence[Shape] = ()) -> Overhead:
    """The sums over some profiles. `shapes` say what kernels compute where a profile does not.

    Raises ConfigError for shapes of a kernel that did not run, or not as often as they say.
    """
    launches = [each for profile in profiles for each in profile.launches]
    given: dict[str, list[Shape]] = {}
    for shape in shapes:
        given.setdefault(shape.kernel, []).append(shape)
    if unused := given.keys() - {each.kernel for each in launches}:
        raise ConfigError(f"shapes: no kernel {sorted(unused)[0]!r} ran on a tensor pipe")
    sums = _Sums()
    for each in launches:
        sums.add(each, _products(each, given.get(each.kernel, [])))
    return Overhead(
        sums.rows(),
        sums.unattributed(),
        math.fsum(profile.other_seconds for profile in profiles),
        frozenset(gpu for profile in profiles for gpu in profile.gpus),
    )


def _products(launches: Launches, shapes: Sequence[Shape]) -> list[tuple[Gemm, int]]:
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


class _Sums:
    """Adds launches up by family, precision, bound and whether theoretical FLOPs are known."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str, Bound, bool], OverheadRow] = {}
        self._unattributed: dict[tuple[str, str], Unattributed] = {}

    def add(self, launches: Launches, products: Sequence[tuple[Gemm, int]]) -> None:
        kernel = kernel_names.find(launches.kernel)
        theoretical = sum(gemm.theoretical_flops * number for gemm, number in products)
        counted = theoretical if products else None
        if launches.counted_flops:
            self._counted(launches, kernel.family if kernel else OTHER, counted)
        elif kernel and products:
            executed = sum(kernel.executed_flops(gemm) * number for gemm, number in products)
            precision = kernel.precision or UNKNOWN
            self._row(launches, (kernel.family, precision, kernel.bound), executed, theoretical)
        else:
            self._missing(launches, NO_GRAMMAR if products or not launches.why else launches.why)

    def rows(self) -> tuple[OverheadRow, ...]:
        """The rows, most FLOPs first."""
        return tuple(sorted(self._rows.values(), key=lambda row: -row.executed_flops))

    def unattributed(self) -> tuple[Unattributed, ...]:
        """The kernels, longest first."""
        return tuple(sorted(self._unattributed.values(), key=lambda each: -each.seconds))

    def _counted(self, launches: Launches, family: str, theoretical: int | None) -> None:
        """Add counted FLOPs, which are exact. A kernel of two precisions is shown under the one with more FLOPs."""
        main = max(launches.counted_flops, key=lambda each: launches.counted_flops[each])
        executed = sum(launches.counted_flops.values())
        self._row(launches, (family, main, "exact"), executed, theoretical)

    def _row(
        self,
        launches: Launches,
        kind: tuple[str, str, Bound],
        executed: int,
        theoretical: int | None,
    ) -> None:
        family, precision, bound = kind
        key = (*kind, theoretical is None)
        old = self._rows.get(key) or OverheadRow(
            family, precision, 0, 0.0, 0, None if theoretical is None else 0, bound
        )
        more = None if theoretical is None else (old.theoretical_flops or 0) + theoretical
        self._rows[key] = OverheadRow(
            family,
            precision,
            old.launches + launches.number,
            old.seconds + launches.seconds,
            old.executed_flops + executed,
            more,
            bound,
        )

    def _missing(self, launches: Launches, why: str) -> None:
        key = (launches.kernel, why)
        old = self._unattributed.get(key) or Unattributed(*key, 0, 0.0)
        self._unattributed[key] = Unattributed(
            *key, old.launches + launches.number, old.seconds + launches.seconds
        )


def _ratio(executed: int, theoretical: int | None) -> float | None:
    return (executed - theoretical) / theoretical if theoretical else None
