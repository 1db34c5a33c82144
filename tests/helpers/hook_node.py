"""A node on which a test runs the scripts of deploy/slurm as Slurm does."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.helpers.agent import until
from tests.helpers.slurm_cluster import DEPLOYED, PROGRAM, processes


class HookNode:
    """Where the scripts find everything, and one job after the other that they are called for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.jobs = root / "jobs"
        self.state = root / "state"
        self.log = root / "agent.log"
        self.config = root / "config.yaml"
        self.config.write_text("source: simulate\nlisten: 127.0.0.1:0\n")
        self.settings = {
            "OFU_JOB_DIR": str(self.jobs),
            "OFU_EXPORTER_PROGRAM": str(PROGRAM),
            "OFU_EXPORTER_HOOK_SECONDS": "20",
            "OFU_EXPORTER_WORK_SECONDS": "40",
            "OFU_EXPORTER_STATE": str(self.state),
            "OFU_EXPORTER_CONFIG": str(self.config),
            "OFU_EXPORTER_LOG": str(self.log),
            "OFU_EXPORTER_LINGER": "0",
        }

    def start(
        self,
        script: Path | str,
        job_id: int,
        *flags: str,
        prefix: Sequence[str] = (),
        **settings: str,
    ) -> subprocess.Popen[bytes]:
        """A hook as Slurm starts it, with nothing but a few variables."""
        environ = {"SLURM_JOB_ID": str(job_id), "SLURM_JOB_GPUS": str(job_id)}
        return subprocess.Popen(
            [*prefix, DEPLOYED / script, *(flags or ["--no-ask"])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**environ, **self.settings, **settings},
            start_new_session=True,
        )

    def finish(self, process: subprocess.Popen[bytes]) -> None:
        """A hook ends with success and has said nothing. Slurm kills whatever is left in its group."""
        output, _ = process.communicate(timeout=300)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        assert (process.returncode, output) == (0, b"")

    def call(self, script: Path | str, job_id: int, *flags: str, **settings: str) -> None:
        """One hook from its start to its end."""
        self.finish(self.start(script, job_id, *flags, **settings))

    def files(self) -> list[str]:
        """The ids of the jobs that have a file."""
        return sorted(path.stem for path in self.jobs.glob("*.json"))

    def ended(self) -> list[str]:
        """The ids of the jobs that ended."""
        return sorted(path.name.partition("-")[0] for path in self.jobs.glob(".ended/*.json"))

    def agents(self) -> list[int]:
        """The agents that run."""
        return processes("cmdline", str(self.config))

    def kill(self) -> None:
        """End whatever the hooks have left running, and what that starts meanwhile."""
        while left := self._left():
            for process in left:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)

    def _left(self) -> list[int]:
        return processes("environ", f"OFU_EXPORTER_STATE={self.state}\0")

    def is_quiet(self) -> bool:
        """Whether everything has been done that the hooks left to be done."""
        return not self._left()

    def started(self) -> int:
        """How many agents there have been."""
        return self.log.read_text().count("serving on") if self.log.exists() else 0

    def __repr__(self) -> str:
        """The folder names the test."""
        return f"HookNode({self.root})"


@contextmanager
def hook_nodes() -> Iterator[Callable[[Path], HookNode]]:
    """Makes nodes in given folders. All of them come to rest, which takes each some seconds; they do so together."""
    made: list[HookNode] = []

    def make(root: Path) -> HookNode:
        made.append(HookNode(root))
        return made[-1]

    yield make
    for node in made:
        until(node.is_quiet)
    for node in made:
        for process in node.agents():
            os.kill(process, signal.SIGKILL)
