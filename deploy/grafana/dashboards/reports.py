"""The quality of reports: every job's MFU against its OFU, verdicts, causes, and what was turned away."""

from __future__ import annotations

from deploy.grafana.parts import (
    CLUSTER,
    EVALUATED,
    ONLY_FAULTS,
    USER,
    column,
    dashboard,
    lines,
    number,
    panel,
    query,
    row,
    table,
)

_C = 'cluster=~"$cluster"'
_U = f'{_C},user=~"$user"'
_ABOVE = f'job:ofu_job_divergence_verdict:sum{{{_U},verdict="mfu_above_ofu"}} > 0'
_VERDICTS = f"job:ofu_job_divergence_verdict:sum{{{_U}}}"
_HIDDEN = ("scheduler", "array_job_id", "account", "namespace")
_TO_JOB = [
    {"title": "Open the job", "url": "/d/ofu-job?var-job=${__value.raw}&${__url_time_range}"}
]

_SCATTER = panel(
    "xychart",
    "MFU against OFU, a point per job",
    "percentunit",
    [
        query(
            f"sum by (cluster, job_id, job_name, user) (job:ofu_compared:ratio{{{_U}}})",
            instant=True,
        ),
        query(f"sum by (cluster, job_id, job_name, user) (job:mfu:ratio{{{_U}}})", instant=True),
    ],
    description="Since the beginning of each job. Above the diagonal is impossible; far below it, work is left out.",
    size=(12, 12),
    transformations=[
        {"id": "merge", "options": {}},
        {
            "id": "organize",
            "options": {
                "renameByName": {"Value #A": "OFU", "Value #B": "MFU"},
                "excludeByName": {"Time": True},
            },
        },
    ],
    options={
        "mapping": "manual",
        "series": [
            {
                "x": {"matcher": {"id": "byName", "options": "OFU"}},
                "y": {"matcher": {"id": "byName", "options": "MFU"}},
            }
        ],
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False},
        "tooltip": {"mode": "single", "sort": "none"},
    },
    min=0,
    max=1,
    custom={"show": "points", "pointSize": {"fixed": 8}},
)

DASHBOARD = dashboard(
    "reports",
    "OFU: report quality",
    "Whether the MFU that jobs report is credible, and what is wrong if it is not.",
    [CLUSTER, USER],
    [
        number(
            "Jobs that report",
            "short",
            f"count(job:mfu:ratio{{{_U}}})",
            description="Jobs with a report that could be compared.",
            size=(6, 4),
        ),
        number(
            "Jobs that do not",
            "short",
            f"count(job:ofu_job_info:topk1{{{_U}}} unless on (cluster, job_id) job:mfu:ratio{{{_U}}}) or vector(0)",
            description="Jobs without a report that could be compared.",
            size=(6, 4),
        ),
        number(
            "GPUs covered by reports",
            "percentunit",
            f"sum(owner:ofu_job_compared_gpu_seconds:rate15m{{{_U}}})"
            f" / (sum(owner:ofu_job_gpu_seconds:rate5m{{{_U}}}) > 0)",
            description="Share of the GPUs held by jobs for which an MFU is reported.",
            size=(6, 4),
        ),
        number(
            "Jobs that over-report",
            "short",
            f"count(count by (cluster, job_id) ({_ABOVE})) or vector(0)",
            description="Jobs whose MFU is above their OFU, which is impossible.",
            size=(6, 4),
        ),
        _SCATTER,
        table(
            "Jobs by difference",
            "percentunit",
            {
                "MFU - OFU": query(f"job:mfu_minus_ofu:ratio{{{_U}}}", instant=True),
                "MFU": query(f"job:mfu:ratio{{{_U}}}", instant=True),
                "OFU": query(f"job:ofu_compared:ratio{{{_U}}}", instant=True),
            },
            hidden=_HIDDEN,
            overrides=[column("job_id", links=_TO_JOB)],
            description="Since the beginning of each job, over the seconds that its reports cover.",
            size=(12, 12),
        ),
        row("Verdicts and causes"),
        lines(
            "Jobs by verdict",
            "short",
            [query(f"count by (verdict) ({_VERDICTS})", "{{verdict}}")],
            description="A job with different verdicts on two nodes counts for both.",
            stacked=True,
        ),
        lines(
            "Jobs by likeliest cause",
            "short",
            [query(f"count by (cause) (job:ofu_job_divergence_cause:sum{{{_U}}})", "{{cause}}")],
            description="The likeliest cause while MFU and OFU differ.",
            stacked=True,
        ),
        row("Reports"),
        lines(
            "Reports by outcome",
            "reqps",
            [query(f"sum by (outcome) (job:ofu_job_reports:rate15m{{{_U}}})", "{{outcome}}")],
            description="Reports per second: accepted, or the reason why not.",
        ),
        lines(
            "Time since the last report",
            "s",
            [
                query(
                    f"time() - bottomk(15, job:ofu_job_report_timestamp_seconds:max{{{_U}}})",
                    "{{job_id}} {{job_name}}",
                )
            ],
            description="The jobs that have not reported for the longest time.",
            min=0,
        ),
        lines(
            "Reports turned away, by reason",
            "reqps",
            [
                query(
                    f"sum by (reason) (cluster:ofu_exporter_rejected_reports:rate15m{{{_C}}})",
                    "{{reason}}",
                )
            ],
            description=f"{ONLY_FAULTS} Reports per second that agents refused.",
            size=(24, 7),
            stacked=True,
        ),
    ],
    step=EVALUATED,
)
