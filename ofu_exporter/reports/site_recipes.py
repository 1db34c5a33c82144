"""Reads recipes of models by their names, from the folder that the site keeps them in."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops import recipes
from ofu_exporter.flops.config_file import READY, parsed, ready_recipes
from ofu_exporter.flops.recipes import Recipe
from ofu_exporter.reports.messages import MfuReport, out_of_range
from ofu_exporter.support.small_files import read_small

MOST_BYTES = 256 << 10
KEPT = 16
"""Most recipes that are remembered."""


def with_recipe(report: MfuReport, folder: Path | None) -> tuple[MfuReport, str | None]:
    """The report with the recipe that it names, and why there is none. Raises ReportError where it needs one."""
    model = report.model
    if model is None or not isinstance(model.recipe, str):
        return report, None
    try:
        recipe = named_recipe(folder, model.recipe)
    except ConfigError as error:
        if report.counts_model:
            raise out_of_range("model", str(error)) from error
        return report.model_copy(update={"model": None}), f"model: {error}; it explains nothing"
    with_it = model.model_copy(update={"recipe": recipe})
    return report.model_copy(update={"model": with_it}), None


def named_recipe(folder: Path | None, name: str) -> Recipe:
    """The package's own recipe of a name, otherwise that of the site's folder, as it is now.

    Raises ConfigError, which says what is missing.
    """
    folder = READY if name in ready_recipes() else folder
    if folder is None:
        raise ConfigError(f"recipe {name!r}: this agent has no folder of recipes (recipe_folder)")
    path = folder / f"{name}.json"
    try:
        text = read_small(path, "the recipe", MOST_BYTES)
    except ConfigError as error:  # where the site keeps its files is nothing that a job has to know
        raise ConfigError(str(error).replace(str(path), path.name)) from error
    return _read(text, path.name)


@lru_cache(KEPT)
def _read(text: str, name: str) -> Recipe:
    fields = parsed(text, f"the recipe {name}")
    try:
        return recipes.read(fields)
    except ConfigError as error:
        raise ConfigError(f"the recipe {name}: {error}") from error
