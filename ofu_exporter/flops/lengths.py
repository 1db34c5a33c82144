"""Keeps the lengths of the sequences of one step, and computes how many tokens and pairs of tokens they make.

The cost of a step depends on them only through T, the sum of the lengths, for everything that is done per token, and Q,
the sum of their squares, for attention: a mean or longest length is not enough for a batch of unequal ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.terms import TOKENS, Exact, Extent, Per, total, whole

ONE_STREAM = "lengths: moments describe one stream only; give the lengths of each stream"
SampleLengths = tuple[tuple[str, int], ...]
"""The length of each stream of one sample, sorted by stream."""


@dataclass(frozen=True, slots=True)
class Moments:
    """The sums over a stream whose single lengths are not known."""

    sequences: int
    tokens: Exact
    squares: Exact


@dataclass(frozen=True, slots=True)
class Lengths:
    """The samples of one optimizer step over all GPUs, without padding.

    A sample has a length per stream. Sequences that never attend to each other may be separate samples, so a batch of
    texts and the images in them is `fixed(512, tokens=4096) + fixed(1024, image=1024)`.
    """

    samples: tuple[tuple[SampleLengths, int], ...] = ()
    """Each different sample and how many there are of it."""
    moments: Moments | None = None
    """Used instead of the samples, for a single stream."""

    def of(self, extent: Extent) -> Exact:
        """How many units of an extent the step has. Raises ConfigError for what two moments do not determine."""
        if self.moments is not None:
            return _of_moments(self.moments, extent)
        return total(_units(dict(sample), extent) * number for sample, number in self.samples)

    def tokens(self, stream: str = TOKENS) -> Exact:
        """T of a stream: the sum of its lengths."""
        return self.of(Extent(Per.TOKEN, stream))

    def __add__(self, other: Lengths) -> Lengths:
        """The samples of both. Raises ConfigError where only moments are known."""
        if self.moments is not None or other.moments is not None:
            raise ConfigError(ONE_STREAM)
        counts = Counter(dict(self.samples))
        counts.update(dict(other.samples))
        return Lengths(tuple(sorted(counts.items())))

    def sequences(self, stream: str = TOKENS) -> int:
        """Samples in the step that have tokens of a stream."""
        return int(self.of(Extent(Per.SEQUENCE, stream)))

    @property
    def streams(self) -> frozenset[str]:
        """The streams that lengths were given for."""
        if self.moments is not None:
            return frozenset({TOKENS})
        return frozenset(stream for sample, _ in self.samples for stream, _ in sample)

    def longest(self, stream: str = TOKENS) -> int:
        """The longest length of a stream. If only moments are known, the mean, which is a lower bound of it."""
        if self.moments is not None:
            return int(Fraction(self.moments.tokens) / self.moments.sequences)
        return max((dict(sample).get(stream, 0) for sample, _ in self.samples), default=0)

    def with_fixed(self, lengths: Mapping[str, int]) -> Lengths:
        """The samples with the streams whose length the model fixes. Raises ConfigError where one was given too."""
        if not lengths:
            return self
        if both := sorted(self.streams & lengths.keys()):
            fixed_lengths = ", ".join(f"{stream}={lengths[stream]}" for stream in both)
            raise ConfigError(f"lengths: the configuration itself fixes {fixed_lengths}")
        return Lengths(
            tuple((_sample({**dict(sample), **lengths}), number) for sample, number in self.samples)
        )


def fixed(batch_size: int, **streams: int) -> Lengths:
    """A batch of samples of one length per stream: `fixed(512, tokens=4096)`; a stream may be empty."""
    check_positive("batch_size", batch_size)
    return Lengths(((_sample(streams), batch_size),))


def packed(lengths: Iterable[int], stream: str = TOKENS) -> Lengths:
    """Sequences of any lengths, at least one, packed or not: attention stays inside each of them."""
    counts = Counter(lengths)
    if not counts:
        raise ConfigError("lengths: at least one sequence is needed")
    for length in counts:
        check_positive("lengths", length)
    return Lengths(tuple((_sample({stream: length}), n) for length, n in sorted(counts.items())))


def from_moments(sequences: int, mean: Exact | float, mean_square: Exact | float) -> Lengths:
    """Sequences known by the first and second moment of their lengths (E[L], E[L^2]).

    Raises ConfigError for moments that no lengths have: E[L^2] is never below E[L]^2.
    """
    check_positive("sequences", sequences)
    first, second = Fraction(mean), Fraction(mean_square)
    if first < 1:
        raise ConfigError(f"mean: {mean} is below 1")
    if second < first * first:
        raise ConfigError(f"mean_square: {mean_square} is below the square of the mean {mean}")
    return Lengths(moments=Moments(sequences, whole(first * sequences), whole(second * sequences)))


def _sample(streams: Mapping[str, int]) -> SampleLengths:
    for stream, length in streams.items():
        if isinstance(length, bool) or not isinstance(length, int) or length < 0:
            raise ConfigError(f"lengths: {stream}: {length!r} is not a number of tokens")
    return tuple(sorted(streams.items()))


def check_positive(name: str, value: object) -> None:
    """Raise ConfigError unless a value is a whole number above 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name}: {value!r} is not a whole number above 0")


def _units(sample: Mapping[str, int], extent: Extent) -> Exact:
    length, other = sample.get(extent.stream, 0), sample.get(extent.other, 0)
    if extent.per is Per.TOKEN:
        return length if extent.merged == 1 else whole(Fraction(length, extent.merged))
    if extent.per is Per.SEQUENCE:
        return int(length > 0)
    if extent.per is Per.PAIR and extent.most is not None:
        seen = length * min(length, extent.most)
        return Fraction(seen, 2) if extent.causal else seen
    if extent.per is Per.PAIR:
        chunk = extent.chunk or max(length, 1)
        chunks, rest = divmod(length, chunk)
        within = chunks * pairs(chunk, extent.causal, extent.window)
        number = within + pairs(rest, extent.causal, extent.window)
        return whole(Fraction(number) / extent.merged)
    pairs_of_both = length * other if extent.per is Per.CROSS else (length + other) ** 2
    return whole(Fraction(pairs_of_both, extent.merged))


def pairs(length: int, causal: bool, window: int | None = None) -> Exact:
    """Pairs of query and key in one sequence of L tokens.

    Full: L^2. Causal: L^2/2, the field's convention (Megatron-LM `num_floating_point_operations`), which
    leaves out the half diagonal. Causal with a window of W <= L: W L - W(W-1)/2, a triangle and then a band
    (Megatron-Bridge `flop_utils.py`). In both directions with a window of W = 2s+1: W L - s(s+1).
    """
    if not causal:
        side = length if window is None else (window - 1) // 2
        if side + 1 >= length:
            return length * length
        return length * (2 * side + 1) - side * (side + 1)
    half = Fraction(length * length, 2)
    if window is None or window >= length:
        return half
    return min(half, Fraction(window * (2 * length - window + 1), 2))


def _of_moments(moments: Moments, extent: Extent) -> Exact:
    if extent.stream != TOKENS or extent.other:
        raise ConfigError(ONE_STREAM)
    if extent.per is Per.TOKEN:
        return moments.tokens
    if extent.per is Per.SEQUENCE:
        return moments.sequences
    if any(limit is not None for limit in (extent.window, extent.chunk, extent.most)):
        cores = "attention in a sliding window or chunks"
        raise ConfigError(f"lengths: {cores} is not determined by two moments; give the lengths")
    return whole(Fraction(moments.squares) / 2) if extent.causal else moments.squares
