"""Reads the head of a plain request: one that every server of HTTP/1.1 reads alike."""

from __future__ import annotations

import re
from typing import NamedTuple

import h11

MOST_BYTES = 16 << 10
"""A longer head is not plain."""
_HEAD = re.compile(
    rb"(GET|HEAD|POST) (/[!-~]*) HTTP/1\.1\r\n"
    rb"((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+: (?! )[ -~]+(?<! )\r\n)+)\r\n"
)
"""Each line ends with CR and LF, each header has a name without spaces, a colon, one space and a printable value."""
_HEADER = re.compile(rb"([^:]+): ([^\r]+)\r\n")
_HOW_LONG = re.compile(rb"[0-9]{1,15}")
_NOT_PLAIN = frozenset({b"transfer-encoding", b"trailer", b"te", b"upgrade", b"expect"})
"""Headers that say more of a request's end, or of the connection after it, than its length."""
_KEPT = b"keep-alive"
"""The one value of Connection that changes nothing."""


class PlainHead(NamedTuple):
    """The head of a request whose end is known: it has a length, or no body."""

    request: h11.Request
    size: int
    """The bytes of the head, with its empty line."""
    body_bytes: int


def plain_head(received: bytes) -> PlainHead | None:
    """The head with which these bytes begin; None where it is not plain, or not whole.

    None is no refusal. Whoever gets None asks a parser of all HTTP.
    """
    found = _HEAD.match(received, 0, MOST_BYTES)
    if found is None:
        return None
    method, target, lines = found.groups()
    headers = [(name.lower(), value) for name, value in _HEADER.findall(lines)]
    told = dict(headers)
    if len(told) != len(headers) or b"host" not in told or not _NOT_PLAIN.isdisjoint(told):
        return None
    length = told.get(b"content-length", b"0")
    if not _HOW_LONG.fullmatch(length) or told.get(b"connection", _KEPT).lower() != _KEPT:
        return None
    try:
        request = h11.Request(method=method, target=target, headers=headers)
    except h11.LocalProtocolError:  # h11 examines what was found, and may know better
        return None
    return PlainHead(request, found.end(), int(length))
