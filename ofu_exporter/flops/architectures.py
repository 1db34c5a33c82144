"""Which architectures are counted, and how: those of families, and what was executed of each library's own models.

`architectures.csv` is written by `python -m tests.helpers.model_table`, which builds every model type of transformers,
and the denoisers of diffusers that people train, of its default configuration.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

FILE = Path(__file__).parent / "architectures.csv"
NOT_BUILT = ("no default configuration", " cannot build ")
"""Words of the reasons that lie before any model is there."""


@dataclass(frozen=True)
class ArchitectureRow:
    """What is known of one kind of model."""

    kind: str
    """The model type of transformers, or `diffusers` and the class."""
    architecture: str
    ours: int | None = None
    """Parameters by the closed form."""
    theirs: int | None = None
    """Parameters of the model that the library builds."""
    executed: str = ""
    """The passes that torch executes of it."""
    recipe: str = ""
    """How far a recipe is off where it was not fitted, such as 0 or 0.0005; "" where none was made."""
    run: str = ""
    """With which versions, and when."""
    refusal: str = ""
    """Why the closed form refuses the default configuration."""
    why: str = ""
    """Why it is not executed, or what the run left out."""

    @property
    def closed(self) -> bool:
        """Whether a family reads the class, though it may refuse the default configuration."""
        return self.ours is not None or bool(self.refusal)

    @property
    def built(self) -> bool:
        """Whether the library builds the model of its default configuration."""
        return bool(self.executed) or not any(words in self.why for words in NOT_BUILT)


def read(text: str) -> list[ArchitectureRow]:
    return [_row(**each) for each in csv.DictReader(StringIO(text))]


def _row(ours: str, theirs: str, **words: str) -> ArchitectureRow:
    return ArchitectureRow(
        ours=int(ours) if ours else None, theirs=int(theirs) if theirs else None, **words
    )


def known_architectures() -> list[ArchitectureRow]:
    """The rows that come with this package."""
    return read(FILE.read_text(encoding="utf-8"))


def summary(rows: list[ArchitectureRow], families: Iterable[str]) -> list[str]:
    """What the rows come to, in sentences; `families` are the architectures that have a closed form."""
    closed = {*families}
    built = [each for each in rows if each.built]
    executed = [each for each in built if each.executed]
    off = [abs(float(each.recipe)) for each in rows if each.recipe]
    either = sum(bool(each.executed) or each.architecture in closed for each in rows)
    return [
        f"{len(closed)} architectures have a closed form.",
        f"torch executes {len(executed)} of the {len(built)} of {len(rows)} model types that their library builds of "
        "its default configuration.",
        f"Recipes were made of {len(off)} of them: {sum(not each for each in off)} are exact where they were not "
        f"fitted, {sum(each <= 0.01 for each in off)} within 1 %.",
        f"{either} of {len(rows)} have an answer.",
    ]
