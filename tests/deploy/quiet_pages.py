"""What the agents of a mixed fleet serve in four weeks: its text, family by family."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping

from tests.deploy.quiet_fleet import (
    DAY,
    FAULTS,
    LENGTH,
    MIB,
    NODES,
    SCRAPE,
    SM_HZ,
    START,
    STEP,
    TENSOR_HZ,
    Pages,
    QuietJob,
    down_times,
    jobs,
    starts_of,
    times_of,
)
from tests.helpers.stored_fleet import BEGIN

Points = list[tuple[int, float]]
SLOW = 0.33
"""Part of their work that jobs do while storage is slow."""


def text() -> str:
    pages = Pages()
    for node in NODES:
        AgentPages(node, pages).put_all()
    return pages.text()


class AgentPages:
    """One agent's."""

    def __init__(self, node: str, pages: Pages) -> None:
        self._node = node
        self._pages = pages
        self._times = times_of(node)
        down = down_times(node)
        self._seen = {t for t in self._times if not any(begin <= t < end for begin, end in down)}
        starts = starts_of(node)
        self._starts = {time: starts[bisect_right(starts, time) - 1] for time in self._times}
        self._jobs = [job for job in jobs() if node in job.nodes]
        broken = ("lost", "n4"), ("pause", "n4"), ("source", "n6")
        self._lost = {time for time in self._times if any(self._fault(*f, time) for f in broken)}
        """When no GPU of this node can be measured."""

    def put_all(self) -> None:
        up = [(time, float(time in self._seen)) for time in self._times]
        self._put("up", up, job="ofu")
        self._put_agent()
        self._put_counters()
        for gpu in range(NODES[self._node]):
            self._put_gpu(str(gpu))
        for job in self._jobs:
            if job.is_seen:
                self._put_job(job)

    def _put(self, name: str, points: Points, **labels: str) -> None:
        self._pages.put(name, {"instance": self._node, **labels}, points)

    def _gauge(self, name: str, value: Callable[[float], float | None], **labels: str) -> None:
        found = ((time, value(time)) for time in self._times if time in self._seen)
        self._put(name, [(time, one) for time, one in found if one is not None], **labels)

    def _counter(
        self,
        name: str,
        rate: Callable[[float], float],
        labels: Mapping[str, str],
        while_: tuple[float, float] = (0, LENGTH),
    ) -> None:
        """It begins at 0 with each start of the agent."""
        total, last, points = 0.0, 0.0, []
        for time in self._shown(*while_):
            if (start := self._starts[time]) != last:
                total, last = 0.0, start
            if time in self._seen:
                points.append((time, total))
            if time + SCRAPE < while_[1]:
                total += SCRAPE * rate(time)
        self._put(name, points, **labels)

    def _shown(self, begin: float, end: float) -> list[int]:
        """The times of the pages that show what goes on then: it is there for 5 minutes longer."""
        return self._times[bisect_left(self._times, begin) : bisect_left(self._times, end + 300)]

    def _fault(self, name: str, node: str, time: float) -> bool:
        return self._node == node and FAULTS[name].at(time)

    def _while(self, name: str, node: str) -> Callable[[float], float]:
        return lambda time: float(self._fault(name, node, time))

    def _present(self, name: str, node: str) -> Callable[[float], float | None]:
        """1 while there is the fault, else absent."""
        return lambda time: 1.0 if self._fault(name, node, time) else None

    def _memory(self, time: float) -> float:
        """Nine tenths of 256 MiB are reached when the fault begins, by a leak of a day."""
        leak = FAULTS["memory"]
        is_leaking = self._node == "n2" and leak.begin - DAY <= time < leak.end
        grown = 142.5 * (time - leak.begin + DAY) / DAY if is_leaking else 0.0
        return (88 + grown) * MIB

    def _put_agent(self) -> None:
        frozen = FAULTS["stale"]
        self._gauge("process_resident_memory_bytes", self._memory, job="ofu")
        begun = {time: BEGIN + start + 0.25 for time, start in self._starts.items()}
        self._gauge("process_start_time_seconds", lambda t: begun[int(t)], job="ofu")
        self._gauge(
            "ofu_exporter_snapshot_timestamp_seconds",
            lambda t: BEGIN + (frozen.begin if self._fault("stale", "n6", t) else t) - 3,
        )
        reload = self._while("reload", "n5")
        self._gauge("ofu_exporter_config_last_reload_successful", lambda t: 1 - reload(t))
        self._gauge("ofu_exporter_paused", self._while("pause", "n4"))
        self._gauge("ofu_exporter_simulated", self._while("simulated", "n5"))
        self._put_certificate()
        of_slurm, of_nvml = {"scheduler": "slurm"}, {"source": "nvml"}
        unavailable = "ofu_exporter_scheduler_unavailable"
        silent = self._present("scheduler", "n4")
        self._gauge(unavailable, silent, **of_slurm, reason="unreadable")
        # On a node that has just started, no Slurm job has begun yet.
        self._gauge(
            unavailable, lambda t: 1.0 if self._is_new(t) else None, **of_slurm, reason="no_job_yet"
        )
        self._gauge(
            "ofu_exporter_scheduler_up",
            lambda t: float(not (silent(t) or self._is_new(t))),
            **of_slurm,
        )
        failing = self._present("source", "n6")
        self._gauge("ofu_exporter_source_unavailable", failing, **of_nvml, reason="hung")
        paused = self._present("pause", "n4")
        self._gauge("ofu_exporter_source_unavailable", paused, **of_nvml, reason="paused")

    def _is_new(self, time: float) -> bool:
        return time - self._starts[int(time)] < 900

    def _put_certificate(self) -> None:
        """One that somebody renews late, and one of three days that is renewed each day; no TLS elsewhere."""
        late = FAULTS["certificate"]
        ends: Mapping[str, Callable[[float], float]] = {
            "n2": lambda t: BEGIN + (t // DAY + 3) * DAY,
            "n3": lambda t: BEGIN + late.begin + (90 if t >= late.end else 7) * DAY,
        }
        if self._node in ends:
            name = "ofu_exporter_tls_certificate_expires_timestamp_seconds"
            self._gauge(name, ends[self._node])

    def _put_counters(self) -> None:
        error = FAULTS["own error"]
        if self._node == "n1":
            span = (error.begin, error.end)
            self._counter(
                "ofu_exporter_faults_total", lambda _: 1 / 600, {"where": "collector"}, span
            )
        # Of what counts one node's fault alone, the page of that one will do.
        missed = self._while("deadlines", "n1")
        self._counter("ofu_exporter_missed_deadlines_total", lambda t: 0.001 + 0.8 * missed(t), {})
        writes, failed = "ofu_exporter_state_writes_total", self._while("state", "n1")
        self._counter(writes, lambda t: 0.1 * (1 - failed(t)), {"outcome": "written"})
        if self._node == "n1":
            self._counter(writes, lambda t: 0.1 * failed(t), {"outcome": "failed"})
        rejected = "ofu_exporter_scheduler_rejected_total"
        cap, claims = FAULTS["cap"].begin, self._while("claims", "n4")
        reasons: Mapping[str, Callable[[float], float]] = {
            "too_many": lambda t: float(self._node == "n4" and cap <= t < cap + SCRAPE) / SCRAPE,
            "contested": lambda t: claims(t) / 600,
            # What a crash of the node leaves behind.
            "other_boot": lambda t: float(t - self._starts[int(t)] < SCRAPE) / SCRAPE,
        }
        for reason, rate in reasons.items():
            if reason == "other_boot" or self._node == "n4":
                self._counter(rejected, rate, {"scheduler": "slurm", "reason": reason})

    def _job_at(self, time: float) -> QuietJob | None:
        return next((job for job in self._jobs if job.begin <= time < job.end), None)

    def _ofu(self, job: QuietJob | None, gpu: str, time: float) -> float:
        if job is None:
            return 0.0
        share = SLOW if FAULTS["storage"].at(time) else 1.0
        if job.job_id == "big-3" and FAULTS["slow job"].at(time):
            share = 0.2
        if self._fault("straggler", "n3", time):
            share = 0.3
        if self._hangs(job, time) or (job.reports and time < job.begin + START):
            share = 0.0
        return job.ofu(time) * share * self._clock(gpu, time) / SM_HZ

    def _hangs(self, job: QuietJob, time: float) -> bool:
        return job.job_id == FAULTS["hang"].where["job_id"] and FAULTS["hang"].at(time)

    def _clock(self, gpu: str, time: float) -> float:
        return SM_HZ * (0.75 if gpu == "1" and self._fault("throttled", "n2", time) else 1.0)

    def _seconds(self, time: float) -> float:
        """Part of the time that is measured."""
        if time in self._lost:
            return 0.0
        return 0.7 if self._fault("windows", "n1", time) else 0.997

    def _put_gpu(self, gpu: str) -> None:
        which = {"gpu": gpu, "uuid": f"GPU-{self._node}-{gpu}"}
        held = {int(time): self._job_at(time) for time in self._times}
        ofu = {time: self._ofu(job, gpu, time) for time, job in held.items()}
        self._counter("ofu_gpu_observed_seconds_total", self._seconds, which)
        self._counter(
            "ofu_gpu_utilization_seconds_total", lambda t: self._seconds(t) * ofu[int(t)], which
        )
        activity = {
            time: one * TENSOR_HZ / self._clock(gpu, time)
            for time, one in ofu.items()
            if time not in self._lost
        }
        self._gauge("ofu_gpu_tensor_active_ratio", lambda t: activity.get(int(t)), **which)
        clock = {time: self._clock(gpu, time) for time in activity}
        self._gauge("ofu_gpu_sm_clock_hertz", lambda t: clock.get(int(t)), **which)
        self._gauge("ofu_gpu_up", lambda t: float(int(t) not in self._lost), **which)
        self._put_who(which, held)

    def _put_who(self, which: dict[str, str], held: dict[int, QuietJob | None]) -> None:
        broken = ("lost", "lost", "n4"), ("paused", "pause", "n4"), ("hung", "source", "n6")
        for reason, name, node in broken:
            gone = self._present(name, node)
            self._gauge("ofu_gpu_unavailable", gone, **which, reason=reason)
        stamps: dict[int, float] = {}
        last = 0.0
        for time in self._times:
            frozen = time in self._lost or self._fault("stale", "n6", time)
            last = last if frozen else time - 3
            stamps[time] = BEGIN + last
        self._gauge("ofu_gpu_sample_timestamp_seconds", lambda t: stamps[int(t)], **which)
        ids = {time: job.job_id if job and job.is_seen else "" for time, job in held.items()}
        for job_id in dict.fromkeys(["", *ids.values()]):
            has = [(time, 1.0) for time, one in ids.items() if one == job_id and time in self._seen]
            labels = {**which, "model": "NVIDIA H100 80GB HBM3"}
            self._put("ofu_gpu_info", has, **labels, job_id=job_id)

    def _put_job(self, job: QuietJob) -> None:
        gpus = [str(gpu) for gpu in range(NODES[self._node])]
        span, which = (job.begin, job.end), {"job_id": job.job_id}
        names = {"job_name": job.job_id.partition("-")[0], "user": "ada"}
        shown = [time for time in self._shown(*span) if time in self._seen]
        info = [(time, 1.0) for time in shown]
        self._put("ofu_job_info", info, **which, **names, framework=job.framework)

        def measured(time: float) -> float:
            return len(gpus) * self._seconds(time)

        def used(time: float) -> float:
            return self._seconds(time) * sum(self._ofu(job, gpu, time) for gpu in gpus)

        def without(time: float) -> float:
            return measured(time) * (1.0 if self._hangs(job, time) else job.idle(time))

        rates = {"held_gpu": lambda _: float(len(gpus)), "gpu": measured, "utilization": used}
        if job.reports:
            factor = {"big-1": self._counted}.get(job.job_id, lambda _: 0.9)
            rates |= {"compared_gpu": measured, "compared_utilization": used}
            rates["compared_mfu"] = lambda time: factor(time) * used(time)
            self._put_verdicts(job, shown)
            self._put_progress(job, shown, len(gpus))
        for name, rate in rates.items():
            self._counter(f"ofu_job_{name}_seconds_total", rate, which, span)
        self._counter("ofu_job_lost_seconds_total", without, {**which, "part": "idle"}, span)

    def _counted(self, time: float) -> float:
        """What the job reports of its OFU."""
        return 2.1 if FAULTS["above"].at(time) else 0.4 if FAULTS["below"].at(time) else 0.9

    def _put_verdicts(self, job: QuietJob, shown: list[int]) -> None:
        def verdict(time: float) -> str:
            number = self._counted(time) if job.job_id == "big-1" else 0.9
            return "mfu_above_ofu" if number > 1 else "mfu_below_ofu" if number < 0.5 else "agree"

        for one in ("agree", "mfu_above_ofu", "mfu_below_ofu"):
            points = [(time, float(verdict(time) == one)) for time in shown]
            self._put("ofu_job_divergence_verdict", points, job_id=job.job_id, verdict=one)
        quiet = {"big-2": FAULTS["reports"], FAULTS["hang"].where["job_id"]: FAULTS["hang"]}
        fault = quiet.get(job.job_id)
        stamps = [(t, BEGIN + (fault.begin if fault and fault.at(t) else t) - 20) for t in shown]
        self._put("ofu_job_report_timestamp_seconds", stamps, job_id=job.job_id)

    def _put_progress(self, job: QuietJob, shown: list[int], gpus: int) -> None:
        """Its highest step, and what was no new one."""
        which, span = {"job_id": job.job_id}, (job.begin, job.end)
        again = FAULTS["again"]
        does_again = again if job.job_id == again.where["job_id"] else None
        standing = [each for each in (FAULTS["hang"], again) if each.where == which]

        def step(time: float) -> float:
            lost = sum(max(0.0, min(time, each.end) - each.begin) for each in standing)
            return float(max(0.0, time - job.begin - START - lost) // STEP)

        points = [(time, step(time)) for time in shown if time >= job.begin + START]
        self._put("ofu_job_step", points, **which)
        reasons: Mapping[str, Callable[[float], float]] = {
            "starting": lambda t: float(gpus * (t < job.begin + START)),
            "done_again": lambda t: float(gpus * bool(does_again and does_again.at(t))),
        }
        for reason, rate in reasons.items():
            name = "ofu_job_lost_progress_gpu_seconds_total"
            self._counter(name, rate, {**which, "reason": reason}, span)
