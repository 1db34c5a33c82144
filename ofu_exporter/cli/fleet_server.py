"""The flags of every command that queries a Prometheus: its address, the credentials, and the time to read."""

from __future__ import annotations

import datetime
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ofu_exporter.cli.answers import say
from ofu_exporter.cli.option_types import FILE, option, with_options
from ofu_exporter.errors import ConfigError

if TYPE_CHECKING:
    from ofu_exporter.fleet.chunks import ChunkReader
    from ofu_exporter.fleet.prometheus import PrometheusClient

_UNITS = {"m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
CLOCK_SECONDS = 60.0
"""Difference of the server's clock from ours above which a note is printed."""

_PROMETHEUS = partial(
    option,
    "--prometheus",
    "Prometheus, Thanos, Mimir or VictoriaMetrics: the URL below which /api/v1 is.",
    parameter="server",
    metavar="URL",
    envvar="OFU_EXPORTER_PROMETHEUS_URL",
)
_OPTIONS = (
    option("--since", "How far back to read: 12h, 14d, 4w.", default="14d", show_default=True),
    option("--until", "End of that time, ISO 8601 (UTC). Default: now.", metavar="TIME"),
    option(
        "--bearer-token-file",
        "File of a token to send; instead of OFU_EXPORTER_PROMETHEUS_TOKEN.",
        FILE,
    ),
    option("--user", "User name, with --password-file.", metavar="NAME"),
    option(
        "--password-file",
        "File of the user's password; instead of OFU_EXPORTER_PROMETHEUS_PASSWORD.",
        FILE,
    ),
    option("--ca", "Authorities (PEM) to trust with the server's certificate.", FILE),
    option("--client-cert", "Certificate (PEM) to show the server.", FILE),
    option("--client-key", "Its key, if not in the same file.", FILE),
    option("--tenant", "Sent as X-Scope-OrgID, as Mimir wants it.", metavar="NAME"),
    option(
        "--progress/--no-progress",
        "Show progress on standard error; default: only on a terminal.",
        default=None,
    ),
)
server_options = with_options((_PROMETHEUS(required=True), *_OPTIONS))
"""Adds these flags to a command, which gets them as one dictionary of options."""
server_or_hosts_options = with_options((_PROMETHEUS(), *_OPTIONS))
"""The same for a command that can do without a server."""


@contextmanager
def asked_server(options: dict[str, Any]) -> Iterator[tuple[ChunkReader, tuple[float, float]]]:
    """What reads from the server that the flags describe, and the time to read. Raises ConfigError."""
    from ofu_exporter.fleet.chunks import ChunkReader
    from ofu_exporter.fleet.credentials import PrometheusAccess
    from ofu_exporter.fleet.prometheus import PrometheusClient

    access = PrometheusAccess(
        **{field.name: options[field.name] for field in fields(PrometheusAccess)}
    )
    client = PrometheusClient(options["server"], access)
    line = ProgressLine(options["progress"])
    try:
        yield ChunkReader(client, line), _asked_time(client, options)
    finally:
        line.end()
        client.close()


def _asked_time(client: PrometheusClient, options: dict[str, Any]) -> tuple[float, float]:
    """Begin and end in the server's time. Raises ConfigError, and QueryError where nobody answers."""
    length = since_seconds(options["since"])
    now = client.server_time()
    off = now - time.time()
    if abs(off) > CLOCK_SECONDS:
        say(
            f"ofu-exporter: the server's clock is {abs(off):.0f} s {'ahead of' if off > 0 else 'behind'} "
            "this one; the server's time is used",
            err=True,
        )
    end = now if options["until"] is None else instant(options["until"])
    if end > now + CLOCK_SECONDS:
        raise ConfigError(f"--until: {options['until']} has not come yet by the server's clock")
    begin = min(end, now) - length
    if begin < 0:
        raise ConfigError(f"--until: {options['until'] or 'now'} less --since is before 1970")
    return begin, min(end, now)


def since_seconds(text: str) -> float:
    """Seconds of 12h, 14d or 4w. Raises ConfigError."""
    match = re.fullmatch(r"([0-9]{1,5}(?:\.[0-9]{1,3})?)([mhdw])", text)
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not 3600 <= seconds <= 5 * 366 * 86400:
        raise ConfigError(f"--since must be from 1h to 5 years, such as 12h, 14d or 4w: {text!r}")
    return seconds


def instant(text: str) -> float:
    """Unix seconds of a time in ISO 8601; without a zone it is UTC. Raises ConfigError."""
    try:
        parsed = datetime.datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))
    except ValueError as error:
        raise ConfigError(f"--until must be a time such as 2026-11-22T12:00: {text!r}") from error
    zoned = parsed if parsed.tzinfo else parsed.replace(tzinfo=datetime.timezone.utc)
    return zoned.timestamp()


class ProgressLine:
    """Shows the progress of a long read on standard error: one line that is overwritten on a terminal."""

    def __init__(self, wanted: bool | None) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._is_wanted = self._is_terminal if wanted is None else wanted

    def __call__(self, what: str, done: int, total: int) -> None:
        if not self._is_wanted:
            return
        line = f"reading {what}: {done} of {total} hours"
        if self._is_terminal:
            click.echo(f"\r\x1b[K{line}", err=True, nl=False)
        else:
            say(line, err=True)

    def end(self) -> None:
        if self._is_wanted and self._is_terminal:
            click.echo("\r\x1b[K", err=True, nl=False)
