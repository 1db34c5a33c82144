"""The GPU waited for the host to launch its next kernel."""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.traces.findings import CostClaim, TraceFacts, named
from ofu_exporter.traces.host import Idle
from ofu_exporter.traces.seconds import TimeCell

ORDER, LEAST = 40, 0.05
REMEDY = (
    'CUDA graphs (torch.compile with mode="reduce-overhead"), fewer and larger kernels, '
    "larger batches, no work between launches in Python; bind processes to the cores "
    "beside their GPU."
)


def claims(cell: TimeCell, facts: TraceFacts) -> float:
    return float(cell.idle in (Idle.OPERATOR, Idle.OTHER_HOST, Idle.STALLED))


def evidence(claimed: Sequence[CostClaim], facts: TraceFacts) -> str:
    stalled = [each for each in claimed if each.cell.idle is Idle.STALLED]
    fed = [each for each in claimed if each.cell.idle is not Idle.STALLED]
    said = []
    if fed:
        where = named(fed, "operator")
        said.append(
            f"{sum(each.seconds for each in fed):.3g} s with nothing queued"
            + (f", on the way to launches of {where}" if where else "")
        )
    if stalled:
        said.append(
            f"{sum(each.seconds for each in stalled):.3g} s in which the queued work waited and the host, "
            f"in {named(stalled)}, launched nothing else"
        )
    return "; ".join(said)
