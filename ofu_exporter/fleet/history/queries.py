"""Names what is asked of a server: series that the recording rules keep, and what stands for them where there are none.

Every expression answers for one hour at its end. `WITHIN` is a millisecond short of the hour, so that a look at the
very end of an hour is not counted for the next as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from ofu_exporter.fleet.hours import HOUR

NAMES = ("job_name", "user", "account", "partition", "namespace", "scheduler", "array_job_id")
"""Labels that the recording rules give to a job's series."""
WITHIN = "[59m59s999ms:5m]"
"""Twelve looks into the hour."""
LOOKS = 12
SHORT_RATE = "[2m15s]"
"""Holds two scrapes that are a minute apart."""
_SINCE_JOB, _SHORT_SINCE_JOB = "[6m15s]", "[3m30s]"
"""The rate of VictoriaMetrics begins at the last scrape before its range, which may be of the job that just ended."""
JOB = "cluster, job_id"
GPU = "cluster, instance, uuid, gpu_instance"


def looks_into(share: float) -> int:
    """How often to look into an hour of which this share is known: the first of a fleet, or one without a server.

    Each look costs samples of all GPUs for the known minutes alone.
    """
    return LOOKS if share >= 1 else 60 if share > 0.25 else 240


class Quantity(NamedTuple):
    name: str
    recorded: str
    """The recorded series, or an expression over recorded series; empty where no rule records it."""
    raw: str
    """The same from the agents' own series. `CLUSTER` stands for the matchers of the cluster and of the jobs that are
    asked for, `AGENTS` for that of the cluster alone, where a series is of no job."""
    is_always_there: bool = False
    """Whether every cluster has it in every hour, so that none in an hour means that no rule kept it."""
    counter: str = ""
    """The agents' own counter that it is the increase of."""

    def of_cluster(self, cluster: str, jobs: str = "") -> str:
        """The expression over the agents' own series, for the jobs that a matcher selects."""
        agents = matcher("cluster", cluster)
        names = {"AGENTS": agents, "CLUSTER": f"{agents},{jobs}" if jobs else agents}
        return _MATCHERS.sub(lambda match: names[match[0]], self.raw)

    def with_looks(self, looks: int) -> Quantity:
        """The same from the agents' own series, by this many looks at shorter rates."""
        within = WITHIN.replace("5m", f"{HOUR / looks:.0f}s")
        raw = self.raw.replace(WITHIN, within).replace(f"/ {LOOKS}", f"/ {looks}")
        return self._replace(
            raw=raw.replace("[5m]", SHORT_RATE).replace(_SINCE_JOB, _SHORT_SINCE_JOB)
        )

    def of_jobs(self, jobs: str) -> str:
        """The expression over recorded series, for the jobs that a matcher selects."""
        return _JOB_SERIES.sub(rf"\g<0>{{{jobs}}}", self.recorded) if jobs else self.recorded


_MATCHERS = re.compile("AGENTS|CLUSTER")
_JOB_SERIES = re.compile(r"\bjob(?:_model)?:\w+:\w+")


def matcher(label: str, value: str) -> str:
    """A matcher for exactly this value."""
    quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{label}="{quoted}"'


def any_of(label: str, values: Iterable[str]) -> str:
    """A matcher for each of these values, whatever is in them."""
    either = "|".join(map(_escaped, sorted(values)))
    return matcher(label, either).replace("=", "=~", 1)


def _escaped(text: str) -> str:
    """The text as a regular expression of RE2 that fits nothing else."""
    return "".join(f"\\{each}" if each in _SPECIAL else each for each in text)


_SPECIAL = r".+*?()|[]{}^$\\"


def over_nodes(value: str, by: str = JOB) -> str:
    """A job's value summed over its nodes, each of which counts once however many scrape jobs tell of it."""
    return f"sum by ({by}) (max by ({by.replace('cluster', 'cluster, instance')}) ({value}))"


def _job_hours(name: str, counter: str) -> Quantity:
    recorded = f"job:{name}_gpu_hours:increase1h"
    raw = f"{over_nodes(f'increase({counter}{{CLUSTER}}[1h])')} / 3600"
    return Quantity(name, recorded, raw, counter=counter)


JOB_HOURS = (
    _job_hours("held", "ofu_job_held_gpu_seconds_total"),
    _job_hours("observed", "ofu_job_gpu_seconds_total"),
    _job_hours("utilized", "ofu_job_utilization_seconds_total"),
    _job_hours("compared", "ofu_job_compared_gpu_seconds_total"),
    _job_hours("compared_mfu", "ofu_job_compared_mfu_seconds_total"),
    _job_hours("compared_utilized", "ofu_job_compared_utilization_seconds_total"),
)
"""GPU-hours of a job in an hour. Recorded, they are samples of their own."""
LOST_PROGRESS = Quantity("no progress", "", "", counter="ofu_job_lost_progress_gpu_seconds_total")
"""What agents count of it, by reason."""


def _by_model(gpus: str, info: str) -> str:
    """Values of GPUs, added up by the model of which `info` says that each is."""
    models = f"topk by ({GPU}) (1, group by ({GPU}, model) ({info}))"
    return f"sum by (cluster, model) ({gpus} * on ({GPU}) group_left (model) {models})"


_SEEN = "count_over_time(ofu_gpu_info{CLUSTER}[1h])"


def _model_hours(name: str, counter: str) -> Quantity:
    hours = f"max by ({GPU}) (increase({counter}{{CLUSTER}}[1h])) / 3600"
    recorded = f"model:{name}_gpu_hours:increase1h"
    return Quantity(name, recorded, _by_model(hours, _SEEN), counter=counter)


def _part_of_jobs(name: str, by: str, counter: str, unit: float = 3600.0) -> Quantity:
    recorded = f"job:{name}:increase1h[59m59s999ms]"
    scale = "" if unit == 1 else f" / {unit:g}"
    return Quantity(
        name,
        f"max by ({by}) (last_over_time({recorded}))",
        f"{over_nodes(f'increase({counter}{{CLUSTER}}[1h])', by)}{scale}",
        counter=counter,
    )


LOST = _part_of_jobs("lost_gpu_hours", f"{JOB}, part", "ofu_job_lost_seconds_total")
"""GPU-hours of a job in which the peak was not used, by part; rules and agents of before have none."""
GAINED = _part_of_jobs("gained_gpu_hours", JOB, "ofu_job_gained_seconds_total")
ENERGY = _part_of_jobs("energy_joules", JOB, "ofu_job_energy_joules_total", 1)
IDLE_ENERGY = ENERGY._replace(
    recorded=ENERGY.recorded.replace("energy", "idle_energy"),
    raw=f"sum by ({JOB}) (max by ({GPU}) (increase(ofu_gpu_idle_energy_joules_total{{AGENTS}}[1h])) "
    f"* on ({GPU}) group_left (job_id) topk by ({GPU}) (1, group by ({GPU}, job_id) (count_over_time("
    f'ofu_gpu_info{{job_id!="",CLUSTER}}[1h])) unless on ({GPU}) count by ({GPU}) '
    f"(group by ({GPU}, job_id) (count_over_time(ofu_gpu_info{{AGENTS}}[1h]))) > 1))",
)
"""Joules in windows in which no kernel ran, of GPUs that one job had for the whole hour; no agent counts it by job."""

MODEL_HOURS = (
    _model_hours("observed", "ofu_gpu_observed_seconds_total"),
    _model_hours("utilized", "ofu_gpu_utilization_seconds_total"),
)
"""GPU-hours by model in an hour, held by a job or not."""

_OBSERVED = f"max by ({GPU}) (rate(ofu_gpu_observed_seconds_total{{AGENTS}}[5m]))"
_UTILIZED = f"max by ({GPU}) (rate(ofu_gpu_utilization_seconds_total{{AGENTS}}[5m]))"


def _jobless(name: str, gpus: str) -> Quantity:
    of_jobs = (
        f'(last_over_time(ofu_gpu_info{{job_id!="",CLUSTER}}{_SINCE_JOB}) or '
        f"last_over_time(ofu_gpu_shared{{CLUSTER}}{_SINCE_JOB}))"
    )
    hours = _by_model(f"sum_over_time(({gpus} unless on ({GPU}) {of_jobs}){WITHIN})", _SEEN)
    return Quantity(
        name,
        f"max by (cluster, model) (last_over_time(model:jobless_{name}_gpus:avg1h[59m59s999ms]))",
        f"{hours} / {LOOKS} or 0 * count by (cluster, model) ({_SEEN})",
        is_always_there=True,
    )


JOBLESS = (
    _jobless("observed", _OBSERVED),
    _jobless("utilized", _UTILIZED),
    _jobless("idle", f"{_OBSERVED} and {_UTILIZED} < 0.001 * {_OBSERVED}"),
)
"""GPU-hours by model of GPUs that no job held: measured, at the full peak, and without tensor activity."""

AGENTS = f"count by (cluster) (count_over_time(ofu_exporter_build_info{WITHIN}))"
"""Agents whose own series the server has, by cluster."""

RAW_NAMES = (
    f"count by ({JOB}, {', '.join(NAMES)}, framework) (label_replace(count_over_time("
    'ofu_job_info{CLUSTER}[1h]), "namespace", "$1", "exported_namespace", "(.+)"))'
)

_TELL_OF_NODES = ("node:ofu_gpu_info:topk1", "ofu_exporter_build_info")
_PRESENT = (
    f"group by (cluster, instance) ({' or '.join(f'{each}{{NODES}}' for each in _TELL_OF_NODES)})"
)
PRESENT = f"last_over_time(({_PRESENT})[10m:5m])"
"""1 for every node that is there. `NODES` stands for a matcher of nodes."""
_BEFORE = f"max_over_time(({_PRESENT})[1d:1h] offset 1h)"
ABSENT = f"({_BEFORE} - (sum_over_time(({_PRESENT}){WITHIN}) / {LOOKS} or 0 * {_BEFORE})) > 0.05"
"""The share of the hour in which a node was not seen, one look or more, of nodes that were there in the day before."""


def looks_at_nodes(hours: int) -> str:
    """In how many of every second look of these hours each node was there, if one series tells of all of them."""
    within = f"[{60 * hours - 1}m59s999ms:10m]"
    looks = " or ".join(f"count_over_time({each}{within})" for each in _TELL_OF_NODES)
    return f"max by (cluster, instance) ({looks})"


NODE_GPUS = (
    "sum by (cluster, instance, model) (last_over_time(gpu:ofu_gpu_share:ratio{NODES}[1h])) or "
    f"sum by (cluster, instance, model) ((max by ({GPU}) (last_over_time(ofu_gpu_instance_share_ratio{{NODES}}[1h])) "
    f"or group by ({GPU}) (last_over_time(ofu_gpu_info{{NODES}}[1h]))) * on ({GPU}) group_left (model) "
    f"topk by ({GPU}) (1, group by ({GPU}, model) (last_over_time(ofu_gpu_info{{NODES}}[1h]))))"
)
"""GPUs of a node, by model."""

NODE_UUIDS = (
    "group by (instance, uuid) (last_over_time(gpu:ofu_gpu_info:topk1{NODES}[1h]) or "
    "last_over_time(ofu_gpu_info{NODES}[1h]))"
)
"""1 for every GPU of a node."""
NODE_JOB = "cluster, instance, job_id"
SEEN_JOBS = f"max by ({NODE_JOB}) (timestamp(ofu_job_held_gpu_seconds_total{{NODES}}))"
"""When jobs were last seen on nodes."""
HELD_GPUS = f"max by ({NODE_JOB}) (rate(ofu_job_held_gpu_seconds_total{{NODES}}{SHORT_RATE}))"
"""GPUs that jobs have of nodes."""
SEEN_NODES = "max by (cluster, instance) (timestamp(ofu_exporter_build_info{NODES}))"
"""When nodes were last seen."""


_INFO = "ofu_gpu_info{CLUSTER}"
KNOWN = f"(max by ({GPU}) (ofu_gpu_instance_share_ratio{{AGENTS}}) or group by ({GPU}) ({_INFO}))"
INSTALLED = Quantity(
    "installed",
    f"sum_over_time(model:ofu_gpu_share:sum{WITHIN}) / {LOOKS}",
    f"sum_over_time(({_by_model(KNOWN, _INFO)}){WITHIN}) / {LOOKS}",
    is_always_there=True,
)
"""GPU-hours of the GPUs that agents know of."""
COVERED = Quantity(
    "covered",
    f"max by (cluster) (count_over_time(model:ofu_gpu_share:sum{WITHIN})) / {LOOKS}",
    f"count_over_time((count by (cluster) (ofu_gpu_info{{CLUSTER}})){WITHIN}) / {LOOKS}",
    is_always_there=True,
)
"""Share of the hour of which anything is known of the cluster."""

SIZE = Quantity(
    "size",
    f"max by ({JOB}) (max_over_time(job:ofu_job_held_gpu_seconds:rate5m[59m59s999ms]))",
    f"max_over_time(({over_nodes('rate(ofu_job_held_gpu_seconds_total{CLUSTER}[5m])')}){WITHIN})",
    is_always_there=True,
)
"""Most GPUs of a job at once; only a part of those of one that lasts some minutes."""
SIZE_OF_SHORT = Quantity(
    "GPUs of short jobs",
    "",
    f"sum by ({JOB}) (group by ({GPU}, job_id) (last_over_time(ofu_gpu_info{{CLUSTER}}[1h])) * on ({GPU}) "
    f"group_left () (max by ({GPU}) (last_over_time(ofu_gpu_instance_share_ratio{{AGENTS}}[1h])) or "
    f"group by ({GPU}) (last_over_time(ofu_gpu_info{{CLUSTER}}[1h]))))",
)
"""All GPUs that a job had in the hour, however briefly."""

RAW_MEASURED = over_nodes("rate(ofu_job_gpu_seconds_total{CLUSTER}[5m])")
RAW_UTILIZED = over_nodes("rate(ofu_job_utilization_seconds_total{CLUSTER}[5m])")
"""GPUs of jobs that are measured, and GPUs' worth of peak that jobs use."""


def activity(gpus: str, holders: str) -> str:
    """Tensor activity of jobs: of the GPUs that a matcher selects, each by its measured time, and of who holds them."""
    active = f"avg by ({GPU}) (avg_over_time(ofu_gpu_tensor_active_ratio{{{gpus}}}[5m]))"
    measured = f"max by ({GPU}) (rate(ofu_gpu_observed_seconds_total{{{gpus}}}[5m]))"
    above, below = (
        f"sum by ({JOB}) (({each}) * on ({GPU}) group_left (job_id) {holders})"
        for each in (f"{active} * {measured}", f"{measured} and {active}")
    )
    return f"{above} / ({below} > 0)"


_OLDER_IDLE = (
    f"max by ({JOB}) (sum_over_time((job:ofu_job_gpu_seconds:rate5m and on ({JOB}) "
    f"(job:ofu:ratio_rate5m < 0.001)){WITHIN}) / {LOOKS}) or "
    f"max by ({JOB}) (sum_over_time(job:idle_gpus:count1h{WITHIN}) / {LOOKS})"
)
"""What rules of before kept: of whole jobs, or of single GPUs once they had been idle for an hour."""
HAS = f'max by ({GPU}, job_id) (ofu_gpu_info{{job_id!="",CLUSTER}})'


def holder_since(ago: str) -> str:
    """The job that has a GPU now and had it this long ago."""
    return f"topk by ({GPU}) (1, {HAS} and {HAS.replace('}', f'}} offset {ago}')})"


_IS_IDLE = f"({_UTILIZED} < bool 0.001 * {_OBSERVED}) * on ({GPU}) group_left (job_id) {holder_since('5m')}"
IDLE = Quantity(
    "idle",
    f"max by ({JOB}) (last_over_time(job:idle_gpu_hours:avg1h[59m59s999ms])) or {_OLDER_IDLE}",
    f"sum by ({JOB}) (sum_over_time(({_IS_IDLE} * on ({GPU}) group_left () {KNOWN}){WITHIN})) / {LOOKS}",
)
"""Measured GPU-hours in which a GPU that the job had did not use its tensor pipes for five minutes."""

VERDICT = Quantity(
    "verdict",
    f"max by ({JOB}, verdict) (sum_over_time(job:ofu_job_divergence_verdict:sum{WITHIN}) / {LOOKS})",
    f"sum_over_time(({over_nodes('ofu_job_divergence_verdict{CLUSTER}', f'{JOB}, verdict')}){WITHIN}) / {LOOKS}",
)
"""Node-hours for which agents held a verdict on a job."""
CAUSE = Quantity(
    "cause",
    f"max by ({JOB}, cause) (sum_over_time(job:ofu_job_divergence_cause:sum{WITHIN}) / {LOOKS})",
    f"sum_over_time(({over_nodes('ofu_job_divergence_cause{CLUSTER}', f'{JOB}, cause')}){WITHIN}) / {LOOKS}",
)
"""Node-hours for which agents named a cause of a job's divergence as the likeliest."""
FINDING = Quantity(
    "finding",
    f"max by ({JOB}, finding) (max_over_time(job:ofu_job_finding:ratio{WITHIN}))",
    f"max_over_time(({over_nodes('ofu_job_finding_seconds_total{CLUSTER}', f'{JOB}, finding')} / on ({JOB}) "
    f"group_left () ({over_nodes('ofu_job_traced_seconds_total{CLUSTER}')} > 0)){WITHIN})",
)
"""Share of the time of a job's traced ranks that a finding cost at most."""

JOB_MODELS = Quantity(
    "models of jobs",
    f"max by ({JOB}, model) (last_over_time(job_model:ofu_gpu_info:avg1h[59m59s999ms]))",
    f"sum by ({JOB}, model) (sum_over_time((group by ({GPU}, job_id, model) "
    f'(ofu_gpu_info{{job_id!="",CLUSTER}}) * on ({GPU}) group_left () {KNOWN}){WITHIN})) / {LOOKS}',
    is_always_there=True,
)
"""GPUs of each model that a job had. Rules of before lack the series, which is then asked of the agents' own."""
TARGET = "max(last_over_time(fleet:ofu_target:ratio[1d]))"
SIMULATED = Quantity(
    "simulated",
    f'count_values by (cluster) ("simulated", '
    f"max_over_time(cluster:ofu_exporter_simulated:max{WITHIN}))",
    f'count_values by (cluster) ("simulated", '
    f"max_over_time(ofu_exporter_simulated{{AGENTS}}{WITHIN}))",
    is_always_there=True,
)
"""Agents, or clusters, by whether they show simulated values: 0 or 1 in the label `simulated`."""
MEASURING = f"count by (cluster) (count_over_time((ofu_exporter_simulated == 0){WITHIN}))"
"""Agents that show none: the record of a cluster with one that does tells of no other."""
