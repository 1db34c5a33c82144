"""What a validation of a simulated card says, golden: its text, its JSON, and what is drawn of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ofu_exporter.validation import findings, plot, session
from ofu_exporter.validation.accuracy import ErrorBounds
from ofu_exporter.validation.storage import ResultsHeader
from tests.helpers.rounding import rounded, without_last_digits
from tests.validation.simulation import bench


class Recorder:
    """Stands for an object of matplotlib, which is large and optional: writes down what is asked of it."""

    def __init__(self, name: str, asked: list[str]) -> None:
        self.name, self.asked = name, asked

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **known: Any) -> Any:
            self.asked.append(f"{self.name}.{name} {rounded(args)} {rounded(known)}")
            if name == "subplots":  # https://matplotlib.org/stable/api/figure_api.html
                return [Recorder(f"axes {place}", self.asked) for place in range(args[1])]
            if name == "plot":  # a list of lines, whose colour the next one takes
                return [Recorder(f"line {known.get('label')}", self.asked)]
            if name == "made":
                return self
            return ([1], ["x"]) if name == "get_legend_handles_labels" else f"{self.name}.{name}"

        return call

    def __repr__(self) -> str:
        return self.name


def found(folder: Path, kind: str) -> findings.Findings:
    made = bench(folder, cycles=kind == "clocks")
    gpu, precisions = made.machine.gpu(made.machine.uuid), ("bf16", "fp8", "tf32")
    header = ResultsHeader(
        gpu, "nvml", kind == "clocks", "2026-01-01T00:00:00+00:00", {"torch": "2.9"}
    )
    if kind == "clocks":
        trials = made.trials(session.clock_products(precisions, 5.0))
        peaks = {"bf16": 1e15, "tf32": 4e14}
        return findings.clock_findings(header, trials, made.rating, peaks, ())
    trials = made.trials(session.products(session.QUICK, precisions, seed=1))
    return findings.accuracy_findings(header, trials, made.rating, ErrorBounds())


def drawn(of: findings.Findings, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    asked: list[str] = []
    for name in ("matplotlib", "matplotlib.backends"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    for name in ("backends.backend_agg", "figure"):
        module: Any = ModuleType(name)
        module.Figure = module.FigureCanvasAgg = Recorder("figure", asked).made
        monkeypatch.setitem(sys.modules, f"matplotlib.{name}", module)
    plot.draw(of, folder / "v.png")
    return "\n".join(asked).replace(f"{folder}/", "")


@pytest.mark.parametrize("kind", ["accuracy", "clocks"])
def test_findings_are_as_they_were(
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    golden: Callable[[str, str], None],
) -> None:
    """Regenerate with `pytest tests/validation/test_golden_findings.py --regenerate`."""
    of = found(tmp_path, kind)
    plain = json.dumps(rounded(findings.plain(of)), indent=1)
    parts = (findings.text(of), plain, drawn(of, tmp_path, monkeypatch))
    golden(f"validate-{kind}.txt", without_last_digits("\n".join(parts)))
