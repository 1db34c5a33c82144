"""What a job had of one GPU, and in one of its runs, as JSON: parts of the job's totals."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    computed_field,
)

from ofu_exporter.support.percent import ratio
from ofu_exporter.values.gpu import GpuKey
from ofu_exporter.values.instant import UNIX_LIMIT
from ofu_exporter.values.losses import Bottleneck, Bounds, Loss, LossSums, MemorySums

_HERE = {"lost": "lost_seconds", "gained": "gained_seconds", "bottlenecks": "no_tensor_bounds"}
"""Sums that have another name here; every other one has the same."""
_SUMS = tuple(name for name in LossSums._fields if name != "memory")
YEAR_1 = -62135596800.0


def _of_calendar(unix: float) -> float:
    """Raises ValueError for a time that no calendar has, which only another hand writes."""
    if not YEAR_1 <= unix <= UNIX_LIMIT:
        raise ValueError(f"{unix!r} is no time")
    return unix


UnixTime = Annotated[float, AfterValidator(_of_calendar)]


def of_sums(sums: LossSums) -> dict[str, Any]:
    """The fields of `GpuTotals` about where the peak went, energy and memory."""
    memory = sums.memory or MemorySums(0.0, 0.0)
    return {
        **{_HERE.get(name, name): getattr(sums, name) for name in _SUMS},
        **{f"memory_{name}": value for name, value in memory._asdict().items()},
    }


class GpuTotals(BaseModel, frozen=True, extra="ignore", allow_inf_nan=False):
    """What one job had of one GPU or MIG instance. Seconds are GPU-seconds: time x share of the GPU."""

    # `GpuUsage`, `LossSums` and `MemorySums` say what each number means.

    gpu: str
    uuid: str
    gpu_instance: str = ""
    node: str = ""
    share_ratio: PositiveFloat = 1.0
    held_seconds: NonNegativeFloat
    observed_seconds: NonNegativeFloat
    utilization_seconds: NonNegativeFloat
    waiting_seconds: NonNegativeFloat | None = None
    shared_seconds: NonNegativeFloat | None = None
    in_last_run: bool = True
    lost_seconds: dict[Loss, NonNegativeFloat] = Field(default_factory=dict)
    gained_seconds: NonNegativeFloat = 0.0
    no_tensor_bounds: dict[Bottleneck, Bounds] = Field(default_factory=dict)
    energy_joules: NonNegativeFloat | None = None
    idle_energy_joules: NonNegativeFloat | None = None
    memory_busy_seconds: NonNegativeFloat = 0.0
    memory_seconds: NonNegativeFloat = 0.0
    memory_moved_bytes: NonNegativeFloat | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def utilization_ratio(self) -> float | None:
        """Mean OFU; None when nothing was observed."""
        return ratio(self.utilization_seconds, self.observed_seconds)

    @property
    def ran_seconds(self) -> float:
        """Held, but for what the job waited and was not alone."""
        return self.held_seconds - (self.waiting_seconds or 0.0) - (self.shared_seconds or 0.0)

    @property
    def sums(self) -> LossSums:
        """Where the rest of the peak went, and the energy."""
        memory = self.memory_busy_seconds, self.memory_seconds, self.memory_moved_bytes
        return LossSums(
            **{name: getattr(self, _HERE.get(name, name)) for name in _SUMS},
            memory=MemorySums(*memory) if self.memory_seconds else None,
        )

    @property
    def key(self) -> GpuKey:
        return GpuKey(self.uuid, self.gpu_instance)


class RunTotals(BaseModel, frozen=True, extra="ignore", allow_inf_nan=False):
    """One run of a job on one node: a scheduler may start a job again under the same id."""

    # `Run` says what each value means.

    uid: str = ""
    node: str = ""
    began: UnixTime
    ended: UnixTime | None = None
    held_seconds: NonNegativeFloat
    observed_seconds: NonNegativeFloat
    utilization_seconds: NonNegativeFloat
    worked_since: float | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def utilization_ratio(self) -> float | None:
        """Mean OFU; None when nothing was observed."""
        return ratio(self.utilization_seconds, self.observed_seconds)
