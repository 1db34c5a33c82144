"""Makes the jobs of a simulated fleet from their groups: how long each runs, how fast, and what it reports."""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.simulation.layout import FleetNode, named
from ofu_exporter.fleet.simulation.mistakes import reported_over_right
from ofu_exporter.fleet.simulation.spec import JobGroup, LengthSpread, SpecFile, ValueSpread
from ofu_exporter.support.checked_yaml import Place

FIRST_ID = 1001
USUAL_CLOCK = 0.74
"""SM clock under a full load over the tensor clock: 1,352 of 1,830 MHz in arXiv:2605.20799, section IV-C."""
FULL = 0.9
"""Highest tensor activity of a job, so that noise does not take it above 1."""


@dataclass(frozen=True)
class DraftJob:
    """A job before it has its place: when it wants to start, on how many devices, and what it does there."""

    job_id: str
    group: JobGroup
    place: Place
    """The place of its group in the specification."""
    user: str
    start: int
    """Minute of the fleet."""
    minutes: int
    ofu: float
    """OFU of each of its GPUs while it works undisturbed."""
    mfu: float
    """The right MFU then."""
    clock_hz: float
    reported_over_right: float
    model: str
    """Key of the GPU model, of which all of its GPUs are."""


def drafts(file: SpecFile, nodes: tuple[FleetNode, ...]) -> Iterator[DraftJob]:
    """Every job, in the order of the groups. Raises ConfigError for an impossible one."""
    job_id = FIRST_ID
    for number, group in enumerate(file.content.jobs):
        place: Place = ("jobs", number)
        if group.nodes:
            node = nodes[named(file, place, group.nodes, nodes)[0]]
        else:
            fitting = next((each for each in nodes if _fits(group, each)), None)
            if fitting is None:
                raise file.error(place, f"no node has {_wanted(group)}")
            node = fitting
        factor = _factor(file, group, place, node)
        for member in range(group.count):
            chance = random.Random(f"{file.content.seed}/job/{number}/{member}")
            yield _draft(file, group, (place, member, str(job_id), factor), node, chance)
            job_id += 1


def _fits(group: JobGroup, node: FleetNode) -> bool:
    if group.partition and node.partition != group.partition:
        return False
    return any(gpu.profile == (group.mig or "") for gpu in node.devices)


def _wanted(group: JobGroup) -> str:
    what = f"instances {group.mig}" if group.mig else "whole GPUs"
    return f"{what} in partition {group.partition!r}" if group.partition else what


def _factor(file: SpecFile, group: JobGroup, place: Place, node: FleetNode) -> float:
    if group.report is None:
        return 1.0
    precision = group.report.precision
    if precision not in node.rating.peak_flops:
        text = f"{node.model.key} has no known peak in {precision}"
        raise file.error((*place, "report", "precision"), text)
    try:
        return reported_over_right(group.report, file.content.models, node.model.names[0])
    except ConfigError as error:
        raise file.error((*place, "report"), str(error)) from error


def _draft(
    file: SpecFile,
    group: JobGroup,
    named: tuple[Place, int, str, float],
    node: FleetNode,
    chance: random.Random,
) -> DraftJob:
    place, member, job_id, factor = named
    start = group.start + member * group.every
    if start >= file.content.length:
        raise file.error((*place, "start"), f"job {job_id} would start after the end of the fleet")
    clock_hz = group.clock_mhz * 1e6 if group.clock_mhz else USUAL_CLOCK * node.tensor_clock_hz
    if clock_hz > node.max_clock_hz:
        most = f"the GPU's SM clock is at most {node.max_clock_hz / 1e6:.0f} MHz"
        raise file.error((*place, "clock_mhz"), most)
    ofu, mfu = _possible(file, group, place, _pace(group, chance), clock_hz / node.tensor_clock_hz)
    left = file.content.length - start
    minutes = min(left, _minutes(group.lasts, chance)) if group.lasts else left
    user = group.users[member % len(group.users)]
    return DraftJob(
        job_id, group, place, user, start, minutes, ofu, mfu, clock_hz, factor, node.model.key
    )


def _possible(
    file: SpecFile, group: JobGroup, place: Place, pace: tuple[float, float], clock: float
) -> tuple[float, float]:
    """OFU and MFU that the clock allows; the clock is a share of the tensor clock.

    A drawn value is cut to the limit. Raises ConfigError for a given value above it.
    """
    ofu, mfu = pace
    factors = accumulate((change.factor for change in group.changes), operator.mul)
    fastest = max([1.0, *factors])
    highest = FULL * clock / fastest
    if ofu <= highest:
        return ofu, mfu
    spread = group.ofu or group.mfu
    if spread is None or spread.deviation or (group.mfu and group.left_out.deviation):
        return highest, mfu * highest / ofu
    key = "changes" if fastest > 1 else "ofu" if group.ofu else "mfu"
    text = f"an OFU of {ofu * fastest:.3g} is impossible at this clock: {highest * fastest:.3g} at most"
    raise file.error((*place, key), text)


def _pace(group: JobGroup, chance: random.Random) -> tuple[float, float]:
    """OFU and right MFU."""
    if group.work == "idle":
        return 0.0, 0.0
    more = drawn(group.left_out, chance)
    if group.mfu is not None:
        mfu = drawn(group.mfu, chance)
        return mfu + more, mfu
    assert group.ofu is not None
    ofu = drawn(group.ofu, chance)
    return ofu, max(0.0, ofu - more)


def drawn(spread: ValueSpread, chance: random.Random) -> float:
    """One value from a spread."""
    value = chance.gauss(spread.mean, spread.deviation) if spread.deviation else spread.mean
    return min(max(value, spread.lowest), spread.highest)


def _minutes(spread: LengthSpread, chance: random.Random) -> int:
    shape = spread.deviation
    value = spread.mean * math.exp(shape * chance.gauss(0, 1) - shape * shape / 2)
    return max(1, min(round(value), spread.longest))
