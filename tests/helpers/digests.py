"""Makes digests for tests of how they are written and sent."""

from __future__ import annotations

from ofu_exporter.fleet.digest.config_file import DigestConfig
from ofu_exporter.fleet.digest.digests import DigestSource, digests
from ofu_exporter.fleet.digest.result import Digest
from ofu_exporter.fleet.digest.signs import FleetSigns
from ofu_exporter.fleet.history.fleet_history import JobHistory, JobSums
from tests.fleet.reports.test_fleet_report import history, job, report

NO_SIGNS = FleetSigns({}, {})
HOSTILE = "\r\nBcc: all@example.org\r\n<script>alert(1)</script>"


def of(
    *jobs: JobHistory,
    config: DigestConfig | None = None,
    signs: FleetSigns = NO_SIGNS,
    mark: str = "",
) -> list[Digest]:
    """The digests of the users of some jobs."""
    source = DigestSource(report(history(*jobs)), signs, mark)
    return digests(source, "user", config or DigestConfig())


def digest(name: str = "ada", mark: str = "") -> Digest:
    """The digest of one user, who has a job that is below the target and one that reports too much."""
    wrong = job(
        "2",
        name,
        JobSums(40, 40, 8, 40, 20, 8),
        verdicts={"mfu_above_ofu": 3.0},
        causes={"sparse_peak": 2.0},
    )
    (found,) = of(job("1", name, JobSums(80, 80, 20)), wrong, mark=mark)
    return found


def many(*names: str) -> list[Digest]:
    """A digest for each name."""
    return of(*(job(str(number), name, JobSums(8, 8, 2)) for number, name in enumerate(names)))
