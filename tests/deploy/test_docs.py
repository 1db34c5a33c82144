"""The pages on rules, alerts and dashboards say what the files say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.grafana.generate import FOLDER
from tests.deploy.promtool import ALERTS, ROOT, RULES, groups, the_alert

DOCS = ROOT / "docs"


def heading(path: Path) -> str:
    """The comment above the first key of a file, as one line."""
    lines = path.read_text().split("groups:")[0].splitlines()
    return " ".join(line.removeprefix("# ").strip() for line in lines)


def said_of_rules(path: Path) -> Iterator[tuple[str, str]]:
    """Every recorded name of a file, with the comment above it as one line."""
    comment: list[str] = []
    for line in path.read_text().splitlines():
        found = re.match(r" +- record: (.*)", line)
        if found:
            yield found[1], " ".join(comment)
        comment = [*comment, line.strip(" #")] if line.lstrip().startswith("#") else []


def alerts() -> list[str]:
    lines = ["| alert | severity | after | what it is | what to do |", "|---|---|---|---|---|"]
    for path in ALERTS:
        alert = the_alert(path)
        severity, after = alert["labels"]["severity"], alert["for"]
        what = f"{heading(path)} | {alert['annotations']['description']}"
        lines.append(f"| `{alert['alert']}` | {severity} | {after} | {what} |")
    return lines


def rules() -> list[str]:
    lines: list[str] = []
    for path in RULES:
        (group,) = groups(path)
        lines += ["", f"### {path.name}, every {group['interval']}", "", heading(path), ""]
        lines += ["| series | |", "|---|---|"]
        lines += [f"| `{name}` | {text} |" for name, text in said_of_rules(path)]
    return lines[1:]


def dashboards() -> list[str]:
    lines = ["| file | dashboard | what it shows |", "|---|---|---|"]
    for path in sorted(FOLDER.glob("*.json")):
        board = json.loads(path.read_text())
        lines.append(f"| `{path.name}` | {board['title']} | {board['description']} |")
    return lines


@pytest.mark.parametrize("section", [alerts, rules, dashboards], ids=lambda one: one.__name__)
def test_generated_sections_are_up_to_date(
    section: Callable[[], list[str]], regenerate: bool
) -> None:
    """Regenerate with `pytest tests/deploy/test_docs.py --regenerate`."""
    name = getattr(section, "__name__", "")
    path = DOCS / f"{name}.md"
    start, end = f"<!-- generated: {name} -->\n", "<!-- end -->"
    before, _, rest = path.read_text().partition(start)
    _, _, after = rest.partition(end)
    wanted = before + start + "\n".join(section()) + "\n" + end + after
    if regenerate:
        path.write_text(wanted)
    assert path.read_text() == wanted


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_every_recorded_series_says_what_it_is(path: Path) -> None:
    said = dict(said_of_rules(path))
    assert list(said) == [rule["record"] for group in groups(path) for rule in group["rules"]]
    for name, text in said.items():
        assert text.endswith("."), name
