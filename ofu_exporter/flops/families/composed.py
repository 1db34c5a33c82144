"""Composes a vision tower, a projector and a language model: one family for all models of these three parts.

The language model is read by its own family. The inner configurations name it and the tower by their model_type. A
projector turns the tower's output into tokens of the language model. Sources: LLaVA (arXiv:2304.08485, 2310.03744),
LLaVA-OneVision (arXiv:2408.03326), Gemma 3 (arXiv:2503.19786), PaliGemma (arXiv:2407.07726), InternVL3
(arXiv:2504.10479), Idefics3 (arXiv:2408.12637), SmolVLM (arXiv:2504.05299), Pixtral (arXiv:2410.07073), Aya Vision
(arXiv:2505.08751), GLM-4.1V (arXiv:2507.01006), LFM2-VL (arXiv:2511.23404), Gemma 4, Kimi K2.5, Llama 4 and Mistral
Small 3.1 (model cards), and the model classes in Hugging Face transformers.

Streams: `tokens` is the whole sequence of the language model, an image's tokens included. Where the configuration fixes
the size of an image, `images` is how many a sample has (each tile of a large one counts); else `image` are the
patches of one. `frames` are those of a video (Video-LLaVA, which has a tower for them), `audio` the frames of a sound's
spectrogram (Gemma 4). The towers `vision`, `sound` and `language` can be frozen apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from ofu_exporter.flops import families, projectors, sound_tower
from ofu_exporter.flops.encoder_stack import useful
from ofu_exporter.flops.families import vit
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.lengths import fixed
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.neutral_fields import listed
from ofu_exporter.flops.projectors import FEATURES, Projector, TowerOutput
from ofu_exporter.flops.shapes import rms_norm
from ofu_exporter.flops.terms import TOKENS, Extent, Part, Per, Term

VISION, SOUND, LANGUAGE = "vision", "sound", "language"
IMAGES, FRAMES = "images", "frames"
CAUSAL = "ForCausalLM"

NEUTRAL = (
    vit.NEUTRAL
    | sound_tower.NEUTRAL
    | listed(
        """
        adapter_layer_norm_eps boi_token_index default_output_length eoi_token_index hidden_size image_grid_pinpoints
        image_seq_length layer_scale_init_value max_image_size multi_modal_projector_bias multimodal_projector_bias
        num_image_tokens out_hidden_size pos_emb_time projection_layer_norm_eps projector_dropout projector_hidden_act
        projector_layernorm_eps spatial_pool_mode spatial_pool_stride standardize use_cache
        use_image_newline_parameter vision_aspect_ratio video_seq_length vision_feature_layer
        vision_feature_select_strategy vocab_size
        """
    )
)


RGB = 3
"""Channels of an image if a tower's configuration does not say."""
PREFIX = "image and prompt attend to each other in both directions; their pairs are counted as causal ones"


ALIASES = {"glm4v": "glm4", "glm4vmoe": "glm4moe"}
"""Kinds of text models that are equal to another kind."""


class Composition(NamedTuple):
    """What the class of an architecture fixes."""

    projector: Projector
    free: bool = False
    """Whether images may have any size."""
    prefixed: bool = False
    """Whether image and prompt attend to each other in both directions."""
    video: bool = False
    """Whether frames of videos have their own tower, whose special tokens are read, too."""
    sound: bool = False
    """Whether there may be a sound tower."""


GLM = vit.VitPlan(
    special=0,
    names=vit.Names("depth", "num_heads", "in_channels", "out_hidden_size"),
    pre_norm=True,
    norm=rms_norm,
    gated=True,
    bias=False,
    bias_field="attention_bias",
    position_rows=lambda vision: (vision.size("image_size") // vision.size("patch_size")) ** 2,
)
TOWERS: dict[str, vit.VitPlan] = {
    "clip_vision_model": vit.ARCHITECTURES["CLIPVisionModel"],
    "siglip_vision_model": vit.ARCHITECTURES["SiglipVisionModel"],
    "pixtral": vit.VitPlan(
        special=0,
        patch_bias=False,
        pre_norm=True,
        post_norm=False,
        norm=rms_norm,
        gated=True,
        bias=False,
        positions=False,
    ),
    "internvl_vision": vit.VitPlan(
        post_norm=False, scaled=2, bias_field="attention_bias", bias=True
    ),
    "idefics3_vision": vit.VitPlan(special=0),
    "smolvlm_vision": vit.VitPlan(special=0),
    "llama4_vision_model": vit.VitPlan(patch_bias=False, pre_norm=True),
    "siglip2_vision_model": vit.VitPlan(
        special=0, attention_pool=True, position_rows=lambda vision: vision.size("num_patches")
    ),
    "kimi_k25_vision": vit.VitPlan(
        special=0,
        position_rows=lambda vision: vision.size("pos_emb_height") * vision.size("pos_emb_width"),
    ),
    "gemma4_vision": vit.VitPlan(
        special=0,
        patch_bias=False,
        post_norm=False,
        norm=rms_norm,
        layer_norms=4,
        gated=True,
        bias=False,
        head_norms=True,
        position_rows=lambda vision: 2 * vision.size("position_embedding_size"),
    ),
    "glm4v_vision": GLM,
    "glm4v_moe_vision": GLM,
}
"""The tower of each model_type of a vision_config."""

ARCHITECTURES = {
    "LlavaForConditionalGeneration": Composition(projectors.llava),
    "LlavaNextForConditionalGeneration": Composition(projectors.llava_next),
    "LlavaNextVideoForConditionalGeneration": Composition(projectors.llava_next),
    "LlavaOnevisionForConditionalGeneration": Composition(projectors.llava_next),
    "VideoLlavaForConditionalGeneration": Composition(projectors.llava, video=True),
    "VipLlavaForConditionalGeneration": Composition(projectors.vip_llava),
    "PaliGemmaForConditionalGeneration": Composition(projectors.pali_gemma, prefixed=True),
    "Gemma3ForConditionalGeneration": Composition(projectors.gemma_3),
    "AyaVisionForConditionalGeneration": Composition(projectors.aya),
    "Cohere2VisionForConditionalGeneration": Composition(projectors.cohere),
    "InternVLForConditionalGeneration": Composition(projectors.intern),
    "Idefics3ForConditionalGeneration": Composition(projectors.idefics),
    "SmolVLMForConditionalGeneration": Composition(projectors.idefics),
    "Llama4ForConditionalGeneration": Composition(projectors.llama_4),
    "Mistral3ForConditionalGeneration": Composition(projectors.mistral, free=True),
    "Glm4vForConditionalGeneration": Composition(projectors.glm, free=True),
    "Glm4vMoeForConditionalGeneration": Composition(projectors.glm, free=True),
    "Kimi_K25ForConditionalGeneration": Composition(projectors.kimi, free=True),
    "Lfm2VlForConditionalGeneration": Composition(projectors.lfm, free=True),
    "Gemma4ForConditionalGeneration": Composition(projectors.gemma_4, free=True, sound=True),
}


def read(fields: Fields, architecture: str) -> Model:
    """Towers before a language model."""
    plan = ARCHITECTURES[architecture]
    language = language_model(fields, plan.prefixed)
    assert language.shape is not None
    seen, heard = SideTower((), 0, ()), SideTower((), 0, ())
    if fields.has("vision_config"):  # Gemma 4 may be a text model alone
        seen = _vision(fields, plan, language.shape.hidden)
    if fields.has("audio_config"):
        heard = _sound(fields, plan, language.shape.hidden)
    towers = [name for name, side in ((VISION, seen), (SOUND, heard)) if side.terms]
    return Model(
        "composed",
        architecture,
        language.shape,
        (*seen.terms, *heard.terms, *in_tower(language.terms, LANGUAGE if towers else "model")),
        towers=(*towers, LANGUAGE) if towers else ("model",),
        layers=seen.layers + heard.layers + language.layers,
        streams=(TOKENS, *seen.streams, *heard.streams),
        notes=(PREFIX,) if plan.prefixed else (),
    )


class SideTower(NamedTuple):
    """A tower in addition to the vision tower, with its projector."""

    terms: tuple[Term, ...]
    layers: int
    streams: tuple[str, ...]


def in_tower(terms: Iterable[Term], tower: str, named: str = "") -> tuple[Term, ...]:
    """The terms as those of a tower; `named` is put before their names."""
    return tuple(replace(term, tower=tower, name=f"{named}{term.name}") for term in terms)


def _vision(fields: Fields, plan: Composition, out: int) -> SideTower:
    vision = fields.inner("vision_config")
    kind = vision.word("model_type", TOWERS)
    tower = vit.tower(vision, replace(TOWERS[kind], colours=RGB), plan.free)
    projected = plan.projector(
        TowerOutput(fields, vision, tower.hidden, tower.patches, tower.special, out)
    )
    terms = (*in_tower(tower.terms, VISION, "vision."), *in_tower(projected.terms, VISION))
    if plan.free:
        merged = tuple(_of_patches(term, projected.merged) for term in terms)
        return SideTower(merged, tower.layers, (vit.IMAGE,))
    tokens = tower.patches + tower.special
    counts = {vit.IMAGE: tokens, vit.PATCHES: tower.patches, FEATURES: projected.tokens}
    images = tuple(_of_image(term, counts, IMAGES) for term in terms)
    if not plan.video:
        return SideTower(images, tower.layers, (IMAGES,))
    # The projector is shared, and reads every token of a frame.
    shared = tuple(replace(term, parameters=0, active=0) for term in projected.terms)
    both = (
        *in_tower(tower.terms, VISION, "video."),
        *in_tower(shared, VISION, "video."),
    )
    frames = tuple(_of_image(term, {**counts, FEATURES: tokens}, FRAMES) for term in both)
    return SideTower((*images, *useful(frames)), 2 * tower.layers, (IMAGES, FRAMES))


def _sound(fields: Fields, plan: Composition, out: int) -> SideTower:
    if not plan.sound:
        raise fields.error("audio_config", "is not known; --executed counts the sound's tower, too")
    audio = fields.inner("audio_config")
    tower, wide = sound_tower.gemma_4(audio), audio.size("output_proj_dims")
    ends = (("sound.output_proj", tower.hidden, wide, True), ("sound.projector", wide, out, False))
    terms = (
        *in_tower(tower.terms, SOUND, "sound."),
        *(
            sound_tower.frame_linear(
                name, Part.PROJECTION, inputs, outputs, tower.frames, bias=bias, in_layers=False
            )
            for name, inputs, outputs, bias in ends
        ),
    )
    return SideTower(in_tower(terms, SOUND), tower.layers, (sound_tower.AUDIO,))


def language_model(fields: Fields, prefixed: bool = False) -> Model:
    """The language model, read by its own family, with the head of the whole model."""
    text = fields.inner("text_config")
    if prefixed:
        text = text.without("use_bidirectional_attention")
    architecture = language_of(text.text("model_type"))
    family = families.load(families.family_of(architecture))
    text.ignore(family.NEUTRAL)
    model = family.read(text, architecture)
    if model.shape is None:
        raise fields.error("text_config", f"is a {architecture}, which is no decoder")
    tied = fields.flag("tie_word_embeddings", default=model.shape.tied)
    if model.shape.tied and not tied:  # classes differ in which of the two fields they use
        raise fields.contradiction("text_config says otherwise", "tie_word_embeddings")
    return replace(model, shape=replace(model.shape, tied=tied))


def language_of(model_type: str) -> str:
    """The causal architecture of a model_type: llama, gemma3_text, deepseek_v3."""
    wanted = model_type.removesuffix("_text").replace("_", "")
    wanted = ALIASES.get(wanted, wanted)
    for name in families.architectures():
        if name.removesuffix(CAUSAL).lower().replace("_", "") == wanted and name.endswith(CAUSAL):
            return name
    return families.family_of(model_type)


def _of_image(term: Term, counts: Mapping[str, int], stream: str) -> Term:
    """The term per image: the configuration fixes the number of its tokens, patches or features."""
    if term.flops == 0:
        return term
    lengths = fixed(1, **{name: number for name, number in counts.items() if number})
    times = int(lengths.of(term.extent))
    linear = term.linear and replace(term.linear, used=term.linear.used * times)
    return replace(term, flops=term.flops * times, linear=linear, extent=Extent(stream=stream))


def _of_patches(term: Term, merged: int) -> Term:
    """The term per patch of an image of any size: `merged` patches are one feature."""
    if term.extent.per is Per.TOKEN and term.extent.stream == FEATURES:
        return replace(term, extent=Extent(stream=vit.IMAGE, merged=merged))
    if term.extent.stream == vit.PATCHES:
        return replace(term, extent=replace(term.extent, stream=vit.IMAGE))
    return term
