"""Keeps what is known of one job's reports: whose they are, the time they cover, and how they compare with OFU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from ofu_exporter.flops.mfu import row_of
from ofu_exporter.ofu.divergence import DEFAULT, Divergence, Thresholds, compare_sums
from ofu_exporter.ofu.honest_ratio import honest_ratio
from ofu_exporter.ofu.observed import total_sums
from ofu_exporter.reports.cause_question import CauseQuestion, Inquiry
from ofu_exporter.reports.coverage import (
    Coverage,
    Interval,
    extended,
    interval_of,
    not_ahead,
    recent,
    reported_sums,
    summed,
    time_mean,
)
from ofu_exporter.reports.fields import framework_name
from ofu_exporter.reports.hardware import Hardware
from ofu_exporter.reports.messages import Comparison, MfuAnswer, MfuReport
from ofu_exporter.reports.owner import Owner
from ofu_exporter.reports.progress import restarted, restarted_anew, working_since
from ofu_exporter.reports.reported_model import KeptModel
from ofu_exporter.reports.run_lines import RunLines
from ofu_exporter.reports.stated import Completed, ReportedFacts, Stated
from ofu_exporter.values.gpu import GpuKey
from ofu_exporter.values.instant import Instant
from ofu_exporter.values.job import GpuUsage, is_another_run
from ofu_exporter.values.progress import Progress
from ofu_exporter.values.reported import (
    NO_ERROR,
    NOTHING_COMPARED,
    Adjusted,
    Causes,
    Compared,
    ReportsView,
    Verdict,
)
from ofu_exporter.values.snapshot import JobView
from ofu_exporter.values.trace import MOST_FINDINGS, TraceSummary


@dataclass(frozen=True, slots=True)
class Policy:
    """How reports are compared, and whose reports are kept."""

    horizon: float = 600.0
    """Seconds."""
    thresholds: Thresholds = DEFAULT
    unowned: bool = False
    """Whether reports of jobs without a GPU here are kept."""
    recipes: Path | None = None
    """The site's folder of recipes."""

    def thresholds_of(self, owner: Owner, facts: MfuReport | None) -> Thresholds:
        """The thresholds with what an honest MFU is of OFU on the job's GPUs."""
        row = row_of(owner.hardware.name)
        shares = facts.shares() if facts else None
        return replace(self.thresholds, honest=honest_ratio(row.key if row else None, shares))


class Receipt(NamedTuple):
    """A report that was taken in."""

    owner: Owner
    stated: Stated
    interval: Interval | None
    """None if the report has no MFU."""

    def compared(self, thresholds: Thresholds) -> Comparison | None:
        """What the hardware did in the seconds of the report."""
        mfu, interval = self.stated.mfu, self.interval
        if mfu is None or interval is None:
            return None
        sums = reported_sums(mfu, interval.start, interval.end, self.owner.usage.values())
        divergence = compare_sums(sums, self.owner.gpu_count, thresholds)
        return Comparison.of(interval.unix_start, interval.unix_end, sums, divergence)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is to be said of the report, and of seconds in which the job held no GPU any more."""
        interval, ended = self.interval, self.owner.view.ended if self.owner.view else None
        if interval is None or ended is None or interval.unix_end <= ended + 1:
            return self.stated.warnings
        late = min(interval.unix_end - ended, interval.unix_end - interval.unix_start)
        return (
            *self.stated.warnings,
            f"the job has ended: the last {late:.0f} s of this report are compared with nothing",
        )


class _ObservedTotals(NamedTuple):
    utilization_seconds: float
    gpu_seconds: float


@dataclass(slots=True)
class Entry:
    """What is known of one job's reports."""

    run: str
    """Tells runs of one job id apart."""
    coverage: Coverage = field(default_factory=Coverage)
    outcomes: Counter[str] = field(default_factory=Counter)
    facts: MfuReport | None = None
    """The last report, with the facts of earlier ones that it did not repeat, without its model."""
    model: KeptModel | None = None
    """The model that they reported last."""
    framework: str = ""
    """The first framework that the run named. A job that named another one each time would make a new series each
    time."""
    progress: Progress = field(default_factory=Progress)
    """What its reports say of steps, over all runs of the job's id."""
    restarts: int | None = None
    """How often its scheduler has started it again, as of the last look."""
    hardware: Hardware = field(default_factory=Hardware)
    usage: Mapping[GpuKey, GpuUsage] | None = None
    """The usage with which the coverage was summed up."""
    peak_flops: float | None = None
    at: float | None = None
    """Unix time up to which the job has reported."""
    event_until: float | None = None
    """Monotonic time of the end of the last event that the run has reported."""
    heard_at: float = 0.0
    """Monotonic time of the last report."""
    began: float | None = None
    """When the job's record began (Unix time), which names it; None where that is not known yet."""
    horizon: Compared = NOTHING_COMPARED
    divergence: Divergence | None = None
    """Divergence over the horizon."""
    total_divergence: Divergence | None = None
    """Divergence over all reports."""
    inquiry: Inquiry = field(default_factory=Inquiry)
    trace: TraceSummary | None = None
    finding_seconds: dict[str, float] = field(default_factory=dict)
    """Over all traces."""
    traced_seconds: float = 0.0
    adjusted: Adjusted | None = None
    adjusted_until: _ObservedTotals | None = None
    """Up to which `adjusted` has counted; None = it has not begun."""

    @property
    def verdict(self) -> Verdict:
        return self.divergence.verdict if self.divergence else Verdict.INSUFFICIENT_DATA

    @property
    def question(self) -> CauseQuestion | None:
        """The question for the causes of the divergence over the horizon; None where nothing is compared."""
        if self.divergence is None or self.facts is None:
            return None
        return CauseQuestion(
            self.horizon, self.divergence, self.facts, self.hardware, self.peak_flops, self.model
        )

    @property
    def reported_facts(self) -> ReportedFacts | None:
        return ReportedFacts(self.facts, self.model) if self.facts else None

    def take(
        self, completed: Completed, owner: Owner, lines: RunLines, policy: Policy, now: Instant
    ) -> Receipt:
        """Enter a report, and compare. Raises ReportError; then nothing has changed."""
        report, facts, stated = completed
        reached_at = not_ahead("end", now.unix if report.end is None else report.end, now)
        not_ahead("start", report.start or 0.0, now)
        interval = None
        if stated.mfu is not None:
            began = owner.view.current_began if owner.view else None
            until = self.coverage.reported_until
            interval = interval_of(report, until, began, now, self.at, self.event_until)
            self.coverage = extended(self.coverage, interval.start, interval.end, stated.mfu)
            self.at = interval.unix_end
        self.facts, self.model = facts
        self.hardware, self.peak_flops = owner.hardware, stated.peak_flops
        self.framework = self.framework or framework_name(self.facts.framework)
        self.heard_at = now.monotonic
        self.outcomes["accepted"] += 1
        if report.event:
            self.event_until = now.at_unix(reached_at).monotonic
        if report.trace:
            self.take_trace(report.trace.summary(reached_at))
        run = self.facts.run or ""
        self.progress = lines.after_report(self.progress, report, run, owner, reached_at)
        self.compare(owner, policy, now.monotonic)
        return Receipt(owner, stated, interval)

    def compare(self, owner: Owner, policy: Policy, now: float) -> None:
        """Compare the reports again with everything observed until now."""
        if owner.view is not None:
            self._adjust(owner.view)
        previous = self.divergence.verdict if self.divergence else None
        number, thresholds = owner.gpu_count, policy.thresholds_of(owner, self.facts)
        all_spans = owner.usage is not self.usage
        self.usage = owner.usage
        self.coverage = summed(self.coverage, owner.usage.values(), now, policy.horizon, all_spans)
        self.horizon = recent(self.coverage, now, policy.horizon)
        self.divergence = compare_sums(self.horizon, number, thresholds, previous)
        self.total_divergence = compare_sums(self.coverage.total, number, thresholds)

    def answer(self, receipt: Receipt, policy: Policy, now: float) -> MfuAnswer:
        """The answer to a report: what the hardware did in its interval, and over the horizon (Unix time)."""
        causes, adjusted = self.inquiry.causes_of(self.verdict) or Causes(), self.adjusted
        return MfuAnswer(
            job_id=receipt.owner.key.job_id,
            mfu=receipt.stated.mfu,
            peak_flops=receipt.stated.peak_flops,
            interval=receipt.compared(policy.thresholds_of(receipt.owner, self.facts)),
            horizon=Comparison.of(now - policy.horizon, now, self.horizon, self.divergence),
            causes=causes.fitting,
            tied=causes.tied,
            advice=causes.advice,
            tile_overhead=adjusted.tile_overhead if adjusted else None,
            tile_overhead_bound=adjusted.bound if adjusted else None,
            warnings=receipt.warnings,
        )

    def add(self, other: Entry) -> Entry:
        """Add the sums and counts of another entry of the same job, whose time is not in this one; returns itself."""
        life = total_sums((self.coverage.life, other.coverage.total))
        self.coverage = self.coverage._replace(life=life)
        self.progress = self.progress.plus(other.progress)
        self.outcomes.update(other.outcomes)
        self.trace = self.trace or other.trace
        self.traced_seconds += other.traced_seconds
        for name, seconds in other.finding_seconds.items():
            self.finding_seconds[name] = self.finding_seconds.get(name, 0.0) + seconds
        return self

    def next_run(self, run: str) -> Entry:
        """The entry of another run of the job. It continues sums and counts, but not the facts of the earlier run."""
        return Entry(
            run,
            self.coverage.next_run(),
            Counter(self.outcomes),
            heard_at=self.heard_at,
            began=self.began,
            progress=restarted(self.progress),
            adjusted=self.adjusted,
            finding_seconds=dict(self.finding_seconds),
            traced_seconds=self.traced_seconds,
        )

    def is_of(self, owner: Owner) -> bool:
        """Whether it is not of another job of the same id, whose record was another one."""
        return owner.view is None or self.began in (None, owner.view.began)

    def of_run(self, owner: Owner, now: float) -> Entry:
        """The entry of the job's current run, which goes on with the sums of earlier ones (Unix time)."""
        entry = self.next_run(owner.run) if is_another_run(self.run, owner.run) else self
        entry.run = owner.run or entry.run
        if owner.view is not None:
            entry.began = owner.view.began
            entry.note_starts(owner.view, now)
        return entry

    def note_starts(self, view: JobView, now: float) -> None:
        """Let the next step go on from an earlier one, where the scheduler has started the job again (Unix time)."""
        if self.progress.unsure and not view.start.is_open:
            since = view.worked_since or view.current_began
            self.progress = working_since(self.progress, since)
        before = view.restarts if self.restarts is None else self.restarts
        self.restarts = max(before, view.restarts)
        if before < view.restarts:
            self.progress = restarted_anew(self.progress, now)

    def take_trace(self, trace: TraceSummary) -> None:
        """Keep a trace, and add up what its findings cost, at most five of them: each is a series."""
        self.trace = trace
        self.traced_seconds += trace.seconds
        for each in trace.findings:
            before = self.finding_seconds.get(each.finding)
            if before is not None or len(self.finding_seconds) < MOST_FINDINGS:
                self.finding_seconds[each.finding] = (before or 0.0) + each.seconds

    def _adjust(self, view: JobView) -> None:
        """Add what was observed since the last call, but nothing from before the overhead was known."""
        totals = _ObservedTotals(view.utilization_seconds, view.observed_seconds)
        before, earlier = self.adjusted_until, self.adjusted
        self.adjusted_until = totals
        if self.facts is None or self.facts.tile_overhead is None:
            return
        overhead = self.facts.tile_overhead
        bound = self.facts.tile_overhead_bound
        self.adjusted = replace(earlier or Adjusted(overhead), tile_overhead=overhead, bound=bound)
        if before is not None:
            self.adjusted = self.adjusted.plus(
                totals.utilization_seconds - before.utilization_seconds,
                totals.gpu_seconds - before.gpu_seconds,
            )

    def shown(self, policy: Policy, now: float) -> ReportsView:
        mfu, total = self.horizon.mfu, self.total_divergence
        total_error = total.error if total else NO_ERROR
        error = self.divergence.error if self.divergence else NO_ERROR
        row = row_of(self.hardware.name)
        return ReportsView(
            total=self.coverage.total,
            stderr_ratio=total_error.ratio,
            stderr_method=total_error.method,
            last=self.at,
            peak_flops=self.peak_flops,
            precision=self.facts.shares() if self.facts else None,
            card=row.key if row else None,
            framework=self.framework,
            recent_mfu_ratio=time_mean(self.coverage, now, policy.horizon) if mfu is None else mfu,
            recent_verdict=self.verdict,
            recent_stderr_ratio=error.ratio,
            recent_stderr_method=error.method,
            verdict=total.verdict if total else Verdict.INSUFFICIENT_DATA,
            causes=self.inquiry.causes_of(self.verdict),
            outcomes=dict(self.outcomes),
            adjusted=self.adjusted,
            trace=self.trace,
            finding_seconds=dict(self.finding_seconds),
            traced_seconds=self.traced_seconds,
            progress=self.progress if self.progress.lines else None,
            horizon=self.horizon,
            settled=self.coverage.life,
        )
