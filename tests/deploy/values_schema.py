"""The parts of the chart's values schema that are somebody else's words: Kubernetes' and the exporter's.

So a value that could not work is refused by `helm install`, and not by a pod that does not start.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any, get_args

import click
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ofu_exporter import schedulers, sources
from ofu_exporter.cli.run import run
from ofu_exporter.cli.settings import OTHER_PREFIXES, OTHER_VARIABLES, option_models
from ofu_exporter.settings import PullSetting, Settings
from ofu_exporter.support.durations import seconds
from ofu_exporter.values.reading import LONGEST_WINDOW_SECONDS, SHORTEST_WINDOW_SECONDS

PREFIX = "#/definitions/"
Schema = dict[str, Any]
DURATION = r"^\s*[0-9]*\.?[0-9]+\s*(ms|s|m|h|)\s*$"
QUANTITY = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?$"
"""https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/"""
ACCEPTED: dict[str, tuple[Any, ...]] = {"kubernetes_metadata": (True, False)}
"""What settings take besides the values of their type: YAML takes on for true."""
CHECKED = {"interval": (SHORTEST_WINDOW_SECONDS, LONGEST_WINDOW_SECONDS)}
"""Bounds that a setting has in words of its own."""


_BOOLEAN = "0|off|f|false|n|no|1|on|t|true|y|yes"
TEXTS: dict[str, tuple[str, str]] = {
    "duration": (DURATION, "a duration such as 5s"),
    "boolean": (f"^(?i)({_BOOLEAN})$", "true or false"),
    "integer": (r"^\s*[+-]?[0-9]+(\.0*)?\s*$", "a whole number"),
    "number": (r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$", "a number"),
    "array": ("^[^\\s\\S]$", "to be set as text, but in config"),
}
"""How values are written in flags and variables, and what they are called."""


def definitions(schema: Schema, version: str) -> Schema:
    """Kubernetes' definitions, as strict as they come, of every object that the schema refers to."""
    folder = resources.files("kubernetes_validate") / "kubernetes-json-schema"
    text = (folder / f"v{version}-local-strict" / "_definitions.json").read_text()
    known = json.loads(text)["$defs"]
    wanted, found = references(schema), {}
    while wanted:
        name = wanted.pop()
        is_quantity = name.endswith(".Quantity")
        found[name] = _quantity() if is_quantity else bare(known[name])
        wanted |= references(found[name]) - found.keys()
    return dict(sorted(found.items()))


def references(schema: object) -> set[str]:
    """The names of Kubernetes' definitions that a schema points to, however deep."""
    if isinstance(schema, list):
        return set().union(*map(references, schema))
    if not isinstance(schema, dict):
        return set()
    name = schema.get("$ref", "").rpartition("/")[2]
    here = {name} if name.startswith("io.k8s.") else set()  # others point to values of the chart
    return here.union(*map(references, schema.values()))


def bare(schema: Any) -> Any:
    """Without what is for readers, which is most of it, and with references to this file."""
    if isinstance(schema, list):
        return [bare(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        key: bare(value)
        for key, value in schema.items()
        # A property may be called description; that one is an object.
        if not (key == "description" and isinstance(value, str)) and not key.startswith("x-")
    }
    if "$ref" in kept:
        kept["$ref"] = PREFIX + kept["$ref"].rpartition("/")[2]
    return kept


def _quantity() -> Schema:
    return {"anyOf": [{"type": "string", "pattern": QUANTITY}, {"type": "number"}]}


def _models() -> list[type[BaseModel]]:
    return [Settings, *option_models().values()]


def settings(own: Schema) -> Schema:
    """The exporter's settings by name, as its own models check them; `own` are the chart's schemas for some."""
    names = {
        "source": {"enum": ["auto", *sources.names()]},
        "scheduler": {"pattern": _list_of("auto", "none", "", *schedulers.names())},
        **own,
    }
    found: Schema = {}
    for model in _models():
        schema = model.model_json_schema()
        for part in (PullSetting,):
            properties = schema.get("$defs", {}).get(part.__name__, {}).get("properties", {})
            for name in properties:
                if _is_duration(part.model_fields[name]):
                    properties[name] = _duration(properties[name])
        for name, field in model.model_fields.items():
            shape = _shape(schema["properties"][name], schema.get("$defs", {}))
            if _is_duration(field):
                shape = _duration(shape)
            if name in ACCEPTED:
                shape = {"enum": [*shape["enum"], *ACCEPTED[name]]}
            found[name] = {"description": field.description, **shape, **names.get(name, {})}
    return found


def _shape(schema: Any, parts: Schema) -> Any:
    """A schema that pydantic makes, without what is for readers, and with its parts in their places."""
    if isinstance(schema, list):
        return [_shape(each, parts) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _shape(parts[schema["$ref"].rpartition("/")[2]], parts)
    for_readers = {"title", "description", "default", "format", "examples", "also", "flag", "gt"}
    return {
        key: {name: _shape(each, parts) for name, each in value.items()}
        if key == "properties"
        else _shape(value, parts)
        for key, value in schema.items()
        if key not in for_readers
    }


def _duration(shape: Schema) -> Schema:
    """The schema of a duration as it may be written: a number of seconds, or a text such as 5s."""
    kinds = ["number", "string", *(["null"] if "anyOf" in shape else [])]
    bounds = {key: value for key, value in shape.items() if key not in ("anyOf", "type")}
    return {**bounds, "type": kinds, "pattern": DURATION}


def _is_duration(field: FieldInfo) -> bool:
    """Whether a setting is a duration, perhaps one that may be left out."""
    kinds = [field, *map(FieldInfo.from_annotation, get_args(field.annotation))]
    return any(getattr(each, "func", None) is seconds for kind in kinds for each in kind.metadata)


def _list_of(*names: str) -> str:
    one = f"({'|'.join(names)})"
    return f"^{one}(,{one})*$"


def accepted() -> str:
    """A file with what each setting takes as text: its flags, a pattern with its words, and the bounds of numbers."""
    flags = {param.name: param for param in run.params if isinstance(param, click.Option)}
    fields = {name: field for model in _models() for name, field in model.model_fields.items()}
    found: Schema = {"config": {"flags": ["--config"]}}
    for name, shape in settings({}).items():
        words = _words(name, shape, _is_duration(fields[name]))
        found[name] = {**words, **_bounds(name, shape)}
        if option := flags.get(name):
            kind = "switches" if option.is_flag else "flags"
            found[name][kind] = [*option.opts, *option.secondary_opts]
    others = {"variables": [*OTHER_VARIABLES], "prefixes": [*OTHER_PREFIXES]}
    head = "# Made from the exporter's settings by pytest --regenerate.\n"
    return head + yaml.safe_dump({"settings": found, "others": others}, width=120)


def _words(name: str, shape: Schema, is_duration: bool) -> Schema:
    """A pattern of the setting as text, and what its values are called; nothing where every text will do."""
    kinds = [shape.get("type"), *(each.get("type") for each in shape.get("anyOf", ()))]
    for kind, (pattern, what) in TEXTS.items():
        if kind in kinds or (is_duration and kind == "duration"):
            return {"pattern": pattern, "what": what}
    if "enum" in shape:
        texts = [each for each in shape["enum"] if isinstance(each, str)]
        more = [] if texts == shape["enum"] else [_BOOLEAN]
        return {"pattern": f"^({'|'.join([*texts, *more])})$", "what": f"one of {', '.join(texts)}"}
    if name == "scheduler":
        known = ", ".join(("auto", "none", *schedulers.names()))
        return {"pattern": shape["pattern"], "what": f"of {known}"}
    if "pattern" in shape:
        return {"pattern": shape["pattern"], "what": f"of the form {shape['pattern']}"}
    return {}


def _bounds(name: str, shape: Schema) -> Schema:
    number = next((each for each in shape.get("anyOf", ()) if each["type"] != "null"), shape)
    keys = {"least": "minimum", "most": "maximum", "above": "exclusiveMinimum"}
    keys["below"] = "exclusiveMaximum"
    found = {each: float(number[key]) for each, key in keys.items() if key in number}
    return found | dict(zip(("least", "most"), CHECKED.get(name, ()), strict=False))


def arguments() -> str:
    """A pattern of one argument of `ofu-exporter run`: one of its flags, or the value of the flag before."""
    flags = {flag for each in run.params for flag in (*each.opts, *each.secondary_opts)}
    names = "|".join(sorted(flag.removeprefix("--") for flag in flags if flag.startswith("--")))
    return f"^(--({names.replace('.', '[.]')})(=.*)?|[^-].*|-?[0-9].*|)$"


def text(schema: Schema) -> str:
    """The schema as a file: what is the chart's own for readers, and each of Kubernetes' definitions in a line."""
    own = {key: value for key, value in schema.items() if key != "definitions"}
    lines = [
        f"    {json.dumps(name)}: {json.dumps(value, separators=(',', ':'))}"
        for name, value in schema["definitions"].items()
    ]
    body = json.dumps(own, indent=2).removesuffix("\n}")
    return body + ',\n  "definitions": {\n' + ",\n".join(lines) + "\n  }\n}\n"
