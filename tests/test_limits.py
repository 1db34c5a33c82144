"""Numbers that the documentation promises or that have a source, each where the code has it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from statistics import NormalDist
from typing import get_args

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ofu_exporter.agent import daemon, process, reloads, sampler, trace_files, trace_watch
from ofu_exporter.agent.lanes import SamplingPace
from ofu_exporter.cli import check, fleet_report, profile, validate
from ofu_exporter.client import channel, identity, reporter, steps_file
from ofu_exporter.fleet import actions, whole_report
from ofu_exporter.fleet.changes import (
    alarms,
    alike,
    peer_hours,
    peers,
    point,
    segments,
    split,
    survey,
    tails,
)
from ofu_exporter.fleet.changes import series as job_series
from ofu_exporter.fleet.digest import advice, delivery
from ofu_exporter.fleet.digest.config_file import DigestConfig
from ofu_exporter.fleet.history.prices import Prices
from ofu_exporter.fleet.pages import folder
from ofu_exporter.fleet.reports import job_result, periods, reachable
from ofu_exporter.fleet.simulation import agent, jobs, spec
from ofu_exporter.fleet.simulation.spec import FleetSpec
from ofu_exporter.flops import candidates, contradictions, fields, hf_config, recipes
from ofu_exporter.flops.causes import layers, peaks
from ofu_exporter.flops.readers import nanochat
from ofu_exporter.hardware import gpu_models
from ofu_exporter.jobs import hosts, served_text, state_file, state_writer
from ofu_exporter.jobs.kept_served import KeptServed
from ofu_exporter.ofu import clock, cycles, plausibility, shown, tick, window
from ofu_exporter.ofu.divergence import Thresholds
from ofu_exporter.ofu.honest_ratio import NOT_MEASURED
from ofu_exporter.ofu.ownership import holders, job_state, starting
from ofu_exporter.reports import book, cause_question, progress, reported_model, work
from ofu_exporter.reports import fields as report_fields
from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.reports.tail import poster, statements
from ofu_exporter.schedulers.kubernetes import driver, pod_tokens, pods
from ofu_exporter.schedulers.kubernetes import options as kubernetes
from ofu_exporter.schedulers.slurm import ended_files, job_files, job_tokens, squeue, trusted_files
from ofu_exporter.schedulers.slurm import options as slurm
from ofu_exporter.serving import (
    access,
    arrivals,
    connection_limit,
    guard,
    history,
    node_json,
    read_access,
    web_config,
)
from ofu_exporter.serving import app as serving_app
from ofu_exporter.serving import hosts as hosts_of_reads
from ofu_exporter.serving.connection_limit import MOST_IN_PHASE, RequestPhase
from ofu_exporter.settings import Settings
from ofu_exporter.sources.dcgm import fields as dcgm_fields
from ofu_exporter.sources.dcgm import library, session, watches
from ofu_exporter.sources.dcgm import options as dcgm
from ofu_exporter.sources.dcgm_exporter import options as exporter
from ofu_exporter.sources.nvml import gpm
from ofu_exporter.sources.simulate import driver as simulate
from ofu_exporter.sources.simulate import options as source
from ofu_exporter.support import logs, small_files
from ofu_exporter.terminal import agents, gpu_rows
from ofu_exporter.traces import seconds, timeline
from ofu_exporter.validation import accuracy
from ofu_exporter.validation import session as plan
from ofu_exporter.values import gpu, instant, losses, quantities, reading, reported
from ofu_exporter.values import progress as progress_values
from ofu_exporter.values.trace import ON_A_NODE

DOCS = Path(__file__).parents[1] / "docs"
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
MINUTE, HOUR, DAY = 60, 3600, 86400
WORDS = ("no", "a", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
normal = NormalDist().inv_cdf
PARTS = {0.25: "quarter", 0.5: "half"}


@pytest.mark.parametrize(
    ("page", "sentence", "number"),
    [
        ("access.md", "one token of at least {} letters a line", access.SHORTEST_TOKEN),
        ("access.md", "body of a report | {:.0f} KiB", guard.MOST_BODY_BYTES / KIB),
        ("access.md", "bodies under way | {:.0f} MiB together", guard.MOST_BYTES_AT_ONCE / MIB),
        ("access.md", "time for the body | {:.0f} s", guard.BODY_SECONDS),
        ("access.md", "an IPv6 /64 | {:.0f} a second", guard.PER_SECOND),
        ("access.md", "any other is answered {}.", hosts_of_reads.STATUS),
        ("access.md", "a body above {:.0f} KiB is not read", guard.LARGE_BODY_BYTES / KIB),
        ("access.md", "{:.0f} % of a core for a job,", 100 * work.SHARES[work.JOB]),
        ("access.md", ", {:.0f} % for an address", 100 * work.SHARES[work.ADDRESS]),
        ("access.md", ", {:.0f} % in all", 100 * work.SHARES[work.ALL]),
        ("access.md", "a recipe | {:,} values", report_fields.MOST_VALUES),
        ("access.md", " values, {:,} layers", fields.MOST_LAYERS),
        ("access.md", " layers of {} kinds", hf_config.MOST_KINDS),
        ("access.md", " kinds; {:,} factors", recipes.MOST_IN_ALL),
        ("access.md", "request's body | {:.0f} GiB", serving_app.LONGEST_BODY / GIB),
        (
            "access.md",
            "connections | {}, and half of the descriptors",
            connection_limit.MOST_CONNECTIONS,
        ),
        ("access.md", "the hard one, {} at most", process.MOST_DESCRIPTORS),
        ("access.md", "may wait, {} in all", read_access.MOST_WAITING),
        ("access.md", "the hashing rests {word} times as long", read_access.REST),
        ("access.md", "a cost up to {}", web_config.MOST_COST),
        (
            "access.md",
            "the last wrong address once {word} minute",
            read_access.QUIET_SECONDS / MINUTE,
        ),
        (
            "access.md",
            "until {word} minute after the pod's end",
            pod_tokens.REMEMBER_SECONDS / MINUTE,
        ),
        ("accuracy.md", "until they are {} of the interval", shown.LEAST_SHARE),
        ("accuracy.md", "every {} s with DCGM", dcgm_fields.CLOCK_SECONDS),
        ("accuracy.md", "counts like {word} more reads", clock.REMEMBERED_READS),
        ("accuracy.md", "the driver steps by {:.0f} MHz", clock.CLOCK_STEP_HZ / 1e6),
        ("accuracy.md", "activity within {:.0f} points; clock", 100 * cycles.ACTIVITY_TOLERANCE),
        ("accuracy.md", "clock within {:.0f} % and", 100 * cycles.CLOCK_TOLERANCE),
        ("accuracy.md", " % and {word} standard errors", cycles.CLOCK_ERRORS),
        (
            "accuracy.md",
            "up to {:.0f} % more below the clock that was read",
            100 * reading.READ_CLOCK_EXCESS,
        ),
        ("accuracy.md", "After {word} windows in agreement", cycles.AGREEING_WINDOWS),
        ("accuracy.md", "({:.1f} % above 1 is rounding)", 100 * (reading.MAX_RATIO - 1)),
        ("accuracy.md", "above {} times the card's maximum", window.CLOCK_HEADROOM),
        ("accuracy.md", "clock below {:.0f} MHz, or", gpu.LOWEST_CLOCK_HZ / 1e6),
        ("accuracy.md", "the activity is 0 for {word} windows", plausibility.DEAD_WINDOWS),
        ("accuracy.md", "at {part} or more for 2.5 s", plausibility.BUSY_GRAPHICS),
        ("accuracy.md", "at half or more for {} s", plausibility.TRAILING_SECONDS),
        ("accuracy.md", "engine and power at {part} or more", reading.BUSY_POWER),
        ("accuracy.md", "utilization and the power are at {part}", reading.BUSY_UTILIZATION),
        ("accuracy.md", "identical for {} windows", plausibility.FROZEN_WINDOWS),
        ("accuracy.md", "windows and {word} minute", plausibility.FROZEN_SECONDS / MINUTE),
        ("accuracy.md", "the clock by a {part};", plausibility.CLOCK_CHANGE),
        ("accuracy.md", "for {word}n hour |", plausibility.UNCHANGED_SECONDS / HOUR),
        ("accuracy.md", "Counters are {:.3f} s old", reading.COUNTER_AGE_SECONDS),
        ("accuracy.md", "GPM metrics {} and 250", gpm.CYCLES_ELAPSED),
        ("accuracy.md", "GPM metrics 248 and {})", gpm.CYCLES_TENSOR),
        ("accuracy.md", "the engine moved by {:.0f} points", 100 * plausibility.GRAPHICS_CHANGE),
        ("architecture.md", "waits for at most {:.0f} ms", 1000 * reporter.LONGEST_LOCK_WAIT),
        ("changes.md", "measured for less than {:.0f} minutes", 60 * job_series.SHORTEST_HOURS),
        ("changes.md", "A series needs {} points", survey.FEWEST_POINTS),
        ("changes.md", "further than {:.0f} robust standard deviations", point.CLIP),
        ("changes.md", "the best stretch of {} to 50 points", split.FEWEST_BESIDE),
        ("changes.md", "the best stretch of 3 to {} points", split.LONGEST_ARC),
        ("changes.md", "Fewer than {} points are shuffled", segments.SHORT),
        ("changes.md", "shuffled up to {} times", segments.ORDERS),
        ("changes.md", "at most {:.0f} % of series without a change", 100 * segments.SHORT_LEVEL),
        ("changes.md", "0 to 1.0 %, goal {:.0f} %", 100 * segments.LONG_LEVEL),
        ("changes.md", "one false alarm is at most {:.0f} %", 100 * survey.SURE_LEVEL),
        ("changes.md", "Below {} points of a kind nothing is sure", alike.ENOUGH),
        ("changes.md", "up to {} false alarms of each", alarms.UNKNOWN),
        ("changes.md", "up to an autocorrelation of {}.", alarms.ALIKE),
        ("changes.md", "{word} hours of a node", peer_hours.NODE_HOURS),
        ("changes.md", "at least {word} others are needed", peers.FEWEST_PEERS),
        ("changes.md", "if it is at least {:.0f} % slower", 100 * peers.LEAST_SLOWER),
        ("changes.md", "further off than healthy ones are ({:.0f} %)", 100 * (1 - peers.LEVEL)),
        ("changes.md", "It needs {} hours with peers", peers.FEWEST_HOURS),
        ("configuration.md", "at most once in {word} hours", trace_watch.AGAIN_SECONDS / HOUR),
        ("configuration.md", "within {:.0f} s of a change of the file", reloads.FILE_CHECK_SECONDS),
        ("configuration.md", "of {:.0f} MiB at most", small_files.MOST_BYTES / MIB),
        ("configuration.md", "without this setting {}s", SamplingPace(5.0).step_seconds),
        ("configuration.md", "or {}s with windows of up to 1s", SamplingPace(1.0).step_seconds),
        (
            "configuration.md",
            "at most, {:.0f} KiB for tokens and",
            small_files.MOST_SECRET_BYTES / KIB,
        ),
        ("configuration.md", "does not answer within {:.0f} s", small_files.READ_SECONDS),
        ("configuration.md", "does the same within {word} second", daemon.PAUSE_CHECK_SECONDS),
        ("dcgm.md", "tried again after {:.0f} s", watches.RETRY_SECONDS),
        ("dcgm.md", " s to {:.0f} minutes", watches.MOST_RETRY_SECONDS / MINUTE),
        ("dcgm.md", "found within {word} second", session.LOOK_SECONDS),
        ("dcgm.md", "1006 to 1008, 1016, {}, 155", dcgm_fields.GPU_PERCENT),
        ("explain.md", "OFU was observed for less than {:.0f} s", reported.COMPARED_SECONDS),
        ("explain.md", "OFU is below {:.0f} of its standard errors", contradictions.CLEAR),
        ("explain.md", "or below {:.1f} %, and no throughput", 100 * contradictions.LEAST),
        ("explain.md", "more than {} % off", candidates.FITS),
        ("explain.md", "The right MFU is then known to {:.0f} %", 100 * candidates.COUNTED),
        ("explain.md", "{:.0f} % without `--gpu`", 100 * contradictions.FASTEST),
        ("explain.md", "{} the peak of a card that is not in the node", peaks.ABSENT),
        ("explain.md", "| down to {}, 0.86 on an H100", NOT_MEASURED.low),
        ("explain.md", "| 0.83 to {:.0f} |", NOT_MEASURED.high),
        ("explain.md", "({} standard errors in both together)", candidates.FITS_BOTH),
        ("explain.md", "have the sum and {:.0f} more;", candidates.PAIR),
        ("explain.md", "above {} they are not tried", candidates.RAREST_PAIR),
        ("explain.md", "misfit² is within {:.0f} of the best", reported.ALIKE),
        ("explain.md", "for at most {word} jobs in one tick", book.EXPLAINED_AT_ONCE),
        ("explain.md", "every {:.0f} s while reports come", cause_question.EXPLAIN_SECONDS),
        ("explain.md", "computed, up to {:.0f} % of them", 100 * (1 - layers.FEWEST_KEPT)),
        ("explain.md", "Write {:.0f} % or more (", 100 * quantities.RATIO),
        ("explain.md", "({:.0f} % or more for `--tile-overhead`)", 100 * quantities.OVERHEAD),
        ("fleet.md", "names at most {word} things", actions.MOST),
        ("fleet.md", "; {} a part could not be read", fleet_report.EXIT_INCOMPLETE),
        ("fleet.md", "; {} no data, or no answer", fleet_report.EXIT_NOTHING),
        ("fleet.md", "After {word} failures in a row", delivery.FAILURES_IN_A_ROW),
        ("fleet.md", "over the last {:,.0f} GPU-hours alone", whole_report.MOST_PEER_GPU_HOURS),
        ("fleet.md", "where there are fewer than {word}", reachable.FEWEST_ALIKE),
        ("fleet.md", "the trend is of up to {word},", periods.MOST),
        ("fleet.md", "OFU was below {:.1f} % for", 100 * point.IDLE_OFU),
        ("fleet.md", "At most {} are kept", folder.MOST_PAGES),
        ("fleet.md", "({:.0f} GPU-hour and", advice.IDLE_HOURS),
        ("fleet.md", "GPU-hour and {:.0f} % of the measured ones)", 100 * advice.IDLE_SHARE),
        ("fleet.md", "have GPUs below {:.0f} % of their median", 100 * job_result.SLOW),
        ("fleet.md", "lost {:.0f} % of the time of their traces", 100 * advice.TRACED_SHARE),
        ("gpus.md", "with up to {:.0f} % more or fewer SMs", 100 * gpu_models.SM_COUNT_TOLERANCE),
        ("jobs.md", "is cut within a {part} of a second", holders.HANDOVER_SECONDS),
        ("jobs.md", "accurate to {part} a point", 100 * job_state.DISTRIBUTION_STEP),
        ("jobs.md", "values are served for {word} minutes", job_state.GRACE_SECONDS / MINUTE),
        ("jobs.md", "for at most {} ended jobs", job_state.MOST_ENDED),
        ("jobs.md", "the last {} are kept apart", job_state.MOST_RUNS),
        ("jobs.md", "keeps every job for {:.0f} days", state_file.KEEP_SECONDS / DAY),
        ("jobs.md", "at most {:,} of them", state_file.MOST_ROWS),
        ("kubernetes.md", "has not answered for {:.0f} s", pods.PENDING_SECONDS),
        ("kubernetes.md", "then every {:.0f} s (one pod)", pods.NODE_SECONDS),
        ("kubernetes.md", "to {:.0f} minutes (eight)", pods.REFRESH_SECONDS / MINUTE),
        ("kubernetes.md", "other questions every {:.0f} s at most", pods.PACE_SECONDS),
        ("kubernetes.md", "or after {:.0f} s under its own name", pods.HOLD_SECONDS),
        ("kubernetes.md", "10 s to {:.0f} minutes", pods.SLOWEST_SECONDS / MINUTE),
        ("metrics.md", "a tensor activity of {:.0f} % or more", 100 * starting.WORKS),
        ("metrics.md", "after {word} minutes in which kernels ran", starting.BUSY_SECONDS / MINUTE),
        ("metrics.md", "for a {part} longer than usual", progress.SILENCE - 1),
        ("metrics.md", "set by more than {word} second", tick.CLOCK_STEP_SECONDS),
        ("reporting.md", "one report every {:.0f} seconds", poster.EVERY_SECONDS),
        ("reporting.md", "sends the rest in {word} seconds at most", reporter.CLOSE_SECONDS),
        ("reporting.md", "fewer than {} such reads", reported.FEWEST_READS),
        ("reporting.md", "{:.0f} TFLOP/s |", nanochat._OLD_PEAK_FLOPS / 1e12),
        (
            "reporting.md",
            "lines of the last {:.0f} minutes can be compared",
            statements.OLDEST_SECONDS / MINUTE,
        ),
        ("serving.md", "that share is {:.0f} % or more", 100 * served_text.MEMORY_BOUND),
        ("slurm.md", "Without an answer within {} s", squeue.ASK_SECONDS),
        ("slurm.md", "where the last {} are kept", ended_files.MOST_KEPT),
        ("slurm.md", "of root's with mode 0{:o}", job_tokens.DIRECTORY_MODE),
        ("terminal.md", "Up to {} nodes are asked", hosts.MOST_HOSTS),
        ("terminal.md", "The page ends with the last {} changes", logs.MOST_LAST_LINES),
        ("terminal.md", "are asked every {:.0f} s", agents.POLL_SECONDS),
        ("terminal.md", "({} nodes a second at most)", agents.HOSTS_PER_SECOND),
        ("terminal.md", "held for {word} minute or more", gpu_rows.IDLE_SECONDS / MINUTE),
        ("terminal.md", "without tensor work (OFU below {:.1f} %)", 100 * node_json.IDLE_RATIO),
        ("troubles.md", "over {:.0f} KiB; not UTF-8", trusted_files.MAX_BYTES / KIB),
        ("troubles.md", "over {} characters or not printable", job_files.MAX_CHARS),
        (
            "troubles.md",
            "over {part} a MB of log in a minute",
            round(logs.BYTES_PER_SECOND * MINUTE / MIB, 1),
        ),
        ("troubles.md", "over {} files, of which the newest", trusted_files.MAX_FILES),
        ("troubles.md", "| {} | no source can be read", check.EXIT_SOURCE),
        ("troubles.md", "| {} | at least one GPU is not measured", check.EXIT_GPU),
        ("troubles.md", "| {} | a card outside the bounds", validate.EXIT_OUTSIDE),
        ("validation.md", "Each runs for {:.0f} s,", plan.FULL.seconds),
        ("validation.md", "with `--quick` for {:.0f} s.", plan.QUICK.seconds),
        ("validation.md", "in multiples of 16 from {} to", plan.SMALLEST),
        ("validation.md", " to {} (as in the paper", plan.LARGEST),
        ("validation.md", "an MAE of {:.0f} points of OFU", accuracy.ErrorBounds().raw),
        ("validation.md", "OFU and {} of adjusted OFU", accuracy.ErrorBounds().adjusted),
        ("validation.md", "covers less than {part} of the time in", profile.LEAST_ATTRIBUTED),
        ("where.md", "`between_launches` (at most {:.0f} µs)", seconds.QUEUED_GAP),
        ("where.md", "sets their mode ({:o})", trace_files.MODE),
        ("where.md", "then it stays for {word} day,", trace_files.KEPT_SECONDS / DAY),
        ("where.md", "by itself when {word} minutes", trace_watch.SPAN_SECONDS / MINUTE),
        ("access.md", "may show {:.0f} new tokens a second", pod_tokens.PER_SECOND),
        ("access.md", "time for the headers | {:.0f} s", RequestPhase.HEAD.patience),
        ("access.md", "time to take an answer | {:.0f} s", RequestPhase.ANSWER.patience),
        ("access.md", "TLS handshake | {:.0f} s", RequestPhase.HANDSHAKE.patience),
        ("access.md", "TLS handshakes under way | {}", MOST_IN_PHASE[RequestPhase.HANDSHAKE]),
        ("access.md", "that are not taken | {} connections", MOST_IN_PHASE[RequestPhase.UNREAD]),
        ("accuracy.md", "shorter than {:.2f} s or", 0.9 * reading.SHORTEST_WINDOW_SECONDS),
        ("accuracy.md", "or longer than {:.0f} s |", 2 * reading.LONGEST_WINDOW_SECONDS),
        ("explain.md", "more than {:.0f} points + 2 standard", 100 * Thresholds().above),
        ("explain.md", "points + {:.0f} standard errors above", Thresholds().standard_errors),
        ("explain.md", "more than {:.0f} points below OFU", 100 * Thresholds().below),
        ("explain.md", "more than {:.0f} points wider", 100 * Thresholds().widest),
        ("explain.md", "is below {:.0f} % of the limit", 100 * Thresholds().hysteresis),
        ("fleet.md", "the last {} of each state file", state_writer.MOST_TOLD),
        ("terminal.md", "OFU of every GPU in steps of {:.0f} s", history.GPU_STEP_SECONDS),
        ("terminal.md", "MFU of every job in steps of {:.0f} s", history.JOB_STEP_SECONDS),
        ("troubles.md", "a source every {:.0f} s to", sampler.RETRY_SECONDS[0]),
        ("troubles.md", " s to {:.0f} s, until it answers", sampler.RETRY_SECONDS[1]),
        ("troubles.md", "for up to {:.0f} minutes no job ends", driver.BLANK_SECONDS / MINUTE),
        ("where.md", "it has more than {:,} events", ON_A_NODE.events),
        ("where.md", "events or {:.0f} MB", ON_A_NODE.unpacked_bytes / MIB),
    ],
)
def test_a_number_of_the_documentation_is_the_codes(
    page: str, sentence: str, number: float
) -> None:
    text = " ".join((DOCS / page).read_text().split())
    word = WORDS[round(number)] if "{word}" in sentence else ""
    assert sentence.format(number, word=word, part=PARTS.get(number)) in text


def in_year(number: int) -> float:
    return datetime(number, 1, 1, tzinfo=timezone.utc).timestamp()


@pytest.mark.parametrize(
    ("source", "stated", "number"),
    [
        ("normal noise over its median absolute deviation", 1 / normal(0.75), point.NORMAL_MAD),
        ("5 % of normal noise are above it", normal(0.95), tails.SUPPORT),
        ("95 % of normal noise are within it", normal(0.975), accuracy.TWO_SIDED_95),
        ("arXiv:2605.20799, IV-C: SM clock, tensor clock", 1352 / 1830, jobs.USUAL_CLOCK),
        ("arXiv:2605.20799, IV-C: its scatter", 32 / 1352, agent.READ_SPREAD),
        ("arXiv:2605.20799, IV-C: SM clock", 1352e6, simulate.GEMM_CLOCK_HZ),
        ("arXiv:2605.20799, IV-C: its scatter", 32e6, simulate.GEMM_CLOCK_STD_HZ),
        ("variance of any error within a step of 15 MHz", 15e6**2 / 12, clock.ROUNDING_VARIANCE),
        ("joules of a watt over an hour, of a kilowatt", 1000 * HOUR, losses.JOULES_PER_KWH),
        ("minutes of the longest year", 366 * DAY / MINUTE, spec.LONGEST_MINUTES),
        ("capability.h: CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH", 0b110, trace_files._DAC),
        ("dcgm_structs.h: DCGM_ST_TIMEOUT", -11, library.TIMEOUT),
        ("dcgm_structs.h: DCGM_MAX_NUM_DEVICES", 32, library.MOST_DEVICES),
        ("RFC 9110, 5.6.2: the first character of a token", ord("!"), arrivals._FIRST_PRINTABLE),
        ("bcrypt: bytes of a password", 72, read_access.LONGEST_PASSWORD),
        ("2020 in Unix time", in_year(2020), progress.CLOCKS_SET),
        ("the year 5138 in Unix time", in_year(5138), instant.UNIX_LIMIT),
        ("the year 5138 in Unix time", in_year(5138), steps_file.LATEST),
        ("the year 5138 in Unix time", in_year(5138), timeline.MOST_MICROSECONDS / 1e6),
    ],
)
def test_a_number_is_that_of_its_source(source: str, stated: float, number: float) -> None:
    assert number == pytest.approx(stated, rel=0.005)


@pytest.mark.parametrize(
    ("of_client", "of_agent"),
    [
        (steps_file.STEPS, progress_values.STEPS),
        (steps_file.FAR, progress.FAR),
        (steps_file.LATEST, instant.UNIX_LIMIT),
        (identity.LONGEST_RUN, progress_values.LONGEST_RUN),
    ],
)
def test_the_client_which_imports_nothing_has_the_numbers_of_the_agent(
    of_client: float, of_agent: float
) -> None:
    assert of_client == of_agent


def test_the_end_of_a_job_waits_for_two_answers_of_a_slow_agent() -> None:
    """That to the report under way, and to the last one."""
    assert reporter.CLOSE_SECONDS > 2 * channel.TIMEOUT_SECONDS


def test_what_a_client_sends_is_no_more_than_an_agent_takes() -> None:
    assert identity.LONGEST_TOKEN <= pod_tokens.LONGEST_TOKEN
    assert identity.MOST_RECIPE_BYTES < guard.MOST_BODY_BYTES
    assert identity.MOST_RECIPE_BYTES <= reported_model.MOST_RECIPE_BYTES


WRITTEN: tuple[type[BaseModel], ...] = (
    *(MfuReport, FleetSpec, DigestConfig, Prices, Settings),
    *(dcgm.Options, exporter.Options, source.Options, kubernetes.Options, slurm.Options),
    *(web_config._File, KeptServed),
)
"""What others write: reports and recipes, files of fleets, digests and prices, settings."""


def limits(metadata: Iterable[object]) -> Iterator[str]:
    for each in metadata:
        if isinstance(each, FieldInfo):
            yield from limits(each.metadata)
        elif type(each).__module__ == "annotated_types":
            yield repr(each)
        elif pattern := getattr(each, "pattern", None):
            yield f"{pattern!r}"


def fields_of(models: Iterable[type[BaseModel]]) -> Iterator[str]:
    """Each field with its default, its bounds and what it says of itself, of the models in its type too."""
    seen: set[type[BaseModel]] = set()
    waiting = [*models]
    while waiting:
        model = waiting.pop(0)
        if model in seen:
            continue
        seen.add(model)
        for name, field in model.model_fields.items():
            said, kinds = [*limits(field.metadata)], [field.annotation]
            while kinds:
                kind = kinds.pop()
                if isinstance(kind, type) and issubclass(kind, BaseModel):
                    waiting.append(kind)
                said += limits(get_args(kind))
                kinds += get_args(kind)
            default = (
                ""
                if field.is_required()
                else f" = {field.get_default(call_default_factory=True)!r}"
            )
            words = f" # {field.description}" if field.description else ""
            yield f"{model.__name__}.{name}{default} {' '.join(said)}".rstrip() + f"{words}\n"


def test_what_others_may_write_is_bound_as_before(golden: Callable[[str, str], None]) -> None:
    golden("limits.txt", "".join(fields_of(WRITTEN)))
