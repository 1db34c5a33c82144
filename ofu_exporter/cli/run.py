"""`run` and `demo`: run the agent, on real counters or on simulated ones."""

from __future__ import annotations

import logging
import os
import threading
from functools import partial
from pathlib import Path
from typing import Any

import click

from ofu_exporter.agent.daemon import Daemon
from ofu_exporter.cli.help import SubjectCommand
from ofu_exporter.cli.layers import Given
from ofu_exporter.cli.settings import load, setting_flags, start_logging
from ofu_exporter.recordings import recording
from ofu_exporter.support.malloc_settings import keep_heap_small

DEMO = {
    "source": Given("simulate", "demo"),
    "scheduler": Given("simulate", "demo"),
    "listen": Given("127.0.0.1:9846", "demo"),
    "interval": Given(1.0, "demo"),
}
"""Settings of a demonstration. They override the environment, which is meant for this node's agent."""
REPLAY = {
    **DEMO,
    "source": Given("replay", "demo"),
    "scheduler": Given("none", "demo"),
    "loop": Given(True, "demo"),
}
"""The same for a recording, which starts again at its end: a page without a GPU would show nothing."""


@click.command(
    cls=SubjectCommand, short_help="Run the agent: sample the GPUs, serve OFU to Prometheus."
)
@setting_flags
def run(**flags: Any) -> None:
    """Sample this node's GPUs and serve their OFU to Prometheus."""
    configured = load(flags)
    keep_heap_small()
    start_logging(configured)
    Daemon(configured, lambda: load(flags)).run()
    leave()


@click.command(cls=SubjectCommand, short_help="Run the agent on simulated GPUs and jobs.")
@partial(setting_flags, own=DEMO)
def demo(**flags: Any) -> None:
    """Serve a simulated node of 8 GPUs and its jobs (or, with --path, a recording, over and over) on this machine."""
    path = flags.get("path")
    preset = REPLAY if path else DEMO
    configured = load(flags, preset)
    keep_heap_small()
    start_logging(configured)
    if path:
        recording.read(Path(path))  # raises for a file that is no recording
    daemon = Daemon(configured, lambda: load(flags, preset))
    what = "A recording is replayed" if path else "Simulated data, no GPU is measured"
    target = daemon.url.removeprefix("http://")
    path = configured.settings.telemetry_path
    click.echo(f"{what}. Metrics: {daemon.url}{path}   Page: {daemon.url}/")
    click.echo(
        "Prometheus: add to scrape_configs: "
        f"- {{job_name: ofu-demo, static_configs: [{{targets: ['{target}']}}]}}"
    )
    daemon.run()
    leave()


def leave() -> None:
    """End the process with 0 where a thread would hold it up: one of the pool that answers hangs on a disk."""
    main = threading.main_thread()
    if any(not each.daemon for each in threading.enumerate() if each is not main):
        logging.shutdown()
        os._exit(0)
