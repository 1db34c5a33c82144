"""The settings of the agent: what the model takes, and that nothing changes them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from ofu_exporter.cli.settings import flag_of, option_models
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


TESTS = Path(__file__).parent


def test_every_setting_is_read_and_is_set_by_a_test() -> None:
    """One that no test sets could be read under another's name."""
    code = "".join(each.read_text() for each in (TESTS.parent / "ofu_exporter").rglob("*.py"))
    tests = "".join(each.read_text() for each in TESTS.rglob("test_*.py"))
    models: list[type[BaseModel]] = [Settings, *option_models().values()]
    fields = {name: field for model in models for name, field in model.model_fields.items()}
    unread = [name for name in fields if not re.search(rf"[.\"]{name}\b", code)]
    unset = [
        name
        for name, field in fields.items()
        if not re.search(rf"\b{name}\b|{flag_of(name, field)}\b|OFU_{name.upper()}\b", tests)
    ]
    assert (unread, unset) == ([], []), "settings that nothing reads, and that no test sets"


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError):
        Settings().interval = 1.0  # type: ignore[misc]
