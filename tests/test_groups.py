"""Tests that share what is slow to start are run by one worker; a pytest that xdist does not know scatters them."""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("together")
def test_the_tests_of_a_group_are_run_by_one_worker(request: pytest.FixtureRequest) -> None:
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("not run with --dist loadgroup")
    assert request.node.nodeid.endswith("@together"), "xdist tells groups by this"
