"""Makes the page about the API for people, from its OpenAPI document; it loads nothing from elsewhere."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from typing import Any

BODY = "MfuReport"
"""The schema of a report's body, whose fields the page explains."""


def api_page(document: Mapping[str, Any]) -> str:
    """The routes, what each is for, and the fields of a report."""
    routes = "".join(_routes(document))
    fields = "".join(_fields(document["components"]["schemas"][BODY]))
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>ofu-exporter: API</title>"
        "<style>body{font:16px/1.5 system-ui,sans-serif;margin:2rem;max-width:70rem}"
        "table{border-collapse:collapse}td,th{padding:.2rem 1rem .2rem 0;text-align:left;"
        "vertical-align:top}</style><h1>API</h1>"
        "<p>Metrics: <a href=/metrics>/metrics</a>. The full description, for programs: "
        "<a href=/openapi.json>/openapi.json</a>.</p>"
        f"<table><tr><th>Request<th>What for{routes}</table>"
        f"<h2>A report</h2><p>The JSON body of <code>POST /v1/mfu</code>:</p>"
        f"<table><tr><th>Field<th>What it says{fields}</table>"
        "<p><a href=/>start page</a></p></html>"
    )


def _routes(document: Mapping[str, Any]) -> Iterator[str]:
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            name = html.escape(f"{method.upper()} {path}")
            yield f"<tr><td><code>{name}</code><td>{html.escape(route['summary'])}"


def _fields(schema: Mapping[str, Any]) -> Iterator[str]:
    for name, field in schema["properties"].items():
        need = " (needed)" if name in schema.get("required", ()) else ""
        about = html.escape(field.get("description", ""))
        yield f"<tr><td><code>{html.escape(name)}</code>{need}<td>{about}"
