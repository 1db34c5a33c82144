"""Everything that a specification may say is documented."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import yaml
from pydantic import BaseModel

from ofu_exporter.fleet.simulation import spec, spec_file
from ofu_exporter.fleet.simulation.fleet import fleet_of
from tests.helpers.every import every

PAGE = (Path(__file__).parents[3] / "docs" / "fleet.md").read_text()
MODELS = (
    *(spec.FleetSpec, spec.NodeGroup, spec.ModelSpec, spec.JobGroup, spec.Reporting, spec.Change),
    *(spec.Straggler, spec.Crashes, spec.FaultSpec, spec.RawPages, spec.HistorySpec),
)


@every(MODELS)
def test_every_key_is_documented(model: type[BaseModel]) -> None:
    for name in model.model_fields:
        assert f"`{name}`" in PAGE or f"{{{name}:" in PAGE or f" {name}: " in PAGE, name


def test_every_fault_work_and_level_is_documented() -> None:
    works = ("training", "inference", "idle")
    for name in (*get_args(spec.FaultKind), *spec.LEVELS, *works):
        assert f"`{name}`" in PAGE, name


def test_the_example_is_a_fleet(tmp_path: Path) -> None:
    _, _, rest = PAGE.partition("\nFor example:\n\n")
    lines = []
    for line in rest.splitlines():
        if not line.startswith("    "):
            break
        lines.append(line[4:])
    path = tmp_path / "fleet.yaml"
    path.write_text("\n".join(lines))
    made = fleet_of(spec_file.read(path))
    assert len(made.nodes) == 2
    assert [job.job.draft.reported_over_right for job in made.jobs] == [1.0, 0.5]
    assert yaml.safe_load(path.read_text())["length"] == "2h"


@every([("90m", 90), ("2h", 120), ("14d", 20160), ("120s", 2), ("0.5h", 30)])
def test_times_are_whole_minutes(text: str, minutes: int) -> None:
    assert spec.RawPages(nodes=("a",), at=text).at == minutes  # type: ignore[arg-type]
