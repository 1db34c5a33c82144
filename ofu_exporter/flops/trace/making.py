"""Makes recipes: of a configuration, or of a user's own module and an example batch."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ofu_exporter import __version__
from ofu_exporter.flops.recipes import Recipe, tokens_of
from ofu_exporter.flops.trace import from_config
from ofu_exporter.flops.trace.execution import Executed, executed
from ofu_exporter.flops.trace.fitting import Fitted, fitted
from ofu_exporter.flops.trace.grouping import recipe_terms, tower_of

TOWERS = ("vision", "sound", "language", "model")
WRAPPERS = {"DistributedDataParallel", "DataParallel"}


def recipe_of_config(
    config: Mapping[str, Any], lengths: Mapping[str, int], backward: bool = True
) -> Recipe:
    """The recipe of a configuration's model, through these lengths of a sample.

    Raises ConfigError where the model cannot be built, or cannot be run at these lengths.
    """
    module = from_config.built(config)

    def run(at: Mapping[str, int]) -> Executed:
        module.zero_grad(set_to_none=True)
        return from_config.executed_sample(module, at, backward)

    used = from_config.streams_of(module, lengths)
    fit = fitted(run, {name: lengths[name] for name in used})
    library = "diffusers" if "_class_name" in config else "transformers"
    named: Any = config.get("_class_name") or config.get("architectures") or config["model_type"]
    return _recipe(str(named[0] if isinstance(named, list) else named), library, fit)


def _recipe(name: str, library: str | None, fit: Fitted, samples: int = 1) -> Recipe:
    recorder = fit.at.recorder
    share = Fraction(1, samples)
    polynomials = {
        group: {factor: value * share for factor, value in polynomial.items()}
        for group, polynomial in fit.polynomials.items()
    }
    tokens = Fraction(max(tokens_of(fit.lengths), 1) * samples)
    towers = {tower_of(each.module) for each in recorder.products}
    is_composed = "tokens" in fit.lengths and len(towers) > 1
    libraries = filter(None, ("torch", library))
    versions = {name: str(importlib.import_module(name).__version__) for name in libraries}
    terms = tuple(recipe_terms(recorder, polynomials, tokens, is_composed))
    return Recipe(
        recipe_version=1,
        architecture=name,
        made_with={"ofu-exporter": __version__, **versions},
        lengths=fit.lengths,
        fixed=fit.fixed,
        # What the others feed stands last.
        towers=tuple(name for name in TOWERS if any(term.tower == name for term in terms)),
        layers=recorder.layers(),
        trained_parameters=fit.at.trained,
        terms=terms,
        fit=fit.fit,
        notes=tuple(text[:400] for text in fit.warnings),
    )


def recipe_of_module(module: Any, batch: Any, backward: bool) -> Recipe:
    """The recipe of any torch.nn.Module and an example batch: a tensor, a tuple of arguments, or a mapping of them.

    Its parameters are replaced by their shapes meanwhile, so that nothing of it changes, no gradient is left in it and
    no memory of a GPU is used. Where the batch has whole numbers of shape (samples, tokens), such as `input_ids`, it is
    executed at shorter lengths too; else the recipe counts samples alone. Make it before the module is sharded over
    GPUs. Raises ConfigError where it cannot be run on shapes.
    """
    module = getattr(module, "module", module) if type(module).__name__ in WRAPPERS else module
    arguments = (batch,) if isinstance(batch, torch.Tensor) else batch
    if isinstance(batch, Mapping):  # torch does not look into a tokenizer's answer
        arguments = dict(batch)
    shapes = pytree.tree_map(_shape, arguments)
    samples, tokens = _sizes(shapes)

    def run(lengths: Mapping[str, int]) -> Executed:
        cut = pytree.tree_map(lambda each: _cut(each, tokens, lengths.get("tokens")), shapes)
        return _run(module, cut, backward)

    fit = fitted(run, {"tokens": tokens} if tokens else {}, samples)
    return _recipe(type(module).__name__, None, fit, samples)


def _run(module: Any, batch: Any, backward: bool) -> Executed:
    """One execution, with shapes in place of the values of parameters and buffers; whole numbers keep theirs."""
    parameters = {
        name: torch.nn.Parameter(torch.empty_like(each, device="meta"), each.requires_grad)
        for name, each in module.named_parameters()
    }
    buffers = {name: _shape(each) for name, each in module.named_buffers()}
    swap = torch.nn.utils.stateless._reparametrize_module
    failing = f"recipe: {type(module).__name__} cannot be run on shapes alone"
    with swap(module, {**parameters, **buffers}, tie_weights=True), from_config.explained(failing):
        return executed(module, batch, backward)


def _shape(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    plain = value.is_floating_point() or value.is_complex()
    return torch.empty_like(value, device="meta") if plain else value.detach().cpu()


def _sizes(batch: Any) -> tuple[int, int | None]:
    """The samples of a batch, and the tokens of each; None where no input is a text."""
    tensors = [each for each in pytree.tree_leaves(batch) if isinstance(each, torch.Tensor)]
    if not tensors or not tensors[0].dim():
        return 1, None
    ids = [each for each in tensors if each.dim() == 2 and not each.is_floating_point()]
    if ids:
        return int(ids[0].shape[0]), int(ids[0].shape[1])
    return int(tensors[0].shape[0]), None


def _cut(value: Any, tokens: int | None, length: int | None) -> Any:
    """A tensor whose sides of as many entries as the text has tokens are cut to a length."""
    if not isinstance(value, torch.Tensor) or length is None or length == tokens:
        return value
    for side, size in enumerate(value.shape):
        if size == tokens:
            value = value.narrow(side, 0, length)
    return value
