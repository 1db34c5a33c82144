"""Goals that are not reached today, each with today's number.

Whoever reaches one takes it out. `python -m tests.simulator --missed` prints the lines anew.
"""

from __future__ import annotations

MISSED: dict[tuple[str, str, str], str] = {
    ("page 5 s / 5 s", "updates lost", "coverage"): "99.00% observed"
}
