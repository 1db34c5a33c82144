"""One node: for every GPU its activity, pipes and clocks, its OFU with its error, and how healthy the samples are."""

from __future__ import annotations

from deploy.grafana.parts import (
    CLUSTER,
    ONLY_FAULTS,
    choice,
    column,
    dashboard,
    lines,
    query,
    row,
    states,
    table,
)

_N = 'cluster=~"$cluster",instance="$node"'
_G = f'{_N},gpu=~"$gpu"'
_LEGEND = "GPU {{gpu}} {{gpu_instance}}"
_OFU = f"ofu_gpu_utilization_ratio{{{_G}}}"
_BAND = f"2 * ofu_gpu_utilization_stderr_ratio{{{_G}}}"

DASHBOARD = dashboard(
    "node",
    "OFU: node",
    "What the GPUs of one node do, and how far to trust these numbers.",
    [
        CLUSTER,
        choice(
            "node",
            "Node",
            'label_values(up{job=~".*ofu.*",cluster=~"$cluster"}, instance)',
            many=False,
        ),
        choice("gpu", "GPU", "label_values(ofu_gpu_info{" + _N + "}, gpu)"),
    ],
    [
        table(
            "GPUs",
            "short",
            {
                "measured": query(
                    f"ofu_gpu_up{{{_G}}} * on (instance, uuid, gpu_instance) group_left (model, source, "
                    f"clock_method, rating) topk by (instance, uuid, gpu_instance) (1, ofu_gpu_info{{{_G}}})",
                    instant=True,
                )
            },
            hidden=("job", "instance"),
            description="The node's GPUs; `measured` is 1 if OFU is measured.",
            size=(14, 8),
        ),
        table(
            "Jobs",
            "short",
            {
                "has it": query(
                    f'sum by (gpu, uuid, gpu_instance, job_id) (ofu_gpu_info{{{_G},job_id!=""}})',
                    instant=True,
                )
            },
            hidden=("job", "instance"),
            description="The job that alone has each GPU now.",
            size=(10, 8),
        ),
        row("OFU"),
        lines(
            "OFU of GPU $gpu",
            "percentunit",
            [
                query(_OFU, "OFU"),
                query(f"{_OFU} + {_BAND}", "upper"),
                query(f"{_OFU} - {_BAND}", "lower"),
            ],
            description="The band is two standard errors. A window with a single clock read has none.",
            size=(6, 6),
            legend=False,
            repeat="gpu",
            repeatDirection="h",
            maxPerRow=4,
            min=0,
            overrides=[
                column(
                    "upper",
                    **{
                        "custom.fillBelowTo": "lower",
                        "custom.lineWidth": 0,
                        "custom.fillOpacity": 20,
                    },
                ),
                column("lower", **{"custom.lineWidth": 0}),
            ],
        ),
        row("What it is made of"),
        lines(
            "Tensor activity",
            "percentunit",
            [query(f"ofu_gpu_tensor_active_ratio{{{_G}}}", _LEGEND)],
            description="Share of SM cycles in which a tensor pipe was active.",
            min=0,
        ),
        lines(
            "Tensor activity by pipe",
            "percentunit",
            [query(f"sum by (pipe) (ofu_gpu_pipe_active_ratio{{{_G}}})", "{{pipe}}")],
            description="Summed over the chosen GPUs: which precisions the work is in.",
            stacked=True,
        ),
        lines(
            "SM clock, and the tensor clock that OFU is measured against",
            "hertz",
            [
                query(f"ofu_gpu_sm_clock_hertz{{{_G}}}", _LEGEND),
                query(
                    f"max by (model, rated_as, domain) (ofu_model_tensor_clock_hertz{{{_N}}})",
                    "tensor clock, {{rated_as}} {{domain}}",
                ),
            ],
            description="A clock that falls while the activity stays is a problem of power or cooling.",
            size=(24, 9),
            min=0,
        ),
        row("How far to trust it"),
        lines(
            "Age of the last sample",
            "s",
            [
                query(f"time() - ofu_gpu_sample_timestamp_seconds{{{_G}}}", _LEGEND),
                query(f"time() - ofu_exporter_snapshot_timestamp_seconds{{{_N}}}", "snapshot"),
            ],
            description="With the age of the scrape. A GPU without a window for 2.5 windows + 1 s is not measured.",
            min=0,
        ),
        lines(
            "Share of the time that is measured",
            "percentunit",
            [
                query(
                    f"rate(ofu_gpu_observed_seconds_total{{{_G}}}[$__rate_interval])"
                    f" / on (instance, uuid, gpu_instance) group_left ()"
                    f" topk by (instance, uuid, gpu_instance) (1, ofu_gpu_instance_share_ratio{{{_G}}}"
                    f" or on (instance, uuid, gpu_instance) ofu_gpu_info{{{_G}}})",
                    _LEGEND,
                )
            ],
            description="A GPU that is not measured has no OFU, and is in no mean.",
            min=0,
        ),
        lines(
            "Time a read takes",
            "s",
            [
                query(
                    f"rate(ofu_exporter_read_seconds_sum{{{_N}}}[$__rate_interval])"
                    f" / (rate(ofu_exporter_read_seconds_count{{{_N}}}[$__rate_interval]) > 0)",
                    "{{source}}",
                )
            ],
            description="One read of the counter source, per GPU or page and window.",
            min=0,
        ),
        lines(
            "Missed deadlines",
            "cps",
            [
                query(
                    f"rate(ofu_exporter_missed_deadlines_total{{{_N}}}[$__rate_interval])", "missed"
                )
            ],
            description="Samples that came late. If this stays above 0, the node is overloaded.",
            min=0,
        ),
        states(
            "GPUs not measured",
            [
                query(
                    f"max by (gpu, gpu_instance, reason) (ofu_gpu_unavailable{{{_N}}})",
                    f"{_LEGEND} {{{{reason}}}}",
                )
            ],
            description=f"{ONLY_FAULTS} Which GPUs have no OFU, and why.",
            size=(12, 7),
        ),
        lines(
            "Samples that were not believed",
            "cps",
            [
                query(
                    f"sum by (gpu, reason) (max by (instance, gpu, gpu_instance, reason) "
                    f"(rate(ofu_gpu_rejected_samples_total{{{_N}}}[$__rate_interval])))",
                    "GPU {{gpu}} {{reason}}",
                )
            ],
            description=f"{ONLY_FAULTS} Values that could not be true, and were not used.",
            size=(12, 7),
        ),
    ],
)
