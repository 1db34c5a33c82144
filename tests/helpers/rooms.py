"""The rooms of the package, and every import between its modules as the syntax tree has it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "ofu_exporter"
ROOT = Path(__file__).parents[2] / PACKAGE

EVERYWHERE = {"values", "errors"}
"""Rooms that every room above them may import."""
ROOMS: dict[str, set[str]] = {
    "client": set(),
    "values": set(),
    "errors": {"values"},
    "support": EVERYWHERE,
    "settings": EVERYWHERE | {"support"},
    "hardware": EVERYWHERE | {"support"},
    "ofu": EVERYWHERE | {"hardware"},
    "flops": EVERYWHERE | {"support", "hardware", "ofu"},
    "jobs": EVERYWHERE | {"support", "settings", "hardware", "ofu"},
    "reports": EVERYWHERE | {"client", "support", "settings", "hardware", "ofu", "flops", "jobs"},
    "sources": EVERYWHERE | {"support", "hardware"},
    "schedulers": EVERYWHERE | {"support"},
    "serving": EVERYWHERE | {"support", "settings", "ofu", "jobs", "reports"},
    "fleet": EVERYWHERE
    | {"support", "settings", "hardware", "ofu", "flops", "jobs", "reports", "serving"},
}
ROOMS["agent"] = set(ROOMS) - {"client", "fleet"}
ROOMS["validation"] = set(ROOMS) - {"client", "fleet"}
ROOMS["cli"] = set(ROOMS)
ROOMS["__main__"] = {"cli"}
"""From the ground up: what each may import besides itself and the package's version."""

DRIVERS = ("sources", "schedulers")
"""Rooms of one folder for each driver."""


def module_name(path: Path, root: Path = ROOT) -> str:
    """`sources.nvml` for sources/nvml.py, `sources` for its __init__, the package's name for the root."""
    parts = [*path.relative_to(root).with_suffix("").parts]
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts) or PACKAGE


def room_of(module: str) -> str:
    return module.partition(".")[0]


def imported(tree: ast.AST, module: str, is_package: bool, modules: set[str]) -> Iterator[str]:
    """Every module of the package that a tree imports, in whatever form and wherever."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from own(alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = origin(node, module, is_package)
            for alias in node.names:
                whole = [*base, alias.name]
                is_module = ".".join(whole[1:]) in modules and whole[0] == PACKAGE
                yield from own(whole if is_module else base)


def origin(node: ast.ImportFrom, module: str, is_package: bool) -> list[str]:
    """The absolute path that a `from` import starts at."""
    named = node.module.split(".") if node.module else []
    if not node.level:
        return named
    here = [PACKAGE, *([] if module == PACKAGE else module.split("."))]
    up = node.level - is_package
    return [*(here[:-up] if up else here), *named]


def own(path: list[str]) -> Iterator[str]:
    if path and path[0] == PACKAGE:
        yield ".".join(path[1:]) or PACKAGE


SOURCES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}
TREES = {module: ast.parse(path.read_text()) for module, path in SOURCES.items()}
IMPORTS = {
    module: set(imported(tree, module, SOURCES[module].name == "__init__.py", set(SOURCES)))
    for module, tree in TREES.items()
}
