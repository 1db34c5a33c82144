"""Puts elements of SVG together; markupsafe escapes what is text."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

from ofu_exporter.values.text import shown


def plain(value: object) -> Markup:
    return value if isinstance(value, Markup) else escape(shown(str(value)))


def tag(name: str, *inside: object, **attributes: object) -> Markup:
    """An element. `_class` is the attribute class, `aria_label` aria-label; None leaves an attribute out."""
    given = [
        Markup(' {}="{}"').format(key.lstrip("_").replace("_", "-"), plain(value))
        for key, value in attributes.items()
        if value is not None
    ]
    return Markup("<{0}{1}>{2}</{0}>").format(name, joined(given), joined(inside))


def joined(parts: Iterable[object]) -> Markup:
    return Markup("").join(map(plain, parts))
