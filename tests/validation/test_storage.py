"""The file: read back as it was, gone on with after an interruption, never mixed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.validation import storage
from ofu_exporter.validation.results import result
from ofu_exporter.validation.storage import ResultsFile
from tests.validation.simulation import Bench, bench, product

NAME = "validation.jsonl"
PRODUCTS = [product(), product("fp8"), product("fp16", 1000, 2000, 3000)]


def run(made: Bench) -> None:
    assert made.session.run(PRODUCTS, None, lambda *_: None) == ()


def test_it_is_read_back_as_it_was(tmp_path: Path) -> None:
    made = bench(tmp_path)
    run(made)
    header, trials = storage.read(tmp_path / NAME)
    assert header.simulated
    assert header.gpu.uuid == made.machine.uuid
    assert [trial.product for trial in trials] == PRODUCTS
    for trial, kept in zip(trials, made.session.store.trials, strict=True):
        assert trial.tiling == kept.tiling
        again, before = result(trial, made.rating), result(kept, made.rating)
        assert again is not None
        assert before is not None
        assert again.utilization == pytest.approx(before.utilization)
        assert again.mfu == pytest.approx(before.mfu, rel=1e-5)


@pytest.mark.parametrize("cut", [1, 100, 3000])
def test_a_file_that_was_cut_goes_on_behind_its_last_whole_line(tmp_path: Path, cut: int) -> None:
    run(bench(tmp_path))
    path = tmp_path / NAME
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    made = bench(tmp_path)
    assert len(made.session.store.trials) == 2
    begun = []
    made.session.run(PRODUCTS, None, lambda *told: begun.append(told))
    assert begun == [(3, 3, PRODUCTS[2])]
    assert [trial.product for trial in storage.read(path)[1]] == PRODUCTS


def test_what_is_done_is_not_run_again(tmp_path: Path) -> None:
    run(bench(tmp_path))
    before = (tmp_path / NAME).read_bytes()
    run(bench(tmp_path))
    assert (tmp_path / NAME).read_bytes() == before


def test_another_card_needs_another_file(tmp_path: Path) -> None:
    bench(tmp_path)
    with pytest.raises(ConfigError, match="made on another GPU"):
        bench(tmp_path, seed=2)


@pytest.mark.parametrize(
    "text", ["{}\n", "no json\n", '{"format": "ofu-recording", "version": 1}\n', "[1]\n"]
)
def test_another_file_is_refused_and_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / NAME
    path.write_text(text)
    with pytest.raises(ConfigError, match=f"{NAME}, line 1: not a line of a validation"):
        bench(tmp_path)
    assert path.read_text() == text


IMPOSSIBLE: dict[str, tuple[tuple[str, ...], Any]] = {
    "its product has a side or a time that is not above 0": (("product", "m"), 0),
    "its product has a side or a time that is not above 0 ": (("product", "k"), 0),
    "its product has a side or a time that is not above 0  ": (("product", "seconds"), 0.0),
    "its product has a side or a time that is not above 0   ": (("product", "seconds"), 1e999),
    "it has fewer than two marks, or a mark that is not a number": (("marks",), [[0.0, 0]]),
    "its marks are not in order": (("marks",), [[1.0, 0], [1.0, 2]]),
    "its marks are not in order ": (("marks",), [[1.0, 2], [2.0, 1]]),
    "its overhead is below 0 or infinite": (("tiling", "overhead_ratio"), -0.01),
    "its overhead is below 0 or infinite ": (("tiling", "overhead_ratio"), 1e999),
}


@pytest.mark.parametrize("why", IMPOSSIBLE)
def test_a_trial_that_cannot_have_been_run_is_refused(tmp_path: Path, why: str) -> None:
    run(bench(tmp_path))
    path = tmp_path / NAME
    header, line, *_ = path.read_text().splitlines()
    trial = json.loads(line)
    (*outer, name), value = IMPOSSIBLE[why]
    inner = trial
    for each in outer:
        inner = inner[each]
    inner[name] = value
    path.write_text(f"{header}\n{json.dumps(trial)}\n")
    with pytest.raises(ConfigError, match=f"line 2: not a line of a validation: {why.strip()}$"):
        storage.read(path)


def test_another_version_is_refused(tmp_path: Path) -> None:
    run(bench(tmp_path))
    path = tmp_path / NAME
    first, *rest = path.read_text().splitlines()
    for name, value in (("format", "ofu-recording"), ("version", 99)):
        changed = json.dumps({**json.loads(first), name: value})
        path.write_text("\n".join([changed, *rest, ""]))
        with pytest.raises(ConfigError, match=r"line 1: .*: another format or version"):
            storage.read(path)


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    run(bench(tmp_path))
    path = tmp_path / NAME
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:2], "{}\n", *lines[3:]]))
    with pytest.raises(ConfigError, match="line 3: not a line of a validation"):
        storage.read(path)


ODD: tuple[Any, ...] = (None, "x", -1, 0, True, 1e300, float("nan"), float("inf"), [], {}, [None])


def wronged(value: Any) -> Iterator[Any]:
    """The value with any one part of it replaced by something odd, lists at their ends."""
    yield from ODD
    if isinstance(value, dict):
        for key, part in value.items():
            yield {name: each for name, each in value.items() if name != key}
            yield from ({**value, key: odd} for odd in wronged(part))
    elif isinstance(value, list) and value:
        yield from ([*value[:-1], odd] for odd in wronged(value[-1]))


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2])
def test_a_line_in_which_anything_is_wrong_is_named_or_makes_no_difference(
    tmp_path: Path, number: int
) -> None:
    made = bench(tmp_path)
    run(made)
    path = tmp_path / NAME
    lines = path.read_text().splitlines(keepends=True)
    refused = []
    for odd in wronged(json.loads(lines[number - 1])):
        path.write_text("".join([*lines[: number - 1], json.dumps(odd) + "\n", *lines[number:]]))
        try:
            _, trials = storage.read(path)
        except ConfigError as error:
            refused.append(str(error))
        else:
            for trial in trials:
                result(trial, made.rating)
    assert len(refused) > 50
    assert all(f"{NAME}, line {number}: not a line of a validation" in each for each in refused)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    made = bench(tmp_path)
    header, _ = storage.read(tmp_path / NAME)
    assert header.gpu.uuid == made.machine.uuid
    with pytest.raises(ConfigError, match=r"nowhere/x\.jsonl: No such file"):
        ResultsFile(tmp_path / "nowhere" / "x.jsonl", header)
