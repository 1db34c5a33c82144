"""What `top` shows where one value of a node is another, 0 or not known, golden: the lines that differ."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from ofu_exporter.serving.node_json import NodeJson
from ofu_exporter.terminal.scene import Scene, SceneAnswer
from ofu_exporter.terminal.views import VIEWS, Choice, page, sections
from tests.helpers.changed import lines_that_differ
from tests.serving.test_golden_answers import resting

pytestmark = [pytest.mark.usefixtures("in_utc"), pytest.mark.xdist_group("shown node")]


def printed() -> dict[str, Any]:
    """A node with a GPU and two jobs."""
    whole = resting().model_dump(mode="json")
    return {**whole, "gpus": whole["gpus"][1:2], "jobs": whole["jobs"][:2]}


def shown(made: NodeJson) -> list[str]:
    scene = Scene((SceneAnswer("node-1", made, age=1.4),), "its agent")
    lines = [line for view in VIEWS for line in page(scene, Choice(view), 120).splitlines()]
    for view in VIEWS:
        for section in sections(scene, Choice(view)):
            lines += [f"{said}: {told}" for row in section.rows for said, told in row.details()]
    return lines


@pytest.mark.parametrize("part", ["gpus", "jobs", "rest"])
def test_another_value_is_shown_as_it_was(part: str, golden: Callable[[str, str], None]) -> None:
    usual = printed()

    def told(changed: dict[str, Any]) -> list[str] | None:
        try:
            return shown(NodeJson.model_validate_json(json.dumps({**usual, **changed})))
        except ValidationError:
            return None

    rest = {key: each for key, each in usual.items() if key not in ("gpus", "jobs")}
    document = rest if part == "rest" else {part: usual[part]}
    golden(f"edges/top-{part}.txt", lines_that_differ(document, told))
