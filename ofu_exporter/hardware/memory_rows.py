"""The rated bandwidth of the memory of GPU models: what a share of busy memory cycles is of.

Figures are those of NVIDIA's data sheets and product briefs, read second-hand in tables that link them; a board of
several GPUs is divided. A model that is not here has none: no sheet was found (A800, H20, GH200, GB200, B300), or
sources contradict each other (T4: 300 and 320 GB/s; H100 NVL: 3.9 and 4.8 TB/s).
"""

from __future__ import annotations

from typing import Final

MEMORY_BYTES_PER_SECOND: Final[dict[str, float]] = {
    **dict.fromkeys(("V100-SXM2", "V100-PCIe"), 900e9),
    "V100S-PCIe": 1134e9,
    **dict.fromkeys(("A100-SXM4-40GB", "A100-PCIe-40GB"), 1555e9),
    "A100-SXM4-80GB": 2039e9,
    "A100-PCIe-80GB": 1935e9,
    "A10": 600e9,
    "A40": 696e9,
    "L4": 300e9,
    **dict.fromkeys(("L40", "L40S"), 864e9),
    **dict.fromkeys(("H100-SXM5-80GB", "H800-SXM"), 3350e9),
    "H100-PCIe-80GB": 2000e9,  # the brief says "greater than"
    **dict.fromkeys(("H200-SXM", "H200-NVL", "H200-as-L20X"), 4800e9),
    "B200": 8000e9,  # DGX B200: 64 TB/s of 8 GPUs
    "RTX-3090": 936e9,
    "RTX-4090": 1008e9,
    "RTX-5090": 1790e9,
}
"""By the model's key, in bytes per second, reads and writes together."""
