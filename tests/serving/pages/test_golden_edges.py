"""What the status page shows where one value of a node is another, 0 or not known, golden: the lines that differ."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ofu_exporter import __version__
from ofu_exporter.serving.node_json import NodeJson
from ofu_exporter.serving.pages.node_page import node_page
from tests.fleet.pages.test_golden_reports import bare
from tests.helpers.changed import lines_that_differ
from tests.helpers.shown_node import LINES
from tests.terminal.test_golden_edges import printed

pytestmark = pytest.mark.xdist_group("shown node")


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize("part", ["gpus", "jobs", "rest"])
def test_another_value_is_shown_as_it_was(part: str, golden: Callable[[str, str], None]) -> None:
    usual = printed()

    def told(changed: dict[str, Any]) -> list[str] | None:
        try:
            made = NodeJson.model_validate_json(json.dumps({**usual, **changed}))
            page = bare(node_page(made, LINES)).replace(__version__, "VERSION")
        except ValueError:  # the page is of the agent's own values
            return None
        return [line.strip() for line in page.splitlines() if line.strip()]

    rest = {key: each for key, each in usual.items() if key not in ("gpus", "jobs")}
    document = rest if part == "rest" else {part: usual[part]}
    golden(f"edges/page-{part}.txt", lines_that_differ(document, told))
