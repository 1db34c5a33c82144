"""The settings of the agent: what the model takes, and that nothing changes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ofu_exporter.settings import Settings, host_and_port


@given(st.floats(0.1, 30.0).map(lambda value: round(value, 3)))
def test_every_interval_in_range_is_taken(value: float) -> None:
    assert Settings.model_validate({"interval": f"{value:.3f}s"}).interval == pytest.approx(value)


@pytest.mark.parametrize(
    ("listen", "host", "port"),
    [
        ("127.0.0.1:9846", "127.0.0.1", 9846),
        ("localhost:0", "localhost", 0),
        (":9846", "0.0.0.0", 9846),
        ("[::1]:9846", "::1", 9846),
        ("[::]:65535", "::", 65535),
    ],
)
def test_forms_of_an_address(listen: str, host: str, port: int) -> None:
    assert host_and_port(listen) == (host, port)
    assert Settings(listen=listen).listen == listen


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError):
        Settings().interval = 1.0  # type: ignore[misc]
