"""Knows the GPU model of a cloud's instance type, or of its name of an accelerator, and other vendors' accelerators.

The types are those of the pages "Accelerated computing instances" of AWS, "GPU machine types" of Google Cloud, "GPU
accelerated virtual machine sizes" of Azure and "GPU shapes" of Oracle Cloud; names with `nvidia-` are the values of
GKE's label cloud.google.com/gke-accelerator.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Final

_TABLE: Final = Path(__file__).with_suffix(".csv").read_text(encoding="utf-8")
MODELS: Final = {row["name"]: row["model"] for row in csv.DictReader(_TABLE.splitlines())}
"""What is matched as a whole, whatever the case -> key of the model's row. What people write says no form or bus."""
_VENDORS: Final = {
    "AMD": r"(amd |instinct |radeon ).*|mi ?\d{2,3}[ax]?( .*)?",
    "Intel": r"(intel |gaudi ?\d?|max 1\d{3}).*",
    "Google": r"(tpu|cloud tpu|v[2-6][ep]|ct\d[a-z]*-).*",
    "AWS": r"(trn|inf)\d.*|(trainium|inferentia).*",
    "Huawei": r"(ascend|910[bc]).*",
}


def model_key(text: str) -> str | None:
    """The key of the row that a cloud's name stands for; None where it is none that is known."""
    name = text.strip().casefold()
    return next((key for form, key in MODELS.items() if re.fullmatch(form, name)), None)


def other_vendor(text: str) -> str | None:
    """Whose accelerator a name is, if it is no GPU of NVIDIA."""
    name = text.strip().casefold()
    return next((whose for whose, form in _VENDORS.items() if re.fullmatch(form, name)), None)
