"""The collector of circular garbage rests within a block, and is afterwards as it was before."""

from __future__ import annotations

import gc

import pytest

from ofu_exporter.fleet.garbage import collector_paused


def test_it_rests_within_the_block_and_goes_on_after_it() -> None:
    assert gc.isenabled()
    with collector_paused():
        assert not gc.isenabled()
        with collector_paused():
            pass
        assert not gc.isenabled(), "an inner block leaves it as it was"
    assert gc.isenabled()


def test_it_goes_on_after_an_error() -> None:
    with pytest.raises(ValueError, match="seen"), collector_paused():
        raise ValueError("seen")
    assert gc.isenabled()
