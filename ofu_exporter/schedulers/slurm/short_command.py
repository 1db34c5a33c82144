"""Runs a command for a short time, and kills it and everything it started when the time is over.

It is a separate file so that a hook that does not ask Slurm need not import subprocess.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress


def run(command: Sequence[str], environ: Mapping[str, str], seconds: float) -> tuple[int, str, str]:
    """Its exit status, output and errors. Raises OSError, which is a TimeoutError when the time is over."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environ,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired as error:
        # The whole group is killed: where the command is a script, its children hold the pipes.
        os.killpg(process.pid, signal.SIGKILL)
        _let_go(process)
        raise TimeoutError(str(error)) from error
    return process.returncode, output.decode(errors="replace"), errors.decode(errors="replace")


def _let_go(process: subprocess.Popen[bytes]) -> None:
    """Close the pipes of a killed process, and wait only a moment for its end."""
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(0.1)
