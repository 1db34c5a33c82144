"""The settings of the agent: one model, filled from flags, environment and a YAML file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, field_validator

from ofu_exporter.support.durations import Seconds
from ofu_exporter.support.numbers import NO_TRUTH, SIZEABLE, Number, Ratio
from ofu_exporter.values.reading import LONGEST_WINDOW_SECONDS, SHORTEST_WINDOW_SECONDS

FILE_ONLY = frozenset({"gpus", "pull"})
"""Settings that are tables of tables, which neither a flag nor a variable can hold."""


PROBE_PATHS = frozenset({"/healthz", "/readyz", "/-/healthy", "/-/ready"})
"""Paths that tell whether the process runs, and why no GPU is measured. Their answers name no job."""
_TAKEN = PROBE_PATHS | {"/docs", "/openapi.json"}
"""Paths at which the agent serves something other than its metrics, besides those below /v1/ and /jobs/."""


class GpuSetting(BaseModel, frozen=True, extra="forbid"):
    """A GPU model that the table lacks, or that the user wants to rate differently."""

    name: str = Field(min_length=1)
    pci_device_id: str | None = Field(default=None, pattern=r"^[0-9a-f]{4}$")
    sm_count: Annotated[int, Field(gt=0, le=10_000), NO_TRUTH] | None = None
    tensor_clock_hz: Number = Field(gt=1e8, lt=1e10)
    fp64_clock_hz: Annotated[float, Field(gt=1e8, lt=1e10), NO_TRUTH] | None = None
    flops_per_cycle_per_sm: dict[str, Annotated[int, Field(gt=0, le=10_000_000), NO_TRUTH]] = Field(
        default_factory=dict
    )


class PullSetting(BaseModel, frozen=True, extra="forbid"):
    """A page of a job that the agent reads instead of waiting for reports: a serving engine's, or a trainer's gauge."""

    job_id: str = Field(min_length=1, max_length=256, pattern=r"^[^\s*?]+$")
    """The scheduler's id of the job. Wildcards are refused: an engine belongs to one job."""
    url: str = Field(pattern=r"^https?://[^/]+")
    precision: str | dict[str, Annotated[float, Field(gt=0, le=1), NO_TRUTH, SIZEABLE]] | None = (
        None
    )
    """The precision that the engine computes in, or the shares of its FLOPs."""
    model: dict[str, Any] | None = None
    """The model that the engine serves, as in a report: {config: ..., seq_len: 4096}. It explains a divergence."""
    role: Literal["prefill", "decode", "both"] = "both"
    """What the engine does; where prompts and answers have engines of their own, their costs are told apart."""
    metric: str = Field(default="", max_length=200, pattern=r"^([A-Za-z_:][A-Za-z0-9_:]*)?$")
    """A gauge with the job's MFU, read instead of an engine's counters."""
    scale: Number = Field(default=1.0, ge=1e-6, le=1e6)
    """What the gauge is multiplied by to make it a ratio: 0.01 for percent."""
    every: Seconds = Field(default=15.0, ge=1.0, le=300.0)
    timeout: Seconds = Field(default=5.0, gt=0, le=60.0)


class Settings(BaseModel, frozen=True, extra="forbid"):
    """The settings that all sources and commands share, in the order of the help. A source has options of its own."""

    source: str = Field(
        default="auto", description="Where the counters come from; see `list sources`."
    )
    interval: Seconds = Field(
        default=5.0, description="Length of a window, 0.1s to 30s.", examples=["5s"]
    )
    clock_interval: Seconds | None = Field(
        default=None,
        gt=0,
        description="Time between two reads of the SM clock; "
        "without this setting 0.5s, or 0.25s with windows of up to 1s.",
        examples=["0.5s"],
    )
    pause_file: Path = Field(
        default=Path("/run/ofu-exporter/pause"),
        description="While this file is there, the agent holds no GPU; `ofu-exporter pause` writes it.",
        examples=["FILE"],
    )
    pause_limit: Seconds | None = Field(
        default=None,
        gt=0,
        description="How long a pause lasts that states no time; without this setting until `resume`.",
        examples=["4h"],
    )
    scheduler: str = Field(
        default="auto",
        description="What says which job owns which GPU: one or more of `list schedulers`, separated by commas, "
        "or none.",
    )
    owner_max_age: Seconds = Field(
        default=300.0,
        gt=0,
        description="How long the last answer of a failing scheduler still counts.",
        examples=["5m"],
    )
    state_file: Path | None = Field(
        default=None,
        description="File that keeps job totals across restarts. Without it they restart at 0.",
        examples=["FILE"],
    )
    state_interval: Seconds = Field(
        default=15.0,
        gt=0,
        description="Longest time between two writes of the file; SIGKILL loses at most that much.",
        examples=["15s"],
    )
    nvrx_folder: str | None = Field(
        default=None,
        pattern=r"^/",
        description="Folder of NVRx's cycle_info files (--ft-cycle-info-dir), whose restarts count: %j is the id of "
        "the Slurm job or array, %u its user.",
        examples=["FOLDER"],
    )
    listen: str = Field(
        default="0.0.0.0:9846",
        description="Address to serve on.",
        examples=["HOST:PORT"],
        json_schema_extra={"also": "--web.listen-address"},
    )
    telemetry_path: str = Field(
        default="/metrics",
        pattern=r"^/[A-Za-z0-9._~/-]+$",
        description="A second path of the metrics, besides /metrics.",
        examples=["/PATH"],
        json_schema_extra={"also": "--web.telemetry-path"},
    )
    report_socket: Path | None = Field(
        default=None,
        description="Unix socket to serve on as well, for jobs on this node to report to.",
        examples=["FILE"],
    )
    web_config_file: Path | None = Field(
        default=None,
        description="File in the format of Prometheus' exporters: TLS, passwords for reading, headers.",
        examples=["FILE"],
        json_schema_extra={"flag": "--web.config.file"},  # the name that every exporter gives it
    )
    tls_cert: Path | None = Field(
        default=None,
        description="Certificate chain (PEM); with it the agent serves TLS.",
        examples=["FILE"],
    )
    tls_key: Path | None = Field(
        default=None,
        description="The certificate's key, if it is in a file of its own.",
        examples=["FILE"],
    )
    tls_client_ca: Path | None = Field(
        default=None,
        description="Authorities (PEM): only clients with a certificate of one of them may connect, and each may "
        "report for any job.",
        examples=["FILE"],
    )
    allowed_hosts: str = Field(
        default="",
        description="Host names, separated by commas, under which the agent may be read over plain HTTP, besides "
        "this node's own; .DOMAIN is every name in it, * every name.",
        examples=["NAMES"],
    )
    report_token_file: Path | None = Field(
        default=None,
        description="File of tokens, one a line: a report that bears one is taken from anywhere.",
        examples=["FILE"],
    )
    job_tokens: bool = Field(
        default=False,
        description="Refuse every report without a token, even from this node: the site's token, or the one that "
        "`job start` gave the job.",
    )
    pod_tokens: bool = Field(
        default=False,
        description="Take reports from Kubernetes pods anywhere, each for its own job; a pod proves itself by a "
        "service account token for the audience ofu-exporter.",
    )
    horizon: Seconds = Field(
        default=600.0,
        ge=120.0,
        le=86400.0,
        description="Time over which reported MFU and OFU are compared, 2m or more.",
        examples=["10m"],
    )
    mfu_above: Ratio = Field(
        default=0.02,
        ge=0,
        le=1,
        description="Points (0.02 = 2) that MFU may be above the highest honest MFU of its OFU, besides 2 "
        "standard errors.",
    )
    mfu_below: Ratio = Field(
        default=0.05,
        ge=0,
        le=1,
        description="Points that MFU may be below OFU; an honest MFU never counts as too low.",
    )
    mfu_above_relative: Ratio = Field(
        default=0.0,
        ge=0,
        le=10,
        description="The limit of mfu_above as a share of OFU; the larger of the two applies.",
    )
    mfu_below_relative: Ratio = Field(
        default=0.0,
        ge=0,
        le=10,
        description="The limit of mfu_below as a share of OFU; the larger of the two applies.",
    )
    unowned_reports: bool = Field(
        default=False,
        description="Keep reports of jobs that own no GPU here, such as those of a head node.",
    )
    recipe_folder: Path | None = Field(
        default=None,
        description="Folder of recipes (`flops --executed --save`) that jobs name in their reports.",
        examples=["FOLDER"],
    )
    traces: bool = Field(
        default=False,
        description="Allow traces of running jobs (`ofu-exporter trace`): root of any job, users of their own. Jobs "
        "need KINETO_USE_DAEMON=1.",
    )
    trace_socket_folder: Path = Field(
        default=Path("/run/ofu-exporter/agent/kineto"),
        description="Folder of the socket for traces; KINETO_IPC_SOCKET_DIR of a job names it.",
        examples=["FOLDER"],
    )
    trace_abstract_name: bool = Field(
        default=False,
        description="Use the abstract socket name dynolog instead of a folder. Any user may take that name while no "
        "agent runs.",
    )
    trace_folder: Path = Field(
        default=Path("/var/spool/ofu-exporter"),
        description="Folder on disk that jobs write traces to; containers mount it at the same path.",
        examples=["FOLDER"],
    )
    trace_below: Annotated[float, Field(gt=0, lt=1), NO_TRUTH, SIZEABLE] | None = Field(
        default=None,
        description="Trace one process of a slow job unasked, at most once in six hours: a job whose OFU of ten "
        "minutes is below this, or below half of its median of the last hour.",
        examples=["RATIO"],
    )
    log_level: Literal["debug", "info", "warn", "error"] = Field(
        default="info",
        description="Lowest severity that is logged: debug, info, warn or error.",
        json_schema_extra={"also": "--log.level"},
    )
    log_format: Literal["text", "json", "logfmt"] = Field(
        default="text",
        description="Format of log lines: text, json or logfmt.",
        json_schema_extra={"also": "--log.format"},
    )
    gpus: tuple[GpuSetting, ...] = Field(
        default=(), max_length=256, description="GPU models of your own (file only)."
    )
    pull: tuple[PullSetting, ...] = Field(
        default=(),
        max_length=64,
        description="Serving engines whose counter of FLOPs is read (file only).",
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

    @field_validator("telemetry_path")
    @classmethod
    def _telemetry_path_is_free(cls, value: str) -> str:
        if value in _TAKEN or value.startswith(("/v1/", "/jobs/")):
            raise ValueError(f"the agent serves something else at {value}")
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


@dataclass(frozen=True, slots=True)
class Configured:
    """Settings, and the options of every source and scheduler that they may use."""

    settings: Settings
    sources: Mapping[str, BaseModel]
    """Options by the source's name, in the order in which the sources are tried."""
    schedulers: Mapping[str, BaseModel] = field(default_factory=dict)
    """Options by the scheduler's name."""
    ignored: tuple[str, ...] = ()
    """One sentence for each variable OFU_... that is no setting."""
    file: Path | None = None
    file_is_empty: bool = False
    """Whether the file sets nothing."""
