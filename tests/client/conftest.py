"""No test of the client runs as somebody's job."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _nobodys_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_JOB_ID", "SLURM_LOCALID", "LOCAL_RANK", "POD_NAME", "POD_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("URL", "TOKEN", "TOKEN_FILE", "JOB_ID", "CA_FILE"):
        monkeypatch.delenv(f"OFU_EXPORTER_{name}", raising=False)
