"""`explain`: finds why a job's reported MFU and the OFU of its GPUs differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from ofu_exporter.cli.answers import format_option, print_answer
from ofu_exporter.cli.gpu_name import GPU_HELP, gpu_name
from ofu_exporter.cli.help import SubjectCommand
from ofu_exporter.cli.option_types import (
    ANY_MFU,
    FILE,
    INTEGER,
    NUMBER,
    OVERHEAD,
    RATIO,
    STDERR,
    TFLOPS,
    WHOLE_FROM_1,
    option,
    with_options,
)
from ofu_exporter.cli.step import STEP_OPTIONS, how, precision_shares, read_step, step_option
from ofu_exporter.errors import ConfigError
from ofu_exporter.support import tables
from ofu_exporter.support.tables import LEFT, RIGHT, Column

if TYPE_CHECKING:
    from ofu_exporter.flops import Lengths
    from ofu_exporter.flops.candidates import Candidate
    from ofu_exporter.flops.causes import CauseFacts
    from ofu_exporter.flops.counted_step import CountedStep
    from ofu_exporter.flops.explain import Explanation, Observation

RECOMPUTE = ("none", "selective", "full")
CLOCK = click.Choice(("read", "cycles"))
NEED_CONFIG = (
    *("seq_len", "length", "lengths", "moments", "padded_to", "pack_length"),
    *("lora_rank", "freeze", "mtp"),
)
OF_A_CAUSE = ("cause", "expected_ratio", "misfit", "rarity", "evidence")
"""What is told of each cause."""
AT_LEAST_1: dict[str, Any] = {"type": WHOLE_FROM_1, "metavar": "N"}


@click.command(
    cls=SubjectCommand,
    short_help="Why a reported MFU differs from OFU.",
    common="mfu ofu config forward_only recompute gpu gpus tokens_per_second seq_len format_",
)
@option("--mfu", "MFU that the job reports: 0.41 or 41%.", ANY_MFU, required=True)
@option("--ofu", "OFU of its GPUs: 0.41 or 41%.", RATIO, required=True)
@option("--ofu-stderr", "Standard error of --ofu. Default: 0.01.", STDERR)
@option(
    "--clock",
    "How the SM clock of --ofu was measured: cycles if clock_method is cycles, else read.",
    CLOCK,
)
@option("--config", "The model's own config.json.", FILE)
@with_options(STEP_OPTIONS)
@option(
    "--forward-only/--training",
    "Whether the job runs forward passes alone, or trains.",
    default=None,
)
@option("--recompute", "Activations that it recomputes.", click.Choice(RECOMPUTE))
@option("--gpu", GPU_HELP, callback=gpu_name, metavar="NAME")
@option("--gpus", "All GPUs of the job: the world size.", INTEGER, metavar="N")
@option("--tokens-per-second", "Rate of all GPUs together: 12000, 12,000 or 12k.", NUMBER)
@option("--precision", "bf16, or shares of the FLOPs: bf16=0.3,fp8=0.7.", metavar="NAMES")
@option("--peak-tflops", "Peak of one GPU that the report divides by.", TFLOPS)
@step_option("--accumulation", "Micro-batches per optimizer step.", **AT_LEAST_1)
@step_option("--pack-length", "Tokens per pack, if sequences are packed.", **AT_LEAST_1)
@option("--tile-overhead", "What tiles add to the FLOPs: 0.02 or 2%.", OVERHEAD)
@format_option
def explain(format_: str, **options: Any) -> None:
    """Why a reported MFU differs from OFU: every cause that fits both, likeliest first.

    A cause is likely if it fits and if it is common. Facts that you give rule out causes. Some causes are tried only
    with the fact that they need, and are "not tried" without it: adapters need --lora-rank, padding --padded-to, packs
    --lengths or --pack-length, epochs and timesteps --repeats.
    """
    from ofu_exporter.flops import explain as package
    from ofu_exporter.ofu import divergence

    error = options["ofu_stderr"]
    is_assumed = error is None
    error = package.POINT if is_assumed else error
    divergence.check(options["mfu"], options["ofu"], error)
    facts = _facts(options)
    right, is_read = _right_mfu(facts, options), options["clock"] != "cycles"
    observed = package.Observation(
        options["mfu"], options["ofu"], error, right, is_assumed, is_read
    )
    explanation = package.explain(observed, facts)
    print_answer(
        format_,
        lambda: table(observed, explanation),
        lambda: as_data(explanation),
        lambda: rows(explanation),
    )


def _facts(options: Mapping[str, Any]) -> CauseFacts:
    from ofu_exporter.flops import Recompute
    from ofu_exporter.flops.causes import CauseFacts

    step, executed = _counted_step(options)
    recompute, peak = options["recompute"], options["peak_tflops"]
    facts = CauseFacts(
        step,
        executed,
        options["forward_only"],
        None if recompute is None else Recompute(recompute),
        options["gpu"],
        _counted_gpus(options["gpus"]),
        None if options["precision"] is None else precision_shares(options["precision"]),
        None if peak is None else peak * 1e12,
        options["tile_overhead"],
        accumulation=options["accumulation"],
        pack_length=options["pack_length"],
    )
    _check(facts)
    return facts


def _counted_step(options: Mapping[str, Any]) -> tuple[CountedStep | None, Lengths | None]:
    """The step to count FLOPs from, and its samples with their padding; both None without a configuration."""
    from ofu_exporter.flops.counted_step import CountedStep

    if options["config"] is None:
        _refuse_without_config(options)
        return None, None
    model, lengths, executed = read_step(options["config"], options)
    pack, longest = options["pack_length"], lengths.longest()
    if pack is not None and pack < longest:
        raise ConfigError(f"--pack-length: {pack} is shorter than a sequence of {longest}")
    ran = {"convention": "model", "recompute": options["recompute"] or "none"}
    chosen = how({**options, **ran, "forward_only": options["forward_only"] is True})
    counted = CountedStep(model, lengths, chosen.counting, chosen.passes)
    counted.flops()  # facts that contradict the model are refused before anything is compared
    return counted, executed


def _refuse_without_config(options: Mapping[str, Any]) -> None:
    unset: tuple[Any, ...] = (None, (), False)
    for name in NEED_CONFIG:
        if options[name] not in unset:
            raise ConfigError(f"--{name.replace('_', '-')} needs --config")


def _counted_gpus(gpus: int | None) -> int | None:
    if gpus is not None and not 0 < gpus < float("inf"):
        raise ConfigError(f"gpus: {gpus!r} is not a number above 0")
    return gpus


def _check(facts: CauseFacts) -> None:
    """Raise ConfigError for a GPU, a precision or a share that cannot be."""
    from ofu_exporter.flops import dense_peak, effective_peak
    from ofu_exporter.hardware.gpu_models import PRECISIONS

    if unknown := sorted({*(facts.precision or {})} - {*PRECISIONS}):
        raise ConfigError(f"precision: {unknown[0]!r} is not known; known: {', '.join(PRECISIONS)}")
    if facts.gpu is not None and facts.row() is None:
        dense_peak(facts.gpu, "bf16")  # raises ConfigError, which lists the known GPUs
    if facts.gpu is not None:
        facts.right_peak()
    elif facts.precision is not None:
        effective_peak(facts.precision, dict.fromkeys(facts.precision, 1.0))


def _right_mfu(facts: CauseFacts, options: Mapping[str, Any]) -> float | None:
    """The MFU that the job should have reported; None without a throughput."""
    from ofu_exporter.flops import How, Pace, count, utilization

    rate, step = options["tokens_per_second"], facts.step
    if rate is None:
        return None
    missing = [name for name in ("config", "gpu", "gpus", "precision") if options[name] is None]
    if step is None or facts.gpu is None or facts.gpus is None or facts.precision is None:
        raise ConfigError(f"--tokens-per-second needs {', '.join(f'--{name}' for name in missing)}")
    counted = count(step.model, step.lengths, How("model", step.counting, step.passes))
    pace = Pace(tokens_per_second=rate)
    used = utilization(counted, pace, gpu=facts.gpu, number=facts.gpus, precision=facts.precision)
    return used.mfu


COLUMNS: tuple[Column[Candidate], ...] = (
    ("CAUSE", LEFT, lambda each: each.cause),
    ("EXPECTED RATIO", RIGHT, lambda each: f"{each.expected_ratio:.3f}"),
    ("MISFIT", RIGHT, lambda each: f"{each.misfit:.1f}"),
    ("RARITY", RIGHT, lambda each: f"{each.rarity:.1f}"),
)


def as_data(explanation: Explanation) -> dict[str, Any]:
    """An explanation as plain data."""
    return {
        "observed_ratio": explanation.observed_ratio,
        "verdict": explanation.divergence.verdict.value,
        "advice": explanation.advice or None,
        "tied": explanation.tied,
        "not_tried": {
            slug: needs.split(", ") for slug, needs in explanation.untried + explanation.of_few
        },
        "causes": [
            {name: getattr(each, name) for name in OF_A_CAUSE} for each in explanation.causes
        ],
    }


def rows(explanation: Explanation) -> list[dict[str, Any]]:
    """A row for each cause, which repeats the verdict; one without a cause where none fits."""
    data = as_data(explanation)
    del data["not_tried"]
    causes = data.pop("causes") or [dict.fromkeys(OF_A_CAUSE)]
    return [{**data, **cause} for cause in causes]


def table(observed: Observation, explanation: Explanation) -> str:
    """An explanation for people."""
    from ofu_exporter.flops.explain import UNDECIDED
    from ofu_exporter.flops.mfu import ratio_mistakes

    causes, advice, ratio = explanation.causes, explanation.advice, explanation.observed_ratio
    assumed = " (assumed: --ofu-stderr)" if observed.is_error_assumed else ""
    lines: list[tables.TextBlock] = [
        f"MFU {observed.mfu:.2%}, OFU {observed.ofu:.2%} ±{observed.standard_error:.2%}{assumed}: "
        f"{explanation.divergence.verdict.value}{'' if ratio is None else f', ratio {ratio:.3f}'}",
        *ratio_mistakes(observed.mfu, observed.mfu, 1),
    ]
    if observed.is_clock_read and observed.mfu < observed.ofu:
        most = observed.overstated
        lines.append(
            f"OFU may be {most:.2%} lower, {observed.ofu - most:.2%}: its SM clock was read (if not: --clock cycles)"
        )
    if observed.right_mfu is not None:
        lines.append(f"MFU from the throughput: {observed.right_mfu:.2%}")
    if not explanation.looked:
        lines.append("Nothing to explain: the difference is within the thresholds")
    elif causes:
        lines += ["", tables.table(COLUMNS, causes), "", *_ordered(explanation)]
        decided = "Undecided" if causes[0].cause == UNDECIDED else "Likeliest"
        lines.append(f"{decided}: {causes[0].evidence}")
    else:
        lines.append(advice[0].upper() + advice[1:] if advice else "No known cause fits")
    if explanation.looked and not advice:
        lines += _untried(explanation)
    return tables.text(lines)


def _ordered(explanation: Explanation) -> list[str]:
    """What the order is, and how far the numbers support it."""
    if len(explanation.causes) < 2:
        return []
    lines = ["Order: misfit²/2 + rarity; a pair comes after any single cause that fits as well"]
    if explanation.tied > 1:
        options = [f"--{name.replace('_', '-')}" for name in explanation.telling]
        help_ = f"; {_listed(options)} can tell them apart" if options else ""
        lines.append(f"{explanation.tied} causes fit equally well{help_}")
    return lines


def _listed(options: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(options[:-1]), options[-1])))


def _untried(explanation: Explanation) -> list[str]:
    lines = []
    if explanation.untried:
        needs = sorted({need for _, missing in explanation.untried for need in missing.split(", ")})
        options = _listed([f"--{need}" for need in needs])
        lines.append(f"Not tried: {len(explanation.untried)} causes that need {options}")
    if explanation.of_few:
        of_few = (f"{cause} (--{_first_missing(needs)})" for cause, needs in explanation.of_few)
        lines.append(f"Not tried, if this is such a job: {', '.join(of_few)}")
    return lines


def _first_missing(needs: str) -> str:
    """The option of the rarest fact among those that a cause needs."""
    return needs.rsplit(", ", maxsplit=1)[-1].replace("_", "-")
