"""`tile`: computes what a matrix product costs in the whole tiles of the kernel that runs it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from ofu_exporter.cli.answers import format_option, print_answer
from ofu_exporter.cli.option_types import FILE, INTEGER, flag, option
from ofu_exporter.errors import ConfigError
from ofu_exporter.hardware import tiles
from ofu_exporter.hardware.tiles import Cost, Gemm, Kernel
from ofu_exporter.support import tables
from ofu_exporter.traces import gemm_csv, kernel_names

SIDES = ("m", "n", "k")


@click.command(short_help="FLOPs that a matrix product executes in whole tiles.")
@click.argument("kernel_name")
@option("--m", "Rows of the product m*k by k*n, in the kernel's order.", INTEGER)
@option("--n", "Its columns.", INTEGER)
@option("--k", "Its inner side.", INTEGER)
@option("--batch", "Equal products per launch. Default: 1.", INTEGER)
@option(
    "--group", "A product of a grouped launch.", parameter="group", multiple=True, metavar="M,N,K"
)
@option(
    "--groups",
    "CSV file of the products of a grouped launch: columns m,n,k and optionally batch.",
    FILE,
)
@flag("--row-major", "m and n are those of a row-major product, as in torch.")
@format_option
def tile(kernel_name: str, format_: str, **options: Any) -> None:
    """FLOPs that a matrix product executes in whole tiles and clusters, and how many of them it does not need.

    KERNEL_NAME is the name that a profiler shows. The answer is a lower bound where the name does not say everything.
    """
    kernel = kernel_names.parse(kernel_name)
    cost = tiles.cost(kernel, _gemms(options))
    print_answer(
        format_, lambda: table(kernel, cost), lambda: as_data(cost), lambda: [as_data(cost)]
    )


def _gemms(options: dict[str, Any]) -> list[Gemm]:
    sides = {name: options[name] for name in SIDES}
    ways = [bool(options[name]) for name in ("group", "groups")]
    ways.append(any(value is not None for value in sides.values()))
    if sum(ways) != 1:
        raise ConfigError(
            "give the product in one way: --m, --n and --k, --group M,N,K or --groups"
        )
    batch = options["batch"]
    if batch is not None and any(ways[:2]):
        raise ConfigError(
            "--batch is for --m, --n and --k; a file of --groups may have a column batch"
        )
    if options["group"]:
        gemms = [_group(text) for text in options["group"]]
    elif options["groups"]:
        gemms = [shape.gemm for shape in gemm_csv.read(options["groups"])]
    else:
        gemms = [_single(sides, 1 if batch is None else batch)]
    return [replace(each, m=each.n, n=each.m) for each in gemms] if options["row_major"] else gemms


def _single(sides: dict[str, int | None], batch: int) -> Gemm:
    if missing := [f"--{name}" for name, value in sides.items() if value is None]:
        raise ConfigError(f"the product needs {', '.join(missing)} too")
    return Gemm(**{name: value for name, value in sides.items() if value is not None}, batch=batch)


def _group(text: str) -> Gemm:
    try:
        m, n, k = (int(side) for side in text.split(","))
    except ValueError as error:
        raise ConfigError(f"--group: {text!r} is not M,N,K") from error
    return Gemm(m, n, k)


def as_data(cost: Cost) -> dict[str, Any]:
    """A cost as plain data; a grouped launch has the sides of each group."""
    effective = [list(sides) for sides in cost.effective]
    return {
        "effective": effective[0] if len(effective) == 1 else effective,
        "executed_flops": cost.executed_flops,
        "theoretical_flops": cost.theoretical_flops,
        "overhead_ratio": cost.overhead_ratio,
        "bound": cost.bound,
    }


def table(kernel: Kernel, cost: Cost) -> str:
    effective = [" x ".join(map(str, sides)) for sides in cost.effective]
    shown = effective[0] if len(effective) == 1 else f"{len(effective)} groups"
    least = "at least " if cost.bound == "lower" else ""
    rows = [
        f"Family {kernel.family}, {kernel.architecture or 'architecture not named'}, "
        f"{kernel.precision or 'precision not named'}",
        f"Tile {_sides(kernel.tile)}, stages {kernel.stages or '?'}, "
        f"cluster {_sides(kernel.cluster or (None, None))}",
        "",
        f"{'Effective:':<14}{shown}",
        f"{'Executed:':<14}{least}{cost.executed_flops:,} FLOPs",
        f"{'Theoretical:':<14}{cost.theoretical_flops:,} FLOPs",
        f"{'Overhead:':<14}{least}{cost.overhead_ratio:.3%} ({cost.bound})",
    ]
    return tables.text(rows + [f"Lower bound: {reason}" for reason in kernel.unknown])


def _sides(sides: tuple[int | None, ...]) -> str:
    return " x ".join("?" if side is None else str(side) for side in sides)
