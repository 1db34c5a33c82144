"""When a run begins and ends, and what can go wrong half-way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.simulator.score import Span

SEED = 20
BEGIN = 47.1317
"""When the agent begins, in seconds of the load: its source runs already."""
SECONDS = 600.0
END = BEGIN + SECONDS + 0.2
"""The last window ends a little before."""
HALF_WAY = BEGIN + SECONDS / 2

GONE, STOPPED, REBORN, LATE, LOST = (
    "source gone for 10 s",
    "agent stopped for 20 s",
    "agent restarted",
    "updates late",
    "updates lost",
)
OUTAGE = Span(HALF_WAY, HALF_WAY + 10.0)
"""GONE: the source does not answer, and has forgotten what was before when it does."""
STOP = Span(HALF_WAY, HALF_WAY + 20.0)
"""STOPPED: the agent's process does not run (SIGSTOP)."""
HELD_UP = "agent held up for 3.5 s, twelve times"
STOPS: Mapping[str, Sequence[Span]] = {
    STOPPED: (STOP,),
    HELD_UP: [Span(at, at + 3.5) for at in (BEGIN + 31.3 + 47.9 * n for n in range(12))],
}
"""When the agent's process does not run. HELD_UP: by a slow disk or driver, or by the operating system."""
REBIRTH = Span(HALF_WAY + 3.0, HALF_WAY + 4.0)
"""REBORN: the agent ends, and another begins, without a state file."""


def outage(slack: float) -> Span:
    """The window that was open is lost, and so is what passes before the next can begin."""
    return Span(OUTAGE.start - slack, OUTAGE.end + 2 * slack)
