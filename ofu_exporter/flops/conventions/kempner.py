"""KempnerForge: 6 * active + 12 L h S per token, dense and MoE, full attention over the hidden size.

KempnerForge `kempnerforge/metrics/mfu.py: _dense_flops_per_token, _moe_flops_per_token`. Active parameters are
those of attention, of a gated MLP or of the top-k and shared experts, and of the head; embedding, norms, biases
and router are not counted. The core takes the hidden size h where the heads may be wider or narrower
in sum. Revisions before 2026-04-08 counted the embedding too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ofu_exporter.flops.mixers import GroupedAttention
from ofu_exporter.flops.models import Counting, Model, NotDefined, decoder_only
from ofu_exporter.flops.shapes import Decoder, Experts, Layer
from ofu_exporter.flops.terms import Extent, Part, Per, Term


def terms(model: Model, counting: Counting) -> Sequence[Term]:
    shape = decoder_only(model, counting, "kempner", halved=False)
    attention = mlp = sparse = 0
    for layer in shape.layers:
        mixer = _attention(model, layer)
        attention += 2 * shape.hidden * (mixer.query_dim + mixer.key_dim)
        block = layer.feed_forward
        if isinstance(block, Experts):
            sparse += 3 * shape.hidden * (block.active * block.width + block.shared_width)
        elif block is not None:
            mlp += 3 * shape.hidden * block.width
    cores = 4 * len(shape.layers) * shape.hidden
    return (
        Term("attention", Part.PROJECTION, flops=2 * attention),
        Term("mlp", Part.MLP, flops=2 * mlp),
        Term("experts", Part.EXPERTS, flops=2 * sparse),
        Term("lm_head", Part.HEAD, flops=2 * shape.hidden * shape.head_rows, in_layers=False),
        Term("attention.core", Part.CORE, Extent(Per.PAIR), flops=cores),
    )


def _attention(model: Model, layer: Layer) -> GroupedAttention:
    block = layer.feed_forward
    if not isinstance(layer.mixer, GroupedAttention) or block is None or not block.gated:
        needed = "grouped attention and gated MLPs in every layer"
        lacking = f"{needed}, which {model.architecture} does not have"
        raise NotDefined(f"convention kempner is defined for {lacking}")
    if isinstance(block, Experts) and block.latent is not None:
        raise NotDefined("convention kempner is not defined for experts that run on a latent")
    return layer.mixer


def warnings(model: Model, shape: Decoder, counting: Counting) -> Iterator[str]:
    """Attention cores that are counted at another width than the model's."""
    widths = {mixer.query_dim for mixer in shape.mixers(GroupedAttention)}
    if widths - {shape.hidden}:
        wide = ", ".join(map(str, sorted(widths)))
        counted = f"kempner counts attention cores at the hidden size {shape.hidden}"
        yield f"{counted}; the heads of this model are {wide} wide"
