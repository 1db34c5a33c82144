"""Describes the routes as an OpenAPI document, from the models of what they take and answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from ofu_exporter import __version__
from ofu_exporter.serving.routes import JSON, Described, NumberAsked, Route

PUBLISHED_NAMES = {
    "GpuJson": "GpuState",
    "GpuTotals": "GpuReport",
    "JobTotals": "JobReport",
    "WindowJson": "WindowState",
}
"""Classes that have another name in /openapi.json: a client that was generated from it keeps its names."""
_SCHEMAS = "#/components/schemas/"


def openapi(routes: Iterable[Route]) -> dict[str, Any]:
    """The document about those routes that say what they are."""
    paths: dict[str, Any] = {}
    described = [(route, route.described) for route in routes if route.described is not None]
    for route, about in described:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, about)
    document = {
        "openapi": "3.1.0",
        "info": {"title": "ofu-exporter", "version": __version__},
        "paths": paths,
        "components": {"schemas": _schemas(about for _, about in described)},
    }
    published: dict[str, Any] = _published(document)
    schemas = published["components"]["schemas"]
    published["components"]["schemas"] = dict(sorted(schemas.items()))
    return published


def _published(document: Mapping[str, Any]) -> Any:
    """The document with the published names in the place of ours."""
    text = json.dumps(document)
    for ours, published in PUBLISHED_NAMES.items():
        text = text.replace(f'"{ours}"', f'"{published}"')
        text = text.replace(f'{_SCHEMAS}{ours}"', f'{_SCHEMAS}{published}"')
    return json.loads(text)


def _schemas(described: Iterable[Described]) -> dict[str, Any]:
    """The schemas of all models, and of what they consist of."""
    models: dict[tuple[type[BaseModel], JsonSchemaMode], None] = {}
    for about in described:
        if about.body is not None:
            models[about.body, "validation"] = None
        for answered in (about.answer, *(model for _, model in about.statuses.values())):
            if answered is not None:
                models[answered, "serialization"] = None
    _, schema = models_json_schema([*models], ref_template=f"{_SCHEMAS}{{model}}")
    return dict(schema["$defs"])


def _operation(route: Route, about: Described) -> dict[str, Any]:
    method = route.method.lower()
    name = re.sub(r"\W", "_", f"{route.answer.__name__}{route.path}_{method}")
    operation: dict[str, Any] = {"summary": about.summary, "operationId": name}
    if "{" in route.path:
        operation["parameters"] = [_parameter(route.path.partition("{")[2].rstrip("}"))]
    if about.number is not None:
        operation["parameters"] = [_asked(about.number)]
    if about.body is not None:
        operation["requestBody"] = {"content": _json(_reference(about.body)), "required": True}
    operation["responses"] = {"200": _success(name, about), **_others(about)}
    return operation


def _parameter(name: str) -> dict[str, Any]:
    title = name.replace("_", " ").title()
    schema = {"type": "string", "title": title}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _asked(number: NumberAsked) -> dict[str, Any]:
    schema = {"type": "integer", "minimum": 0, "default": 0, "title": number.name.title()}
    return {
        "name": number.name,
        "in": "query",
        "required": False,
        "description": number.what,
        "schema": schema,
    }


def _success(name: str, about: Described) -> dict[str, Any]:
    """What is answered where all is well."""
    text: dict[str, Any] = {"text/plain": {}} if about.also_text else {}
    if about.answer is None:
        content: dict[str, Any] = {"text/plain": {"schema": {"type": "string"}}}
    elif about.is_list:
        title = f"Response {name.replace('_', ' ').title()}"
        content = _json({"items": _reference(about.answer), "type": "array", "title": title})
    else:
        content = _json(_reference(about.answer))
    return {"description": about.also_text or "Successful Response", "content": {**content, **text}}


def _others(about: Described) -> dict[str, Any]:
    """What is answered otherwise, by status."""
    return {
        str(status): {
            "description": meaning,
            **({} if model is None else {"content": _json(_reference(model))}),
        }
        for status, (meaning, model) in about.statuses.items()
    }


def _json(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {JSON: {"schema": schema}}


def _reference(model: type[BaseModel]) -> dict[str, Any]:
    return {"$ref": f"{_SCHEMAS}{model.__name__}"}
