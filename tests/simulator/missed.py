"""Goals that are not reached today, each with today's number.

Whoever reaches one takes it out. `python -m tests.simulator --missed` prints the lines anew.
"""

from __future__ import annotations

MISSED: dict[tuple[str, str, str], str] = {
    ("page 1 s / 5 s", "any load", "coverage"): "20.0% observed",
    ("page 1 s / 5 s", "any load", "twice"): "1.0 s twice",
    ("page 1 s / 5 s", "source gone for 10 s", "coverage"): "20.0% observed",
    ("page 1 s / 5 s", "source gone for 10 s", "twice"): "1.0 s twice",
    ("page 1 s / 5 s", "agent stopped for 20 s", "coverage"): "20.0% observed",
    ("page 1 s / 5 s", "agent stopped for 20 s", "twice"): "1.0 s twice",
    ("page 1 s / 5 s", "agent restarted", "coverage"): "20.0% observed",
    ("page 1 s / 5 s", "agent restarted", "twice"): "1.0 s twice",
    ("page 1 s / 5 s", "updates late", "coverage"): "20.0% observed",
    ("page 1 s / 5 s", "updates late", "twice"): "1.0 s twice",
    ("page 1 s / 5 s", "updates lost", "coverage"): "17.5% observed",
    ("page 1 s / 5 s", "updates lost", "twice"): "1.0 s twice",
    ("page 5 s / 5 s", "any load", "coverage"): "95.8% observed",
    ("page 5 s / 5 s", "any load", "twice"): "5.0 s twice",
    ("page 5 s / 5 s", "source gone for 10 s", "twice"): "5.0 s twice",
    ("page 5 s / 5 s", "agent stopped for 20 s", "twice"): "5.0 s twice",
    ("page 5 s / 5 s", "agent restarted", "twice"): "6.0 s twice",
    ("page 5 s / 5 s", "updates late", "twice"): "5.0 s twice",
    ("page 5 s / 5 s", "updates lost", "coverage"): "87.6% observed",
    ("page 5 s / 5 s", "updates lost", "twice"): "5.0 s twice",
    ("page 30 s / 5 s", "any load", "twice"): "30.0 s twice",
    ("page 30 s / 5 s", "source gone for 10 s", "twice"): "30.0 s twice",
    ("page 30 s / 5 s", "agent stopped for 20 s", "coverage"): "96.7% observed",
    ("page 30 s / 5 s", "agent stopped for 20 s", "twice"): "30.0 s twice",
    ("page 30 s / 5 s", "agent restarted", "twice"): "56.0 s twice",
    ("page 30 s / 5 s", "updates late", "coverage"): "97.4% observed",
    ("page 30 s / 5 s", "updates late", "twice"): "30.0 s twice",
    ("page 30 s / 5 s", "updates lost", "twice"): "30.0 s twice",
    ("page 1 s / 1 s", "any load", "coverage"): "81.8% observed",
    ("page 1 s / 1 s", "any load", "twice"): "1.0 s twice",
    ("page 5 s / 1 s", "any load", "twice"): "5.0 s twice",
    ("page 30 s / 1 s", "any load", "twice"): "30.0 s twice",
}
