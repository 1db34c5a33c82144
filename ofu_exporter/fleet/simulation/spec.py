"""Defines and reads a fleet's specification: nodes, jobs and faults, all of it checked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from ofu_exporter.support import checked_yaml
from ofu_exporter.support.checked_yaml import CheckedYaml, YamlSection
from ofu_exporter.support.durations import seconds
from ofu_exporter.support.numbers import NO_TRUTH, Number, WholeNumber

SHIPPED = Path(__file__).parents[1] / "specs"
"""The specifications that come with the program."""

MINUTE = 60
"""Seconds; everything that happens to a job or node happens at a whole minute."""
LONGEST_MINUTES = 366 * 24 * 60
_DAYS = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*d\s*")
MOST_NODES = 100_000
MOST_JOBS = 100_000
LABEL = r"^[^\x00-\x1f\"\\]*$"
"""No quotation mark, backslash or control character, so that a label needs no escapes."""


def _minutes(value: object) -> object:
    days = _DAYS.fullmatch(str(value))
    length = float(days[1]) * 86400 if days else seconds(value)
    if not isinstance(length, float) or length % MINUTE:
        raise ValueError(f"{value!r} is not a whole number of minutes")
    return int(length / MINUTE)


def _part_of_a_minute(value: int) -> int:
    if MINUTE % value:
        raise ValueError(f"{value} s is not a part of a minute")
    return value


IN_MINUTES = BeforeValidator(_minutes)
Minutes = Annotated[int, Field(ge=0, le=LONGEST_MINUTES), IN_MINUTES]
"""A duration, or a time since the beginning of what it belongs to."""
Length = Annotated[int, Field(ge=1, le=LONGEST_MINUTES), IN_MINUTES]
"""A duration that is not 0."""
Interval = Annotated[int, Field(ge=1, le=30), NO_TRUTH, AfterValidator(_part_of_a_minute)]
"""Seconds."""
Label = Annotated[str, Field(pattern=LABEL, max_length=200)]
Ratio = Annotated[float, Field(ge=0.0, le=1.0), NO_TRUTH]
Mhz = Annotated[float, Field(ge=100.0, le=4000.0), NO_TRUTH]
Watts = Annotated[float, Field(ge=0.0, le=5000.0), NO_TRUTH]
StepSeconds = Annotated[float, Field(gt=0, le=600), NO_TRUTH]
PerSecond = Annotated[float, Field(ge=0.0, le=1e9), NO_TRUTH]


class ValueSpread(YamlSection):
    """Values of several jobs: normally distributed, within the given limits."""

    mean: Ratio
    deviation: Ratio = 0.0
    lowest: Ratio = 0.0
    highest: Ratio = 1.0


class LengthSpread(YamlSection):
    """Lengths of several jobs: log-normally distributed around the mean."""

    mean: Length
    deviation: Number = Field(default=0.5, ge=0.0, le=2.0, description="Of the logarithm.")
    longest: Length = LONGEST_MINUTES


def _spread(value: object) -> object:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return {"mean": value} if is_number else value


def _length(value: object) -> object:
    return {"mean": value, "deviation": 0.0} if isinstance(value, (str, int, float)) else value


GivenShares = Annotated[ValueSpread, BeforeValidator(_spread)]
GivenLengths = Annotated[LengthSpread, BeforeValidator(_length)]


class NodeGroup(YamlSection):
    """Nodes of one kind. Their names are `name` and a number from 1 on."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=60)]
    count: WholeNumber = Field(ge=1, le=MOST_NODES)
    model: str = Field(min_length=1, description="As in the table of GPUs: H100, A100-SXM4-80GB.")
    gpus: WholeNumber = Field(default=8, ge=1, le=72)
    mig: tuple[Annotated[str, Field(pattern=r"^\d+g\.\d+gb$")], ...] = Field(
        default=(), max_length=7, description="Profiles into which every GPU is divided."
    )
    partition: Label = ""


class ModelSpec(YamlSection):
    """A model that jobs train."""

    config: dict[str, Any] = Field(description="The model's own config.json, as it is.")
    seq_len: WholeNumber = Field(gt=0, le=1 << 30)


class Reporting(YamlSection):
    """The reports of a job. Without a mistake it reports its true MFU."""

    every: Minutes = 1
    model: str | None = Field(default=None, description="A name of `models`.")
    mistake: str | None = Field(default=None, description="A cause, as `explain` names them.")
    convention: str | None = Field(default=None, description="Counts by it, right or wrong.")
    precision: Literal["tf32", "bf16", "fp16", "fp8", "fp4", "int8", "fp64"] = "bf16"
    recompute: Literal["none", "selective", "full"] | None = None
    framework: Annotated[str, Field(pattern=r"^[a-z0-9-]*$", max_length=30)] = ""
    noise: Number = Field(default=0.003, ge=0.0, le=0.1, description="As a share of the MFU.")
    step: StepSeconds | None = Field(default=None, description="Seconds of a stated step.")

    @field_validator("every")
    @classmethod
    def _often_enough(cls, value: int) -> int:
        if not 1 <= value <= 10:
            raise ValueError("is not between 1m and 10m")
        return value

    @model_validator(mode="after")
    def _one_reason(self) -> Reporting:
        if self.mistake and self.convention:
            raise ValueError("mistake and convention are two reasons for one wrong number")
        if self.convention and not self.model:
            raise ValueError("a convention counts a model: name one")
        return self


class SpeedChange(YamlSection):
    """From this minute of the job on, it is faster or slower by this factor."""

    at: Minutes
    factor: Number = Field(ge=0.0, le=10.0)


class Straggler(YamlSection):
    """One slower GPU. With a clock, the others wait for it; with a share, it does less than they do."""

    gpu: WholeNumber = Field(default=0, ge=0, description="Which of the job's GPUs, from 0.")
    clock_mhz: Mhz | None = None
    share: Ratio | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Straggler:
        if (self.clock_mhz is None) == (self.share is None):
            raise ValueError("needs one of clock_mhz and share")
        return self


class Crashes(YamlSection):
    """The job crashes again and again, and restarts on the same GPUs with the same id."""

    every: Length
    pause: Annotated[int, Field(ge=1, le=4), IN_MINUTES] = 2
    start: Minutes = Field(default=0, description="Of each run, in which nothing computes yet.")
    again: Minutes = Field(default=0, description="Of reported work that each restart does again.")


class Serving(YamlSection):
    """What the engines of a job serve."""

    model: Label = Field(default="chat", description="As the engines name it.")
    role: Literal["prefill", "decode", "both"] = "both"
    tokens: dict[Literal["prompt", "cached", "recomputed", "generation"], PerSecond] = Field(
        description="Per second of one of its GPUs, undisturbed and at the busiest minute."
    )
    memory: Ratio = Field(
        description="Share of the cycles in which memory moves data, at any load: each step reads all weights."
    )


class JobGroup(YamlSection):
    """Jobs of one kind, one or many."""

    name: Label = Field(min_length=1)
    count: WholeNumber = Field(default=1, ge=1, le=MOST_JOBS)
    users: tuple[Label, ...] = Field(default=("",), min_length=1)
    account: Label = ""
    partition: Label = ""
    namespace: Label = ""
    gpus: WholeNumber = Field(default=1, ge=1, description="GPUs, or instances with `mig`.")
    mig: str | None = Field(default=None, description="The profile of the instances.")
    nodes: tuple[str, ...] = Field(default=(), description="All GPUs of exactly these nodes.")
    start: Minutes = 0
    every: Minutes = Field(default=0, description="Time from one job's start to the next one's.")
    lasts: GivenLengths | None = Field(default=None, description="Without it, to the end.")
    work: Literal["training", "inference", "idle"] = "training"
    ofu: GivenShares | None = None
    mfu: GivenShares | None = None
    left_out: GivenShares = Field(
        default=ValueSpread(mean=0.01),
        validate_default=True,
        description="OFU - MFU: work that the hardware runs and a right MFU leaves out.",
    )
    noise: Number = Field(default=0.02, ge=0.0, le=0.2, description="From minute to minute.")
    clock_mhz: Mhz | None = None
    idle: Ratio = Field(
        default=0.04, description="Share of the time in which none of its kernels runs."
    )
    empty_sms: Ratio = Field(
        default=0.06, description="Share of the SMs without work, of all time."
    )
    watts: Watts | None = Field(default=None, description="Of each GPU it holds.")
    serves: Serving | None = None
    report: Reporting | None = None
    changes: tuple[SpeedChange, ...] = ()
    straggler: Straggler | None = None
    crashes: Crashes | None = None

    @model_validator(mode="after")
    def _one_pace(self) -> JobGroup:
        if self.work == "idle":
            if self.ofu or self.mfu or self.report or self.serves:
                raise ValueError("an idle job has no ofu, no mfu and no report, and serves nothing")
        elif (self.ofu is None) == (self.mfu is None):
            raise ValueError("needs one of ofu and mfu")
        if self.report and self.work != "training":
            raise ValueError("only training reports")
        if self.nodes and (self.count > 1 or "gpus" in self.model_fields_set):
            raise ValueError("with nodes there is one job, on all GPUs of them: no count, no gpus")
        return self


FaultKind = Literal[
    "agent_missing",
    "clock_limit",
    "counters_dead",
    "counters_frozen",
    "gpu_lost",
    "scheduler_lost",
    "source_lost",
]


class FaultSpec(YamlSection):
    """Something that goes wrong on nodes for a while."""

    fault: FaultKind
    nodes: tuple[str, ...] = Field(min_length=1)
    gpus: tuple[WholeNumber, ...] = Field(
        default=(), description="GPUs by index; default: all of the node."
    )
    at: Minutes = 0
    lasts: Minutes | None = Field(default=None, description="Without it, to the end.")
    clock_mhz: Mhz | None = None

    @model_validator(mode="after")
    def _fitting(self) -> FaultSpec:
        if (self.clock_mhz is not None) != (self.fault == "clock_limit"):
            raise ValueError("clock_limit needs clock_mhz, and nothing else has it")
        whole = ("agent_missing", "source_lost", "scheduler_lost")
        if self.gpus and self.fault in whole:
            raise ValueError(f"{self.fault} affects the whole node: give no gpus")
        return self


class FleetSpec(YamlSection):
    """A fleet: what it has, what runs on it, and what goes wrong."""

    seed: WholeNumber = Field(default=1, ge=0, lt=1 << 32)
    length: Length = 1440
    cluster: Label = ""
    interval: Interval = Field(default=15, description="Of a window.")
    clock_reads: WholeNumber = Field(
        default=4, ge=1, le=60, description="Of the SM clock, in each window."
    )
    models: dict[str, ModelSpec] = Field(default_factory=dict)
    nodes: tuple[NodeGroup, ...] = Field(min_length=1)
    jobs: tuple[JobGroup, ...] = ()
    faults: tuple[FaultSpec, ...] = ()


SpecFile = CheckedYaml[FleetSpec]
"""A specification, and the line of each of its values."""


def read_spec(path: Path) -> SpecFile:
    """Read and check what `spec_path` finds. Raises ConfigError, one line that names the file and the line."""
    return checked_yaml.read(spec_path(path), "fleet", FleetSpec)


def spec_path(path: Path) -> Path:
    """The file, or the shipped specification of this name where there is no such file."""
    shipped = SHIPPED / f"{path}.yaml"
    is_name = len(path.parts) == 1 and not path.exists() and shipped.is_file()
    return shipped if is_name else path
