"""GPUs and nodes that are surely slower than their peers in the same jobs."""

from __future__ import annotations

from collections.abc import Iterator

from ofu_exporter.fleet.actions import Action
from ofu_exporter.fleet.reports.result import ActionRow, FleetReport
from ofu_exporter.fleet.reports.tables import counted, share


def find(report: FleetReport) -> Iterator[Action]:
    for slow in report.changes.slow if report.changes else ():
        if slow.sure:
            row = ActionRow(
                kind="slow_node",
                who=slow.node if slow.gpu is None else f"GPU {slow.gpu} of {slow.node}",
                gpu_hours=None,
                cost=None,
                why=f"{share(slow.slower)} slower than its peers in {counted(slow.hours, 'hour')} of "
                f"{counted(len(slow.jobs), 'job')}; a job that waits for all its ranks runs at its pace.",
                next="Drain it, and look at its power, temperature and links.",
                link="docs/changes.md",
                at="changes",
            )
            yield Action(row, frozenset())
