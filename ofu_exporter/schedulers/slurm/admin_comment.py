"""Writes a job's summary into its AdminComment, in the way that this Slurm allows now."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping

from ofu_exporter.errors import OfuError

OURS = "ofu="
"""The beginning of our own comments. Any other comment is somebody else's and is not overwritten."""
COMMAND_SECONDS = 10.0
_KNOWS_NO_COMMENT = "give me anything to set"
"""What sacctmgr before Slurm 22.05 answers to `set admincomment=`."""
_REQUESTS = ("tres-per-job", "tres-per-node", "tres-per-socket", "tres-per-task")
"""What squeue says of the GPUs that a job asked for: by --gpus, by --gres or --gpus-per-node, and so on."""


class SlurmError(OfuError):
    """Slurm did not do what it was asked to; the text is Slurm's own."""


class Commands:
    def __init__(self, environ: Mapping[str, str], folder: str) -> None:
        """`folder` is where the commands are; `squeue.find` finds it."""
        self._folder = folder
        self._environ = {**environ, "LC_ALL": "C"}

    def hostnames(self, nodes: str) -> list[str]:
        """The nodes of a list such as `n[1-4],m7`."""
        if "[" not in nodes:
            return [node for node in nodes.split(",") if node]
        return self._run("scontrol", "show", "hostnames", nodes).split()

    def running(self) -> list[tuple[str, str]]:
        """Id and nodes of every job that runs with GPUs."""
        requests = ",".join(f"{name}:256" for name in _REQUESTS)
        lines = self._run("squeue", "--noheader", "--states=R", f"--Format=JobID:32,{requests}")
        nodes = dict(self._rows("squeue", "--noheader", "--states=R", "--format=%A|%N"))
        asked = [(line[:32].strip(), line[32:]) for line in lines.splitlines()]
        return [(each, nodes[each]) for each, gpus in asked if "gpu" in gpus and each in nodes]

    def _rows(self, *command: str) -> list[list[str]]:
        """The fields of each line that a command prints, between bars: at no width, which would cut a long one."""
        lines = self._run(*command).splitlines()
        return [line.split("|", 2) for line in lines if "|" in line]

    def has_database(self) -> bool:
        """Whether the site has slurmdbd, which keeps comments of jobs that ended."""
        config = self._run("scontrol", "show", "config")
        return bool(re.search(r"AccountingStorageType\s*=\s*accounting_storage/slurmdbd", config))

    def write(self, job_id: str, comment: str) -> str:
        """Write the comment; returns the name of the command that did. Raises SlurmError.

        scontrol can write it only while the job runs. Where both commands can, sacctmgr writes it: a comment
        that scontrol has set comes back when slurmctld restarts, and replaces that of sacctmgr. Before Slurm 22.05
        only scontrol can, and the database keeps what it has set.
        """
        if self.has_database():
            rows = self._rows(
                *("sacct", "--noheader", "--allocations", "--parsable2"),
                *("--format=jobidraw,jobid,admincomment", f"--jobs={job_id}"),
            )
            name = _own_name(rows, job_id)
            _check_ours(next((row[-1] for row in rows if row[1] == name), ""), job_id)
            try:
                self._run(
                    *("sacctmgr", "--immediate", "modify", "job", "where", f"jobid={name}"),
                    *("set", f"admincomment={comment}"),
                )
                return "sacctmgr"
            except SlurmError as error:
                if _KNOWS_NO_COMMENT not in str(error):
                    raise
        command = ("squeue", "--noheader", "--states=all", "--format=%A|%i", f"--jobs={job_id}")
        name = _own_name(self._rows(*command), job_id)
        job = self._run("scontrol", "show", "job", name)
        match = re.search(r"^\s*AdminComment=(.*)$", job, re.MULTILINE)
        _check_ours(match[1] if match else "", job_id)
        self._run("scontrol", "update", f"jobid={name}", f"admincomment={comment}")
        return "scontrol"

    def _run(self, program: str, *arguments: str) -> str:
        try:
            done = subprocess.run(
                [os.path.join(self._folder, program), *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                env=self._environ,
                timeout=COMMAND_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SlurmError(f"{program}: {error}") from error
        if done.returncode:
            output = " ".join((done.stderr or done.stdout).split())
            raise SlurmError(f"{program} {' '.join(arguments)}: {output}")
        return done.stdout


def _own_name(rows: list[list[str]], job_id: str) -> str:
    """The name of a job alone, `81_4` or `8+0`: the number of the last task or the first part names all of them."""
    return next((name for number, name, *_ in rows if number == job_id), job_id)


def _check_ours(comment: str, job_id: str) -> None:
    if comment and not comment.startswith(OURS):
        raise SlurmError(f"job {job_id} has an AdminComment of somebody else, which stays")
