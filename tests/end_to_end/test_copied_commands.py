"""Every command of what to do first is copied from the report and run as it stands, by a shell, and shows that job.

In a store with two clusters that have the same node names and ids, one of which two users had one after the other, and
with dcgm-exporter's history. In a server with tenants the one that was asked for is asked again.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ofu_exporter.fleet.reports.result import ActionRow
from tests.fleet.history.test_from_dcgm import H100, DcgmGpu, gpu
from tests.fleet.history.test_from_dcgm import pages as dcgm_pages
from tests.fleet.reports.test_funnel import told
from tests.helpers.agent import bare_environment
from tests.helpers.prometheus_server import Prometheus
from tests.helpers.stored_fleet import ScheduledJob, StoredNode, pages, stored_pages

pytestmark = [pytest.mark.slow, pytest.mark.prometheus, pytest.mark.xdist_group("stored fleet")]

NODES = [StoredNode(cluster, "n1:9846", H100, 4) for cluster in "ab"]
JOBS = (
    ScheduledJob("30", "erin", (NODES[0],), 0, 2, 0.1),
    ScheduledJob("30", "frank", (NODES[0],), 3, 6, 0.15),
    ScheduledJob("30", "gina", (NODES[1],), 0, 3, 0.12),
    ScheduledJob("o'31 x", "hal", (NODES[1],), 3, 6, 0.2, mfu=0.6, verdict="mfu_above_ofu"),
)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    own = pages(NODES, JOBS, 6).removesuffix("# EOF\n")
    others = dcgm_pages([DcgmGpu(gpu(9, H100, hpc_job="77"), 0.1, 1830.0)])
    with stored_pages(tmp_path_factory.mktemp("copied"), own + others) as running:
        yield running


def run(action: ActionRow, folder: Path) -> str:
    """What the command in an action prints."""
    (command,) = re.findall("`(ofu-exporter .*?)`", action.next)
    program = folder / "ofu-exporter"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ofu_exporter "$@"\n')
    program.chmod(0o755)
    environment = bare_environment()
    environment["PATH"] = f"{folder}:{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def test_each_shows_its_own_job(prometheus: Prometheus, tmp_path: Path) -> None:
    actions = told(prometheus.url, "--target", "0.6", "--no-changes").actions
    assert {each.kind for each in actions} == {"below_others", "wrong_number"}
    owners = {job.user: job for job in JOBS}
    for action in actions:
        shown = run(action, tmp_path)
        if action.kind == "wrong_number":
            assert "MFU 60.00%, OFU 20.00%" in shown
            continue
        user = action.who.rpartition(" of ")[2]
        assert f"of {user}" in shown
        assert f"{100 * owners.pop(user).ofu:.1f}%" in shown


def test_one_from_dcgm_exporter_shows_its_jobs(prometheus: Prometheus, tmp_path: Path) -> None:
    found = told(prometheus.url, "--target", "0.6", "--from", "dcgm-exporter")
    assert [each.kind for each in found.actions] == ["below_others"]
    assert "77" in run(found.actions[0], tmp_path)


def test_the_tenant_is_asked_again(prometheus: Prometheus) -> None:
    found = told(prometheus.url, "--target", "0.6", "--tenant", "team x", "--no-changes")
    copied = [each.next for each in found.actions if "fleet job" in each.next]
    assert copied
    assert all(" --tenant 'team x' " in each for each in copied)
