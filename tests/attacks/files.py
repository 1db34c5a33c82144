"""Attacks by files: the configuration at a reload, the state file, a recording."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from ofu_exporter.jobs.state_file import StateFile
from ofu_exporter.support.boot import boot_id
from tests.attacks.attack import Attack
from tests.attacks.target import GPUS, PACE, SIMULATED, Setup, Target, target
from tests.doubles.slow_disk import slow_disk
from tests.helpers.agent import until

RELOAD_SECONDS = 0.5
HANG_SECONDS = 3600
CONFIG = "source: simulate\nscheduler: simulate\ninterval: 0.5s\nclock_interval: 0.25s\n"
Change = Callable[[Path], None]


def with_config(folder: Path, stack: ExitStack) -> Setup:
    """An agent whose source stands in its configuration file."""
    (folder / "agent.yaml").write_text(CONFIG)
    return Setup(["--config", str(folder / "agent.yaml")])


async def reload_with(target: Target, change: Change) -> None:
    """The file is replaced as a whole, and read anew again and again."""
    fresh = target.folder / "fresh"
    change(fresh)
    fresh.replace(target.folder / "agent.yaml")
    while True:
        target.hang_up()
        await asyncio.sleep(RELOAD_SECONDS)


async def reload_fifo(target: Target) -> None:
    await reload_with(target, os.mkfifo)


async def reload_zeros(target: Target) -> None:
    await reload_with(target, lambda fresh: fresh.symlink_to("/dev/zero"))


async def reload_empty(target: Target) -> None:
    await reload_with(target, Path.touch)


def grow(fresh: Path) -> None:
    """Nine levels of aliases, a billion values if anybody follows all of them."""
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    fresh.write_text("\n".join([*lines, "source: *a8"]))


async def reload_aliases(target: Target) -> None:
    await reload_with(target, grow)


def nest(fresh: Path) -> None:
    fresh.write_text("[" * 100_000)


async def reload_deep(target: Target) -> None:
    await reload_with(target, nest)


async def reload_often(target: Target) -> None:
    while True:
        target.hang_up()
        await asyncio.sleep(0.01)


def on_slow_disk(folder: Path, stack: ExitStack) -> Setup:
    setup = with_config(folder, stack)
    setup.env = slow_disk(folder / "agent.yaml", HANG_SECONDS, when=folder / "hung")
    return setup


async def hang_disk(target: Target) -> None:
    (target.folder / "hung").touch()
    while True:
        target.hang_up()
        await asyncio.sleep(RELOAD_SECONDS)


def with_marks(mark: Callable[[], object]) -> Callable[[Path, ExitStack], Setup]:
    """An agent with a state file in which something has set every time to this."""

    def setup(folder: Path, stack: ExitStack) -> Setup:
        path = folder / "state.sqlite"
        StateFile(path).close()
        database = sqlite3.connect(path)
        with database:
            rows = [(f"SIMULATED-1-{gpu}", "", boot_id(), mark()) for gpu in range(GPUS)]
            database.executemany("INSERT INTO gpus VALUES (?, ?, ?, ?)", rows)
            database.execute("INSERT INTO watched VALUES (0, ?)", (mark(),))
        database.close()
        return Setup([*SIMULATED, "--state-file", str(path), "--state-interval", "0.5s"])

    return setup


def on_one_state_file(folder: Path, stack: ExitStack) -> Setup:
    """An agent on the state file that another one writes."""
    args = [*SIMULATED, "--state-file", str(folder / "state.sqlite"), "--state-interval", "0.2s"]
    (folder / "first").mkdir()
    first = stack.enter_context(target(Setup(args), folder / "first"))
    until(lambda: states_written(first.get().body) > 0)
    return Setup(args)


def states_written(page: str) -> float:
    found = re.search(
        r'^ofu_exporter_state_writes_total\{outcome="written"\} (\S+)$', page, re.MULTILINE
    )
    return float(found[1]) if found else 0.0


async def watch_writes(target: Target) -> None:
    while True:
        page = await asyncio.to_thread(target.get)
        if states_written(page.body) > 0:
            target.let_in["a write of another agent's state file"] += 1
        await asyncio.sleep(0.2)


def with_recording(folder: Path, stack: ExitStack) -> Setup:
    """An agent that replays a recording in which one GPU has a driver that is no text."""
    lines: list[dict[str, object]] = [
        {
            "format": "ofu-recording",
            "version": 1,
            "source": "nvml",
            "simulated": False,
            "created": "",
        }
    ]
    lines += [{"gpu": gpu_of(number), "n": number} for number in range(GPUS)]
    lines += [
        {"n": gpu, "start": at / 2, "end": (at + 1) / 2, "tensor": 0.5, "clocks": [[at / 2, 1.4e9]]}
        for at in range(2 * 300)
        for gpu in range(GPUS)
    ]
    path = folder / "recording.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return Setup(["--source", "replay", "--path", str(path), "--scheduler", "none", *PACE])


def gpu_of(number: int) -> dict[str, object]:
    return {
        "index": str(number),
        "uuid": f"GPU-{number}",
        "name": "NVIDIA H100 80GB HBM3",
        "driver": "\ud800" if number == 0 else "550.54",
        "sm_count": 132,
    }


async def look(target: Target) -> None:
    """Ask for everything that shows the GPUs."""
    while True:
        for path in ("/v1/gpus", "/", "/v1/jobs"):
            target.statuses[(await asyncio.to_thread(target.get, path)).status] += 1
        await asyncio.sleep(0.2)


REGULAR = "regular files of at most 1 MiB are read, and not on the event loop"
MARKS = "marks that are no numbers, lie ahead or are of no known boot are dropped"
ATTACKS = (
    Attack("configuration: FIFO", "a reload of a FIFO", REGULAR, reload_fifo, with_config),
    Attack("configuration: zeros", "a reload of /dev/zero", REGULAR, reload_zeros, with_config),
    Attack(
        "configuration: empty",
        "a reload of a file that is half written",
        "empty is refused where it was not before",
        reload_empty,
        with_config,
    ),
    Attack(
        "configuration: aliases",
        "a reload of YAML that stands for a billion values",
        "what cannot be used is refused, and cut in the log",
        reload_aliases,
        with_config,
    ),
    Attack(
        "configuration: deep",
        "a reload of YAML of 100,000 levels",
        "what cannot be used is refused",
        reload_deep,
        with_config,
    ),
    Attack(
        "configuration: hung disk",
        "`stat` and `open` of the file do not return",
        REGULAR,
        hang_disk,
        on_slow_disk,
    ),
    Attack(
        "reloads without end",
        "100 SIGHUP a second",
        "one reload at a time, and one a second",
        reload_often,
        with_config,
    ),
    Attack(
        "state: no marks", "every time in the file is NULL", MARKS, setup=with_marks(lambda: None)
    ),
    Attack(
        "state: words", "every time in the file is a word", MARKS, setup=with_marks(lambda: "soon")
    ),
    Attack(
        "state: ahead",
        "every time in the file is a year ahead",
        MARKS,
        setup=with_marks(lambda: time.time() + 365 * 86400),
    ),
    Attack(
        "state: two agents",
        "an agent on the state file that another one writes",
        "a lock beside the file: the second measures, and writes nothing",
        watch_writes,
        on_one_state_file,
    ),
    Attack(
        "recording: lone surrogate",
        "half a surrogate pair as the driver of a GPU",
        "text that can't be told costs one series",
        look,
        with_recording,
    ),
)
