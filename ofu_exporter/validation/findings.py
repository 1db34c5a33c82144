"""Collects what a validation found, and writes it as plain data and as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ofu_exporter.hardware.gpu_spec import GpuModel
from ofu_exporter.support import tables
from ofu_exporter.support.tables import LEFT, TextBlock, TextTable
from ofu_exporter.validation import Product, Trial, accuracy, clocks
from ofu_exporter.validation.accuracy import AccuracyRow, CurvePoint, ErrorBounds, Errors, Noise
from ofu_exporter.validation.clocks import Domain
from ofu_exporter.validation.results import Result, result
from ofu_exporter.validation.storage import ResultsHeader
from ofu_exporter.values.gpu import Rating

SIMULATED = "SIMULATED: no GPU was measured. This shows that the tool works, not that OFU is right."


@dataclass(frozen=True, slots=True)
class Findings:
    """What a validation found. Empty or None = not measured."""

    header: ResultsHeader
    rating: Rating
    bounds: ErrorBounds
    products: int
    compared: tuple[Result, ...]
    rows: tuple[AccuracyRow, ...] = ()
    noise: Noise | None = None
    domains: tuple[Domain, ...] = ()
    proposal: tuple[str, str] | None = None
    refused: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[Product, ...] = ()
    """Products that were not run because the time was over."""

    @property
    def verdict(self) -> accuracy.CardVerdict:
        return accuracy.verdict(self.rows)


def accuracy_findings(
    header: ResultsHeader, trials: Sequence[Trial], rating: Rating, bounds: ErrorBounds
) -> Findings:
    chosen = [each for each in trials if each.product.kind != "clock"]
    compared = _results(chosen, rating)
    steady = next((each for each in chosen if each.product.kind == "noise"), None)
    return Findings(
        header,
        rating,
        bounds,
        len(chosen),
        compared,
        rows=accuracy.rows(compared, bounds),
        noise=accuracy.noise(steady, rating) if steady else None,
    )


def clock_findings(
    header: ResultsHeader,
    trials: Sequence[Trial],
    rating: Rating,
    published: Mapping[str, float],
    extra: Sequence[GpuModel],
) -> Findings:
    chosen = [each for each in trials if each.product.kind == "clock"]
    compared = _results(chosen, rating)
    measured = clocks.domains(chosen, compared, header.gpu, rating, published, extra)
    is_unknown = rating.origin == "estimated"
    return Findings(
        header,
        rating,
        ErrorBounds(),
        len(chosen),
        compared,
        domains=measured,
        proposal=clocks.proposal(header.gpu, measured) if measured and is_unknown else None,
    )


def plain(findings: Findings) -> dict[str, Any]:
    """The findings as plain data for JSON; null for what was not measured."""
    header, excess = findings.header, accuracy.clock_excess(findings.compared)
    return {
        "simulated": header.simulated,
        "gpu": {"uuid": header.gpu.uuid, "model": header.gpu.name, "driver": header.gpu.driver},
        "source": header.source,
        "software": dict(header.software),
        "created": header.created,
        "rating": {
            "origin": findings.rating.origin,
            "tensor_clock_hz": dict(findings.rating.tensor_clock_hz),
            "peak_flops": dict(findings.rating.peak_flops),
        },
        "bounds": asdict(findings.bounds),
        "verdict": findings.verdict,
        "products": findings.products,
        "compared": len(findings.compared),
        "left_out": len(findings.left_out),
        "refused": dict(findings.refused),
        "accuracy": [asdict(row) for row in findings.rows],
        "clock_excess": asdict(excess) if excess else None,
        "overhead_curve": [asdict(point) for point in accuracy.curve(findings.compared)],
        "speed_ups": [asdict(each) for each in accuracy.speed_ups(findings.compared)],
        "clock_noise": asdict(findings.noise) if findings.noise else None,
        "clock_domains": [asdict(domain) for domain in findings.domains],
        "proposed_row": findings.proposal[0] if findings.proposal else None,
        "proposed_setting": findings.proposal[1] if findings.proposal else None,
    }


def text(findings: Findings) -> str:
    return tables.text(_lines(findings))


def _results(trials: Sequence[Trial], rating: Rating) -> tuple[Result, ...]:
    return tuple(compared for each in trials if (compared := result(each, rating)))


def _lines(findings: Findings) -> Iterator[TextBlock]:
    header = findings.header
    if header.simulated:
        yield SIMULATED
    versions = ", ".join(f"{name} {version}" for name, version in sorted(header.software.items()))
    yield f"{header.gpu.name or 'GPU'} ({header.gpu.uuid}), source {header.source}, {versions}"
    yield f"{len(findings.compared)} of {findings.products} products could be compared"
    if findings.left_out:
        longest = max(each.seconds for each in findings.left_out) / 60
        yield (
            f"{len(findings.left_out)} products are left, the longest of {longest:.2g} minutes: "
            "run the same command again to continue"
        )
    yield from (f"Not run: {name}: {why}" for name, why in findings.refused.items())
    yield from _accuracy(findings)
    yield from _curve(findings)
    yield from _speed_ups(findings)
    yield from _noise(findings.noise)
    yield from _domains(findings)


def _accuracy(findings: Findings) -> Iterator[TextBlock]:
    if not findings.rows:
        return
    yield ""
    yield "OFU against MFU, in points (the paper's Table II)"
    head = ("PREC", "PRODUCTS", "ESTIMATOR", "N", "MAE", "MEAN", "<= 2", "<= 5", "STDERR", "")
    lines: list[Sequence[str]] = [head]
    for row in findings.rows:
        stderr = "-" if row.stderr is None else f"{100 * row.stderr:.2f}"
        lines.append(_cells(row, "OFU", row.raw, stderr, row.raw_verdict))
        if row.exact:
            lines.append(_cells(row, "adjusted", row.exact, "", row.adjusted_verdict))
        if row.lower:
            lines.append(_cells(row, "adjusted, at most", row.lower, "", "not_judged"))
    yield from _table(lines)
    yield (
        f"Bounds for {accuracy.JUDGED} products: MAE {findings.bounds.raw:g} of OFU, "
        f"{findings.bounds.adjusted:g} adjusted. This card: {findings.verdict.replace('_', ' ')}"
    )
    if excess := accuracy.clock_excess(findings.compared):
        yield (
            f"Clock that was used, over the one that the FLOPs of {excess.products} products imply: "
            f"{excess.lowest:+.1%} to {excess.highest:+.1%}, mean {excess.mean:+.1%}. OFU is off by as much"
        )


def _cells(
    row: AccuracyRow, name: str, errors: Errors, stderr: str, verdict: str
) -> tuple[str, ...]:
    return (
        row.precision,
        row.kind,
        name,
        str(errors.products),
        f"{errors.mean_absolute:.2f}",
        f"{errors.mean:+.2f}",
        f"{errors.within_2:.0%}",
        f"{errors.within_5:.0%}",
        stderr,
        "" if verdict == "not_judged" else verdict,
    )


def _curve(findings: Findings) -> Iterator[TextBlock]:
    squares = [point for point in accuracy.curve(findings.compared) if point.kind == "square"]
    if not squares:
        return
    yield ""
    yield "FLOPs that tiles add to squares (Fig. 1): by kernel names / by the counters"
    cells = {(round(point.side), point.precision): _overheads(point) for point in squares}
    yield from _grid("SIDE", cells)


def _overheads(point: CurvePoint) -> str:
    least = ">= " if point.bound == "lower" else ""
    names = "-" if point.tile_overhead is None else f"{least}{point.tile_overhead:.1%}"
    counted = "-" if point.counted_overhead is None else f"{point.counted_overhead:.1%}"
    return f"{names} / {counted}"


def _speed_ups(findings: Findings) -> Iterator[TextBlock]:
    squares = accuracy.speed_ups(findings.compared)
    if not squares:
        return
    peaks = ", ".join({f"{each.precision} {each.of_peaks:.2f}": None for each in squares})
    yield ""
    yield f"Times as fast as {squares[0].base} (Fig. 3): by FLOP/s / by OFU times peak; peaks: {peaks}"
    cells = {
        (each.side, each.precision): f"{each.achieved:.2f} / {each.by_ofu:.2f}" for each in squares
    }
    yield from _grid("SIDE", cells)


def _grid(corner: str, cells: Mapping[tuple[int, str], str]) -> Iterator[TextBlock]:
    """A table of cells by row and column."""
    columns = list(dict.fromkeys(column for _, column in cells))
    lines = [(corner, *columns)]
    for row in sorted({row for row, _ in cells}):
        lines.append((str(row), *(cells.get((row, column), "-") for column in columns)))
    yield from _table(lines)


def _noise(noise: Noise | None) -> Iterator[TextBlock]:
    if noise is None:
        return
    yield ""
    yield (
        f"SM clock under steady {noise.precision} products over {noise.seconds:.0f} s, {noise.reads} reads: "
        f"{noise.lowest_hz / 1e6:.0f} to {noise.highest_hz / 1e6:.0f} MHz, mean {noise.mean_hz / 1e6:.0f}, "
        f"std {noise.std_hz / 1e6:.0f}; OFU {noise.utilization:.1%}"
    )
    if noise.spreads:
        yield "Mean OFU from fewer reads, in points (Table I)"
        lines = [("EVERY", "READS", "STD", "95%")]
        for each in noise.spreads:
            stds = (f"{each.std:.3f}", f"{each.interval_95:.3f}")
            lines.append((f"{each.interval_seconds:g} s", str(each.reads), *stds))
        yield from _table(lines)


def _domains(findings: Findings) -> Iterator[TextBlock]:
    if not findings.domains:
        return
    yield ""
    yield "FLOPs per cycle and SM, and clocks"
    lines = [("PREC", "MEASURED", "RATE", "TABLE", "HIGHEST CLOCK", "IMPLIED", "TABLE")]
    for each in findings.domains:
        lines.append(
            (
                each.precision,
                ("" if each.is_exact else ">= ") + f"{each.flops_per_cycle_per_sm:.0f}",
                _or_dash(each.whole),
                _or_dash(each.row_flops_per_cycle_per_sm),
                _mhz(each.highest_clock_hz),
                _mhz(each.implied_clock_hz),
                _mhz(each.row_clock_hz),
            )
        )
    yield from _table(lines)
    yield from (f"{each.precision}: {note}" for each in findings.domains for note in each.notes)
    if findings.proposal and not any(each.implied_clock_hz for each in findings.domains):
        yield (
            "No published peak is known, so the tensor clock below is the highest that was seen under load: "
            "give --published bf16=TFLOPS to have the one that the peak implies"
        )
    if findings.proposal:
        row, setting = findings.proposal
        yield ""
        yield from ("A chip for gpu_rows.py, and a row for gpu_models.csv:", *row.splitlines(), "")
        yield from ("Or in the configuration:", *setting.rstrip().splitlines())


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)


def _mhz(value: float | None) -> str:
    return "-" if value is None else f"{value / 1e6:.0f} MHz"


def _table(lines: Sequence[Sequence[str]]) -> Iterator[TextBlock]:
    head, *rows = lines
    yield TextTable(head, [LEFT] * len(head), rows)
