"""A report is right although all happens to a fleet that can, with and without rules, in both engines.

A node is renamed, the network is away for two hours while jobs change, a job leaves a GPU idle, an id is used again by
another user and in another cluster, names are ugly, and every agent is scraped twice: by two replicas with different
scrape jobs, seconds apart, of which one stands still for a while. It is the night of a month's border, in which New
York's clocks are set back.
"""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ofu_exporter.fleet.history import queries
from ofu_exporter.fleet.reports.result import FleetReport, JobRow
from tests.deploy.promtool import RULES, groups
from tests.helpers import stored_fleet
from tests.helpers.agent import bare_environment
from tests.helpers.stored_fleet import ENGINES, HOUR, ScheduledJob, StoredNode, Twice, pages, stored

pytestmark = [pytest.mark.slow, pytest.mark.prometheus, pytest.mark.xdist_group("stored fleet")]

H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"
HOURS = 14
NIGHT = 1793476800.0
"""The history begins at 2026-10-31 20:00 UTC: the month ends four hours later, daylight saving time after ten."""
END = NIGHT + HOURS * HOUR
NEW_YORK, LORD_HOWE = "EST5EDT,M3.2.0,M11.1.0", "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0"
"""Written out, for a small system has no tables of time zones and takes a name for UTC."""
AWAY, STANDS_STILL = (6.25, 8.25), (3.0, 3.4)
"""Hours of a node, and of a replica."""
STAYS = StoredNode("a", "n1:9846", H100, 4)
CHANGES = StoredNode("a", "n2:9846", H100, 4, away=AWAY)
OLD_NAME = StoredNode("a", "n3:9846", H100, 4, away=(5.0, 100.0))
NEW_NAME = StoredNode("a", "gpu-3.example:9846", H100, 4, away=(-1.0, 5.001))
OTHER = StoredNode("b", "n1:9846", A100, 4)
UGLY = 'a|b,"c"\n=1+1\x1b[31m<blink>'
IDLE_GPU = ScheduledJob("1", "alice", (STAYS,), 1, 13, 0.4, idle_gpu=2)
SAME_ID = ScheduledJob("1", "dave", (OTHER,), 2, 12, 0.3)
BEFORE = ScheduledJob("20", "bob", (CHANGES,), 2, 7.0, 0.2)
"""Ends while nobody can see it."""
WITHIN = ScheduledJob("21", "carol", (CHANGES,), 7.1, 12, 0.3)
"""Begins while nobody can see it."""
FIRST = ScheduledJob("30", "erin", (OLD_NAME,), 0.5, 2.5, 0.25)
SECOND = ScheduledJob("30", "frank", (NEW_NAME,), 8.5, 10.5, 0.35, name=UGLY)
JOBS = (IDLE_GPU, SAME_ID, BEFORE, WITHIN, FIRST, SECOND)
NODES = (STAYS, CHANGES, OLD_NAME, NEW_NAME, OTHER)
TEXT = " ".join(
    rule["record"] for path in RULES for group in groups(path) for rule in group["rules"]
)
TEXT += Path(queries.__file__).read_text()


def scraped_twice() -> Iterator[str]:
    """The pages as two replicas have them, with one set of uuids for the renamed node."""
    text = pages(NODES, JOBS, HOURS).replace(f"GPU-{NEW_NAME.name}", f"GPU-{OLD_NAME.name}")
    for line in text.splitlines():
        if line.startswith("#"):
            yield line
            continue
        series, value, time = line.rsplit(" ", 2)
        for job, later in (("pods", 0.0), ("services", 7.0)):
            at, labels = float(time) + later, f'{{job="{job}",replica="{job[0]}",'
            if not later or not STANDS_STILL[0] < (at - NIGHT) / HOUR < STANDS_STILL[1]:
                yield f"{series.replace('{', labels, 1)} {value} {at:.3f}"


@pytest.fixture(scope="module")
def night() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_fleet, "BEGIN", NIGHT)
        yield


@pytest.fixture(scope="module")
def folders(night: None, tmp_path_factory: pytest.TempPathFactory) -> Twice:
    return Twice.of("\n".join([*scraped_twice(), ""]), (NIGHT, END), TEXT, tmp_path_factory.mktemp)


@pytest.fixture(scope="module", params=ENGINES)
def url(
    request: pytest.FixtureRequest, folders: Twice, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with folders.served(request.param, tmp_path_factory.mktemp("victoria")) as server:
        yield server.url


def asked(url: str, format_: str, zone: str = NEW_YORK) -> str:
    """What the command prints, on a computer of another time zone."""
    command = [sys.executable, "-m", "ofu_exporter", "fleet", "report", "--prometheus", url]
    command += ["--since", f"{HOURS}h", "--until", "2026-11-01T10:00Z", "--by", "job"]
    environment = {**bare_environment(), "TZ": zone}
    done = subprocess.run(
        [*command, "--format", format_],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def report(url: str) -> FleetReport:
    return FleetReport.model_validate_json(asked(url, "json"))


def row(report: FleetReport, job: ScheduledJob, cluster: str = "a") -> JobRow:
    (found,) = (
        each
        for each in report.jobs
        if (each.cluster, each.job_id, each.user) == (cluster, job.job_id, job.user)
    )
    return found


@pytest.mark.parametrize(
    ("job", "cluster"),
    [(IDLE_GPU, "a"), (SAME_ID, "b"), (WITHIN, "a"), (FIRST, "a"), (SECOND, "a")],
)
def test_every_job_has_what_it_held_and_did(
    report: FleetReport, job: ScheduledJob, cluster: str
) -> None:
    found = row(report, job, cluster)
    assert found.held_gpu_hours == pytest.approx(job.held, rel=0.02)
    done = sum(job.ofu_of(gpu) for gpu in range(4)) / 4
    assert found.ofu == pytest.approx(done, abs=0.002)


def test_there_is_no_other_job(report: FleetReport) -> None:
    assert len(report.jobs) == len(JOBS)


def test_an_idle_gpu_of_a_busy_job_is_idle(report: FleetReport) -> None:
    idle = row(report, IDLE_GPU).idle_gpu_hours
    assert idle == pytest.approx(
        12.0, abs=1.5
    )  # looks of five minutes, and ends that blocks don't know
    assert row(report, SECOND).idle_gpu_hours < 1.5


def test_a_job_that_ended_unseen_is_said_to_lack_hours(report: FleetReport) -> None:
    assert row(report, BEFORE).held_gpu_hours == pytest.approx(4 * 4.25, rel=0.03)
    (said,) = (note for note in report.notes if note.startswith("GPU-hours that nobody saw"))
    assert "20 (at most " in said
    assert "21" not in said


def test_a_renamed_node_is_not_away_and_one_behind_a_broken_network_is(report: FleetReport) -> None:
    notes = "\n".join(report.notes)
    assert "a/n2:9846" in notes
    assert "n3" not in notes


def test_no_gpu_hour_is_counted_twice(report: FleetReport) -> None:
    assert report.is_sound
    installed = {row.cluster: row.gpus for row in report.clusters}
    assert installed["a"] == pytest.approx(12, rel=0.03)
    assert installed["b"] == pytest.approx(4, rel=0.03)


def test_days_end_where_they_do_in_utc(report: FleetReport) -> None:
    held = {each.day: 0.0 for each in report.days}
    for each in report.days:
        held[each.day] += each.gpu_hours if each.kind == "held" else 0.0
    october = 4 * 3 + 4 * 2 + 4 * 2 + 4 * 2  # jobs 1, 1 of cluster b, 20 and 30 until midnight
    assert held["2026-10-31"] == pytest.approx(october, rel=0.02)
    assert held.keys() == {"2026-10-31", "2026-11-01"}


def test_a_report_is_the_same_wherever_it_is_made(folders: Twice) -> None:
    """But for the time that reading took."""
    with stored(folders.recorded) as server:
        zones = (NEW_YORK, LORD_HOWE)
        texts = [asked(server.url, "json", zone) for zone in zones]
    here, there = (re.sub(r'"seconds": ?[\d.]+', "", text) for text in texts)
    assert here == there != texts[1]


@pytest.mark.parametrize("format_", ["text", "markdown", "html", "csv", "focus", "json"])
def test_an_ugly_name_is_a_name_in_every_format(folders: Twice, format_: str) -> None:
    with stored(folders.recorded) as server:
        text = asked(server.url, format_)
    assert "\x1b" not in text
    if format_ in ("csv", "focus"):
        lines = list(csv.reader(io.StringIO(text)))
        assert {len(line) for line in lines} == {len(lines[0])}
        assert not [cell for line in lines for cell in line if cell.startswith(("=", "@", "+"))]
    elif format_ == "json":
        assert UGLY in {each["job_name"] for each in json.loads(text)["jobs"]}
    else:
        assert "\n=1+1" not in text
        assert format_ == "text" or "<blink>" not in text
