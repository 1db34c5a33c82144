"""Values without the last digits of their floats, which versions of Python add up differently."""

from __future__ import annotations

import json
import re

from pydantic import BaseModel


def rounded(value: object) -> object:
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def as_json(result: BaseModel) -> str:
    return json.dumps(rounded(result.model_dump(mode="json")), indent=1)


def schemas(*models: type[BaseModel]) -> str:
    """What models say of their fields; not of themselves, which pydantic 2.12 leaves out for some kinds of classes."""
    written = {each.__name__: each.model_json_schema() for each in models}
    for schema in written.values():
        for part in (schema, *schema.get("$defs", {}).values()):
            part.pop("description", None)
    return json.dumps(written, indent=1)


def without_last_digits(text: str) -> str:
    """A text without the last digits of the long numbers in it."""
    return re.sub(r"\d+\.\d{10,}(e-?\d+)?", lambda found: f"{float(found[0]):.9g}", text)
