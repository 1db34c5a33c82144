"""Finds a counting convention by its name, which is the name of its file.

A convention is one module in this package; its file name is what `--convention` takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from ofu_exporter.flops.models import Counting, Model
from ofu_exporter.flops.shapes import Decoder
from ofu_exporter.flops.terms import Term
from ofu_exporter.support.registry import Registry


class Convention(Protocol):
    """What a module of this package offers."""

    __doc__: str | None

    def terms(self, model: Model, counting: Counting) -> Sequence[Term]:
        """The terms that it counts. Raises ConfigError for a model that it is not defined for."""

    def warnings(self, model: Model, shape: Decoder, counting: Counting) -> Iterable[str]:
        """Where its count is known to differ from what this model, which ends in a decoder, executes."""


OWN = "model"
"""The convention whose terms are the model's own: parts can be frozen, adapters added, and layers recomputed without
what is around them."""
_MODULES: Registry[Convention] = Registry(__name__, "convention")
names, load, summary = _MODULES.names, _MODULES.load, _MODULES.summary
