"""One test that judges every row of a table: `@every(ROWS)` in place of a test for each row.

For rows that cost next to nothing, of which there are hundreds. All are judged, and each that fails is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def listed(*row: object) -> str:
    """The name of a row by its values."""
    return ", ".join(map(str, row))


def every(
    rows: Iterable[Any], name: Callable[..., object] = listed
) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """A tuple is given as several arguments, to the test as to `name`."""
    arguments = [row if type(row) is tuple else (row,) for row in rows]
    assert arguments, "a test of no rows can't fail"

    def test_of(judge: Callable[..., None]) -> Callable[[], None]:
        def test() -> None:
            failed = {
                str(name(*each)): error for each in arguments if (error := wrong(judge, each))
            }
            if failed:
                raise AssertionError(
                    "\n".join(f"{name}: {error!r}" for name, error in failed.items())
                )

        test.__name__ = judge.__name__
        test.__doc__, test.__module__ = judge.__doc__, judge.__module__
        return test

    return test_of


def wrong(judge: Callable[..., None], row: tuple[Any, ...]) -> Exception | None:
    """What a test says against a row."""
    try:
        judge(*row)
    except Exception as error:  # noqa: BLE001 - whatever it raises is what it says
        return error
    return None
