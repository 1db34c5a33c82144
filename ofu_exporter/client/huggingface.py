"""Reports from Hugging Face's Trainer: `Trainer(..., callbacks=[OfuCallback(seq_len=4096)])`.

The work of a step is the first of these that is known: the user's value (`model_flops_per_step`, or `tokens_per_step`),
the tokens that the Trainer counts when `include_num_input_tokens_seen` is set, and the Trainer's `total_flos`. The last
counts 6 FLOPs for each token and each parameter outside of the embedding. It leaves attention out, and counts every
expert of a mixture, frozen parameters in full, and padding. The report says in `framework` which of these was used.
"""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

import transformers
from transformers import TrainerCallback

from ofu_exporter.client.steps import OfuReporting, Rate, ReporterOptions, log, quiet

if TYPE_CHECKING:
    from typing_extensions import Unpack

_DTYPES = {"torch.bfloat16": "bf16", "torch.float16": "fp16"}
_USUAL_TARGETS = {f"{side}_proj" for side in ("q", "k", "v", "o", "gate", "up", "down")}
_TARGETS_OF_MAMBA = {"in_proj", "x_proj", "dt_proj"}
"""Layers whose adapters the agent counts by their names. Without a name it counts those of all that are usual."""


class OfuCallback(OfuReporting, TrainerCallback):
    """Measures steps, reports from each node's first process, and logs the agent's answer."""

    def __init__(
        self,
        *,
        model_flops_per_step: float | None = None,
        tokens_per_step: float | None = None,
        seq_len: int | None = None,
        **options: Unpack[ReporterOptions],
    ) -> None:
        """Steps are the optimizer's, and counts are of all GPUs together.

        Tokens become FLOPs by `flops_per_token`, by `model`, or with `seq_len` by the configuration of
        the trained model, which the agent then counts. Other options are the Reporter's.
        """
        self._model_flops_per_step = model_flops_per_step
        self._tokens_per_step = tokens_per_step
        self._seq_len = seq_len
        self._options = options

    @quiet
    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any
    ) -> None:
        self._close()
        self._counted = self._choose(args)
        self._counted_times = _ranks_of_a_batch(args, model, self._counted)
        options: ReporterOptions = {**self._trainer_facts(args, model), **self._options}
        is_first = state.is_local_process_zero
        self._begin(options, is_first, self._rate(), state.global_step, self._done(state))

    @quiet
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._meter and self._counted != "total_flos":
            self._meter.reached(state.global_step, self._done(state))

    @quiet
    def on_log(
        self,
        args: Any,
        state: Any,
        control: Any,
        logs: MutableMapping[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        if self._meter and self._counted == "total_flos":  # the Trainer sums it up just before this
            self._meter.reached(state.global_step, self._done(state))
        if self._answers and logs is not None:
            metrics = self._answers.metrics()
            logs.update(metrics)
            state.log_history[-1].update(metrics)  # a copy of the logs, kept with each checkpoint

    @quiet
    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._meter:
            self._meter.note_interruption(state.global_step, "evaluation")

    @quiet
    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._meter:
            self._meter.note_interruption(state.global_step, "checkpoint")

    def _choose(self, args: Any) -> str:
        """The name of the value that the FLOPs of a step are computed from; "" if the settings give none."""
        if self._model_flops_per_step is not None:
            return "model_flops_per_step"
        weighed = (
            self._seq_len or self._options.get("flops_per_token") or self._options.get("model")
        )
        if not weighed:
            return "total_flos"
        if self._tokens_per_step is not None:
            return "tokens_per_step"
        if getattr(args, "include_num_input_tokens_seen", "no") in ("no", False):
            log.warning(
                "MFU is not reported, only steps: set include_num_input_tokens_seen='non_padding' in the "
                "TrainingArguments, or give tokens_per_step"
            )
            return ""
        return "num_input_tokens_seen"

    def _rate(self) -> Rate:
        flops = self._counted in ("model_flops_per_step", "total_flos")
        return "model_flops_per_second" if flops else "tokens_per_second"

    def _done(self, state: Any) -> float:
        """FLOPs or tokens since the training began, of all GPUs."""
        if self._model_flops_per_step is not None:
            return self._model_flops_per_step * float(state.global_step)
        if self._counted == "tokens_per_step" and self._tokens_per_step is not None:
            return self._tokens_per_step * float(state.global_step)
        return getattr(state, self._counted) / self._counted_times if self._counted else 0.0

    def _trainer_facts(self, args: Any, model: Any) -> ReporterOptions:
        bare = getattr(model, "module", model)  # what DistributedDataParallel wraps
        mixed = "bf16" if args.bf16 else "fp16" if args.fp16 else None
        facts: ReporterOptions = {
            "gpus": args.world_size * max(1, args.n_gpu),
            "framework": f"transformers {transformers.__version__}, {self._counted}"[:64],
            "precision": mixed or _DTYPES.get(str(getattr(bare, "dtype", None))),
            "recompute": _recompute(args, bare),
            "accumulation": args.gradient_accumulation_steps,
        }
        if self._seq_len and self._rate() == "tokens_per_second":
            base = bare.get_base_model() if hasattr(bare, "get_base_model") else bare  # of PEFT's
            config = json.loads(base.config.to_json_string())
            config.setdefault("architectures", [type(base).__name__])  # as when it is saved
            passes = {**_adapters(bare), **_reference(args)}
            facts["model"] = {"config": config, "seq_len": self._seq_len, **passes}
        return facts


def _adapters(model: Any) -> dict[str, object]:
    """The rank of PEFT's adapters, which alone are trained, and the layers that have them if their names are usual."""
    settings = getattr(model, "peft_config", None) or {}
    if not settings:
        return {}
    modules = model.named_modules()
    adapted = {name.rpartition(".")[2] for name, each in modules if hasattr(each, "lora_A")}
    named = sorted(adapted if adapted <= _USUAL_TARGETS else adapted & _TARGETS_OF_MAMBA)
    rank = max(getattr(each, "r", None) or 1 for each in settings.values())
    return {"lora_rank": rank, **({"lora_targets": named} if named else {})}


def _reference(args: Any) -> dict[str, object]:
    """That each step of TRL's DPOTrainer also runs a reference model, or PEFT's without its adapters."""
    is_dpo = any(each.__name__ == "DPOConfig" for each in type(args).__mro__)
    without = ("precompute_ref_log_probs", "reference_free")  # the second in TRL before 1.0
    has_one = is_dpo and not any(getattr(args, each, False) for each in without)
    return {"reference": True} if has_one else {}


def _ranks_of_a_batch(args: Any, model: Any, counted: str) -> int:
    """How many ranks are given one batch, for a part of each tensor or of the context: the Trainer adds it up for each.

    DeepSpeed cuts the parameters themselves, so `total_flos` of its ranks add up to that of the model.
    """
    of_model = getattr(getattr(model, "module", model), "_tp_size", None)
    deepspeed = getattr(getattr(args, "hf_deepspeed_config", None), "config", {})
    of_deepspeed = (deepspeed.get("tensor_parallel") or {}).get("autotp_size")
    if counted == "total_flos" and of_deepspeed:
        return 1
    of_site = getattr(args, "parallelism_config", None)
    tensor = of_model or of_deepspeed or getattr(of_site, "tp_size", None) or 1
    return int(tensor) * int(getattr(of_site, "cp_size", None) or 1)


def _recompute(args: Any, model: Any) -> str | None:
    """Whether activations are recomputed, by the model or by what FSDP wraps; None where only some layers' are."""
    # The attribute has another name before transformers 5.
    of_model = getattr(model, "is_activation_checkpointing", None)
    of_model = getattr(model, "is_gradient_checkpointing", False) if of_model is None else of_model
    if not of_model:
        modules = model.modules() if hasattr(model, "modules") else ()
        wrapped = any(type(module).__name__ == "CheckpointWrapper" for module in modules)
        return "full" if wrapped else "none"
    settings = getattr(args, "activation_checkpointing_kwargs", None) or {}
    return "full" if settings.get("every_n_layers", 1) == 1 else None
