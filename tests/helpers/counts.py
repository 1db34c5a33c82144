"""Prints what there is to read, words by page and lines by room of the package: `python -m tests.helpers.counts`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.helpers.markdown import prose_words

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "ofu_exporter"


def pages(root: Path = ROOT) -> list[Path]:
    """What a reader of the project may be led to: the pages beside the package, and those of docs/."""
    return [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]


def words(page: Path) -> int:
    """All words of a page, those of tables and examples too, as `wc -w` counts them."""
    return len(page.read_text(encoding="utf-8").split())


def rooms(package: Path = PACKAGE) -> dict[str, int]:
    """Lines of Python by room; `.` is the files beside the rooms."""
    counted: dict[str, int] = {}
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package).parts
        room = inside[0] if len(inside) > 1 else "."
        counted[room] = counted.get(room, 0) + len(path.read_text(encoding="utf-8").splitlines())
    return counted


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Lines with the first column to the left, and numbers to the right."""
    cells = [head, *rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]


def main() -> None:
    shown = pages()
    rows = [
        (str(page.relative_to(ROOT)), f"{words(page):,}", f"{prose_words(page):,}")
        for page in sorted(shown, key=words, reverse=True)
    ]
    total = sum(words(page) for page in shown)
    rows.append((f"{len(shown)} pages", f"{total:,}", f"{sum(map(prose_words, shown)):,}"))
    print(*table(("page", "words", "of them prose"), rows), sep="\n")
    counted = rooms()
    lines = sorted(counted.items(), key=lambda room: room[1], reverse=True)
    print()
    print(
        *table(
            ("room of ofu_exporter/", "lines"),
            [
                *((name, f"{count:,}") for name, count in lines),
                ("all", f"{sum(counted.values()):,}"),
            ],
        ),
        sep="\n",
    )


if __name__ == "__main__":
    main()
