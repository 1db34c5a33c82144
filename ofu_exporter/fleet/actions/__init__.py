"""Finds what to do first in a fleet. Every module here is a kind of action, found by its name.

A kind has `find`, which yields what it sees in a report. To add one, add a file.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from ofu_exporter.fleet.reports.result import AGENTS, ActionRow, FleetReport, JobRow
from ofu_exporter.support.registry import Registry

MOST = 5
LEAST_HOURS = 1.0
LEAST_SHARE = 0.001
"""Of the held GPU-hours: less is not worth a line."""
JobId = tuple[str, str]


class Action(NamedTuple):
    """What can be done, and the jobs whose hours it counts."""

    row: ActionRow
    jobs: frozenset[JobId]
    is_general: bool = False
    """Says less of its jobs than other kinds do, which come first where both have a job."""


class ActionModule(Protocol):
    """What every module of this package offers."""

    def find(self, report: FleetReport) -> Iterator[Action]:
        """What this kind sees; the report's `changes` are None where nobody looked for them."""


_MODULES: Registry[ActionModule] = Registry(__name__, "action")


def first_actions(report: FleetReport) -> list[ActionRow]:
    """At most five, those with most GPU-hours first; the last place is for one without hours, where there is one."""
    actions = [each for name in _MODULES.names() for each in _MODULES.load(name).find(report)]
    least = max(LEAST_HOURS, LEAST_SHARE * report.total.held_gpu_hours)
    gains = [each for each in actions if (each.row.gpu_hours or 0.0) >= least]
    chosen = sorted(
        _counted_once(sorted(gains, key=lambda each: (each.is_general, *_order(each.row)))),
        key=_order,
    )
    others = [each.row for each in actions if each.row.gpu_hours is None]
    return [*chosen[: MOST - min(1, len(others))], *others][:MOST]


def _order(row: ActionRow) -> tuple[float, str]:
    return -(row.gpu_hours or 0.0), row.who


def _counted_once(actions: Iterable[Action]) -> list[ActionRow]:
    """Without those that count a job that one before them has."""
    taken: set[JobId] = set()
    chosen = []
    for each in actions:
        if not each.jobs & taken:
            taken |= each.jobs
            chosen.append(each.row)
    return chosen


def ids(rows: Iterable[JobRow]) -> frozenset[JobId]:
    return frozenset((row.cluster, row.job_id) for row in rows)


def price_of(rows: Iterable[JobRow], hours: float) -> float | None:
    """What these GPU-hours of some jobs cost at their mean price; None where one is not known."""
    cost = held = 0.0
    for row in rows:
        if row.cost is None:
            return None
        cost, held = cost + row.cost, held + row.held_gpu_hours
    return hours * cost / held if held else None


def command(report: FleetReport, row: JobRow) -> str:
    """What shows a job in the time of the report, to be copied and run as it stands; secrets are the reader's own."""
    job = _argument(row.job_id)
    if report.server == AGENTS:
        return f"`ofu-exporter job show {job}` on its node"
    shown = f"job {job}"
    if len(report.clusters) > 1:
        shown += f" --cluster {_argument(row.cluster)}"
    if row.user and (row.cluster, row.job_id) in report.reused_ids:
        shown += f" --owner {_argument(row.user)}"
    if report.source != "agents":  # no other exporter knows what one job did
        shown = f"report --from {report.source} --by job"
    server = f"--prometheus {_argument(report.server)}"
    server += f" --tenant {_argument(report.tenant)}" if report.tenant else ""
    time = f"--since {report.time.hours}h --until {report.time.end}"
    return f"`ofu-exporter fleet {shown} {server} {time}`"


def _argument(text: str) -> str:
    """Quoted for bash and zsh, with an escape for what would end the code on a page, or break its line."""
    return "".join(
        letter if letter.isprintable() and letter != "`" else f"'$'{_escape(letter)}''"
        for letter in shlex.quote(text)
    )


def _escape(letter: str) -> str:
    return r"\x60" if letter == "`" else letter.encode("unicode_escape").decode()


def jobs_named(rows: list[JobRow]) -> str:
    """One job, or some of one name with their count."""
    first = rows[0]
    name = first.job_name or f"job {first.shown_name}"
    whose = f" of {first.user}" if first.user else ""
    return f"{name}{whose}" if len(rows) == 1 else f"{name}{whose}, {len(rows):,} jobs"


def by_name(rows: Iterable[JobRow]) -> list[list[JobRow]]:
    """Jobs of one name, user and cluster together; one without a name stands alone."""
    groups: dict[tuple[str, ...], list[JobRow]] = {}
    for row in rows:
        key = (row.cluster, row.user, row.job_name or f"\0{row.job_id}")
        groups.setdefault(key, []).append(row)
    return list(groups.values())
