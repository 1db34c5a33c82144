"""`record`: writes what a source reads to a file that `--source replay` can play again."""

from __future__ import annotations

import datetime
import os
import platform
import signal
import sys
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from ofu_exporter import __version__
from ofu_exporter.agent.build import build_sampler
from ofu_exporter.cli.answers import say
from ofu_exporter.cli.help import SubjectCommand
from ofu_exporter.cli.option_types import DURATION, FILE, option
from ofu_exporter.cli.settings import MEASURE, QUIET, configure, setting_flags, start_quiet_logging
from ofu_exporter.errors import ConfigError, OfuError, SourceError
from ofu_exporter.recordings import recording
from ofu_exporter.settings import Configured, Settings
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import Fault, Reading
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.snapshot import Snapshot, SourceHealth


@click.command(
    cls=SubjectCommand,
    short_help="Record what a source reads, to replay it.",
    common="file duration config source interval log_level url path",
)
@click.argument("file", type=FILE)
@option("--duration", "How long to record; default: until stopped.", DURATION)
@partial(setting_flags, preset=QUIET, names=MEASURE, owners=("source",))
def record(file: Path, duration: float | None, **flags: Any) -> None:
    """Record what the source reads to FILE (compressed JSON Lines), for --source replay.

    A file that was cut short can be replayed up to the cut.
    """
    if os.path.lexists(file):
        raise ConfigError(f"{file} exists; a recording is never overwritten")
    configured = configure(flags, QUIET)
    start_quiet_logging(configured)
    session = RecordingSession(file, configured)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: session.done.set())
    session.run(duration)
    if session.count:
        say(f"{session.count} readings and faults in {file}", err=True)
    if session.problem is not None:
        raise session.problem
    if not session.count:
        raise OfuError(
            f"nothing was read, so {file} was not written; "
            f"a first reading comes after --interval, which is {configured.settings.interval:g}s"
        )
    sys.exit(0)


class RecordingSession:
    def __init__(self, file: Path, configured: Configured) -> None:
        self._file = file
        self._settings = configured.settings
        self._writer: recording.RecordingWriter | None = None
        self._sampler = build_sampler(configured, self._watch)
        self._sampler.tap = self._write
        self.count = 0
        self.problem: Exception | None = None
        self.done = threading.Event()

    def run(self, limit: float | None) -> None:
        """Record until `done` is set, for `limit` seconds at most."""
        self._sampler.start()
        self.done.wait(limit)
        self._sampler.stop()
        try:
            if self._writer is not None:
                self._writer.close()
        except OSError as error:
            self._end(self._unwritten(error))

    def _watch(self, snapshot: Snapshot) -> None:
        """End the recording if the source cannot be opened; a source that was open may come back."""
        source = snapshot.source
        if self._writer is None and source.reason not in (None, Reason.STARTING):
            self._end(SourceError(source.reason, source.detail))
        elif any(view.reason is Reason.RECORDING_ENDED for view in snapshot.gpus):
            self.done.set()

    def _write(self, events: Sequence[Reading | Fault], health: SourceHealth) -> None:
        try:
            if self._writer is None:
                epoch = min(e.at if isinstance(e, Fault) else e.start for e in events)
                gpus = list(dict.fromkeys(event.gpu for event in events))
                head = header(self._settings, health, gpus)
                self._writer = recording.RecordingWriter(self._file, head, epoch)
            self.count += self._writer.write(events)
        except OSError as error:
            self._end(self._unwritten(error))

    def _unwritten(self, error: OSError) -> ConfigError:
        return ConfigError(f"{self._file}: {error.strerror or error}")

    def _end(self, problem: Exception) -> None:
        self.problem = self.problem or problem
        self.done.set()


def header(
    settings: Settings, health: SourceHealth, gpus: Sequence[Gpu]
) -> recording.RecordingHeader:
    software = {"ofu-exporter": __version__, "python": platform.python_version()}
    drivers = ", ".join(sorted({gpu.driver for gpu in gpus if gpu.driver}))
    return recording.RecordingHeader(
        source=health.name,
        simulated=health.simulated,
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        software={**software, "driver": drivers} if drivers else software,
        gpus=tuple(gpu.name for gpu in gpus),
        interval=settings.interval,
        clock_interval=settings.clock_interval,
    )
