"""Raises the number of descriptors that this process may have open."""

from __future__ import annotations

import resource

MOST_DESCRIPTORS = 4096
"""The limit is not raised further, because this process does not need more."""


def raise_descriptor_limit() -> int:
    """Raise the soft limit as far as the hard limit allows; returns the limit in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (
        MOST_DESCRIPTORS if limit == resource.RLIM_INFINITY else limit for limit in (soft, hard)
    )
    wanted = min(hard, MOST_DESCRIPTORS)
    if soft >= wanted:
        return soft
    try:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        )
    except (OSError, ValueError):
        return soft
    return wanted
