"""Finds the configuration of a model: a file, a folder with one in it, or a model in Hugging Face's local cache."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache as cached
from pathlib import Path

from ofu_exporter.errors import ConfigError
from ofu_exporter.support import unique_keys
from ofu_exporter.support.small_files import read_small

PLACES = ("config.json", "transformer/config.json", "unet/config.json")
"""Where a model's folder has its configuration: transformers' place, then a diffusers pipeline's."""
MOST_BYTES = 4 << 20
"""The largest configuration that is read: one with thousands of labels has some hundred KiB."""
READY = Path(__file__).parent / "ready"
"""Recipes that come with this package."""
MODEL_ID = re.compile(r"[\w.-]+/[\w.-]+")


def read_configuration(path_or_id: Path) -> Mapping[str, object]:
    """The configuration that a path or a model id stands for. Raises ConfigError, which says what to do."""
    path = _path_of(path_or_id)
    return parsed_config(read_small(path, "the configuration", MOST_BYTES), str(path))


def parsed_config(text: str, named: str) -> Mapping[str, object]:
    """The configuration or recipe in a text; errors call it `named`. Raises ConfigError."""
    try:
        config = unique_keys.parsed(text)
    except unique_keys.RepeatedKey as error:
        raise ConfigError(f"{named}: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{named} is not JSON: {error}") from error
    if not isinstance(config, Mapping):
        raise ConfigError(f"{named}: the top level is not a configuration")
    return config


def _path_of(path: Path) -> Path:
    name = str(path)
    if path.is_dir():
        place, missing = _inside(path), f"the folder has no {' or '.join(PLACES)}"
    elif path.exists():
        return path
    elif name in ready_recipes():
        return READY / f"{name}.json"
    elif not MODEL_ID.fullmatch(name) or name.endswith(".json"):
        place, missing = (
            None,
            "there is no such file, and ofu-exporter brings no recipe of that name",
        )
    else:
        how = f"download its configuration: hf download {name} config.json"
        place, missing = _cached(name), f"no such file, and no such model in {cache()}; {how}"
    if place is None:
        raise ConfigError(f"{name}: {missing}")
    return place


@cached
def ready_recipes() -> tuple[str, ...]:
    """The names of the recipes that come with this package."""
    return tuple(sorted(path.stem for path in READY.glob("*.json")))


def _inside(folder: Path) -> Path | None:
    return next((folder / place for place in PLACES if (folder / place).is_file()), None)


def cache() -> Path:
    """Hugging Face's cache of models on this machine, as its own library finds it."""
    home = os.environ.get("HF_HOME") or Path(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "huggingface"
    )
    return Path(os.environ.get("HF_HUB_CACHE") or Path(home, "hub"))


def _cached(name: str) -> Path | None:
    """The configuration of a model in the cache: of its main revision, otherwise of any revision."""
    folder = cache() / f"models--{name.replace('/', '--')}"
    try:
        main = [(folder / "refs" / "main").read_text(encoding="utf-8").strip()]
    except OSError:
        main = []
    others = sorted(path.name for path in folder.glob("snapshots/*"))
    places = (_inside(folder / "snapshots" / revision) for revision in (*main, *others))
    return next(filter(None, places), None)
