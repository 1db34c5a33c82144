"""The dashboards are what their code makes, fit Grafana's schema, and every query in them has an answer.

The answers are those of a real Prometheus with the real rules, over four agents with simulated GPUs and jobs, and one
that replays faults. There is no Grafana to show them in: see docs/dashboards.md.
"""

from __future__ import annotations

import contextlib
import copy
import json
import math
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import promql_parser
import pytest

from deploy.grafana import generate
from deploy.grafana.generate import FOLDER
from deploy.grafana.parts import COLUMNS, ONLY_FAULTS
from tests.deploy.chart import ROOT
from tests.deploy.monitoring import at_a_tests_pace
from tests.deploy.promtool import RULES, run, selected
from tests.deploy.test_rules import KNOWN, NAMES
from tests.helpers.agent import SIMULATED, Agent, agent, until
from tests.helpers.early import Early
from tests.helpers.every import every
from tests.helpers.playback import RECORDINGS
from tests.helpers.prometheus_server import Prometheus

SCHEMAS = {
    path.stem.rpartition("-")[2]: json.loads(path.read_text())
    for path in (Path(__file__).parent / "schemas").glob("grafana-dashboard-*.json")
}
"""Of each major version of Grafana's own package: docs/dashboards.md."""
BOARDS: dict[str, Any] = {path.stem: json.loads(path.read_text()) for path in FOLDER.glob("*.json")}
RANGES = {"$__rate_interval": "15s", "$__range": "5m"}
OFTEN_ABSENT = {"cluster", "gpu_instance", "job_name"}
"""Labels that a legend names and that not every fleet has."""


def panels(board: Any) -> list[Any]:
    return [panel for panel in board["panels"] if panel["type"] != "row"]


class Query(NamedTuple):
    """One query of one panel."""

    board: str
    panel: str
    expression: str
    legend: str
    faults: bool


QUERIES = [
    Query(
        name,
        panel["title"],
        target["expr"],
        target["legendFormat"],
        panel["description"].startswith(ONLY_FAULTS),
    )
    for name, board in BOARDS.items()
    for panel in panels(board)
    for target in panel["targets"]
]
MARKS = [
    Query(name, f"mark: {mark['name']}", mark["expr"], mark["textFormat"], faults=False)
    for name, board in BOARDS.items()
    for mark in board["annotations"]["list"]
]
VARIABLES = [
    (name, variable)
    for name, board in BOARDS.items()
    for variable in board["templating"]["list"]
    if variable["type"] == "query"
]


def about(value: object) -> str:
    if isinstance(value, Query):
        return f"{value.board}-{value.panel}"
    return value["name"] if isinstance(value, dict) else str(value)


def versions(instance: str, version: str, values: str, cluster: str = "c") -> dict[str, str]:
    """A value for each minute of an agent's version."""
    labels = f'cluster="{cluster}",instance="{instance}",version="{version}"'
    return {"series": f"ofu_exporter_build_info{{{labels}}}", "values": values}


@pytest.mark.prometheus
@pytest.mark.parametrize("mark", MARKS, ids=about)
@pytest.mark.parametrize(
    ("history", "new"),
    [
        pytest.param(
            [versions("n1", "1", "1x29 stale"), versions("n1", "2", "_x30 1x60")],
            {29: [], 31: ["2"], 39: ["2"], 45: [], 60: []},
            id="an upgrade",
        ),
        pytest.param(
            [versions("n1", "1", "1x89"), versions("n2", "2", "1x29 _x20 1x40")],
            {29: [], 35: [], 51: ["2"], 65: []},
            id="one that was taken back and comes again",
        ),
        pytest.param(
            [versions("n1", "1", "1x29 _x20 1x40")],
            {35: [], 51: [], 58: [], 65: []},
            id="a gap in which nothing was scraped",
        ),
        pytest.param(
            [versions("n1", "1", "1x90"), versions("n2", "2", "_x30 1x60", cluster="d")],
            {31: [], 45: []},
            id="a cluster that is new itself",
        ),
    ],
)
def test_a_new_version_of_the_agent_is_marked_for_ten_minutes(
    mark: Query, history: list[dict[str, str]], new: dict[int, list[str]], tmp_path: Path
) -> None:
    checks = [
        {
            "expr": f"round({filled(mark.expression, {})})",
            "eval_time": f"{minute}m",
            "exp_samples": [
                {"labels": f'{{cluster="c",version="{version}"}}', "value": 1} for version in found
            ],
        }
        for minute, found in new.items()
    ]
    assert run([{"input_series": history, "promql_expr_test": checks}], tmp_path) == "SUCCESS"


@pytest.mark.parametrize("board", BOARDS)
def test_marks_read_the_chosen_data_source(board: str) -> None:
    assert BOARDS[board]["annotations"]["list"]
    for mark in BOARDS[board]["annotations"]["list"]:
        assert mark["datasource"]["uid"] == "$datasource"


def test_the_files_are_what_the_code_makes(generated: Callable[[Path, str], None]) -> None:
    made = generate.generated()
    assert {path.name for path in FOLDER.glob("*.json")} <= made.keys()
    for name, text in made.items():
        generated(FOLDER / name, text)


def test_the_schemas_are_of_every_version_that_is_promised() -> None:
    page = (ROOT / "docs" / "dashboards.md").read_text()
    assert "for Grafana 10 to 13" in page
    assert {*SCHEMAS} == {"10", "11", "12", "13"}


@pytest.mark.xdist_group("grafana_schema")
@pytest.mark.parametrize("version", SCHEMAS)
@pytest.mark.parametrize("board", BOARDS)
def test_it_fits_grafanas_schema(board: str, version: str) -> None:
    import jsonschema  # takes seconds, so that one worker has to do

    jsonschema.validate(BOARDS[board], SCHEMAS[version], jsonschema.Draft7Validator)


@pytest.mark.parametrize("board", BOARDS)
def test_data_source_and_cluster_are_variables_and_nothing_is_of_one_grafana(board: str) -> None:
    """A file that is imported or provisioned must not replace another's dashboard by its number."""
    first, second = BOARDS[board]["templating"]["list"][:2]
    assert (first["type"], first["query"]) == ("datasource", "prometheus")
    assert (second["name"], second["type"]) == ("cluster", "query")
    assert BOARDS[board].get("id") is None
    assert "__inputs" not in BOARDS[board]


@pytest.mark.xdist_group("grafana_schema")
@pytest.mark.parametrize("version", SCHEMAS)
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["panels", 1, "gridPos", "w"], "wide"),
        (["panels", 1, "fieldConfig", "defaults", "unit"], 7),
        (["refresh"], 60),
        (["templating", "list", 0, "type"], "list"),
    ],
)
def test_the_schema_would_see_a_mistake(path: list[Any], value: object, version: str) -> None:
    import jsonschema

    board = copy.deepcopy(BOARDS["fleet"])
    place = board
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(board, SCHEMAS[version], jsonschema.Draft7Validator)


@pytest.mark.parametrize("board", BOARDS)
def test_every_panel_has_a_unit_a_description_and_a_place(board: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels(BOARDS[board]):
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= COLUMNS
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


def test_a_panel_of_whole_hours_says_why_it_is_empty_on_a_young_install() -> None:
    """And no other does: what is empty there is empty for another reason."""
    for board in BOARDS.values():
        for panel in panels(board):
            asked = " ".join(each["expr"] for each in panel.get("targets", ()))
            asks_hours = ":increase1h" in asked or ":sum1h" in asked
            told = panel.get("fieldConfig", {}).get("defaults", {}).get("noValue", "")
            assert ("first whole hour with" in told) is asks_hours, panel["title"]


@pytest.mark.parametrize("board", BOARDS)
def test_it_asks_the_chosen_data_source_alone(board: str) -> None:
    sources = set(re.findall(r'"uid": "([^"]*)"', json.dumps(BOARDS[board])))
    assert sources == {"$datasource", f"ofu-{board}"}


@pytest.mark.parametrize("board", BOARDS)
def test_every_variable_is_used_and_every_used_one_is_there(board: str) -> None:
    text = json.dumps(BOARDS[board])
    names = {variable["name"] for variable in BOARDS[board]["templating"]["list"]}
    assert set(re.findall(r"\$(?!__)(\w+)", text)) == names


@every([*QUERIES, *MARKS], about)
def test_its_query_is_right_in_form_and_type(query: Query) -> None:
    promql_parser.parse(filled(query.expression, {}))
    assert selected(filled(query.expression, {})) <= KNOWN | NAMES


@every([*QUERIES, *MARKS], about)
def test_its_cost_does_not_grow_with_the_number_of_gpus(query: Query) -> None:
    """Raw series only of one chosen node; of the rest what the rules have recorded."""
    for name in selected(filled(query.expression, {})) - NAMES:
        for found in re.findall(rf"{name}\{{([^}}]*)\}}", query.expression):
            assert 'instance="$node"' in found
        assert f"{name}{{" in query.expression


def filled(expression: str, choices: dict[str, str]) -> str:
    """A query with Grafana's variables put in."""
    for name, value in {**RANGES, **{f"${key}": value for key, value in choices.items()}}.items():
        expression = expression.replace(name, value)
    return re.sub(r"\$\w+", ".*", expression)


SERVES = "1003"
"""The simulated job that serves tokens."""
OVER_REPORTS = "1002"
"""The job of the demo whose report is wrong, so that there is a cause to show."""
A_REPORT_COUNTS = 150.0
"""Seconds in which a report comes to count, which it does after one minute."""


class Demo(NamedTuple):
    """A Prometheus that holds demo data, and two of its nodes."""

    prometheus: Prometheus
    node: str
    faulty: str

    def rows(self, query: Query) -> list[Any]:
        node = self.faulty if query.faults else self.node
        job = SERVES if "token" in query.expression else OVER_REPORTS
        choices = {"node": node, "job": job}
        found = self.prometheus.query(filled(query.expression, choices), time.time())
        return [row for row in found if math.isfinite(float(row["value"][1]))]


def refused(running: Agent) -> None:
    """A report that says nothing."""
    json_type = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{running.url}/v1/mfu", b"{}", json_type)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=60)
    caught.value.close()


def states_a_step(running: Agent) -> None:
    """Its job says how far it has come."""
    report = json.dumps({"job_id": OVER_REPORTS, "step": 7}).encode()
    json_type = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{running.url}/v1/mfu", report, json_type)
    urllib.request.urlopen(request, timeout=60).close()


@contextlib.contextmanager
def begin(folder: Path) -> Iterator[Demo]:
    with contextlib.ExitStack() as stack:
        agents = [stack.enter_context(agent(*SIMULATED, "--interval", "1s")) for _ in range(4)]
        faults = (
            "demo",
            "--path",
            str(RECORDINGS / "faults.jsonl"),
            "--no-loop",
            "--interval",
            "0.5s",
        )
        agents.append(stack.enter_context(agent(*faults)))
        nodes = [one.url.removeprefix("http://") for one in agents]
        refused(agents[-1])
        states_a_step(agents[0])
        targets = [{"targets": nodes, "labels": {"cluster": "demo"}}]
        scraped = [{"job_name": "ofu", "scrape_interval": "2s", "static_configs": targets}]
        rules = [str(path) for path in at_a_tests_pace(folder, RULES)]
        prometheus = Prometheus(folder, {}, scrape_configs=scraped, rule_files=rules)
        stack.callback(prometheus.stop)
        until(prometheus.ready)
        yield Demo(prometheus, nodes[0], nodes[-1])


@pytest.fixture(scope="module")
def demo(early: Early) -> Iterator[Demo]:
    with early.of(begin) as running:
        yield running


@pytest.mark.prometheus
@pytest.mark.slow
@pytest.mark.early(begin=begin)
@pytest.mark.parametrize("query", QUERIES, ids=about)
def test_it_shows_something_on_demo_data(query: Query, demo: Demo) -> None:
    until(lambda: demo.rows(query), seconds=A_REPORT_COUNTS)
    named = set(re.findall(r"\{\{(\w+)\}\}", query.legend)) - OFTEN_ABSENT
    for row in demo.rows(query):
        assert named <= row["metric"].keys()


@pytest.mark.prometheus
@pytest.mark.slow
@pytest.mark.early(begin=begin)
@pytest.mark.parametrize(("board", "variable"), VARIABLES, ids=about)
def test_its_variable_has_values(board: str, variable: dict[str, Any], demo: Demo) -> None:
    text = filled(variable["query"]["query"], {"node": demo.node})
    found = re.fullmatch(r"label_values\((.*), (\w+)\)", text)
    assert found
    match = urllib.parse.urlencode({"match[]": found[1]})
    url = f"http://127.0.0.1:{demo.prometheus.port}/api/v1/label/{found[2]}/values?{match}"

    def values() -> object:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return json.load(answer)["data"]

    assert until(values)


@pytest.mark.prometheus
@pytest.mark.slow
@pytest.mark.early(begin=begin)
def test_no_rule_fails_on_demo_data(demo: Demo) -> None:
    url = f"http://127.0.0.1:{demo.prometheus.port}/api/v1/rules"

    def states() -> list[tuple[str, str, str]]:
        with urllib.request.urlopen(url, timeout=60) as answer:
            groups = json.load(answer)["data"]["groups"]
        return [
            (rule["name"], rule["health"], rule.get("lastError", ""))
            for group in groups
            for rule in group["rules"]
        ]

    until(lambda: all(health != "unknown" for _, health, _ in states()))
    assert [state for state in states() if state[1] != "ok"] == []
