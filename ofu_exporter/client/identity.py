"""Finds out which job this process belongs to, its model and token, and whether the process reports for its node."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from ofu_exporter.client.slow_disk import SlowDisk

TOKENS = Path("/run/ofu-exporter/tokens")
"""The folder of the tokens of Slurm jobs, each under the job's id."""
NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
LONGEST_TOKEN = 4096
LONGEST_RUN = 256
MOST_RECIPE_BYTES = 200_000
"""A report with a larger recipe would be refused."""
RECIPE_SECONDS = 5.0
"""How long a job waits at its start for the disk of its recipe."""

_LOCAL_RANKS = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK")
"""Torch's variable first: its launcher under srun starts several processes that share a SLURM_LOCALID."""


def job_id(environ: Mapping[str, str], namespace: Path = NAMESPACE) -> str:
    """The id of the job that the environment names; "" if it names none.

    In Kubernetes this is `namespace/pod`; the agent knows which job the pod is part of.
    """
    named = environ.get("OFU_EXPORTER_JOB_ID") or environ.get("SLURM_JOB_ID")
    if named:
        return named
    space = environ.get("POD_NAMESPACE") or _read(namespace, SlowDisk())
    pod = environ.get("POD_NAME") or environ.get("HOSTNAME")
    return f"{space}/{pod}" if space and pod else ""


def speaks_for_node(environ: Mapping[str, str]) -> bool:
    """Whether this process is the first of its node; true if no launcher numbered the processes."""
    ranks = (environ[name] for name in _LOCAL_RANKS if environ.get(name))
    return next(ranks, "0").strip() == "0"


def run(environ: Mapping[str, str]) -> dict[str, str]:
    """The fact `run` of a job; empty if its environment has no id that a later job keeps when it continues this one."""
    named = environ.get("OFU_RUN", "").strip() or environ.get("WANDB_RUN_ID", "").strip()
    return {"run": named} if named and len(named) <= LONGEST_RUN and named.isprintable() else {}


def model_facts(environ: Mapping[str, str]) -> dict[str, Any]:
    """The fact `model` of a job; empty if its environment names no recipe.

    `OFU_EXPORTER_RECIPE` is the path of a file (with a slash), or a name in the folder of recipes that the site's
    agents have; `OFU_EXPORTER_SEQ_LEN` is the length of its sequences, otherwise the recipe's own is counted.
    Raises ValueError and OSError for what cannot be read.
    """
    named = environ.get("OFU_EXPORTER_RECIPE", "").strip()
    if not named:
        return {}
    model: dict[str, Any] = {"recipe": _recipe(Path(named)) if "/" in named else named}
    length = environ.get("OFU_EXPORTER_SEQ_LEN", "").strip()
    return {"model": {**model, "seq_len": int(length)} if length else model}


def _recipe(path: Path) -> Any:
    content = SlowDisk().ask(partial(_content, path, MOST_RECIPE_BYTES + 1), RECIPE_SECONDS)
    if len(content) > MOST_RECIPE_BYTES:
        raise ValueError(f"{path} has more than {MOST_RECIPE_BYTES} bytes, which no recipe has")
    return json.loads(content)


class Token:
    """The token of the reports, either given or from a file that may change; "" = none."""

    def __init__(
        self, token: str | None, environ: Mapping[str, str], job: str, tokens: Path = TOKENS
    ) -> None:
        """Raises ValueError for a given token that no header can hold; a file is tried again later."""
        self.value = token or environ.get("OFU_EXPORTER_TOKEN") or ""
        if not _fits_a_header(self.value):
            raise ValueError("the token has characters that a header cannot carry")
        self._file: Path | None = None
        self._disk = SlowDisk()
        if not self.value:
            named = environ.get("OFU_EXPORTER_TOKEN_FILE")
            # Only numbers are used, so that no id can lead out of the folder.
            of_job = tokens / job if re.fullmatch("[0-9]{1,19}", job) else None
            self._file = Path(named) if named else of_job
            self.value = self._of_file()

    def reread(self) -> bool:
        """Read the file again; returns whether it has another token now."""
        new = self._of_file()
        changed = bool(new) and new != self.value
        self.value = new if changed else self.value
        return changed

    def _of_file(self) -> str:
        text = _read(self._file, self._disk) if self._file else ""
        return text if _fits_a_header(text) else ""


def _fits_a_header(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _read(path: Path, disk: SlowDisk) -> str:
    with suppress(OSError, UnicodeDecodeError):
        return disk.ask(partial(_content, path, LONGEST_TOKEN)).decode().strip()
    return ""


def _content(path: Path, most: int) -> bytes:
    with open(path, "rb", opener=without_waiting) as file:
        return file.read(most) or b""


def without_waiting(path: str, flags: int) -> int:
    """Opens a file; a named pipe would wait for somebody who writes, and the job with it."""
    return os.open(path, flags | os.O_NONBLOCK)
