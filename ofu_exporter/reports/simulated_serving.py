"""Makes up what the serving job of a simulated node serves: a fixed number of tokens per observed GPU-second."""

from __future__ import annotations

from ofu_exporter.values.served import CACHED, GENERATION, PROMPT, Served
from ofu_exporter.values.snapshot import Snapshot

NAME, MODEL = "chat-serving", "simulated/chat-8b"
TOKENS_PER_GPU_SECOND = {PROMPT: 900.0, CACHED: 300.0, GENERATION: 240.0}
TOKENS_PER_REQUEST = 200.0
"""Generated."""


def simulated_served(snapshot: Snapshot | None) -> dict[str, Served]:
    """By job id; empty where no simulated job serves."""
    jobs: dict[str, Served] = {}
    for view in snapshot.jobs if snapshot else ():
        if (view.job.scheduler, view.job.name) != ("simulate", NAME):
            continue
        served = jobs[view.job.job_id] = Served()
        for kind, rate in TOKENS_PER_GPU_SECOND.items():
            served.tokens[MODEL, kind] = rate * view.observed_seconds
        generated = served.tokens[MODEL, GENERATION]
        served.requests[MODEL] = generated // TOKENS_PER_REQUEST
        served.seconds[MODEL] = view.updated - view.began
        served.engines["both"] = 1.0
        if view.ended is None:
            served.running[MODEL], served.waiting[MODEL] = 6.0, 0.0
    return jobs
