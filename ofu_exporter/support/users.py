"""Tells the number of a user of this node."""

from __future__ import annotations

import pwd


def uid_of(user: str) -> int | None:
    """The number of a user of this node, or of one who has no name here; None where it is not known."""
    try:
        return pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):
        return int(user) if user.isascii() and user.isdecimal() and len(user) < 11 else None
