"""Gemma 3n with images and sound: MobileNetV5, a Conformer, and the language model of family gemma.

The output of each tower is normalised and projected to the language model's width. Tokens of the text that stand for
images and sounds come from two small tables; the model class projects a row of each for every token of the text, and
the count has what is executed. Sources: Universal Speech Model (arXiv:2303.01037), MobileNetV4 (arXiv:2404.10518),
Gemma 3n (model card), and the model classes in Hugging Face transformers. Streams: `tokens` is the whole sequence of
the language model, an image's 256 and a sound's 188 tokens included; `images` are images of 768 x 768 pixels, `audio`
the frames of a sound's spectrogram; a text without images and sounds has 0 of them. The towers `vision`, `sound` and
`language` can be frozen apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ofu_exporter.flops import mobilenet, sound_tower
from ofu_exporter.flops.families.composed import (
    IMAGES,
    LANGUAGE,
    SOUND,
    VISION,
    in_tower,
    language_model,
)
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.neutral_fields import listed
from ofu_exporter.flops.products import embedding, linear, vector
from ofu_exporter.flops.sound_tower import AUDIO, Steps
from ofu_exporter.flops.terms import TOKENS, Extent, Part, Per, Term

ARCHITECTURES = ("Gemma3nForConditionalGeneration",)
NEUTRAL = sound_tower.NEUTRAL | listed(
    """
    audio_soft_tokens_per_image do_pooling label_names num_classes pretrained_cfg vocab_offset
    """
)
TOWER = "mobilenetv5_300m_enc"


def read(fields: Fields, architecture: str) -> Model:
    """Two towers before a language model."""
    language = language_model(fields)
    assert language.shape is not None
    out, vision, audio = (
        language.shape.hidden,
        fields.inner("vision_config"),
        fields.inner("audio_config"),
    )
    heard = sound_tower.gemma_3n(audio)
    _check(fields, vision)
    every = audio.size("conf_reduction_factor")
    kept: Steps = (*heard.frames, (1, every)) if every > 1 else heard.frames
    # A sound shorter than the model's input is padded with one token, projected once.
    fill = _projected("fill", heard.hidden, out, Extent(Per.STEP, AUDIO))
    features = Extent(stream=IMAGES)
    images = _projected("features", mobilenet.WIDTH, out, features, mobilenet.FEATURES)
    sounds = _projected("features", heard.hidden, out, Extent(stream=AUDIO, convolved=kept))
    seen = (*mobilenet.tower(IMAGES), *_embedder(vision, mobilenet.WIDTH, out), images)
    sound = (*heard.terms, *_embedder(audio, heard.hidden, out), sounds, fill)
    return Model(
        "gemma_3n",
        architecture,
        language.shape,
        (
            *in_tower(seen, VISION, "vision."),
            *in_tower(sound, SOUND, "sound."),
            *in_tower(language.terms, LANGUAGE),
        ),
        towers=(VISION, SOUND, LANGUAGE),
        layers=heard.layers + language.layers,
        streams=(TOKENS, IMAGES, AUDIO),
    )


def _check(fields: Fields, vision: Fields) -> None:
    """Refuse a tower other than the one that is counted."""
    vision.word("architecture", (TOWER,), TOWER)
    if vision.has("model_args"):
        raise vision.error("model_args", "is not known")
    for where, name, known in (
        (vision, "hidden_size", mobilenet.WIDTH),
        (fields, "vision_soft_tokens_per_image", mobilenet.FEATURES),
    ):
        if where.size(name, default=known) != known:
            raise where.error(name, f"is {known} in {TOWER}")


def _embedder(fields: Fields, width: int, out: int) -> Iterator[Term]:
    """The table of tokens, the norms of its rows and of features, and the projection, as every token runs it."""
    yield embedding("embed_tokens", fields.size("vocab_size"), width)
    yield vector("embedder.norms", 2 * width, in_layers=False)
    yield linear("embedder.project_tokens", Part.PROJECTION, width, out, in_layers=False)


def _projected(name: str, width: int, out: int, extent: Extent, times: int = 1) -> Term:
    """The same projection once more, of features."""
    whole = linear(
        f"embedder.project_{name}", Part.PROJECTION, width, out, extent=extent, in_layers=False
    )
    return replace(whole, flops=whole.flops * times, parameters=0, active=0, linear=None)
