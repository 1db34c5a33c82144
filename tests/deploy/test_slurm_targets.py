"""The targets that prometheus-targets.sh writes, from a real Slurm to a real Prometheus: nodes that are not asleep."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.agent import until
from tests.helpers.prometheus_server import Prometheus
from tests.helpers.slurm_cluster import DEPLOYED, Cluster, divided, missing

pytestmark = [
    pytest.mark.slow,
    pytest.mark.slurm,
    pytest.mark.prometheus,
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.xdist_group("slurm-wrappers"),
]
NODES = ("runs", "sleeps", "broken", "cpu")
SAVING = """
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=3600
SuspendTimeout=1
ResumeTimeout=5
PartitionName=again Nodes=ALL
"""
MAINTENANCE = ("nodes=sleeps,runs", "starttime=now", "duration=60", "users=root", "flags=maint")


class SavingCluster(Cluster):
    """Three nodes with GPUs and one without, in two partitions, which nothing really turns off."""

    def _configure(self) -> None:
        super()._configure()
        text = divided(self._conf.read_text(), self.root, NODES)
        lines = [
            line.partition(" Gres=")[0] + " State=UNKNOWN" if "=cpu " in line else line
            for line in text.splitlines()
        ]
        self._conf.write_text("\n".join(lines) + SAVING)
        gres = self.root / "etc" / "gres.conf"
        gres.write_text(gres.read_text().replace("=localhost", f"={','.join(NODES[:3])}"))

    def start_slurmd(self) -> None:
        for node in NODES:
            self._spawn(f"slurmd-{node}", "slurmd", "-D", "-N", node)

    def states(self) -> dict[str, str]:
        shown = self.call("sinfo", "--noheader", "--Node", "--format=%N %T").splitlines()
        return dict(line.split() for line in shown)

    def update(self, node: str, state: str) -> None:
        self.call("scontrol", "update", f"nodename={node}", f"state={state}", "reason=test")


@pytest.fixture
def cluster() -> Iterator[SavingCluster]:
    with SavingCluster.started() as made:
        until(lambda: set(made.states().values()) == {"idle"})
        yield made


def test_a_node_is_no_target_while_slurm_has_it_asleep_and_is_one_while_it_is_down(
    cluster: SavingCluster, tmp_path: Path
) -> None:
    file = tmp_path / "ofu.json"
    job = {"job_name": "ofu", "file_sd_configs": [{"files": [str(file)]}]}
    prometheus = Prometheus(tmp_path, {}, scrape_configs=[job])

    def targets() -> set[str]:
        with urllib.request.urlopen(f"{prometheus.url}/api/v1/targets", timeout=5) as answer:
            active = json.load(answer)["data"]["activeTargets"]
        return {each["labels"]["instance"] for each in active}

    def written(*port: str) -> None:
        command = [str(DEPLOYED / "prometheus-targets.sh"), str(file), *port]
        subprocess.run(command, check=True, env=dict(cluster.environ))

    def become(**states: str) -> None:
        until(lambda: states.items() <= cluster.states().items(), seconds=60)
        written()

    try:
        until(prometheus.ready)
        written("1234")
        until(lambda: targets() == {"runs:1234", "sleeps:1234", "broken:1234"})
        cluster.update("sleeps", "power_down")
        cluster.update("broken", "power_down")
        become(sleeps="idle~", broken="idle~")
        cluster.update("broken", "down")  # in the other order Slurm 21.08 forgets it
        become(sleeps="idle~", broken="down~")
        until(lambda: targets() == {"runs:9846", "broken:9846"})
        cluster.call("scontrol", "create", "reservation", *MAINTENANCE)
        become(sleeps="maint", runs="maint")
        assert "runs:9846" in file.read_text()
        assert "sleeps" not in file.read_text()
        until(lambda: targets() == {"runs:9846", "broken:9846"})
        cluster.call("scontrol", "delete", "reservationname=root_1")
        cluster.update("sleeps", "power_up")
        become(sleeps="idle#")
        assert "sleeps" not in file.read_text()
        become(sleeps="down~")  # Its slurmd was not started anew.
        until(lambda: targets() == {"runs:9846", "broken:9846", "sleeps:9846"})
    finally:
        prometheus.stop()


@pytest.mark.parametrize("sinfo", ["echo n1 idle gpu:8; exit 1", "true"], ids=["fails", "no node"])
def test_without_an_answer_of_slurm_the_targets_stay(tmp_path: Path, sinfo: str) -> None:
    file, fake = tmp_path / "ofu.json", tmp_path / "sinfo"
    file.write_text("as before")
    fake.write_text(f"#!/bin/sh\n{sinfo}\n")
    fake.chmod(0o755)
    command = [DEPLOYED / "prometheus-targets.sh", file]
    done = subprocess.run(command, check=False, env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert (done.returncode, file.read_text()) == (1, "as before")
