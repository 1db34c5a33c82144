"""What slurm.conf is to name, on a real Slurm: a node without the hooks is not drained, one with them calls them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.helpers.agent import until
from tests.helpers.slurm_cluster import DEPLOYED, Cluster, missing

pytestmark = [
    pytest.mark.slow,
    pytest.mark.slurm,
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.xdist_group("slurm-wrappers"),
]


class WrappedNode(Cluster):
    """Its prolog and epilog are what `install.sh --wrappers` writes; hooks come and go."""

    def _configure(self) -> None:
        super()._configure()
        self.installed = self.root / "installed"
        subprocess.run(
            [DEPLOYED / "install.sh", "--wrappers", "--root", self.root, "--hooks", self.installed],
            check=True,
            capture_output=True,
        )
        text = self._conf.read_text()
        for hook in ("prolog", "epilog"):
            wrapper = self.root / f"etc/slurm/ofu-{hook}.sh"
            text = text.replace(f"={self.root}/hooks/{hook}", f"={wrapper}")
        self._conf.write_text(text)

    def install(self) -> None:
        """Hooks that fail, and say that they were called."""
        self.installed.mkdir()
        for name in ("prolog", "epilog"):
            hook = self.installed / f"{name}.sh"
            hook.write_text(f"#!/bin/sh\necho $SLURM_JOB_ID >> {self.root}/{name}-called\nexit 1\n")
            hook.chmod(0o755)

    def called(self, name: str) -> list[str]:
        file = self.root / f"{name}-called"
        return file.read_text().split() if file.exists() else []


@pytest.fixture
def cluster() -> Iterator[WrappedNode]:
    made = WrappedNode()
    try:
        made.start()
        yield made
    finally:
        made.stop()


def test_hooks_that_are_missing_come_and_go_drain_no_node(cluster: WrappedNode) -> None:
    for number, hooks in enumerate((False, True, False)):
        if hooks:
            cluster.install()
        else:
            shutil.rmtree(cluster.installed, ignore_errors=True)
        assert cluster.call("srun", "--gres=gpu:1", "printenv", "SLURM_JOB_ID") == str(number + 1)
        until(lambda: cluster.call("sinfo", "--noheader", "--format=%T") == "idle")
    assert cluster.called("prolog") == cluster.called("epilog") == ["2"]
