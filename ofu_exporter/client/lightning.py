"""Reports from Lightning's Trainer: `Trainer(callbacks=[OfuCallback(flops_per_token=4.8e10)])`.

The work of a batch is the first of these that is known: the user's `model_flops_per_step`, the tokens in the batch
where `flops_per_token` or `model` says what a token costs, and the module's own `flops_per_batch`, which Lightning's
ThroughputMonitor knows too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

try:
    import lightning
    from lightning.pytorch import Callback
except ImportError:  # under its older name
    import pytorch_lightning as lightning
    from pytorch_lightning import Callback

from ofu_exporter.client.steps import OfuReporting, Rate, ReporterOptions, log, quiet

if TYPE_CHECKING:
    from typing_extensions import Unpack

_PRECISIONS = {"bf16-mixed": "bf16", "bf16-true": "bf16", "16-mixed": "fp16", "16-true": "fp16"}


class OfuCallback(OfuReporting, Callback):
    """Measures batches, reports from each node's first process, and logs the agent's answer."""

    def __init__(
        self,
        *,
        model_flops_per_step: float | None = None,
        tokens_in_batch: Callable[[Any], int] | None = None,
        **options: Unpack[ReporterOptions],
    ) -> None:
        """Steps are the optimizer's, and FLOPs are of all GPUs together; `tokens_in_batch` counts one GPU's batch.

        Without `tokens_in_batch` the tokens of a batch are the elements of its `input_ids`, padding included. Other
        options are the Reporter's.
        """
        self._model_flops_per_step = model_flops_per_step
        self._tokens_in_batch = tokens_in_batch or _input_ids
        self._options = options
        self._done = 0.0

    @quiet
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._close()
        self._counted = self._choose(pl_module)
        if not self._counted:
            more = "give model_flops_per_step, flops_per_token or model"
            log.warning("MFU is not reported, only steps: %s", more)
        facts: ReporterOptions = {
            "gpus": trainer.world_size,
            "framework": f"lightning {lightning.__version__}, {self._counted}"[:64],
            "precision": _PRECISIONS.get(str(trainer.precision)),
        }
        options: ReporterOptions = {**facts, **self._options}
        tokens = self._counted == "tokens"
        rate: Rate = "tokens_per_second" if tokens else "model_flops_per_second"
        self._done = 0.0
        self._begin(options, trainer.local_rank == 0, rate, trainer.global_step, 0.0)

    @quiet
    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self._meter is None or self._answers is None:
            return
        self._done += self._batch(trainer, pl_module, batch)
        self._meter.reached(trainer.global_step, self._done)
        metrics = self._answers.metrics()
        if metrics:
            pl_module.log_dict(metrics, on_step=True, on_epoch=False, rank_zero_only=True)

    @quiet
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if self._meter:
            self._meter.note_interruption(trainer.global_step, "evaluation")

    @quiet
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._close()

    def _choose(self, pl_module: Any) -> str:
        """The name of the value that the FLOPs of a batch are computed from; "" if there is none."""
        if self._model_flops_per_step is not None:
            return "model_flops_per_step"
        if self._options.get("flops_per_token") or self._options.get("model"):
            return "tokens"
        return "flops_per_batch" if hasattr(pl_module, "flops_per_batch") else ""

    def _batch(self, trainer: Any, pl_module: Any, batch: Any) -> float:
        """FLOPs or tokens of one batch on every GPU."""
        if self._model_flops_per_step is not None:
            return self._model_flops_per_step / float(trainer.accumulate_grad_batches)
        if self._counted == "tokens":
            # Ranks that share a model, by tensors or pipeline stages, are given one batch together.
            sampler = trainer.distributed_sampler_kwargs or {}
            batches = sampler.get("num_replicas", trainer.world_size)
            return float(self._tokens_in_batch(batch) * batches)
        if not self._counted:
            return 0.0
        return float(pl_module.flops_per_batch * trainer.world_size)


def _input_ids(batch: Any) -> int:
    tokens = batch["input_ids"] if isinstance(batch, Mapping) else batch.input_ids
    return int(tokens.numel())  # from the shape: nothing waits for the GPU
