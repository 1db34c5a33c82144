"""The rows of the GPU table: the names of each model, and the clocks and peaks that it is rated at.

To add a model, add a row to `gpu_models.csv`. Peaks are dense TFLOP/s, never sparse, and per device: one GPU of a
board that has several. A peak is SMs * FLOPs per cycle per SM * tensor clock; the clock of a row is the one that its
published peak implies, which is often lower than the maximum SM clock that the driver reports. A row with another clock
is marked automatically in the table of the documentation. An empty cell is not known; several names or doubts stand
between ` | `.

Of NVIDIA's comparison page (GeForce) come cores, boost clock and AI TOPS: those are of the fastest tensor instructions
with 2:4 sparsity, 8 times dense BF16 with 32-bit accumulation on Ada, 16 times on Blackwell. It has none for Ampere:
there the announcements' tensor TFLOP/s (sparse, 16-bit accumulation) and dense INT8 are 4 times dense BF16.

Bandwidths of memory are those of data sheets and product briefs, read second-hand in tables that link them (B200: a
DGX's 64 TB/s / 8; H100 PCIe: "greater than"). A model without one has no sheet that was found (A800, H20, GH200, GB200,
B300), or its sources contradict each other (T4: 300 and 320 GB/s; H100 NVL: 3.9 and 4.8 TB/s).

NVLink and PCIe of data sheets are per direction, half of what they print. PCIe counts the bits of its line code: 16
lanes of 16 (generation 4) or 32 GT/s (generation 5) times 128 / 130. Models whose host link is another one (GH200,
GB200), and those without a generation, have no rated speed, and nothing is concluded from their bytes.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Final, TypeVar

from ofu_exporter.hardware.gpu_spec import Chip, GpuModel
from ofu_exporter.values.gpu import LinkPeaks

_Figure = TypeVar("_Figure", int, float)


def _as_bf16(figures: dict[str, _Figure]) -> dict[str, _Figure]:
    """FP16 runs at BF16's rate wherever a chip has BF16."""
    return {**figures, "fp16": figures["bf16"]} if "bf16" in figures else figures


def _rates(**rates: int) -> dict[str, int]:
    """FLOPs per cycle per SM."""
    return _as_bf16(rates)


_AMPERE_SMALL, _ADA, _HOPPER = ("Ampere", (8, 6)), ("Ada", (8, 9)), ("Hopper", (9, 0))
_GEFORCE_FP8 = {"tf32": 256, "bf16": 512, "fp16_acc16": 1024, "fp8": 1024, "fp8_acc16": 2048}
_BLACKWELL_DC = {"tf32": 4096, "bf16": 8192, "fp8": 16384, "fp6": 16384}
_BLACKWELL_RTX = _rates(tf32=512, bf16=1024, fp8=2048, int8=2048, fp4=4096)

CHIPS: Final = {
    "VOLTA": Chip("Volta", (7, 0), _rates(fp16=1024)),
    "TURING": Chip("Turing", (7, 5), _rates(fp16=1024, int8=2048, int4=4096)),
    "AMPERE": Chip(
        "Ampere", (8, 0), _rates(fp64=128, tf32=1024, bf16=2048, int8=4096, int4=8192), 7
    ),
    # From here on some models run 32-bit accumulation at half rate: HALF. GeForce halves only that,
    # so its integer and 16-bit accumulation rates are whole.
    "AMPERE_PRO": Chip(*_AMPERE_SMALL, _rates(tf32=512, bf16=1024, int8=2048, int4=4096)),
    "AMPERE_HALF": Chip(*_AMPERE_SMALL, _rates(tf32=256, bf16=512, int8=1024, int4=2048)),
    "AMPERE_GEFORCE": Chip(
        *_AMPERE_SMALL, _rates(tf32=256, bf16=512, fp16_acc16=1024, int8=2048, int4=4096)
    ),
    "ADA_PRO": Chip(*_ADA, _rates(tf32=512, bf16=1024, fp8=2048, int8=2048, int4=4096)),
    "ADA_HALF": Chip(*_ADA, _rates(tf32=256, bf16=512, fp8=1024, int8=1024, int4=2048)),
    "ADA_GEFORCE": Chip(*_ADA, _rates(**_GEFORCE_FP8, int8=2048, int4=4096)),
    "HOPPER": Chip(*_HOPPER, _rates(fp64=256, tf32=2048, bf16=4096, fp8=8192, int8=8192), 7),
    # Export variants: FP64 is cut to about 1 TFLOP/s, or (CAPPED) everything is cut below what the SMs could do.
    "HOPPER_NO_FP64": Chip(*_HOPPER, _rates(tf32=2048, bf16=4096, fp8=8192, int8=8192), 7),
    "HOPPER_CAPPED": Chip(*_HOPPER, {}, 7),
    "BLACKWELL": Chip(
        "Blackwell", (10, 0), _rates(fp64=128, **_BLACKWELL_DC, int8=16384, fp4=32768), 7
    ),
    "BLACKWELL_ULTRA": Chip(
        "Blackwell Ultra", (10, 3), _rates(fp64=4, **_BLACKWELL_DC, fp4=49152), 7
    ),
    # FP8 and below run at twice Blackwell's rate ("Inside NVIDIA Rubin GPU Architecture", 2026-07-21), BF16 at its own.
    "RUBIN": Chip("Rubin", (10, 7), _rates(tf32=4096, bf16=8192, fp8=32768, fp6=32768, fp4=65536)),
    "BLACKWELL_PRO": Chip("Blackwell", (12, 0), _BLACKWELL_RTX),
    "BLACKWELL_GB10": Chip("Blackwell", (12, 1), _BLACKWELL_RTX),
    "BLACKWELL_GEFORCE": Chip("Blackwell", (12, 0), _rates(**_GEFORCE_FP8, int8=2048, fp4=4096)),
}


def _number(cell: str, unit: float) -> float | None:
    return float(cell) * unit if cell else None


def _peaks(cell: str) -> dict[str, float]:
    figures = (figure.split("=") for figure in cell.split())
    return _as_bf16({precision: float(tflops) * 1e12 for precision, tflops in figures})


def _disputed(cell: str, chip: Chip) -> dict[str, str]:
    """Precisions and why their figures are in doubt; `all` are those of the chip."""
    doubts = (doubt.partition(": ") for doubt in cell.split(" | ") if doubt)
    return {
        precision: why
        for which, _, why in doubts
        for precision in (chip.flops_per_cycle_per_sm if which == "all" else which.split())
    }


def _links(pcie_generation: str, nvlink: str) -> LinkPeaks | None:
    if not pcie_generation:
        return None
    transfers = {"4": 16e9, "5": 32e9}[pcie_generation]
    return LinkPeaks(16 * transfers * 128 / 130 / 8, float(nvlink) * 1e9)


def _model(row: dict[str, str]) -> GpuModel:
    chip = CHIPS[row["chip"]]
    return GpuModel(
        row["key"],
        chip,
        tuple(row["names"].split(" | ")) if row["names"] else (),
        tuple(row["pci_device_ids"].split()),
        int(row["sms"]) if row["sms"] else None,
        _number(row["tensor_mhz"], 1e6),
        _number(row["fp64_mhz"], 1e6),
        _number(row["max_sm_mhz"], 1e6),
        int(row["mig_slices"]) if row["mig_slices"] else chip.mig_slices,
        memory_gib=tuple(map(int, row["memory_gib"].split())),
        published_peak_flops=_peaks(row["peak_tflops"]),
        memory_bytes_per_second=_number(row["memory_gb_per_second"], 1e9),
        links=_links(row["pcie_generation"], row["nvlink_gb_per_second"]),
        source=row["source"],
        confidence=row["confidence"],
        note=row["note"],
        disputed=_disputed(row["disputed"], chip),
        relabelled=row["relabelled"] == "yes",
    )


FILE: Final = Path(__file__).parent / "gpu_models.csv"
_PLACES = "chips are in CHIPS of gpu_rows.py, PCIe generations in _links"


def _read(row: dict[str, str]) -> GpuModel:
    try:
        return _model(row)
    except (KeyError, ValueError) as error:
        raise ValueError(f"{FILE.name}: {row['key']}: {error!r}; {_PLACES}") from error


with FILE.open(encoding="utf-8", newline="") as _file:
    ROWS: Final = tuple(map(_read, csv.DictReader(_file)))
