"""The rows of the GPU table: the names of each model, and the clocks and peaks that it is rated at.

To add a model, add a row. Peaks are dense, never sparse, and per device: one GPU of a board that has several.
A peak is SMs * FLOPs per cycle per SM * tensor clock; the clock of a row is the one that its published peak
implies, which is often lower than the maximum SM clock that the driver reports. A row with another clock is marked
automatically in the table of the documentation.
"""

from __future__ import annotations

from typing import Final

from ofu_exporter.hardware.gpu_spec import Chip, GpuModel
from ofu_exporter.values.gpu import LinkPeaks


def tflops(**peaks: float) -> dict[str, float]:
    """Published peaks in FLOP/s; FP16 is BF16's figure wherever a model has BF16."""
    if "bf16" in peaks:
        peaks["fp16"] = peaks["bf16"]
    return {precision: peak * 1e12 for precision, peak in peaks.items()}


def _rates(**rates: int) -> dict[str, int]:
    """FLOPs per cycle per SM; FP16 runs at BF16's rate wherever a chip has BF16."""
    if "bf16" in rates:
        rates["fp16"] = rates["bf16"]
    return rates


VOLTA = Chip("Volta", (7, 0), _rates(fp16=1024))
TURING = Chip("Turing", (7, 5), _rates(fp16=1024, int8=2048, int4=4096))
AMPERE = Chip("Ampere", (8, 0), _rates(fp64=128, tf32=1024, bf16=2048, int8=4096, int4=8192))
# From here on some models run 32-bit accumulation at half rate: HALF. GeForce halves only that,
# so its integer and 16-bit accumulation rates are whole.
AMPERE_PRO = Chip("Ampere", (8, 6), _rates(tf32=512, bf16=1024, int8=2048, int4=4096))
AMPERE_HALF = Chip("Ampere", (8, 6), _rates(tf32=256, bf16=512, int8=1024, int4=2048))
AMPERE_GEFORCE = Chip(
    "Ampere", (8, 6), _rates(tf32=256, bf16=512, fp16_acc16=1024, int8=2048, int4=4096)
)
ADA_PRO = Chip("Ada", (8, 9), _rates(tf32=512, bf16=1024, fp8=2048, int8=2048, int4=4096))
ADA_HALF = Chip("Ada", (8, 9), _rates(tf32=256, bf16=512, fp8=1024, int8=1024, int4=2048))
_GEFORCE_FP8 = {"tf32": 256, "bf16": 512, "fp16_acc16": 1024, "fp8": 1024, "fp8_acc16": 2048}
ADA_GEFORCE = Chip("Ada", (8, 9), _rates(**_GEFORCE_FP8, int8=2048, int4=4096))
HOPPER = Chip("Hopper", (9, 0), _rates(fp64=256, tf32=2048, bf16=4096, fp8=8192, int8=8192))
# Export variants: FP64 is cut to about 1 TFLOP/s, or (CAPPED) everything is cut below what the SMs could do.
HOPPER_NO_FP64 = Chip("Hopper", (9, 0), _rates(tf32=2048, bf16=4096, fp8=8192, int8=8192))
HOPPER_CAPPED = Chip("Hopper", (9, 0), {})
_BLACKWELL_DC = {"tf32": 4096, "bf16": 8192, "fp8": 16384, "fp6": 16384}
BLACKWELL = Chip("Blackwell", (10, 0), _rates(fp64=128, **_BLACKWELL_DC, int8=16384, fp4=32768))
BLACKWELL_ULTRA = Chip("Blackwell Ultra", (10, 3), _rates(fp64=4, **_BLACKWELL_DC, fp4=49152))
_BLACKWELL_RTX = _rates(tf32=512, bf16=1024, fp8=2048, int8=2048, fp4=4096)
BLACKWELL_PRO = Chip("Blackwell", (12, 0), _BLACKWELL_RTX)
BLACKWELL_GB10 = Chip("Blackwell", (12, 1), _BLACKWELL_RTX)
BLACKWELL_GEFORCE = Chip("Blackwell", (12, 0), _rates(**_GEFORCE_FP8, int8=2048, fp4=4096))

_A100 = tflops(fp64=19.5, tf32=156, bf16=312, int8=624)
_H100_SXM = tflops(fp64=67, tf32=494.7, bf16=989.4, fp8=1978.9, int8=1978.9)
_H100_NVL = tflops(fp64=60, tf32=417.5, bf16=835.5, fp8=1670.5, int8=1670.5)

_SHEET = "GPU databases; peaks of data sheets, second-hand"
_NAMES = "names and PCI ids of NVIDIA's open kernel modules"
_A800_NOTE = "An A100 with fewer NVLinks."
_L40S_BF16 = "the data sheet's 362.05 implies 2490 MHz, its FP8 and FP32 figures imply 2520"
_CAPPED_NOTE = (
    "Throughput-capped: 148 TFLOP/s is 958 FLOPs/cycle/SM, no power of two. "
    "Tensor pipe activity may not reach 1 at this peak."
)
_H800_FP64 = "H800 parts have FP64 cut to about 1 TFLOP/s; no exact figure is known for this one"
_PRELIMINARY = "the preliminary architecture brief said"
_B300_FP64 = "published per board and rounded; 4 FLOPs/cycle/SM is derived from it"
_B300_FP4 = "sources give 12.6 to 15 PFLOP/s dense"
_B300_NOTE = "INT8 is left out: sources give 4500 or about 150 TOP/s."
_GB10_PEAK = "half of the sparse figure implies 2543 MHz; whether BF16 runs at full or half rate is not confirmed"

# One model is one block of a few lines: key, chip, NVML names, PCI device ids, SMs, tensor clock, FP64 clock,
# maximum SM clock, GiB, published peaks, source, confidence, note, disputed.
# fmt: off
TABLE: Final[tuple[GpuModel, ...]] = (
    GpuModel("V100-SXM2", VOLTA, ("Tesla V100-SXM2-16GB", "Tesla V100-SXM2-32GB"), ("1db1", "1db5", "1df5", "1db0"),
        80, 1530e6, None, 1530e6, (16, 32), tflops(fp16=125), "framework tables; the paper; nvidia-smi output",
        "high", "One database lists 1597 MHz; devices report 1530."),
    GpuModel("V100-SXM3", VOLTA, ("Tesla V100-SXM3-32GB",), ("1db8",), 80, 1597e6, None, 1597e6, (32,),
        tflops(fp16=125), "pci.ids; GPU database", "medium",
        disputed={"fp16": "DGX-2's 2 PFLOP/s for 16 GPUs implies 1526 MHz; at 1597 MHz it is 130.8"}),
    GpuModel("V100-PCIe", VOLTA, ("Tesla V100-PCIE-16GB", "Tesla V100-PCIE-32GB"), ("1db4", "1db6"), 80, 1380e6,
        None, 1380e6, (16, 32), tflops(fp16=112), "framework tables; GPU database", "high"),
    GpuModel("V100S-PCIe", VOLTA, ("Tesla V100S-PCIE-32GB",), ("1df6",), 80, 1597e6, None, 1597e6, (32,),
        tflops(fp16=130), "framework tables", "high"),
    GpuModel("Quadro-GV100", VOLTA, ("Quadro GV100",), (), 80, 1447e6, None, None, (32,), tflops(fp16=118.5),
        "recalled, not read again", "medium"),
    GpuModel("T4", TURING, ("Tesla T4",), ("1eb8",), 40, 1590e6, None, 1590e6, (16,),
        tflops(fp16=65, int8=130, int4=260), "framework tables; GPU database", "high",
        "The 70 W limit keeps it below 1590 MHz under load."),
    GpuModel("Quadro-RTX-8000", TURING, ("Quadro RTX 8000",), ("1e30", "1e78"), 72, 1770e6, None, None, (48,),
        tflops(fp16=130.5), _SHEET, "high"),
    GpuModel("Quadro-RTX-6000", TURING, ("Quadro RTX 6000",), ("1e30", "1e36", "1e78"), 72, 1770e6, None, None, (24,),
        tflops(fp16=130.5), _SHEET, "high"),
    GpuModel("TITAN-RTX", TURING, ("NVIDIA TITAN RTX",), ("1e02",), 72, 1770e6, None, None, (24,),
        tflops(fp16=130.5), _SHEET, "high"),
    GpuModel("Quadro-RTX-5000", TURING, ("Quadro RTX 5000",), ("1eb0",), 48, 1815e6, None, None, (16,),
        tflops(fp16=89.2), _SHEET, "high"),

    GpuModel("A100-SXM4-40GB", AMPERE, ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-PG509-200"), ("20b0",), 108, 1410e6,
        None, 1410e6, (40,), _A100, f"{_NAMES}; framework tables", "high"),
    GpuModel("A100-SXM4-80GB", AMPERE, ("NVIDIA A100-SXM4-80GB", "NVIDIA PG509-210"), ("20b2",), 108, 1410e6, None,
        1410e6, (80,), _A100, f"{_NAMES}; framework tables", "high"),
    GpuModel("A100-PCIe-40GB", AMPERE, ("NVIDIA A100-PCIE-40GB",), ("20f1", "20b1"), 108, 1410e6, None, 1410e6,
        (40,), _A100, f"{_NAMES}; framework tables", "high"),
    GpuModel("A100-PCIe-80GB", AMPERE, ("NVIDIA A100 80GB PCIe",), ("20b5",), 108, 1410e6, None, 1410e6, (80,),
        _A100, f"{_NAMES}; framework tables", "high"),
    GpuModel("A100-PG506", AMPERE, ("NVIDIA A100-PG506-207", "NVIDIA A100-PG506-217"), ("20f0", "20f2"), 108, 1410e6,
        None, 1410e6, (40,), _A100, _NAMES, "low", "Made for single customers; taken to be rated like other A100s."),
    GpuModel("A100-SXM-64GB", AMPERE, ("NVIDIA A100-SXM-64GB", "NVIDIA PG506-242", "NVIDIA PG506-243"), ("20b3",), 124,
        1395e6, None, 1410e6, (64,), {}, _NAMES, "low",
        "Leonardo's custom part; SM count and clock are not verified, and no peak was found.",
        {p: "computed from an SM count and a clock that are not verified" for p in AMPERE.flops_per_cycle_per_sm}),
    GpuModel("A800-SXM4-80GB", AMPERE, ("NVIDIA A800-SXM4-80GB",), ("20f3",), 108, 1410e6, None, 1410e6, (80,),
        _A100, f"{_NAMES}; framework tables", "high", _A800_NOTE),
    GpuModel("A800-SXM4-40GB", AMPERE, ("NVIDIA A800-SXM4-40GB",), ("20bd",), 108, 1410e6, None, 1410e6, (40,),
        _A100, f"{_NAMES}; framework tables", "high", _A800_NOTE),
    GpuModel("A800-PCIe-80GB", AMPERE, ("NVIDIA A800 80GB PCIe", "NVIDIA A800 80GB PCIe LC"), ("20f5",), 108, 1410e6,
        None, 1410e6, (80,), _A100, f"{_NAMES}; framework tables", "high", _A800_NOTE),
    GpuModel("A800-40GB-Active", AMPERE, ("NVIDIA A800 40GB Active",), ("20f6",), 108, 1410e6, None, 1410e6, (40,),
        tflops(tf32=156, bf16=312, int8=624), f"{_NAMES}; framework tables", "high", _A800_NOTE),
    GpuModel("A30", AMPERE, ("NVIDIA A30",), ("20b7",), 56, 1440e6, None, 1440e6, (24,),
        tflops(fp64=10.3, tf32=82, bf16=165, int8=330), f"{_NAMES}; framework tables; GPU database", "high"),
    GpuModel("A10", AMPERE_PRO, ("NVIDIA A10",), ("2236",), 72, 1695e6, None, 1695e6, (24,),
        tflops(tf32=62.5, bf16=125, int8=250, int4=500), "framework tables; GPU database", "high"),
    GpuModel("A10G", AMPERE_HALF, ("NVIDIA A10G",), ("2237",), 80, 1710e6, None, 1710e6, (24,),
        tflops(tf32=35, bf16=70, int8=140, int4=280), "NVIDIA's figures, second-hand; device probes", "medium",
        "Often given A10's 125; 140 is the sparse figure. One database lists 72 SMs; devices report 80."),
    GpuModel("A16", AMPERE_PRO, ("NVIDIA A16",), ("25b6",), 10, 1755e6, None, 1755e6, (16,),
        tflops(tf32=9, bf16=17.9, int8=35.9), f"{_NAMES}; GPU database", "medium",
        "Per GPU; a board has four. Shares its PCI id with A2. One source lists 1695 MHz."),
    GpuModel("A2", AMPERE_PRO, ("NVIDIA A2",), ("25b6",), 10, 1770e6, None, 1770e6, (16,),
        tflops(tf32=9, bf16=18, int8=36), f"{_NAMES}; GPU database", "medium", "Shares its PCI id with A16."),
    GpuModel("A40", AMPERE_PRO, ("NVIDIA A40",), ("2235",), 84, 1740e6, None, 1740e6, (48,),
        tflops(tf32=74.8, bf16=149.7, int8=299.3, int4=598.7), "framework tables", "high"),
    GpuModel("RTX-A6000", AMPERE_PRO, ("NVIDIA RTX A6000",), ("2230",), 84, 1800e6, None, 2100e6, (48,),
        tflops(tf32=77.4, bf16=154.8, int8=309.7, int4=619.3), "framework tables; GPU database", "high",
        "The maximum SM clock is not verified. 38.7 in some tables is the shader rate."),
    GpuModel("RTX-3090", AMPERE_GEFORCE, ("NVIDIA GeForce RTX 3090",), ("2204",), 82, 1695e6, None, 2100e6, (24,),
        tflops(tf32=35.6, bf16=71.2, fp16_acc16=142, int8=284.7), "framework tables; GPU database", "high",
        "The maximum SM clock is not verified. 142 in some tables is with 16-bit accumulation."),
    GpuModel("RTX-A5500", AMPERE_PRO, ("NVIDIA RTX A5500",), ("2233",), 80, 1665e6, None, None, (24,),
        tflops(bf16=136.4), _SHEET, "high"),
    GpuModel("RTX-A5000", AMPERE_PRO, ("NVIDIA RTX A5000",), ("2231",), 64, 1695e6, None, None, (24,),
        tflops(bf16=111.1), _SHEET, "high"),
    GpuModel("RTX-A4500", AMPERE_PRO, ("NVIDIA RTX A4500",), ("2232",), 56, 1650e6, None, None, (20,),
        tflops(bf16=94.6), _SHEET, "high"),
    GpuModel("RTX-A4000", AMPERE_PRO, ("NVIDIA RTX A4000",), ("24b0",), 48, 1560e6, None, None, (16,),
        tflops(bf16=76.7), _SHEET, "high"),
    GpuModel("RTX-A2000", AMPERE_PRO, ("NVIDIA RTX A2000",), ("2531",), 26, 1200e6, None, None, (6,),
        tflops(bf16=31.9), _SHEET, "high"),
    GpuModel("RTX-A2000-12GB", AMPERE_PRO, ("NVIDIA RTX A2000 12GB",), ("2571",), 26, 1200e6, None, None, (12,),
        tflops(bf16=31.9), _SHEET, "high"),
    GpuModel("RTX-3090-Ti", AMPERE_GEFORCE, ("NVIDIA GeForce RTX 3090 Ti",), ("2203",), 84, 1860e6, None, None, (24,),
        tflops(bf16=80.0), _SHEET, "high"),
    GpuModel("RTX-3080", AMPERE_GEFORCE, ("NVIDIA GeForce RTX 3080",), ("2206",), 68, 1710e6, None, None, (10,),
        tflops(bf16=59.5), _SHEET, "high", "The card with 10 GB."),
    GpuModel("RTX-3080-12GB", AMPERE_GEFORCE, (), ("220a",), 70, 1710e6, None, None, (12,), tflops(bf16=61.3),
        "GPU database; peak computed", "medium", "Has the name of the card with 10 GB."),

    GpuModel("L4", ADA_PRO, ("NVIDIA L4",), ("27b8",), 58, 2040e6, None, 2040e6, (24,),
        tflops(tf32=60, bf16=121, fp8=242.5, int8=242.5), "framework tables; device probes", "high",
        "60 SMs in some databases is the whole die."),
    GpuModel("L40", ADA_HALF, ("NVIDIA L40",), ("26b5",), 142, 2490e6, None, 2490e6, (48,),
        tflops(tf32=90.5, bf16=181.05, fp8=362, int8=362), "framework tables; GPU database", "high"),
    GpuModel("L40S", ADA_PRO, ("NVIDIA L40S",), ("26b9",), 142, 2520e6, None, 2520e6, (48,),
        tflops(tf32=183, bf16=362.05, fp8=733, int8=733), "framework tables; GPU database", "high",
        disputed={p: _L40S_BF16 for p in ("bf16", "fp16")}),
    GpuModel("L20", ADA_HALF, ("NVIDIA L20",), ("26ba", "26b7"), 92, 2520e6, None, 2520e6, (48,),
        tflops(tf32=59.8, bf16=119.5, fp8=239, int8=239), "framework tables; GPU database", "medium",
        "The published peak implies 2537 MHz."),
    GpuModel("L2", ADA_PRO, ("NVIDIA L2",), ("27b6",), memory_gib=(24,), source=_NAMES, confidence="low",
        note="No verified SM count, clock or peak."),
    GpuModel("RTX-6000-Ada", ADA_PRO, ("NVIDIA RTX 6000 Ada Generation",), ("26b1",), 142, 2505e6, None, 3105e6,
        (48,), tflops(tf32=182.1, bf16=364.2, fp8=728.5, int8=728.5),
        "GPU database; peaks computed at 2505 MHz", "medium", "The maximum SM clock is not verified."),
    GpuModel("RTX-4090", ADA_GEFORCE, ("NVIDIA GeForce RTX 4090",), ("2684",), 128, 2520e6, None, 3120e6, (24,),
        tflops(tf32=82.6, bf16=165.2, fp16_acc16=330.3, fp8=330.3, fp8_acc16=660.6, int8=660.6),
        "framework tables", "high",
        "The maximum SM clock is not verified. 330 for FP16 in some tables is with 16-bit accumulation."),
    GpuModel("RTX-5000-Ada", ADA_PRO, ("NVIDIA RTX 5000 Ada Generation",), ("26b2",), 100, 2550e6, None, None, (32,),
        tflops(bf16=261.1), _SHEET, "high"),
    GpuModel("RTX-4500-Ada", ADA_PRO, ("NVIDIA RTX 4500 Ada Generation",), ("27b1",), 60, 2580e6, None, None, (24,),
        tflops(bf16=158.5), _SHEET, "high"),
    GpuModel("RTX-4000-Ada", ADA_PRO, ("NVIDIA RTX 4000 Ada Generation",), ("27b2",), 48, 2175e6, None, None, (20,),
        tflops(bf16=106.9), "GPU databases; peak of the data sheet", "medium",
        "Some sheets say 327.6 for sparse FP8, where 427.6 fits."),
    GpuModel("RTX-4000-SFF-Ada", ADA_PRO, ("NVIDIA RTX 4000 SFF Ada Generation",), ("27b0",), 48, 1560e6, None, None,
        (20,), tflops(bf16=76.7), _SHEET, "high"),
    GpuModel("RTX-2000-Ada", ADA_PRO, ("NVIDIA RTX 2000 Ada Generation",), ("28b0",), 22, 2130e6, None, None, (16,),
        tflops(bf16=48.0), _SHEET, "high"),
    GpuModel("RTX-5880-Ada", ADA_PRO, ("NVIDIA RTX 5880 Ada Generation",), ("26b3",), 110, 2460e6, None, None, (48,),
        tflops(bf16=277.1), "GPU databases; peak of the data sheet", "medium"),
    GpuModel("RTX-4080", ADA_GEFORCE, ("NVIDIA GeForce RTX 4080",), ("2704",), 76, 2505e6, None, None, (16,),
        tflops(bf16=97.5), _SHEET, "high"),
    GpuModel("RTX-4080-SUPER", ADA_GEFORCE, ("NVIDIA GeForce RTX 4080 SUPER",), ("2702",), 80, 2550e6, None, None,
        (16,), tflops(bf16=104.4), _SHEET, "high"),
    GpuModel("RTX-4090-D", ADA_GEFORCE, ("NVIDIA GeForce RTX 4090 D",), ("2685",), 114, 2520e6, None, None, (24,),
        tflops(bf16=147.1), _SHEET, "high"),

    GpuModel("RTX-5090", BLACKWELL_GEFORCE, ("NVIDIA GeForce RTX 5090",), ("2b85",), 170, 2407e6, None, 3090e6,
        (32,), tflops(tf32=104.8, bf16=209.5, fp16_acc16=419, fp8=419, fp8_acc16=838, int8=838, fp4=1676),
        "framework tables; GPU database", "high", "The maximum SM clock is not verified. 3352 is sparse FP4."),
    GpuModel("RTX-5080", BLACKWELL_GEFORCE, ("NVIDIA GeForce RTX 5080",), ("2c02",), 84, 2617e6, None, None, (16,),
        tflops(bf16=112.6), _SHEET, "high"),
    GpuModel("RTX-5070-Ti", BLACKWELL_GEFORCE, ("NVIDIA GeForce RTX 5070 Ti",), ("2c05",), 70, 2452e6, None, None,
        (16,), tflops(bf16=87.9), _SHEET, "high"),
    GpuModel("RTX-5090-D", BLACKWELL_GEFORCE, ("NVIDIA GeForce RTX 5090 D",), ("2b87",), 170, 2407e6, None, None,
        (32,), tflops(bf16=209.5), "GPU databases; peak of the data sheet", "medium",
        disputed={p: "AI rates are cut on this card" for p in BLACKWELL_GEFORCE.flops_per_cycle_per_sm}),

    GpuModel("H100-SXM5-80GB", HOPPER, ("NVIDIA H100 80GB HBM3",), ("2330",), 132, 1830e6, 1980e6, 1980e6, (80,),
        _H100_SXM, "the paper, eq. 6; H100 white paper, second-hand; framework tables", "high",
        "The maximum SM clock is not the tensor clock: 1980 would make OFU 7.6 % too low."),
    GpuModel("H100-SXM5-96GB", HOPPER, ("NVIDIA H100",), ("2338", "2339", "2337", "233d", "2336"), 132, 1830e6,
        1980e6, 1980e6, (64, 94, 96), _H100_SXM, f"pci.ids; {_NAMES}", "medium",
        "The 64, 94 and 96 GB parts; taken to be rated like the 80 GB part."),
    GpuModel("H100-PCIe-80GB", HOPPER, ("NVIDIA H100 PCIe",), ("2331",), 114, 1620e6, 1755e6, 1755e6, (80,),
        tflops(fp64=51.2, tf32=378, bf16=756, fp8=1513, int8=1513), "framework tables; GPU database", "high"),
    GpuModel("H100-NVL", HOPPER, ("NVIDIA H100 NVL",), ("2321",), 132, 1545e6, 1785e6, 1785e6, (94,), _H100_NVL,
        "framework tables; GPU database", "medium", "Early data sheets give the pair, twice these figures."),
    GpuModel("H800-SXM", HOPPER_NO_FP64, ("NVIDIA H800",), ("2324",), 132, 1830e6, 1980e6, 1980e6, (80,),
        tflops(fp64=1, tf32=494.7, bf16=989, fp8=1979, int8=1979), "framework tables", "medium",
        "FP64 is capped. 1755 MHz in one database looks copied from the PCIe part.",
        {"fp64": "capped, so it follows no clock; TPA of FP64 may not reach 1 at it"}),
    GpuModel("H800-PCIe", HOPPER_NO_FP64, ("NVIDIA H800 PCIe",), ("2322",), 114, 1620e6, 1755e6, 1755e6, (80,),
        tflops(tf32=378, bf16=756, fp8=1513, int8=1513), "framework tables; GPU database", "medium",
        disputed={"fp64": _H800_FP64}),
    GpuModel("H800-NVL", HOPPER_NO_FP64, ("NVIDIA H800 NVL",), ("233a",), 132, 1545e6, 1785e6, 1785e6, (94,),
        tflops(bf16=835.5), f"{_NAMES}; by analogy with H100 NVL", "low", disputed={"fp64": _H800_FP64}),
    GpuModel("H20", HOPPER_CAPPED, ("NVIDIA H20",), ("2329",), 78, 1980e6, 1980e6, 1980e6, (96,),
        tflops(fp64=1, tf32=74, bf16=148, fp8=296, int8=296), "framework tables", "medium", _CAPPED_NOTE),
    GpuModel("H20-3e", HOPPER_CAPPED, ("NVIDIA H20-3e",), ("232c",), 78, 1980e6, 1980e6, 1980e6, (141,),
        tflops(bf16=148, fp8=296, int8=296), _NAMES, "medium", _CAPPED_NOTE),
    GpuModel("H20-NVL16", HOPPER_CAPPED, ("NVIDIA H20 NVL16",), ("230e", "230c"), source=_NAMES, confidence="low",
        note="No verified SM count, clock or peak."),
    GpuModel("H200-SXM", HOPPER, ("NVIDIA H200",), ("2335",), 132, 1830e6, 1980e6, 1980e6, (141,), _H100_SXM,
        "framework tables; nvidia-smi output", "high"),
    GpuModel("H200-as-L20X", HOPPER, ("NVIDIA L20X",), (), 132, 1830e6, 1980e6, 1980e6, (141,), _H100_SXM,
        "device probes", "high",
        "An H200 whose firmware hides its name and, from NVML, its compute capability (8.9). "
        "Its PCI id is expected to be H200's 2335, which is not confirmed.", relabelled=True),
    GpuModel("H200-NVL", HOPPER, ("NVIDIA H200 NVL",), ("233b",), 132, 1545e6, 1785e6, 1785e6, (141,), _H100_NVL,
        "framework tables; GPU database", "medium", "Some tables give it the SXM part's 989."),
    GpuModel("GH200-96GB", HOPPER, ("NVIDIA GH200 480GB", "NVIDIA GH200 120GB"), ("2342",), 132, 1830e6, 1980e6,
        1980e6, (96,), _H100_SXM, f"{_NAMES}; public benchmarks", "high",
        "480 and 120 GB are the CPU's memory."),
    GpuModel("GH200-144GB", HOPPER, ("NVIDIA GH200 144G HBM3e",), ("2348",), 132, 1830e6, 1980e6, 1980e6, (144,),
        _H100_SXM, f"{_NAMES}; public benchmarks", "high"),

    GpuModel("B100", BLACKWELL, (), ("2920", "29bc"), memory_gib=(192,),
        published_peak_flops=tflops(bf16=1750, fp8=3500, fp4=7000), source="HGX B100 figures / 8",
        confidence="low", note="SM count, clocks and the name NVML reports are not verified."),
    GpuModel("B200", BLACKWELL, ("NVIDIA B200",), ("2901", "2909"), 148, 1856e6, 1965e6, 1965e6, (180,),
        tflops(fp64=37, tf32=1125, bf16=2250, fp8=4500, int8=4500, fp6=4500, fp4=9000),
        "framework tables; device probes", "high", "At the maximum SM clock BF16 would be 2382.",
        {"fp64": f"{_PRELIMINARY} 40, which no clock of the device explains"}),
    GpuModel("GB200", BLACKWELL, ("NVIDIA GB200",), ("2941",), 152, 2008e6, 2062e6, 2062e6, (186,),
        tflops(fp64=40, tf32=1250, bf16=2500, fp8=5000, int8=5000, fp6=5000, fp4=10000),
        "the paper; framework tables; device probes", "high",
        "The paper's eq. 7 takes 148 SMs at 2062 MHz; devices report 152 SMs, so 2500 TFLOP/s is 2008 MHz.",
        {"fp64": f"{_PRELIMINARY} 45, which no clock of the device explains"}),
    GpuModel("B300", BLACKWELL_ULTRA, ("NVIDIA B300 SXM6 AC",), ("3182",), 148, 1856e6, 2032e6, 2032e6, (268,),
        tflops(fp64=1.25, tf32=1125, bf16=2250, fp8=4500, fp6=4500, fp4=13500),
        "framework tables; device probes", "medium", _B300_NOTE, {"fp64": _B300_FP64, "fp4": _B300_FP4}),
    GpuModel("GB300", BLACKWELL_ULTRA, ("NVIDIA GB300",), ("31c2", "31c3", "31a1"), 152, 2008e6, 2070e6, 2070e6,
        (279,), tflops(fp64=1.3, tf32=1250, bf16=2500, fp8=5000, fp6=5000, fp4=15000),
        "framework tables; device probes", "medium", _B300_NOTE, {"fp64": _B300_FP64, "fp4": _B300_FP4}),
    GpuModel("GB10", BLACKWELL_GB10, ("NVIDIA GB10",), ("2e12",), 48, 2418e6, None, 3003e6, (128,),
        tflops(bf16=125, fp8=250, fp4=500), "GPU database; nvidia-smi output", "medium",
        "2418 MHz is the applications clock; the maximum SM clock is never reached.",
        {p: _GB10_PEAK for p in ("bf16", "fp16", "fp8", "fp4")}),
    GpuModel("RTX-PRO-6000-WS", BLACKWELL_PRO, ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition",), ("2bb1",),
        188, 2617e6, None, None, (96,), tflops(tf32=251.9, bf16=503.8, fp8=1007.6, int8=1007.6, fp4=2015),
        "spec sheet, second-hand; GPU database", "medium"),
    GpuModel("RTX-PRO-6000-MaxQ", BLACKWELL_PRO, ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",),
        ("2bb4",), 188, 2280e6, None, None, (96,), tflops(bf16=438.9, fp4=1755), "spec sheet, second-hand",
        "low"),
    GpuModel("RTX-PRO-6000-Server", BLACKWELL_PRO, ("NVIDIA RTX PRO 6000 Blackwell Server Edition",), ("2bb5",), 188,
        2430e6, None, 2430e6, (96,), tflops(bf16=467.8, fp8=935.6, fp4=1871),
        "public benchmark; peaks computed at 2430 MHz", "low",
        disputed={p: "three sources, three clocks: 2430, 2493 and 2617 MHz" for p in _BLACKWELL_RTX}),
    GpuModel("RTX-PRO-5000", BLACKWELL_PRO, ("NVIDIA RTX PRO 5000 Blackwell", "NVIDIA RTX PRO 5000 72GB Blackwell"),
        ("2bb3",), 110, 2290e6, None, None, (48, 72), tflops(bf16=258, fp4=1032),
        "spec sheet: 2064 TOPS of sparse FP4, 65 TFLOP/s of FP32", "medium",
        "FP32 implies 2308 MHz. 2377 MHz in databases is not what either figure implies."),
    GpuModel("RTX-PRO-4500", BLACKWELL_PRO,
        ("NVIDIA RTX PRO 4500 Blackwell", "NVIDIA RTX PRO 4500 Blackwell Server Edition"), ("2c31", "2c3a"), 82,
        2407e6, None, None, (32,), tflops(bf16=202.1, fp4=808), "GPU database; peaks computed", "low",
        disputed={p: "the data sheet's 54.9 TFLOP/s of FP32 implies 2617 MHz" for p in _BLACKWELL_RTX}),
    GpuModel("RTX-PRO-4000", BLACKWELL_PRO, ("NVIDIA RTX PRO 4000 Blackwell",), ("2c34",), 70, 2617e6, None, None,
        (24,), tflops(bf16=187.6), "GPU databases; peak of the data sheet", "medium",
        "The peak follows from 46.9 TFLOP/s of FP32."),
    GpuModel("RTX-PRO-2000", BLACKWELL_PRO, ("NVIDIA RTX PRO 2000 Blackwell",), ("2d30",), 34, 1955e6, None, None,
        (16,), tflops(bf16=68), "GPU database; peak computed", "low"),
)
# fmt: on

_PCIE_4, _PCIE_5 = (16 * rate * 1e9 * 128 / 130 / 8 for rate in (16, 32))
_A100_LINKS, _H100_LINKS = LinkPeaks(_PCIE_4, 300e9), LinkPeaks(_PCIE_5, 450e9)

LINKS: Final[dict[str, LinkPeaks]] = {
    **dict.fromkeys(
        ("A100-SXM4-40GB", "A100-SXM4-80GB", "A100-PCIe-40GB", "A100-PCIe-80GB"), _A100_LINKS
    ),
    **dict.fromkeys(
        ("A800-SXM4-40GB", "A800-SXM4-80GB", "A800-PCIe-80GB"), _A100_LINKS._replace(nvlink=200e9)
    ),
    **dict.fromkeys(
        ("H100-SXM5-80GB", "H100-SXM5-96GB", "H200-SXM", "H200-as-L20X", "H200-NVL", "H20"),
        _H100_LINKS,
    ),
    **dict.fromkeys(("H100-PCIe-80GB", "H100-NVL"), _H100_LINKS._replace(nvlink=300e9)),
    "H800-SXM": _H100_LINKS._replace(nvlink=200e9),
    **dict.fromkeys(("B200", "B300"), _H100_LINKS._replace(nvlink=900e9)),
    **dict.fromkeys(("A10", "A10G", "L4", "L40", "L40S"), _A100_LINKS._replace(nvlink=0.0)),
}
"""The rated speeds of the links of models, by their keys: what bytes per second are compared with.

NVLink and PCIe of NVIDIA's data sheets, per direction, which is half of what they print. PCIe counts the bits of its
line code: 16 lanes of 16 (generation 4) or 32 GT/s (generation 5) times 128 / 130. Models whose host link is another
one (GH200, GB200), and those that are not here, have no rated speed, and nothing is concluded from their bytes.
"""
