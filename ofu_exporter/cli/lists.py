"""`list`: prints what this version knows: sources, schedulers, GPU models, metrics, architectures, conventions."""

from __future__ import annotations

import click


@click.group("list")
def listing() -> None:
    """Show what this version knows: sources, schedulers, GPU models, metrics, architectures, conventions."""


@listing.command("sources")
def list_sources() -> None:
    """Counter sources, and the order in which `auto` tries them."""
    from ofu_exporter import sources

    order = sources.automatic()
    for name in sources.names():
        mark = f"auto, {order.index(name) + 1}." if name in order else "on request"
        click.echo(f"{name:15}{mark:12}{sources.summary(name)}")


@listing.command("schedulers")
def list_schedulers() -> None:
    """Schedulers that can say which job owns which GPU."""
    from ofu_exporter import schedulers

    for name in schedulers.names():
        mark = "auto" if name in schedulers.automatic() else "on request"
        click.echo(f"{name:15}{mark:12}{schedulers.summary(name)}")


@listing.command("gpus")
def list_gpus() -> None:
    """GPU models and what they are rated at."""
    from ofu_exporter.hardware import gpu_models

    click.echo(gpu_models.markdown())


@listing.command("metrics")
def list_metrics() -> None:
    """Every metric with its type, labels and meaning."""
    from ofu_exporter.serving import metrics

    for spec in metrics.specs():
        labels = "{" + ", ".join(spec.labels) + "}" if spec.labels else ""
        click.echo(f"{spec.shown_name}{labels} ({spec.kind})\n    {spec.help}")


@listing.command("architectures")
def list_architectures() -> None:
    """Model architectures whose FLOPs can be counted, and their families."""
    from ofu_exporter.flops import families

    for architecture, family in sorted(families.architectures().items()):
        click.echo(f"{architecture:42}{family}")


@listing.command("conventions")
def list_conventions() -> None:
    """Ways of counting FLOPs."""
    from ofu_exporter.flops import conventions

    for name in conventions.names():
        click.echo(f"{name:12}{conventions.summary(name)}")
