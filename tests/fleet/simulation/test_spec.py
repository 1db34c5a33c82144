"""Everything that a specification may say is documented, and what cannot be used is refused with its line."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
import yaml
from pydantic import BaseModel

from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.simulation import spec
from ofu_exporter.fleet.simulation.fleet import fleet_of
from tests.helpers.every import every
from tests.helpers.fleets import NODES, ONE_JOB, fleet

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "fleet.md").read_text()
KEYS = (ROOT / "ofu_exporter/fleet/specs/small.yaml").read_text().partition("\nseed:")[0]
"""The comment that says what each key of a fleet does."""
MODELS = (
    *(
        spec.FleetSpec,
        spec.NodeGroup,
        spec.ModelSpec,
        spec.JobGroup,
        spec.Reporting,
        spec.SpeedChange,
    ),
    *(spec.Straggler, spec.Crashes, spec.FaultSpec),
)


@every(MODELS)
def test_every_key_is_documented(model: type[BaseModel]) -> None:
    for name in model.model_fields:
        assert f"`{name}`" in KEYS or f"{{{name}:" in KEYS or f" {name}: " in KEYS, name


def test_every_fault_and_work_is_documented() -> None:
    works = ("training", "inference", "idle")
    for name in (*get_args(spec.FaultKind), *works):
        assert f"`{name}`" in KEYS, name


def test_the_example_is_a_fleet(tmp_path: Path) -> None:
    _, _, rest = PAGE.partition("A short one:\n\n")
    lines = []
    for line in rest.splitlines():
        if not line.startswith("    "):
            break
        lines.append(line[4:])
    path = tmp_path / "fleet.yaml"
    path.write_text("\n".join(lines))
    made = fleet_of(spec.read_spec(path))
    assert len(made.nodes) == 2
    assert [job.job.draft.reported_over_right for job in made.jobs] == [1.0, 0.5]
    assert yaml.safe_load(path.read_text())["length"] == "2h"


@every([("90m", 90), ("2h", 120), ("14d", 20160), ("120s", 2), ("0.5h", 30)])
def test_times_are_whole_minutes(text: str, minutes: int) -> None:
    assert spec.SpeedChange(at=text, factor=1.0).at == minutes  # type: ignore[arg-type]


TELLS = NODES + "jobs:\n  - {name: a, mfu: 0.3, report: {"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (NODES + "sede: 1\n", 3, "sede: is not known"),
        (NODES + "jobs:\n  - {name: a, ofu: 0.3}\n  - {name: b, ofu: 0.3, gpsu: 2}\n", 5, "gpsu"),
        (NODES + "jobs:\n  -\n    name: a\n    ofu: 0.3\n    gpus: 9\n", 7, "9 GPUs of 8"),
        (NODES + "jobs:\n  - {name: a}\n", 4, "needs one of ofu and mfu"),
        (
            NODES + "jobs:\n  - {name: a, ofu: 0.7}\n",
            4,
            "an OFU of 0.7 is impossible at this clock",
        ),
        (NODES + "jobs:\n  - {name: a, ofu: 0.3, start: 30s}\n", 4, "whole number of minutes"),
        (NODES + "jobs:\n  - {name: a, ofu: 0.3, start: 25h}\n", 4, "after the end"),
        (NODES + "jobs:\n  - {name: a, ofu: 0.3, nodes: [n1, n9]}\n", 4, "no node n9"),
        (
            NODES
            + "jobs:\n  - {name: a, ofu: 0.3, nodes: [n1]}\n  - {name: b, ofu: 0.3, nodes: [n1..2]}\n",
            5,
            "another job has n1 at that time",
        ),
        (
            NODES + "jobs:\n  - {name: a, ofu: 0.3, gpus: 8}\n  - {name: b, ofu: 0.3, gpus: 1}\n",
            5,
            "finds no free GPUs",
        ),
        (NODES + "jobs:\n  - {name: a, ofu: 0.3, mig: 1g.10gb}\n", 4, "no node has instances"),
        (NODES + "jobs:\n  - {name: a, mfu: 0.3, report: {mistake: sloth}}\n", 4, "no mistake"),
        (
            NODES + "jobs:\n  - {name: a, mfu: 0.3, report: {mistake: all_experts_counted}}\n",
            4,
            "cannot be made of this job without a model",
        ),
        (NODES + "jobs:\n  - {name: a, mfu: 0.3, report: {model: x}}\n", 4, "no model 'x'"),
        (TELLS + "mistake: head_omitted, convention: palm}}\n", 4, "two reasons for one wrong"),
        (TELLS + "convention: palm}}\n", 4, "a convention counts a model: name one"),
        (TELLS + "every: 2m}, work: inference}\n", 4, "only training reports"),
        (ONE_JOB + ", straggler: {gpu: 8, share: 0.1}}\n", 4, "has only 8 GPUs"),
        (NODES + "faults:\n  - {fault: gpu_lost, nodes: [n3]}\n", 4, "no node n3"),
        (NODES + "faults:\n  - {fault: gpu_lost, nodes: [n1], gpus: [7]}\n", 4, "has no GPU 7"),
        (NODES + "faults:\n  - {fault: clock_limit, nodes: [n1]}\n", 4, "needs clock_mhz"),
        (
            NODES + "faults:\n  - {fault: source_lost, nodes: [n1], gpus: [1]}\n",
            4,
            "source_lost affects the whole node",
        ),
        ("nodes:\n  - {name: n, count: 1, model: H900}\n", 2, "no GPU 'H900'"),
        (NODES + "  - {name: n, count: 1, model: H100}\n", 3, "node n1 is listed twice"),
        (NODES + "jobs:\n  - {name: a, ofu: .nan}\n", 4, "ofu"),
        (NODES + "jobs:\n  - {name: a, mfu: -0.1}\n", 4, "mfu"),
        (NODES + "jobs:\n  - {name: a, ofu: 0.3, lasts: 0m}\n", 4, "lasts"),
        (NODES + "jobs:\n  - {name: a, ofu: 0.3, changes: [{at: 1h, factor: 9}]}\n", 4, "changes"),
        (NODES + "jobs:\n  - {name: a, ofu: 0.3, straggler: {clock_mhz: .inf}}\n", 4, "clock_mhz"),
        (NODES + "jobs:\n  - {name: a, mfu: 0.3, report: {precision: fp3}}\n", 4, "precision"),
        (NODES + "jobs:\n  - {name: a, mfu: 0.3, report: {precision: fp4}}\n", 4, "no known peak"),
        (NODES + "faults:\n  - {fault: gpu_lost, nodes: [n1], at: 2d}\n", 4, "after the end"),
        (
            NODES + "  - {name: a, count: 1, model: A100}\n"
            "jobs:\n  - {name: j, ofu: 0.3, nodes: [n1, a1]}\n",
            5,
            "a1 has other GPUs",
        ),
        (
            NODES + "  - {name: a, count: 1, model: A100}\n"
            "jobs:\n  - {name: j, mfu: 0.3, nodes: [a1], report: {precision: fp8}}\n",
            5,
            "no known peak in fp8",
        ),
        ("nodes:\n  - {name: n, count: 1, model: H100, mig: [9g.80gb]}\n", 2, "do not fit"),
        ("nodes:\n  - {name: n, count: 90000, model: H100}\n", 2, "more than 200,000 GPUs"),
        (NODES + "seed: 1\nseed: 2\n", 4, "a key is there twice"),
        (NODES + "jobs: [\n", 4, "not YAML"),
        (NODES + "interval: 7\n", 3, "7 s is not a part of a minute"),
        (NODES + "jobs:\n  - {name: 'a\"b', ofu: 0.3}\n", 4, "name"),
    ],
)
def test_an_error_is_one_line_that_names_the_line(
    text: str, line: int, words: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as raised:
        fleet(text, tmp_path)
    message = str(raised.value)
    assert "\n" not in message
    assert f"fleet.yaml, line {line}" in message or f"line {line}:" in message, message
    assert words in message


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"fleet .*none\.yaml: No such file"):
        spec.read_spec(tmp_path / "none.yaml")


@pytest.mark.parametrize("text", ["", "- 1\n", "fleet\n"])
def test_a_file_without_keys_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match="the top level"):
        spec.read_spec(path)


@pytest.mark.parametrize("path", sorted(spec.SHIPPED.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_fleet_can_be_read_by_its_name(path: Path) -> None:
    file = spec.read_spec(Path(path.stem))
    assert file.path == path
    assert file.content.cluster == (path.stem if path.stem == "paper" else "demo")


def test_a_file_goes_before_a_shipped_fleet_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("paper").write_text(NODES)
    assert spec.read_spec(Path("paper")).path == Path("paper")
    with pytest.raises(ConfigError, match="unheard-of: No such file"):
        spec.read_spec(Path("unheard-of"))
