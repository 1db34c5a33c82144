"""`fleet report --hosts`: the report from what the agents themselves hold, where there is no Prometheus."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ofu_exporter.cli.fleet_server import duration
from ofu_exporter.cli.option_types import FILE, flag, option, with_options
from ofu_exporter.errors import ConfigError

if TYPE_CHECKING:
    from ofu_exporter.fleet.from_agents import AgentJobs
    from ofu_exporter.fleet.reports.fleet_report import ReportOptions
    from ofu_exporter.fleet.reports.result import FleetReport
    from ofu_exporter.terminal.agents import Host

AT_ONCE = 32
"""Agents that are asked at once."""
hosts_options = with_options(
    (
        option(
            "--hosts",
            "Without Prometheus: the agents of node[1-8],m7, or their addresses.",
            metavar="LIST",
        ),
        option("--hosts-file", "A file of such hosts; # begins a comment.", FILE),
        option("--port", "Port of the agents of --hosts: 9846.", default=9846, metavar="N"),
        flag("--https", "The agents of --hosts serve TLS."),
    )
)


def named_hosts(options: dict[str, Any]) -> list[Host]:
    """The agents that are named; none where Prometheus is asked. Raises ConfigError and UsageError."""
    from ofu_exporter.terminal.agents import parse_hosts, read_hosts

    hosts, file = options.pop("hosts", None), options.pop("hosts_file", None)
    port, scheme = options.pop("port", 0), "https" if options.pop("https", False) else "http"
    if hosts is None and file is None:
        if options["server"] is None:
            hint = "'--prometheus'"
            raise click.MissingParameter(param_hint=hint, param_type="option")
        return []
    given = click.get_current_context().get_parameter_source("server")
    if given is ParameterSource.COMMANDLINE or options["source"] != "agents":
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
    from ofu_exporter.fleet.from_agents import agents_report

    now = time.time()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(_asked, hosts))
    return agents_report(answers, (now - duration(options["since"]), now), wanted)


def _asked(host: Host) -> AgentJobs:
    from ofu_exporter.fleet.from_agents import AgentJobs
    from ofu_exporter.jobs.gather import ask_for_all
    from ofu_exporter.support.bounded_get import NoAnswerError
    from ofu_exporter.terminal.agent_access import AgentAccess
    from ofu_exporter.terminal.agents import read_node

    try:
        node = read_node(host.url)
    except NoAnswerError as error:
        return AgentJobs(host.name, (), {}, str(error))
    jobs = ask_for_all(host.url, AgentAccess(os.environ), ended=True)
    models = {gpu.uuid: gpu.name for gpu in node.gpus}
    if isinstance(jobs, str):
        return AgentJobs(host.name, (), models, jobs)
    return AgentJobs(host.name, jobs, models)
