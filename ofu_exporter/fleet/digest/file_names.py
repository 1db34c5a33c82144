"""Makes a safe name of a file from whatever a user or account is called. No two names share one."""

from __future__ import annotations

import hashlib
import re

_PLAIN = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_OTHERS = re.compile(r"[^a-z0-9_-]+")
_LONGEST = 40


def file_name(name: str) -> str:
    """The name itself where it is plain, else what is plain of it, a tilde and a digest of the whole.

    No plain name has a tilde, so nobody can choose a name that takes the file of another.
    """
    if _PLAIN.fullmatch(name):
        return name
    told = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:32]
    kept = _OTHERS.sub("_", name.lower())[:_LONGEST].strip("_-") or "name"
    return f"{kept}~{told}"
