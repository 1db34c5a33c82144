"""Every row has details."""

from __future__ import annotations

import pytest

from ofu_exporter.terminal.details import _date, gpu_details
from ofu_exporter.terminal.gpu_rows import gpu_rows, node_rows
from ofu_exporter.terminal.job_rows import idle_rows, job_rows, jobs_of, user_rows
from tests.helpers.scenes import many_nodes, one_node

pytestmark = pytest.mark.xdist_group("shown node")


def test_every_row_has_details() -> None:
    scene = many_nodes("x")
    assert len(jobs_of(scene)) == 3
    of_jobs = [*job_rows(scene), *user_rows(scene), *idle_rows(scene)]
    for row in [*gpu_rows(one_node()), *node_rows(scene), *of_jobs]:
        rows = row.details()
        assert len(rows) >= 2
        assert all(name and value for name, value in rows), rows


def test_of_a_gpu_that_was_never_observed_it_is_said() -> None:
    (answer,) = one_node().answers
    assert answer.node is not None
    gpu = answer.node.gpus[0].model_copy(
        update={"observed_seconds": 0.0, "utilization_seconds": 0.0}
    )
    rows = dict(gpu_details("node-17", answer.node, gpu, [], None))
    assert rows["OFU in all"] == "nothing was observed"


def test_a_time_that_no_calendar_has_is_told_as_a_number() -> None:
    assert _date(1e300) == "Unix time 1e+300"
    assert _date(0.0).startswith(("1970-01-01", "1969-12-31"))
