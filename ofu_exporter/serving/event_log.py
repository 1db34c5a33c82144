"""Remembers the last things that happened on the node, in memory and with a number each: a bounded ring of events."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple

from ofu_exporter.serving.faults import Faults
from ofu_exporter.support.durations import lasting
from ofu_exporter.support.percent import percent
from ofu_exporter.values.gpu import GpuKey
from ofu_exporter.values.job import JobKey
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.reported import Verdict
from ofu_exporter.values.snapshot import GpuView, JobView, Snapshot, SourceHealth
from ofu_exporter.values.text import shown

log = logging.getLogger(__name__)

MOST_EVENTS = 1000
MOST_BYTES = 256 << 10
"""Most bytes of the text of all events; the oldest give way."""
MOST_CHARS = 400
"""Most characters of a sentence, and of a subject: a name may be anybody's text."""
MOST_LOST = 1024
"""Most GPUs that are remembered as not measured, so that their return is an event."""
LATE_SECONDS = 60.0
"""A job that began longer than this before it was first seen here is said to have run for a while."""


class EventKind(str, Enum):
    """What happened."""

    JOB_BEGAN = "job_began"
    JOB_ENDED = "job_ended"
    VERDICT_TURNED = "verdict_turned"
    GPU_LOST = "gpu_lost"
    GPU_BACK = "gpu_back"
    SOURCE_CHANGED = "source_changed"
    PAUSED = "paused"
    RESUMED = "resumed"


LOGGED_ELSEWHERE = frozenset(
    {EventKind.GPU_LOST, EventKind.GPU_BACK, EventKind.PAUSED, EventKind.RESUMED}
)
"""Events that the agent's log of changes has a line of already, with what to do about each."""


class Event(NamedTuple):
    """One thing that happened. The numbers of an agent begin with 1 and have no gap."""

    number: int
    unix: float
    """Unix time of the snapshot that showed it."""
    kind: EventKind
    subject: str
    """Id of the job, name of the GPU or of the source."""
    sentence: str

    @property
    def size(self) -> int:
        return len(self.subject.encode()) + len(self.sentence.encode())


class _Seen(NamedTuple):
    """What an event is about, before it has a number."""

    kind: EventKind
    subject: str
    sentence: str


class _RunSeen(NamedTuple):
    """The run of a job that a snapshot showed."""

    began: float
    has_ended: bool


class EventLog:
    """The events since the agent began, at most MOST_EVENTS of them. Any thread may read them."""

    def __init__(self, began: float = 0.0, faults: Faults | None = None) -> None:
        """`began` is the Unix time at which the agent began: jobs that it found in its state file began before."""
        self.began = began
        self._faults = faults or Faults()
        self._lock = threading.Lock()
        self._events: deque[Event] = deque()
        self._bytes = 0
        self._newest = 0
        self._runs: dict[JobKey, _RunSeen] = {}
        """The jobs of the last snapshot."""
        self._verdicts: dict[JobKey, Verdict] = {}
        """The last verdict of each that was one."""
        self._lost: dict[GpuKey, None] = {}
        self._gpus: dict[GpuKey, str] = {}
        """The GPUs of the last snapshot, and their names."""
        self._source: str | None = None
        self._paused = False

    def after(self, number: int) -> tuple[list[Event], int]:
        """The events with a higher number, and the newest number. A number that was never given is of another agent:
        then all events are new."""
        with self._lock:
            known = number if number <= self._newest else 0
            return [event for event in self._events if event.number > known], self._newest

    def take(self, snapshot: Snapshot) -> None:
        """Add what has happened between the snapshot before and this one."""
        ways = (self._source_events, self._gpu_events, self._job_events)
        for events in self._faults.made("/v1/events", lambda way: [*way(snapshot)], ways):
            self._add(snapshot.unix, events)

    def _add(self, unix: float, seen: Iterable[_Seen]) -> None:
        for kind, subject, sentence in seen:
            texts = (_short(subject), _short(sentence))
            with self._lock:
                self._newest += 1
                event = Event(self._newest, unix, kind, *texts)
                self._events.append(event)
                self._bytes += event.size
                while len(self._events) > MOST_EVENTS or self._bytes > MOST_BYTES:
                    self._bytes -= self._events.popleft().size
            if kind not in LOGGED_ELSEWHERE:
                log.info("%s", event.sentence)

    def _source_events(self, snapshot: Snapshot) -> Iterator[_Seen]:
        if snapshot.paused != self._paused:
            self._paused = snapshot.paused
            if self._paused:
                yield _Seen(EventKind.PAUSED, "", "the agent was told to let go of the GPUs")
            else:
                yield _Seen(EventKind.RESUMED, "", "the pause is over")
        now = None if snapshot.paused else _source_sentence(snapshot)
        if now is not None and now != self._source:
            self._source = now
            yield _Seen(EventKind.SOURCE_CHANGED, snapshot.source.name, now)

    def _gpu_events(self, snapshot: Snapshot) -> Iterator[_Seen]:
        gone, self._gpus = self._gpus, {view.gpu.key: _name(view) for view in snapshot.gpus}
        for view in snapshot.gpus:
            key, name = view.gpu.key, self._gpus[view.gpu.key]
            gone.pop(key, None)
            if view.reason is None and key in self._lost:
                del self._lost[key]
                yield _Seen(EventKind.GPU_BACK, name, f"{name} is measured again")
            elif _is_lost(view, snapshot) and key not in self._lost:
                self._lost[key] = None
                yield _Seen(EventKind.GPU_LOST, name, f"{name} is not measured: {_why(view)}")
        for key, name in gone.items():
            if key not in self._lost:
                self._lost[key] = None
                yield _Seen(EventKind.GPU_LOST, name, f"{name} is no longer seen")
        while len(self._lost) > MOST_LOST:
            del self._lost[next(iter(self._lost))]

    def _job_events(self, snapshot: Snapshot) -> Iterator[_Seen]:
        views = {view.job.key: view for view in snapshot.jobs}
        before, self._runs = self._runs, {key: _run(view) for key, view in views.items()}
        for key, old in before.items():
            if key not in views and not old.has_ended:
                yield _Seen(EventKind.JOB_ENDED, key[1], f"job {key[1]} is no longer known")
        for key, run in self._runs.items():
            known = before.get(key)
            is_new = run.began >= self.began and (known is None or known.began != run.began)
            if is_new:
                yield _Seen(EventKind.JOB_BEGAN, key[1], _began(views[key], snapshot))
            if run.has_ended and (is_new or (known is not None and not known.has_ended)):
                yield _Seen(EventKind.JOB_ENDED, key[1], _ended(views[key]))
        yield from self._verdict_events(views)

    def _verdict_events(self, views: Mapping[JobKey, JobView]) -> Iterator[_Seen]:
        self._verdicts = {key: each for key, each in self._verdicts.items() if key in views}
        for key, view in views.items():
            verdict = view.reports.verdict if view.reports else Verdict.INSUFFICIENT_DATA
            if verdict not in (Verdict.INSUFFICIENT_DATA, self._verdicts.get(key)):
                self._verdicts[key] = verdict
                yield _Seen(EventKind.VERDICT_TURNED, key[1], _verdict(view))


def _short(text: str) -> str:
    whole = shown(text)
    return whole if len(whole) <= MOST_CHARS else whole[: MOST_CHARS - 1] + "\u2026"


def _name(view: GpuView) -> str:
    return f"GPU {view.gpu.index}" + (f"/{view.gpu.instance}" if view.gpu.instance else "")


def _why(view: GpuView) -> str:
    """The reason in words."""
    reason = "" if view.reason is None else view.reason.value.replace("_", " ")
    return f"{reason} ({view.detail})" if view.detail else reason


def _is_lost(view: GpuView, snapshot: Snapshot) -> bool:
    """Whether a GPU has a reason of its own: while a source begins, and in a pause, none has."""
    if snapshot.paused or snapshot.source.reason is Reason.STARTING:
        return False
    return view.reason not in (None, Reason.STARTING, Reason.PAUSED)


def _source_sentence(snapshot: Snapshot) -> str | None:
    """Where the numbers come from; None while that is not known."""
    healths = (snapshot.source, *snapshot.other_sources)
    names = {view.source or snapshot.source.name for view in snapshot.gpus}
    read = [health.name for health in healths if health.name in names and _is_read(health)]
    if read:
        return f"the GPUs are read through {' and '.join(read)}"
    reason = snapshot.source.reason
    if reason in (None, Reason.STARTING):
        return None
    return f"no GPU can be read: source {snapshot.source.name}: {reason.value.replace('_', ' ')}"


def _is_read(health: SourceHealth) -> bool:
    return health.up and health.reason is None


def _run(view: JobView) -> _RunSeen:
    began = view.began if view.run_began is None else view.run_began
    return _RunSeen(began, view.ended is not None)


def _job_name(view: JobView) -> str:
    more = ", ".join(name for name in (view.job.name, view.job.user) if name)
    return f"job {view.job.job_id}" + (f" ({more})" if more else "")


def _began(view: JobView, snapshot: Snapshot) -> str:
    held = [_name(each) for each in snapshot.gpus if view.job.key in {h.key for h in each.holders}]
    numbers = ", ".join(name.removeprefix("GPU ") for name in held)
    what = f"holds GPU {numbers}" if held else "has begun"
    again = f", run {len(view.runs)}" if len(view.runs) > 1 else ""
    started = view.job.started
    late = 0.0 if started is None else _run(view).began - started
    since = f"; it began {lasting(late)} before it was seen" if late > LATE_SECONDS else ""
    return f"{_job_name(view)} {what}{again}{since}"


def _ended(view: JobView) -> str:
    observed = view.observed_seconds
    lasted = lasting(max(0.0, (view.ended or view.updated) - _run(view).began))
    said = "no OFU was measured"
    if observed > 0:
        ofu = percent(view.utilization_seconds / observed)
        said = f"OFU {ofu} over {observed / 3600:.2f} GPU-hours"
    return f"{_job_name(view)} has ended after {lasted}: {said}"


def _verdict(view: JobView) -> str:
    assert view.reports is not None
    mfu, ofu = view.reports.mfu, view.reports.horizon.ofu
    said = f"reported MFU {percent(mfu)}, OFU {percent(ofu)} of the same minutes"
    words = {
        Verdict.AGREE: "agrees with OFU",
        Verdict.MFU_ABOVE_OFU: "reports an MFU above OFU",
        Verdict.MFU_BELOW_OFU: "reports an MFU below OFU",
    }
    return f"{_job_name(view)} {words[view.reports.verdict]}: {said}"
