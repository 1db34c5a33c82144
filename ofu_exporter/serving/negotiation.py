"""Reads what a client would like: the format of the metrics, whether packed, and text or JSON (RFC 9110, 12.5)."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

Encoder = Callable[[Collector], bytes]
OPENMETRICS, TEXT = "application/openmetrics-text", "text/plain"
_ANY = ("", "*/*", "text/*", TEXT)
_VERSION = re.compile(r"version=([^;]*)")
_FROM_1 = re.compile(r"[1-9][0-9.]*")
_QUALITY = re.compile(r"[01](\.[0-9]{0,3})?")
MOST_WISHES = 32
"""More are not read."""
MOST_REMEMBERED = 32
"""Headers of readers, who say the same each time."""


def wishes(header: str) -> list[tuple[float, str]]:
    """What a header names, and how much each is wanted from 0 to 1: most wanted first, in small letters, without q."""
    by_wish = []
    for each in header.lower().split(",", MOST_WISHES)[:MOST_WISHES]:
        name, *parameters = (part.strip() for part in each.split(";"))
        quality = next((part[2:] for part in parameters if part.startswith("q=")), "1")
        others = [part for part in parameters if not part.startswith("q=")]
        wanted = float(quality) if _QUALITY.fullmatch(quality) else 0.0
        by_wish.append((min(wanted, 1.0), ";".join([name, *others])))
    return sorted(by_wish, key=lambda wish: -wish[0])


def accepted(header: str) -> list[str]:
    """The same without what is refused, and without how much."""
    return [name for quality, name in wishes(header) if quality > 0]


@lru_cache(MOST_REMEMBERED)
def takes_gzip(accept_encoding: str) -> bool:
    """Whether gzip is taken, and wanted no less than a page as it is."""
    by_name = {name: quality for quality, name in reversed(wishes(accept_encoding))}
    gzip = by_name.get("gzip", by_name.get("*", 0.0))
    return gzip > 0 and gzip >= by_name.get("identity", 0.0)


@lru_cache(MOST_REMEMBERED)
def chosen_format(accept: str) -> tuple[Encoder, str]:
    """The library's writer of the format that is wanted most, and its content type."""
    for wish in accepted(accept):
        format_ = _offered(wish)
        if format_ is not None:
            return choose_encoder(format_)
    return choose_encoder("")


def _offered(wish: str) -> str | None:
    """The same wish for a version that there is; "" for the text format that everybody reads, None for all others.

    The library would repeat any version that it is asked for, and a page of each would be kept.
    """
    kind, _, parameters = wish.partition(";")
    version = _VERSION.search(parameters)
    if kind == OPENMETRICS and (version is None or _FROM_1.fullmatch(version[1])):
        return _VERSION.sub("version=1.0.0", wish)
    if kind == TEXT and version and version[1] == "1.0.0":
        return wish
    return "" if kind in _ANY else None


def prefers_text(accept: str) -> bool:
    """Whether text is wanted more than JSON."""
    for wish in accepted(accept):
        kind = wish.partition(";")[0]
        if kind in (TEXT, "application/json", "application/*", "*/*"):
            return kind == TEXT
    return False
