"""A specification that cannot be used is refused in one line that names the file's line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.simulation import spec_file
from tests.helpers.fleets import NODES, ONE_JOB, fleet


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
        (ONE_JOB + ", straggler: {gpu: 8, share: 0.1}}\n", 4, "has only 8 GPUs"),
        (NODES + "faults:\n  - {fault: gpu_lost, nodes: [n3]}\n", 4, "no node n3"),
        (NODES + "faults:\n  - {fault: gpu_lost, nodes: [n1], gpus: [7]}\n", 4, "has no GPU 7"),
        (NODES + "faults:\n  - {fault: clock_limit, nodes: [n1]}\n", 4, "needs clock_mhz"),
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
        (NODES + "history: {raw: [{nodes: [n9]}]}\n", 3, "no node n9"),
        (NODES + "history: {raw: [{nodes: [n1], at: 1d}]}\n", 3, "after the end"),
        (
            NODES + "  - {name: a, count: 1, model: A100}\n"
            "jobs:\n  - {name: j, ofu: 0.3, nodes: [n1, a1]}\n",
            5,
            "a1 has other GPUs",
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
        spec_file.read(tmp_path / "none.yaml")


@pytest.mark.parametrize("text", ["", "- 1\n", "fleet\n"])
def test_a_file_without_keys_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match="the top level"):
        spec_file.read(path)


@pytest.mark.parametrize(
    "path", sorted(spec_file.SHIPPED.glob("*.yaml")), ids=lambda path: path.stem
)
def test_every_shipped_fleet_can_be_read_by_its_name(path: Path) -> None:
    assert spec_file.shipped(Path(path.stem)) == path
    assert spec_file.read(path).spec.start is not None


def test_a_file_goes_before_a_shipped_fleet_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("paper").write_text(NODES)
    assert spec_file.shipped(Path("paper")) is None
    assert spec_file.shipped(Path("unheard-of")) is None
