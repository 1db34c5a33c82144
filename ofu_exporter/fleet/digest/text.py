"""Writes a digest: as text, as HTML for mail, as a few lines for a chat, as the line that announces it, as files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.digest.result import Digest, DigestJob, Rank
from ofu_exporter.fleet.pages import tables
from ofu_exporter.fleet.reports.figures import counted, gpu_count, gpus, hours, money, points, share
from ofu_exporter.fleet.reports.result import JobRow
from ofu_exporter.fleet.reports.words import served_words, verdict_words
from ofu_exporter.support.tables import LEFT, RIGHT, Column, TextTable, table
from ofu_exporter.support.templates import render
from ofu_exporter.support.whole_file import whole_file
from ofu_exporter.values.text import shown, shown_lines

LONGEST_NAME = 60
"""Most characters of a user's name that are shown in a line of text."""
MOST_ADVICE = 12
"""Most pieces of advice in a digest."""
MOST_SHORT = 5
"""The same in a digest of a few lines."""
DO, STAND, JOBS, MEANING, KNOW = (
    "What to do",
    "Where this stands",
    "Jobs",
    "What the words mean",
    "To know",
)
"""The titles of the parts."""


def subject(digest: Digest) -> str:
    """One line, without control characters for headers or terminals."""
    mark = "[SIMULATED] " if digest.mark else ""
    days = f"{digest.time.start[:10]} to {digest.time.end[:10]}"
    return f"{mark}GPU use of {cut(digest.name)}, {days}: OFU {share(digest.total.ofu)}"


def cut(name: str) -> str:
    """A name chosen by a user, escaped and shortened."""
    safe = shown(name)
    return safe if len(safe) <= LONGEST_NAME else f"{safe[: LONGEST_NAME - 1]}…"


def text(digest: Digest, most_jobs: int) -> str:
    lines = [*facts(digest)]
    doing = [f"- {job}: {advice}" for job, advice in to_do(digest)]
    for title, part in (
        (DO, [*doing, *(f"- {each}" for each in digest.advice)]),
        (STAND, [*rank_lines(digest)]),
    ):
        lines += ["", f"{title}:", "", *part] if part else []
    lines = [shown(line) for line in lines]
    lines += ["", f"{JOBS}:", "", _table(digest, most_jobs).plain(), *more(digest, most_jobs)]
    for title, part in ((MEANING, digest.limits), (KNOW, digest.remarks)):
        lines += ["", f"{title}:", "", *(f"- {shown(each)}" for each in part)] if part else []
    return "\n".join([*lines, *(["", shown_lines(digest.contact)] if digest.contact else [])])


def short(digest: Digest) -> str:
    lines = [*facts(digest), *(f"- {job}: {advice}" for job, advice in to_do(digest)[:MOST_SHORT])]
    lines += [*rank_lines(digest), *digest.contact.splitlines()]
    return "\n".join(shown(line) for line in lines)


def facts(digest: Digest) -> Iterator[str]:
    total = digest.total
    yield f"{digest.mark}GPU use of {cut(digest.name)}, {tables.covered(digest.time)}."
    aim = "" if digest.target is None else f"; the target is {share(digest.target)}"
    gpu_hours = with_cost(total.held_gpu_hours, total.cost, digest.currency)
    yield f"{counted(total.jobs, 'job')} held {gpu_hours}. OFU {share(total.ofu)}{aim}."
    yield from _waste(digest)
    if total.idle_gpu_hours >= 1:
        idle = with_cost(total.idle_gpu_hours, total.idle_cost, digest.currency)
        yield f"In {idle} nothing was computed."
    if (idle_hours := total.lost_idle_gpu_hours or 0.0) >= 1:
        went = share(idle_hours / total.observed_gpu_hours)
        yield (
            f"Of {hours(total.observed_gpu_hours)} measured GPU-hours {went} went to idle engines: "
            "GPUs that were held, and on which no kernel ran."
        )
    yield from served_words(total, digest.currency)
    if total.mfu is not None:
        yield (
            f"Where jobs report, MFU is {share(total.mfu)}, and OFU over the same time {share(total.ofu_compared)}."
        )


def _waste(digest: Digest) -> Iterator[str]:
    total, exempt = digest.total, digest.exempt_wasted_gpu_hours
    if total.wasted_gpu_hours is None or not total.observed_gpu_hours:
        return
    if total.wasted_gpu_hours <= 0:
        yield f"That is better than the target, by {hours(-total.wasted_gpu_hours)} GPU-hours."
        return
    wasted = with_cost(total.wasted_gpu_hours, total.wasted_cost, digest.currency)
    apart = ""
    if digest.exempt_gpu_hours and exempt and exempt > 0:
        apart = f" Exempt jobs have {hours(exempt)} of them; there is no advice on these."
    yield f"They fell {wasted} short of the target.{apart}"


def with_cost(gpu_hours: float | None, cost: float | None, currency: str) -> str:
    paid = "" if cost is None else f" ({money(cost, currency)})"
    return f"{hours(gpu_hours)} GPU-hours{paid}"


def rank_lines(digest: Digest) -> Iterator[str]:
    """The reader's rank, and the job that would change it most."""
    kind = f"{digest.by}s"
    if rank := digest.rank_by_waste:
        yield f"{place(rank)} {kind} by GPU-hours short of the target (1st: most)."
    if rank := digest.rank_by_ofu:
        yield f"{place(rank)} {kind} by OFU (1st: highest)."
    if digest.rank_by_waste and digest.exempt_gpu_hours:
        yield "Exempt jobs do not count there."
    largest = next((job for job in digest.jobs if not job.exempt), None)
    if largest and (largest.row.wasted_gpu_hours or 0.0) >= 1:
        row = largest.row
        wasted = with_cost(row.wasted_gpu_hours, row.wasted_cost, digest.currency)
        yield f"The job with the most to gain is {cut(title(largest))}: {wasted}."


def place(rank: Rank) -> str:
    """A rank in words: 3rd of 26."""
    last, teen = rank.place % 10, rank.place % 100 in (11, 12, 13)
    ending = "th" if teen else {1: "st", 2: "nd", 3: "rd"}.get(last, "th")
    return f"{rank.place}{ending} of {rank.of}"


def to_do(digest: Digest) -> list[tuple[str, str]]:
    """Jobs with advice, those with the most waste first; a user's jobs of one name in a cluster are listed once."""
    alike: dict[tuple[str, ...], list[tuple[DigestJob, str]]] = {}
    for job in digest.jobs:
        for each in job.advice:
            key = (job.row.cluster, job.row.user, job.row.job_name or title(job), each.kind)
            alike.setdefault(key, []).append((job, each.text))
    return [(_titled(every), every[0][1]) for every in alike.values()][:MOST_ADVICE]


def _titled(every: Sequence[tuple[DigestJob, str]]) -> str:
    first, others = cut(title(every[0][0])), len(every) - 1
    return f"{first} (and {others} more of this name)" if others else first


def title(job: DigestJob) -> str:
    return " ".join(filter(None, [job.row.shown_name, job.row.job_name]))


def more(digest: Digest, most_jobs: int) -> list[str]:
    left = len(digest.jobs) - most_jobs
    return [f"and {left} more, with less waste or exempt."] if left > 0 else []


def numbers(digest: Digest) -> list[Column[DigestJob]]:
    def wasted(job: DigestJob) -> str:
        return hours(job.row.wasted_gpu_hours if job.row.observed_gpu_hours else None)

    def cost(job: DigestJob) -> str:
        return money(job.row.wasted_cost if job.row.observed_gpu_hours else None, digest.currency)

    return [
        ("GPUs", RIGHT, lambda job: gpus(job.row.gpus)),
        ("GPU-hours", RIGHT, lambda job: hours(job.row.held_gpu_hours)),
        ("OFU", RIGHT, lambda job: share(job.row.ofu)),
        ("aim", RIGHT, lambda job: share(job.target)),
        ("MFU", RIGHT, lambda job: share(job.row.mfu)),
        ("MFU - OFU", RIGHT, lambda job: points(job.row.error)),
        ("wasted", RIGHT, wasted),
        ("cost of waste", RIGHT, cost),
    ]


def verdict(job: DigestJob) -> str:
    return f"exempt: {job.exempt}" if job.exempt else verdict_words(job.row)


def _table(digest: Digest, most_jobs: int) -> TextTable:
    columns: list[Column[DigestJob]] = [
        ("job", LEFT, lambda job: job.row.shown_name),
        ("name", LEFT, lambda job: job.row.job_name),
    ]
    if digest.by == "account":
        columns.append(("user", LEFT, lambda job: job.row.user))
    columns += [*numbers(digest), ("verdict", LEFT, verdict)]
    return table(columns, digest.jobs[:most_jobs])


def page(digest: Digest, most_jobs: int) -> str:
    return render(
        "digest.html",
        digest=digest,
        titles={"do": DO, "stand": STAND, "jobs": JOBS, "meaning": MEANING, "know": KNOW},
        subject=subject(digest),
        name=cut(digest.name),
        facts=[*facts(digest)],
        to_do=to_do(digest),
        ranks=[*rank_lines(digest)],
        jobs=[_line(digest, job) for job in digest.jobs[:most_jobs]],
        more=more(digest, most_jobs),
    )


def _line(digest: Digest, job: DigestJob) -> tuple[JobRow, Mapping[str, str], str]:
    """A job in the table: four columns fit on a phone, all else stands below the name."""
    cells = {head: write(job) for head, _, write in numbers(digest)}
    return job.row, cells, _more_of(digest, job, cells)


def _more_of(digest: Digest, job: DigestJob, cells: Mapping[str, str]) -> str:
    words = [gpu_count(job.row.gpus), f"aim {cells['aim']}"]
    if job.row.mfu is not None:
        words.append(f"MFU {cells['MFU']}")
    if digest.by == "account":
        words.insert(0, job.row.user)
    if job.row.wasted_cost is not None:
        words.append(f"waste {cells['cost of waste']}")
    if job.exempt or job.row.verdict:
        words.append(verdict(job))
    return ", ".join(words)


_PLAIN = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_OTHERS = re.compile(r"[^a-z0-9_-]+")
_LONGEST = 40


def file_name(name: str) -> str:
    """The name itself if all of its characters are safe; otherwise the safe ones, a tilde and a hash of the whole name.

    No safe name has a tilde, so nobody can choose a name that overwrites another's file.
    """
    if _PLAIN.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:32]
    safe = _OTHERS.sub("_", name.lower())[:_LONGEST].strip("_-") or "name"
    return f"{safe}~{digest}"


class WrittenFile(NamedTuple):
    path: Path
    fault: str | None


def write_digests(digests: Iterable[Digest], folder: Path, most_jobs: int) -> Iterator[WrittenFile]:
    """Write a text and a page of each digest; a file that cannot be written does not stop the others.

    Raises ConfigError if the folder cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--output: {folder}: {error.strerror or error}") from error
    for digest in digests:
        name = file_name(digest.name)
        yield _written(folder / f"{name}.txt", text(digest, most_jobs) + "\n")
        yield _written(folder / f"{name}.html", page(digest, most_jobs))


def _written(path: Path, content: str) -> WrittenFile:
    try:
        with whole_file(path) as file:
            file.write(content)
    except OSError as error:
        return WrittenFile(path, error.strerror or str(error))
    return WrittenFile(path, None)
