"""A digest's lines on exempt jobs, on the job with the most to gain, and below each job of the page."""

from __future__ import annotations

import re

import pytest

from ofu_exporter.fleet.digest.config_file import DigestConfig
from ofu_exporter.fleet.digest.digests import DigestSource, digests
from ofu_exporter.fleet.digest.result import Digest, DigestBy
from ofu_exporter.fleet.digest.text import page, text
from ofu_exporter.fleet.history.fleet_history import JobHistory, JobSums
from tests.fleet.reports.test_fleet_report import history, job, report
from tests.helpers.digests import NO_SIGNS

EXEMPT = DigestConfig.model_validate({"exempt": {"partitions": ["interactive"]}})
FALLS_SHORT = job("1", "ada", JobSums(80, 80, 16))


def interactive(sums: JobSums) -> JobHistory:
    names = {("notebook", "ada", "lab", "interactive", "", "slurm", ""): 3}
    return job("2", "ada", sums, names=names)


def digest(*jobs: JobHistory, by: DigestBy = "user") -> Digest:
    source = DigestSource(report(history(*jobs), by=by), NO_SIGNS, "")
    (found,) = digests(source, by, EXEMPT)
    return found


@pytest.mark.parametrize(
    ("sums", "words"),
    [
        (
            JobSums(40, 40, 0),
            "They fell 32 GPU-hours (64 USD) short of the target. Exempt jobs have 16 of them",
        ),
        (JobSums(40, 40, 20), "They fell 12 GPU-hours (24 USD) short of the target.\n"),
    ],
)
def test_exempt_jobs_have_a_part_of_what_is_missing_where_they_fell_short(
    sums: JobSums, words: str
) -> None:
    said = text(digest(FALLS_SHORT, interactive(sums)), 5)
    assert words in said
    assert "Exempt jobs" not in text(digest(FALLS_SHORT), 5)


@pytest.mark.parametrize(
    ("made", "is_named"),
    [
        (interactive(JobSums(80, 80, 16)), False),
        (job("1", "ada", JobSums(10, 10, 3)), True),
        (job("1", "ada", JobSums(10, 10, 3.1)), False),
    ],
)
def test_a_job_with_an_hour_to_gain_is_named_if_it_is_not_exempt(
    made: JobHistory, is_named: bool
) -> None:
    assert ("most to gain" in text(digest(made), 5)) == is_named


def below(made: Digest) -> list[str]:
    """What the page has below the name of each job."""
    return re.findall(r"</b> \S+\s*<div[^>]*>([^<]*)</div>", page(made, 5))


def test_below_a_job_stands_what_is_known_of_it_and_whose_it_is_in_an_accounts_digest() -> None:
    wrong = job("3", "ada", JobSums(40, 40, 8, 40, 20, 8), verdicts={"mfu_above_ofu": 3.0})
    jobs = FALLS_SHORT, wrong, interactive(JobSums(8, 8, 2))
    known = [
        "8 GPUs, aim 40.0%, waste 32 USD",
        "8 GPUs, aim 40.0%, MFU 50.0%, waste 16 USD, MFU above OFU",
        "8 GPUs, aim 40.0%, waste 2 USD, exempt: its partition is exempt",
    ]
    assert below(digest(*jobs)) == known
    assert below(digest(*jobs, by="account")) == [f"ada, {each}" for each in known]
