"""What several tests of the Kubernetes scheduler use."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ofu_exporter.schedulers.kubernetes import pod_resources
from tests.helpers.agent import SOON
from tests.helpers.kubernetes_bench import Bench


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loaded machine must not fail a test; those about haste say so."""
    monkeypatch.setattr(pod_resources, "SECONDS", SOON)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: that of a Unix socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="ofu-") as name:
        yield Path(name)


@pytest.fixture
def bench(folder: Path, patience: None) -> Iterator[Bench]:
    bench = Bench(folder)
    try:
        yield bench
    finally:
        bench.close()


@pytest.fixture
def bare(bench: Bench) -> Bench:
    """One that does not ask the API server: a pod is a job."""
    bench.make(kubernetes_metadata="off")
    return bench
