"""Makes the images and videos of one sample for a model of transformers, as pixels, patches or tiles."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch

from ofu_exporter.errors import ConfigError

USUAL = 224
"""Pixels per side of an image if the configuration does not say."""
TOKENS, IMAGE, IMAGES, FRAMES = "tokens", "image", "images", "frames"
IMAGE_TOKENS = {"image_token_id", "image_token_index"}
"""Fields of models whose texts have images in them."""


def length(given: Mapping[str, int], stream: str) -> int:
    """The length of a stream. Raises ConfigError, which names the option that gives it."""
    if stream not in given:
        option = "--seq-len N" if stream == TOKENS else f"--length {stream}=N"
        raise ConfigError(f"executed: the model needs {option}")
    return given[stream]


def pixels(module: Any, given: Mapping[str, int]) -> dict[str, Any]:
    """The images and their descriptions: `images` of the configuration's size, or `image` patches of one image."""
    config, names = module.config, {*inspect.signature(module.forward).parameters}
    vision = getattr(config, "vision_config", None) or config
    for name in ("image_grid_thw", "grid_thw"):
        if name in names:
            return _grid(vision, given, name, names)
    for name, make in MAKERS.items():
        if name in names:
            return make(vision, given)
    if hasattr(config, "image_grid_pinpoints"):
        return _tiles(config, vision)
    if "image_sizes" in names and hasattr(config, "spatial_merge_size"):
        return _sized(config, vision, given)
    return _plain(config, vision, names, given, _timm_size(module))


def _timm_size(module: Any) -> Any:
    """Height and width of the images that a tower of timm is made for (Gemma 3n)."""
    tower = getattr(getattr(module, "model", module), "vision_tower", module)
    of_timm = getattr(tower, "timm_model", None)
    return USUAL if of_timm is None else of_timm.pretrained_cfg["input_size"]


def _sized(config: Any, vision: Any, given: Mapping[str, int]) -> dict[str, Any]:
    """One image with the given number of patches, and its height and width (Mistral 3)."""
    height, width = (side * vision.patch_size for side in _sides(config, vision, given))
    image = torch.zeros(1, _channels(vision), height, width, device="meta")
    return {"pixel_values": image, "image_sizes": torch.tensor([[height, width]], device="cpu")}


def _plain(
    config: Any, vision: Any, names: set[str], given: Mapping[str, int], timm_size: Any = USUAL
) -> dict[str, Any]:
    """Images of the configuration's size, or of the size that a model of timm is made for."""
    size = getattr(vision, "image_size", None) or getattr(config, "image_size", None)
    height, width = _both_sides(size or _inner_size(config) or timm_size)
    if hasattr(vision, "num_frames") and IMAGE_TOKENS.isdisjoint(vars(config)):
        return {"pixel_values": _frames(vision, given)}
    number = given.get(IMAGES, 1)
    shape = (number, _channels(vision), height, width)
    if "pixel_attention_mask" in names:  # such a model checks which images are not just padding
        return {"pixel_values": torch.ones(1, *shape, device="cpu")}
    return {"pixel_values": torch.zeros(shape, device="meta")}


def _both_sides(size: Any) -> tuple[int, int]:
    height, width = (size, size) if isinstance(size, int) else tuple(size)[-2:]
    return int(height), int(width)


def _inner_size(config: Any) -> Any:
    """The size of images that a backbone inside a configuration is made for (SAM 2, LW-DETR)."""
    for name in getattr(config, "sub_configs", {}):
        inner = getattr(config, name, None)
        size = inner and (getattr(inner, "image_size", None) or _inner_size(inner))
        if size:
            return size
    return None


def _channels(vision: Any) -> int:
    names = ("num_channels", "in_channels", "in_chans")
    return next((getattr(vision, name) for name in names if hasattr(vision, name)), 3)


def _merge(*configs: Any) -> int:
    """The side of the square of patches that is one token."""
    for config in configs:
        for name in ("spatial_merge_size", "merge_kernel_size", "downsample_factor"):
            value: Any = getattr(config, name, None)
            if value is not None:
                return int(value[0] if isinstance(value, list | tuple) else value)
    return 1


def _sides(config: Any, vision: Any, given: Mapping[str, int]) -> tuple[int, int]:
    """The patches per side of one image, nearly square, with sides of whole merged patches."""
    merge, patches = _merge(config, vision), length(given, IMAGE)
    units, rest = divmod(patches, merge**2)
    if rest or not units:
        raise ConfigError(
            f"executed: image={patches} is not a number of whole {merge}x{merge} patches"
        )
    rows = max(side for side in range(1, int(units**0.5) + 1) if units % side == 0)
    return rows * merge, units // rows * merge


def _grid(vision: Any, given: Mapping[str, int], name: str, names: set[str]) -> dict[str, Any]:
    """The patches of one image in sequence, and its sides."""
    height, width = _sides(vision, vision, given)
    shape: tuple[int, ...] = (_channels(vision), vision.patch_size, vision.patch_size)
    if not hasattr(vision, "merge_kernel_size"):  # Kimi's patches keep their sides
        shape = (shape[0] * _patch_frames(vision) * vision.patch_size**2,)
    patches = "pixel_values" if "pixel_values" in names else "hidden_states"
    made = {
        patches: torch.zeros(height * width, *shape, device="meta"),
        name: torch.tensor([[1, height, width]], device="cpu"),
    }
    if "merge_sizes" in names:
        made["merge_sizes"] = torch.ones(1, dtype=torch.long, device="cpu")
    return made


def _patch_frames(vision: Any) -> int:
    """The frames of one patch."""
    names = ("temporal_patch_size", "patch_temporal")
    return next((int(getattr(vision, name)) for name in names if hasattr(vision, name)), 1)


def _padded(vision: Any, given: Mapping[str, int]) -> dict[str, Any]:
    """One image as a batch of patches that could be padded (SigLIP 2)."""
    height, width = _sides(vision, vision, {IMAGE: given.get(IMAGE, vision.num_patches)})
    number, pixels_of_one = height * width, _channels(vision) * vision.patch_size**2
    return {
        "pixel_values": torch.zeros(1, number, pixels_of_one, device="meta"),
        "spatial_shapes": torch.tensor([[height, width]], device="cpu"),
        "pixel_attention_mask": torch.ones(1, number, dtype=torch.long, device="cpu"),
    }


def _placed(vision: Any, given: Mapping[str, int]) -> dict[str, Any]:
    """One image as a batch of patches with their places (Gemma 4)."""
    pooled = getattr(vision, "pooling_kernel_size", 1)
    number = length(given, IMAGE)
    if number % pooled**2:
        raise ConfigError(
            f"executed: image={number} is not a number of whole {pooled}x{pooled} patches"
        )
    places = torch.arange(number, device="cpu")
    rows = torch.stack((places % pooled, places // pooled), -1)[None]
    width = _channels(vision) * vision.patch_size**2
    return {
        "pixel_values": torch.zeros(1, number, width, device="meta"),
        "image_position_ids": rows,
    }


def _placed_alone(vision: Any, given: Mapping[str, int]) -> dict[str, Any]:
    """The same for the tower alone, which calls the places otherwise."""
    made = _placed(vision, given)
    return {"pixel_position_ids": made.pop("image_position_ids"), **made}


def _tiles(config: Any, vision: Any) -> dict[str, Any]:
    """One image as large as the first grid of tiles, and a tile with a small copy of the whole image."""
    height, width = config.image_grid_pinpoints[0]
    size = vision.image_size
    number = 1 + -(-height // size) * -(-width // size)
    return {
        "pixel_values": torch.zeros(1, number, _channels(vision), size, size, device="meta"),
        "image_sizes": torch.tensor([[height, width]], device="cpu"),
    }


def _tiled(vision: Any, given: Mapping[str, int]) -> dict[str, Any]:
    """Images with the largest number of tiles that the model takes; the whole text attends to them (Llama 3.2
    Vision)."""
    number, tiles, size = given.get(IMAGES, 1), vision.max_num_tiles, vision.image_size
    ones = {"dtype": torch.long, "device": "cpu"}
    shape = (1, number, tiles, _channels(vision), size, size)
    return {
        "pixel_values": torch.zeros(shape, device="meta"),
        "aspect_ratio_ids": torch.ones(1, number, **ones),
        "aspect_ratio_mask": torch.ones(1, number, tiles, **ones),
        "cross_attention_mask": torch.ones(1, length(given, TOKENS), number, tiles, **ones),
    }


MAKERS: dict[str, Callable[[Any, Mapping[str, int]], dict[str, Any]]] = {
    "spatial_shapes": _padded,
    "image_position_ids": _placed,
    "pixel_position_ids": _placed_alone,
    "aspect_ratio_ids": _tiled,
}
"""The function that makes the images for a class, by an argument that only such classes take."""


def video(module: Any, given: Mapping[str, int]) -> dict[str, Any]:
    """One video of frames of the configuration's size."""
    vision = getattr(module.config, "vision_config", None) or module.config
    return {"pixel_values_videos": _frames(vision, given)}


def _frames(vision: Any, given: Mapping[str, int]) -> Any:
    """Frames of a video: as many as the configuration fixes, else as are given."""
    fixed = getattr(vision, "num_frames", None) or getattr(vision, "frames_per_clip", None)
    size = getattr(vision, "image_size", None) or getattr(vision, "crop_size", USUAL)
    shape = (1, fixed or length(given, FRAMES), _channels(vision), *_both_sides(size))
    return torch.zeros(shape, device="meta")


def features_of(module: Any, inputs: Mapping[str, Any], kind: str) -> int:
    """The number of features that the model makes of its images, videos or sounds, found by running that part."""
    name = f"get_{kind}_features"
    maker = getattr(module, name, None) or getattr(getattr(module, "model", None), name, None)
    if maker is None:  # the images are not part of the text that attends to them
        return 1
    wanted = inspect.signature(maker).parameters
    found = maker(**{name: value for name, value in inputs.items() if name in wanted})
    pooled = getattr(found, "pooler_output", found)
    found = found.last_hidden_state if pooled is None else pooled
    parts = found if isinstance(found, list | tuple) else [found]
    return sum(part.numel() // part.shape[-1] for part in parts)
