"""A real Prometheus with the history of a simulated fleet in which something changes at a known time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.helpers.fleets import fleet
from tests.helpers.prometheus_server import Prometheus
from tests.helpers.simulated_pages import kept
from tests.helpers.stored_fleet import BEGIN, stored_pages

END = "2026-01-19T00:00Z"
ROBOT = {"name": "robot-policy", "users": ["ana"], "gpus": 256, "every": "14h", "lasts": "12h"}
SPEC = {
    "cluster": "lab",
    "seed": 7,
    "length": "14d",
    "nodes": [{"name": "h", "count": 40, "model": "H100", "gpus": 8}],
    "jobs": [
        {**ROBOT, "count": 9, "ofu": {"mean": 0.31, "deviation": 0.02}},
        {**ROBOT, "count": 9, "ofu": {"mean": 0.124, "deviation": 0.01}, "start": "126h"},
        {**ROBOT, "count": 5, "ofu": {"mean": 0.31, "deviation": 0.02}, "start": "252h"},
        {
            "name": "speech",
            "count": 60,
            "users": ["bob"],
            "gpus": 16,
            "ofu": {"mean": 0.4, "deviation": 0.03},
            "every": "5h",
            "lasts": "4h",
        },
        {
            "name": "long",
            "users": ["eva"],
            "gpus": 16,
            "ofu": 0.45,
            "start": "12h",
            "lasts": "10d",
            "changes": [{"at": "5d", "factor": 0.5}],
        },
    ],
}
"""The paper's case: a debug flag that all training of a robot's policy on 256 GPUs has for five days makes it 2.5 times
slower (arXiv:2605.20799, section VI-A). Beside that, jobs in which nothing changes, and one that falls to a half."""
DROPPED, MENDED, HALVED = ("2026-01-10T06:00:00Z", "2026-01-15T12:00:00Z", "2026-01-10T12:00:00Z")


@contextmanager
def changed_fleet(folder: Path) -> Iterator[Prometheus]:
    """The fleet of SPEC, read in by promtool."""
    made = fleet(yaml.safe_dump(SPEC), folder)
    with stored_pages(folder, kept(made, BEGIN)) as prometheus:
        yield prometheus
