"""Finds the recipe of a job's model, which the job's environment names: `OFU_EXPORTER_RECIPE`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MOST_BYTES = 200_000
"""A report with a larger recipe would be refused."""


def facts(environ: Mapping[str, str]) -> dict[str, Any]:
    """The fact `model` of a job; empty if its environment names no recipe.

    `OFU_EXPORTER_RECIPE` is the path of a file (with a slash), or a name in the folder of recipes that the site's
    agents have; `OFU_EXPORTER_SEQ_LEN` is the length of its sequences, otherwise the recipe's own is counted.
    Raises ValueError and OSError for what cannot be read.
    """
    named = environ.get("OFU_EXPORTER_RECIPE", "").strip()
    if not named:
        return {}
    model: dict[str, Any] = {"recipe": _read(Path(named)) if "/" in named else named}
    length = environ.get("OFU_EXPORTER_SEQ_LEN", "").strip()
    return {"model": {**model, "seq_len": int(length)} if length else model}


def _read(path: Path) -> Any:
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"{path} has more than {MOST_BYTES} bytes, which no recipe has")
    return json.loads(content)
