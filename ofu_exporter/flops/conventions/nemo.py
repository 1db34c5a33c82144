"""NeMo: one formula for each family of models, over the hidden size and not over the heads.

NeMo `nemo/utils/flops_formulas.py: gpt3, llama2, llama3, mixtral, qwen3` (2025-09). Queries, output and cores are h
wide, whatever the heads are; groups narrow keys and values in proportion. Half of the pairs, no router, no
embedding look-up. Vocabularies of the first four are constants (`LLM_VOCAB_SIZE_MAP`); that of Qwen 3 is the model's.
If the heads together are h wide and the vocabulary is that constant, NeMo's count is Megatron-LM's.

NeMo AutoModel 0.7 (`components/utils/flops_utils.py`) has the right widths for Qwen 3 and formulas for more families;
for any other decoder it takes two matrices for an MLP (`transformer_flops`), and a dense one is counted so here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ofu_exporter.flops.mixers import GroupedAttention
from ofu_exporter.flops.models import Counting, Model, NotDefined, decoder_only
from ofu_exporter.flops.shapes import Decoder, Experts, Layer, Mlp
from ofu_exporter.flops.terms import Extent, Part, Per, Term, merge

VOCABULARIES: Mapping[str, tuple[int, ...]] = {
    "GPT2LMHeadModel": (51200,),
    "LlamaForCausalLM": (32000, 128256),
    "MixtralForCausalLM": (32000,),
}
"""The vocabularies that the formulas of an architecture have as constants."""
OWN_VOCABULARY = ("Qwen3MoeForCausalLM",)
AUTOMODEL = ("GPT2LMHeadModel", "GPTNeoX", "GPTJ", "Llama", "Qwen2", "Qwen3", "Glm4", "Nemotron")
"""Dense decoders that AutoModel has formulas for, by the first part of the architecture's name."""
FAILS = ("Bloom", "Falcon", "Mpt", "OPT")
"""Dense decoders that it cannot count: their configurations lack a field of its default formula."""


def terms(model: Model, counting: Counting) -> Sequence[Term]:
    shape = decoder_only(model, counting, "nemo", halved=True)
    is_default = _is_default(model, shape)
    rows = shape.vocab if is_default else _vocabulary(model, shape)
    counted = [term for layer in shape.layers for term in _layer(shape.hidden, layer, is_default)]
    head = Term("logits", Part.HEAD, flops=2 * shape.hidden * rows, in_layers=False)
    return merge([*counted, head])


def _is_default(model: Model, shape: Decoder) -> bool:
    """Whether AutoModel has no formula for a dense decoder."""
    is_dense = all(
        isinstance(layer.mixer, GroupedAttention) and isinstance(layer.feed_forward, Mlp)
        for layer in shape.layers
    )
    return is_dense and model.architecture.partition("For")[0] not in (*AUTOMODEL, *FAILS)


def _vocabulary(model: Model, shape: Decoder) -> int:
    if model.architecture in OWN_VOCABULARY:
        return shape.vocab
    constants = VOCABULARIES.get(model.architecture, ())
    if model.architecture == "GPT2LMHeadModel":
        return constants[0]
    if shape.vocab not in constants:
        sized = f" with a vocabulary of {shape.vocab}" if constants else ""
        raise NotDefined(f"convention nemo is not defined for {model.architecture}{sized}")
    return shape.vocab


def _layer(hidden: int, layer: Layer, is_default: bool) -> Sequence[Term]:
    mixer, block = layer.mixer, layer.feed_forward
    assert isinstance(mixer, GroupedAttention)
    assert block is not None
    keys = 2 * hidden * hidden * mixer.groups // mixer.heads
    width = block.width * (block.active if isinstance(block, Experts) else 1)
    if block.matrices == 2 and not is_default:
        width = 4 * hidden  # the formula of GPT-3 has no width of its own
    matrices = 2 if is_default else block.matrices
    pairs = Extent(Per.PAIR, causal=True)
    return (
        Term("attention.linear", Part.PROJECTION, flops=2 * (2 * hidden * hidden + keys)),
        Term("attention.core", Part.CORE, pairs, flops=4 * hidden),
        Term("mlp", Part.MLP, flops=2 * matrices * hidden * width),
    )


def warnings(model: Model, shape: Decoder, counting: Counting) -> Iterator[str]:
    widths = {mixer.query_dim for mixer in shape.mixers(GroupedAttention)}
    if widths - {shape.hidden}:
        wide = ", ".join(map(str, sorted(widths)))
        taken = f"nemo takes the width of all heads together as {shape.hidden}"
        yield f"{taken}; in this model it is {wide}"
    if _is_default(model, shape) and any(block.gated for block in shape.feed_forwards(Mlp)):
        takes = "AutoModel takes two matrices for its MLPs"
        yield f"nemo has no formula for {model.architecture}: {takes}"
    if any(mixer.window for mixer in shape.mixers(GroupedAttention)):
        yield "nemo ignores sliding windows, which this model has"
    if shape.feed_forwards(Experts):
        yield "nemo leaves out the router"
