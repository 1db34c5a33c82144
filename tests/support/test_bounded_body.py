"""How the body of an answer is read whole, and not for longer or larger than it may be."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ofu_exporter.support.bounded_body import TooLargeError, whole_body


def endless(taken: list[int]) -> Iterator[bytes]:
    while True:
        taken.append(1)
        yield b"x" * 10


def test_a_body_of_the_largest_size_is_read_whole() -> None:
    assert whole_body([b"ab", b"", b"cd"], 4, 10.0, lambda: 0.0) == b"abcd"


def test_a_body_that_never_ends_is_read_to_the_limit_and_no_further() -> None:
    taken: list[int] = []
    with pytest.raises(TooLargeError, match="larger than 25 bytes"):
        whole_body(endless(taken), 25, 10.0, lambda: 0.0)
    assert len(taken) == 3


def test_a_body_that_trickles_is_given_up_at_the_deadline() -> None:
    times, taken = iter([1.0, 3.0, 3.1]), list[int]()
    with pytest.raises(TimeoutError):
        whole_body(endless(taken), 1000, 3.0, lambda: next(times))
    assert len(taken) == 3
