"""What was found in a trace travels as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ofu_exporter.values.trace import TraceResult
from tests.traces.test_job import read, sound
from tests.traces.trace_maker import ADD


def test_a_result_comes_back_from_json_as_it_was(tmp_path: Path) -> None:
    result = read(sound(1).write(tmp_path / "trace.json"))
    written: dict[str, Any] = json.loads(json.dumps(result.as_data()))
    assert TraceResult.from_data(written) == result
    wrong: list[dict[str, Any]] = [{}, {"time": {}}, {**written, "time": 3}]
    for broken in [*wrong, {**written, "findings": [{"finding": "x"}]}]:
        with pytest.raises(ValueError, match="no result of a trace"):
            TraceResult.from_data(broken)


SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "profile.schema.json").read_text())


def test_a_result_keeps_to_the_published_schema(tmp_path: Path) -> None:
    maker = sound(1)
    with maker.during("ProfilerStep#7"):
        maker.kernel(ADD, 90_000, "aten::add")
    result = read(maker.write(tmp_path / "trace.json"))
    assert result.findings
    assert result.ranks[0].steps
    jsonschema.validate(json.loads(json.dumps(result.as_data())), SCHEMA)
