"""`validate`: measures how close OFU is to MFU on this card, by running products whose FLOPs are known."""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from ofu_exporter import __version__
from ofu_exporter.agent.build import build_sampler, custom_rows
from ofu_exporter.cli.answers import format_option, print_answer, say
from ofu_exporter.cli.help import SubjectCommand
from ofu_exporter.cli.option_types import FILE, flag, option
from ofu_exporter.cli.settings import (
    MEASURE,
    QUIET,
    SettingValue,
    configure,
    setting_flags,
    start_quiet_logging,
)
from ofu_exporter.errors import ConfigError, GpuError
from ofu_exporter.hardware import gpu_models
from ofu_exporter.settings import Configured
from ofu_exporter.validation import (
    Machine,
    Product,
    Trial,
    Watch,
    cuda,
    findings,
    plot,
    sampler_watch,
    session,
    storage,
)
from ofu_exporter.validation.accuracy import ErrorBounds
from ofu_exporter.validation.findings import Findings
from ofu_exporter.validation.storage import ResultsFile, ResultsHeader
from ofu_exporter.values.reasons import Reason

EXIT_GPU = 4
EXIT_OUTSIDE = 5

INTERVAL, CLOCK_INTERVAL = 0.5, 0.05
"""Seconds of a window, and between clock reads: short, so that a few seconds hold several windows."""
PRESET = {
    "scheduler": SettingValue("none", "validate"),
    "interval": SettingValue(INTERVAL, "validate"),
    "clock_interval": SettingValue(CLOCK_INTERVAL, "validate", f"{CLOCK_INTERVAL:g}s"),
    **QUIET,
}
"""Settings of a validation. They override the environment, which is meant for this node's agent."""
WINDOWS_AT_LEAST = 4
"""A product must last for at least this number of windows, so that one or two lie in its steady part."""
CLOCK_SECONDS = 5.0
"""Time of each product that clock domains are measured with."""
MADE_UP = ("simulate", "replay")
Instruments = tuple[Machine, Watch, Callable[[], float]]
"""The machine, the watch over the agent's sampler, and the clock of both."""
OpenInstruments = Callable[[Configured, int, ExitStack], Instruments]
"""Opens the place of the GPU with an index, and has the stack close it. A program that runs the command with an `obj`
of this kind has it measure there instead of on this node's card."""


@click.command(
    cls=SubjectCommand,
    short_help="Measure how close OFU is to MFU on this card.",
    common="quick clocks report output precisions minutes gpu format_ source",
)
@flag("--quick", "Take ten minutes at most; without it some hours.")
@flag("--clocks", "Measure clock domains and FLOPs per cycle instead.")
@flag("--report", "Run nothing; report on the samples in --output.")
@option(
    "--output",
    "File of every sample (JSON lines); an existing one is continued. Default: validation-GPU.jsonl.",
    FILE,
)
@option(
    "--precisions", "Precisions, separated by commas. Default: all that run here.", metavar="LIST"
)
@option("--products", "Random products per precision.", click.IntRange(1))
@option("--seconds", "Seconds that each product runs.", click.FloatRange(1))
@option(
    "--minutes", "Begin no product that would end after this many minutes.", click.FloatRange(0.1)
)
@option("--random", "Seed of the products.", parameter="random_seed", default=1, show_default=True)
@option("--gpu", "Index of the GPU in torch.", default=0, show_default=True)
@option("--raw-bound", "Mean absolute error allowed, in points.", default=2.0, show_default=True)
@option("--adjusted-bound", "The same for the adjusted OFU.", default=0.5, show_default=True)
@option(
    "--published",
    "Published dense peak, for --clocks on a card that is not in the table.",
    multiple=True,
    metavar="PRECISION=TFLOPS",
)
@option("--plot", "Draw the result to this file (matplotlib).", FILE, parameter="plot_file")
@format_option
@partial(setting_flags, preset=PRESET, names=MEASURE, owners=("source",))
@click.pass_obj
def validate(
    open_place: OpenInstruments | None, /, format_: str, plot_file: Path | None, **options: Any
) -> None:
    """Run matrix products whose FLOPs are known, measure their OFU with the agent's sampler, and compare the two.

    Exit code 5: outside the bounds. 4: nothing could be compared.
    """
    _check_numbers(options)
    results = _stored(options) if options["report"] else _measured(options, open_place or this_card)
    if plot_file is not None:
        plot.draw(results, plot_file)
    print_answer(
        format_,
        lambda: findings.text(results),
        lambda: findings.plain(results),
        lambda: findings.plain(results)["clock_domains" if options["clocks"] else "accuracy"],
    )
    if not results.compared:
        sys.exit(EXIT_GPU)
    if not options["clocks"]:
        sys.exit({"outside": EXIT_OUTSIDE, "not_judged": EXIT_GPU, "inside": 0}[results.verdict])


def _check_numbers(options: Mapping[str, Any]) -> None:
    """Raises ConfigError for a number with which nothing could be compared or the run would never end."""
    for name in ("seconds", "minutes", "raw_bound", "adjusted_bound"):
        value = options[name]
        if value is not None and not 0 <= value < float("inf"):
            raise ConfigError(f"--{name.replace('_', '-')}: {value!r} is not a number of 0 or more")


def _stored(options: Mapping[str, Any]) -> Findings:
    if options["output"] is None:
        raise ConfigError("--report needs --output FILE")
    header, trials = storage.read(options["output"])
    return _findings(_configured(options), header, trials, options)


def _measured(options: Mapping[str, Any], open_place: OpenInstruments) -> Findings:
    wanted = session.known_precisions(
        (options["precisions"] or ",".join(session.PRECISIONS)).split(",")
    )
    size = _size(options)
    configured = _configured(options)
    with ExitStack() as stack:
        machine, watch, clock = open_place(configured, options["gpu"], stack)
        precisions, refused = session.runnable(machine, wanted)
        products: Sequence[Product] = session.products(size, precisions, options["random_seed"])
        if options["clocks"]:
            products = session.clock_products(precisions, size.seconds)
        header = _header(machine, watch)
        _check_seconds(size, configured, watch)
        path = options["output"] or Path(f"validation-{machine.uuid}.jsonl")
        store = ResultsFile(path, header)
        running = session.ValidationSession(machine, watch, store, clock)
        left = running.run(products, size.deadline, _print_product)
    drawn = set(products)
    trials = [trial for trial in store.trials if trial.product in drawn]
    findings = _findings(configured, header, trials, options)
    return replace(findings, refused=refused, left_out=left)


def this_card(configured: Configured, gpu: int, stack: ExitStack) -> Instruments:
    """Raises ConfigError where a source would show another GPU than the one that computes."""
    source = configured.settings.source
    if source in MADE_UP:
        raise ConfigError(
            f"source {source}: its GPUs run no products; give one that reads counters"
        )
    machine = stack.enter_context(closing(cuda.CudaMachine(gpu)))
    watch = sampler_watch.SamplerWatch(
        lambda publish: build_sampler(configured, publish), _window_seconds(configured)
    )
    return machine, stack.enter_context(closing(watch)), time.monotonic


def _configured(options: Mapping[str, Any]) -> Configured:
    configured = configure(options, PRESET)
    start_quiet_logging(configured)
    return configured


def _size(options: Mapping[str, Any]) -> session.Size:
    wanted = {
        "aligned": options["products"],
        "seconds": options["seconds"] or (CLOCK_SECONDS if options["clocks"] else None),
        "deadline": 60 * options["minutes"] if options["minutes"] else None,
    }
    size = session.QUICK if options["quick"] else session.FULL
    return replace(size, **{name: value for name, value in wanted.items() if value})


def _window_seconds(configured: Configured) -> float:
    """The longest that one of the configured sources takes for one reading."""
    models = [model.model_dump() for model in configured.sources.values()]
    others = [float(model.get("collect_interval", 0.0)) for model in models]
    return max(configured.settings.interval, *others)


def _check_seconds(size: session.Size, configured: Configured, watch: Watch) -> None:
    """Raises ConfigError when a product is too short for a whole window of the source that is read."""
    model = configured.sources[watch.source].model_dump()
    window = float(model.get("collect_interval", configured.settings.interval))
    if size.seconds < WINDOWS_AT_LEAST * window:
        raise ConfigError(
            f"--seconds: {size.seconds:g} s of a product hold no whole window of {watch.source} ({window:g} s): "
            f"give {WINDOWS_AT_LEAST * window:g} or more"
        )


def _header(machine: Machine, watch: Watch) -> ResultsHeader:
    return ResultsHeader(
        gpu=watch.gpu(machine.uuid),
        source=watch.source,
        simulated=watch.simulated,
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        software={"ofu-exporter": __version__, **machine.software},
    )


def _findings(
    configured: Configured,
    header: ResultsHeader,
    trials: Sequence[Trial],
    options: Mapping[str, Any],
) -> Findings:
    """The findings on trials. Raises GpuError when no clock is known to measure the GPU against."""
    extra = custom_rows(configured.settings.gpus)
    rating = gpu_models.rate(header.gpu, extra) or gpu_models.estimate(header.gpu)
    if rating is None:
        raise GpuError(Reason.UNKNOWN_MODEL, header.gpu.name)
    if options["clocks"]:
        peaks = dict(_peak(text) for text in options["published"])
        return findings.clock_findings(header, trials, rating, peaks, extra)
    bounds = ErrorBounds(options["raw_bound"], options["adjusted_bound"])
    return findings.accuracy_findings(header, trials, rating, bounds)


def _peak(text: str) -> tuple[str, float]:
    precision, _, number = text.partition("=")
    try:
        peak = float(number)
    except ValueError:
        peak = 0.0
    if precision not in session.PRECISIONS or not 0 < peak < float("inf"):
        choices = ", ".join(session.PRECISIONS)
        raise ConfigError(f"--published: {text!r} is not PRECISION=TFLOPS; known: {choices}")
    return precision, peak * 1e12


def _print_product(number: int, total: int, product: Product) -> None:
    sides = f"{product.m} x {product.n} x {product.k}"
    say(f"{number}/{total} {product.kind} {product.precision} {sides}", err=True)
