"""Builds the model of a configuration without weights, with transformers or diffusers."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import os
import warnings
from collections import UserDict
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.lengths import Lengths
from ofu_exporter.flops.trace.diffusion_inputs import inputs_of_diffusion
from ofu_exporter.flops.trace.execution import Executed, executed
from ofu_exporter.flops.trace.shapes_only import ShapesOnly
from ofu_exporter.flops.trace.transformer_inputs import inputs_of_transformer
from ofu_exporter.flops.trace.untrusted import check_layers, without_network
from ofu_exporter.support.extras import install_command

Configuration = Mapping[str, Any]
LAZY = "Could not import module"
"""What transformers says of a class whose import fails, whatever the reason is, which it chains."""


def executed_of(
    config: Configuration, lengths: Mapping[str, int], backward: bool = True
) -> Executed:
    """What torch executes of one sample of the model of a configuration. Raises ConfigError, which says why, if the
    library is missing or does not know the model, or if the model can't be run without weights."""
    return executed_sample(built(config), lengths, backward)


def executed_sample(module: Any, lengths: Mapping[str, int], backward: bool = True) -> Executed:
    """What torch executes of one sample of a module that was built here. Raises ConfigError, as above."""
    inputs = inputs_of(module, lengths)
    failing = f"executed: {type(module).__name__}: it could not be run without weights"
    with explained(failing), _quiet():
        return executed(module, inputs, backward)


def inputs_of(module: Any, lengths: Mapping[str, int]) -> Any:
    """The inputs of one sample of a module that was built here. Raises ConfigError."""
    of_diffusers = type(module).__module__.startswith("diffusers")
    make = inputs_of_diffusion if of_diffusers else inputs_of_transformer
    failing = f"executed: {type(module).__name__}: its inputs could not be made"
    with explained(failing), ShapesOnly():
        return make(module, lengths)


def streams_of(module: Any, lengths: Mapping[str, int]) -> list[str]:
    """Those of the given streams that the inputs of a module depend on. Raises ConfigError."""
    watched = _WatchedLengths(lengths)
    inputs_of(module, watched)
    return [name for name in lengths if name in watched.names]


class _WatchedLengths(UserDict[str, int]):
    """Lengths that remember which of them were asked for."""

    def __init__(self, lengths: Mapping[str, int]) -> None:
        super().__init__(lengths)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> int:
        self.names.add(name)
        return super().__getitem__(name)


def sample_of(lengths: Lengths) -> tuple[dict[str, int], int]:
    """The streams of the one sample of a step, and how often the step has it. Raises ConfigError for unequal ones."""
    if lengths.moments is not None or len(lengths.samples) != 1:
        raise ConfigError("executed: needs samples of one length: --seq-len and --length")
    streams, number = lengths.samples[0]
    return dict(streams), number


def built(config: Configuration) -> Any:
    """The module of a configuration, on the meta device. Raises ConfigError where it can't be built."""
    check_layers(config)
    diffusion = "_class_name" in config
    library = _library("diffusers" if diffusion else "transformers")
    name = config.get("_class_name") or config.get("architectures") or config.get("model_type")
    failing = f"executed: {library.__name__} {library.__version__} cannot build {name}"
    with explained(failing), without_network(), ShapesOnly(), torch.device("meta"), _quiet():
        if diffusion:
            module = getattr(library, str(config["_class_name"])).from_config(dict(config))
        else:
            module = _transformer(library, config)
        # DiffLlama draws some weights on the CPU, whatever the device is.
        return module._apply(
            lambda each: each.to("meta") if each.is_floating_point() else each
        ).eval()


def _library(name: str) -> Any:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # it then fails at once, and does not try again
    with _quiet():
        try:
            return importlib.import_module(name)
        except ImportError as error:
            how = install_command("executed")
            raise ConfigError(f"executed: {name} is not installed: {how}") from error


def _transformer(library: Any, config: Configuration) -> Any:
    left_out = {"quantization_config", "auto_map"}
    fields = {name: _decoded(value) for name, value in config.items() if name not in left_out}
    names = fields.get("architectures") or []
    kind = getattr(library, names[0], None) if names else None
    if kind is not None and kind.config_class is not None:
        read = kind.config_class.from_dict(fields)
    elif "model_type" in fields:
        read = library.AutoConfig.for_model(**fields)
        kind = kind or _of_type(library, read)
    else:
        raise ConfigError(
            f"executed: {names} is not a class of transformers {library.__version__}; for a class of your own "
            "there is ofu_exporter.flops.executed(module, inputs)"
        )
    plain_kernels(read)
    return kind(read) if hasattr(kind, "forward") else kind.from_config(read)


def _decoded(value: Any) -> Any:
    """The value, with infinities as transformers writes them in JSON ({"__float__": "Infinity"}) made numbers."""
    if isinstance(value, Mapping):
        if set(value) == {"__float__"}:
            return float(value["__float__"])
        return {name: _decoded(inner) for name, inner in value.items()}
    return [_decoded(inner) for inner in value] if isinstance(value, list) else value


def _of_type(library: Any, config: Any) -> Any:
    """The class for a kind of configuration, with a head over the vocabulary if there is one."""
    for head in ("ForCausalLM", "ForImageTextToText", "ForSeq2SeqLM", ""):
        classes = getattr(library, f"AutoModel{head}")._model_mapping
        if type(config) in classes:
            return classes[type(config)]
    return library.AutoModel


def plain_kernels(config: Any) -> None:
    """Choose kernels made of products that the counter knows, in a configuration and its inner ones."""
    config._attn_implementation = "eager"
    names = getattr(config, "sub_configs", {})
    for inner in filter(None, (config, *(getattr(config, name, None) for name in names))):
        inner.__dict__["_experts_implementation_internal"] = "batched_mm"
        if hasattr(inner, "_experts_implementation"):
            inner._experts_implementation = "batched_mm"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep a library's own messages from being printed between our lines."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # their handlers keep the stderr that they began with
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@contextlib.contextmanager
def explained(failing: str) -> Iterator[None]:
    """Raise ConfigError, which begins with `failing`, for whatever else a model or a library raises."""
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"{failing}: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    while LAZY in str(error) and (cause := error.__cause__ or error.__context__):
        error = cause
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"[:300]
