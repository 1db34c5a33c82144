"""Defines the interface of every way to send a digest, and its error."""

from __future__ import annotations

from typing import Protocol

from ofu_exporter.errors import OfuError
from ofu_exporter.fleet.digest.result import Digest


class NotSentError(OfuError):
    """A digest was not sent, or it is not known whether it was."""

    def __init__(self, text: str, *, is_uncertain: bool = False, is_down: bool = False) -> None:
        super().__init__(text)
        self.is_uncertain = is_uncertain
        """Whether it may have arrived anyway, because the final answer never came."""
        self.is_down = is_down
        """Whether no other digest could be sent either."""


class DigestSender(Protocol):
    """A way to send digests."""

    name: str

    def to(self, digest: Digest) -> str:
        """The address that a digest goes to. Raises NoAddressError."""

    def send(self, digest: Digest, to: str) -> None:
        """Send one. Raises NotSentError."""

    def close(self) -> None:
        """Let go of the connection."""
