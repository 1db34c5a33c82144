"""The scores as Markdown: a row for each load, a column for each source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tests.simulator.score import Score

Scores = Mapping[str, Mapping[str, Score | None]]
"""By source and load, or by source and mishap."""


def tables(loads: Scores, mishaps: Scores) -> Iterator[str]:
    """Lines: of the sources that are asked on this node, and after them of pages."""
    for is_page in (False, True):
        found, after = (
            {name: of for name, of in scores.items() if name.startswith("page") == is_page}
            for scores in (loads, mishaps)
        )
        if found:
            yield from _tables(found, after)


def _tables(loads: Scores, mishaps: Scores) -> Iterator[str]:
    yield from titled("Bias of the mean over ten minutes, in points:", "truth, %", loads, bias)
    yield from titled(
        "Windows: mean error ± mean stated standard error, in points, and the share of those that state one whose "
        "truth lies within two of it; `?` = none states any:",
        "",
        loads,
        windows,
    )
    yield from extremes(loads)
    yield from titled(
        "When something goes wrong under the load `training`: bias in points, O / span, and seconds counted twice:",
        "",
        mishaps,
        mishap,
    )


def extremes(scores: Scores) -> Iterator[str]:
    """What hardly differs from load to load."""
    worst = {name: [s for s in found.values() if s] for name, found in scores.items()}
    rows = {
        "O / span": [f"{min((s.coverage for s in of), default=0):.3f}" for of in worst.values()],
        "counted twice, s": [
            f"{max((s.twice for s in of), default=0):.1f}" for of in worst.values()
        ],
    }
    yield from ["", "The worst of all loads:", "", _row(["", *scores]), _line(1 + len(scores))]
    yield from (_row([name, *cells]) for name, cells in rows.items())


def titled(title: str, truth: str, scores: Scores, cell: Callable[[Score], str]) -> Iterator[str]:
    scores = {name: found for name, found in scores.items() if found}
    if not scores:
        return
    rows = list(dict.fromkeys(row for found in scores.values() for row in found))
    yield from ["", title, ""]
    yield _row(["", *([truth] if truth else []), *scores])
    yield _line(1 + bool(truth) + len(scores))
    for row in rows:
        found = [scores[name].get(row, _MISSING) for name in scores]
        truths = [f"{100 * s.truth:.2f}" for s in found if isinstance(s, Score)][:1]
        yield _row([row, *(truths if truth else []), *(_cell(each, cell) for each in found)])


_MISSING = "missing"


def _cell(score: Score | str | None, cell: Callable[[Score], str]) -> str:
    if isinstance(score, str):
        return ""
    return "nothing" if score is None else cell(score)


def bias(score: Score) -> str:
    text = f"{100 * score.bias:+.2f}"
    return "0.00" if float(text) == 0 else text


def windows(score: Score) -> str:
    error = f"{100 * score.error:.2f}"
    if score.stated is None or score.inside is None:
        return f"{error}, ?"
    some = f" of {1 - score.unstated:.0%}" if score.unstated else ""
    return f"{error} ± {100 * score.stated:.2f}, {score.inside:.0%}{some}"


def counted(score: Score) -> str:
    twice = f", {score.twice:.1f} s" if score.twice > 0.05 else ""
    return f"{score.coverage:.3f}{twice}"


def mishap(score: Score) -> str:
    return f"{bias(score)}, {counted(score)}"


def _line(columns: int) -> str:
    return "|---" * columns + "|"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
