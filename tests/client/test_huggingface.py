"""A real Trainer with the callback: what it reports, and that the answer is in its log.

Needs torch, transformers and accelerate: `pip install --group test-torch`, not part of a base install.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ofu_exporter import flops
from ofu_exporter.client import sender
from ofu_exporter.reports.messages import ModelBody
from ofu_exporter.reports.reported_model import flops_per_token
from tests.doubles.report_agent import ReportAgent, report_agent
from tests.helpers.libraries import library

pytestmark = pytest.mark.filterwarnings("ignore")
SEQ_LEN, BATCH, STEPS = 32, 4, 12
FORWARD = {"lora_rank": None, "lora_targets": (), "forward_only": True}


def train(
    agent: ReportAgent,
    folder: Path,
    callback: dict[str, Any],
    adapters: Any = None,
    **arguments: Any,
) -> Any:
    """Train a small model, or adapters of it; the Trainer."""
    torch, transformers = library("torch"), library("transformers")
    torch.set_num_threads(1)
    library("accelerate")
    from ofu_exporter.client.huggingface import OfuCallback

    config = transformers.LlamaConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=128,
    )  # fmt: skip
    rows = [
        {"input_ids": row, "labels": row}
        for row in torch.arange(BATCH * STEPS * SEQ_LEN).reshape(-1, SEQ_LEN) % 128
    ]
    model = transformers.LlamaForCausalLM(config)
    trainer = transformers.Trainer(
        model=library("peft").get_peft_model(model, adapters) if adapters else model,
        args=transformers.TrainingArguments(
            output_dir=str(folder), per_device_train_batch_size=BATCH, max_steps=STEPS,
            logging_steps=2, report_to=[], save_strategy="no", disable_tqdm=True, use_cpu=True,
            **arguments,
        ),
        train_dataset=rows,
        eval_dataset=rows[:8],
        callbacks=[OfuCallback(job_id="7", url=agent.url, **{"every": 3600.0, **callback})],
    )  # fmt: skip
    trainer.train()
    return trainer


def covered(agent: ReportAgent, rate: str) -> float:
    """What the accepted reports say was done in all."""
    rated = [one for one in agent.reports if rate in one]
    return float(sum(one[rate] * (one["end"] - one["start"]) for one in rated))


def test_tokens_and_the_models_own_configuration(tmp_path: Path) -> None:
    with report_agent() as agent:
        trainer = train(agent, tmp_path, {"seq_len": SEQ_LEN}, include_num_input_tokens_seen="all")
    assert trainer.state.num_input_tokens_seen == BATCH * SEQ_LEN * STEPS
    assert covered(agent, "tokens_per_second") == pytest.approx(BATCH * SEQ_LEN * STEPS, rel=0.05)
    report = agent.reports[-1]
    assert report["step"] == STEPS
    assert report["gpus"] == 1
    assert (report["recompute"], report["accumulation"]) == ("none", 1)
    assert report["framework"].endswith("num_input_tokens_seen")
    assert "precision" not in report  # 32 bits may be FP32 or TF32
    model = flops.read(report["model"]["config"])
    counted = flops.count(model, flops.fixed(1, tokens=SEQ_LEN))
    assert counted.tokens == SEQ_LEN
    assert counted.model_flops_per_token > 0


@pytest.mark.parametrize("beside", [["q_proj", "v_proj"], "all-linear", ["embed_tokens"]])
def test_adapters_that_alone_are_trained_are_told(beside: list[str] | str, tmp_path: Path) -> None:
    """PEFT 0.21: the names of layers, their paths, or what the agent has no name for."""
    peft = library("peft")
    adapters = peft.LoraConfig(r=4, target_modules=beside)
    with report_agent() as agent:
        train(agent, tmp_path, {"seq_len": SEQ_LEN, "tokens_per_step": 1}, adapters)
    model = ModelBody(**agent.reports[-1]["model"])
    assert model.lora_rank == 4
    everywhere = ("down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj")
    told = {"all-linear": everywhere, "embed_tokens": ()}.get("".join(beside), ("q_proj", "v_proj"))
    assert model.lora_targets == told
    assert 4 <= flops_per_token(model) / flops_per_token(model.model_copy(update=FORWARD)) * 2 < 6


def test_adapters_beside_the_layers_of_mamba_and_prompts_that_have_no_rank() -> None:
    library("transformers")
    from ofu_exporter.client.huggingface import _adapters

    adapted = SimpleNamespace(lora_A=None)
    layers = [(f"layers.0.mixer.{name}", adapted) for name in ("x_proj", "in_proj", "out_proj")]
    mamba = SimpleNamespace(
        peft_config={"default": SimpleNamespace(r=8), "other": SimpleNamespace(r=4)},
        named_modules=lambda: [("embeddings", adapted), ("norm", None), *layers],
    )
    assert _adapters(mamba) == {"lora_rank": 8, "lora_targets": ["in_proj", "x_proj"]}
    mamba.named_modules, mamba.peft_config = (lambda: []), {"default": SimpleNamespace(r=None)}
    assert _adapters(mamba) == {"lora_rank": 1}
    assert _adapters(SimpleNamespace()) == {}


def test_the_reference_of_preference_training_is_told() -> None:
    """As TRL 1.16 runs it; ORPO and the like have none, and it may be computed once for all."""
    library("transformers")
    from ofu_exporter.client.huggingface import _reference

    trl = type("DPOConfig", (), {"precompute_ref_log_probs": False})
    axolotl = type("AxolotlDPOConfig", (trl,), {})
    assert _reference(trl()) == _reference(axolotl()) == {"reference": True}
    once = type("DPOConfig", (), {"precompute_ref_log_probs": True})
    free = type("DPOConfig", (), {"reference_free": True})
    assert not any(map(_reference, (once(), free(), SimpleNamespace())))


def test_the_answer_is_in_the_trainers_log(tmp_path: Path) -> None:
    with report_agent() as agent:
        trainer = train(agent, tmp_path, {"model_flops_per_step": 1e9, "every": 1e-4})
    logged = [one for one in trainer.state.log_history if "ofu" in one]
    assert logged[-1]["ofu"] == 0.3
    assert logged[-1]["mfu_ofu_agree"] == 0.0


def test_ranks_that_share_a_batch_count_its_tokens_once() -> None:
    """As a Trainer of transformers 5.24 has them with `tp_plan="auto"` on two ranks, or with accelerate's settings.

    With DeepSpeed 0.19.8, two ranks of AutoTP saw 96 tokens, `num_input_tokens_seen` was 192, and `total_flos` 1.007 x
    6 x 96 x the parameters outside of the embedding.
    """
    library("transformers")
    from ofu_exporter.client.huggingface import OfuCallback

    args = SimpleNamespace(
        include_num_input_tokens_seen="all", parallelism_config=None, world_size=2, n_gpu=1,
        bf16=True, fp16=False, gradient_accumulation_steps=1,
    )  # fmt: skip

    def with_(**more: Any) -> Any:
        return SimpleNamespace(**vars(args) | more)

    set_there = with_(parallelism_config=SimpleNamespace(tp_size=4, cp_size=1))
    in_context = with_(parallelism_config=SimpleNamespace(tp_size=2, cp_size=2, sp_size=1))
    auto = with_(
        hf_deepspeed_config=SimpleNamespace(config={"tensor_parallel": {"autotp_size": 2}})
    )
    null = SimpleNamespace(config={"tensor_parallel": None})
    for each, model, ranks in (
        (in_context, SimpleNamespace(), 4),
        (auto, SimpleNamespace(_tp_size=None), 2),
        (with_(hf_deepspeed_config=SimpleNamespace(config={})), SimpleNamespace(), 1),
        (with_(hf_deepspeed_config=null), SimpleNamespace(), 1),
        (args, SimpleNamespace(_tp_size=2), 2),
        (args, SimpleNamespace(module=SimpleNamespace(_tp_size=2)), 2),
        (set_there, SimpleNamespace(), 4),
        (args, SimpleNamespace(_tp_size=None), 1),
    ):
        callback = OfuCallback(flops_per_token=1e6)
        state = SimpleNamespace(
            num_input_tokens_seen=1536, is_local_process_zero=False, global_step=0
        )
        callback.on_train_begin(each, state, None, model=model)
        assert callback._done(state) == 1536 / ranks
        assert not callback.complained
    by_flops = OfuCallback()
    by_flops.on_train_begin(auto, SimpleNamespace(**vars(state), total_flos=9), None, model=None)
    assert by_flops._done(SimpleNamespace(total_flos=9)) == 9


def test_total_flos_is_what_is_left_and_is_named(tmp_path: Path) -> None:
    with report_agent() as agent:
        trainer = train(agent, tmp_path, {})
    assert covered(agent, "model_flops_per_second") == pytest.approx(
        trainer.state.total_flos, rel=0.05
    )
    assert agent.reports[0]["framework"].endswith("total_flos")


def test_an_evaluation_is_in_no_interval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of milliseconds would overflow a queue that is made for a report every 10 s."""
    monkeypatch.setattr(sender, "LONGEST_QUEUE", 10 * STEPS)
    callback = {"tokens_per_step": BATCH * SEQ_LEN, "flops_per_token": 1e6, "every": 1e-4}
    with report_agent() as agent:
        trainer = train(agent, tmp_path, callback, eval_strategy="steps", eval_steps=STEPS // 2)
    evaluated = [one["eval_runtime"] for one in trainer.state.log_history if "eval_runtime" in one]
    rated = [one for one in agent.reports if "tokens_per_second" in one]
    first, second = (one for one in rated if one["step"] in (STEPS // 2, STEPS // 2 + 1))
    assert second["start"] - first["end"] >= evaluated[0]


def test_recomputed_activations_are_told(tmp_path: Path) -> None:
    with report_agent() as agent:
        train(agent, tmp_path, {"model_flops_per_step": 1e9}, gradient_checkpointing=True)
    assert agent.reports[0]["recompute"] == "full"


def test_layers_that_fsdp_wraps_are_recomputed_and_every_other_layer_is_not_all() -> None:
    """As accelerate 1.15 wraps them for FSDP with checkpoints of its own, and as transformers 5.24 skips some."""
    torch, transformers = library("torch"), library("transformers")
    wrapper = library("torch.distributed.algorithms._checkpoint.checkpoint_wrapper")
    from ofu_exporter.client.huggingface import _recompute

    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            hidden_size=8, num_hidden_layers=2, num_attention_heads=2, vocab_size=8
        )
    )
    args = SimpleNamespace()
    assert _recompute(args, model) == "none"
    layers = model.model.layers
    model.model.layers = torch.nn.ModuleList(map(wrapper.checkpoint_wrapper, layers))
    assert _recompute(args, model) == "full"
    model.model.layers = layers
    model.activation_checkpointing_enable(every_n_layers=2)
    assert _recompute(args, model) == "full"
    args.activation_checkpointing_kwargs = {"every_n_layers": 2}
    assert _recompute(args, model) is None


def test_gradient_accumulation_counts_optimizer_steps(tmp_path: Path) -> None:
    with report_agent() as agent:
        train(agent, tmp_path, {"model_flops_per_step": 1e9}, gradient_accumulation_steps=2)
    assert covered(agent, "model_flops_per_second") == pytest.approx(1e9 * STEPS, rel=0.05)


def test_tokens_that_nobody_counts_are_not_made_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with report_agent() as agent:
        trainer = train(agent, tmp_path, {"seq_len": SEQ_LEN})
    assert trainer.state.global_step == STEPS
    assert agent.reports
    assert not [each for each in agent.reports if each.keys() & {"mfu", "tokens_per_second"}]
    assert max(each["step"] for each in agent.reports) == STEPS
    assert "include_num_input_tokens_seen" in caplog.text


def test_training_ends_well_without_an_agent(tmp_path: Path) -> None:
    trainer = train(ReportAgent("http://127.0.0.1:1"), tmp_path, {"model_flops_per_step": 1e9})
    assert trainer.state.global_step == STEPS
