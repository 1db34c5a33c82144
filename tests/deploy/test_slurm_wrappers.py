"""What slurm.conf is to name, on a real Slurm: a node without the hooks is not drained, one with them calls them.

A second slurmd on the same machine is a second node; it runs where other mounts hide the hooks.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.helpers.agent import until
from tests.helpers.slurm_cluster import DEPLOYED, Cluster, divided, missing

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
    with WrappedNode.started() as made:
        yield made


def test_hooks_that_are_missing_come_and_go_drain_no_node(cluster: WrappedNode) -> None:
    for number, hooks in enumerate((False, True, False)):
        if hooks:
            cluster.install()
        else:
            shutil.rmtree(cluster.installed, ignore_errors=True)
        assert cluster.call("srun", "--gres=gpu:1", "printenv", "SLURM_JOB_ID") == str(number + 1)
        until(lambda: cluster.call("sinfo", "--noheader", "--format=%T") == "idle")
    assert cluster.called("prolog") == cluster.called("epilog") == ["2"]


NODES = ("with", "without")
HIDDEN = ("unshare", "--mount", "sh", "-c", 'mount --bind "$1" "$2" && shift 2 && exec "$@"', "sh")


class TwoNodes(WrappedNode):
    """One has hooks that succeed, the other has none; `wrapped` is whether slurm.conf names the wrappers."""

    def __init__(self, wrapped: bool) -> None:
        super().__init__()
        self.wrapped = wrapped

    def _configure(self) -> None:
        super()._configure()
        self.install()
        for name in ("prolog", "epilog"):
            hook = self.installed / f"{name}.sh"
            said = f"echo $SLURMD_NODENAME >> {self.root}/{name}-called"
            hook.write_text(f"#!/bin/sh\n{said}\n")
        text = self._conf.read_text()
        if not self.wrapped:
            text = text.replace(f"{self.root}/etc/slurm/ofu-", f"{self.installed}/")
        self._conf.write_text(divided(text, self.root, NODES))
        gres = self.root / "etc" / "gres.conf"
        gres.write_text(gres.read_text().replace("=localhost", f"={','.join(NODES)}"))

    def start_slurmd(self) -> None:
        empty = self.root / "empty"
        empty.mkdir()
        hidden = (*HIDDEN, str(empty), str(self.installed))
        for node in NODES:
            around = hidden if node == "without" else ()
            self._spawn(f"slurmd-{node}", *around, "slurmd", "-D", "-N", node)

    def states(self) -> dict[str, str]:
        shown = self.call("sinfo", "--noheader", "--Node", "--format=%N %T").splitlines()
        return dict(line.split() for line in shown)


@pytest.mark.parametrize("wrapped", [True, False], ids=["wrappers", "hooks"])
def test_of_two_nodes_the_one_without_hooks_is_drained_only_without_wrappers(wrapped: bool) -> None:
    cluster = TwoNodes(wrapped)
    try:
        cluster.start()
        until(lambda: set(cluster.states().values()) == {"idle"})
        cluster.submit("--nodes=2", "--gres=gpu:1")
        if wrapped:
            until(lambda: cluster.called("epilog") == ["with"])
            until(lambda: set(cluster.states().values()) == {"idle"})
            assert cluster.called("prolog") == ["with"]
        else:
            until(lambda: "drain" in cluster.states()["without"])
            assert "drain" not in cluster.states()["with"]
    finally:
        cluster.stop()
