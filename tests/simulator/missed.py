"""Goals that are not reached today, each with today's number.

Whoever reaches one takes it out. `python -m tests.simulator --missed` prints the lines anew.
"""

from __future__ import annotations

MISSED: dict[tuple[str, str, str], str] = {
    # Five refreshes of the clock are one period.
    ("nvml", "square, 0.5 s", "inside"): "92% of the windows",
    # Windows with a little work at an end, and the stated error of a little work.
    ("dcgm, cycles, shared", "work and sleep", "inside"): "89% of the windows",
    ("page 5 s / 5 s", "updates lost", "coverage"): "99.00% observed",
}
