"""Packs a page with gzip from parts, of which those that stay the same are packed only once."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from functools import cached_property

_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
"""RFC 1952: deflate, no name, no time, no system."""
_END = b"\x03\x00"
"""An empty last block of deflate (RFC 1951)."""


class PagePart:
    """Some bytes of a page, which are packed when a packed page is first asked for."""

    def __init__(self, plain: bytes) -> None:
        self.plain = plain

    @cached_property
    def packed(self) -> bytes:
        """Blocks of deflate that end on a byte and refer to nothing before them, so that others may follow them."""
        deflate = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
        return deflate.compress(self.plain) + deflate.flush(zlib.Z_FULL_FLUSH)


def joined(parts: Iterable[PagePart]) -> bytes:
    """The page as it is."""
    return b"".join(part.plain for part in parts)


def packed(parts: Iterable[PagePart]) -> bytes:
    """The page as one member of gzip: some readers stop after the first of several."""
    check, size, blocks = 0, 0, []
    for part in parts:
        check = zlib.crc32(part.plain, check)
        size += len(part.plain)
        blocks.append(part.packed)
    ends = check.to_bytes(4, "little") + (size & 0xFFFFFFFF).to_bytes(4, "little")
    return b"".join((_HEAD, *blocks, _END, ends))
