"""The fleet: OFU over time, by model, by user, and what is wasted."""

from __future__ import annotations

from deploy.grafana.parts import (
    CLUSTER,
    EVALUATED,
    GPU_HOURS,
    ONLY_FAULTS,
    USER,
    Json,
    bars,
    column,
    dashboard,
    lines,
    number,
    query,
    row,
    table,
)

_C = 'cluster=~"$cluster"'
_U = f'{_C},user=~"$user"'
_TO_JOB = [
    {"title": "Open the job", "url": "/d/ofu-job?var-job=${__value.raw}&${__url_time_range}"}
]


def _over(numerator: str, denominator: str, by: str, of: str = _U) -> str:
    """A sum over a sum, never a mean of ratios."""
    return f"sum by ({by}) ({numerator}{{{of}}}) / (sum by ({by}) ({denominator}{{{of}}}) > 0)"


_USED = "owner:ofu_job_utilization_seconds:rate5m"
_SEEN = "owner:ofu_job_gpu_seconds:rate5m"
_HELD = "owner:ofu_job_held_gpu_seconds:rate5m"
_MFU = "owner:ofu_job_compared_mfu_seconds:rate15m"
_COMPARED = "owner:ofu_job_compared_gpu_seconds:rate15m"
_GPU_USED = "cluster:ofu_gpu_utilization_seconds:rate5m"
_GPU_SEEN = "cluster:ofu_gpu_observed_seconds:rate5m"


def _hours(kind: str, by: str) -> str:
    return f"sum by ({by}) (sum_over_time(owner:{kind}_gpu_hours:increase1h{{{_U}}}[$__range]))"


def _hour(series: str, of: str = _C) -> str:
    """What the rules recorded of the last whole hour, added up."""
    return f"sum(last_over_time({series}{{{of}}}[1h]))"


def _without_progress(reasons: str) -> str:
    return _hour("job:lost_progress_gpu_hours:sum1h", f'{_C},reason=~"{reasons}"')


_STATED = "done_again|evaluation|checkpoint"
_THERE = f"sum(avg_over_time(model:ofu_gpu_share:sum{{{_C}}}[1h]))"
_HELD_HOUR = _hour("owner:held_gpu_hours:increase1h")
_LEFT = f"({_HELD_HOUR} - {_without_progress('.*')})"
_AGAIN = f"({_without_progress('done_again')} or vector(0))"
_WORK = (
    f"({_hour('owner:utilized_gpu_hours:increase1h')} - {_hour('job:lost_progress_utilized_gpu_hours:sum1h')})"
    f" * {_LEFT} / ({_LEFT} + {_AGAIN})"
)
"""GPU-hours at the full peak in the progress: steps done again are as fast as others."""


def _lost_by(label: str, title: str) -> Json:
    lost = f"sum by ({label}) (sum_over_time(job:lost_progress_gpu_hours:sum1h{{{_U}}}[$__range]))"
    return table(
        f"Without progress, by {title}",
        GPU_HOURS,
        {
            "without progress": query(f"topk(15, {lost})", instant=True),
            "held": query(_hours("held", label), instant=True),
        },
        description=f"GPU-hours without progress of each {title}'s jobs, over the whole hours of the shown range.",
        size=(6, 9),
    )


def _by(label: str, title: str) -> Json:
    of = f'{_U},{label}!=""'
    return lines(
        f"OFU by {title}",
        "percentunit",
        [query(f"topk(15, {_over(_USED, _SEEN, label, of)})", f"{{{{{label}}}}}")],
        description=f"OFU of the jobs of each {title}, over the GPUs they hold.",
        min=0,
    )


DASHBOARD = dashboard(
    "fleet",
    "OFU: fleet",
    "How much of the GPUs' floating-point capability is used, by whom, and how much is wasted.",
    [CLUSTER, USER],
    [
        row("Now"),
        number(
            "OFU, all GPUs",
            "percentunit",
            _over(_GPU_USED, _GPU_SEEN, "", _C),
            description="OFU of all measured GPUs, held by a job or not. Where NVML's clock is read, it can be "
            "11.5 % of itself too high: docs/accuracy.md.",
        ),
        number(
            "OFU, jobs",
            "percentunit",
            _over(_USED, _SEEN, ""),
            description="OFU of the GPUs that jobs hold.",
        ),
        number(
            "MFU, jobs that report",
            "percentunit",
            _over(_MFU, _COMPARED, ""),
            description="MFU that jobs report, over the GPU-seconds that reports cover.",
        ),
        number(
            "GPUs measured",
            "short",
            f"sum({_GPU_SEEN}{{{_C}}})",
            description="GPUs whose OFU is measured.",
        ),
        number(
            "GPUs held by jobs",
            "short",
            f"sum({_HELD}{{{_U}}})",
            description="GPUs that jobs hold, measured or not.",
        ),
        number(
            "GPUs not measured",
            "short",
            f"sum(cluster:ofu_gpu_unavailable:sum{{{_C}}}) or vector(0)",
            description="GPUs that have no OFU now; the reasons are at the bottom.",
        ),
        row("OFU over time"),
        lines(
            "OFU and MFU",
            "percentunit",
            [
                query(_over(_GPU_USED, _GPU_SEEN, "", _C), "OFU, all GPUs"),
                query(_over(_USED, _SEEN, ""), "OFU, jobs"),
                query(_over(_MFU, _COMPARED, ""), "MFU, jobs that report"),
                query("max(fleet:ofu_target:ratio)", "target"),
            ],
            description="The fleet's OFU, that of the GPUs that jobs hold, and what jobs report.",
            size=(24, 9),
            min=0,
        ),
        lines(
            "OFU by GPU model",
            "percentunit",
            [
                query(
                    _over(
                        "model:ofu_gpu_utilization_seconds:rate5m",
                        "model:ofu_gpu_observed_seconds:rate5m",
                        "model",
                        _C,
                    ),
                    "{{model}}",
                )
            ],
            description="OFU of all measured GPUs of a model, held by a job or not.",
            min=0,
        ),
        _by("user", "user"),
        _by("partition", "partition"),
        lines(
            "GPUs held, by user",
            "short",
            [query(f"topk(15, sum by (user) ({_HELD}{{{_U}}}))", "{{user}}")],
            description="GPUs that each user's jobs hold, measured or not.",
            stacked=True,
        ),
        row("What became of the capacity"),
        lines(
            "The chain, hour by hour",
            "percentunit",
            [
                query(f"{_HELD_HOUR} / {_THERE}", "held by jobs"),
                query(
                    f"({_HELD_HOUR} - {_without_progress('starting|held_idle|alone')}) / {_THERE}",
                    "all GPUs at work",
                ),
                query(f"{_LEFT} / {_THERE} and on () {_without_progress(_STATED)}", "progress"),
                query(f"{_WORK} / {_THERE}", "its work: OFU"),
            ],
            description="Shares of the installed GPU-hours. Progress has a line only if jobs state their steps.",
            size=(12, 9),
            min=0,
        ),
        _lost_by("user", "user"),
        _lost_by("account", "account"),
        bars(
            "Held without progress, hour by hour",
            GPU_HOURS,
            [
                query(
                    f"sum by (reason) (last_over_time(job:lost_progress_gpu_hours:sum1h{{{_U}}}[1h]))",
                    "{{reason}}",
                )
            ],
            description="GPU-hours that jobs held without progress, by reason; each counts once.",
            size=(24, 7),
        ),
        row("GPU-hours and waste"),
        bars(
            "Waste by user, hour by hour",
            GPU_HOURS,
            [
                query(
                    f"topk(15, sum by (user) (last_over_time(owner:wasted_gpu_hours:increase1h{{{_U}}}[1h])))",
                    "{{user}}",
                )
            ],
            description="GPU-hours by which jobs missed the target in the last hour. Below 0: above the target.",
        ),
        lines(
            "Waste of the clusters, hour by hour",
            GPU_HOURS,
            [
                query(
                    f"sum by (cluster) (last_over_time(cluster:wasted_gpu_hours:increase1h{{{_C}}}[1h]))",
                    "all GPUs {{cluster}}",
                ),
                query(
                    f"sum by (cluster) (last_over_time(owner:wasted_gpu_hours:increase1h{{{_C}}}[1h]))",
                    "held by jobs {{cluster}}",
                ),
            ],
            description="GPU-hours short of the target. The difference between the lines is GPUs that no job holds.",
        ),
        table(
            "Users",
            GPU_HOURS,
            {
                "waste": query(_hours("wasted", "user"), instant=True),
                "held": query(_hours("held", "user"), instant=True),
                "OFU": query(
                    f"{_hours('utilized', 'user')} / ({_hours('observed', 'user')} > 0)",
                    instant=True,
                ),
            },
            overrides=[column("OFU", unit="percentunit")],
            description="GPU-hours and their OFU, over the whole hours of the shown range.",
        ),
        table(
            "Largest jobs",
            "short",
            {
                "GPUs": query(
                    f"topk(20, job:ofu_job_held_gpu_seconds:rate5m{{{_U}}})", instant=True
                ),
                "OFU": query(
                    f"job:ofu:ratio_rate5m{{{_U}}} and topk(20, job:ofu_job_held_gpu_seconds:rate5m{{{_U}}})",
                    instant=True,
                ),
                "MFU": query(
                    f"job:mfu:ratio_rate15m{{{_U}}} and topk(20, job:ofu_job_held_gpu_seconds:rate5m{{{_U}}})",
                    instant=True,
                ),
            },
            hidden=("scheduler", "array_job_id"),
            overrides=[
                column("OFU", unit="percentunit"),
                column("MFU", unit="percentunit"),
                column("job_id", links=_TO_JOB),
            ],
            description="The jobs that hold the most GPUs now.",
        ),
        row("What is not measured"),
        lines(
            "GPUs not measured, by reason",
            "short",
            [query(f"sum by (reason) (cluster:ofu_gpu_unavailable:sum{{{_C}}})", "{{reason}}")],
            description=f"{ONLY_FAULTS} GPUs that have no OFU, and why.",
            size=(24, 7),
            stacked=True,
        ),
    ],
    step=EVALUATED,
)
