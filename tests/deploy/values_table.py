"""The table of values in the chart's README, made of the comments in values.yaml."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import yaml

LONGEST_DEFAULT = 40


def table(path: Path) -> list[str]:
    """A row for every value that has a comment of its own."""
    text = path.read_text()
    root = yaml.compose(text)
    assert isinstance(root, yaml.MappingNode)
    rows = _rows(root, text.splitlines(), "")
    return ["| value | default | |", "|---|---|---|", *rows]


def _rows(mapping: yaml.MappingNode, lines: list[str], prefix: str) -> Iterator[str]:
    for key, value in mapping.value:
        name = prefix + key.value
        comment = comment_above(lines, key.start_mark.line)
        if isinstance(value, yaml.MappingNode) and _has_comments(value, lines):
            yield f"| `{name}` | | {comment} |"
            yield from _rows(value, lines, f"{name}.")
        else:
            yield f"| `{name}` | {_default(value)} | {comment} |"


def comment_above(lines: list[str], line: int) -> str:
    """The comment that ends on the line before, as one line."""
    words: list[str] = []
    while line > 0 and lines[line - 1].lstrip().startswith("#"):
        line -= 1
        words.insert(0, lines[line].strip().removeprefix("#").strip())
    return " ".join(words)


def _has_comments(mapping: yaml.MappingNode, lines: list[str]) -> bool:
    return any(comment_above(lines, key.start_mark.line) for key, _ in mapping.value)


def _default(node: yaml.Node) -> str:
    shown = json.dumps(yaml.safe_load(yaml.serialize(node)))
    return f"`{shown}`" if len(shown) <= LONGEST_DEFAULT else "see values.yaml"
