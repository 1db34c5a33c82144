"""Defines what every way to send a digest has in common: what it says, and how it fails."""

from __future__ import annotations

from typing import Protocol

from ofu_exporter.errors import OfuError
from ofu_exporter.fleet.digest.result import Digest


class NotSentError(OfuError):
    """A digest that did not go out, or of which that is not known."""

    def __init__(self, text: str, *, is_uncertain: bool = False, is_down: bool = False) -> None:
        super().__init__(text)
        self.is_uncertain = is_uncertain
        """Whether it may have arrived all the same: the answer to the last byte never came."""
        self.is_down = is_down
        """Whether nothing else would go out either."""


class DigestSender(Protocol):
    """A way to send digests."""

    name: str

    def to(self, digest: Digest) -> str:
        """Whom it goes to. Raises NoAddressError."""

    def send(self, digest: Digest, to: str) -> None:
        """Send one. Raises NotSentError."""

    def close(self) -> None:
        """Let go of the connection."""
