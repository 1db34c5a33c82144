"""`run` and `demo`: the agent, on real counters or on simulated ones."""

from __future__ import annotations

from typing import Any

import click

from ofu_exporter.cli.settings import load, setting_flags
from ofu_exporter.config import Given
from ofu_exporter.daemon import Daemon
from ofu_exporter.logs import configure_logging

DEMO_LISTEN = "127.0.0.1:9846"


@click.command()
@setting_flags
def run(**flags: Any) -> None:
    """Sample this node's GPUs and serve their OFU to Prometheus."""
    configured = load(flags)
    configure_logging(configured.settings.log_format)
    Daemon(configured, lambda: load(flags)).run()


@click.command()
@setting_flags
def demo(**flags: Any) -> None:
    """Serve a simulated node of 8 GPUs and its jobs (or, with --path, a recording) on this machine."""
    source = "replay" if flags.get("path") else "simulate"
    preset = {
        "source": Given(source, "demo"),
        "scheduler": Given("none" if source == "replay" else "simulate", "demo"),
        "listen": Given(DEMO_LISTEN, "demo"),
        "interval": Given(1.0, "demo"),
    }
    configured = load(flags, preset)
    configure_logging(configured.settings.log_format)
    daemon = Daemon(configured, lambda: load(flags, preset))
    what = "A recording is replayed" if source == "replay" else "Simulated data, no GPU is measured"
    target = daemon.url.removeprefix("http://")
    click.echo(f"{what}. Metrics: {daemon.url}/metrics   Page: {daemon.url}/")
    click.echo(
        "Prometheus: add to scrape_configs: "
        f"- {{job_name: ofu-demo, static_configs: [{{targets: ['{target}']}}]}}"
    )
    daemon.run()
