"""Keeps a folder of report pages with an index: newest first, with the trend over all of them.

Beside every page lies a small JSON with its main numbers, of which the index is made. Each file appears whole or not at
all; the page comes first and the index last, so that a stop in between costs nothing but a line of the index. Files of
other names are left alone.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field, ValidationError

from ofu_exporter.errors import ConfigError, file_errors
from ofu_exporter.fleet.answer import ResultRow
from ofu_exporter.fleet.reports import figures
from ofu_exporter.fleet.reports.result import FleetReport
from ofu_exporter.support.drawing import Drawing, Shape, line, rectangle, words
from ofu_exporter.support.small_files import read_small
from ofu_exporter.support.templates import render
from ofu_exporter.support.whole_file import whole_file

MOST_PAGES = 260
"""Five years of weeks; with the next one, the oldest page and its numbers are deleted."""
MOST_BYTES = 16 << 10
"""Of the numbers of one page."""
INDEX = "index.html"
_NAME = re.compile(r"\d{4}-\d\d-\d\dT\d{4}Z_\d{4}-\d\d-\d\dT\d{4}Z")
_WIDTH, _HEIGHT, _LEFT, _FOOT = 520.0, 130.0, 44.0, 20.0


class PageNumbers(ResultRow):
    """The main numbers of one page."""

    schema_version: Literal[1] = 1
    start: str = Field(max_length=40, description="UTC, ISO 8601.")
    end: str = Field(max_length=40)
    mark: bool = Field(description="Whether values are simulated.")
    delivered: float | None = Field(description="Share of the peak.")
    ofu: float | None = Field(description="Of jobs.")
    gpu_hours: float | None
    cost: float | None
    recoverable_gpu_hours: float | None
    recoverable_cost: float | None
    currency: str = Field(max_length=10)
    first: str = Field(max_length=400, description="What to do first; empty where nothing is.")


class KeptPage(NamedTuple):
    name: str
    numbers: PageNumbers | None
    """None where they cannot be read."""

    @property
    def file(self) -> str:
        return f"{self.name}.html"

    @property
    def period(self) -> str:
        """Its days, with the times where they are not those of midnight."""
        start, end = (f"{each[:13]}:{each[13:]}" for each in self.name.split("_"))
        return figures.period(start, end)


def keep_page(report: FleetReport, page: bytes, folder: Path) -> Path:
    """Put a page into the folder, which is made where there is none; one of the same time is replaced.

    Returns its path. Raises ConfigError for a folder that cannot be used, or that another run is writing.
    """
    with file_errors(f"--folder: {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            if (folder / INDEX).exists() and not pages_in(folder):
                raise ConfigError(f"--folder: {folder} has an {INDEX} that is of no report")
            name = f"{_short(report.time.start)}_{_short(report.time.end)}"
            path = folder / f"{name}.html"
            _write(path, page.decode())
            _write(folder / f"{name}.json", numbers_of(report).model_dump_json() + "\n")
            kept = pages_in(folder)
            _write(folder / INDEX, index(kept[:MOST_PAGES]))
            for old in kept[MOST_PAGES:]:
                for suffix in (".html", ".json"):
                    (folder / f"{old.name}{suffix}").unlink(missing_ok=True)
    return path


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Holds the folder. Raises ConfigError where another run does."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise ConfigError(f"--folder: {folder}: another run is writing it") from error
    finally:
        os.close(place)


def _short(time: str) -> str:
    """An ISO time as a part of a file's name: 2026-11-23T0600Z."""
    return f"{time[:13]}{time[14:16]}Z"


def _write(path: Path, text: str) -> None:
    with whole_file(path) as file:
        file.write(text)


def numbers_of(report: FleetReport) -> PageNumbers:
    steps = {step.name: step for step in report.funnel}
    first = next(iter(report.actions), None)
    return PageNumbers(
        start=report.time.start,
        end=report.time.end,
        mark=bool(report.mark),
        delivered=steps["effective"].share,
        ofu=report.total.ofu,
        gpu_hours=steps["installed"].gpu_hours,
        cost=steps["installed"].cost,
        recoverable_gpu_hours=report.total.recoverable_gpu_hours,
        recoverable_cost=report.total.recoverable_cost,
        currency=report.currency,
        first=f"{first.who} {first.what}"[:400] if first else "",
    )


def pages_in(folder: Path) -> list[KeptPage]:
    """The pages of a folder, the newest first. Raises OSError."""
    names = {
        path.stem
        for path in folder.iterdir()
        if path.suffix == ".html" and _NAME.fullmatch(path.stem)
    }
    newest = sorted(names, key=lambda name: name.split("_")[::-1], reverse=True)
    return [
        KeptPage(name, _numbers(folder / f"{name}.json") if at < MOST_PAGES else None)
        for at, name in enumerate(newest)
    ]


def _numbers(path: Path) -> PageNumbers | None:
    try:
        return PageNumbers.model_validate_json(read_small(path, "numbers", MOST_BYTES))
    except (ConfigError, ValidationError):
        return None


def index(pages: Sequence[KeptPage]) -> str:
    """The page that leads to all others."""
    numbered = [(page, page.numbers) for page in pages if page.numbers is not None]
    return render(
        "fleet_index.html",
        pages=pages,
        hours=figures.hours,
        money=figures.money,
        share=figures.share,
        trend=trend(numbered[::-1]) if len(numbered) > 1 else None,
    )


def trend(numbered: Sequence[tuple[KeptPage, PageNumbers]]) -> Drawing:
    """The delivered share of each page, the oldest at the left; one that is not known is a gap."""
    shares = [numbers.delivered for _, numbers in numbered]
    top = max(0.1, *(share for share in shares if share is not None), 0.1)
    high, step = _HEIGHT - _FOOT - 10, (_WIDTH - _LEFT) / len(numbered)
    bars: list[Shape] = []
    for at, ((page, _), share) in enumerate(zip(numbered, shares, strict=True)):
        if share is not None:
            height = high * share / top
            place = (_LEFT + at * step + 0.1 * step, 10 + high - height, 0.8 * step, height)
            bars.append(rectangle(place, f"{page.period}: {share:.1%}"))
    base = line("grid", _LEFT, 10 + high, _WIDTH, 10 + high)
    names = [
        words(f"{top:.0%}", _LEFT - 6, 18, "end"),
        words(numbered[0][0].name[:10], _LEFT, _HEIGHT - 4, "start"),
        words(numbered[-1][0].name[:10], _WIDTH, _HEIGHT - 4, "end"),
    ]
    label = f"Share of the peak that became work in each of {len(numbered)} reports, the newest at the right"
    return Drawing(_WIDTH, _HEIGHT, label, "bars", [base, *bars, *names])
