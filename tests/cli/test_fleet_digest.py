"""`fleet digest` on a real Prometheus, a real mail server: nothing leaves unless it is told to."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from ofu_exporter.cli import cli
from ofu_exporter.cli.fleet_digest import digest
from ofu_exporter.cli.fleet_report import report
from ofu_exporter.errors import ConfigError, QueryError
from ofu_exporter.fleet.digest import config_file
from ofu_exporter.fleet.digest.result import Digest
from ofu_exporter.fleet.reports.result import FleetReport
from ofu_exporter.fleet.simulation import spec
from ofu_exporter.fleet.simulation.fleet import fleet_of
from tests.doubles.mail_server import mail_server
from tests.helpers import fleet_truth
from tests.helpers.fleets import BEGIN
from tests.helpers.impatience import impatient
from tests.helpers.programs import has_flag
from tests.helpers.prometheus_server import Prometheus
from tests.helpers.stored_fleet import ScheduledJob, StoredNode, pages, stored, stored_pages

pytestmark = [pytest.mark.slow, pytest.mark.prometheus, pytest.mark.xdist_group("fleet-digest")]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/fleet.md").read_text()
DEPLOY = ROOT / "deploy"
NODES = [StoredNode("", f"n{each}:9846", "NVIDIA H100 80GB HBM3", 4) for each in range(4)]
USERS = ("alice", "bob", "../x, all@example.org", "carol")
JOBS = [
    ScheduledJob(str(7 + place), user, (node,), 1, 3, 0.1 * place, 0.6, verdict="mfu_above_ofu")
    for place, (user, node) in enumerate(zip(USERS, NODES, strict=True))
]
UNTIL = ("--since", "4h", "--until", "2026-01-05T04:00Z")
DAY = ("--since", "24h", "--until", "2025-08-28T00:00Z")


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with stored_pages(tmp_path_factory.mktemp("stored"), pages(NODES, JOBS, 4)) as running:
        yield running


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("simulated")
    fleet_truth.write(fleet_of(spec.read_spec(Path("small"))), BEGIN, folder)
    with stored(folder) as running:
        yield running


def run(url: str, *flags: str | Path) -> Result:
    return CliRunner().invoke(cli, ["fleet", "digest", "--prometheus", url, *map(str, flags)])


def mail_config(folder: Path, port: int) -> Path:
    path = folder / "digest.yaml"
    path.write_text(
        "send:\n  to: '{name}@example.org'\n"
        f"  url: mailto://127.0.0.1:{port}?from=gpu@example.org&to={{to}}\n"
    )
    return path


def test_alone_it_lists_what_there_is_and_writes_and_sends_nothing(prometheus: Prometheus) -> None:
    result = run(prometheus.url, *UNTIL)
    assert result.exit_code == 0, result.output
    assert "GPU use of alice, 2026-01-05 to 2026-01-05: OFU 0.0%" in result.stdout
    assert "To read them: --output FOLDER" in result.stderr


@pytest.mark.parametrize("by", ["user", "account"])
def test_its_numbers_are_those_of_the_report(simulated: Prometheus, by: str) -> None:
    asked = ["fleet", "report", "--prometheus", simulated.url, *DAY, "--by", by, "--format", "json"]
    report = FleetReport.model_validate_json(CliRunner().invoke(cli, asked).stdout)
    result = run(simulated.url, *DAY, "--by", by, "--json")
    assert result.exit_code == 0, result.output
    found = [Digest.model_validate_json(line) for line in result.stdout.splitlines()]
    assert [each.total for each in found] == [row for row in report.groups if row.is_named]
    rows = {(row.cluster, row.job_id): row for row in report.jobs}
    told = [job.row for each in found for job in each.jobs]
    assert len(told) == len(rows) == len({(row.cluster, row.job_id) for row in told})
    assert all(row == rows[row.cluster, row.job_id] for row in told)
    assert all(each.mark == "SIMULATED, no GPU was measured. " for each in found)


def test_files_of_the_simulated_fleet_say_that_it_is_simulated(
    simulated: Prometheus, tmp_path: Path
) -> None:
    result = run(simulated.url, *DAY, "--output", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "To read them" not in result.stderr
    files = sorted((tmp_path / "out").iterdir())
    assert [path.name for path in files if path.suffix == ".txt"] == [
        *("ada.txt", "alan.txt", "eve.txt", "grace.txt", "marie.txt")
    ]
    assert all("SIMULATED, no GPU was measured." in path.read_text() for path in files)
    told = (tmp_path / "out" / "marie.txt").read_text()
    shown = re.search(
        r"^    SIMULATED, .*?^    The job with the most to gain[^\n]*",
        PAGE,
        re.MULTILINE | re.DOTALL,
    )
    assert shown
    paragraphs = [" ".join(each.split()) for each in shown[0].split("\n\n")]
    assert [each for each in paragraphs if each not in " ".join(told.split())] == []
    told = (tmp_path / "out" / "grace.txt").read_text()
    assert "attention is causal, and the count takes every pair of query and key" in told


def test_a_dry_run_says_who_would_get_what_and_nothing_leaves(
    prometheus: Prometheus, tmp_path: Path
) -> None:
    with mail_server() as server:
        result = run(prometheus.url, *UNTIL, "--config", mail_config(tmp_path, server.port))
        assert server.connections == 0
    assert result.exit_code == 4, "one user has no address"
    assert result.stdout.startswith("A dry run: nothing was sent.")
    assert "To read them: --output FOLDER" in result.stderr
    assert "would be sent: mailto to alice@example.org: GPU use of alice" in result.stdout
    assert "all@example.org: not sent by nobody: has characters" in result.stderr
    assert server.taken == []


def test_who_fails_is_named_and_can_be_sent_to_alone(
    prometheus: Prometheus, tmp_path: Path
) -> None:
    with mail_server() as server:
        flags = ("--config", mail_config(tmp_path, server.port), "--send")
        server.refused["bob@example.org"] = "450 4.2.0 try later"
        first = run(prometheus.url, *UNTIL, *flags)
        assert first.exit_code == 4
        assert "bob: not sent by mailto to bob@example.org: " in first.stderr
        assert "450" in first.stderr
        assert "sent: mailto to alice@example.org: GPU use of alice" in first.stdout
        assert {to for mail in server.taken for to in mail.to} == {
            "alice@example.org",
            "carol@example.org",
        }
        server.refused.clear()
        second = run(prometheus.url, *UNTIL, *flags, "--only", "bob")
        assert second.exit_code == 0, second.output
        assert [mail.to for mail in server.taken[2:]] == [["bob@example.org"]]


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--send",), "--send needs `send` in the file of --config"),
        (("--config", "/nonexistent"), "digest /nonexistent: No such file"),
        (("--only", "nobody"), "--only: no job of nobody in this time"),
        (("--output", "/dev/null/x"), "--output: /dev/null/x: Not a directory"),
        (("--prices", "/nonexistent"), "prices /nonexistent"),
    ],
)
def test_flags_that_cannot_be_used_are_refused(
    flags: tuple[str, ...], why: str, prometheus: Prometheus
) -> None:
    result = run(prometheus.url, *UNTIL, *flags)
    assert isinstance(result.exception, ConfigError), result.output
    assert why in str(result.exception)


def test_a_configuration_that_cannot_be_used_is_refused_before_anything_is_asked(
    tmp_path: Path,
) -> None:
    path = tmp_path / "digest.yaml"
    path.write_text("ranks: yes\nmial: {}\n")
    result = run("http://127.0.0.1:1", "--config", path)
    assert isinstance(result.exception, ConfigError)
    assert "line 2: mial: is not known" in str(result.exception)


def test_a_time_without_data_is_said_and_nobody_is_told(
    prometheus: Prometheus, tmp_path: Path
) -> None:
    with mail_server() as server:
        flags = ("--config", mail_config(tmp_path, server.port), "--send")
        result = run(prometheus.url, "--since", "4h", "--until", "2020-01-01", *flags)
        assert (result.exit_code, server.connections) == (3, 0)
    assert "has no series of ofu-exporter" in result.stderr


@impatient
def test_a_prometheus_that_is_away_is_one_line() -> None:
    result = run("http://127.0.0.1:1")
    assert isinstance(result.exception, QueryError)


def test_a_week_is_the_usual_time() -> None:
    assert "[default: 7d]" in CliRunner().invoke(cli, ["fleet", "digest", "--help"]).stdout


def test_the_configuration_of_the_page_can_be_used(tmp_path: Path) -> None:
    path = tmp_path / "digest.yaml"
    (shown,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    path.write_text(shown)
    found = config_file.read_config(path)
    assert found.exempt.dram_busy == 0.6
    assert found.send is not None


@pytest.mark.parametrize("command", [digest, report], ids=["digest", "report"])
def test_the_cron_job_is_one_and_has_flags_that_exist(command: click.Command) -> None:
    kubernetes = pytest.importorskip("kubernetes_validate", reason="tests/run installs it")
    made = yaml.safe_load((DEPLOY / f"kubernetes/{command.name}.yaml").read_text())
    kubernetes.validate(made, kubernetes.latest_version().rpartition(".")[0], strict=True)
    (container,) = made["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    known = {flag for each in command.params for flag in each.opts}
    assert {each for each in container["args"] if each.startswith("--")} <= known


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("name", ["digest", "report"])
def test_the_units_are_what_systemd_takes(name: str, tmp_path: Path) -> None:
    for unit in (DEPLOY / "systemd").glob(f"ofu-{name}.*"):
        text = unit.read_text().replace("/opt/ofu-exporter/bin/ofu-exporter", "/bin/true")
        (tmp_path / unit.name).write_text(text)
    verify = ["systemd-analyze", "verify", "--man=no", str(tmp_path / f"ofu-{name}.timer")]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"ofu-{name}" not in done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("name", ["digest", "report"])
def test_the_units_are_closed(name: str) -> None:
    """Of 10 points of exposure, where an agent that may do nothing but its work has 1.3."""
    if not has_flag("systemd-analyze", "--offline"):
        pytest.skip("systemd before 250 judges only a unit that is loaded")
    command = [
        "systemd-analyze",
        "security",
        "--offline=true",
        "--threshold=14",
        str(DEPLOY / "systemd" / f"ofu-{name}.service"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_unit_of_reports_has_flags_that_exist_and_files_for_its_group_alone() -> None:
    text = (DEPLOY / "systemd" / "ofu-report.service").read_text()
    known = {flag for each in report.params for flag in each.opts}
    assert {*re.findall(r" (--[a-z-]+) ", text)} <= known
    assert {"UMask=0027", "StateDirectoryMode=0750"} <= {*text.splitlines()}
