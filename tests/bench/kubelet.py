"""Measures what asking kubelet costs: `python -m tests.bench.kubelet`.

CPU time of one poll and what it adds to the agent's memory, against a real gRPC server in a process
of its own, for nodes of 8 GPUs with more and more pods; then the same with a reply of over 4 MiB.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ofu_exporter.agent import daemon
from ofu_exporter.schedulers.kubernetes import driver
from ofu_exporter.schedulers.kubernetes.grpc import GrpcChannel
from tests.bench.process import resident_mib

GPUS = 8
POLLS = 200
COUNTS = (30, 110, 250, 500)
BIG_PODS = 30_000


def serve(path: Path, count: int) -> None:
    """Be kubelet until standard input ends."""
    from tests.doubles.kubelet import GPU, Kubelet, given, make, pod

    kubelet = Kubelet(path)
    topology = make("TopologyInfo", nodes=[make("NUMANode", ID=1)])
    memory = [
        make("ContainerMemory", memory_type=kind, size=2**34, topology=topology)
        for kind in ("memory", "hugepages-1Gi", "hugepages-2Mi")
    ]
    pods = [
        pod(f"train-{index}-x7k2p", given(GPU, f"GPU-{index:032x}"), namespace="team-a", cpus=24)
        for index in range(GPUS)
    ]
    for index in range(count - GPUS):
        other = pod(f"service-{index}-5d9c7b6f48-k2x9p", namespace=f"namespace-{index % 20}")
        for container in other.containers:
            container.cpu_ids.extend(range(index % 8))
            container.memory.extend(memory)
        pods.append(other)
    kubelet.pods = pods
    kubelet.start()
    print("ready", flush=True)
    sys.stdin.read()
    kubelet.stop()


@contextlib.contextmanager
def kubelet(path: Path, count: int) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.bench.kubelet", "--serve", str(path), str(count)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        yield
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


def size(path: Path) -> float:
    """MiB of one reply."""
    with GrpcChannel(path, 60.0) as channel:
        return len(channel.call("/v1.PodResourcesLister/List").message) / 2**20


def measure(path: Path) -> tuple[float, float]:
    """Milliseconds of CPU, and of time, for one poll."""
    scheduler = driver.Scheduler(driver.Options(kubelet_socket=path, kubernetes_metadata="off"))
    assert len(scheduler.claims()) == GPUS
    cpu, wall = time.thread_time(), time.perf_counter()
    for _ in range(POLLS):
        scheduler.claims()
    cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
    return cpu * 1000 / POLLS, wall * 1000 / POLLS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", nargs=2, metavar=("PATH", "PODS"))
    args = parser.parse_args()
    if args.serve:
        serve(Path(args.serve[0]), int(args.serve[1]))
        return
    assert daemon  # imported for its memory: the agent is more than this scheduler
    before = resident_mib(os.getpid())
    print("| pods | reply MiB | CPU ms per poll | time ms per poll | RSS MiB added |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for count in (*COUNTS, BIG_PODS):
            path = Path(folder) / f"{count}.sock"
            with kubelet(path, count):
                reply = size(path)
                cpu, wall = measure(path)
            added = resident_mib(os.getpid()) - before
            row = f"| {count} | {reply:.2f} | {cpu:.2f} | {wall:.2f} | {added:.1f} |"
            print(row, flush=True)


if __name__ == "__main__":
    main()
