"""`top`: shows one node, many nodes, or GPUs that it samples itself, on a screen or as text."""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

import click

from ofu_exporter.cli.answers import FORMATS, print_json, say
from ofu_exporter.cli.help import SubjectCommand
from ofu_exporter.cli.option_types import FILE, flag, option
from ofu_exporter.cli.settings import (
    QUIET,
    SettingValue,
    configure,
    setting_flags,
    setting_names,
    start_quiet_logging,
)
from ofu_exporter.client.channel import default_url
from ofu_exporter.errors import ConfigError
from ofu_exporter.jobs.hosts import Host, parse_hosts, read_hosts
from ofu_exporter.serving.node_reader import read_node
from ofu_exporter.support.bounded_get import NoAnswerError
from ofu_exporter.support.csv_text import csv_text
from ofu_exporter.support.extras import install_command
from ofu_exporter.terminal.agents import Agents
from ofu_exporter.terminal.scene import Feed, Scene
from ofu_exporter.terminal.views import SORTS, VIEWS, Choice, for_encoding, page

EXIT_SOURCE = 3
WAIT_SECONDS = 5.0
"""How long `--once` waits for the agents: each answers within two seconds or not at all."""
PRESET = {**QUIET, "interval": SettingValue(2.0, "this command")}
"""Settings with which it samples without an agent."""
SAMPLE = ("source", "interval", "clock_interval", "scheduler", "owner_max_age")
"""The agent's settings that it uses for that."""
TEXTUAL = f"ofu-exporter: this is one page; the screen needs textual: {install_command('top')}"


@click.command(
    cls=SubjectCommand,
    short_help="Watch GPUs, jobs and users in the terminal.",
    common="agent hosts hosts_file once format_ view words sort source path",
)
@partial(setting_flags, preset=PRESET, names=SAMPLE)
@option("--agent", "One agent: http://, https:// or unix:/path; or OFU_AGENT.", metavar="URL")
@option("--hosts", "Many agents: node[1-8],m7, or addresses as for --agent.", metavar="LIST")
@option("--hosts-file", "A file of such agents; # begins a comment.", FILE)
@option("--port", "Port of the agents of --hosts. Default: 9846.", default=9846, metavar="N")
@flag("--https", "The agents of --hosts serve TLS.")
@flag("--once", "Print one page of text and exit.")
@option(
    "--format",
    "Print one page in this format and exit.",
    click.Choice(FORMATS),
    parameter="format_",
)
@option(
    "--view",
    "View to show first: " + ", ".join(VIEWS) + ".",
    click.Choice([*VIEWS]),
    default="gpus",
    metavar="NAME",
)
@option("--filter", "Only rows with these words.", parameter="words", default="", metavar="WORDS")
@option(
    "--sort",
    "Sort by: " + ", ".join(f"{key} {name}" for key, name in SORTS.items()) + ".",
    click.Choice([*SORTS]),
    default=None,
    metavar="KEY",
)
@option(
    "--theme",
    "Colours of the screen: a theme of textual, such as textual-light; none where NO_COLOR is set.",
    metavar="NAME",
)
@option(
    "--color",
    "Whether --once is coloured: auto = on a terminal.",
    click.Choice(["auto", "always", "never"]),
    default="auto",
)
@option("--width", "Width of --once; default: the terminal's.", click.IntRange(40, 1000))
def top(once: bool, format_: str | None, **options: Any) -> None:
    """Watch GPUs, jobs and users in the terminal: bars of OFU, the last hour, verdicts, and what is wrong.

    By default this command asks the agent of this node. Without an agent, or with a setting of a source, it samples
    the GPUs itself, as `check` does. It never ends a process.
    """
    is_screen = not (once or format_) and _can_show_screen()
    feed, seconds = _feed(_hosts(options), options, is_screen)
    choice = Choice(options["view"], options["words"], options["sort"] or "")
    if is_screen:
        _run_screen(feed, choice, options["theme"])
        return
    feed.start()
    try:
        scene = feed.complete(seconds)
    finally:
        feed.stop()
    _print(scene, choice, format_, options)
    if not any(node.gpus for node in scene.nodes):
        sys.exit(EXIT_SOURCE)


def _hosts(options: Mapping[str, Any]) -> list[Host]:
    """The agents that are named. Raises ConfigError."""
    ways = {name: options[name] for name in ("agent", "hosts", "hosts_file")}
    if sum(each is not None for each in ways.values()) > 1:
        raise ConfigError("give one of --agent, --hosts and --hosts-file")
    port, scheme = options["port"], "https" if options["https"] else "http"
    if ways["hosts_file"] is not None:
        return read_hosts(ways["hosts_file"], port, scheme)
    if ways["hosts"] is not None:
        return parse_hosts(ways["hosts"], port, scheme)
    agent = ways["agent"] or (None if _samples(options) else os.environ.get("OFU_AGENT"))
    return [] if agent is None else parse_hosts(agent, port, scheme)


def _samples(options: Mapping[str, Any]) -> bool:
    """Whether a flag is of a source that it would read itself."""
    return any(options.get(name) is not None for name in ("config", *setting_names()))


def _feed(hosts: list[Host], options: Mapping[str, Any], is_screen: bool) -> tuple[Feed, float]:
    """Where scenes come from, and how long the first one may take."""
    samples = _samples(options)
    if hosts:
        if samples:
            raise ConfigError("agents sample by their own settings: leave out the sources' flags")
        return Agents(hosts), WAIT_SECONDS
    if not samples:
        this_node = Host("this node", default_url())
        try:
            read_node(this_node.url)
            return Agents([this_node]), WAIT_SECONDS
        except NoAnswerError as error:
            say(f"ofu-exporter: the agent of this node {error}; top samples by itself", err=True)
    return _own_sampler(options, is_screen)


def _own_sampler(flags: Mapping[str, Any], is_screen: bool) -> tuple[Feed, float]:
    from ofu_exporter.terminal.own_sampler import OwnSampler

    configured = configure(flags, PRESET)
    if is_screen:
        # No log line may appear on the screen.
        logging.getLogger().addHandler(logging.NullHandler())
    else:
        start_quiet_logging(configured)
    return OwnSampler(configured), 3 * configured.settings.interval + 10


def _can_show_screen() -> bool:
    """Whether the screen's library is there; if not, says how to get it. Raises ConfigError without a terminal."""
    try:
        import textual  # noqa: F401
    except ModuleNotFoundError:
        click.echo(TEXTUAL, err=True)
        return False
    streams = (sys.stdin, sys.stdout, sys.stderr)
    if os.environ.get("TERM") == "dumb" or not all(each.isatty() for each in streams):
        raise ConfigError("the screen needs a terminal: use --once or --format")
    return True


def _run_screen(feed: Feed, choice: Choice, theme: str | None) -> None:
    from ofu_exporter.terminal.app import Top

    screen = Top(feed, choice)
    if theme is not None and theme not in screen.available_themes:
        raise ConfigError(f"--theme must be one of {', '.join(sorted(screen.available_themes))}")
    screen.theme = theme or screen.theme
    try:
        screen.run()
    finally:
        feed.stop()


def _print(scene: Scene, choice: Choice, format_: str | None, options: Mapping[str, Any]) -> None:
    if format_ == "json":
        print_json(json.dumps(scene.as_data(), indent=1))
        return
    if format_ == "csv":
        click.echo(csv_text(scene.gpu_rows(), ("node", "gpu")), nl=False)
        return
    is_coloured = options["color"] == "always"
    if options["color"] == "auto":
        is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        is_coloured = sys.stdout.isatty() and not is_plain
    width = options["width"] or shutil.get_terminal_size((100, 24)).columns
    text = page(scene, choice, width, is_coloured)
    click.echo(for_encoding(text, sys.stdout.encoding or "ascii"), color=True)
