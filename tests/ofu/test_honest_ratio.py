"""What an honest MFU is of OFU, and the verdicts on honest reports."""

from __future__ import annotations

import pytest

from ofu_exporter.ofu.divergence import Thresholds
from ofu_exporter.ofu.honest_ratio import MEASURED, NOT_MEASURED, HonestRatio, honest_ratio
from ofu_exporter.values.reported import Verdict
from tests.ofu.test_divergence import H100_BF16, compare


@pytest.mark.parametrize(
    ("mfu", "ofu", "honest", "verdict"),
    [
        (0.50, 0.556, H100_BF16, Verdict.AGREE),
        (0.50, 0.556, NOT_MEASURED, Verdict.AGREE),
        (0.70 * 0.97, 0.70, H100_BF16, Verdict.AGREE),
        (0.70 * 0.87, 0.70, H100_BF16, Verdict.AGREE),
        (0.44 * 0.75, 0.44, H100_BF16, Verdict.MFU_BELOW_OFU),
        (0.309, 0.408, MEASURED["tf32"], Verdict.AGREE),  # docs/hardware.md, job 105
        (0.309, 0.408, H100_BF16, Verdict.MFU_BELOW_OFU),
        (0.414, 0.40, H100_BF16, Verdict.MFU_ABOVE_OFU),
        (0.414, 0.40, NOT_MEASURED, Verdict.AGREE),
    ],
)
def test_honest_reports_are_below_ofu(
    mfu: float, ofu: float, honest: HonestRatio, verdict: Verdict
) -> None:
    assert compare(mfu, ofu, thresholds=Thresholds(honest=honest)).verdict is verdict


@pytest.mark.parametrize(
    ("card", "precisions"),
    [(None, {"bf16"}), ("B200", {"bf16"}), ("H100-SXM5-80GB", {"fp8", "bf16"}), ("H200-SXM", None)],
)
def test_what_was_not_measured_has_a_wider_ratio(
    card: str | None, precisions: set[str] | None
) -> None:
    assert honest_ratio(card, precisions) is NOT_MEASURED
    assert NOT_MEASURED.low < H100_BF16.low < H100_BF16.high < NOT_MEASURED.high
