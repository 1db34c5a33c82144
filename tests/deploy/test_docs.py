"""The pages on rules, alerts and dashboards say what the files say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.grafana.generate import FOLDER
from ofu_exporter.serving.metrics.job import JOB_METRICS, REPORT_METRICS
from ofu_exporter.serving.metrics.spec import Metric
from tests.bench.panels import BOARDS
from tests.deploy.promtool import ALERTS, ROOT, RULES, groups, the_alert
from tests.helpers.markdown import with_section

DOCS = ROOT / "docs"


def heading(path: Path) -> str:
    """The comment above the first key of a file, as one line."""
    lines = path.read_text().split("groups:")[0].splitlines()
    return " ".join(line.removeprefix("# ").strip() for line in lines)


def first_sentence(text: str) -> str:
    """The pages list what there is; the files say the rest."""
    return re.split(r"(?<=\.) (?=[A-Z])", text)[0]


def said_of_rules(path: Path) -> Iterator[tuple[str, str]]:
    """Every recorded name of a file, with the comment above it as one line."""
    comment: list[str] = []
    for line in path.read_text().splitlines():
        found = re.match(r" +- record: (.*)", line)
        if found:
            yield found[1], " ".join(comment)
        comment = [*comment, line.strip(" #")] if line.lstrip().startswith("#") else []


def alerts() -> list[str]:
    lines = []
    for path in ALERTS:
        alert = the_alert(path)
        name, severity, after = alert["alert"], alert["labels"]["severity"], alert["for"]
        when = severity if after == "0m" else f"{severity} after {after}"
        lines.append(
            f"- [{name}](runbooks.md#{name.lower()}), {when}: {first_sentence(heading(path))}"
        )
    return lines


def rules() -> list[str]:
    lines: list[str] = []
    assert {group["interval"] for path in RULES for group in groups(path)} == {*INTERVALS}
    for interval in INTERVALS:
        lines += ["", f"### Every {interval}", ""]
        lines += [f"- {names}: {first_sentence(text)}" for names, text in recorded(interval)]
    return lines[1:]


INTERVALS = ("1m", "2m", "1h")
LEVELS = ("job", "owner", "user", "account", "partition", "namespace", "model", "cluster")


def recorded(interval: str) -> Iterator[tuple[str, str]]:
    """What is recorded so often: once for all levels, in the words of the first."""
    meanings: dict[tuple[str, str], dict[str, str]] = {}
    for path in RULES:
        if groups(path)[0]["interval"] == interval:
            for name, text in said_of_rules(path):
                level, _, operation = name.partition(":")
                alone = "" if level in LEVELS else level
                meanings.setdefault((operation, alone), {})[level] = text
    for (operation, alone), texts in meanings.items():
        first, *others = [level for level in (alone, *LEVELS) if level in texts]
        also = ", ".join(f"`{level}:`" for level in others)
        yield f"`{first}:{operation}`{also and f', also {also}'}", texts[first]


def dashboards() -> list[str]:
    lines = ["| file | dashboard | what it shows |", "|---|---|---|"]
    for path in sorted(FOLDER.glob("*.json")):
        board = json.loads(path.read_text())
        lines.append(f"| `{path.name}` | {board['title']} | {board['description']} |")
    return lines


@pytest.mark.parametrize("section", [alerts, rules, dashboards], ids=lambda one: one.__name__)
def test_generated_sections_are_up_to_date(
    section: Callable[[], list[str]], generated: Callable[[Path, str], None]
) -> None:
    name = getattr(section, "__name__", "")
    page = DOCS / f"{name}.md"
    generated(page, with_section(page, name, section()))


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_every_recorded_series_says_what_it_is(path: Path) -> None:
    said = dict(said_of_rules(path))
    assert list(said) == [rule["record"] for group in groups(path) for rule in group["rules"]]
    for name, text in said.items():
        assert text.endswith("."), name


def series_of_a_job() -> set[str]:
    """All that a job on Slurm has whose GPUs are its own, and whose reports agree with OFU."""
    seldom = re.compile("waiting|shared|tile_overhead|adjusted|divergence_cause|finding|traced")
    specs: list[Metric[...]] = [*JOB_METRICS, *REPORT_METRICS]
    return {spec.shown_name for spec in specs if not seldom.search(spec.name)}


def test_every_series_of_a_job_is_read_by_what_is_shipped_or_may_be_dropped_at_the_scrape() -> None:
    text = (DOCS / "metrics.md").read_text()
    dropped = re.search(r"regex: (ofu_job_\(.*\))\n +action: drop", text)
    assert dropped is not None
    reports = (ROOT / "ofu_exporter" / "fleet").rglob("*.py")
    shipped = [path.read_text() for path in (*RULES, *ALERTS, *FOLDER.glob("*.json"), *reports)]
    there = series_of_a_job()
    for name in there:
        is_read = any(re.search(rf"\b{name}\b", each) for each in shipped)
        is_dropped = bool(re.fullmatch(dropped[1], name))
        assert is_read != is_dropped, f"{name}: docs/metrics.md drops what nothing reads"
    counted = re.search(r"Of the (\d+) metrics of a job .* all but (\w+),", text)
    assert counted is not None
    left = sum(bool(re.fullmatch(dropped[1], name)) for name in there)
    numbers = str(len(there)), {2: "two", 3: "three", 4: "four", 5: "five"}[left]
    assert counted.groups() == numbers, "as docs/metrics.md counts them"


def rows(page: Path, heading: str) -> dict[str, list[str]]:
    """The cells of the table that begins with a heading, by the first of each row."""
    table = page.read_text().partition(f"\n{heading}")[2].partition("\n\n")[0]
    cells = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    return {first: others for first, *others in cells}


def test_what_rules_cost_is_there_for_every_group() -> None:
    expected = {
        group["name"]: [group["interval"], str(len(group["rules"]))]
        for path in RULES
        for group in groups(path)
    }
    expected["all alerts"] = ["1m", str(len(ALERTS))]
    table = rows(ROOT / "tests/measured/rules.md", "| group | evaluated every | rules |")
    measured = {group: cells[:2] for group, cells in table.items()}
    assert measured == expected, "measured by the command on that page"


def test_the_cost_of_all_rules_is_what_was_measured() -> None:
    """In each engine: what all groups take in a minute, and the most that one takes at once."""
    measured = rows(
        ROOT / "tests/measured/rules.md", "| group | evaluated every | rules |"
    ).values()
    minutes = {"1m": 1, "2m": 2, "1h": 60}
    prometheus, victoria = (
        sum(float(cells[place]) / minutes[cells[0]] for cells in measured) for place in (2, 5)
    )
    most = max(float(cells[place]) for cells in measured for place in (2, 5))
    page = (DOCS / "rules.md").read_text()
    assert f"{prometheus:.1f} s of CPU a minute in Prometheus 2.42 and {victoria:.1f} s in" in page
    assert f"No group takes over {most:.1f} s" in page


def test_what_panels_take_is_there_for_every_board_that_reads_rules() -> None:
    assert rows(DOCS / "dashboards.md", "| dashboard | slowest panel |").keys() == set(BOARDS)


def test_the_defaults_of_variables_of_slurms_hooks_are_those_of_the_scripts() -> None:
    scripts = "".join(path.read_text() for path in (ROOT / "deploy" / "slurm").glob("*.sh"))
    used = {*re.findall(r"\$\{(OFU_EXPORTER_\w+):-([^}]*)\}", scripts)}
    table = rows(DOCS / "slurm.md", "| variable | default |")
    stated = {(name.strip("`"), default.strip("`")) for name, (default, *_) in table.items()}
    assert {row for row in stated if row[1] != "none"} == used
