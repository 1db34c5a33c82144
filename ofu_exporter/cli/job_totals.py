"""`job show` and `job gather`: print a job's totals from the agent here, from a state file, or from all its nodes."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ofu_exporter.cli.answers import print_answer, say
from ofu_exporter.client.channel import default_url
from ofu_exporter.errors import OfuError
from ofu_exporter.jobs.gather import NodeAgents, ask_agent, gather
from ofu_exporter.jobs.state_rows import find_in_file
from ofu_exporter.jobs.summary import one_line, summary_text
from ofu_exporter.jobs.totals import JobTotals, merged
from ofu_exporter.reports.agent_access import AgentAccess
from ofu_exporter.schedulers.slurm.admin_comment import Commands, SlurmError
from ofu_exporter.schedulers.slurm.squeue import find_squeue
from ofu_exporter.support.bounded_get import NO_ANSWER, shown_url

UNKNOWN = (
    "knows no such job: it held no GPU there, or ended longer ago than the agent remembers "
    "(30 days with a state file, five minutes without)"
)


def show(job_id: str, agent: str | None, state_file: Path | None, format_: str) -> None:
    """Print a job's totals on this node. Raises OfuError, which says who was asked and what each answered."""
    url = agent or default_url()
    answer = ask_agent(url, job_id, access=AgentAccess(os.environ))
    totals = answer.totals
    problems = [f"the agent at {shown_url(url)} {answer.problem or UNKNOWN}"]
    if agent is None and answer.problem.startswith(NO_ANSWER):
        problems[0] += " (--agent names another)"
    if totals is None and state_file is not None:
        totals, problem = _from_file(state_file, job_id)
        problems.append(problem)
    if totals is None:
        raise OfuError(f"job {job_id}: {'; '.join(problems)}")
    data = totals.model_dump(mode="json")
    print_answer(format_, lambda: summary_text(totals), lambda: data, lambda: _rows(data))


def _rows(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each GPU, which repeats whose job it is."""
    job = {name: data[name] for name in ("scheduler", "job_id", "job_name", "user", "simulated")}
    return [{**job, **each} for each in data["gpus"]]


def _from_file(path: Path, job_id: str) -> tuple[JobTotals | None, str]:
    try:
        runs = find_in_file(path, job_id)
    except sqlite3.Error as error:
        return None, f"{path}: {error}"
    return (merged(runs), "") if runs else (None, f"{path} knows nothing of it")


def node_agents(port: int, https: bool) -> NodeAgents:
    """The agents of nodes, as this command asks them. Raises ConfigError."""
    return NodeAgents(port, "https" if https else "http", AgentAccess(os.environ))


def gather_one(job_id: str, nodes: list[str], agents: NodeAgents, wait: float) -> str:
    """A job's totals on all its nodes as one line; nodes without totals are named on standard error."""
    gathered = gather(nodes, agents, job_id, wait)
    for node, problem in gathered.problems.items():
        say(f"ofu-exporter: job {job_id}: {node}: {problem}", err=True)
    if not gathered.totals:
        raise OfuError(f"job {job_id}: no node knows its totals")
    return one_line(merged(gathered.totals), of_nodes=len(dict.fromkeys(nodes)))


def commands(slurm_bin: str, needed: bool) -> Commands:
    """Slurm's commands. Raises SlurmError where there are none and they are needed."""
    squeue = find_squeue(os.environ, slurm_bin)
    if not squeue and needed:
        raise SlurmError("Slurm's commands were not found: say where with --slurm-bin")
    return Commands(os.environ, os.path.dirname(squeue))


def gather_and_write(
    slurm: Commands, job_id: str, nodes: str, agents: NodeAgents, wait: float, write: bool
) -> None:
    """Print the line of one job, and write it into the job's AdminComment if asked to."""
    line = gather_one(job_id, slurm.hostnames(nodes), agents, wait)
    means = f" (AdminComment, by {slurm.write(job_id, line)})" if write else ""
    say(f"job {job_id}: {line}{means}")


def gather_running(slurm: Commands, agents: NodeAgents, write: bool) -> None:
    """Print and write the line of every job that runs with GPUs; one that fails costs no other."""
    for job_id, nodes in slurm.running():
        try:
            gather_and_write(slurm, job_id, nodes, agents, 0.0, write)
        except OfuError as error:
            say(f"ofu-exporter: {error}", err=True)
