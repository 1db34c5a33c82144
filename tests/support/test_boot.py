"""Which boot this is."""

from __future__ import annotations

from ofu_exporter.support.boot import boot_id


def test_it_is_the_same_as_long_as_the_node_runs() -> None:
    assert boot_id() == boot_id() != ""
