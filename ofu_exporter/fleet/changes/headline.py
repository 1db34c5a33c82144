"""Says in one sentence what changed."""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.fleet.changes.result import ChangeRow, SlowRow


def headline(changes: Sequence[ChangeRow], slow: Sequence[SlowRow], tested: int) -> str:
    """What a reader should know who reads nothing else."""
    if not tested and not slow:
        return "There is too little data to say whether anything changed."
    worse = sum(row.sure and row.direction == "regression" for row in changes)
    better = sum(row.sure and row.direction == "improvement" for row in changes)
    unsure = sum(not row.sure for row in changes)
    nodes = {(row.cluster, row.node) for row in slow if row.sure}
    parts = [
        f"{_counted(worse, 'sure regression')} and {_counted(better, 'sure improvement')}"
        if worse or better
        else "No change is sure",
        f"{unsure} possible" if unsure else "none more is possible",
        _counted(len(nodes), "node")
        + (" is" if len(nodes) == 1 else " are")
        + " slower than peers",
    ]
    return f"{'; '.join(parts)} ({tested} series)."


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
