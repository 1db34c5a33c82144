"""Makes the images and videos of one sample for a model of transformers, as pixels, patches or tiles."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.trace.sample import ModuleSample, first, ones, with_inner, zeros

USUAL_SIDE = 224
"""Pixels per side of an image if the configuration does not say."""
IMAGE_TOKENS = {"image_token_id", "image_token_index"}
"""Fields of models whose texts have images in them."""


def pixels(sample: ModuleSample) -> dict[str, Any]:
    """The images and their descriptions: `images` of the configuration's size, or `image` patches of one image."""
    for name, make in MAKERS.items():
        if name in sample.names:
            return make(sample, name)
    if hasattr(sample.config, "image_grid_pinpoints"):
        return _tiles(sample)
    if "image_sizes" in sample.names and hasattr(sample.config, "spatial_merge_size"):
        return _sized(sample)
    return _plain(sample)


def _sized(sample: ModuleSample) -> dict[str, Any]:
    """One image with the given number of patches, and its height and width (Mistral 3)."""
    sides = _sides(sample.length("image"), sample.config, sample.vision)
    height, width = (side * sample.vision.patch_size for side in sides)
    image = zeros(1, _channels(sample.vision), height, width)
    return {"pixel_values": image, "image_sizes": torch.tensor([[height, width]], device="cpu")}


def _plain(sample: ModuleSample) -> dict[str, Any]:
    """Images of the configuration's size, or of the size that a model of timm is made for."""
    config, vision = sample.config, sample.vision
    if hasattr(vision, "num_frames") and IMAGE_TOKENS.isdisjoint(vars(config)):
        return {"pixel_values": frames_of(sample)}
    # A backbone inside a configuration may have the size (SAM 2, LW-DETR).
    size = first(("image_size",), vision, *with_inner(config)) or _timm_size(sample.module)
    shape = (sample.lengths.get("images", 1), _channels(vision), *_both_sides(size))
    if "pixel_attention_mask" in sample.names:  # such a model checks which images are not padding
        return {"pixel_values": torch.ones(1, *shape, device="cpu")}
    return {"pixel_values": zeros(*shape)}


def _timm_size(module: Any) -> Any:
    """Height and width of the images that a tower of timm is made for (Gemma 3n)."""
    tower = getattr(getattr(module, "model", module), "vision_tower", module)
    of_timm = getattr(tower, "timm_model", None)
    return USUAL_SIDE if of_timm is None else of_timm.pretrained_cfg["input_size"]


def _both_sides(size: Any) -> tuple[int, int]:
    height, width = (size, size) if isinstance(size, int) else tuple(size)[-2:]
    return int(height), int(width)


def _channels(vision: Any) -> int:
    return first(("num_channels", "in_channels", "in_chans"), vision) or 3


def _sides(patches: int, *configs: Any) -> tuple[int, int]:
    """The patches per side of one image, nearly square, with sides of whole merged patches."""
    merge = first(("spatial_merge_size", "merge_kernel_size", "downsample_factor"), *configs) or 1
    merge = int(merge[0] if isinstance(merge, list | tuple) else merge)
    units = _whole(patches, merge)
    rows = max(side for side in range(1, int(units**0.5) + 1) if units % side == 0)
    return rows * merge, units // rows * merge


def _whole(patches: int, side: int) -> int:
    """How many squares of patches an image has. Raises ConfigError where they do not fill it."""
    units, rest = divmod(patches, side**2)
    if rest or not units:
        whole = f"whole {side}x{side} patches"
        raise ConfigError(f"executed: image={patches} is not a number of {whole}")
    return units


def _grid(sample: ModuleSample, name: str) -> dict[str, Any]:
    """The patches of one image in sequence, and its sides."""
    vision = sample.vision
    height, width = _sides(sample.length("image"), vision)
    shape: tuple[int, ...] = (_channels(vision), vision.patch_size, vision.patch_size)
    if not hasattr(vision, "merge_kernel_size"):  # Kimi's patches keep their sides
        frames = first(("temporal_patch_size", "patch_temporal"), vision) or 1
        shape = (shape[0] * int(frames) * vision.patch_size**2,)
    patches = "pixel_values" if "pixel_values" in sample.names else "hidden_states"
    inputs = {
        patches: zeros(height * width, *shape),
        name: torch.tensor([[1, height, width]], device="cpu"),
    }
    return {**inputs, "merge_sizes": ones(1)} if "merge_sizes" in sample.names else inputs


def _padded(sample: ModuleSample, name: str) -> dict[str, Any]:
    """One image as a batch of patches that could be padded (SigLIP 2)."""
    vision = sample.vision
    height, width = _sides(sample.lengths.get("image", vision.num_patches), vision)
    return {
        "pixel_values": zeros(1, height * width, _channels(vision) * vision.patch_size**2),
        name: torch.tensor([[height, width]], device="cpu"),
        "pixel_attention_mask": ones(1, height * width),
    }


def _placed(sample: ModuleSample, name: str) -> dict[str, Any]:
    """One image as a batch of patches with their places (Gemma 4)."""
    vision, number = sample.vision, sample.length("image")
    pooled = getattr(vision, "pooling_kernel_size", 1)
    _whole(number, pooled)
    places = torch.arange(number, device="cpu")
    return {
        "pixel_values": zeros(1, number, _channels(vision) * vision.patch_size**2),
        name: torch.stack((places % pooled, places // pooled), -1)[None],
    }


def _tiles(sample: ModuleSample) -> dict[str, Any]:
    """One image as large as the first grid of tiles, and a tile with a small copy of the whole image."""
    height, width = sample.config.image_grid_pinpoints[0]
    size = sample.vision.image_size
    number = 1 + -(-height // size) * -(-width // size)
    return {
        "pixel_values": zeros(1, number, _channels(sample.vision), size, size),
        "image_sizes": torch.tensor([[height, width]], device="cpu"),
    }


def _tiled(sample: ModuleSample, name: str) -> dict[str, Any]:
    """Images with as many tiles as the model takes; the whole text attends to them (Llama 3.2 Vision)."""
    number, vision = sample.lengths.get("images", 1), sample.vision
    tiles, size = vision.max_num_tiles, vision.image_size
    return {
        "pixel_values": zeros(1, number, tiles, _channels(vision), size, size),
        name: ones(1, number),
        "aspect_ratio_mask": ones(1, number, tiles),
        "cross_attention_mask": ones(1, sample.length("tokens"), number, tiles),
    }


MAKERS: dict[str, Callable[[ModuleSample, str], dict[str, Any]]] = {
    "image_grid_thw": _grid,
    "grid_thw": _grid,
    "spatial_shapes": _padded,
    "image_position_ids": _placed,
    "pixel_position_ids": _placed,
    "aspect_ratio_ids": _tiled,
}
"""The function that makes the images for a class, by an argument that only such classes take."""


def frames_of(sample: ModuleSample) -> Any:
    """Frames of a video: as many as the configuration fixes, else as are given."""
    vision = sample.vision
    frames = first(("num_frames", "frames_per_clip"), vision) or sample.length("frames")
    size = first(("image_size", "crop_size"), vision) or USUAL_SIDE
    return zeros(1, frames, _channels(vision), *_both_sides(size))


def features_of(module: Any, inputs: Mapping[str, Any], kind: str) -> int:
    """The number of features that the model makes of its images, videos or sounds, found by running that part."""
    name = f"get_{kind}_features"
    maker = getattr(module, name, None) or getattr(getattr(module, "model", None), name, None)
    if maker is None:  # the images are not part of the text that attends to them
        return 1
    wanted = inspect.signature(maker).parameters
    features = maker(**{name: value for name, value in inputs.items() if name in wanted})
    pooled = getattr(features, "pooler_output", features)
    features = features.last_hidden_state if pooled is None else pooled
    parts = features if isinstance(features, list | tuple) else [features]
    return sum(part.numel() // part.shape[-1] for part in parts)
