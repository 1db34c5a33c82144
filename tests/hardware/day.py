"""A day of one GPU in ten minutes: five jobs train one after another beside an agent, and everything is written down.

    python -m tests.hardware.day FOLDER [SECONDS]

FOLDER gets what each job did (`tests/hardware/training.py`), every GPM metric meanwhile (`tests/hardware/gpm_log.py`),
a recording by `ofu-exporter record`, and for each job what the agent says of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.hardware.counters import pause
from tests.hardware.training import PHASES

SHARES: Mapping[str, float] = {
    "plain": 0.28,
    "recompute": 0.24,
    "full-attention": 0.18,
    "waiting": 0.14,
    "tf32": 0.12,
}
"""Parts of the time; the rest is idle."""
LISTEN = "127.0.0.1:19846"
AGENT = (sys.executable, "-m", "ofu_exporter")


def run(folder: Path, seconds: float, device: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    jobs = folder / "jobs"
    settings = ("--source", "nvml", "--interval", "5s")
    serving = ("--scheduler", "slurm", "--job-dir", str(jobs), "--listen", LISTEN)
    jobs.mkdir(exist_ok=True)
    with (folder / "agent.log").open("w") as log:
        beside = [
            subprocess.Popen([*AGENT, "run", *settings, *serving], stdout=log, stderr=log),
            subprocess.Popen([*AGENT, "record", str(folder / "day.jsonl.gz"), *settings]),
            subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.hardware.gpm_log"),
                    *(str(folder / "gpm.jsonl"), str(seconds + 20)),
                ]
            ),
        ]
        try:
            pause(0.02 * seconds)
            for name, share in SHARES.items():
                _job(name, share * seconds, folder, jobs, device)
            pause(0.02 * seconds)
        finally:
            for process in beside:
                process.terminate()
            for process in beside:
                process.wait(10)


def job_environment(job_id: str, name: str) -> dict[str, str]:
    """Of a job, and of its prolog."""
    return {
        **os.environ,
        "SLURM_JOB_ID": job_id,
        "SLURM_JOB_NAME": name,
        "SLURM_JOB_USER": "alice",
        "SLURM_JOB_PARTITION": "h100",
        "SLURM_JOB_GPUS": "0",
        "SLURMD_NODENAME": "gpu-node",
    }


def _job(name: str, seconds: float, folder: Path, jobs: Path, device: str) -> None:
    """One job from its prolog to its epilog; loading and warming up belong to it, as they do everywhere."""
    phase = PHASES[name]
    env = {**job_environment(phase.job_id, phase.name), "OFU_EXPORTER_URL": f"http://{LISTEN}"}
    hook = ("--no-ask", "--job-dir", str(jobs))
    subprocess.run([*AGENT, "job", "start", *hook], env=env, check=False)
    ends = time.monotonic() + seconds
    out = folder / f"{name}.out"
    with out.open("w") as log:
        # Six seconds to load torch, and for the last window to end
        train = (*(sys.executable, "-m", "tests.hardware.training"), name, f"{seconds - 14:g}")
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [*train, str(folder), device],
                env=env,
                stdout=log,
                stderr=log,
                timeout=seconds + 10,
                check=False,
            )
    pause(max(0.0, min(5.5, ends - time.monotonic())))
    for path in ("/metrics", "/v1/jobs"):
        suffix = path.rsplit("/", 1)[1]
        (folder / f"{name}.{suffix}").write_text(_get(path))
    show = [*AGENT, "job", "show", phase.job_id, "--agent", f"http://{LISTEN}"]
    shown = subprocess.run(show, capture_output=True, text=True, check=False)
    (folder / f"{name}.show").write_text(shown.stdout + shown.stderr)
    subprocess.run([*AGENT, "job", "stop", *hook], env=env, check=False)


def _get(path: str) -> str:
    try:
        with urllib.request.urlopen(f"http://{LISTEN}{path}", timeout=5) as answer:
            return str(answer.read().decode())
    except OSError as error:
        return json.dumps({"failed": str(error)})


def main(args: Sequence[str]) -> None:
    if not args:
        raise SystemExit(__doc__)
    run(
        Path(args[0]),
        float(args[1]) if len(args) > 1 else 570.0,
        args[2] if len(args) > 2 else "cuda:0",
    )


if __name__ == "__main__":
    main(sys.argv[1:])
