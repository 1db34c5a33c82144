"""Knows the GPU model of a cloud's instance type, or of its name of an accelerator, and other vendors' accelerators.

The types are those of the pages "Accelerated computing instances" of AWS, "GPU machine types" of Google Cloud, "GPU
accelerated virtual machine sizes" of Azure and "GPU shapes" of Oracle Cloud; names with `nvidia-` are the values of
GKE's label cloud.google.com/gke-accelerator.
"""

from __future__ import annotations

import re
from typing import Final

MODELS: Final = {
    # AWS
    r"p3(dn)?\.\w+": "V100-SXM2",
    r"p4d\.\w+": "A100-SXM4-40GB",
    r"p4de\.\w+": "A100-SXM4-80GB",
    r"p5\.\w+": "H100-SXM5-80GB",
    r"p5en?\.\w+": "H200-SXM",
    r"p6-b200\.\w+": "B200",
    r"p6-b300\.\w+": "B300",
    r"p6e-gb200\.\w+": "GB200",
    r"g4dn\.\w+": "T4",
    r"g5\.\w+": "A10G",
    r"g6\.\w+": "L4",
    r"g6e\.\w+": "L40S",
    # Google Cloud
    r"a2-(high|mega)gpu-\d+g|nvidia-tesla-a100": "A100-SXM4-40GB",
    r"a2-ultragpu-\d+g|nvidia-a100-80gb": "A100-SXM4-80GB",
    r"a3-(high|mega|edge)gpu-\d+g(-nolssd)?|nvidia-h100(-mega)?-80gb": "H100-SXM5-80GB",
    r"a3-ultragpu-\d+g(-nolssd)?|nvidia-h200-141gb": "H200-SXM",
    r"a4-highgpu-\d+g|nvidia-b200": "B200",
    r"a4x-highgpu-\d+g|nvidia-gb200": "GB200",
    r"g2-standard-\d+|nvidia-l4": "L4",
    r"nvidia-tesla-t4": "T4",
    r"nvidia-tesla-v100": "V100-SXM2",
    # Azure
    r"(standard_)?nd96asr_(a100_)?v4": "A100-SXM4-40GB",
    r"(standard_)?nd96amsr_a100_v4": "A100-SXM4-80GB",
    r"(standard_)?nc\d+ads_a100_v4": "A100-PCIe-80GB",
    r"(standard_)?nd96isrf?_h100_v5": "H100-SXM5-80GB",
    r"(standard_)?nd96isrf?_h200_v5": "H200-SXM",
    r"(standard_)?nc\d+adi?s_h100_v5": "H100-NVL",
    r"(standard_)?nd128isr(_ndr)?_gb200_v6": "GB200",
    r"(standard_)?nd128isr(_ndr)?_gb300_v6": "GB300",
    r"(standard_)?nc\d+as_t4_v3": "T4",
    # Oracle Cloud
    r"bm\.gpu4\.8": "A100-SXM4-40GB",
    r"bm\.gpu\.a100-v2\.8": "A100-SXM4-80GB",
    r"bm\.gpu\.h100\.8": "H100-SXM5-80GB",
    r"bm\.gpu\.h200\.8": "H200-SXM",
    r"bm\.gpu\.b200\.8": "B200",
    r"bm\.gpu\.l40s\.4": "L40S",
    # As people shorten names that say neither form nor bus
    r"(nvidia[ -])?a100[ -]40gb": "A100-SXM4-40GB",
    r"(nvidia[ -])?a100[ -]80gb": "A100-SXM4-80GB",
    r"(nvidia[ -])?a100[ -]sxm4?": "A100-SXM4-80GB",
    r"(nvidia[ -])?h100[ -](sxm5?|(sxm5?[ -])?80gb)": "H100-SXM5-80GB",
    r"(nvidia[ -])?h200[ -]141gb": "H200-SXM",
    r"(nvidia[ -])?b200[ -]sxm6?": "B200",
}
"""What is matched as a whole, whatever the case -> key of the model's row."""
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
