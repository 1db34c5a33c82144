"""The parts of the chart's values schema that are somebody else's words: Kubernetes' and the exporter's.

So a value that could not work is refused by `helm install`, and not by a pod that does not start.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any, get_args

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ofu_exporter import schedulers, sources
from ofu_exporter.cli.run import run
from ofu_exporter.cli.settings import option_models
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


def bounds() -> str:
    """A file with the least and the most seconds of every duration that has such bounds."""
    found = {}
    for name, field in (each for model in _models() for each in model.model_fields.items()):
        least, most = CHECKED.get(name, (0.0, 1e11))
        for each in field.metadata:
            least, most = getattr(each, "ge", least), getattr(each, "le", most)
        if _is_duration(field) and (least, most) != (0.0, 1e11):
            found[name] = {"least": least, "most": most}
    head = "# Seconds; made from the exporter's settings by pytest tests/deploy/test_chart.py --regenerate.\n"
    return head + yaml.safe_dump(found)


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
