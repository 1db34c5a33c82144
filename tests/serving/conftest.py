"""What tests of connections share: both ways in which a request is read."""

from __future__ import annotations

import pytest

from ofu_exporter.serving import exchange


@pytest.fixture(params=["plain", "h11"])
def each_reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Plain requests are read the short way, or by h11 like all others."""
    reader: str = request.param
    if reader == "h11":
        monkeypatch.setattr(exchange, "plain_head", lambda _: None)
    return reader
