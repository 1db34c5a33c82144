"""A report comes from a pod of its job where it comes from one of the pod's addresses."""

from __future__ import annotations

from ofu_exporter.reports.own_pod import why_not
from ofu_exporter.values.job import Job
from tests.helpers.every import every

JOB = Job("kubernetes", "default/trainer", addresses=("10.0.0.7", "2001:db8::7"))


@every(["10.0.0.7", "::ffff:10.0.0.7", "2001:DB8:0::7"])
def test_its_own_addresses_however_they_are_written(address: str) -> None:
    assert why_not(address, JOB) == ""


@every(["10.0.0.8", "127.0.0.1", "", "trainer", "10.0.0.7 "])
def test_no_other(address: str) -> None:
    assert "is no address of a pod of job default/trainer" in why_not(address, JOB)


def test_nobody_where_the_addresses_are_not_known() -> None:
    assert "are not known" in why_not("10.0.0.7", Job("kubernetes", "default/trainer"))
