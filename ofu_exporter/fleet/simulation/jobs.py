"""Makes the jobs of a simulated fleet from their groups: how long each runs, how fast, and what it reports for that."""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.simulation.layout import FleetNode, node_numbers
from ofu_exporter.fleet.simulation.spec import (
    JobGroup,
    LengthSpread,
    ModelSpec,
    Reporting,
    SpecFile,
    ValueSpread,
)
from ofu_exporter.flops import conventions
from ofu_exporter.flops.causes import CauseFacts, Side, causes
from ofu_exporter.flops.counted_step import CountedStep
from ofu_exporter.support.checked_yaml import YamlPath

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
    place: YamlPath
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
    for number in range(len(file.content.jobs)):
        group = _Drafts(file, number, nodes)
        for member in range(file.content.jobs[number].count):
            yield group.draft(member, str(job_id))
            job_id += 1


class _Drafts:
    """The jobs of a group, which are all on GPUs of one model."""

    def __init__(self, file: SpecFile, number: int, nodes: tuple[FleetNode, ...]) -> None:
        self._file = file
        self._number = number
        self._group = file.content.jobs[number]
        self._node = self._first_node(nodes)
        self._factor = self._reported_over_right()

    def _error(self, problem: str, *keys: str) -> ConfigError:
        return self._file.error(("jobs", self._number, *keys), problem)

    def _first_node(self, nodes: tuple[FleetNode, ...]) -> FleetNode:
        """A node on which its jobs may run."""
        group = self._group
        if group.nodes:
            return nodes[node_numbers(self._file, ("jobs", self._number), group.nodes, nodes)[0]]
        for node in nodes:
            is_wanted = group.partition in ("", node.partition)
            if is_wanted and any(gpu.profile == (group.mig or "") for gpu in node.devices):
                return node
        what = f"instances {group.mig}" if group.mig else "whole GPUs"
        where = f" in partition {group.partition!r}" if group.partition else ""
        raise self._error(f"no node has {what}{where}")

    def _reported_over_right(self) -> float:
        report, node = self._group.report, self._node
        if report is None:
            return 1.0
        if report.precision not in node.rating.peak_flops:
            text = f"{node.model.key} has no known peak in {report.precision}"
            raise self._error(text, "report", "precision")
        try:
            return reported_over_right(report, self._file.content.models, node.model.names[0])
        except ConfigError as error:
            raise self._error(str(error), "report") from error

    def draft(self, member: int, job_id: str) -> DraftJob:
        """One of the jobs, by its number in the group."""
        spec, group, node = self._file.content, self._group, self._node
        chance = random.Random(f"{spec.seed}/job/{self._number}/{member}")
        start = group.start + member * group.every
        if start >= spec.length:
            raise self._error(f"job {job_id} would start after the end of the fleet", "start")
        clock_hz = group.clock_mhz * 1e6 if group.clock_mhz else USUAL_CLOCK * node.tensor_clock_hz
        if clock_hz > node.max_clock_hz:
            most = f"the GPU's SM clock is at most {node.max_clock_hz / 1e6:.0f} MHz"
            raise self._error(most, "clock_mhz")
        ofu, mfu = self._possible(*_pace(group, chance), clock_hz / node.tensor_clock_hz)
        left = spec.length - start
        return DraftJob(
            job_id=job_id,
            group=group,
            place=("jobs", self._number),
            user=group.users[member % len(group.users)],
            start=start,
            minutes=min(left, _minutes(group.lasts, chance)) if group.lasts else left,
            ofu=ofu,
            mfu=mfu,
            clock_hz=clock_hz,
            reported_over_right=self._factor,
            model=node.model.key,
        )

    def _possible(self, ofu: float, mfu: float, clock: float) -> tuple[float, float]:
        """OFU and MFU that the clock allows; the clock is a share of the tensor clock.

        A drawn value is cut to the limit. Raises ConfigError for a given value above it.
        """
        group = self._group
        factors = accumulate((change.factor for change in group.changes), operator.mul)
        fastest = max([1.0, *factors])
        highest = FULL * clock / fastest
        if ofu <= highest:
            return ofu, mfu
        spread = group.ofu or group.mfu
        if spread is None or spread.deviation or (group.mfu and group.left_out.deviation):
            return highest, mfu * highest / ofu
        key = "changes" if fastest > 1 else "ofu" if group.ofu else "mfu"
        limits = f"{ofu * fastest:.3g} is impossible at this clock: {highest * fastest:.3g} at most"
        raise self._error(f"an OFU of {limits}", key)


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
    value = chance.gauss(spread.mean, spread.deviation) if spread.deviation else spread.mean
    return min(max(value, spread.lowest), spread.highest)


def _minutes(spread: LengthSpread, chance: random.Random) -> int:
    shape = spread.deviation
    value = spread.mean * math.exp(shape * chance.gauss(0, 1) - shape * shape / 2)
    return max(1, min(round(value), spread.longest))


def reported_over_right(report: Reporting, models: Mapping[str, ModelSpec], gpu: str) -> float:
    """Reported MFU over right MFU. Raises ConfigError for a mistake that the job cannot make.

    `gpu` is the GPUs' name in NVML, for mistakes in the peak.
    """
    step = None
    if report.model is not None:
        if report.model not in models:
            raise ConfigError(f"no model {report.model!r} in models")
        model = models[report.model]
        lengths = flops.fixed(1, tokens=model.seq_len)
        step = CountedStep(flops.read(model.config), lengths, flops.Counting(), flops.Passes())
    if report.convention is not None and step is not None:
        return _by_convention(report.convention, step)
    if report.mistake is not None:
        return _by_mistake(report, step, gpu)
    return 1.0


def _by_convention(name: str, step: CountedStep) -> float:
    if name not in conventions.names():
        raise ConfigError(f"no convention {name!r}; known: {', '.join(conventions.names())}")
    counted = flops.count(step.model, step.lengths, flops.How(convention=name))
    return float(counted.model_flops_per_step) / step.flops()


def _by_mistake(report: Reporting, step: CountedStep | None, gpu: str) -> float:
    mistakes = {cause.slug: cause for cause in causes() if cause.side is Side.REPORT}
    cause = mistakes.get(report.mistake or "")
    if cause is None:
        raise ConfigError(f"no mistake {report.mistake!r}; known: {', '.join(mistakes)}")
    recompute = None if report.recompute is None else flops.Recompute(report.recompute)
    facts = CauseFacts(step=step, gpu=gpu, precision={report.precision: 1.0}, recompute=recompute)
    for hypothesis in cause.hypotheses(facts):
        if hypothesis.miscount is None:
            return hypothesis.ratio
        if step is not None:
            return hypothesis.miscount(step).flops() / step.flops()
    missing = "" if step else " without a model"
    raise ConfigError(f"mistake {report.mistake!r} cannot be made of this job{missing}")
