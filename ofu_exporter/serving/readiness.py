"""Says whether the agent is ready: whether a GPU has a fresh sample, and why not."""

from __future__ import annotations

from ofu_exporter.values.snapshot import Snapshot


def unready(snapshot: Snapshot | None) -> str | None:
    """One sentence on why no GPU has a fresh sample; None when one has."""
    if snapshot is None:
        return "starting: no snapshot yet"
    if any(view.reason is None or view.window is not None for view in snapshot.gpus):
        return None
    source = snapshot.source
    if source.reason is not None:
        detail = f" ({source.detail})" if source.detail else ""
        return f"source {source.name}: {source.reason.value}{detail}. {source.reason.advice}"
    reasons = sorted({view.reason for view in snapshot.gpus if view.reason})
    if not reasons:
        return f"source {source.name}: no GPU seen yet"
    return "; ".join(f"{reason.value}: {reason.advice}" for reason in reasons)
