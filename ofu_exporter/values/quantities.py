"""Reads ratios and rates of FLOPs, and refuses values in a wrong unit: percent for a ratio, FLOP/s for TFLOP/s.

Every such number from outside is read here, so that the same slip gets the same error everywhere.
"""

from __future__ import annotations

import math
import re

RATIO = 1.5
"""From here on a plain number for MFU or OFU is more likely a percentage than a ratio."""
OVERHEAD = 1.0
"""The same for the tile overhead, which is a point or two."""
MOST = 10.0
"""The largest ratio that is accepted. A wrong peak or GPU count makes an MFU of several times 1, not more."""
MOST_EXPLAINED = 1e4
"""The same for an MFU that is to be explained: 10,000 GPUs, of which one is divided by."""
MOST_TFLOPS = 1e6
"""Largest accepted TFLOP/s of one GPU: a hundred times those of the fastest."""
LEAST_PEAK_TFLOPS = 1e-3
"""Least accepted peak of one GPU, far below that of the slowest in its slowest precision."""
_TIMES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9}
_NUMBER = re.compile(
    r"((?:\d{1,3}(?:[,_]\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?) ?([kKMGB]?)"
)
LEAST_FLOPS = 1e7
"""No GPU has a rate in FLOP/s below this; the number is more likely TFLOP/s."""


def parsed_ratio(stated: object, plain: float = RATIO, most: float = MOST) -> float:
    """A ratio from `0.41` or `41%`. Raises ValueError, whose text follows the name of the field.

    Plain numbers are below `plain`; what is more must say that it is a percentage. None is above `most`.
    """
    text = stated.strip() if isinstance(stated, str) else stated
    is_percent = isinstance(text, str) and text.endswith("%")
    value = _number(text[:-1] if isinstance(text, str) and is_percent else text, stated)
    if is_percent:
        value /= 100
    if value < 0:
        raise ValueError(f"{value!r} is not a number of 0 or more")
    if not is_percent and plain <= value <= 100 * MOST:
        above = f", or {value * 100:g}% if it is above 100 %" if value <= MOST else ""
        raise ValueError(f"{value:g} is out of range; write {value / 100:.6g} or {value:g}%{above}")
    if value > most:
        raise ValueError(f"{stated!r} cannot be: it is above {most:.0%}")
    return value


def positive_number(text: str) -> float:
    """A number above 0 from `12000`, `12,000`, `12_000`, `12k` or `1.2M`. Raises ValueError.

    A comma stands before three digits: `1,2` may be 1.2 or 12 and is refused.
    """
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a number; write 12000, 12,000 or 12k")
    value = float(match[1].replace(",", "").replace("_", "")) * _TIMES[match[2] or ""]
    if not 0 < value < math.inf:
        raise ValueError(f"{text!r} is not a number above 0")
    return value


def written(value: float, plain: float = RATIO) -> float | str:
    """A ratio in the form that `ratio` reads: a number below `plain`, a percentage from there on."""
    return value if value < plain else f"{value * 100!r}%"


def tflops(value: float) -> float:
    """TFLOP/s of one GPU. Raises ValueError for a rate in FLOP/s."""
    if value >= MOST_TFLOPS:
        raise ValueError(
            f"{value:g} TFLOP/s is more than any GPU has; if it is FLOP/s, give {value / 1e12:g}"
        )
    return value


def peak_tflops(value: float) -> float:
    """The peak of one GPU in TFLOP/s. Raises ValueError for one that no GPU has."""
    if value < LEAST_PEAK_TFLOPS:
        raise ValueError(f"{value:g} TFLOP/s is less than the peak of any GPU")
    return tflops(value)


def flops_per_second(value: float) -> float:
    """A rate in FLOP/s. Raises ValueError for a rate in TFLOP/s."""
    if 0 < value < LEAST_FLOPS:
        raise ValueError(
            f"{value:g} FLOP/s is less than any GPU has; if it is TFLOP/s, give {value * 1e12:g}"
        )
    return value


def _number(text: object, stated: object) -> float:
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise ValueError(f"{stated!r} is not a number")
    try:
        value = float(text)
    except (ValueError, OverflowError):
        raise ValueError(f"{stated!r} is not a number") from None
    if not math.isfinite(value):
        raise ValueError(f"{value!r} is not a finite number")
    return value
