"""`fleet report --hosts`: the report from what the agents themselves hold, where there is no Prometheus."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ofu_exporter.cli.fleet_server import since_seconds
from ofu_exporter.cli.option_types import FILE, flag, option, with_options
from ofu_exporter.errors import ConfigError

if TYPE_CHECKING:
    from ofu_exporter.fleet.reports.fleet_report import ReportOptions
    from ofu_exporter.fleet.reports.result import FleetReport
    from ofu_exporter.jobs.hosts import Host

hosts_options = with_options(
    (
        option(
            "--hosts",
            "Without Prometheus: the agents of node[1-8],m7, or their addresses.",
            metavar="LIST",
        ),
        option("--hosts-file", "A file of such agents; # begins a comment.", FILE),
        option(
            "--port", "Port of the agents of --hosts. Default: 9846.", default=9846, metavar="N"
        ),
        flag("--https", "The agents of --hosts serve TLS."),
    )
)


def named_hosts(options: dict[str, Any]) -> list[Host]:
    """The agents that are named; none where Prometheus is asked. Raises ConfigError and UsageError."""
    from ofu_exporter.jobs.hosts import parse_hosts, read_hosts

    hosts, file = options.pop("hosts", None), options.pop("hosts_file", None)
    port, scheme = options.pop("port", 0), "https" if options.pop("https", False) else "http"
    if hosts is None and file is None:
        if options["server"] is None:
            hint = "'--prometheus'"
            raise click.MissingParameter(param_hint=hint, param_type="option")
        return []
    source_of_server = click.get_current_context().get_parameter_source("server")
    if source_of_server is ParameterSource.COMMANDLINE or options["source"] != "agents":
        raise ConfigError("--hosts and --hosts-file go with neither --prometheus nor --from")
    if options["until"] is not None:
        raise ConfigError("--until: agents know their totals of now alone")
    if hosts is not None and file is not None:
        raise ConfigError("give one of --hosts and --hosts-file")
    if file is not None:
        return read_hosts(file, port, scheme)
    return parse_hosts(hosts, port, scheme)


def hosts_report(hosts: list[Host], options: dict[str, Any], wanted: ReportOptions) -> FleetReport:
    """Ask all agents, and report on what they say. Raises ConfigError."""
    from ofu_exporter.fleet.from_agents import agents_report, ask_agents

    now = time.time()
    return agents_report(ask_agents(hosts), (now - since_seconds(options["since"]), now), wanted)
