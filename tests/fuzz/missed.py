"""Inputs of the corpus that still do harm, each with what happens. Whoever mends one takes it out."""

from __future__ import annotations

MISSED: dict[str, str] = {
    "report/2398eb1485e5": "half a surrogate pair as an architecture: 500",
    "report/d10c4e0c1ed7": "half a surrogate pair as a field of a configuration: 500",
    "report/fcfaf8c806d6": "half a surrogate pair as an architecture: 500",
    "recording/565eb33f8250": "half a surrogate pair as a GPU's name: no page",
    "recording/a26eeed28b2e": "half a surrogate pair as a GPU's index: no page",
    "state/bea9f71896c2": "a mark that is NULL: no window is counted",
    "state/d6516dea6ecc": "a mark that is a word: no window is counted",
    "state/dd7e71ba6bc6": "a time of the last look that is a word: the agent does not start",
}
