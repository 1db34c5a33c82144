"""What the first hour on a card left open, as one program of steps with a time limit each.

    python -m tests.hardware.second_hour FOLDER [--seconds 570] [--engine FILE] [--stand-in] [STEP ...]

FOLDER gets second-hour.json, the answer of each step or why it has none, and raw.tar.gz, all that they wrote; both are
written anew after each step, so that a machine that is taken away loses one step. What no longer fits is said. Nothing
of the card is set. `--stand-in` tries it in small without a GPU. tests/hardware/README.md says what to take along.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.doubles import dcgm, native, nvml

LEAST_SECONDS = 8.0
"""No step is begun with less."""
LONGEST_LINE, LONGEST_ANSWER = 500, 4000
ENDING_SECONDS = 2.0
CARD = nvml.SOURCE.with_name("nvml_of_card.c")


@dataclass(frozen=True)
class Step:
    """A module of tests/hardware; of its arguments OUT is its file NAME.json, FOLDER the folder of it."""

    name: str
    command: str
    seconds: float
    small: str = ""
    """The command without a GPU, where it is another."""


STEPS = (
    Step("facts", "first_contact FOLDER facts", 20.0),
    Step("gpm-times", "gpm_times OUT", 20.0),
    Step("true-clock", "true_clock RAW 3.4 12", 230.0, "true_clock RAW 2 2 stand-in"),
    Step("clock-error", "clock_error true-clock.jsonl OUT", 20.0),
    Step("traced", "traced OUT 50", 90.0, "traced OUT 30 cpu"),
    Step("honest", "honest OUT 190", 200.0, "honest OUT 60 cpu"),
    Step("memory", "agent_memory OUT 20", 50.0, "agent_memory OUT 0.5"),
    Step("agent-cost", "first_contact FOLDER agent-cost", 90.0),
    Step("law", "first_contact FOLDER law", 130.0),
    Step("both-sources", "both_sources OUT", 240.0, "both_sources OUT 0.4"),
)


@dataclass
class Hour:
    """The steps that ran, and where what they wrote is."""

    folder: Path
    scratch: Path
    environ: Mapping[str, str]
    small: bool = False
    steps: dict[str, dict[str, Any]] = field(default_factory=dict)

    def take(self, step: Step, left: float) -> None:
        """Run a step in the time that is left, and save."""
        limit = min(step.seconds, left)
        if limit < LEAST_SECONDS:
            self.steps[step.name] = {"outcome": f"did not fit: {max(0.0, left):.0f} s were left"}
        else:
            began = time.monotonic()
            try:
                outcome = self._outcome(step, limit)
            except OSError as error:
                outcome = f"could not be begun: {error}"
            took = {"took_seconds": round(time.monotonic() - began, 1), "limit_seconds": limit}
            answer = self._answer(step) or {}
            outcome = answer.get("failed", outcome)[:LONGEST_LINE]
            self.steps[step.name] = {"outcome": outcome, **took, "answer": answer}
        print(f"{step.name}: {self.steps[step.name]['outcome']}", flush=True)
        try:
            self.save()
        except OSError as error:  # a full disk, say: what was saved before is still whole
            told = json.dumps(self.steps[step.name])[:LONGEST_ANSWER]
            print(f"could not be saved: {error}: {told}", flush=True)

    def _outcome(self, step: Step, limit: float) -> str:
        module, *args = (step.small if self.small and step.small else step.command).split()
        places = {"OUT": f"{step.name}.json", "RAW": f"{step.name}.jsonl", "FOLDER": "."}
        args = [places.get(word, word) for word in args]
        with (self.scratch / f"{step.name}.log").open("w+") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", f"tests.hardware.{module}", *args],
                cwd=self.scratch,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                return f"stopped after {limit:.0f} s: what it had written until then is kept"
            finally:
                _end(process)
            log.seek(0)
            lines = log.read().splitlines() or [""]
        return "done" if code == 0 else f"ended with code {code}: {lines[-1][:LONGEST_LINE]}"

    def _answer(self, step: Step) -> Any:
        try:
            return json.loads((self.scratch / f"{step.name}.json").read_text())
        except (OSError, ValueError):
            return None

    def save(self) -> None:
        """Both files are renamed into their places, the small one first: what is there is always whole."""
        text = json.dumps({"stand_in": self.small, "steps": self.steps}, indent=1)
        (self.folder / "second-hour.part").write_text(text + "\n")
        (self.folder / "second-hour.part").rename(self.folder / "second-hour.json")
        with tarfile.open(self.folder / "raw.part", "w:gz", compresslevel=3) as tar:
            tar.add(self.scratch, "raw")
        (self.folder / "raw.part").rename(self.folder / "raw.tar.gz")


def _end(process: subprocess.Popen[bytes]) -> None:
    """It and all that it started; one that hangs in the driver may not end, and is left."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            break
        with suppress(subprocess.TimeoutExpired):
            process.wait(ENDING_SECONDS)


def environment(scratch: Path, small: bool, engine: Path | None) -> dict[str, str]:
    """Of a step: this checkout, and with `small` the driver's stand-in."""
    root = str(Path(__file__).parents[2])
    found = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    if engine:
        found["HOST_ENGINE"] = str(engine.absolute())
    if small:
        scenario = nvml.Scenario(scratch / "scenario")
        scenario.gpu(0, tensor=0.5, hmma=0.5, clock_mhz=[1395, 1410], clock_reasons=4)
        found[nvml.SCENARIO_VARIABLE] = str(scenario.path)
        same = dcgm.Scenario(scratch / "dcgm")
        same.gpu(0, tensor=0.5, hmma=0.5, clock_mhz=1402.5, pci_id="233010de")
        found[dcgm.SCENARIO_VARIABLE] = str(same.path)
        built = (native.build(CARD, nvml.SONAME), dcgm.build())
        found[native.SEARCHED] = os.pathsep.join(str(each.parent) for each in built)
    return found


def main(args: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=570.0)
    parser.add_argument("--engine", type=Path)
    parser.add_argument("--stand-in", action="store_true")
    parser.add_argument("steps", nargs="*")
    asked = parser.parse_intermixed_args(args)
    if unknown := {*asked.steps} - {step.name for step in STEPS}:
        parser.error(f"no such step: {', '.join(sorted(unknown))}")
    ends = time.monotonic() + asked.seconds
    asked.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        scratch = Path(made)
        environ = environment(scratch, asked.stand_in, asked.engine)
        hour = Hour(asked.folder.absolute(), scratch, environ, asked.stand_in)
        for step in STEPS:
            if not asked.steps or step.name in asked.steps:
                hour.take(step, ends - time.monotonic())


if __name__ == "__main__":
    main(sys.argv[1:])
