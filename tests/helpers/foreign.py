"""A name that means harm, and what hands such names to this program: an agent, a Prometheus, an exporter's page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ofu_exporter.jobs.lookup import JobBook
from tests.helpers.prometheus_server import Prometheus
from tests.helpers.quiet_server import QuietHandler, answering
from tests.helpers.shown_node import LLAMA, node_after
from tests.helpers.stored_fleet import ScheduledJob, StoredNode, pages, stored_pages

SEEN = "FORGED"
"""What a reader sees of the name, whatever else was made of it."""
HOSTILE = f"=1+1\n{SEEN}\r\x1b[31m\x9b2J\u202e\u2028|<b>[x](y)`*"
"""A formula, two lines, a terminal's commands, a turned direction, markup of tables, pages and Markdown."""
IN_LABELS = HOSTILE.replace("\n", "\\n")
"""The same in the text format, where a label's value has its line end escaped."""
FREE = {
    *(
        "name",
        "job_name",
        "user",
        "account",
        "partition",
        "namespace",
        "uuid",
        "node",
        "gpu",
        "mig_uuid",
    ),
    *("detail", "cause", "evidence", "model", "msg", "framework", "text", "gpu_instance"),
}
"""Fields of an answer that hold any text."""


def hostile(value: Any, free: set[str] = FREE) -> Any:
    """The answer with the name in every field that holds any text."""
    if isinstance(value, dict):
        return {
            name: HOSTILE if name in free and isinstance(each, str) else hostile(each, free)
            for name, each in value.items()
        }
    return [hostile(each, free) for each in value] if isinstance(value, list) else value


@contextmanager
def hostile_agent() -> Iterator[str]:
    """Answers what an agent is asked; what it has to refuse, it refuses in words of that kind."""
    shown = node_after()
    found = JobBook(lambda: shown.snapshot, "node-17").find(LLAMA.job_id)
    assert found is not None
    node, job = shown.state().model_dump(mode="json"), found.model_dump(mode="json")
    answers = {"/v1/node": hostile(node), "/v1/jobs/7": {**hostile(job), "ended": job["updated"]}}

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            self._send(200, answers.get(self.path.partition("?")[0], {"detail": HOSTILE}))

        def do_POST(self) -> None:
            self.sent()
            self._send(422, {"detail": [{"loc": ["body"], "msg": HOSTILE, "type": "bad_value"}]})

        def _send(self, status: int, answer: Any) -> None:
            as_json = {"Content-Type": "application/json"}
            self.reply(json.dumps(answer).encode(), status, as_json)

    with answering(Handler) as server:
        yield server.url


@contextmanager
def hostile_fleet(folder: Path) -> Iterator[Prometheus]:
    """A Prometheus with a cluster, a node, a GPU model and jobs of that name."""
    node = StoredNode(IN_LABELS, f"{IN_LABELS}:9846", IN_LABELS, 4)
    jobs = [
        ScheduledJob(
            *(str(number), IN_LABELS, (node,), number - 6, number - 5, 0.3, 0.6),
            verdict="mfu_above_ofu",
            cause=IN_LABELS,
            account=IN_LABELS,
            name=IN_LABELS,
        )
        for number in (7, 8)
    ]
    with stored_pages(folder, pages([node], jobs, 4)) as running:
        yield running


def hostile_page() -> str:
    """A page of dcgm-exporter whose GPU and MIG profile have that name, and that of a job's pod."""
    name = IN_LABELS.replace('"', '\\"')
    labels = (
        f'gpu="0",UUID="{name}",device="nvidia0",modelName="{name}",GPU_I_ID="1",GPU_I_PROFILE="{name}",'
        f'namespace="{name}",pod="{name}"'
    )
    values = {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.4, "DCGM_FI_DEV_SM_CLOCK": 1700}
    return "".join(
        f"# TYPE {name} gauge\n{name}{{{labels}}} {value}\n" for name, value in values.items()
    )
