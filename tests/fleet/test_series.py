"""Series are read without what is no number."""

from __future__ import annotations

from tests.doubles.query_server import query_server, vector
from tests.fleet.test_prometheus import client


def test_values_that_are_no_numbers_are_left_out() -> None:
    rows = [({"x": str(n)}, 1.0, value) for n, value in enumerate(("NaN", "+Inf", "0.5", "-Inf"))]
    with query_server(lambda _: vector(*rows)) as server:
        found = client(server.url).instant("x")
    assert [series.points for series in found] == [[(1.0, 0.5)]]
