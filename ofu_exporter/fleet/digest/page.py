"""Writes a digest as HTML for mail."""

from __future__ import annotations

from collections.abc import Mapping

from ofu_exporter.fleet.digest import text
from ofu_exporter.fleet.digest.result import Digest, DigestJob
from ofu_exporter.fleet.reports.result import JobRow
from ofu_exporter.support.templates import render


def page(digest: Digest, most_jobs: int) -> str:
    """The whole page."""
    return render(
        "digest.html",
        digest=digest,
        titles=text,
        subject=text.subject(digest),
        name=text.cut(digest.name),
        facts=[*text.facts(digest)],
        to_do=text.to_do(digest),
        ranks=[*text.rank_lines(digest)],
        jobs=[_line(digest, job) for job in digest.jobs[:most_jobs]],
        more=text.more(digest, most_jobs),
    )


def _line(digest: Digest, job: DigestJob) -> tuple[JobRow, Mapping[str, str], str]:
    """A job in the table: four columns fit on a phone, all else stands below the name."""
    numbers = {head: write(job) for head, _, write in text.numbers(digest)}
    return job.row, numbers, _more_of(digest, job, numbers)


def _more_of(digest: Digest, job: DigestJob, numbers: Mapping[str, str]) -> str:
    words = [f"{numbers['GPUs']} GPUs", f"aim {numbers['aim']}"]
    if job.row.mfu is not None:
        words.append(f"MFU {numbers['MFU']}")
    if digest.by == "account":
        words.insert(0, job.row.user)
    if job.row.wasted_cost is not None:
        words.append(f"waste {numbers['cost of waste']}")
    if job.exempt or job.row.verdict:
        words.append(text.verdict(job))
    return ", ".join(words)
