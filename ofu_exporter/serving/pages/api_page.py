"""Makes the page about the API, from its OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ofu_exporter.serving.pages.elements import Cell, Column, Html, document, element, link, table

BODY = "MfuReport"
"""The schema of a report's body, whose fields the page explains."""


def api_page(openapi: Mapping[str, Any]) -> str:
    """The routes, what each is for, and the fields of a report."""
    links = (link("/", "This node"), link("/openapi.json", "The same for programs"))
    return document(
        "ofu-exporter: API",
        element("header", element("h1", "API"), element("nav", *links, aria_label="Data")),
        _section("Requests", "routes", ("Request", "What for"), _routes(openapi)),
        _section(
            "The JSON body of POST /v1/mfu",
            "fields",
            ("Field", "What it says"),
            _fields(openapi["components"]["schemas"][BODY]),
        ),
    )


def _section(
    title: str, name: str, heads: tuple[str, str], rows: Iterator[tuple[Html, str]]
) -> Html:
    columns = [Column(head) for head in heads]
    cells = (("", [Cell(first), Cell(second)]) for first, second in rows)
    return element("section", element("h2", title), table(name, columns, cells), _class="card")


def _routes(openapi: Mapping[str, Any]) -> Iterator[tuple[Html, str]]:
    yield element("code", "GET /metrics"), "The metrics, for Prometheus"
    for path, methods in openapi["paths"].items():
        for method, route in methods.items():
            yield element("code", f"{method.upper()} {path}"), route["summary"]


def _fields(schema: Mapping[str, Any]) -> Iterator[tuple[Html, str]]:
    for name, field in schema["properties"].items():
        need = " Needed." if name in schema.get("required", ()) else ""
        yield element("code", name), field.get("description", "") + need
