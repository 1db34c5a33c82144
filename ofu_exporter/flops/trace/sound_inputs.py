"""Makes the sounds of one sample for a model of transformers: a spectrogram, or samples of one or more channels."""

from __future__ import annotations

from typing import Any

import torch

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.trace.sample import AUDIO, ModuleSample, first, ones, with_inner, zeros

BINS = ("input_size", "num_mel_bins", "feature_size", "input_feat_size", "input_feat_per_channel")
"""Fields that say the width of a spectrogram."""
OF_A_CODEC = ("audio_channels", "hop_length")
"""Fields of codecs, whose sounds have channels."""


def features(sample: ModuleSample) -> dict[str, Any]:
    """A spectrogram of as many frames as the configuration or the user says."""
    config, bins = _bins(sample.config)
    frames = 2 * getattr(config, "max_source_positions", 0) or sample.length(AUDIO)
    shape: tuple[int, ...] = (1, frames, bins)
    if _bins_first(sample.module, config, bins):
        shape = (1, bins, frames)
    elif hasattr(config, "spec_size"):
        # CLAP's spectrogram has a channel, and is as long as makes it a square.
        shape = (1, 1, config.spec_size**2 // bins, bins)
    masks = {"input_features_mask": torch.bool, "feature_attention_mask": torch.long}
    return {
        "input_features": zeros(*shape),
        **{name: ones(1, frames).to(of) for name, of in masks.items() if name in sample.names},
    }


def waveform(sample: ModuleSample) -> dict[str, Any]:
    """Samples of a sound: in channels for a codec, else without; a spectrogram where it is cut into patches."""
    config = sample.config
    if hasattr(config, "frequency_stride"):  # the Audio Spectrogram Transformer's
        shape: tuple[int, ...] = (1, config.max_length, config.num_mel_bins)
    elif any(hasattr(each, name) for each in with_inner(config) for name in OF_A_CODEC):
        shape = (1, getattr(config, "audio_channels", 1), sample.length(AUDIO))
    else:
        shape = (1, sample.length(AUDIO))
    return {"input_values": zeros(*shape)}


def _bins(config: Any) -> tuple[Any, int]:
    """The configuration that says the width of the spectrogram, and the width."""
    for each in filter(None, (getattr(config, "audio_config", None), *with_inner(config))):
        if bins := first(BINS, each):
            return each, int(bins)
        if hasattr(each, "subsampling_conv_channels"):  # Gemma 4
            return each, int(each.subsampling_conv_channels[0])
    raise ConfigError("executed: the configuration says no width of its spectrogram")


def _bins_first(module: Any, config: Any, bins: int) -> bool:
    """Whether the bins come before the frames: where the first convolution over time reads them as channels."""
    if hasattr(config, "input_feat_per_channel"):  # Speech2Text turns its spectrogram itself
        return False
    if hasattr(config, "max_source_positions") or hasattr(config, "n_window"):
        return True
    over_time = (each for each in module.modules() if isinstance(each, torch.nn.Conv1d))
    convolution = next(over_time, None)
    return convolution is not None and convolution.in_channels == bins
