"""Builds HTML and SVG: every text of others is escaped in the one place here."""

from __future__ import annotations

import html
from collections.abc import Iterable

from ofu_exporter.support.plain_text import escaped


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def plain(value: object) -> Markup:
    """Any value as text of a page. What is not printable is shown by its escape."""
    return value if isinstance(value, Markup) else Markup(html.escape(escaped(str(value))))


def tag(name: str, *inside: object, **attributes: object) -> Markup:
    """An element. `_class` is the attribute class, `aria_label` aria-label; None leaves an attribute out."""
    said = "".join(
        f' {key.lstrip("_").replace("_", "-")}="{plain(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{said}>{''.join(map(plain, inside))}</{name}>")


def joined(parts: Iterable[object]) -> Markup:
    return Markup("".join(map(plain, parts)))


def document(title: str, style: str, script: str, body: Markup) -> str:
    """A whole page that asks nothing of any other place."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{plain(title)}</title><style>{style}</style></head>"
        f"<body>{body}<script>{script}</script></body></html>\n"
    )
