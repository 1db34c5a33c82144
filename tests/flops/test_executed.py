"""The multiply-adds that a real forward and backward pass executes, on small models of each family.

torch.utils.flop_counter counts the matrix products and convolutions that torch runs. Every pair of an attention
is run by eager kernels, so it is compared with `causal=False`. Where torch runs something else than the count
says, the test says what and how much: nothing is left to a tolerance.

Needs torch, transformers and diffusers: `pip install --group test-torch`, not part of a base install.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ofu_exporter import flops
from tests.flops.small_decoders import DECODERS, ENCODER, GROUPED, HYBRIDS, IMAGE, MODERN
from tests.helpers.libraries import library

# The libraries warn about their own deprecations, which says nothing about the counts.
pytestmark = pytest.mark.filterwarnings("ignore")

EVERY_PAIR = flops.Counting(causal=False)
FORWARD = flops.Passes(forward_only=True)


def executed(run: Callable[[], Any], backward: bool = True) -> dict[str, int]:
    """FLOPs by torch's operator over a forward pass, and a backward pass of its sum."""
    torch = library("torch")
    attention, counter = library("torch.nn.attention"), library("torch.utils.flop_counter")
    # Fused kernels on the CPU are not registered with the counter: they'd count 0.
    math, own = attention.SDPBackend.MATH, {torch.ops.aten.bmm: with_sums}
    mode = counter.FlopCounterMode(display=False, custom_mapping=own)
    with attention.sdpa_kernel(math), mode, torch.set_grad_enabled(backward):
        result = run()
        if backward:
            result.sum().backward()
    found = mode.get_flop_counts()["Global"]
    return {str(operator).removeprefix("aten."): number for operator, number in found.items()}


def with_sums(left: Any, right: Any, **_: Any) -> int:
    """FLOPs of batched products, but for those that add nothing up: transformers 5.0 writes the angles of rotary
    positions as one, later versions as a multiplication of elements.
    """
    batch, rows, inner = left
    return 2 * batch * rows * inner * right[-1] if inner > 1 else 0


def products(found: dict[str, int]) -> int:
    return sum(found.values())


def transformer(architecture: str, **fields: Any) -> tuple[Any, flops.Model]:
    """A small model of random weights, and ours of its own configuration."""
    library("torch").manual_seed(0)
    kind = getattr(library("transformers"), architecture)
    config = kind.config_class(**fields)
    config._attn_implementation = "eager"
    if hasattr(config, "_experts_implementation"):
        config._experts_implementation = "eager"
    written = json.loads(config.to_json_string(use_diff=False))
    return kind(config).float(), flops.read({**written, "architectures": [architecture]})


def parameters(model: Any) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def tokens(number: int, batch: int = 2) -> Any:
    return library("torch").randint(2, 90, (batch, number))


# Score biases that balance the load are parameters in the published checkpoint, buffers in transformers.
BUFFERS = {
    "MiniMaxM2ForCausalLM": 4 * 8,
    "DeepseekV3ForCausalLM": 3 * 8,
    "Glm4MoeForCausalLM": 3 * 8,
}


@pytest.mark.parametrize(("architecture", "fields"), DECODERS, ids=lambda value: str(value)[:24])
def test_decoders(architecture: str, fields: dict[str, Any]) -> None:
    """Exactly: forward and backward, and every parameter."""
    model, ours = transformer(architecture, **fields)
    ids = tokens(32)
    counted = flops.count(ours, flops.fixed(2, tokens=32), flops.How(counting=EVERY_PAIR))
    found = executed(lambda: model(input_ids=ids).logits)
    assert counted.model_flops_per_step == products(found)
    assert counted.parameters.total == parameters(model) + BUFFERS.get(architecture, 0)


@pytest.mark.parametrize(
    ("architecture", "fields", "buffers"), HYBRIDS, ids=lambda value: str(value)[:24]
)
def test_hybrids(architecture: str, fields: dict[str, Any], buffers: int) -> None:
    """Linear layers exactly; convolutions run over the padding too; scans run as chunked products.

    transformers pads a convolution of kernel K by K-1 positions: (L + K - 1)/L of the FLOPs. A scan is executed as
    products whose sizes depend on the chunk (or element by element), where the count has the closed form.
    """
    length, kernel = 32, 4
    model, ours = transformer(architecture, **fields)
    ids = tokens(length)
    how = flops.How(counting=EVERY_PAIR, passes=FORWARD)
    counted = flops.count(ours, flops.fixed(2, tokens=length), how)
    found = executed(lambda: model(input_ids=ids).logits, backward=False)
    parts = {part: 0 for part in flops.Part}
    for line in counted.lines:
        parts[line.term.part] += int(line.forward)
    convolutions, scans = parts.pop(flops.Part.CONVOLUTION), parts.pop(flops.Part.SCAN)
    cores = parts.pop(flops.Part.CORE)
    assert sum(parts.values()) == found["mm"] + found.get("addmm", 0)
    assert convolutions * (length + kernel - 1) == found["convolution"] * length
    assert found["bmm"] >= cores, "what is left of the batched products is the scan"
    assert scans > 0
    assert counted.parameters.total == parameters(model) + buffers


def test_the_first_layer_has_no_input_gradient() -> None:
    """A third of the patch embedding's three forwards: the difference to what torch executes."""
    model, ours = transformer("ViTForImageClassification", **IMAGE, num_labels=10)
    pixels = library("torch").randn(2, 3, 32, 32)
    counted = flops.count(ours, flops.fixed(2))
    found = executed(lambda: model(pixel_values=pixels).logits)
    patches = next(line for line in counted.lines if line.term.name == "patch_embedding")
    assert counted.model_flops_per_step - patches.forward == products(found)


@pytest.mark.parametrize(
    ("architecture", "fields"),
    [
        ("BertModel", ENCODER),
        ("BertForMaskedLM", ENCODER),
        ("BertForPreTraining", ENCODER),
        ("RobertaModel", ENCODER),
        ("RobertaForMaskedLM", ENCODER),
        ("XLMRobertaForMaskedLM", ENCODER),
        ("ModernBertModel", MODERN),
        ("ModernBertForMaskedLM", MODERN),
    ],
    ids=lambda value: str(value)[:24],
)
def test_encoders(architecture: str, fields: dict[str, Any]) -> None:
    """Exactly, and every parameter. Eager kernels run the pairs outside a window too."""
    model, ours = transformer(architecture, **fields)
    ids = tokens(16)
    how = flops.How(counting=EVERY_PAIR, passes=FORWARD)
    counted = flops.count(ours, flops.fixed(2, tokens=16), how)
    found = executed(lambda: model(input_ids=ids)[0], backward=False)
    assert counted.model_flops_per_step == products(found)
    assert counted.parameters.total == parameters(model)
    if "MaskedLM" in architecture:
        trained = flops.count(ours, flops.fixed(2, tokens=16), flops.How(counting=EVERY_PAIR))
        assert trained.model_flops_per_step == products(
            executed(lambda: model(input_ids=ids).logits)
        )


VISION = {"depth": 2, "num_heads": 4, "in_channels": 3, "hidden_size": 32, "patch_size": 4}
VISION |= {"spatial_merge_size": 2, "temporal_patch_size": 2}
# Windows of 2 x 2 patches in the first layer, every pair in the second.
WINDOWED = {"intermediate_size": 40, "out_hidden_size": 32, "window_size": 8}


@pytest.mark.parametrize(
    ("kind", "vision"),
    [
        ("Qwen2VL", {**VISION, "embed_dim": 32, "mlp_ratio": 2}),
        ("Qwen2_5_VL", {**VISION, **WINDOWED, "fullatt_block_indexes": [1]}),
    ],
)
def test_vision_and_language_together(kind: str, vision: dict[str, Any]) -> None:
    """Forward exactly, windows of the image included, and every parameter; causal pairs run in both halves."""
    torch, transformers = library("torch"), library("transformers")
    text = {**GROUPED, "hidden_size": 32, "vocab_size": 100}
    marks = {"image_token_id": 99, "video_token_id": 98}
    marks |= {"vision_start_token_id": 97, "vision_end_token_id": 96}
    config = getattr(transformers, f"{kind}Config")(text_config=text, vision_config=vision, **marks)
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}
    config.text_config.rope_parameters = rope
    config._attn_implementation = "eager"
    architecture = f"{kind}ForConditionalGeneration"
    model = getattr(transformers, architecture)(config).float()
    written = json.loads(config.to_json_string(use_diff=False))
    ours = flops.read({**written, "architectures": [architecture]})
    ids = tokens(20, batch=1)
    ids[0, 2:6] = 99
    inputs = {"input_ids": ids, "pixel_values": torch.randn(16, 3 * 2 * 16)}
    inputs |= {"image_grid_thw": torch.tensor([[1, 4, 4]]), "mm_token_type_ids": (ids == 99).long()}
    found = executed(lambda: model(**inputs), backward=False)
    lengths = flops.fixed(1, tokens=20) + flops.fixed(1, image=16)
    counted = flops.count(ours, lengths, flops.How(passes=FORWARD))
    both_halves = sum(line.forward * (1 + line.term.extent.causal) for line in counted.lines)
    assert both_halves == products(found)
    assert counted.parameters.total == parameters(model)


def denoiser(name: str) -> tuple[Any, Callable[[], Any], flops.Lengths]:
    """A small diffusion transformer, a pass over it, and the lengths of that pass."""
    torch, diffusers = library("torch"), library("diffusers")
    time, prompt = torch.ones(2), torch.randn(2, 7, 32)
    shape = {"attention_head_dim": 16, "num_attention_heads": 2, "num_layers": 2}
    joint = {**shape, "joint_attention_dim": 32}
    if name == "QwenImageTransformer2DModel":
        model = diffusers.QwenImageTransformer2DModel(
            **joint, in_channels=16, out_channels=4, axes_dims_rope=(4, 6, 6)
        )
        inputs = {"hidden_states": torch.randn(2, 16, 16), "img_shapes": [[(1, 4, 4)]] * 2}
        inputs |= {"encoder_hidden_states_mask": torch.ones(2, 7, dtype=torch.long)}
    else:
        model = diffusers.WanTransformer3DModel(
            **shape,
            in_channels=4,
            out_channels=4,
            text_dim=32,
            freq_dim=8,
            ffn_dim=40,
            rope_max_seq_len=32,
        )
        inputs = {"hidden_states": torch.randn(2, 4, 4, 4, 8)[:, :, :2]}
    lengths = flops.fixed(2, latent=16, prompt=7)
    inputs |= {"encoder_hidden_states": prompt, "timestep": time}
    return model, lambda: model(**inputs).sample, lengths


# Linear layers whose inputs are data: torch computes no gradient for them.
FIRST = {
    "QwenImageTransformer2DModel": ("img_in", "time_embed.linear_1"),
    "WanTransformer3DModel": ("patch_embedding", "time_embed.linear_1", "text_embed.linear_1"),
}


@pytest.mark.parametrize("name", FIRST)
def test_diffusion_transformers(name: str) -> None:
    """Forward exactly; backward without the first layers' input gradients, and every parameter.

    The prompt stream behind the last attention of Qwen-Image reaches no output, so torch computes no gradient of its
    output projection and MLP there, 2 * 9 h^2 * 2 FLOPs per prompt token; its modulation is computed as one matrix
    whose used half has a gradient.
    """
    model, run, lengths = denoiser(name)
    written = {**dict(model.config), "_class_name": name}
    ours = flops.read({key: list(v) if isinstance(v, tuple) else v for key, v in written.items()})
    forward = flops.count(ours, lengths, flops.How(passes=FORWARD))
    assert forward.model_flops_per_step == products(executed(run, backward=False))
    assert forward.parameters.total == parameters(model)
    counted = flops.count(ours, lengths)
    unneeded = sum(line.forward for line in counted.lines if line.term.name in FIRST[name])
    if name == "QwenImageTransformer2DModel":
        unneeded += 2 * 2 * 9 * 32 * 32 * 2 * 7
    assert counted.model_flops_per_step - unneeded == products(executed(run))


@pytest.mark.parametrize(
    ("kind", "dims", "arguments"),
    [
        ("Conv1d", 1, {"kernel_size": 3, "padding": 1}),
        ("Conv2d", 2, {"kernel_size": (3, 5), "stride": 2, "groups": 2}),
        ("Conv2d", 2, {"kernel_size": 4, "padding": "same"}),
        ("Conv2d", 2, {"kernel_size": 3, "padding": "valid", "dilation": 2}),
        ("Conv3d", 3, {"kernel_size": 2, "stride": (1, 2, 2)}),
        ("ConvTranspose1d", 1, {"kernel_size": 3, "stride": 2}),
        ("ConvTranspose2d", 2, {"kernel_size": 3, "groups": 2, "padding": 1}),
    ],
)
def test_convolutions(kind: str, dims: int, arguments: dict[str, Any]) -> None:
    torch = library("torch")
    module = getattr(torch.nn, kind)(4, 6, **arguments)
    size = [11, 9, 8][:dims]
    term = flops.modules.convolution(
        4, 6, arguments.pop("kernel_size"), size, transposed="Transpose" in kind, **arguments
    )
    found = executed(lambda: module(torch.randn(3, 4, *size)), backward=False)
    assert 3 * term.flops == products(found)
    assert term.parameters == parameters(module)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("rnn", {}),
        ("gru", {"bidirectional": True}),
        ("lstm", {"num_layers": 3, "bidirectional": True}),
        ("lstm", {"proj_size": 3, "num_layers": 2}),
    ],
)
def test_recurrent_nets(kind: str, arguments: dict[str, Any]) -> None:
    torch = library("torch")
    module = getattr(torch.nn, kind.upper())(5, 7, batch_first=True, **arguments)
    term = flops.modules.recurrent(kind, 5, 7, 11, **arguments)
    # Fused recurrent kernels of the CPU hide their products from the counter.
    with torch.backends.mkldnn.flags(enabled=False):
        found = executed(lambda: module(torch.randn(3, 11, 5))[0], backward=False)
    assert 3 * term.flops == products(found)
    assert term.parameters == parameters(module)


def test_attention_modules() -> None:
    torch = library("torch")
    module = torch.nn.MultiheadAttention(8, 2, batch_first=True).train()
    queries, keys = torch.randn(3, 5, 8), torch.randn(3, 9, 8)
    term = flops.modules.attention(8, 2, 5, 9)
    found = executed(lambda: module(queries, keys, keys)[0], backward=False)
    assert 3 * term.flops == products(found)
    assert term.parameters == parameters(module)


def test_recomputation_runs_the_layers_again() -> None:
    """Re-entrant checkpoints run every layer's forward pass once more, and not the head's."""
    torch = library("torch")
    model, ours = transformer("LlamaForCausalLM", **GROUPED)
    model.gradient_checkpointing_enable({"use_reentrant": True})
    model.train()
    embedded = torch.randn(2, 32, 64, requires_grad=True)
    passes = flops.Passes(recompute=flops.Recompute.FULL)
    counted = flops.count(ours, flops.fixed(2, tokens=32), flops.How("model", EVERY_PAIR, passes))
    found = executed(lambda: model(inputs_embeds=embedded, use_cache=False).logits)
    assert counted.hardware_flops_per_step == products(found)


def test_a_frozen_base_runs_no_weight_gradients() -> None:
    """All weights frozen but those of the embedding: every product's input gradient, and no weight's."""
    model, ours = transformer("LlamaForCausalLM", **GROUPED)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    model.model.embed_tokens.weight.requires_grad_(True)
    ids = tokens(32)
    lengths = flops.fixed(2, tokens=32)
    forward = flops.count(ours, lengths, flops.How("model", EVERY_PAIR, FORWARD))
    cores = sum(line.forward for line in forward.lines if line.term.part is flops.Part.CORE)
    found = executed(lambda: model(input_ids=ids).logits)
    assert products(found) == 2 * forward.model_flops_per_step + cores
