"""Evaluates the recording rules over given samples with Prometheus' own engine, in `promtool test rules`."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.deploy.promtool import ORDER, RULES

Samples = Mapping[str, Mapping[int, float]]
"""Values by series, and by the second since the begin."""
_GOT = re.compile(r"\{(?P<labels>[^}]*)\} (?P<value>[-+0-9.eENaInf]+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
Labels = frozenset[tuple[str, str]]


def recorded(
    samples: Samples, step: int, minutes: Sequence[int], folder: Path
) -> dict[int, dict[Labels, float]]:
    """All recorded series at some minutes, by their labels, the name among them."""
    last = max(at for series in samples.values() for at in series)
    test = {
        "interval": f"{step}s",
        "input_series": [
            {"series": name, "values": _values(values, step, last)}
            for name, values in samples.items()
        ],
        "promql_expr_test": [
            {"expr": '{__name__=~".*:.*"}', "eval_time": f"{minute}m", "exp_samples": []}
            for minute in minutes
        ],
    }
    wanted = {
        "rule_files": [str(path) for path in RULES],
        "evaluation_interval": "1m",
        "group_eval_order": ORDER,
        "tests": [test],
    }
    path = folder / "recorded.yaml"
    path.write_text(json.dumps(wanted))
    done = subprocess.run(
        ["promtool", "test", "rules", str(path)], capture_output=True, text=True, check=False
    )
    return dict(_answers(done.stdout + done.stderr, minutes))


def _values(values: Mapping[int, float], step: int, last: int) -> str:
    """The values one after another. A series that a page no longer has is stale, as after a scrape."""
    texts, was_there = [], False
    for at in range(0, last + 1, step):
        value = values.get(at)
        texts.append(
            "stale" if was_there and value is None else "_" if value is None else repr(value)
        )
        was_there = value is not None
    return " ".join(texts)


def _answers(text: str, minutes: Sequence[int]) -> Iterable[tuple[int, dict[Labels, float]]]:
    parts = re.split(r"expr: ", text)[1:]
    assert len(parts) == len(minutes), text[:2000]
    for minute, part in zip(minutes, parts, strict=True):
        got = part.partition("got:")[2].partition("\n")[0]
        yield minute, {_labels(one["labels"]): float(one["value"]) for one in _GOT.finditer(got)}


def _labels(text: str) -> Labels:
    return frozenset(_LABEL.findall(text))


def name_of(labels: Labels) -> str:
    return dict(labels)["__name__"]
