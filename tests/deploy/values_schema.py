"""The parts of the chart's values schema that are somebody else's words: Kubernetes' and the exporter's."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from pydantic import BaseModel

from ofu_exporter.cli.settings import option_models
from ofu_exporter.settings import Settings

PREFIX = "#/definitions/"
Schema = dict[str, Any]


def definitions(schema: Schema, version: str) -> Schema:
    """Kubernetes' definitions, as strict as they come, of every object that the schema refers to."""
    folder = resources.files("kubernetes_validate") / "kubernetes-json-schema"
    text = (folder / f"v{version}-local-strict" / "_definitions.json").read_text()
    known = json.loads(text)["$defs"]
    wanted, found = references(schema), {}
    while wanted:
        name = wanted.pop()
        found[name] = bare(known[name])
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


def settings(own: Schema) -> Schema:
    """The exporter's settings by name; `own` are the chart's schemas for some. Values it checks itself."""
    models: list[type[BaseModel]] = [Settings, *option_models().values()]
    names = {name: field for model in models for name, field in model.model_fields.items()}
    return {
        name: {"description": field.description, **own.get(name, {})}
        for name, field in names.items()
    }
