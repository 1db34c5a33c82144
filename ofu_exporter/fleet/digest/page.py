"""Writes a digest as HTML for mail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ofu_exporter.fleet.digest import text
from ofu_exporter.fleet.digest.result import Digest, DigestJob
from ofu_exporter.support.templates import render


class JobLine(NamedTuple):
    """A job in the table: four columns fit on a phone, all else stands below the name."""

    id: str
    name: str
    about: str
    gpu_hours: str
    ofu: str
    wasted: str


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


def _line(digest: Digest, job: DigestJob) -> JobLine:
    named = {head: write(job) for head, _, write in text.numbers(digest)}
    return JobLine(
        id=job.row.shown_name,
        name=job.row.job_name,
        about=_more_of(digest, job, named),
        gpu_hours=named["GPU-hours"],
        ofu=named["OFU"],
        wasted=named["wasted"],
    )


def _more_of(digest: Digest, job: DigestJob, named: Mapping[str, str]) -> str:
    words = [f"{named['GPUs']} GPUs", f"aim {named['aim']}"]
    if job.row.mfu is not None:
        words.append(f"MFU {named['MFU']}")
    if digest.by == "account":
        words.insert(0, job.row.user)
    if job.row.wasted_cost is not None:
        words.append(f"waste {named['cost of waste']}")
    if job.exempt or job.row.verdict:
        words.append(text.verdict(job))
    return ", ".join(words)
