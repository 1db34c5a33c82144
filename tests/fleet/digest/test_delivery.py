"""Digests are delivered each for itself: a failure costs no other, and nothing goes out twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ofu_exporter.fleet.digest.addresses import NoAddressError
from ofu_exporter.fleet.digest.delivery import DigestFate, delivered, planned
from ofu_exporter.fleet.digest.result import Digest
from ofu_exporter.fleet.digest.sending import NotSentError
from ofu_exporter.fleet.digest.sent_file import SentFile
from tests.helpers.digests import many

NAMES = ("ada", "bob", "eve")
REFUSED = NotSentError("refused: 550")
UNSURE = NotSentError("cut off", is_uncertain=True)
DOWN = NotSentError("Connection refused", is_down=True)


class TellingSender:
    """A way to send that fails as it is told; what failed is a matter of real servers in the other tests."""

    name = "mail"

    def __init__(self, **faults: NotSentError) -> None:
        self.faults = faults
        self.sent: list[str] = []
        self.tried: list[str] = []

    def to(self, digest: Digest) -> str:
        if digest.name in ("nobody", "leave-me"):
            raise NoAddressError("has no address", is_wish=digest.name == "leave-me")
        return f"{digest.name}@example.org"

    def send(self, digest: Digest, to: str) -> None:
        self.tried.append(digest.name)
        if digest.name in self.faults:
            raise self.faults[digest.name]
        self.sent.append(to)

    def close(self) -> None:
        """Nothing is open."""


def deliver(path: Path, by: TellingSender, names: Sequence[str] = NAMES) -> dict[str, DigestFate]:
    notes = SentFile(path, 1e9, 1000.0)
    try:
        return {each.digest.name: each for each in delivered(many(*names), [by], notes)}
    finally:
        notes.close()


def fates(found: dict[str, DigestFate]) -> dict[str, str]:
    return {name: each.fate for name, each in found.items()}


def test_a_plan_sends_nothing_and_names_who_has_no_address() -> None:
    by = TellingSender()
    found = {each.digest.name: each for each in planned(many("ada", "nobody"), [by])}
    assert fates(found) == {"ada": "would be sent", "nobody": "not sent"}
    assert found["nobody"].why == "has no address"
    assert by.tried == []


def test_who_wants_none_gets_none_and_is_no_fault(tmp_path: Path) -> None:
    by = TellingSender()
    found = deliver(tmp_path / "sent", by, ("ada", "leave-me", "nobody"))
    assert fates(found) == {"ada": "sent", "leave-me": "not wanted", "nobody": "not sent"}
    assert [found[name].is_fault for name in ("ada", "leave-me", "nobody")] == [False, False, True]


@pytest.mark.parametrize("error", [REFUSED, UNSURE, DOWN])
def test_one_that_fails_costs_no_other_and_says_why(error: NotSentError, tmp_path: Path) -> None:
    by = TellingSender(bob=error)
    found = deliver(tmp_path / "sent", by)
    assert by.sent == ["ada@example.org", "eve@example.org"]
    assert found["bob"].is_fault
    assert str(error) in found["bob"].why
    assert (found["bob"].fate == "not known") == error.is_uncertain


def test_a_run_that_is_repeated_sends_what_failed_and_nothing_else(tmp_path: Path) -> None:
    deliver(tmp_path / "sent", TellingSender(bob=REFUSED))
    again = TellingSender()
    assert fates(deliver(tmp_path / "sent", again)) == {
        "ada": "sent before",
        "bob": "sent",
        "eve": "sent before",
    }
    assert again.tried == ["bob"]
    last = TellingSender()
    deliver(tmp_path / "sent", last)
    assert last.tried == []


def test_what_may_have_arrived_is_not_sent_again_and_stays_named(tmp_path: Path) -> None:
    deliver(tmp_path / "sent", TellingSender(bob=UNSURE))
    again = TellingSender()
    found = deliver(tmp_path / "sent", again)
    assert again.tried == []
    assert found["bob"].fate == "not known"
    assert found["bob"].is_fault


def test_a_program_that_dies_while_it_sends_does_not_send_it_again(tmp_path: Path) -> None:
    class Dies(TellingSender):
        def send(self, digest: Digest, to: str) -> None:
            if digest.name == "bob":
                raise KeyboardInterrupt
            super().send(digest, to)

    with pytest.raises(KeyboardInterrupt):
        deliver(tmp_path / "sent", Dies())
    again = TellingSender()
    found = deliver(tmp_path / "sent", again)
    assert again.tried == ["eve"]
    assert fates(found) == {"ada": "sent before", "bob": "not known", "eve": "sent"}


def test_a_server_that_is_away_is_not_asked_for_everybody(tmp_path: Path) -> None:
    by = TellingSender(a=DOWN, b=DOWN)
    found = deliver(tmp_path / "sent", by, ("a", "b", "c", "d"))
    assert by.tried == ["a", "b"]
    assert found["d"].why == "not tried: Connection refused"
    assert all(each.is_fault for each in found.values())
    again = TellingSender()
    deliver(tmp_path / "sent", again, ("a", "b", "c", "d"))
    assert again.tried == ["a", "b", "c", "d"]
