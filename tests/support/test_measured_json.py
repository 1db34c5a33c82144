"""Numbers that nobody can have measured are errors."""

from __future__ import annotations

import pytest

from ofu_exporter.support.measured_json import measured_json
from tests.helpers.every import every


def test_numbers_stay_what_they_are() -> None:
    assert measured_json(b'{"a": [1, -2.5, 1e18, 0], "b": "NaN"}') == {
        "a": [1, -2.5, 1e18, 0],
        "b": "NaN",
    }
    assert measured_json(f"[0.{62 * '1'}]".encode()) == [pytest.approx(1 / 9)]
    assert [type(each) for each in measured_json(b"[1, 1.0, 1e0]")] == [int, float, float]


@every(["NaN", "Infinity", "-Infinity", "1e19", "-1e400", "1" + 40 * "0", "0." + 63 * "1"])
def test_what_cannot_be_measured_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be a measured number"):
        measured_json(f'{{"a": [{text}]}}'.encode())
