"""The summary of a job that has ended, in the AdminComment of a real Slurm with its database.

Slow, and it needs more than tests/run installs: slurmdbd, slurm-wlm-mysql-plugin, mariadb-server.
"""

from __future__ import annotations

import getpass
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from ofu_exporter.schedulers.slurm.admin_comment import Commands, SlurmError
from tests.helpers.agent import agent, until
from tests.helpers.slurm_cluster import DEPLOYED, PROGRAM, Cluster, free_ports, missing

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.xdist_group("slurm"),
    pytest.mark.skipif(
        shutil.which("slurmdbd") is None or shutil.which("mariadbd") is None,
        reason="slurmdbd and mariadb-server are not installed",
    ),
]

_SLURMDBD_CONF = """\
AuthType=auth/munge
AuthInfo=socket={root}/munge/socket
DbdHost=localhost
DbdPort={port}
SlurmUser=root
LogFile={root}/log/slurmdbd.log
PidFile={root}/state/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database_port}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm
"""
_MORE_CONF = """\
AccountingStorageHost=localhost
AccountingStoragePort={port}
AccountingStoragePass={root}/munge/socket
AccountingStoreFlags=job_comment
EpilogSlurmctld={root}/hooks/epilog-slurmctld
"""


class ClusterWithDatabase(Cluster):
    """The same, with MariaDB and slurmdbd."""

    def before_start(self) -> None:
        port, database_port = free_ports(2)
        self._start_mariadb(database_port)
        conf = self.root / "etc" / "slurmdbd.conf"
        conf.write_text(
            _SLURMDBD_CONF.format(root=self.root, port=port, database_port=database_port)
        )
        conf.chmod(0o600)
        slurm_conf = self.root / "etc" / "slurm.conf"
        text = slurm_conf.read_text().replace(
            "accounting_storage/none", "accounting_storage/slurmdbd"
        )
        slurm_conf.write_text(text + _MORE_CONF.format(root=self.root, port=port))
        self.hook("epilog-slurmctld", DEPLOYED / "epilog-slurmctld.sh")
        self._spawn("slurmdbd", "slurmdbd", "-D")
        until(lambda: self.call("sacctmgr", "--immediate", "add", "cluster", "test") != "")

    def _start_mariadb(self, port: int) -> None:
        data = self.root / "mariadb"
        sock = self.root / "mariadb.sock"
        options = [f"--datadir={data}", "--user=root"]
        subprocess.run(
            [
                "mariadb-install-db",
                "--no-defaults",
                "--auth-root-authentication-method=normal",
                *options,
            ],
            check=True,
            capture_output=True,
        )
        self._spawn(
            "mariadbd",
            *("mariadbd", "--no-defaults", *options, f"--socket={sock}", f"--port={port}"),
            *("--bind-address=127.0.0.1", f"--pid-file={self.root}/state/mariadbd.pid"),
        )
        grant = (
            "CREATE DATABASE slurm; CREATE USER slurm@'%' IDENTIFIED BY 'slurm';"
            "CREATE USER slurm@localhost IDENTIFIED BY 'slurm';"
            "GRANT ALL ON slurm.* TO slurm@'%'; GRANT ALL ON slurm.* TO slurm@localhost;"
        )
        command = ["mariadb", "--no-defaults", f"--socket={sock}", f"--user={getpass.getuser()}"]
        until(
            lambda: (
                subprocess.run(
                    [*command, "-e", "SELECT 1"], capture_output=True, check=False
                ).returncode
                == 0
            )
        )
        subprocess.run([*command, "-e", grant], check=True, capture_output=True)


@pytest.fixture(scope="module")
def with_database() -> Iterator[Cluster]:
    if why := missing():
        pytest.skip(why)
    with ClusterWithDatabase.started() as made:
        yield made


@pytest.fixture
def knows_comments(with_database: Cluster) -> None:
    if with_database.version() < "22.05":
        pytest.skip("sacctmgr before Slurm 22.05 sets no AdminComment")


def test_what_only_scontrol_can_write_is_kept(with_database: Cluster) -> None:
    cluster = with_database
    if cluster.version() >= "22.05":
        pytest.skip("Slurm 22.05 and newer let sacctmgr write it")
    job_id = cluster.submit(until_open="kept")
    until(lambda: cluster.state(job_id) == "RUNNING")
    assert Commands(cluster.environ, "/usr/bin").write(job_id, "ofu=1%") == "scontrol"
    cluster.open("kept")
    ask = ("sacct", "-nXPo", "state,admincomment", "-j", job_id)
    until(lambda: cluster.call(*ask) == "COMPLETED|ofu=1%")


@pytest.mark.usefixtures("knows_comments")
def test_a_job_that_ended_has_its_line(with_database: Cluster) -> None:
    cluster = with_database
    flags = ("--interval", "0.3s", "--clock-interval", "0.1s", "--slurm-poll", "0.05s")
    where = ("--scheduler", "slurm", "--job-dir", str(cluster.jobs))
    with agent("run", "--source", "simulate", *flags, *where) as measuring:
        port = measuring.url.rpartition(":")[2]
        hook = cluster.root / "hooks" / "epilog-slurmctld"
        hook.write_text(
            "#!/bin/sh\n"
            f"export OFU_EXPORTER_PROGRAM={PROGRAM} SLURM_CONF={cluster.environ['SLURM_CONF']}\n"
            f"exec {DEPLOYED / 'epilog-slurmctld.sh'} --port {port}\n"
        )
        job_id = cluster.submit("--gres=gpu:2", until_open="database")
        until(lambda: measuring.value("ofu_job_gpu_seconds_total", job_id=job_id))
        cluster.open("database")
        ask = ("sacct", "--noheader", "--allocations", "--format=admincomment%200", "-j", job_id)
        until(lambda: "ofu=" in cluster.call(*ask), seconds=60)
        line = cluster.call(*ask)
        assert "gpus=2" in line
        assert "nodes=1/1" in line
        assert cluster.state(job_id) == "COMPLETED"


@pytest.mark.usefixtures("knows_comments")
def test_the_last_task_of_an_array_leaves_the_comments_of_the_others(
    with_database: Cluster,
) -> None:
    """It has the number of the whole array."""
    cluster, ask = with_database, ("sacct", "-nXPo", "jobid,jobidraw,admincomment", "-j")
    hook = cluster.root / "hooks" / "epilog-slurmctld"
    hook.write_text("#!/bin/sh\n")
    array = cluster.submit("--array=1-2")
    until(lambda: cluster.call("sacct", "-nXo", "state", "-j", array).split() == ["COMPLETED"] * 2)
    slurm = Commands(cluster.environ, "/usr/bin")
    first, last = (row.split("|")[1] for row in cluster.call(*ask, array).splitlines())
    assert last == array
    cluster.call(
        "sacctmgr", "-i", "modify", "job", "where", f"jobid={array}_1", "set", "admincomment=x"
    )
    assert slurm.write(last, "ofu=2%") == "sacctmgr"
    with pytest.raises(SlurmError, match="somebody else"):
        slurm.write(first, "ofu=1%")
    rows = cluster.call(*ask, array).splitlines()
    assert rows == [f"{array}_1|{first}|x", f"{array}_2|{last}|ofu=2%"]
