"""The files of deploy/ agree with the program they start."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from ofu_exporter import sources
from ofu_exporter.agent.sampler import RETRY_SECONDS
from ofu_exporter.cli import cli
from ofu_exporter.cli.settings import configure
from ofu_exporter.settings import Settings, host_and_port
from tests.deploy.chart import need, run
from tests.doubles.nvml import Scenario
from tests.helpers.agent import agent, until
from tests.helpers.job_node import Node
from tests.helpers.programs import has_flag

ROOT = Path(__file__).parents[2]
SYSTEMD = ROOT / "deploy" / "systemd"
DEFAULT_LISTEN = str(Settings.model_fields["listen"].default)
DEFAULT_PORT = host_and_port(DEFAULT_LISTEN)[1]


def uncommented(sample: str) -> str:
    """The sample with its settings in force: prose has a space after the #, a setting has none."""
    return re.sub(r"^#(?=[^\s#])", "", sample, flags=re.MULTILINE)


def read_yaml(path: Path) -> dict[str, Any]:
    loaded = yaml.safe_load(path.read_text())
    assert isinstance(loaded, dict)
    return loaded


def test_the_sample_changes_nothing_as_it_is() -> None:
    assert yaml.safe_load((SYSTEMD / "ofu-exporter.yaml").read_text()) is None


def test_the_sample_uncommented_is_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "ofu-exporter.yaml"
    file.write_text(uncommented((SYSTEMD / "ofu-exporter.yaml").read_text()))
    sample, default = configure({"config": file}, environ={}), configure({}, environ={})
    assert sample.settings == default.settings
    assert sample.sources == default.sources


def test_the_sample_shows_every_setting_of_the_default_source() -> None:
    known = set(Settings.model_fields)
    for name in sources.automatic():
        known |= set(sources.options(name).Options.model_fields)
    assert set(yaml.safe_load(uncommented((SYSTEMD / "ofu-exporter.yaml").read_text()))) == known


def test_the_unit_starts_a_command_that_exists_with_flags_that_exist() -> None:
    unit = configparser.RawConfigParser(strict=False, comment_prefixes=("#", ";"))
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(SYSTEMD / "ofu-exporter.service")
    program, command, *arguments = shlex.split(unit["Service"]["ExecStart"])
    assert Path(program).name == "ofu-exporter"
    flags = [word.split("=")[0] for word in arguments if word.startswith("--")]
    assert set(flags) <= flags_of(command)
    assert not {"PrivateDevices", "ProtectClock"} & set(unit["Service"]), "the GPUs would be hidden"


def test_a_reload_reaches_the_agent_on_a_system_without_procps() -> None:
    """Only the shell is there: a container's or a minimal system's `kill` is the shell's own."""
    (line,) = re.findall(r"^ExecReload=(.*)$", (SYSTEMD / "ofu-exporter.service").read_text(), re.M)
    # A test run under nohup ignores the signal, and so would its children.
    waits = (
        "import signal, time; signal.signal(signal.SIGHUP, signal.SIG_DFL); "
        "print(flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", waits], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        words = [word.replace("$MAINPID", str(process.pid)) for word in shlex.split(line)]
        subprocess.run(words, check=True, env={"PATH": "/nonexistent"}, timeout=60)
        assert process.wait(10) == -signal.SIGHUP


def in_force(folder: Path, stricter: str = "") -> Path:
    """The unit as it would be installed, with a program that is here, and more lines of its section Service."""
    text = (SYSTEMD / "ofu-exporter.service").read_text()
    text = text.replace("[Install]", f"{stricter}\n[Install]")
    file = folder / "ofu-exporter.service"
    file.write_text(text.replace("/opt/ofu-exporter/bin/ofu-exporter", "/bin/true"))
    return file


def test_systemd_has_nothing_to_say_of_the_unit(tmp_path: Path) -> None:
    """It ends with 0 for a key that it does not know, and only speaks of it."""
    done = run(need("systemd-analyze"), "verify", "--man=no", in_force(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")


def test_systemd_has_nothing_to_say_of_the_socket(tmp_path: Path) -> None:
    in_force(tmp_path)
    socket = shutil.copy(SYSTEMD / "ofu-exporter.socket", tmp_path)
    done = run(need("systemd-analyze"), "verify", "--man=no", socket)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_socket_is_where_the_agent_would_listen_and_stops_with_it() -> None:
    lines = (SYSTEMD / "ofu-exporter.socket").read_text().splitlines()
    assert f"ListenStream={DEFAULT_LISTEN}" in lines
    assert "StopPropagatedFrom=ofu-exporter.service" in lines


@pytest.mark.parametrize("name", ["ofu-report", "ofu-digest"])
def test_a_week_is_as_long_as_a_report_of_7_days_where_clocks_are_set(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else an hour of the week in which summer ends would be in no report, and one of spring in two."""
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    (monday,) = re.findall(r"^OnCalendar=(.+)$", (SYSTEMD / f"{name}.timer").read_text(), re.M)
    days = ("--iterations=2", "--base-time=2026-10-18 12:00")
    told = run(need("systemd-analyze"), "calendar", *days, monday).stdout
    before, after = re.findall(r"\(in UTC\): Mon ([\d-]+ [\d:]+)", told)
    assert datetime.fromisoformat(after) - datetime.fromisoformat(before) == timedelta(days=7)


STRICTER = (SYSTEMD / "ofu-exporter.service.d" / "stricter.conf").read_text()


EXPOSURES = re.findall(
    r"^    \$ (.*systemd-analyze security .*)\n    → (.*)$",
    (ROOT / "SECURITY.md").read_text(),
    re.M,
)


@pytest.mark.parametrize(("command", "printed"), EXPOSURES, ids=["alone", "stricter"])
def test_the_unit_is_as_closed_as_the_documented_command_prints(command: str, printed: str) -> None:
    """Run as it is printed: systemd counts what lies in the folder beside a unit."""
    if not has_flag(need("systemd-analyze"), "--offline"):
        pytest.skip("systemd before 250 judges only a unit that is loaded")
    done = subprocess.run(
        ["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"→ {printed} " in done.stdout.splitlines()[-1]


def test_systemd_has_nothing_to_say_of_the_stricter_unit(tmp_path: Path) -> None:
    unit = in_force(tmp_path, STRICTER.partition("[Service]\n")[2])
    done = run(need("systemd-analyze"), "verify", "--man=no", unit)
    assert (done.returncode, done.stderr) == (0, "")


NO_WRITABLE_CODE = """
import ctypes
PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN = 65, 1
if ctypes.CDLL(None).prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0):
    raise SystemExit("this kernel has no such limit")
"""
"""What MemoryDenyWriteExecute= comes to, from Linux 6.3 on; prctl(2)."""


@pytest.mark.slow
def test_the_agent_needs_no_memory_that_is_both_written_and_executed(tmp_path: Path) -> None:
    """With the stand-in of NVML, not with the driver's library."""
    (tmp_path / "sitecustomize.py").write_text(NO_WRITABLE_CODE)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    if subprocess.run([sys.executable, "-c", ""], env=environment, check=False).returncode:
        pytest.skip("needs Linux 6.3")
    scenario = Scenario(tmp_path / "nvml")
    scenario.gpu(0)
    environment = {**scenario.environment(), "PYTHONPATH": str(tmp_path)}
    flags = ["--source", "nvml", "--interval", "0.2s", "--clock-interval", "0.1s"]
    with agent("run", *flags, env=environment) as running:
        until(lambda: running.values("ofu_gpu_up") == [1])


ONLY_ITSELF_IN_THE_NAMESPACE = """
import ctypes, os, pathlib
CLONE_NEWUSER = 0x10000000
user, group = os.geteuid(), os.getegid()
if ctypes.CDLL(None).unshare(CLONE_NEWUSER):
    raise SystemExit("no user namespace can be made here")
pathlib.Path("/proc/self/setgroups").write_text("deny")
pathlib.Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
pathlib.Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
"""
"""What PrivateUsers= comes to, user_namespaces(7); systemd maps root as well, who runs this test mostly."""


@pytest.mark.slow
def test_the_agent_measures_and_believes_job_files_where_other_users_are_nobody(
    tmp_path: Path,
) -> None:
    """With the stand-in of NVML, not with the driver's library."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(ONLY_ITSELF_IN_THE_NAMESPACE)
    namespace = {"PYTHONPATH": str(site)}
    tried = subprocess.run(
        [sys.executable, "-c", "print(open('/proc/self/uid_map').read().split()[2])"],
        env={**os.environ, **namespace},
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.stdout != "1\n":
        pytest.skip("needs user namespaces")
    scenario = Scenario(tmp_path / "nvml")
    scenario.gpu(0)
    node = Node(tmp_path)
    node.start("7", "0")
    flags = ["--source", "nvml", "--interval", "0.2s", "--clock-interval", "0.1s"]
    slurm = ["--scheduler", "slurm", "--job-dir", str(node.jobs), "--slurm-poll", "0.1s"]
    with agent("run", *flags, *slurm, env={**scenario.environment(), **namespace}) as running:
        until(lambda: running.values("ofu_gpu_up") == [1])
        until(lambda: running.values("ofu_job_info", job_id="7") == [1])


def test_the_watchdog_waits_longer_than_the_sampler_between_two_tries() -> None:
    (minutes,) = re.findall(
        r"^WatchdogSec=(\d+)min$", (SYSTEMD / "ofu-exporter.service").read_text(), re.M
    )
    assert int(minutes) * 60 * 3 / 4 > 2 * RETRY_SECONDS[1], (
        "it is looked at four times in that time"
    )


def test_one_memory_limit_is_set_alerted_and_documented_and_a_real_agent_stays_far_below() -> None:
    resources = read_yaml(ROOT / "helm/ofu-exporter/values.yaml")["resources"]
    limit = int(resources["limits"]["memory"].removesuffix("Mi"))
    alert = (ROOT / "helm/ofu-exporter/files/alerts/agent-memory-high.yaml").read_text()
    assert f"> 0.9 * {limit} * 2 ^ 20" in alert
    assert f"limit of {limit}Mi the kernel" in alert
    assert f"\nMemoryMax={limit}M\n" in (SYSTEMD / "ofu-exporter.service").read_text()
    assert f"is {limit} MiB" in (ROOT / "docs/runbooks.md").read_text()
    hardware, attacks = (ROOT / page for page in ("docs/hardware.md", "tests/attacks/results.md"))
    (resident,) = re.findall(r"^\| resident memory .* \| (\d+) MiB;", hardware.read_text(), re.M)
    (driver,) = re.findall(r"only opened NVML has (\d+)", hardware.read_text())
    table = attacks.read_text().partition("<!-- end")[0]
    attacked = max(map(int, re.findall(r"^\|(?:[^|]*\|){5} \**(\d+)\** \|", table, re.M)))
    assert attacked > 80, "without the driver"
    assert int(resident) <= int(resources["requests"]["memory"].removesuffix("Mi"))
    assert 2 * (attacked + int(driver) - 15) <= limit


def flags_of(name: str) -> set[str]:
    command = cli.commands[name]
    return {
        flag
        for parameter in command.params
        for flag in (*parameter.opts, *parameter.secondary_opts)
    }


def test_the_scrape_examples_name_the_default_port() -> None:
    jobs = read_yaml(ROOT / "deploy" / "prometheus" / "scrape.yaml")["scrape_configs"]
    targets = [
        target for job in jobs for group in job["static_configs"] for target in group["targets"]
    ]
    assert {host_and_port(target)[1] for target in targets} == {DEFAULT_PORT}
