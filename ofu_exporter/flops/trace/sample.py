"""Says of one sample for which module it is made and how long its streams are, and makes its tensors."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import torch

from ofu_exporter.errors import ConfigError

Stream = (
    Literal["tokens", "source", "target", "prompt"]
    | Literal["image", "images", "frames", "audio", "latent"]
)
"""The texts of a sample, and its images, sounds and latents."""


class ModuleSample:
    """One sample of a module that transformers or diffusers built."""

    def __init__(self, module: Any, lengths: Mapping[str, int]) -> None:
        self.module, self.lengths, self.config = module, lengths, module.config
        self.names = inspect.signature(module.forward).parameters
        """The arguments of its forward pass."""
        self.vision = getattr(self.config, "vision_config", None) or self.config
        """The configuration of what reads images."""

    @property
    def frames(self) -> int:
        return self.lengths.get("frames", 1)

    def length(self, stream: Stream) -> int:
        """The length of a stream. Raises ConfigError, which names the option that gives it."""
        if stream not in self.lengths:
            option = "--seq-len N" if stream == "tokens" else f"--length {stream}=N"
            raise ConfigError(f"executed: the model needs {option}")
        return self.lengths[stream]

    def needs(self, name: str) -> bool:
        """Whether the forward pass has an argument without a default."""
        return name in self.names and self.names[name].default is inspect.Parameter.empty


def zeros(*shape: int) -> torch.Tensor:
    """Numbers without values."""
    return torch.zeros(shape, device="meta")


def ones(*shape: int) -> torch.Tensor:
    """Whole numbers, which keep their values."""
    return torch.ones(shape, dtype=torch.long, device="cpu")


def is_tensor(value: object) -> bool:
    """Whether a leaf of arguments is a tensor."""
    return isinstance(value, torch.Tensor)


def storage_of(tensor: torch.Tensor) -> int:
    """What tensors that share their elements have in common, as long as one of them lives."""
    return int(tensor.untyped_storage()._cdata)


def first(names: tuple[str, ...], *configs: Any) -> Any:
    """The first of some fields that is there and neither null nor 0; None for none."""
    values = (getattr(config, name, None) for config in configs for name in names)
    return next(filter(None, values), None)


def with_inner(config: Any) -> Iterator[Any]:
    """A configuration and those inside it."""
    yield config
    for name in getattr(config, "sub_configs", {}):
        inner = getattr(config, name, None)
        if inner is not None:
            yield from with_inner(inner)
