"""Precisions by the names that frameworks give them."""

from __future__ import annotations

from ofu_exporter.hardware.gpu_spec import PRECISIONS
from ofu_exporter.hardware.precision_names import precision, unknown
from tests.helpers.every import every


@every(
    [
        *(
            ("bf16", each)
            for each in [
                "bfloat16",
                "BF16",
                "bf16-mixed",
                "bf16-true",
                "torch.bfloat16",
                "bf16_mixed",
            ]
        ),
        *(
            ("fp16", each)
            for each in ["float16", "FP16", "16-mixed", "half", "torch.float16", "16"]
        ),
        *(
            ("fp8", each)
            for each in [
                "mxfp8",
                "FP8",
                "float8_e4m3fn",
                "e4m3",
                "fp8_hybrid",
                "transformer-engine",
            ]
        ),
        *(("fp4", each) for each in ["nvfp4", "NVFP4", "mxfp4", "e2m1"]),
        *(("tf32", each) for each in ["TF32", "tensorfloat32"]),
        ("fp64", "double"),
        ("int8", "INT8"),
        ("fp8_acc16", "fp8_acc16"),
        ("fp32", "fp32"),
        ("bf17", "bf17"),
        ("", ""),
    ]
)
def test_a_precision_is_known_by_many_names(name: str, written: str) -> None:
    assert precision(written) == name


def test_every_precision_is_itself() -> None:
    assert tuple(map(precision, PRECISIONS)) == PRECISIONS


def test_what_is_none_is_told_why() -> None:
    assert "no tensor pipes: tf32, if the job allows it" in unknown("torch.float32")
    assert unknown("bf17") == f"'bf17' is not known; known: {', '.join(PRECISIONS)}"
