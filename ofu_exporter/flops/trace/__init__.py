"""Counts what torch executes of a model of any kind, with torch's own counter: needs the extra `executed`."""

from __future__ import annotations

import importlib
from typing import Any

from ofu_exporter.errors import ConfigError
from ofu_exporter.support.extras import install_command


def load(name: str, wanted: str) -> Any:
    """A module of this package, for what is `wanted`. Raises ConfigError where torch is missing."""
    try:
        return importlib.import_module(f"{__name__}.{name}")
    except ImportError as error:
        raise ConfigError(f"{wanted}: {error}: {install_command('executed')}") from error
