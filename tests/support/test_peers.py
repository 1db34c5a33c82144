"""Whether an address is this machine's own loopback."""

from __future__ import annotations

import pytest

from ofu_exporter.support.peers import is_loopback


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1", "::1%lo"])
def test_a_loopback_address_is_told_in_each_of_its_forms(address: str) -> None:
    assert is_loopback(address)


@pytest.mark.parametrize(
    "address",
    ["", "localhost", "10.0.0.1", "::", "::ffff:10.0.0.1", "128.0.0.1", "127.0.0.1.example"],
)
def test_no_other_address_and_no_name_is_one(address: str) -> None:
    assert not is_loopback(address)
