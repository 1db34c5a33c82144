"""The settings of the agent: one model, filled alike from flags, environment and a YAML file."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic.fields import FieldInfo

from ofu_exporter.errors import ConfigError
from ofu_exporter.support.durations import Seconds, duration, seconds
from ofu_exporter.values.reading import LONGEST_WINDOW_SECONDS, SHORTEST_WINDOW_SECONDS


def shown(field: FieldInfo, value: object) -> str:
    """A value of the setting as people write it: only a duration has a unit."""
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    is_duration = any(getattr(each, "func", None) is seconds for each in field.metadata)
    if isinstance(value, float):
        return duration(value) if is_duration else f"{value:g}"
    return str(value)


FILE_ONLY = frozenset({"gpus", "pull"})
"""Settings that are tables of tables: neither a flag nor a variable can say them."""


class GpuSetting(BaseModel):
    """A GPU model that the table lacks, or rates otherwise than the user wants."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    pci_device_id: str | None = Field(default=None, pattern=r"^[0-9a-f]{4}$")
    sm_count: int | None = Field(default=None, gt=0)
    tensor_clock_hz: float = Field(gt=1e8, lt=1e10)
    fp64_clock_hz: float | None = Field(default=None, gt=1e8, lt=1e10)
    flops_per_cycle_per_sm: dict[str, int] = Field(default_factory=dict)


class PullSetting(BaseModel):
    """A serving engine of a job, whose counter of FLOPs is read instead of waiting for reports."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    job_id: str = Field(min_length=1, max_length=256, pattern=r"^[^\s*?]+$")
    """As the scheduler names it. No wildcard: one engine is one job's."""
    url: str = Field(pattern=r"^https?://[^/]+")
    precision: str | dict[str, float] | None = None
    """What the engine computes in, or the shares of its FLOPs."""
    every: Seconds = Field(default=15.0, ge=1.0, le=300.0)
    timeout: Seconds = Field(default=5.0, gt=0, le=60.0)


class Settings(BaseModel):
    """What every source and command has in common; the sources own their own options."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str = Field(
        default="auto", description="Where the counters come from; see `list sources`."
    )
    scheduler: str = Field(
        default="auto",
        description="Who says which job owns which GPU: one or more (with commas) of "
        "`list schedulers`, or none.",
    )
    owner_max_age: Seconds = Field(
        default=300.0,
        gt=0,
        description="How long the last answer of a scheduler that fails is believed.",
        examples=["5m"],
    )
    state_file: Path | None = Field(
        default=None,
        description="File that keeps job totals across restarts; they start anew without one.",
        examples=["FILE"],
    )
    state_interval: Seconds = Field(
        default=15.0,
        gt=0,
        description="Time between two writes of the state file; as much is lost on SIGKILL.",
        examples=["15s"],
    )
    interval: Seconds = Field(
        default=5.0, description="Length of a window, 0.1s to 30s.", examples=["5s"]
    )
    clock_interval: Seconds = Field(
        default=0.5, gt=0, description="Time between two reads of the SM clock.", examples=["0.5s"]
    )
    listen: str = Field(
        default="0.0.0.0:9846", description="Address to serve on.", examples=["HOST:PORT"]
    )
    report_socket: Path | None = Field(
        default=None,
        description="Unix socket to serve on as well, for jobs on this node to report to.",
        examples=["/run/ofu-exporter/reports.sock"],
    )
    report_token_file: Path | None = Field(
        default=None,
        description="File of tokens, one a line, with which reports are taken from anywhere.",
        examples=["FILE"],
    )
    job_tokens: bool = Field(
        default=False,
        description="Take no report without a token, not even from this node: "
        "the site's, or the one that `job start` gave the job.",
    )
    tls_cert: Path | None = Field(
        default=None,
        description="Certificate chain (PEM): the address is served with TLS.",
        examples=["FILE"],
    )
    tls_key: Path | None = Field(
        default=None,
        description="Its key, where that is not in the same file.",
        examples=["FILE"],
    )
    tls_client_ca: Path | None = Field(
        default=None,
        description="Authorities (PEM): nobody is let in without a certificate of one of them, "
        "and whoever is may report for any job.",
        examples=["FILE"],
    )
    unowned_reports: bool = Field(
        default=False,
        description="Keep reports of jobs that own no GPU here, such as those of a head node.",
    )
    horizon: Seconds = Field(
        default=600.0,
        ge=120.0,
        le=86400.0,
        description="Time over which reported MFU and OFU are compared, 2m or more.",
        examples=["10m"],
    )
    mfu_above: float = Field(
        default=0.02,
        ge=0,
        le=1,
        description="Points (0.02 = 2) that MFU may be above OFU, beside 2 standard errors.",
    )
    mfu_below: float = Field(
        default=0.05, ge=0, le=1, description="Points that MFU may be below OFU."
    )
    mfu_above_relative: float = Field(
        default=0.0, ge=0, le=10, description="The same as a share of OFU; the larger applies."
    )
    mfu_below_relative: float = Field(
        default=0.0, ge=0, le=10, description="The same as a share of OFU; the larger applies."
    )
    log_format: Literal["text", "json"] = Field(
        default="text", description="How log lines are written."
    )
    gpus: tuple[GpuSetting, ...] = Field(
        default=(), description="GPU models of your own (file only)."
    )
    pull: tuple[PullSetting, ...] = Field(
        default=(), description="Serving engines whose counter of FLOPs is read (file only)."
    )

    @field_validator("interval")
    @classmethod
    def _interval_in_range(cls, value: float) -> float:
        if value < SHORTEST_WINDOW_SECONDS:
            raise ValueError(
                f"{value:g}s is below {SHORTEST_WINDOW_SECONDS:g}s: "
                "the hardware refreshes its counters at best every 100 ms, faster reads are invalid"
            )
        if value > LONGEST_WINDOW_SECONDS:
            raise ValueError(
                f"{value:g}s is above {LONGEST_WINDOW_SECONDS:g}s: "
                "tensor activity is averaged over at most 30 s, longer windows are averages of averages"
            )
        return value

    @field_validator("listen")
    @classmethod
    def _listen_has_port(cls, value: str) -> str:
        host_and_port(value)
        return value


def host_and_port(listen: str) -> tuple[str, int]:
    """Split HOST:PORT, [V6]:PORT or :PORT; an empty host means every address."""
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{listen!r} is not HOST:PORT")
    return host.strip("[]") or "0.0.0.0", int(port)


class Given(NamedTuple):
    """One setting as it was given, and where."""

    value: object
    origin: str


Layer = Mapping[str, Given]
ModelT = TypeVar("ModelT", bound=BaseModel)


def file_layer(path: Path) -> dict[str, Given]:
    """The settings of a YAML file. Raises ConfigError that names the file and, where known, the line."""
    import yaml  # noqa: PLC0415 - most starts have no file, and the parser costs memory

    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"configuration file {path}: {error}") from error
    except yaml.YAMLError as error:
        text = " ".join(str(error).replace('"<unicode string>", ', "").split())
        raise ConfigError(f"configuration file {path} is not YAML: {text}") from error
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        detail = f"configuration file {path} has a value that YAML cannot make"
        raise ConfigError(f"{detail}: {type(error).__name__}: {error}") from error
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise ConfigError(f"configuration file {path}: the top level must be `key: value` lines")
    return {
        str(key).replace("-", "_"): Given(value, f"{key} in {path}")
        for key, value in loaded.items()
    }


def environment_layer(environ: Mapping[str, str], known: Iterable[str]) -> dict[str, Given]:
    """The settings of the OFU_... variables. Raises ConfigError for one that is no setting.

    OFU_EXPORTER_... and OFU_TEST_... are left alone: Kubernetes makes the first kind for every pod
    that runs beside a Service called ofu-exporter.
    """
    layer = {}
    for name, value in environ.items():
        if not name.startswith("OFU_") or name.startswith(("OFU_EXPORTER_", "OFU_TEST_")):
            continue
        key = name.removeprefix("OFU_").lower()
        if key == "config":
            continue
        layer[key] = Given(value, name)
    check_known(layer, known)
    return layer


def merge(*layers: Layer) -> dict[str, Given]:
    """Later layers win."""
    merged: dict[str, Given] = {}
    for layer in layers:
        merged.update(layer)
    return merged


def check_known(layer: Layer, known: Iterable[str]) -> None:
    """Raise ConfigError for the first key that is no setting, with the nearest that is."""
    names = sorted(known)
    for key, given in layer.items():
        if key not in names:
            near = difflib.get_close_matches(key, names, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; known: {', '.join(names)}"
            raise ConfigError(f"unknown setting {given.origin}{hint}")


def build(model: type[ModelT], layer: Layer, owner: str = "the agent") -> ModelT:
    """Make a model of the keys that are its own. Raises ConfigError that names setting and origin."""
    own = {key: given for key, given in layer.items() if key in model.model_fields}
    try:
        return model.model_validate({key: given.value for key, given in own.items()})
    except ValidationError as error:
        raise ConfigError(
            "; ".join(_explain(item, own, owner) for item in error.errors())
        ) from error


def _explain(item: Any, own: Layer, owner: str) -> str:
    location = [str(part) for part in item["loc"]]
    given = own.get(location[0]) if location else None
    message = item["msg"].removeprefix("Value error, ")
    if item["type"] == "missing" and given is None:
        flag = location[0].replace("_", "-")
        return (
            f"{owner} needs --{flag} (or OFU_{location[0].upper()}, or {location[0]} in the file)"
        )
    inner = ".".join(location[1:])
    where = (given.origin if given else ".".join(location)) + (f" ({inner})" if inner else "")
    return f"{where}: {message}"
