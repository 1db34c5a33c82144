"""What a right MFU is of OFU, by how a model is trained: what a verdict must not take for a mistake.

    python -m tests.hardware.honest OUT SECONDS [cpu]

One case after the other trains for a few seconds, the most telling first, while `gpm_log.py` writes what the counters
say. OUT is written anew after each: the MFU by a formula written out by hand against the peak of BF16, OFU of the same
seconds, their ratio, FLOPs as torch counts them, and the kernels that took longest. A case whose library is not there,
or for which the memory is too small, says so. `cpu` trains tiny models beside the driver's stand-in.
"""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from tests.hardware.clock_error import rating
from tests.hardware.counters import pause
from tests.hardware.training import CONFIG, TINY, Phase, Training, formula

CASE_SECONDS = 5.0
WARM_STEPS = 3
KERNELS = 6
BASE = Phase("1", "bf16, flash attention")
LARGER = {**CONFIG, "hidden_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 24}
LARGER |= {"num_key_value_heads": 8}
"""3.2 billion parameters; 1.1 have those of `CONFIG`."""
CASES: Sequence[tuple[Phase, Mapping[str, Any]]] = (
    (BASE, CONFIG),
    (replace(BASE, name="larger model", batch=4), LARGER),
    (replace(BASE, name="larger model, LoRA", lora_rank=16), LARGER),
    (replace(BASE, name="larger model, 8,192 tokens", batch=1, seq_len=8192), LARGER),
    (replace(BASE, name="no flash attention", batch=4, attention="eager"), CONFIG),
    (replace(BASE, name="full recompute", recompute=True), CONFIG),
    (replace(BASE, name="selective recompute", selective=True), CONFIG),
    (replace(BASE, name="LoRA", lora_rank=16), CONFIG),
    (replace(BASE, name="FP8", precision="fp8"), CONFIG),
    (replace(BASE, name="16,384 tokens", batch=1, seq_len=16384), CONFIG),
    (replace(BASE, name="1,024 tokens", batch=16, seq_len=1024), CONFIG),
    (replace(BASE, name="4,096 tokens", batch=4, seq_len=4096), CONFIG),
    (replace(BASE, name="8,192 tokens", batch=2, seq_len=8192), CONFIG),
    (
        replace(BASE, name="no flash attention, 1,024", batch=8, seq_len=1024, attention="eager"),
        CONFIG,
    ),
)
IMAGES = ("ViT-B/16", "ResNet-50")
RESNET_PRODUCTS = 4.089e9
"""Multiplications of the convolutions and the classifier for an image of 224 x 224: He et al., arXiv:1512.03385."""


class Trained(Protocol):
    def step(self) -> None: ...
    def executed_flops(self) -> Mapping[str, float]: ...


class Images(Training):
    """An image model, in BF16, of 256 images a step."""

    def __init__(self, name: str, device: str) -> None:
        import torch
        import transformers

        self._torch, self._device = torch, device
        self._shape = (256, 3, 224, 224) if device != "cpu" else (2, 3, 224, 224)
        config = transformers.ResNetConfig() if name == "ResNet-50" else transformers.ViTConfig()
        config.num_labels = 1000
        made = transformers.AutoModelForImageClassification.from_config(config)
        form = torch.channels_last if name == "ResNet-50" else torch.contiguous_format
        self._model = made.to(device=device, dtype=torch.bfloat16, memory_format=form).train()
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=1e-3)
        self._images = torch.randn(self._shape, device=device, dtype=torch.bfloat16)
        self._images = self._images.to(memory_format=form)
        hidden, tokens, patches = 768, 197, 196 * 768
        encoder = 12 * (tokens * 12 * hidden**2 + 2 * tokens**2 * hidden)
        products = RESNET_PRODUCTS if name == "ResNet-50" else encoder + patches * hidden
        self.flops = 6 * products * self._shape[0]

    def step(self) -> None:
        labels = self._torch.randint(0, 1000, self._shape[:1], device=self._device)
        loss = self._model(pixel_values=self._images, labels=labels).loss
        loss.backward()
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        loss.item()


def ofu(windows: Sequence[Mapping[str, Any]], began: float, ended: float) -> float | None:
    """The mean over the windows that lie within, weighted by time; None where none does."""
    inside = [w for w in windows if w["start"] >= began and w["end"] <= ended]
    seconds = sum(w["end"] - w["start"] for w in inside)
    hz = rating().tensor_clock_hz["low_precision"]
    used = (
        (w["end"] - w["start"])
        * (w["metrics"]["5"] / 100)
        * 1e6
        * statistics.fmean(mhz for _, mhz in w["clocks_mhz"])
        / hz
        for w in inside
    )
    return sum(used) / seconds if seconds else None


def trained(model: Trained, flops: float, seconds: float, log: Path) -> Mapping[str, Any]:
    """Steps for some seconds, after some that are not counted."""
    for _ in range(WARM_STEPS):
        model.step()
    began, steps = time.monotonic(), 0
    while (ended := time.monotonic()) < began + seconds:
        model.step()
        steps += 1
    pause(0.6)  # the last window ends
    windows = [json.loads(line) for line in log.read_text().split("\n")[:-1]]
    peak = rating().peak_flops["bf16"]
    used, mfu = ofu(windows, began, ended), steps * flops / (ended - began) / peak
    executed = _executed(model)
    return {
        "steps": steps,
        "step_seconds": (ended - began) / steps,
        "flops": flops,
        "mfu": mfu,
        "ofu": used,
        "mfu_over_ofu": mfu / used if used else None,
        "executed_flops": executed,
        "executed_over_ofu": mfu * executed / flops / used if used and executed else None,
        "kernels": kernels(model),
    }


def _executed(model: Trained) -> float | None:
    """FLOPs of a step; None where torch cannot count them (2.11 fails on grouped heads)."""
    try:
        return sum(model.executed_flops().values())
    except AssertionError:
        return None


def kernels(model: Trained) -> Mapping[str, float]:
    """Shares of the time of a step's kernels; without a GPU of its operators."""
    from torch.autograd import DeviceType
    from torch.profiler import profile

    with profile() as recorded:
        model.step()
    events = recorded.key_averages()
    found = {e.key: e.self_device_time_total for e in events if e.device_type == DeviceType.CUDA}
    found = found or {e.key: e.self_cpu_time_total for e in events}
    longest = sorted(found, key=lambda name: -found[name])[:KERNELS]
    return {name[:120]: round(found[name] / sum(found.values()), 4) for name in longest}


def cases(device: str) -> Iterator[tuple[str, float, Any]]:
    """Name, FLOPs of a step, and what makes the model."""
    for each, whole in CASES:
        small = replace(each, batch=2, seq_len=min(each.seq_len // 64, 64))
        phase, config = (small, {**whole, **TINY}) if device == "cpu" else (each, whole)
        yield phase.name, formula(phase, config), partial(Training, phase, config, device)
    for name in IMAGES:
        yield name, 0.0, partial(Images, name, device)


def run(out: Path, seconds: float, device: str) -> None:
    import torch

    ends, log = time.monotonic() + seconds, out.with_suffix(".gpm")
    each = CASE_SECONDS if device != "cpu" else 1.0
    found: dict[str, Any] = {}
    logs = [sys.executable, "-m", "tests.hardware.gpm_log", str(log), str(seconds + 60), "0.5"]
    with subprocess.Popen(logs) as logging:
        try:
            for name, flops, make in cases(device):
                if time.monotonic() > ends - 2 * each:
                    found[name] = {"failed": "did not fit"}
                else:
                    found[name] = tried(make, flops, each, log)
                    gc.collect()
                    torch.cuda.empty_cache()
                print(name, {k: v for k, v in found[name].items() if k != "kernels"}, flush=True)
                out.with_suffix(".part").write_text(json.dumps(found, indent=1) + "\n")
                out.with_suffix(".part").rename(out)
        finally:
            logging.kill()


def tried(make: Any, flops: float, seconds: float, log: Path) -> Mapping[str, Any]:
    """A case, or why there is none."""
    try:
        model = make()
        return trained(model, flops or model.flops, seconds, log)
    except Exception as error:  # noqa: BLE001 - a case that fails must not cost the others
        return {"failed": f"{type(error).__name__}: {error}"[:300]}


def main(args: Sequence[str]) -> None:
    if len(args) not in (2, 3):
        raise SystemExit(__doc__)
    run(Path(args[0]), float(args[1]), args[2] if len(args) > 2 else "cuda:0")


if __name__ == "__main__":
    main(sys.argv[1:])
