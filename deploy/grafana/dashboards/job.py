"""One job: its OFU and MFU on one axis, its GPUs side by side, and where the two differ why."""

from __future__ import annotations

from deploy.grafana.parts import (
    CLUSTER,
    EVALUATED,
    GPU_HOURS,
    USER,
    areas_of_parts,
    cells,
    choice,
    dashboard,
    lines,
    number,
    query,
    row,
    states,
    table,
)

_J = 'cluster=~"$cluster",job_id="$job"'

DASHBOARD = dashboard(
    "job",
    "OFU: job",
    "What one job does with its GPUs, and whether the MFU that it reports is possible.",
    [
        CLUSTER,
        USER,
        choice(
            "job",
            "Job",
            'label_values(job:ofu_job_info:topk1{cluster=~"$cluster",user=~"$user"}, job_id)',
            many=False,
        ),
    ],
    [
        table(
            "Job",
            "short",
            {"GPUs": query(f"job:ofu_job_held_gpu_seconds:rate5m{{{_J}}}", instant=True)},
            description="The job's names, and the GPUs it holds, measured or not.",
            size=(24, 3),
        ),
        number(
            "OFU",
            "percentunit",
            f"sum(sum_over_time(job:ofu_job_utilization_seconds:rate5m{{{_J}}}[$__range]))"
            f" / sum(sum_over_time(job:ofu_job_gpu_seconds:rate5m{{{_J}}}[$__range]))",
            description="OFU of the job over the shown range.",
        ),
        number(
            "MFU",
            "percentunit",
            f"max(job:mfu:ratio{{{_J}}})",
            description="MFU that the job reports, since its beginning.",
        ),
        number(
            "OFU of the same seconds",
            "percentunit",
            f"max(job:ofu_compared:ratio{{{_J}}})",
            description="OFU over the seconds that the job's reports cover, since its beginning.",
        ),
        number(
            "MFU - OFU",
            "percentunit",
            f"max(job:mfu_minus_ofu:ratio{{{_J}}})",
            description="Above 0 is impossible; about a tenth of OFU below is normal.",
        ),
        number(
            "GPU-hours",
            GPU_HOURS,
            f"max(job:held_gpu_hours:sum{{{_J}}})",
            description="GPU-hours that the job has held until now.",
        ),
        number(
            "Measured",
            "percentunit",
            f"sum(job:ofu_job_gpu_seconds:rate5m{{{_J}}})"
            f" / (sum(job:ofu_job_held_gpu_seconds:rate5m{{{_J}}}) > 0)",
            description="Share of the GPUs that the job holds whose OFU is measured.",
        ),
        row("OFU and MFU"),
        lines(
            "OFU and MFU",
            "percentunit",
            [
                query(f"max(job:ofu:ratio_rate5m{{{_J}}})", "OFU"),
                query(f"max(job:mfu:ratio_rate15m{{{_J}}})", "MFU, as reported"),
                query(f"max(job:ofu_compared:ratio_rate15m{{{_J}}})", "OFU of the same seconds"),
            ],
            description="OFU of the GPUs, and the MFU that the job reports.",
            size=(24, 9),
            min=0,
        ),
        areas_of_parts(
            "Where the peak went",
            f"sum(job:ofu_job_utilization_seconds:rate5m{{{_J}}})"
            f" / sum(job:ofu_job_gpu_seconds:rate5m{{{_J}}} > 0)",
            f"sum by (part) (job:ofu_job_lost_seconds:rate5m{{{_J}}})"
            f" / on () group_left () sum(job:ofu_job_gpu_seconds:rate5m{{{_J}}} > 0)",
            description="What the job used of its GPUs' peak, and where the rest went. The sum is above 100 % while "
            "the clock is above the tensor clock.",
            size=(24, 9),
        ),
        lines(
            "OFU = activity x clock",
            "percentunit",
            [
                query(f"max(job:ofu:ratio_rate5m{{{_J}}})", "OFU"),
                query(f"max(job:ofu_gpu_tensor_active:avg5m{{{_J}}})", "tensor activity"),
                query(f"max(job:clock:ratio_rate5m{{{_J}}})", "SM clock / tensor clock"),
            ],
            description="Low activity is a problem of the job; a low clock is a problem of power or cooling.",
            min=0,
        ),
        lines(
            "MFU - OFU",
            "percentunit",
            [query(f"max(job:mfu_minus_ofu:ratio_rate15m{{{_J}}})", "MFU - OFU")],
            description="Above 0 is impossible; about a tenth of OFU below is normal.",
        ),
        states(
            "Verdict",
            [
                query(
                    f"sum by (verdict) (job:ofu_job_divergence_verdict:sum{{{_J}}}) > 0",
                    "{{verdict}}",
                )
            ],
            description="The agents' verdicts on the reports, and the number of nodes with each.",
            size=(12, 6),
        ),
        states(
            "Likeliest cause",
            [query(f"sum by (cause) (job:ofu_job_divergence_cause:sum{{{_J}}}) > 0", "{{cause}}")],
            description="The likeliest cause while MFU and OFU differ.",
            size=(12, 6),
        ),
        row("Serving"),
        lines(
            "Tokens a second",
            "short",
            [query(f"sum(job:ofu_job_tokens:rate5m{{{_J}}})", "computed")],
            description="Tokens that the job's pulled engines computed, without those that a cache had ready. This "
            "whole row is empty for a job that serves nothing.",
            size=(12, 7),
            min=0,
        ),
        lines(
            "Energy per token",
            "suffix:J",
            [query(f"max(job:joules_per_token:ratio_rate5m{{{_J}}})", "J a token")],
            description="Energy of the job's measured GPUs over the tokens that it computed.",
            size=(12, 7),
            min=0,
        ),
        lines(
            "OFU and memory",
            "percentunit",
            [
                query(f"max(job:memory_busy:ratio_rate5m{{{_J}}})", "memory"),
                query(f"max(job:ofu:ratio_rate5m{{{_J}}})", "OFU"),
            ],
            description="Decoding is bound by memory: a low OFU below a busy memory is no waste.",
            min=0,
            max=1,
        ),
        lines(
            "Tokens a GPU-second",
            "short",
            [query(f"max(job:tokens_per_gpu_second:ratio_rate5m{{{_J}}})", "tokens a GPU-second")],
            description="Tokens that the job computed over the time for which it held GPUs.",
            min=0,
        ),
        row("GPUs"),
        cells(
            "OFU of every GPU",
            "percentunit",
            [
                query(
                    f"job_gpu:ofu:ratio_rate5m{{{_J}}}", "{{instance}} GPU {{gpu}} {{gpu_instance}}"
                )
            ],
            description="One row per GPU: a straggler is a row of another colour, a stall is a column.",
            size=(24, 12),
            min=0,
        ),
        lines(
            "Spread over the GPUs",
            "percentunit",
            [
                query(f"max(job_gpu:ofu:ratio_rate5m{{{_J}}})", "best GPU"),
                query(f"quantile(0.5, job_gpu:ofu:ratio_rate5m{{{_J}}})", "median"),
                query(f"min(job_gpu:ofu:ratio_rate5m{{{_J}}})", "worst GPU"),
            ],
            description="How far apart the job's GPUs are.",
            min=0,
        ),
        lines(
            "GPUs held and measured",
            "short",
            [
                query(f"sum(job:ofu_job_held_gpu_seconds:rate5m{{{_J}}})", "held"),
                query(f"sum(job:ofu_job_gpu_seconds:rate5m{{{_J}}})", "measured"),
            ],
            description="Below the held ones, some GPUs are not measured and have no OFU.",
            min=0,
        ),
    ],
    step=EVALUATED,
)
