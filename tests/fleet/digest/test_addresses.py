"""A name leads to one address, or to none: never to somebody else's."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.digest.addresses import AddressBook, NoAddressError
from ofu_exporter.fleet.digest.config_file import ADDRESS, SendConfig
from tests.helpers.digests import HOSTILE
from tests.helpers.every import every

BY_PATTERN = AddressBook(SendConfig(url="mailto://mx", to="{name}@example.org"))


def config(path: Path, text: str, **more: object) -> SendConfig:
    file = path / "addresses.yaml"
    file.write_text(text)
    return SendConfig.model_validate({"url": "mailto://mx", "addresses": file, **more})


@every(["ada", "Ada.Lovelace", "svc_7", "a+b"])
def test_a_plain_name_is_put_into_the_pattern(name: str) -> None:
    assert BY_PATTERN.of(name) == f"{name}@example.org"


@every(
    [
        *("", "eve@evil.example", "ada,eve", "ada eve", "<ada>", '"ada"', "-f", ".ada"),
        *(
            "ada\r\nBcc: x",
            "ada\x00",
            "ä",
            "x" * 300,
            HOSTILE,
            "{name}",
            "ada%eve",
            "../ada",
            "ada!eve",
        ),
    ],
)
def test_a_name_that_would_lead_elsewhere_has_no_address(name: str) -> None:
    with pytest.raises(NoAddressError, match="no address is made of"):
        BY_PATTERN.of(name)


@every(["ada.", "a..b"])
def test_a_name_that_makes_no_address_has_none(name: str) -> None:
    with pytest.raises(NoAddressError, match="does not make a valid address"):
        BY_PATTERN.of(name)


@given(st.text(st.characters(codec="utf-8")))
def test_every_address_that_a_pattern_gives_is_of_its_domain(name: str) -> None:
    try:
        made = BY_PATTERN.of(name)
    except NoAddressError:
        return
    assert ADDRESS.fullmatch(made)
    assert made == f"{name}@example.org"
    assert made.count("@") == 1


def test_the_file_goes_before_the_pattern_and_can_say_none(tmp_path: Path) -> None:
    text = "ada: lovelace@example.com\n'eve@x': eve@example.com\nbob:\n"
    book = AddressBook(config(tmp_path, text, to="gpu-{name}@example.org"))
    assert book.of("ada") == "lovelace@example.com"
    assert book.of("eve@x") == "eve@example.com"
    assert book.of("carol") == "gpu-carol@example.org"
    with pytest.raises(NoAddressError, match="has none") as raised:
        book.of("bob")
    assert raised.value.is_wish


def test_without_a_pattern_only_the_file_counts(tmp_path: Path) -> None:
    with pytest.raises(NoAddressError, match="not in the file"):
        AddressBook(config(tmp_path, "ada: a@example.com")).of("carol")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("on: a@example.org", "put it in quotes"),
        ("ada: '@nobody'", "'ada' has no address"),
        ('ada: "a@example.org\\nBcc: b@example.org"', "'ada' has no address"),
        ("ada: [a@example.org]", "'ada' has no address"),
        ("ada: a@example..org", "'ada' has no address"),
        ("- ada", "the top level"),
        ("ada: a@x.org\nada: b@x.org", "line 2: a key is there twice"),
    ],
)
def test_a_file_of_addresses_that_cannot_be_used_is_one_line(
    text: str, why: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as raised:
        AddressBook(config(tmp_path, text))
    assert why in str(raised.value)
