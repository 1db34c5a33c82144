"""Takes secrets out of text that leaves the machine: those that are known, and whatever has a secret's form."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

HIDDEN = "(hidden)"
_FORMS = (
    (
        re.compile(r"(?<=://)[^/\s\"'@]*(?:@[^/\s\"'@]*)*@"),
        f"{HIDDEN}@",
    ),  # user and password of an address
    (
        re.compile(r"(://[^\s\"'?]*\?)[^\s\"']+"),
        rf"\1{HIDDEN}",
    ),  # its query, which may hold a token
    (re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]+", re.I), rf"\1 {HIDDEN}"),
    (
        re.compile(
            r"\b((?:\w+[_-])?(?:password|passwd|token|secret|api[_-]?key|authorization|cookie))"
            r"(\\?[\"']?\s*[:=]\s*\\?[\"']?)(?!bearer |basic )[^\s\"',}\\]+",
            re.I,
        ),
        rf"\1\2{HIDDEN}",
    ),
    (re.compile(r"\$2[abxy]\$\d\d\$[./A-Za-z0-9]{53}"), HIDDEN),  # a bcrypt hash
    (
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S
        ),
        HIDDEN,
    ),
)


def redacted(text: str, secrets: Collection[str] = ()) -> str:
    """The text without any of `secrets`, nor what looks like one."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    for form, instead in _FORMS:
        text = form.sub(instead, text)
    return text


def redacted_data(data: Any, secrets: Collection[str] = ()) -> Any:
    """The same for every text within mappings and lists."""
    if isinstance(data, dict):
        return {key: redacted_data(value, secrets) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [redacted_data(each, secrets) for each in data]
    return redacted(data, secrets) if isinstance(data, str) else data
