"""Compares what today's code costs with what the last release's code costs, in the same minutes on the same machine:

    python -m tests.bench.ratios            fails where something costs over 15 % more than at the last release
    python -m tests.bench.ratios COMMIT     compares with a commit or tag of your choice

Both codes run in turns, on the same interpreter and libraries, so that their ratio does not depend on the machine. The
last release runs twice, under two names: how far it is from itself is the noise, which is taken off. Above a tenth
nothing can be told, and that is no failure. What seems lost is measured again twice, and fails only where it is lost
each time. Where there is no last release, or its code does not run here, a line says so and nothing fails.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from tests.bench.code_costs import SITTINGS, CannotRunError, Code, Sitting, warm_up
from tests.bench.last_release import (
    ROOT,
    NoReleaseError,
    last_release,
    lay_out_release,
    lay_out_today,
)
from tests.bench.start import compiled

NOTES = Path(__file__).with_name("last_release.yaml")
WORST = 1.15
MOST_NOISE = 0.1
"""Above it the machine is too busy to tell."""
ROUNDS = 5
TRIES = 3


class Allowed(NamedTuple):
    """What may cost more on purpose, until the next release."""

    since: str
    """The release that it costs more than."""
    what: str
    ratio: float
    why: str


class Notes(NamedTuple):
    """What last_release.yaml says."""

    commit: str | None
    allowed: tuple[Allowed, ...]

    def limit(self, release: str, what: str) -> float:
        """The largest ratio that is no loss."""
        return max([WORST, *(each.ratio for each in self.since(release) if each.what == what)])

    def since(self, release: str) -> list[Allowed]:
        return [each for each in self.allowed if each.since == release]


class Ratio(NamedTuple):
    """What something costs of what it cost at the last release."""

    value: float
    noise: float
    """How far the last release is from itself."""

    @property
    def is_noisy(self) -> bool:
        """Whether the machine is too busy to tell."""
        return self.noise > MOST_NOISE

    def is_above(self, limit: float) -> bool:
        return not self.is_noisy and self.value - self.noise > limit


def read_notes(path: Path = NOTES) -> Notes:
    said = yaml.safe_load(path.read_text())
    return Notes(said.get("commit"), tuple(Allowed(**each) for each in said["allowed"]))


def ratio(rounds: Iterable[Sequence[float]]) -> Ratio:
    """Of the costs in each round: today's, and the last release's under two names."""
    values, apart = [], []
    for now, before, again in rounds:
        values.append(2 * now / (before + again))
        apart.append(abs(again / before - 1))
    return Ratio(statistics.median(values), statistics.median(apart))


def measured(
    codes: Sequence[Code], sittings: Sequence[Sitting], rounds: int = ROUNDS
) -> dict[Sitting, dict[str, Ratio]]:
    """Every ratio, by sitting. The sittings take turns; one that an old code cannot do is left out, and said."""
    found: dict[Sitting, dict[str, list[list[float]]]] = {each: {} for each in sittings}
    for _ in range(rounds):
        for sitting in list(found):
            try:
                for what, costs in sitting(codes).items():
                    found[sitting].setdefault(what, []).append(costs)
            except CannotRunError as error:
                excuse(error, codes, sitting.__name__)
                del found[sitting]
    return {
        sitting: {what: ratio(costs) for what, costs in rows.items()}
        for sitting, rows in found.items()
    }


def excuse(error: CannotRunError, codes: Sequence[Code], what: str) -> None:
    """Say that an old code does not run here; today's has to."""
    if error.code == codes[0]:
        raise SystemExit(f"{what}: {error}") from error
    print(f"not compared: {what}, because of {error}", flush=True)


def losses(ratios: Mapping[str, Ratio], release: str, notes: Notes) -> set[str]:
    return {what for what, each in ratios.items() if each.is_above(notes.limit(release, what))}


def verdict(each: Ratio, limit: float) -> str:
    if each.is_noisy:
        return "too noisy to tell"
    if each.is_above(limit):
        return "lost"
    return f"{limit:g} is allowed" if limit > WORST else ""


def print_table(ratios: Mapping[str, Ratio], release: str, notes: Notes) -> None:
    print(f"| what | of {shown(release)}'s | noise | |\n|---|---|---|---|")
    for what, each in ratios.items():
        said = verdict(each, notes.limit(release, what))
        print(f"| {what} | {each.value:.3f} | {each.noise:.3f} | {said} |", flush=True)


def shown(release: str) -> str:
    """A tag, or the beginning of a commit."""
    return release[:10] if len(release) == 40 else release


def compare(codes: Sequence[Code], release: str, notes: Notes) -> set[str]:
    """What is lost in every try. Later tries measure only where something seems lost."""
    try:
        warm_up(codes)
    except CannotRunError as error:
        excuse(error, codes, "all")
        return set()
    lost: set[str] = set()
    sittings: Sequence[Sitting] = SITTINGS
    for attempt in range(TRIES):
        found = measured(codes, sittings)
        print_table({k: v for rows in found.values() for k, v in rows.items()}, release, notes)
        again = {sitting: losses(rows, release, notes) for sitting, rows in found.items()}
        now = {what for names in again.values() for what in names}
        lost = lost & now if attempt else now
        sittings = [sitting for sitting, names in again.items() if names & lost]
        if not lost:
            break
    return lost


@contextlib.contextmanager
def laid_out(release: str, root: Path = ROOT) -> Iterator[list[Code]]:
    """Today's code and the last release's twice, each in a folder of its own, for as long as they are compared."""
    with tempfile.TemporaryDirectory() as name:
        codes = [
            Code("today's code", Path(name) / "today"),
            Code(shown(release), Path(name) / "before"),
            Code(shown(release), Path(name) / "again"),
        ]
        for code in codes:
            code.folder.mkdir()
        lay_out_today(root, codes[0].folder)
        for code in codes[1:]:
            lay_out_release(root, release, code.folder)
        yield codes


def main(words: Sequence[str]) -> None:
    notes = read_notes()
    try:
        release = words[0] if words else last_release(ROOT, notes.commit)
        with compiled(), laid_out(release) as codes:
            lost = compare(codes, release, notes)
    except NoReleaseError as error:
        print(f"not compared: {error}")
        return
    for each in notes.allowed:
        if each.since != release:
            print(f"last_release.yaml allows {each.what} since {each.since}: delete that line")
    if lost:
        raise SystemExit(
            f"over {WORST - 1:.0%} more than at {shown(release)}: {', '.join(sorted(lost))}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
