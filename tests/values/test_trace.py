"""What was found in a trace travels as JSON."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ofu_exporter.reports.trace_body import TraceBody
from ofu_exporter.traces.findings import kinds
from ofu_exporter.values.trace import (
    MOST_CHARS,
    MOST_FINDINGS,
    MOST_RANKS,
    Finding,
    RankTime,
    TimeParts,
    TraceResult,
    TraceSummary,
    are_of_the_peak,
    reported,
    summary,
)
from tests.helpers.every import every
from tests.traces.test_job import read, sound
from tests.traces.trace_maker import ADD, Maker


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


def rank(seconds: float, *parts: float, of: int | None = 0) -> RankTime:
    return RankTime(of, 0, None, seconds, TimeParts(*parts), None)


def test_ranks_together_count_each_by_its_seconds() -> None:
    both = (rank(30.0, 1, 0, 0, 0, 0), rank(10.0, 0, 0, 0, 0, 1, of=1))
    findings = tuple(Finding(f"f{n}", 0.1, 1.0, "", "") for n in range(7))
    found = summary(TraceResult(both, findings, slowest_rank=1), at=5.0)
    assert found is not None
    assert (found.ranks, found.seconds, found.slowest_rank) == (2, 40.0, 1)
    assert found.parts == {
        "tensor": 0.75,
        "idle": 0.25,
        "other": 0,
        "communication": 0,
        "copies": 0,
    }
    assert len(found.findings) == MOST_FINDINGS
    assert summary(TraceResult((rank(0.0, 0, 0, 0, 0, 0),), ()), at=5.0) is None


def test_a_rank_that_was_traced_several_times_is_one() -> None:
    times = [rank(1.0, 1, 0, 0, 0, 0, of=of) for of in (0, 1, 0, 0, 1, None, None)]
    whole = summary(TraceResult(tuple(times), ()), at=5.0)
    assert whole is not None
    assert (whole.ranks, whole.seconds) == (4, 7.0)


def test_however_long_the_names_of_kernels_are_an_agent_takes_what_was_found(
    tmp_path: Path,
) -> None:
    """As templates of C++ make them."""
    maker = Maker(rank=0)
    for number in range(6):
        for name in (f"softmax_{number}_{'x' * 200}", f"gemm_{number}_{'x' * 200}"):
            maker.kernel(name, 1000, "aten::bmm" if "gemm" in name else "aten::_softmax")
    result = read(maker.write(tmp_path / "trace.json"))
    assert max(len(each.evidence) for each in result.findings) > MOST_CHARS
    body = TraceBody.model_validate(reported(result)["trace"])
    (evidence,) = (each.evidence for each in body.findings)
    assert len(evidence) == MOST_CHARS
    assert evidence.startswith("6 launches of softmax_")
    assert evidence.endswith("...")
    assert all(len(each.remedy) <= MOST_CHARS for each in kinds())


def test_what_is_no_share_is_refused_and_of_too_many_ranks_the_first_are_kept() -> None:
    good = TraceResult((rank(1.0, 1, 0, 0, 0, 0),), ()).as_data()
    many = {**good, "time": {**good["time"], "ranks": good["time"]["ranks"] * (MOST_RANKS + 1)}}
    assert len(TraceResult.from_data(many).ranks) == MOST_RANKS
    finding = {"finding": "x", "share": math.nan, "seconds": 1.0, "evidence": "", "remedy": ""}
    in_a_rank = TraceResult((rank(1.0, math.nan, 0, 0, 0, 0),), ()).as_data()
    for broken in (in_a_rank, {**good, "findings": [finding]}):
        with pytest.raises(ValueError, match="a share is no number"):
            TraceResult.from_data(broken)


@every([(1.5, True), (1.6, False), (-1.0, True), (-1.1, False), (math.nan, False)])
def test_a_clock_takes_a_share_of_the_peak_a_little_over_1(share: float, may_be: bool) -> None:
    assert are_of_the_peak({"used": share, "idle": 0.1}) is may_be
    assert not are_of_the_peak({"used": 0.5, "lost": 0.1})


def test_a_summary_has_all_parts_of_the_time_and_no_others() -> None:
    parts = dict.fromkeys(TimeParts._fields, 0.2)
    assert TraceSummary(5.0, 8, 90.0, parts).parts == parts
    for wrong in ({**parts, "more": 0.0}, {"idle": 1.0}):
        with pytest.raises(ValueError, match="no summary of a trace"):
            TraceSummary(5.0, 8, 90.0, wrong)
