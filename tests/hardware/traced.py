"""A trace on demand of a loop that knows nothing of it: `python -m tests.hardware.traced OUT SECONDS [cpu]`.

The loop trains some layers with DistributedDataParallel, and waits 10 ms for each batch. It is run as a Slurm job with
`KINETO_USE_DAEMON=1`, beside an agent. OUT gets its steps a second before, while and after the trace was taken, what is
in the file, and the five parts of the trace beside those of the counters over the same seconds. With `cpu` the agent
reads the driver's stand-in, and the file has no kernels. LOOP_PYTHON is an interpreter with torch where this has none.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.hardware.counters import pause
from tests.hardware.day import AGENT, job_environment
from tests.helpers.agent import Agent, agent, until

JOB = "201"
RECORDED_SECONDS = 4.0
LOOP = """import os, sys, time, torch
from torch import distributed, nn
device, small = sys.argv[1], sys.argv[1] == "cpu"
where = f"file://{sys.argv[2]}/rendezvous"
distributed.init_process_group("gloo" if small else "nccl", init_method=where, rank=0, world_size=1)
width, batch = (64, 2) if small else (2048, 16)
layers = [nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True) for _ in range(4)]
model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers).to(device, torch.bfloat16))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
batch = torch.randn(batch, 32 if small else 1024, width, device=device, dtype=torch.bfloat16)
while True:
    time.sleep(0.01)
    loss = model(batch).float().square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    loss.item()
    print(time.monotonic(), flush=True)
"""


@contextmanager
def running(folder: Path, device: str) -> Iterator[tuple[Agent, Path]]:
    """The agent, and the times at which the loop's steps ended."""
    environ, steps = job_environment(JOB, "traced-loop"), folder / "steps"
    environ |= {"KINETO_USE_DAEMON": "1", "GLOO_SOCKET_IFNAME": "lo"}
    environ["KINETO_IPC_SOCKET_DIR"] = str(folder / "s" / "k")
    flags = ["--source", "nvml", "--interval", "1s", "--scheduler", "slurm", "--traces"]
    flags += ["--job-dir", str(folder / "jobs"), "--trace-folder", str(folder / "traces")]
    flags += ["--report-socket", str(folder / "r.sock")]
    flags += ["--trace-socket-folder", environ["KINETO_IPC_SOCKET_DIR"]]
    (folder / "jobs").mkdir()
    hook = [*AGENT, "job", "start", "--no-ask", "--job-dir", str(folder / "jobs")]
    with agent("run", *flags, command=AGENT) as beside, steps.open("w") as out:
        subprocess.run(hook, env=environ, check=True)
        until(lambda: beside.values("ofu_job_info", job_id=JOB))
        loop = [os.environ.get("LOOP_PYTHON", sys.executable), "-c", LOOP, device, str(folder)]
        with subprocess.Popen(loop, env=environ, stdout=out, stderr=subprocess.PIPE) as job:
            try:
                yield beside, steps
            finally:
                job.kill()


def taken(folder: Path, ends: float) -> subprocess.CompletedProcess[str]:
    """The answer of `trace`, asked again until the loop has asked for work."""
    order = [JOB, "--agent", f"unix:{folder / 'r.sock'}", "--keep", "--format", "json"]
    while True:
        done = subprocess.run(
            [*AGENT, "trace", *order, "--seconds", f"{RECORDED_SECONDS:g}"],
            capture_output=True,
            text=True,
            check=False,
        )
        if "has asked" not in done.stderr or time.monotonic() > ends:
            return done
        pause(1.0)


def events(files: Sequence[Path]) -> Mapping[str, Any]:
    """What is in the files: events by category, those of NCCL, and their bytes."""
    kinds: Counter[str] = Counter()
    of_nccl: Counter[str] = Counter()
    for file in files:
        for event in json.loads(file.read_text())["traceEvents"]:
            kinds[event.get("cat", event["ph"])] += 1
            if "nccl" in event.get("name", "").lower() or event.get("name") == "record_param_comms":
                of_nccl[event["name"][:80]] += 1
    size = sum(file.stat().st_size for file in files)
    return {"bytes": size, "events": kinds, "of_nccl": dict(of_nccl.most_common(5))}


def rate(times: Sequence[float], began: float, ended: float) -> float | None:
    """Steps a second."""
    inside = [at for at in times if began <= at <= ended]
    return (len(inside) - 1) / (inside[-1] - inside[0]) if len(inside) > 1 else None


def keep(files: Sequence[Path], folder: Path) -> None:
    """Packed, where they do not go with the agent's folder."""
    for number, file in enumerate(files):
        with gzip.open(folder / f"trace-{number}.json.gz", "wb", compresslevel=3) as packed:
            packed.write(file.read_bytes())


def measured(folder: Path, seconds: float, device: str) -> Mapping[str, Any]:
    alone = seconds / 5
    with running(folder, device) as (beside, steps):
        until(lambda: len(steps.read_text().splitlines()) > 3, 60.0)
        pause(alone)
        began = time.monotonic()
        done = taken(folder, began + seconds / 2)
        ended = time.monotonic()
        pause(alone)
        job = json.loads(beside.get(f"/v1/jobs/{JOB}")[1])
        times = [float(line) for line in steps.read_text().split("\n")[:-1]]
    whole = range(int(times[0]), int(times[-1]) + 1)
    answer = json.loads(done.stdout) if done.stdout else {}
    spans = {"before": (began - alone, began), "while": (began, ended)}
    spans["after"] = (ended, ended + alone)
    return {
        "exit_code": done.returncode,
        "said": done.stderr[-1000:],
        "trace": answer,
        "in_the_agent": (job.get("reported") or {}).get("trace"),
        "file": events(sorted((folder / "traces").glob("*.json"))),
        "steps_per_second": {name: rate(times, *span) for name, span in spans.items()},
        "steps_by_second": [sum(int(at) == second for at in times) for second in whole],
        "recorded_seconds": RECORDED_SECONDS,
    }


def main(args: Sequence[str]) -> None:
    if len(args) not in (2, 3):
        raise SystemExit(__doc__)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # a socket's address is short
        answer = measured(Path(folder), float(args[1]), args[2] if args[2:] else "cuda:0")
        keep(sorted((Path(folder) / "traces").glob("*.json")), Path(args[0]).parent)
    if answer["exit_code"]:
        answer = {"failed": answer["said"], **answer}
    Path(args[0]).write_text(json.dumps(answer, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
