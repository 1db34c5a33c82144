"""A real Slurm of one node with eight fake GPUs, for tests: starts it, talks to it, takes it all away."""

from __future__ import annotations

import datetime
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from tests.helpers.agent import bare_environment, until

NEEDED = ("munged", "slurmctld", "slurmd", "squeue", "sbatch", "srun", "scancel", "scontrol")
DEPLOYED = Path(__file__).parents[2] / "deploy" / "slurm"
PROGRAM = Path(sys.executable).parent / "ofu-exporter"
GPUS = 8
ClusterT = TypeVar("ClusterT", bound="Cluster")

_SLURM_CONF = """\
ClusterName=test
SlurmctldHost=localhost
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={root}/munge/socket,cred_expire=5
CredType=cred/munge
SlurmctldPort={ctld_port}
SlurmdPort={slurmd_port}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmctldPidFile={root}/state/slurmctld.pid
SlurmdPidFile={root}/state/slurmd.pid
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool
SlurmctldLogFile={root}/log/slurmctld.log
SlurmdLogFile={root}/log/slurmd.log
SwitchType=switch/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,bf_interval=1,default_queue_depth=200
ReturnToService=2
PrologFlags=Alloc
Prolog={root}/hooks/prolog
Epilog={root}/hooks/epilog
GresTypes=gpu,shard
SlurmdParameters=config_overrides
MinJobAge=300
KillWait=1
MailProg=/bin/true
NodeName=localhost CPUs=32 Boards=1 SocketsPerBoard=1 CoresPerSocket=32 ThreadsPerCore=1 \
RealMemory=16000 Gres=gpu:h100:{gpus},shard:{shards} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""
_GRES_CONF = """\
AutoDetect=off
NodeName=localhost Name=gpu Type=h100 File={root}/dev/nvidia[0-{last}]
NodeName=localhost Name=shard Count={shards}
"""
_HOOK = """\
#!/bin/sh
export {settings}
exec {script} --ask-seconds 10
"""
"""With more patience than on a node: a machine that runs tests is slow at times."""


def missing() -> str:
    """Why no cluster can be started here; "" when it can."""
    if os.geteuid() != 0:
        return "Slurm's daemons need root"
    absent = [command for command in NEEDED if shutil.which(command) is None]
    return f"not installed: {', '.join(absent)}" if absent else ""


class Cluster:
    """One controller and one node, with their own munge; nothing of the machine's own is touched."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="ofu-slurm-"))
        self.root.chmod(0o755)  # jobs of other users look for their gates here
        self.jobs = self.root / "jobs"
        self._conf = self.root / "etc" / "slurm.conf"
        self._env = bare_environment({"SLURM_CONF": str(self._conf)})
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._gates: set[str] = set()

    @classmethod
    @contextmanager
    def started(cls: type[ClusterT]) -> Iterator[ClusterT]:
        """One that is started, and taken away in the end."""
        made = cls()
        try:
            made.start()
            yield made
        finally:
            made.stop()

    def start(self) -> None:
        for name in ("etc", "dev", "log", "state", "spool", "munge", "hooks", "gates"):
            (self.root / name).mkdir()
        self._configure()
        self._start_munge()
        self.before_start()
        self._spawn("slurmctld", "slurmctld", "-D", "-c")
        self.start_slurmd()
        until(lambda: "idle" in self.call("sinfo", "--noheader", "--format=%T"))

    def before_start(self) -> None:
        """For a cluster with more than this one has."""

    def stop(self) -> None:
        """End everything that was started, whatever state it is in."""
        try:
            if "slurmctld" in self._running:
                self._cancel_all()
            for name in reversed(list(self._running)):
                self._end(name)
        finally:
            for left in self.all_processes():
                with suppress(ProcessLookupError):
                    os.kill(left, signal.SIGKILL)
            shutil.rmtree(self.root, ignore_errors=True)

    def start_slurmd(self) -> None:
        self._spawn("slurmd", "slurmd", "-D", "-N", "localhost")

    def stop_slurmd(self) -> None:
        self._end("slurmd")

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment of a command that is to find this cluster."""
        return self._env

    def call(self, *command: str) -> str:
        """What a command of Slurm prints; "" when it fails."""
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=300, check=False, env=self._env
        )
        return done.stdout.strip() if done.returncode == 0 else ""

    def version(self) -> str:
        """Such as 22.05.8: as text it is in order, for years have two digits."""
        return self.call("sinfo", "--version").split()[-1]

    def popen(self, *command: str) -> subprocess.Popen[str]:
        """A command of Slurm that goes on while the test does."""
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self._env
        )

    def submit(self, *options: str, until_open: str = "", first: str = "true") -> str:
        """A batch job that ends when its gate is opened, or at once; returns its id."""
        gate = self.gate(until_open) if until_open else Path("/")
        self._gates |= {until_open} - {""}
        script = self.root / "job.sh"
        script.write_text(f"#!/bin/sh\n{first}\nwhile [ ! -e {gate} ]; do sleep 0.02; done\n")
        submitted = self.call(
            "sbatch", "--parsable", "--output=/dev/null", "--chdir=/", *options, str(script)
        )
        assert submitted, "Slurm did not take the job"
        return submitted

    def gate(self, name: str) -> Path:
        return self.root / "gates" / name

    def open(self, gate: str) -> None:
        self.gate(gate).touch()

    def open_all(self) -> None:
        """Let every job end that waits, those of a test that failed too."""
        for gate in self._gates:
            self.open(gate)

    @contextmanager
    def hooks(self, prolog: Path, epilog: Path, **settings: object) -> Iterator[None]:
        """Other hooks for a while."""
        folder = self.root / "hooks"
        kept = {path: path.read_text() for path in folder.iterdir()}
        self.hook("prolog", prolog, **settings)
        self.hook("epilog", epilog, **settings)
        try:
            yield
        finally:
            for path, text in kept.items():
                path.write_text(text)

    def show(self, job_id: str) -> dict[str, str]:
        """What Slurm says of a job; empty once it has forgotten it."""
        words = self.call("scontrol", "--oneliner", "show", "job", job_id).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def state(self, job_id: str) -> str:
        return self.show(job_id).get("JobState", "")

    def processes(self, job_id: str) -> list[int]:
        """The processes of a job's steps."""
        lines = self.call("scontrol", "listpids", job_id, "localhost").splitlines()[1:]
        return [int(line.split()[0]) for line in lines if int(line.split()[0]) > 0]

    def unix(self, shown: str) -> float:
        """A time as scontrol shows it."""
        return datetime.datetime.fromisoformat(shown).astimezone().timestamp()

    def _configure(self) -> None:
        ports = dict(zip(("ctld_port", "slurmd_port"), free_ports(2), strict=True))
        text = _SLURM_CONF.format(root=self.root, gpus=GPUS, shards=4 * GPUS, **ports)
        self._conf.write_text(text)
        gres = _GRES_CONF.format(root=self.root, last=GPUS - 1, shards=4 * GPUS)
        (self.root / "etc" / "gres.conf").write_text(gres)
        for number in range(GPUS):
            _device(self.root / "dev" / f"nvidia{number}", number)
        for name in ("prolog", "epilog"):
            self.hook(name, DEPLOYED / f"{name}.sh")

    def hook(self, name: str, script: Path, **settings: object) -> None:
        """Make a script of deploy/ the node's prolog or epilog, with the program under test."""
        given = {
            "OFU_JOB_DIR": self.jobs,
            "OFU_EXPORTER_PROGRAM": PROGRAM,
            "OFU_EXPORTER_HOOK_SECONDS": 20,
            **settings,
        }
        shown = " ".join(f"{key}={value}" for key, value in given.items())
        hook = self.root / "hooks" / name
        hook.write_text(_HOOK.format(settings=shown, script=script))
        hook.chmod(0o755)

    def _start_munge(self) -> None:
        folder = self.root / "munge"
        (folder / "key").write_bytes(os.urandom(1024))
        (folder / "key").chmod(0o600)
        options = {"key": "key-file", "socket": "socket", "pid": "pid-file", "log": "log-file"}
        flags = [f"--{flag}={folder / name}" for name, flag in options.items()]
        self._spawn("munged", "munged", "--foreground", f"--seed-file={folder / 'seed'}", *flags)
        until((folder / "socket").is_socket)

    def _spawn(self, name: str, *command: str) -> None:
        with (self.root / "log" / f"{name}.out").open("ab") as out:
            self._running[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=self._env,
                cwd=self.root / "log",
            )

    def _end(self, name: str) -> None:
        process = self._running.pop(name)
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _cancel_all(self) -> None:
        self.call("scancel", "--state=PENDING")
        self.call("scancel", "--full", "--signal=KILL", "--state=RUNNING")
        with suppress(AssertionError):
            until(lambda: not self.call("squeue", "--noheader"), seconds=10)

    def all_processes(self) -> list[int]:
        """Processes that still have this cluster's configuration in their environment."""
        return processes("environ", f"SLURM_CONF={self._conf}\0")


def divided(configuration: str, root: Path, nodes: Sequence[str]) -> str:
    """The configuration of a cluster with several nodes on this machine, each with its own folders."""
    for own in ("state/slurmd.pid", "log/slurmd.log", "spool\n"):
        stem, dot, end = own.partition(".")
        named = f"{stem}-%n{dot}{end}" if dot else "spool/%n\n"
        configuration = configuration.replace(f"{root}/{own}", f"{root}/{named}")
    line = next(each for each in configuration.splitlines() if each.startswith("NodeName="))
    places = (
        f"NodeName={node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port}"
        for node, port in zip(nodes, free_ports(len(nodes)), strict=True)
    )
    lines = "\n".join(line.replace("NodeName=localhost", place) for place in places)
    return configuration.replace(line, lines)


def processes(file: str, text: str) -> list[int]:
    """Those with this text in a file that /proc has of them."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile
            if text.encode() in (folder / file).read_bytes():
                found.append(int(folder.name))
    return found


def free_ports(count: int) -> Sequence[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [bound.getsockname()[1] for bound in sockets]
    for bound in sockets:
        bound.close()
    return ports


def _device(path: Path, number: int) -> None:
    """A device node as the driver makes it, or a plain file where those are forbidden: Slurm looks no closer."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(195, number))
    except PermissionError:
        path.touch()
