"""Finds the address of a user or account: in the site's own file, or by its pattern."""

from __future__ import annotations

import re
from pathlib import Path

from ofu_exporter.errors import ConfigError, OfuError
from ofu_exporter.fleet.digest.config_file import ADDRESS, NAME, SendConfig
from ofu_exporter.support.checked_yaml import load
from ofu_exporter.support.small_files import read_small

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,63}")
"""A name that may be put into an address. Names are labels, and somebody may have chosen one to look like an
address."""


class NoAddressError(OfuError):
    """The digest for this name would go nowhere, or to somebody else."""

    def __init__(self, text: str, *, is_wish: bool = False) -> None:
        super().__init__(text)
        self.is_wish = is_wish
        """Whether the site wants no digest for this name."""


class AddressBook:
    """The addresses of a site: its pattern, and its file."""

    def __init__(self, config: SendConfig) -> None:
        """Raises ConfigError for a file that cannot be used."""
        self._pattern = config.to
        self._listed = {} if config.addresses is None else _read(config.addresses)

    def of(self, name: str) -> str:
        """The address of a name. Raises NoAddressError."""
        if name in self._listed:
            if address := self._listed[name]:
                return address
            raise NoAddressError("the file of addresses has none", is_wish=True)
        if self._pattern is None:
            raise NoAddressError("is not in the file of addresses")
        if not _PLAIN.fullmatch(name):
            raise NoAddressError(
                "has characters that no address is made of: give its address in `addresses`"
            )
        address = self._pattern.replace(NAME, name)
        if not ADDRESS.fullmatch(address):
            raise NoAddressError(f"does not make a valid address: {address}")
        return address


def _read(path: Path) -> dict[str, str | None]:
    text = read_small(path, "addresses", most_bytes=16 << 20)
    try:
        loaded = load(text)
    except ValueError as error:
        raise ConfigError(f"addresses {path}: {error}") from error
    if not isinstance(loaded, dict):
        raise ConfigError(f"addresses {path}: the top level must be `name: address` lines")
    for name, address in loaded.items():
        if not isinstance(name, str):
            raise ConfigError(f"addresses {path}: {name!r} is not text: put it in quotes")
        if address is not None and not (isinstance(address, str) and ADDRESS.fullmatch(address)):
            raise ConfigError(f"addresses {path}: {name!r} has no address such as a@example.org")
    return loaded
