"""Builds the parts of the agent from its settings."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pydantic import BaseModel

from ofu_exporter import schedulers, sources
from ofu_exporter.agent.attribution import Attribution
from ofu_exporter.agent.lanes import SamplingPace
from ofu_exporter.agent.process import raise_descriptor_limit
from ofu_exporter.agent.sampler import Owners, Sampler, SamplingPlan
from ofu_exporter.agent.source_opening import SourceBuilder
from ofu_exporter.errors import ConfigError
from ofu_exporter.hardware.gpu_models import ROWS, GpuModel, custom_row
from ofu_exporter.ofu.divergence import Thresholds
from ofu_exporter.ofu.tick import State
from ofu_exporter.reports.entry import Policy
from ofu_exporter.schedulers import Scheduler
from ofu_exporter.serving.access import Access, PodOf, SiteTokens
from ofu_exporter.serving.connection_limit import (
    FEWEST_CONNECTIONS,
    MOST_CONNECTIONS,
    ConnectionLimit,
)
from ofu_exporter.settings import Configured, GpuSetting, Settings
from ofu_exporter.values.snapshot import Snapshot

if TYPE_CHECKING:
    from ofu_exporter.agent.cycle_files import CycleFiles


def custom_rows(settings: Iterable[GpuSetting]) -> list[GpuModel]:
    """The user's GPU models as rows of the table, each with a key that no other row has."""
    taken = {row.key for row in ROWS}
    unique = []
    for row in (custom_row(**setting.model_dump()) for setting in settings):
        numbered = (f"{row.key} ({number})" for number in itertools.count(2))
        key = next(key for key in itertools.chain([row.key], numbered) if key not in taken)
        taken.add(key)
        unique.append(replace(row, key=key))
    return unique


def build_sampler(
    configured: Configured,
    publish: Callable[[Snapshot], None],
    owners: Owners | None = None,
    state: State | None = None,
) -> Sampler:
    """A sampler over the configured source, or over those that `auto` tries."""
    settings = configured.settings
    plan = SamplingPlan(
        candidates=[_candidate(name, options) for name, options in configured.sources.items()],
        pace=SamplingPace(settings.interval, settings.clock_interval),
        rows=custom_rows(settings.gpus),
    )
    return Sampler(plan, publish, time.monotonic, owners, state)


def _candidate(name: str, options: BaseModel) -> SourceBuilder:
    return SourceBuilder(name, lambda: sources.load(name).Source(options, time.monotonic))


def build_cycles(settings: Settings, snapshot: Callable[[], Snapshot | None]) -> CycleFiles | None:
    """What reads NVRx's files, where the settings name their folder."""
    if settings.nvrx_folder is None:
        return None
    from ofu_exporter.agent.cycle_files import CycleFiles  # noqa: PLC0415 - most nodes have no NVRx

    return CycleFiles(settings.nvrx_folder, snapshot)


def build_attribution(configured: Configured, cycles: CycleFiles | None = None) -> Attribution:
    """The attribution over the configured schedulers, or over those that `auto` looks for."""
    builders = [_scheduler(name, options) for name, options in configured.schedulers.items()]
    settings = configured.settings
    is_auto = settings.scheduler == "auto"
    restarts = cycles.restarts if cycles else lambda _: None
    return Attribution(builders, settings.owner_max_age, time.monotonic, is_auto, restarts)


def _scheduler(name: str, options: BaseModel) -> tuple[str, Callable[[], Scheduler]]:
    return name, lambda: schedulers.load(name).Scheduler(options)


def what_is_sampled(configured: Configured) -> tuple[object, ...]:
    """Everything that a sampler and an attribution are built from. A reload restarts them only if this has changed."""
    settings = configured.settings
    return (
        *(configured.sources, configured.schedulers, settings.scheduler == "auto"),
        *(settings.interval, settings.clock_interval, settings.gpus, settings.owner_max_age),
    )


def build_access(settings: Settings) -> Access:
    """The rules of who may report. Raises ConfigError."""
    path = settings.report_token_file
    site = SiteTokens(path) if path else None
    return Access(site, settings.job_tokens, _pod_of() if settings.pod_tokens else None)


def _pod_of() -> PodOf:
    """Asks the API server whose token it is."""
    # Few agents need these.
    from ofu_exporter.schedulers.kubernetes import api_server, pod_tokens  # noqa: PLC0415

    api = api_server.ApiServer()
    if not api.configured:
        raise ConfigError(
            "pod_tokens: there is no service account here with which to ask the API server; "
            "the pod needs automountServiceAccountToken"
        )
    return pod_tokens.PodTokens(partial(pod_tokens.pod_of, api)).pod


def connection_limit() -> ConnectionLimit:
    """The limit on connections: half of the descriptors. The other half is for drivers, files and sources."""
    half = raise_descriptor_limit() // 2
    return ConnectionLimit(max(FEWEST_CONNECTIONS, min(MOST_CONNECTIONS, half)))


def report_policy(settings: Settings) -> Policy:
    thresholds = Thresholds(
        above=settings.mfu_above,
        below=settings.mfu_below,
        above_relative=settings.mfu_above_relative,
        below_relative=settings.mfu_below_relative,
    )
    return Policy(settings.horizon, thresholds, settings.unowned_reports, settings.recipe_folder)
