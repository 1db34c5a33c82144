"""Makes the recording of the training day from what `day.py` left behind: the demo's input, and that of tests.

    python -m tests.hardware.condense_day FOLDER FILE

The readings are the windows of gpm.jsonl as they are, 1 s each: a mean of several would have to weigh each ratio by the
SM cycles of its window, which nobody counted. Job `FIRST`, whose MFU is wrong, comes first; what was before it follows
at the end, so that a replay in a loop is the whole day. The reports are made by the client's own intervals.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from ofu_exporter.client.intervals import Call, Intervals
from ofu_exporter.recordings import recording
from ofu_exporter.recordings.jobs import RecordedJob
from ofu_exporter.sources.nvml.gpm import CLOCK_LIMITS, LINKS, MIB, OTHER_PIPES, PIPES
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.job import Job
from ofu_exporter.values.reading import Activity, ClockSample, Evidence, Reading
from tests.hardware.training import PHASES, Phase
from tests.helpers.recorded_jobs import job_line

FIRST = "full-attention"
POWER_LIMIT_WATTS = 700.0
REPORT_SECONDS = 5.0
"""As training.py has it."""
EPILOG_OF_LAST = 1795408445.189
"""When agent.log says that the last job ended: no answer of the agent has it."""
BATCH = 60
"""Readings that are compressed together."""
Row = Mapping[str, Any]


class Day:
    """What `day.py` wrote, on the monotonic clock of its machine."""

    def __init__(self, folder: Path) -> None:
        self.windows = _lines(folder / "gpm.jsonl")
        self.ahead = self.windows[0]["unix"] - self.windows[0]["end"]
        """Unix time minus monotonic time."""
        self.played = recording.read(folder / "day.jsonl.gz")
        self.gpu = next(event.gpu for event in self.played.events)
        self.stories = {name: json.loads((folder / f"{name}.json").read_text()) for name in PHASES}
        self._answers = [
            job for name in PHASES for job in json.loads((folder / f"{name}.jobs").read_text())
        ]

    def job(self, phase: Phase) -> RecordedJob:
        """A job between its prolog and its epilog, as the agent saw it."""
        told = [each for each in self._answers if each["job_id"] == phase.job_id]
        ended = next((each["ended"] for each in told if each["ended"]), EPILOG_OF_LAST)
        who = {name: told[0][name] for name in ("user", "partition")}
        job = Job("slurm", phase.job_id, phase.name, **who)
        return RecordedJob(job, ("0",), told[0]["began"] - self.ahead, ended - self.ahead)

    def reports(self, name: str) -> Iterator[dict[str, Any]]:
        """What the job's Reporter sent: `training.run`, from the times at which it saw steps end."""
        phase, story = PHASES[name], self.stories[name]
        facts = {"gpus": 1, "precision": phase.precision, "peak_tflops": phase.peak_tflops}
        facts |= {"framework": "transformers", "recompute": "full" if phase.recompute else "none"}
        facts["model"] = {"config": story["config"], "seq_len": phase.seq_len}
        intervals = Intervals(REPORT_SECONDS)
        before, made = story["began"], []
        for number, (now, _) in enumerate(story["steps"]):
            mfu = story["formula_flops"] / (now - before) / (phase.peak_tflops * 1e12)
            made += intervals.add(Call(now, {"mfu": mfu}, number))
            before = now
        for each in (*made, *intervals.take_rest()):
            told = {"mfu": round(each.values["mfu"], 6), "step": each.step}
            yield {"job_id": phase.job_id, **told, "start": each.start, "end": each.end, **facts}


class Turned:
    """The day as a circle that is entered where the window with the start of a job begins."""

    def __init__(self, day: Day) -> None:
        begun = day.job(PHASES[FIRST]).start
        place = next(at for at, row in enumerate(day.windows) if row["end"] > begun)
        self.rows = [*day.windows[place:], *day.windows[:place]]
        self._start = day.windows[place]["start"]
        self.seconds = day.windows[-1]["end"] - day.windows[0]["start"]

    def at(self, monotonic: float) -> float:
        """Seconds since the recording begins."""
        return float((monotonic - self._start) % self.seconds)

    def job(self, job: RecordedJob) -> RecordedJob:
        """The job, which ends where the circle is cut at the latest."""
        start = self.at(job.start)
        return job._replace(start=start, end=min(start + job.end - job.start, self.seconds))

    def report(self, body: Mapping[str, Any]) -> dict[str, Any]:
        start = self.at(body["start"])
        times = {"start": start, "end": start + body["end"] - body["start"]}
        return {**body, **{name: round(at, 3) for name, at in times.items()}}

    def reading(self, reading: Reading) -> Reading:
        start = self.at(reading.start)
        by = start - reading.start
        clocks = tuple(ClockSample(sample.at + by, sample.hz) for sample in reading.clocks)
        return replace(reading, start=start, end=reading.end + by, clocks=clocks)


def readings(day: Day) -> Iterator[Reading]:
    """The windows as the source `nvml` would have read them."""
    joules: float | None = None
    for row in day.windows:
        before, joules = joules, row["energy_joules"]
        yield _reading(day.gpu, row, None if before is None else round(joules - before, 3))


def _reading(gpu: Gpu, row: Row, joules: float | None) -> Reading:
    metrics = row["metrics"]
    ratios = {int(id_): round(value / 100, 6) for id_, value in metrics.items()}
    others = {name: ratios[id_] for name, id_ in OTHER_PIPES.items()}
    links = {name: round(metrics[str(id_)] * MIB) for name, id_ in LINKS.items()}
    is_quiet = not ratios[5] and not ratios[1]
    return Reading(
        gpu=gpu,
        start=row["start"],
        end=row["end"],
        tensor_active=ratios[5],
        pipes={pipe: ratios[id_] for pipe, id_ in PIPES.items()},
        clocks=tuple(ClockSample(at, mhz * 1e6) for at, mhz in row["clocks_mhz"]),
        evidence=Evidence(
            graphics_active=ratios[1],
            other_active=max(others.values()),
            power=round(row["power_watts"] / POWER_LIMIT_WATTS, 6),
            utilization_ratio=row["utilization_percent"] / 100 if is_quiet else None,
            power_watts=row["power_watts"],
        ),
        activity=Activity(
            engine=ratios[1],
            sm=ratios[2],
            occupancy=ratios[3],
            dram=ratios[10],
            energy_joules=joules,
            **others,
            **links,
        ),
        clock_limits=tuple(
            limit for bit, limit in CLOCK_LIMITS.items() if row["clock_reasons"] & bit
        ),
    )


def write(day: Day, path: Path) -> None:
    """Write the recording; raises FileExistsError if it exists."""
    turned = Turned(day)
    header = replace(day.played.header, interval=1.0, clock_interval=0.05)
    writer = recording.RecordingWriter(path, header, 0.0)
    said = chain.from_iterable(day.reports(name) for name in PHASES)
    jobs = [job_line(turned.job(day.job(phase))) for phase in PHASES.values()]
    writer.put([*jobs, *({"report": turned.report(body)} for body in said)])
    windows = sorted(map(turned.reading, readings(day)), key=lambda reading: reading.start)
    for begin in range(0, len(windows), BATCH):
        writer.write(windows[begin : begin + BATCH])
    writer.close()


def _lines(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def main(args: Sequence[str]) -> None:
    if len(args) != 2:
        raise SystemExit(__doc__)
    write(Day(Path(args[0])), Path(args[1]))


if __name__ == "__main__":
    main(sys.argv[1:])
