"""Reads the sides of matrix products from a file of comma-separated values.

The first line names the columns: `m`, `n` and `k`, in the kernel's order, and optionally `batch`, `kernel` (the name
of the kernel that runs the product) and `launches` (how often).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ofu_exporter.errors import ConfigError
from ofu_exporter.hardware.tiles import LARGEST_SIDE, Gemm
from ofu_exporter.support.regular_files import opened

NEEDED = ("m", "n", "k")
COLUMNS = (*NEEDED, "batch", "kernel", "launches")


@dataclass(frozen=True, slots=True)
class GemmRow:
    """One line of the file."""

    gemm: Gemm
    kernel: str = ""
    launches: int | None = None
    """None = the file does not say."""


def read(path: Path) -> tuple[GemmRow, ...]:
    """The lines of a file. Raises ConfigError, which names the file and the line."""
    try:
        with io.TextIOWrapper(opened(path), "utf-8-sig", newline="") as file:
            return tuple(_shapes(path, csv.DictReader(file, strict=True)))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path}: {error}") from error


def _shapes(path: Path, rows: csv.DictReader[str]) -> Iterator[GemmRow]:
    columns = rows.fieldnames or ()
    if missing := [name for name in NEEDED if name not in columns]:
        raise ConfigError(f"{path}: the first line names no column {', '.join(missing)}")
    if unknown := [name for name in columns if name not in COLUMNS]:
        raise ConfigError(f"{path}: unknown column {unknown[0]!r}; known: {', '.join(COLUMNS)}")
    for row in rows:
        where = f"{path}, line {rows.line_num}"
        sides = {name: _whole(where, name, row) for name in NEEDED}
        batch = _whole(where, "batch", row) if row.get("batch") else 1
        launches = _whole(where, "launches", row) if row.get("launches") else None
        yield GemmRow(Gemm(**sides, batch=batch), (row.get("kernel") or "").strip(), launches)


def _whole(where: str, column: str, row: Mapping[str, str | None]) -> int:
    text = row.get(column) or ""
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not 0 <= value <= LARGEST_SIDE:
        raise ConfigError(
            f"{where}: {column}: {text!r} is not a whole number of 0 or more, up to {LARGEST_SIDE}"
        )
    return value
