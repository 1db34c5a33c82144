"""The rooms of the package and its modules, and what these import of each other."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

PACKAGE = "ofu_exporter"
ROOT = Path(__file__).parents[2] / PACKAGE

DRIVERS = ("sources", "schedulers")
"""Rooms of one folder for each driver."""


def module_name(path: Path) -> str:
    """`sources.nvml` for sources/nvml.py, `sources` for its __init__, the package's name for the root."""
    parts = [*path.relative_to(ROOT).with_suffix("").parts]
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts) or PACKAGE


def room_of(module: str) -> str:
    return module.partition(".")[0]


@cache
def imports() -> dict[str, set[str]]:
    """Every module, and the modules of the package that it imports; for types alone, too."""
    import grimp  # has no release for Python 3.10, which reads trees alone

    graph = grimp.build_graph(PACKAGE, cache_dir=None)
    found = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    return {_short(module): set(map(_short, found[module])) for module in found}


def _short(module: str) -> str:
    return module.partition(".")[2] or PACKAGE


SOURCES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}


@cache
def trees() -> dict[str, ast.Module]:
    return {module: ast.parse(path.read_text()) for module, path in SOURCES.items()}
