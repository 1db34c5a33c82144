"""`fleet mcp`: gives a fleet's answers to an assistant, over the Model Context Protocol on standard streams."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Annotated, Any, get_args

import click
from pydantic import Field

from ofu_exporter import __version__
from ofu_exporter.cli import fleet_changes, fleet_job, fleet_report
from ofu_exporter.cli.answers import say
from ofu_exporter.cli.fleet_server import server_options
from ofu_exporter.cli.help import SubjectCommand
from ofu_exporter.errors import ConfigError, OfuError, file_errors
from ofu_exporter.fleet.changes_result import SeriesKind
from ofu_exporter.fleet.reports.result import By
from ofu_exporter.support.extras import install_command

INSTRUCTIONS = (
    "OFU (Overall FLOP Utilization) is tensor pipe activity x SM clock / tensor clock of NVIDIA GPUs: the share of "
    "the dense peak FLOP/s that was used. MFU is what a job says of itself; an MFU above OFU is impossible. All tools "
    "only read, from one Prometheus. What is absent was not measured, and is never zero."
)
Since = Annotated[str, Field(description="How long before `until` to begin: 12h, 14d, 4w.")]
Until = Annotated[str | None, Field(description="End, ISO 8601 in UTC; null is now.")]
LAST_SECONDS = 30.0
"""How long tools may go on after the end of the input, with which clients end all, and scripts what they ask."""
CLOSING_SECONDS = 2.0
"""How long the SDK may take when all is answered: it waits for tools whose requests were cancelled."""
CANCELLED = "notifications/cancelled"
RowLimit = Annotated[int, Field(ge=1, le=200, description="Most rows of a table.")]


@click.command(
    cls=SubjectCommand,
    short_help="Let an assistant read reports, jobs and changes (MCP).",
    common="server since until bearer_token_file ca tenant",
)
@server_options
def mcp(**options: Any) -> None:
    """Give reports, jobs and changes of a fleet to an assistant, read-only (MCP, standard input and output).

    --since and --until apply if the assistant names no time.
    """
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
        from mcp_types import ToolAnnotations
    except ImportError as error:
        raise ConfigError(f"fleet mcp needs a library: {install_command('mcp')}") from error

    def answered(make: Callable[[], bytes]) -> str:
        """The answer's text, or what is wrong as a tool's error."""
        try:
            return make().decode()
        except OfuError as error:
            raise ToolError(str(error)) from error

    server = MCPServer(
        "ofu-exporter", version=__version__, instructions=INSTRUCTIONS, log_level="ERROR"
    )
    for tool in tools({**options, "progress": False}, answered):
        server.tool(annotations=ToolAnnotations(read_only_hint=True), structured_output=False)(tool)
    # By itself the SDK waits after Ctrl-C until its input ends, and then for each tool's answer; all they do is read.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    pending = _Pending()
    with file_errors("standard input and output"):
        sys.stdin = io.TextIOWrapper(io.BufferedReader(_Input(os.dup(0), pending)))
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(_Output(os.dup(1), pending)))
    server.run("stdio")


class _Pending:
    """The requests that were read and not answered: the SDK would drop their answers at the end of the input."""

    def __init__(self) -> None:
        self._ids: set[int | str] = set()
        self._answered = threading.Condition()

    def note(self, line: bytes) -> None:
        """Note a line that was read or written: a request has a method and an id, its answer the id alone."""
        try:
            message = json.loads(line)
            method, number = message.get("method"), message.get("id")
            if method == CANCELLED:  # such a request has no answer
                method, number = None, message["params"]["requestId"]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return
        if message.get("jsonrpc") != "2.0" or type(number) not in (int, str):
            return  # by the protocol no request, and the SDK answers none
        with self._answered:
            if method is None:
                self._ids.discard(number)
                self._answered.notify_all()
            else:
                self._ids.add(number)

    def are_answered(self) -> bool:
        """Whether all are, after some time at most."""
        with self._answered:
            return self._answered.wait_for(lambda: not self._ids, LAST_SECONDS)


class _Wire(io.FileIO):
    """A standard stream, whose lines are noted."""

    def __init__(self, descriptor: int, pending: _Pending, mode: str) -> None:
        super().__init__(descriptor, mode)
        self._pending = pending
        self._rest = b""

    def _note(self, part: bytes) -> None:
        *lines, self._rest = (self._rest + part).split(b"\n")
        for line in lines:
            self._pending.note(line)


class _Input(_Wire):
    """Standard input, which ends once what it asked is answered."""

    def __init__(self, descriptor: int, pending: _Pending) -> None:
        super().__init__(descriptor, pending, "rb")

    def readinto(self, buffer: Any) -> int | None:
        length = super().readinto(buffer)
        if not length and self._rest:
            # A last line without an end would be read after the end of all.
            buffer[:1], length = b"\n", 1
        self._note(bytes(buffer[:length]))
        if not length:
            if not self._pending.are_answered():
                late = f"is not answered {LAST_SECONDS:g} s after the end of the input"
                say(f"ofu-exporter: what was asked {late}", err=True)
                os._exit(1)
            end = threading.Timer(CLOSING_SECONDS, os._exit, (0,))
            end.daemon = True
            end.start()
        return length


class _Output(_Wire):
    def __init__(self, descriptor: int, pending: _Pending) -> None:
        super().__init__(descriptor, pending, "wb")

    def write(self, buffer: Any) -> int:
        length = super().write(buffer)
        self._note(bytes(buffer[:length]))
        return length


def tools(
    options: dict[str, Any], answered: Callable[[Callable[[], bytes]], str]
) -> list[Callable[..., str]]:
    """What an assistant may ask; names, arguments and docstrings are what it is told of them."""
    default = options["since"]

    def during(since: str, until: str | None) -> dict[str, Any]:
        return {**options, "since": since, "until": until or options["until"]}

    def report(
        since: Since = default, until: Until = None, by: By = "user", rows: RowLimit = 20
    ) -> str:
        """Where the GPU-hours of the fleet went, by user, account, model and so on, and who reports too much."""
        return answered(lambda: _report(during(since, until), by, rows))

    def job(
        job_id: str, since: Since = default, until: Until = None, cluster: str = "", owner: str = ""
    ) -> str:
        """What one job did: its OFU over time and by GPU, what was lost to what, its MFU, its earlier runs."""
        from ofu_exporter.fleet.history.fleet_history import ClusterJob

        query, key = during(since, until), ClusterJob(cluster, job_id, owner)
        return answered(lambda: fleet_job.rendered(fleet_job.read(query, key), "text"))

    def changes(since: Since = default, until: Until = None, rows: RowLimit = 20) -> str:
        """What got slower or faster in the fleet, since when and how sure that is, and which nodes are slow."""
        query, kinds = during(since, until), get_args(SeriesKind)
        return answered(
            lambda: fleet_changes.rendered(fleet_changes.read(query, kinds, 1.1), "markdown", rows)
        )

    return [report, job, changes]


def _report(query: dict[str, Any], by: By, rows: int) -> bytes:
    from ofu_exporter.fleet.history.prices import Prices
    from ofu_exporter.fleet.reports.fleet_report import ReportOptions
    from ofu_exporter.fleet.whole_report import WholeReport

    answer = fleet_report.read_report(query, WholeReport(ReportOptions(by, Prices(), None)))
    if not answer.jobs and not answer.clusters:
        raise OfuError("no data of the agents in this time")
    return fleet_report.rendered(answer, "markdown", rows)
