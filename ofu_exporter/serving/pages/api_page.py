"""Makes the page about the API, from its OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ofu_exporter.support.templates import render

BODY = "MfuReport"
"""The schema of a report's body, whose fields the page explains."""


def api_page(openapi: Mapping[str, Any]) -> str:
    """The routes, what each is for, and the fields of a report."""
    return render("api.html", paths=openapi["paths"], report=openapi["components"]["schemas"][BODY])
