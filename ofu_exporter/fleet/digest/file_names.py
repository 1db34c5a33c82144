"""Makes a safe file name from the name of a user or account. No two names share a file name."""

from __future__ import annotations

import hashlib
import re

_PLAIN = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_OTHERS = re.compile(r"[^a-z0-9_-]+")
_LONGEST = 40


def file_name(name: str) -> str:
    """The name itself if all of its characters are safe; otherwise the safe ones, a tilde and a hash of the whole
    name.

    No safe name has a tilde, so nobody can choose a name that overwrites another's file.
    """
    if _PLAIN.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:32]
    safe = _OTHERS.sub("_", name.lower())[:_LONGEST].strip("_-") or "name"
    return f"{safe}~{digest}"
