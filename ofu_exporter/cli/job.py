"""`job`: the commands for Slurm's Prolog and Epilog, and for the totals of a job.

`start` and `stop` never fail, since a node whose hook fails is drained, and they import next to nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ofu_exporter.cli.answers import format_option, say
from ofu_exporter.cli.help import SubjectGroup
from ofu_exporter.cli.option_types import FILE, FOLDER, flag, option, with_options
from ofu_exporter.errors import ConfigError
from ofu_exporter.schedulers.slurm import hooks, job_files, job_tokens
from ofu_exporter.schedulers.slurm.squeue import ASK_SECONDS, Squeue


class _Hook(click.Command):
    """A command that prints an error and then ends with success all the same."""

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        try:
            return super().make_context(*args, **extra)
        except click.UsageError as error:
            say(f"ofu-exporter: {error.format_message()}", err=True)
            raise click.exceptions.Exit(0) from error

    def invoke(self, ctx: click.Context) -> None:
        try:
            super().invoke(ctx)
        except Exception as error:  # noqa: BLE001 - a job must not suffer, whatever it is
            say(f"ofu-exporter: {str(error) or type(error).__name__}", err=True)


STOP_SECONDS = 5.0
"""Time for the summary. hook.sh lets the epilog go on meanwhile; on a busy node the agent needs seconds, too."""


SUBJECTS = {"Totals of a job": ("show", "gather"), "For Slurm's hooks": ("start", "stop")}


@click.group(cls=SubjectGroup, subjects=SUBJECTS)
def job() -> None:
    """Note that a Slurm job starts or stops here; show a job's totals."""


hook_flags = with_options(
    (
        option(
            "--job-id",
            "Id of the job; default: SLURM_JOB_ID.",
            envvar="SLURM_JOB_ID",
            required=True,
            metavar="N",
        ),
        option(
            "--token-dir",
            "Directory of the jobs' tokens; default: tokens, beside the directory of the job files.",
            FOLDER,
        ),
        option(
            "--job-dir",
            "Directory of the job files.",
            FOLDER,
            envvar="OFU_JOB_DIR",
            default=job_files.DIRECTORY,
            show_default=True,
        ),
        option("--slurm-bin", "Where squeue is.", default="", metavar="DIR"),
        option(
            "--ask-seconds",
            "How long to wait for Slurm's answer.",
            float,
            default=ASK_SECONDS,
            show_default=True,
            metavar="S",
        ),
        flag("--no-ask", "Never ask Slurm; write what is known anyway."),
    )
)
"""The flags that both hooks have."""


def _hooked(options: Mapping[str, Any]) -> tuple[str, hooks.Node, Squeue]:
    """The job's id, the node, and squeue, as the flags of a hook say. Raises ConfigError."""
    seconds = 0.0 if options["no_ask"] else options["ask_seconds"]
    folder, tokens = options["job_dir"], options["token_dir"]
    node = hooks.Node(folder, tokens or job_tokens.beside(folder))
    if not job_files.is_job_id(options["job_id"]):
        raise ConfigError(f"--job-id: {options['job_id']!r} is not the number of a job")
    return options["job_id"], node, Squeue(os.environ, options["slurm_bin"], seconds)


@job.command(cls=_Hook, short_help="Write the file that says which GPUs the job has.")
@hook_flags
@option(
    "--noted",
    "When hook.sh wrote the job's file, which is completed if it is still there.",
    float,
    metavar="UNIX",
)
def start(noted: float | None, **options: Any) -> None:
    """Write the file that says which GPUs the job has, and its token; a job without a GPU gets none."""
    job_id, node, squeue = _hooked(options)
    hooks.start(node, job_id, os.environ, squeue.ask, time.time(), noted)
    _print_problem(squeue)


agent_flag = option(
    "--agent",
    "The agent of this node: http://, https:// or unix:/path. "
    "Default: OFU_AGENT, its Unix socket where that is there, or http://127.0.0.1:9846.",
    envvar="OFU_AGENT",
    metavar="URL",
)


@job.command(cls=_Hook, short_help="End the job here, and say what its GPUs did.")
@hook_flags
@flag("--set-aside", "hook.sh has set the file aside; one that is there is the next run's.")
@agent_flag
def stop(agent: str | None, set_aside: bool, **options: Any) -> None:
    """Set the job's file aside, remove its token, and say what its GPUs did, or why that is not known."""
    job_id, node, squeue = _hooked(options)
    deadline = time.monotonic() + STOP_SECONDS
    had_gpus = hooks.stop(node, job_id, squeue.ask, time.time(), set_aside)
    _print_problem(squeue)
    if had_gpus:
        from ofu_exporter.cli.job_end import summary_at_end

        click.echo(summary_at_end(job_id, agent, deadline))


@job.command(short_help="Show what a job's GPUs on this node did.")
@click.argument("job_id", required=False)
@agent_flag
@option(
    "--state-file",
    "The agent's state file, which is read if no agent answers.",
    FILE,
    envvar="OFU_STATE_FILE",
)
@format_option
def show(job_id: str | None, agent: str | None, state_file: Path | None, format_: str) -> None:
    """Show what a job's GPUs on this node did, also after it has ended. Without an id the jobs are listed."""
    from ofu_exporter.cli import job_list, job_totals

    if job_id is None:
        job_list.show(agent, state_file, format_)
    else:
        job_totals.show(job_id, agent, state_file, format_)


@job.command(short_help="Ask the agents of all nodes of a job for its totals.")
@click.argument("job_id", required=False)
@flag("--running", "Every job that runs with GPUs, instead of one.")
@option("--nodes", "The job's nodes, such as n[1-4],m7.", metavar="LIST")
@option("--port", "Port of the agents.", default=9846, show_default=True)
@flag("--https", "The agents serve TLS.")
@option("--wait", "How long to wait for the job's end everywhere.", default=0.0, metavar="SECONDS")
@flag("--write", "Write the line into the job's AdminComment.")
@option("--slurm-bin", "Where Slurm's commands are.", default="", metavar="DIR")
def gather(job_id: str | None, nodes: str | None, write: bool, **options: Any) -> None:
    """Ask the agents of all nodes of a job, and print its totals as one line."""
    from ofu_exporter.cli import job_totals

    running = options["running"]
    if running == bool(job_id) or not (running or nodes):
        raise ConfigError("give a job and its --nodes, or --running")
    needs_slurm = running or write or "[" in (nodes or "")
    slurm = job_totals.commands(options["slurm_bin"], needs_slurm)
    agents = job_totals.node_agents(options["port"], options["https"])
    if job_id and nodes:
        job_totals.gather_and_write(slurm, job_id, nodes, agents, options["wait"], write)
    else:
        job_totals.gather_running(slurm, agents, write)


def _print_problem(squeue: Squeue) -> None:
    """Print why there was no answer, if one was wanted."""
    if squeue.problem:
        say(f"ofu-exporter: {squeue.problem}", err=True)
