"""Reads what an hour of a GPU costs, by model, from a file of the operator's."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from ofu_exporter.support import checked_yaml
from ofu_exporter.support.checked_yaml import YamlSection
from ofu_exporter.support.numbers import NO_TRUTH

Price = Annotated[float, Field(ge=0, le=1e9), NO_TRUTH, AfterValidator(abs)]  # -0.0 is 0


class Prices(YamlSection):
    """What GPU-hours cost."""

    currency: str = Field(default="USD", pattern=r"^[A-Z]{3}$")
    gpu_hour: dict[str, Price] = Field(default_factory=dict)
    """By model, as `ofu_gpu_info` names it; `*` stands for any characters, and the first that fits counts."""

    def of(self, model: str) -> float | None:
        """The price of an hour; None where nobody said."""
        for pattern, price in self.gpu_hour.items():
            if fnmatchcase(model.lower(), pattern.lower()):
                return price
        return None

    def of_mix(self, models: Mapping[str, float]) -> float | None:
        """The mean price over models by their weights; None where one of them has none, or none is known."""
        weight = sum(models.values())
        priced = [(self.of(model), share) for model, share in models.items()]
        if not weight or any(price is None for price, _ in priced):
            return None
        return sum((price or 0.0) * share for price, share in priced) / weight


def read_prices(path: Path) -> Prices:
    """The prices in a YAML file. Raises ConfigError, which names what cannot be used."""
    return checked_yaml.read(path, "prices", Prices).content
