"""Finds what to do first in a fleet."""

from __future__ import annotations

from collections.abc import Iterable

from ofu_exporter.fleet.actions.kinds import KINDS, Action
from ofu_exporter.fleet.history.fleet_history import ClusterJob
from ofu_exporter.fleet.reports.result import ActionRow, FleetReport
from ofu_exporter.fleet.reports.sweeps import anchor_of

MOST = 5
LEAST_HOURS = 1.0
LEAST_SHARE = 0.001
"""Of the held GPU-hours: less is not worth a line."""


def first_actions(report: FleetReport) -> list[ActionRow]:
    """At most five, those with most GPU-hours first; the last place is for one without hours, where there is one.

    Regressions and slow nodes are of the report's `changes`, which are None where nobody looked for them.
    """
    actions = [each._replace(kind=kind.__name__) for kind in KINDS for each in kind(report)]
    least = max(LEAST_HOURS, LEAST_SHARE * report.total.held_gpu_hours)
    gains = [each for each in actions if (each.gpu_hours or 0.0) >= least]
    chosen = sorted(
        _counted_once(sorted(gains, key=lambda each: (each.is_general, *_order(each)))), key=_order
    )
    others = [each for each in actions if each.gpu_hours is None]
    first = [*chosen[: MOST - min(1, len(others))], *others][:MOST]
    return [_row(each, report) for each in first]


def _row(action: Action, report: FleetReport) -> ActionRow:
    return ActionRow(
        kind=action.kind,
        who=action.who,
        what=action.what,
        gpu_hours=action.gpu_hours,
        cost=action.cost,
        why=action.why,
        next=action.next,
        link=action.link,
        at=anchor_of(report, action.rows[0]) if action.rows else "changes",
    )


def _order(action: Action) -> tuple[float, str]:
    return -(action.gpu_hours or 0.0), action.who


def _counted_once(actions: Iterable[Action]) -> list[Action]:
    """Without those that count a job that one before them has."""
    taken: set[ClusterJob] = set()
    chosen = []
    for each in actions:
        if not each.jobs & taken:
            taken |= each.jobs
            chosen.append(each)
    return chosen
