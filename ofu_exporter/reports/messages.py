"""The body and the answer of POST /v1/mfu, with which a job reports its MFU."""

from __future__ import annotations

from operator import attrgetter
from typing import Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    ValidationInfo,
    field_validator,
    model_validator,
)

from ofu_exporter.errors import ReportError
from ofu_exporter.flops.recipes import Length
from ofu_exporter.flops.terms import TOKENS
from ofu_exporter.ofu.divergence import Divergence
from ofu_exporter.reports.fields import (
    Config,
    FlopsPerSecond,
    Framework,
    JobId,
    NotNegative,
    PeakTflops,
    Positive,
    RecipeOrName,
    RunName,
    StatedOverhead,
    StatedRatio,
    StatedShares,
    Text,
    TflopsDone,
    Unix,
    checked_text,
)
from ofu_exporter.reports.trace_body import TraceBody
from ofu_exporter.values.reasons import ReportRejection
from ofu_exporter.values.reported import Bound, Compared, ErrorMethod, LikelyCause, Verdict

MOST_FIELDS = 64
"""Most fields of a body, because each wrong one costs time."""
WAYS = ("mfu", "model_flops_per_second", "tflops_per_gpu", "tokens_per_second")
"""The fields that say how fast a job runs. The last may come with any other."""
FACTS = (
    *("model", "gpus", "peak_tflops", "precision", "recompute", "accumulation", "pack_length"),
    *("framework", "tile_overhead", "tile_overhead_bound", "run"),
)
"""Fields that hold until the job reports another value."""
_FACTS_OF = attrgetter(*FACTS)


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _is_no_flood(cls, value: object) -> object:
        return _few_fields(value)


def _few_fields(value: object) -> object:
    if isinstance(value, dict) and len(value) > MOST_FIELDS:
        raise ValueError(f"has {len(value)} fields")
    return value


class ModelBody(_Body):
    """A model and a step of it, from which FLOPs are counted."""

    config: Config | None = None
    """The model's own config.json, as it is."""
    recipe: RecipeOrName = None
    """In place of config: a recipe, or its name in the site's folder of recipes."""
    seq_len: StrictInt | None = Field(default=None, gt=0, le=1 << 30)
    """Tokens per sequence; default: a recipe's own."""
    lengths: dict[Text, Length] = Field(default={}, max_length=8)
    """Lengths of other streams: {"image": 4096}."""
    batch_size: StrictInt = Field(default=1, gt=0, le=1 << 30)
    """Sequences per step."""
    forward_only: StrictBool = False
    """No backward pass."""
    mtp: StrictBool = False
    """Multi-token-prediction layers are trained."""
    lora_rank: StrictInt | None = Field(default=None, gt=0, le=1 << 20)
    """Adapters of this rank; all else is frozen."""
    lora_targets: tuple[Text, ...] = Field(default=(), max_length=16)
    """What they stand beside: ["q_proj", "v_proj"]; default: all of attention and MLPs."""
    freeze: tuple[Text, ...] = Field(default=(), max_length=16)
    """Parts that are not trained."""
    reference: StrictBool = False
    """A frozen copy runs forward over the same samples, as in DPO."""
    ignore_fields: tuple[Text, ...] = Field(default=(), max_length=64)
    """Unknown fields that do not change the count."""

    @model_validator(mode="after")
    def _is_one_model(self) -> ModelBody:
        if (self.config is None) == (self.recipe is None):
            raise ValueError("give config or recipe")
        if self.seq_len is not None and TOKENS in self.lengths:
            raise ValueError(f"give seq_len or lengths.{TOKENS}")
        if self.lora_targets and self.lora_rank is None:
            raise ValueError("lora_targets needs lora_rank")
        return self

    def streams(self) -> dict[str, int]:
        return {**self.lengths, **({TOKENS: self.seq_len} if self.seq_len else {})}


class MfuReport(_Body):
    """What a job reports over an interval. Facts of earlier reports hold until they are replaced."""

    @model_validator(mode="before")
    @classmethod
    def _is_no_flood(cls, value: object) -> object:
        return checked_text(_few_fields(value))  # in this order: to look at a flood is dear

    job_id: JobId
    """SLURM_JOB_ID, or namespace/name of a workload or a pod."""
    mfu: StatedRatio | None = None
    """Model FLOP utilization: 0.41 or "41%"; from 1.5 on "150%" only."""
    model_flops_per_second: FlopsPerSecond | None = None
    """FLOPs that the model needs, per second, over all GPUs."""
    tflops_per_gpu: TflopsDone | None = None
    """The same in TFLOP/s of one GPU."""
    tokens_per_second: NotNegative | None = None
    """Over all GPUs; needs flops_per_token or model."""
    flops_per_token: Positive | None = None
    """Model FLOPs of a token, forward and backward."""
    model: ModelBody | None = None
    """To count FLOPs from, and to explain a divergence."""
    start: Unix | None = None
    """Begin of the interval, Unix time; default: the end of the report before."""
    end: Unix | None = None
    """End of the interval; default: now."""
    step: StrictInt | None = Field(default=None, ge=0, lt=1 << 53)
    """Training step that was reached at end. It may be all that a report has."""
    reached: StrictInt | None = Field(default=None, ge=0, lt=1 << 53)
    """Highest step that earlier runs had reached, which this agent may not know: they were on other nodes."""
    reached_at: Unix | None = None
    """When they had reached it."""
    run: RunName | None = None
    """Tells that another job continues this one: both state the same id (OFU_RUN)."""
    event: Literal["evaluation", "checkpoint", "restart"] | None = None
    """What start to end was spent on, in place of a rate; step is then the one that was evaluated or saved. A restart
    lasts from the failure until the programs run again."""
    gpus: StrictInt | None = Field(default=None, gt=0, le=10_000_000)
    """All GPUs of the job: the world size."""
    peak_tflops: PeakTflops | None = None
    """TFLOP/s of one GPU that the report divides by."""
    precision: StatedShares | None = None
    """"bf16", or shares of the FLOPs: {"bf16": 0.3, "fp8": 0.7}."""
    recompute: Literal["none", "selective", "full"] | None = None
    """Activations that are computed again."""
    accumulation: StrictInt | None = Field(default=None, gt=0, le=1 << 20)
    """Micro-batches whose gradients a step adds up."""
    pack_length: Length | None = Field(default=None, gt=0)
    """Tokens of a pack, where sequences are packed."""
    framework: Framework | None = None
    """Whose formula it is."""
    tile_overhead: StatedOverhead | None = None
    """What tiles add to the FLOPs: 0.02 or "2%"."""
    tile_overhead_bound: Bound | None = None
    """Kind of tile_overhead: "lower" for a lower bound, "exact" for the exact value; null: not said."""
    trace: TraceBody | None = None
    """Where the time of a trace went. It may be all that a report has."""

    @field_validator("end")
    @classmethod
    def _ends_after_its_start(cls, end: float | None, fields: ValidationInfo) -> float | None:
        start = fields.data.get("start")
        if start is not None and end is not None and end <= start:
            raise ValueError(f"{end} is not after start {start}")
        return end

    @model_validator(mode="after")
    def _has_one_rate(self) -> MfuReport:
        ways = [name for name in WAYS[:3] if getattr(self, name) is not None]
        if len(ways) > 1:
            raise ValueError(f"give one of {', '.join(WAYS)}, not {' and '.join(ways)}")
        if ways and self.flops_per_token is not None:
            raise ValueError(f"flops_per_token has no meaning beside {ways[0]}")
        if self.flops_per_token is not None and self.tokens_per_second is None:
            raise ValueError("flops_per_token needs tokens_per_second")
        is_forward_only = self.model is not None and self.model.forward_only
        if is_forward_only and self.recompute not in (None, "none"):
            raise ValueError("recompute: a forward-only pass has no activations to compute again")
        length = None if self.model is None else self.model.seq_len
        if self.pack_length is not None and (length or 0) > self.pack_length:
            raise ValueError(f"pack_length: {self.pack_length} is shorter than a sequence")
        if self.tile_overhead_bound is not None and self.tile_overhead is None:
            raise ValueError("tile_overhead_bound needs tile_overhead")
        if self.event is not None and (ways or self.tokens_per_second is not None):
            raise ValueError("event has no rate: report the time of training apart")
        if self.event is not None and self.start is None:
            raise ValueError("event needs start")
        if not ways and self.tokens_per_second is None and not self.facts_only:
            raise ValueError(f"give one of {', '.join(WAYS)}, or step, or trace")
        return self

    @property
    def facts_only(self) -> bool:
        """Whether the report has no MFU and no rate, but facts of the job, a step or an event."""
        if any(getattr(self, name) is not None for name in WAYS):
            return False
        if self.step is not None or self.event is not None or self.trace is not None:
            return True
        has_time = self.start is not None or self.end is not None
        return not has_time and any(fact is not None for fact in self.facts())

    @property
    def counts_model(self) -> bool:
        """Whether the agent has to count a model's FLOPs before it knows the MFU."""
        others = (*WAYS[:3], "flops_per_token")
        return self.tokens_per_second is not None and all(
            getattr(self, name) is None for name in others
        )

    def facts(self) -> tuple[object, ...]:
        """The facts of the job in this report, in the order of `FACTS`."""
        values: tuple[object, ...] = _FACTS_OF(self)
        return values

    def with_facts(self, before: MfuReport) -> MfuReport:
        """The report with the facts of an earlier one that it does not repeat.

        A peak belongs to a precision, so a new precision ends it. In the same way a new overhead ends its bound.
        """
        facts_now = self.facts()
        earlier = dict(zip(FACTS, before.facts(), strict=True))
        if self.precision not in (None, before.precision):
            earlier["peak_tflops"] = None
        if self.tile_overhead is not None:
            earlier["tile_overhead_bound"] = None
        if self.recompute is None and self.model is not None and self.model.forward_only:
            earlier["recompute"] = None
        update = {
            name: fact
            for (name, fact), now in zip(earlier.items(), facts_now, strict=True)
            if now is None and fact is not None
        }
        return self.model_copy(update=update) if update else self

    def shares(self) -> dict[str, float] | None:
        """The share of the FLOPs in each precision; None where the report has none."""
        return None if self.precision is None else dict(self.precision)


class Comparison(BaseModel):
    """Reported MFU against the OFU of the job's GPUs on this node, over the same seconds."""

    start: float = Field(description="Unix time.")
    end: float
    mfu: float | None
    ofu: float | None = Field(description="null where nothing was observed (yet).")
    observed_seconds: float = Field(description="GPU-seconds in which OFU was measured.")
    difference: float | None = Field(description="MFU - OFU.")
    relative: float | None = Field(description="|MFU - OFU| / OFU.")
    stderr: float | None = Field(description="Standard error of OFU; null where it is not known.")
    stderr_method: ErrorMethod | None = Field(
        description='"measured" from the clock samples of each window, "estimated" from the spread of the clocks of '
        'windows with one read each, or "unknown"; the last two widen the limits of the verdict.'
    )
    overstated: float | None = Field(
        default=None,
        description="How much lower the OFU may be besides, because the clock was read, not counted; it widens the "
        "lower limit of the verdict.",
    )
    verdict: Verdict

    @classmethod
    def of(
        cls, start: float, end: float, sums: Compared, divergence: Divergence | None
    ) -> Comparison:
        """The comparison of an interval (Unix time), from its sums."""
        return cls(
            start=start,
            end=end,
            mfu=sums.mfu,
            ofu=sums.ofu,
            observed_seconds=sums.gpu_seconds,
            difference=divergence.difference if divergence else None,
            relative=divergence.relative if divergence else None,
            stderr=divergence.error.ratio if divergence else None,
            stderr_method=divergence.error.method if divergence else None,
            overstated=divergence.error.overstated if divergence else None,
            verdict=divergence.verdict if divergence else Verdict.INSUFFICIENT_DATA,
        )


class MfuAnswer(BaseModel):
    """What the hardware did in the same seconds."""

    job_id: str
    mfu: float | None = Field(description="As it is compared: against the right dense peak.")
    peak_flops: float | None = Field(description="That peak, FLOP/s of one GPU.")
    interval: Comparison | None = Field(description="Over the report's own interval.")
    horizon: Comparison | None = Field(description="Over the last minutes.")
    causes: tuple[LikelyCause, ...] = Field(description="Likeliest first; of the horizon.")
    tied: int = Field(
        description="How many causes fit equally well, the best among them: the numbers cannot tell these apart."
    )
    advice: str = Field(
        description="What to look at where no mistake in the report is the answer; empty otherwise."
    )
    tile_overhead: float | None = Field(
        description="What OFU is adjusted by, as it was told last; null: never told."
    )
    tile_overhead_bound: Bound | None = Field(
        description='"lower": the adjusted OFU is at most what it says; null: not said.'
    )
    warnings: tuple[str, ...]


def out_of_range(field: str, detail: str) -> ReportError:
    """The refusal of a field whose value cannot be used."""
    return ReportError(ReportRejection.OUT_OF_RANGE, field, detail)
