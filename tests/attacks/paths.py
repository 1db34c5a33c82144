"""What each path costs that anybody may ask for: `python -m tests.attacks.paths`, for tests/attacks/results.md.

CPU time of an agent with 8 simulated GPUs and four jobs for one GET over a kept connection, after the first.
"""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path

from tests.attacks.target import Setup, Target, target
from tests.bench.process import cpu_seconds
from tests.bench.scrape import get
from tests.helpers.agent import until

GETS = 200
PATHS = (
    *("/metrics", "/healthz", "/readyz", "/-/healthy", "/-/ready", "/", "/docs", "/openapi.json"),
    *("/v1/node", "/v1/gpus", "/v1/jobs", "/v1/jobs/1001", "/jobs/1001", "/v1/history"),
)
"""Every path of docs/dcgm.md's table."""


def cpu_ms(running: Target, path: str) -> float:
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    with socket.create_connection(running.address) as connection:
        get(connection, request)
        before = cpu_seconds(running.process.pid)
        for _ in range(GETS):
            get(connection, request)
        return 1e3 * (cpu_seconds(running.process.pid) - before) / GETS


def main() -> None:
    print("| path | CPU ms |\n|---|---|")
    with tempfile.TemporaryDirectory() as folder, target(Setup(), Path(folder)) as running:
        until(lambda: running.get("/readyz").status == running.get("/v1/jobs/1001").status == 200)
        for path in PATHS:
            print(f"| `{path}` | {cpu_ms(running, path):.2f} |", flush=True)


if __name__ == "__main__":
    main()
