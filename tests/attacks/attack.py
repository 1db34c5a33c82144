"""What an attack is: an agent that is set up for it, and what is done to that agent from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.attacks.target import Setup, Target


def plain(folder: Path, stack: ExitStack) -> Setup:
    """An agent as it is, over HTTP."""
    return Setup()


async def nothing(target: Target) -> None:
    """The attack is in what the agent is set up with."""
    await asyncio.Event().wait()


@dataclass(frozen=True, slots=True)
class Attack:
    """One way to harm an agent."""

    name: str
    what: str
    """What is done, in words."""
    limit: str
    """What stands against it."""
    run: Callable[[Target], Awaitable[None]] = nothing
    """Goes on until it is cancelled."""
    setup: Callable[[Path, ExitStack], Setup] = plain
    """Makes files in the folder; what must end after the agent goes onto the stack."""
