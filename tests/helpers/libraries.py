"""Libraries that only some tests need; what is missing is a skip that says so."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import pytest


def library(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(name)
        except ImportError:
            pytest.skip(f"{name} is not installed")
