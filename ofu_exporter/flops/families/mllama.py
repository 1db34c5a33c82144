"""Llama 3.2 Vision: a tower over the tiles of an image, and a decoder in which some layers attend to it.

Every image is padded to max_num_tiles tiles, and the tiles to whole multiples of 8 tokens; all of its tokens see each
other. A layer that attends to the image has no other attention. A text without an image skips such layers, but the
count has them. Sources: Llama 3 (arXiv:2407.21783, section 7), and the model classes in Hugging Face transformers.
Streams: `tokens` of the text, `images` of a sample. The towers `vision` and `language` can be frozen apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ofu_exporter.flops import hf_config
from ofu_exporter.flops.encoder_stack import cross, stack, useful
from ofu_exporter.flops.families import vit
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.neutral_fields import listed
from ofu_exporter.flops.products import linear, vector
from ofu_exporter.flops.shapes import Decoder, GroupedAttention, Layer, Mlp, layer_norm
from ofu_exporter.flops.terms import TOKENS, Extent, Part, Per, Term

ARCHITECTURES = ("MllamaForConditionalGeneration",)

NEUTRAL = listed("image_token_index num_global_layers supported_aspect_ratios")
VISION, LANGUAGE, IMAGES = "vision", "language", "images"
PADDED = 8
"""Tokens of a tile are padded to whole multiples of this."""
MORE_ROWS = 8
"""Rows of the embedding beyond the vocabulary."""
PLAN = vit.VitPlan(
    colours=3, names=vit.Names(heads="attention_heads"), patch_bias=False, out_bias=False
)


def read(fields: Fields, architecture: str) -> Model:
    """A vision tower, and a decoder that attends to it."""
    text, vision = fields.inner("text_config"), fields.inner("vision_config")
    hidden, number = text.size("hidden_size"), text.size("num_hidden_layers")
    patches = (vision.size("image_size") // vision.size("patch_size")) ** 2
    tiles, attends = vision.size("max_num_tiles"), text.sizes("cross_attention_layers", least=0)
    if any(index >= number for index in attends):
        raise text.contradiction(
            "a layer that is not there", "cross_attention_layers", "num_hidden_layers"
        )
    mixer = GroupedAttention(*hf_config.heads(text, hidden))
    block = Mlp(text.size("intermediate_size"), gated=True)
    norms = 2 * hidden + 2 + 2 * mixer.head_dim
    own, other = Layer(mixer, block, 2 * hidden), Layer(None, block, norms)
    shape = Decoder(
        hidden=hidden,
        vocab=text.size("vocab_size"),
        tied=fields.flag("tie_word_embeddings", default=False)
        or text.flag("tie_word_embeddings", default=False),
        layers=tuple(other if index in attends else own for index in range(number)),
        final_norm_parameters=hidden,
    )
    seen = tiles * (patches + 1)
    tower = useful(_tower(vision, hidden, patches, tiles))
    more = [vector("embed_more", MORE_ROWS * hidden, in_layers=False)]
    more += (_of_images(term, seen) for term in cross(hidden, mixer, len(attends), TOKENS, IMAGES))
    return Model(
        "mllama",
        architecture,
        shape,
        (
            *(replace(term, tower=VISION, name=f"vision.{term.name}") for term in tower),
            *(replace(term, tower=LANGUAGE) for term in useful(more)),
        ),
        towers=(VISION, LANGUAGE),
        layers=number + vision.size("num_hidden_layers") + vision.size("num_global_layers"),
        streams=(TOKENS, IMAGES),
    )


def _of_images(term: Term, seen: int) -> Term:
    """The term per image if the stream is that of images: each has `seen` tokens."""
    if IMAGES not in (term.extent.stream, term.extent.other):
        return term
    linear_term = replace(term.linear, used=term.linear.used * seen) if term.linear else None
    return replace(term, flops=term.flops * seen, linear=linear_term)


def _tower(vision: Fields, out: int, patches: int, tiles: int) -> Iterator[Term]:
    """The tower's terms per image."""
    hidden, number = vision.size("hidden_size"), vision.size("num_hidden_layers")
    further = vision.size("num_global_layers")
    layer = vit.block(vision, PLAN, hidden)
    assert isinstance(layer.mixer, GroupedAttention)
    layer = replace(layer, mixer=replace(layer.mixer, qkv_bias=False))
    gated = replace(layer, norm_parameters=layer.norm_parameters + 2)
    image, tokens = Extent(stream=IMAGES), patches + 1
    patch = vit.patch_embedding(vision, PLAN, hidden)
    yield replace(patch, flops=patch.flops * patches * tiles, extent=image)
    every = tiles * -(-tokens // PADDED) * PADDED
    for term in stack(hidden, (layer,) * number + (gated,) * further, IMAGES):
        # Tokens see only those of the same image.
        times = every**2 if term.extent.per is Per.PAIR else every
        yield replace(term, flops=term.flops * times, extent=image)
    # transformers makes the mask between the tokens of an image as a product.
    yield Term("mask", Part.CORE, image, flops=2 * every**2, in_layers=False)
    ratios = len(vision.items("supported_aspect_ratios")) + 1
    placed = (1 + tokens) * hidden + ratios * (tokens + 2) * tiles * hidden + 3
    yield vector("embeddings", placed + 2 * layer_norm(hidden), in_layers=False)
    wide = hidden * (1 + len(vision.sizes("intermediate_layers_indices", least=0)))
    if vision.size("vision_output_dim") != wide:
        raise vision.error("vision_output_dim", f"must be {wide}, the layers that are read")
    whole = linear(
        "projector", Part.PROJECTION, wide, out, bias=True, extent=image, in_layers=False
    )
    yield replace(whole, flops=whole.flops * tiles * tokens)
