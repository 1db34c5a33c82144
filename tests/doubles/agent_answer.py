"""Makes the body with which an agent answers a report, from the agent's own classes and without a field beside them."""

from __future__ import annotations

from typing import Any

from ofu_exporter.ofu.divergence import compare_sums
from ofu_exporter.reports.entry import Policy
from ofu_exporter.reports.messages import WAYS, Comparison, MfuAnswer
from ofu_exporter.values.reasons import ReportRejection
from ofu_exporter.values.reported import Compared, LikelyCause

PEAK_FLOPS = 989.4e12
"""BF16 on an H100."""
OVERCOUNTED = LikelyCause("full_attention_counted", 1.25, 0.4, "attention is counted in full")


def answer_of(report: dict[str, Any], mfu: float, ofu: float) -> dict[str, Any]:
    """What an agent says to a report of this MFU, whose one GPU had this OFU for as long as it remembers."""
    end = report["end"]
    horizon = _comparison(end - Policy().horizon, end, mfu, ofu)
    causes = (OVERCOUNTED,) if horizon.verdict.diverged else ()
    is_compared = "start" in report and any(way in report for way in WAYS)
    answer = MfuAnswer(
        job_id=report["job_id"],
        mfu=mfu if is_compared else None,
        peak_flops=PEAK_FLOPS,
        interval=_comparison(report["start"], end, mfu, ofu) if is_compared else None,
        horizon=horizon,
        causes=causes,
        tied=len(causes),
        advice="",
        tile_overhead=None,
        tile_overhead_bound=None,
        warnings=(),
    )
    return answer.model_dump(mode="json")


def _comparison(start: float, end: float, mfu: float, ofu: float) -> Comparison:
    seconds = end - start
    sums = Compared(mfu * seconds, ofu * seconds, seconds)
    return Comparison.of(start, end, sums, compare_sums(sums))


def refusal_of(status: int, kind: str, field: str, text: str) -> dict[str, Any]:
    """How an agent refuses a report. The kind must be one of its reasons, with the status that the reason has."""
    assert ReportRejection(kind).status == status
    return {"detail": [{"loc": ["body", field], "msg": text, "type": kind}]}
