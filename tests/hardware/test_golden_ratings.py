"""What every model of the table is rated as, by each way to know it, golden; and what names stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace

from ofu_exporter.hardware import cloud_names, precision_names
from ofu_exporter.hardware.gpu_models import ROWS, by_short_name, normalise, rate
from ofu_exporter.hardware.gpu_spec import GpuModel
from ofu_exporter.hardware.mig_shares import shares
from ofu_exporter.hardware.unrated import explain
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reasons import Reason


def plain(value: object) -> object:
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items() if each not in (None, "")}
    return f"{value:.7g}" if isinstance(value, float) else value


def rated(gpu: Gpu) -> str:
    found = rate(gpu)
    return "none" if found is None else str(plain(asdict(found)))


def variants(row: GpuModel) -> Iterator[tuple[str, Gpu]]:
    named = Gpu("0", "GPU-a", name=row.names[0] if row.names else "")
    if row.names:
        yield "by name", named
    if row.pci_device_ids:
        yield "by id", replace(named, name="", pci_device_id=row.pci_device_ids[0])
    whole = row.sm_count or 100
    yield "no SMs", replace(named, sm_count=0)
    yield "two SMs fewer", replace(named, sm_count=whole - 2)
    yield "half of the SMs", replace(named, sm_count=whole // 2)
    capability = row.chip.compute_capability
    yield "another chip", replace(named, compute_capability=(6, 1), sm_count=whole)
    yield "its chip", replace(named, compute_capability=capability, sm_count=whole)
    if row.mig_slices:
        yield "an instance", replace(named, instance="7", profile="1g.10gb", sm_count=whole // 8)


def test_every_model_is_rated_as_it_was(golden: Callable[[str, str], None]) -> None:
    lines = []
    for row in ROWS:
        usual = ""
        for said, gpu in variants(row):
            if (found := rated(gpu)) != usual:
                lines.append(f"{row.key} {said}: {found}")
            usual = usual or found
    golden("ratings.txt", "\n".join(lines) + "\n")


NAMES = """
H100|h100-pcie|NVIDIA H100|nvidia h100 80gb hbm3|H200|A100|A100-40GB|B200|GB200|gb300|L40S|l4|T4|V100|RTX 4090
rtx-pro-6000|p5.48xlarge|p4d.24xlarge|a3-highgpu-8g|a2-ultragpu-1g|Standard_ND96isr_H100_v5|BM.GPU.H100.8
nvidia-h100-80gb|g2-standard-4|MI300X|mi250|amd instinct mi325x|Gaudi 3|gaudi2|intel max 1550|TPU v5p|v5e
ct5lp-hightpu-4t|trn2|inf2.48xlarge|trainium|910B|ascend 910c|H1000|nothing||NVIDIA|H100-SXM5-80GB MIG 1g.10gb
NVIDIA H100 80GB HBM3 MIG 1g.10gb|GRID A100-10C|Tesla P100|GTX 1080|NVIDIA A100-1-5CME|NVIDIA T1000
Quadro T2000|Quadro P4000|TITAN Xp|TITAN V|NVIDIA GeForce GTX 1660|NVIDIA GeForce RTX 3090
"""
PRECISIONS = """
bf16|bfloat16|torch.bfloat16|bf16-mixed|bf16_true|BF16|fp16|float16|half|16|16-mixed|fp64|double|64|tf32
TensorFloat32|fp8|mxfp8|float8_e4m3fn|e5m2|e4m3|fp8_hybrid|fp8-delayed|fp8 blockwise|fp8_cs|transformer-engine
fp4|nvfp4|mxfp4|e2m1|fp6|mxfp6|int8|i8|int4|i4|jnp.float16|jax.numpy.bfloat16|np.float64|fp32|float32|single
32|f32|bf17|int2||e6m1|float|fp|torch.float
"""


def words(text: str) -> list[str]:
    return [each for line in text.strip().split("\n") for each in line.split("|")]


def named(name: str) -> str:
    gpu = Gpu("0", "GPU-a", name=name)
    short, vendor = by_short_name(name), cloud_names.other_vendor(name)
    reason, detail = explain(gpu, Reason.UNKNOWN_MODEL)
    return f"{name!r}: {normalise(name)!r} {short} {vendor} {reason.value} {detail}"


def test_names_stand_for_what_they_stood_for(golden: Callable[[str, str], None]) -> None:
    precisions = [
        f"{text!r}: {precision_names.precision(text)} {precision_names.unknown(text)}"
        for text in words(PRECISIONS)
    ]
    clouds = [f"{form}: {cloud_names.model_key(form)}" for form in cloud_names.MODELS]
    lines = [*map(named, words(NAMES)), *precisions, *clouds]
    golden("names.txt", "\n".join(lines) + "\n")


def test_instances_share_a_gpu_as_they_did(golden: Callable[[str, str], None]) -> None:
    lines = []
    h100 = "NVIDIA H100 80GB HBM3"
    for profiles in (
        ("3g.40gb", "3g.40gb", "1g.10gb"),
        ("7g.80gb",),
        ("1g.10gb",) * 7,
        ("1g.10gb+me", "2g.20gb"),
        ("4g.40gb", "", "1g.10gb"),
        ("1c.3g.40gb", "2c.3g.40gb"),
        ("3g.40gb", "7g.80gb"),
        ("odd",),
    ):
        for name, sms in ((h100, None), (h100, 132), ("NVIDIA A30", None), ("unknown", None)):
            gpus = [
                Gpu("0", "GPU-a", str(number), profile, name, sm_count=sms and sms // 7)
                for number, profile in enumerate(profiles)
            ]
            found = {key.instance: str(share) for key, share in shares(gpus).items()}
            lines.append(f"{profiles} {name} {sms}: {found}")
    golden("mig-shares.txt", "\n".join(lines) + "\n")
