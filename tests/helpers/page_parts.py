"""Makes one part of a page by itself, as its template does."""

from __future__ import annotations

from ofu_exporter.fleet.pages.pictures import TimePicture
from ofu_exporter.support.drawing import Drawing
from ofu_exporter.support.tables import TextTable
from ofu_exporter.support.templates import environment


def picture(drawing: Drawing) -> str:
    return _part("drawn(drawing)", drawing=drawing)


def picture_over_time(shown: TimePicture) -> str:
    return _part("over_time(shown)", shown=shown)


def fleet_page(shown: TimePicture) -> str:
    """A page with nothing but this picture."""
    source = (
        '{% extends "fleet.html" %}{% from "parts.html" import over_time %}'
        "{% block main %}{{ over_time(shown) }}{% endblock %}"
    )
    return environment().from_string(source).render(shown=shown)


def text_table(table: TextTable, name: str) -> str:
    return _part("text_table(table, name)", table=table, name=name)


def _part(call: str, **given: object) -> str:
    macro = call.partition("(")[0]
    source = f'{{% from "parts.html" import {macro} %}}{{{{ {call} }}}}'
    return environment().from_string(source).render(given).strip()
