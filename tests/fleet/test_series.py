"""Series are read without what is no number."""

from __future__ import annotations

from contextlib import closing

from ofu_exporter.fleet.prometheus import PrometheusClient
from tests.doubles.query_server import query_server, vector


def test_values_that_are_no_numbers_are_left_out() -> None:
    rows = [({"x": str(n)}, 1.0, value) for n, value in enumerate(("NaN", "+Inf", "0.5", "-Inf"))]
    with (
        query_server(lambda _: vector(*rows)) as server,
        closing(PrometheusClient(server.url)) as client,
    ):
        found = client.instant("x")
    assert [series.points for series in found] == [[(1.0, 0.5)]]
