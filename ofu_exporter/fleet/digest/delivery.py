"""Sends digests. One that fails does not affect the others, and is named with its reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from ofu_exporter.fleet.digest.addresses import NoAddressError
from ofu_exporter.fleet.digest.result import Digest
from ofu_exporter.fleet.digest.sending import DigestSender, NotSentError
from ofu_exporter.fleet.digest.sent_file import SentFile, SentKey

Fate = Literal["would be sent", "sent", "sent before", "not wanted", "not sent", "not known"]
UNSURE = "whether it arrived is not known, so it is not sent again"
AWAY_AFTER = 2
"""After this number of failures in a row that any digest would have had, the rest is not tried."""


class DigestFate(NamedTuple):
    """The result of sending one digest."""

    digest: Digest
    via: str
    to: str
    """Empty if nobody gets it."""
    fate: Fate
    why: str = ""

    @property
    def is_fault(self) -> bool:
        return self.fate in ("not sent", "not known")


def planned(digests: Sequence[Digest], senders: Iterable[DigestSender]) -> Iterator[DigestFate]:
    """What would be sent to whom."""
    for sender in senders:
        for digest in digests:
            try:
                yield DigestFate(digest, sender.name, sender.to(digest), "would be sent")
            except NoAddressError as error:
                fate: Fate = "not wanted" if error.is_wish else "not sent"
                yield DigestFate(digest, sender.name, "", fate, str(error))


def delivered(
    digests: Sequence[Digest], senders: Iterable[DigestSender], notes: SentFile
) -> Iterator[DigestFate]:
    """Send what was not sent before; returns the result for each."""
    for sender in senders:
        away = _Away()
        for plan in planned(digests, [sender]):
            yield _sent(plan, sender, notes, away) if plan.to else plan


class _Away:
    """Whether a way to send is closed for all digests."""

    def __init__(self) -> None:
        self._in_a_row = 0
        self._why = ""

    @property
    def why(self) -> str:
        """Why nothing more is tried; empty while sending is tried."""
        return f"not tried: {self._why}" if self._in_a_row >= AWAY_AFTER else ""

    def note(self, error: NotSentError | None) -> None:
        is_down = error is not None and error.is_down
        self._in_a_row = self._in_a_row + 1 if is_down else 0
        self._why = str(error)


def _sent(plan: DigestFate, sender: DigestSender, notes: SentFile, away: _Away) -> DigestFate:
    digest = plan.digest
    key = SentKey(digest.by, plan.via, digest.name, plan.to)
    state = notes.state(key)
    if state == "sent":
        return plan._replace(fate="sent before")
    if state == "begun":
        return plan._replace(fate="not known", why=f"an earlier run was interrupted: {UNSURE}")
    if away.why:
        return plan._replace(fate="not sent", why=away.why)
    notes.note(key, "begun")
    try:
        sender.send(digest, plan.to)
    except NotSentError as error:
        away.note(error)
        if error.is_uncertain:
            return plan._replace(fate="not known", why=f"{error}: {UNSURE}")
        notes.note(key, "refused")
        return plan._replace(fate="not sent", why=str(error))
    away.note(None)
    notes.note(key, "sent")
    return plan._replace(fate="sent")
