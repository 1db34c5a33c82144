"""Whose a window is: takes what schedulers say, and credits jobs. The other rooms see what is named here."""

from __future__ import annotations

from ofu_exporter.ofu.ownership.doubt import credit_or_set_aside, credit_wait
from ofu_exporter.ofu.ownership.owners import (
    OwnerState,
    count_unknown,
    take_changes,
    with_rejected,
)
from ofu_exporter.ofu.ownership.unwatched import settle

__all__ = ["OwnerState", "count_unknown", "take_changes", "with_rejected"]
__all__ += ["credit_or_set_aside", "credit_wait", "settle"]
