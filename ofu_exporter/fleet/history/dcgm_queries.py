"""Names what is asked of a server about the pages of dcgm-exporter, each GPU once.

A page has a GPU once for each job or pod that shares it, and two scrape jobs have all of a page twice. Where GPUs have
several series, each counts for its part, and a GPU of several owners is that of none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ofu_exporter.fleet.history.progress_sums import NoProgress

DCGM_LOOKS = 60
_WITHIN, _SELDOM = "[59m59s999ms:1m]", "[59m59s999ms:5m]"
SHARED = "shared_gpu"
"""A label of our own, of series whose GPU several jobs share."""
_SLURM = ("jobid", "hpc_job")
_OWNERS = ("pod", "pod_name", "exported_pod", *_SLURM)
"""Labels that say whose a GPU is; the last that is there counts, and of pods their namespace."""
_BY = ", ".join(
    (
        *("cluster", "job", "modelName", "GPU_I_PROFILE", *_OWNERS),
        *("exported_namespace", "namespace", "pod_namespace", SHARED),
    )
)
_ACTIVITY = "((DCGM_FI_PROF_PIPE_TENSOR_ACTIVE or DCGM_FI_PROF_TENSOR_UTIL_RATIO) >= 0 <= 1.05)"
SM_CLOCK_HZ = "((DCGM_FI_DEV_SM_CLOCK * 1e6 or DCGM_FI_DEV_SM_CLOCK_HERTZ) > 0 < 5e9)"
"""Old and new names. A blank of DCGM's is far beyond what a clock can be."""
_ENGINE = "((DCGM_FI_PROF_GR_ENGINE_ACTIVE or DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO) >= 0 <= 1.05)"
_SMS = "((DCGM_FI_PROF_SM_ACTIVE or DCGM_FI_PROF_SM_UTIL_RATIO) >= 0 <= 1.05)"
_BOTH, _MEASURED = f"({_ENGINE} and {_SMS})", f"({_ACTIVITY} and {SM_CLOCK_HZ})"
_WORKING = f"({SM_CLOCK_HZ} and {_ACTIVITY} >= 0.001)"
SPREAD = (
    f"avg_over_time((stdvar by (cluster, modelName) {_WORKING}){_WITHIN})"
    f" + stdvar_over_time((avg by (cluster, modelName) {_WORKING}){_WITHIN})"
)
"""Variance of the clock over all looks of an hour at the working GPUs of a model."""
COVERED = f"count_over_time((count by (cluster) {SM_CLOCK_HZ}){_WITHIN}) / {DCGM_LOOKS}"
"""Share of the hour of which anything is known of a cluster."""
_EXPORTED = (
    '(DCGM_FI_DEV_SM_CLOCK{exported_pod!=""} or DCGM_FI_DEV_SM_CLOCK_HERTZ{exported_pod!=""})'
)
PUSHED_ASIDE = f"count by (job) (count_over_time({_EXPORTED}{_SELDOM}))"
"""Prometheus' jobs that push the page's own `pod` aside."""


def labelled(inner: str, name: str, *sources: str, value: str = "$1") -> str:
    """With a label that has the last of these others that is there, or a value where one of them is."""
    for source in sources:
        inner = f'label_replace({inner}, "{name}", "{value}", "{source}", "(.+)")'
    return inner


_GPU = "cluster, UUID, uuid, GPU_I_ID"
_SERIES = f"count by ({_GPU}) ({SM_CLOCK_HZ})"
_UNNAMED = "on (UUID, uuid) vector(0)"
"""Series without any uuid: nothing tells whether two of them are one GPU, so each counts."""
CROWDED = f"count(count_over_time(({_SERIES} > 1 unless {_UNNAMED}){_SELDOM}))"
"""How many GPUs have several series."""
_IN = ("namespace", "pod_namespace", "exported_namespace")
_PODS = labelled(labelled(SM_CLOCK_HZ, "owner", *_OWNERS), "within", *_IN)
_OWNERS_OF = f"group by ({_GPU}, owner, within) ({labelled(_PODS, 'within', *_SLURM, value='')})"
_OWNED = f"count by ({_GPU}) ({_OWNERS_OF}) > 1"
_SHARE = (
    f'((label_replace(1 / {_SERIES} and {_OWNED}, "{SHARED}", "yes", "", "")'
    f" or 1 / {_SERIES} unless on ({_GPU}) {_OWNED})"
    f" unless {_UNNAMED} or on ({_GPU}) group by ({_GPU}) ({SM_CLOCK_HZ}))"
)
"""The part that a series is of all that its GPU has."""


class DcgmQueries(NamedTuple):
    """Expressions for one hour at its end."""

    is_crowded: bool
    """Whether GPUs have several series; to count each once costs the server more."""

    def _looks(self, inner: str) -> str:
        """Values of series, each counted for its part of the GPU."""
        return f"({inner}) * on ({_GPU}) group_left ({SHARED}) {_SHARE}"

    def _sum(self, inner: str, *, counts: bool = False) -> str:
        """GPU-hours x the value, or of every look there is; a look that is there is no less than 0."""
        over = "count_over_time" if counts else "sum_over_time"
        if self.is_crowded:
            inner, over = self._looks(f"({inner}) >= bool 0" if counts else inner), "sum_over_time"
        return f"sum by ({_BY}) ({over}(({inner}){_WITHIN})) / {DCGM_LOOKS}"

    def _gpus(self, inner: str) -> str:
        """How many GPUs there are, by whose they are."""
        if self.is_crowded:
            return f"sum by ({_BY}) ({self._looks(f'({inner}) >= bool 0')})"
        return f"count by ({_BY}) ({inner})"

    @property
    def hours(self) -> tuple[str, ...]:
        """GPU-hours that there were; of these, measured; activity x clock x hours; GPU-hours without tensor activity;
        activity x hours."""
        return (
            self._sum(SM_CLOCK_HZ, counts=True),
            self._sum(f"{_ACTIVITY} * {SM_CLOCK_HZ}", counts=True),
            self._sum(f"{_ACTIVITY} * {SM_CLOCK_HZ}"),
            self._sum(f"({_ACTIVITY} < 0.001) * {SM_CLOCK_HZ}", counts=True),
            self._sum(f"{_ACTIVITY} and {SM_CLOCK_HZ}"),
        )

    @property
    def size(self) -> str:
        return f"max_over_time(({self._gpus(SM_CLOCK_HZ)}){_SELDOM})"

    @property
    def losses(self) -> tuple[str, ...]:
        """What parts are made of: all but the first two of the looks at which the tensor activity is known."""
        return (
            *self.hours[1:3],
            self._sum(_MEASURED),
            self._sum(f"{_ENGINE} and {_MEASURED}", counts=True),
            self._sum(f"{_ENGINE} and {_MEASURED}"),
            self._sum(f"{_MEASURED} and {_ENGINE}"),
            self._sum(f"{_SMS} and {_ENGINE} and {_MEASURED}"),
            self._sum(f"{_BOTH} and {_MEASURED}"),
            self._sum(f"{_MEASURED} and {_BOTH}"),
        )

    @property
    def together(self) -> Mapping[NoProgress | None, str]:
        """Whether all GPUs of a job were at work at once; what is no reason is of how many that is known."""
        stands = f"{_ENGINE} < bool 0.1"
        stands = self._looks(stands) if self.is_crowded else stands
        standing, watched = f"sum by ({_BY}) ({stands})", self._gpus(_ENGINE)
        waiting = f"({watched} - {standing}) * (max by ({_BY}) ({stands}) > bool 0)"
        return {
            NoProgress.HELD_IDLE: f"sum_over_time(({standing}){_WITHIN}) / {DCGM_LOOKS}",
            NoProgress.ALONE: f"sum_over_time(({waiting}){_WITHIN}) / {DCGM_LOOKS}",
            None: f"sum_over_time(({watched}){_WITHIN}) / {DCGM_LOOKS}",
        }
