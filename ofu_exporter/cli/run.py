"""`run` and `demo`: run the agent, on the counters of this machine, or on recorded or simulated ones."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ofu_exporter.agent.daemon import Daemon
from ofu_exporter.agent.process import keep_heap_small
from ofu_exporter.cli.answers import say
from ofu_exporter.cli.help import SubjectCommand
from ofu_exporter.cli.option_types import flag, option
from ofu_exporter.cli.settings import (
    COMMON,
    SettingsLayer,
    SettingValue,
    configure,
    option_models,
    setting_flags,
    start_logging,
)
from ofu_exporter.recordings import H100_TRAINING, Options
from ofu_exporter.settings import Configured
from ofu_exporter.values.text import shown

if TYPE_CHECKING:
    from fastapi import APIRouter

_OWN = Path(os.environ.get("XDG_RUNTIME_DIR") or os.path.expanduser("~/.cache"), "ofu-exporter")
_DEMO = {
    "listen": SettingValue("127.0.0.1:9846", "demo"),
    "interval": SettingValue(1.0, "demo"),
    "pause_file": SettingValue(
        _OWN / "demo-pause", "demo", "ofu-exporter/demo-pause in XDG_RUNTIME_DIR or ~/.cache"
    ),
}
"""Settings of a demonstration. They override the environment, which is meant for this node's agent, and whoever pauses
that does not mean this."""
REPLAY = {
    **_DEMO,
    "source": SettingValue("replay", "demo"),
    "scheduler": SettingValue("replay", "demo"),
    "path": SettingValue(H100_TRAINING, "demo"),
    "loop": SettingValue(True, "demo"),
}
"""A recording, which starts again at its end: a page without a GPU would show nothing."""
SIMULATED = {
    **_DEMO,
    "source": SettingValue("simulate", "demo"),
    "scheduler": SettingValue("simulate", "demo"),
}
FIRST_COMPARISON = "two minutes"
"""Into the shipped recording, at its own pace: tests/end_to_end/test_readme.py."""
SHOWN = " ".join(("config", *COMMON))
"""The options that --help shows."""
_NOT_OF_A_DEMO = {"state_file", "web_config_file", "url"}


@click.command(
    cls=SubjectCommand,
    short_help="Run the agent: sample the GPUs, serve OFU to Prometheus.",
    common=SHOWN,
)
@setting_flags
def run(**flags: Any) -> None:
    """Sample this node's GPUs and serve their OFU to Prometheus."""
    configured = configure(flags)
    keep_heap_small()
    start_logging(configured)
    Daemon(configured, lambda: configure(flags)).run()
    leave()


@click.command(
    cls=SubjectCommand,
    short_help="Run the agent on a recording or simulated GPUs.",
    common=" ".join(("config port fleet output", *COMMON - _NOT_OF_A_DEMO)),
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="The port on 127.0.0.1; short for --listen 127.0.0.1:N.",
)
@flag(
    "--fleet", "Make the report of a made-up month of 64 GPUs too; it is served at /fleet-report."
)
@option(
    "--output", "Write that report into this file, and serve nothing.", click.Path(path_type=Path)
)
@partial(setting_flags, preset=REPLAY)
def demo(port: int | None, fleet: bool, output: Path | None, **flags: Any) -> None:
    """Serve five recorded training jobs of an H100 (or the recording --path) over and over, or with --source simulate
    a simulated node of 8 GPUs."""
    if output is not None and not fleet:
        raise click.UsageError("--output goes with --fleet")
    report = _made_month(output) if fleet else None
    if output is not None:
        return
    if port is not None:
        if flags.get("listen") is not None:
            raise click.UsageError("--port and --listen both name the port: give one of them")
        flags["listen"] = f"127.0.0.1:{port}"
    preset = _preset(flags)
    configured = configure(flags, preset)
    keep_heap_small()
    start_logging(configured)
    what = _what_is_shown(configured)
    daemon = Daemon(configured, lambda: configure(flags, preset), report)
    say(f"{what}.")
    say(_when(configured))
    target = daemon.url.removeprefix("http://")
    say(
        "Prometheus: add to scrape_configs: "
        f"- {{job_name: ofu-demo, static_configs: [{{targets: ['{target}']}}]}}"
    )
    say(f"Metrics: {daemon.url}{configured.settings.telemetry_path}")
    if report is not None:
        say(f"Fleet report (simulated): {daemon.url}/fleet-report")
    say(f"Page: {daemon.url}/")
    daemon.run()
    leave()


def _made_month(output: Path | None) -> APIRouter | None:
    """The report of a made-up month: written into a file, or else what serves it. The agent needs none of it."""
    from ofu_exporter.cli import demo_fleet

    page = demo_fleet.month_page(time.time())
    if output is None:
        return demo_fleet.route_of(page)
    demo_fleet.write_answer(page, output)
    say(f"{output}: the report of a simulated fleet, no GPU was measured")
    return None


def _preset(flags: Mapping[str, Any]) -> SettingsLayer:
    """What the flags do not say: a simulated node where they ask for one, otherwise the recording.

    Raises UsageError for a source that measures: the demo says that it measures no GPU.
    """
    if flags.get("source") not in (None, "replay", "simulate"):
        raise click.UsageError("a demo measures no GPU: --source is replay or simulate")
    if flags.get("source") == "simulate":
        return SIMULATED
    of_simulation = option_models()["source", "simulate"].model_fields
    is_simulated = any(flags.get(name) is not None for name in of_simulation)
    return SIMULATED if is_simulated and flags.get("path") is None else REPLAY


def _what_is_shown(configured: Configured) -> str:
    """Raises SourceError for a file that is no recording."""
    options = configured.sources.get("replay")
    if not isinstance(options, Options):
        return "Simulated data, no GPU is measured"
    from ofu_exporter.recordings import recording

    header = recording.read(options.path).header
    gpus = shown(", ".join(dict.fromkeys(header.gpus)) or "unknown GPUs")
    day = str(header.created)[:10]
    what = f"simulated {gpus}" if header.simulated else gpus
    return f"A recording of {what} of {shown(day)} is replayed, no GPU of this machine is measured"


def _when(configured: Configured) -> str:
    """When there is something to look at."""
    first = f"The first OFU comes after {2 * configured.settings.interval:g} s"
    options = configured.sources.get("replay")
    if not isinstance(options, Options) or options.path != H100_TRAINING:
        return f"{first}."
    return f"{first}, a reported MFU (job 103) is compared with it after {FIRST_COMPARISON}."


def leave() -> None:
    """End the process with 0 where a thread would hold it up: one of the pool that answers hangs on a disk."""
    main = threading.main_thread()
    if any(not each.daemon for each in threading.enumerate() if each is not main):
        logging.shutdown()
        os._exit(0)
