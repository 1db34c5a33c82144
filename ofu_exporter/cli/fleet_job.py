"""`fleet job`: what one job did, from the Prometheus that has its history."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ofu_exporter.cli.fleet_report import EXIT_INCOMPLETE, OUTPUT, write_answer
from ofu_exporter.cli.fleet_server import asked_server, server_options
from ofu_exporter.cli.help import SubjectCommand
from ofu_exporter.cli.option_types import option
from ofu_exporter.values.text import shown_json

if TYPE_CHECKING:
    from ofu_exporter.fleet.history.fleet_history import ClusterJob
    from ofu_exporter.fleet.reports.job_result import JobResult


@click.command(
    cls=SubjectCommand,
    short_help="What one job did: over time, by GPU, beside its earlier runs.",
    common="server since until cluster owner format_ output",
)
@click.argument("job_id")
@server_options
@option("--cluster", "Cluster of the job, if several have a job of this id.", default=None)
@option("--owner", "User of the job, if others had its id too. Default: the last one.", default="")
@option(
    "--format",
    "Form of the answer. Default: text.",
    click.Choice(("text", "html", "json")),
    parameter="format_",
    default="text",
)
@OUTPUT
def job(
    job_id: str, cluster: str | None, owner: str, format_: str, output: Path | None, **options: Any
) -> None:
    """What one job did: over time, by GPU, and against its earlier runs.

    Exit codes: 3 nothing is known of the job, or nobody answers; 4 a part could not be read.
    """
    from ofu_exporter.fleet.history.fleet_history import ClusterJob

    answer = read(options, ClusterJob(cluster or "", job_id, owner), is_unnamed=cluster == "")
    write_answer(rendered(answer, format_), output)
    sys.exit(EXIT_INCOMPLETE if answer.missing else 0)


def read(options: dict[str, Any], key: ClusterJob, *, is_unnamed: bool = False) -> JobResult:
    """Ask the server for all of one job, of any cluster or of that without a name. Raises UnknownJobError."""
    from ofu_exporter.fleet.reports.job_result import job_result
    from ofu_exporter.fleet.reports.one_job import read_story

    with asked_server(options) as (reader, times):
        story = read_story(reader, times, key, is_unnamed=is_unnamed)
    return job_result(story, reader)


def rendered(answer: JobResult, format_: str) -> bytes:
    from ofu_exporter.fleet.pages.job_page import job_html, job_text

    writers: dict[str, Callable[[JobResult], str]] = {
        "text": job_text,
        "html": job_html,
        "json": lambda result: shown_json(result.model_dump_json(indent=2)),
    }
    return writers[format_](answer).encode(errors="backslashreplace") + b"\n"
