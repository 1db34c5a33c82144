"""Writes and reads the file of a validation: a line on the GPU and the software, then one line for every trial.

Lines are JSON. An interrupted run continues after the last complete line.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ofu_exporter.errors import ConfigError, file_errors
from ofu_exporter.recordings import recording
from ofu_exporter.support.regular_files import opened
from ofu_exporter.validation import Mark, Product, Tiling, Trial
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import Reading

FORMAT = "ofu-validation"
VERSION = 1


@dataclass(frozen=True, slots=True)
class ResultsHeader:
    gpu: Gpu
    source: str
    simulated: bool
    created: str
    """UTC, ISO 8601."""
    software: Mapping[str, str]


_HEADER = TypeAdapter(ResultsHeader)
_PRODUCT = TypeAdapter(Product)
_TILING = TypeAdapter(Tiling)
_MARKS = TypeAdapter(tuple[Mark, ...])


class ResultsFile:
    def __init__(self, path: Path, header: ResultsHeader) -> None:
        """Begin the file, or continue it. Raises ConfigError for a file from another GPU, source or software."""
        self._path = path
        self.trials: list[Trial] = []
        gpu, mark = recording.encode_gpu(header.gpu), {"format": FORMAT, "version": VERSION}
        with file_errors(path):
            if path.exists() and path.stat().st_size:
                self._resume(header)
            else:
                self._append({**mark, **asdict(header), "gpu": gpu})

    def add(self, trial: Trial) -> None:
        """Append a trial. Raises ConfigError when the file cannot be written."""
        with file_errors(self._path):
            self._append(encode(trial))
        self.trials.append(trial)

    def _resume(self, header: ResultsHeader) -> None:
        old, trials, complete = _load(self._path)
        if replace(header, created=old.created) != old:
            raise ConfigError(
                f"{self._path} was made on another GPU, with another source or other software: name another file"
            )
        with self._path.open("r+b") as file:
            file.truncate(complete)
        self.trials = trials

    def _append(self, fields: Mapping[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(fields, separators=(",", ":"), allow_nan=False) + "\n")


def read(path: Path) -> tuple[ResultsHeader, list[Trial]]:
    """The header and the trials of a file. Raises ConfigError, which names the file."""
    with file_errors(path):
        header, trials, _ = _load(path)
    return header, trials


def encode(trial: Trial) -> dict[str, Any]:
    """A trial as plain data; its times begin at its first mark."""
    epoch = trial.marks[0].at
    return {
        "product": asdict(trial.product),
        "tiling": asdict(trial.tiling),
        "marks": [[round(mark.at - epoch, 6), mark.launches] for mark in trial.marks],
        "readings": [recording.encode(each, epoch) for each in trial.readings],
    }


def _load(path: Path) -> tuple[ResultsHeader, list[Trial], int]:
    """The header, the trials, and how many bytes of the file are complete lines."""
    with file_errors(path), opened(path) as file:
        lines = [line for line in file if line.endswith(b"\n")]
    number = 1
    try:
        header = _decode_header(json.loads(lines[0]))
        trials = []
        for number, line in enumerate(lines[1:], start=2):  # noqa: B007 - named in the error
            trials.append(_decode(json.loads(line), header.gpu))
    except recording.BAD_LINE as error:
        raise ConfigError(f"{path}, line {number}: not a line of a validation: {error}") from error
    return header, trials, sum(map(len, lines))


def _decode_header(fields: dict[str, Any]) -> ResultsHeader:
    if fields.pop("format") != FORMAT or fields.pop("version") != VERSION:
        raise ValueError("another format or version")
    return _HEADER.validate_python({**fields, "gpu": recording.decode_gpu(fields["gpu"])})


def _decode(fields: Mapping[str, Any], gpu: Gpu) -> Trial:
    events = [recording.decode(each, gpu) for each in fields["readings"]]
    trial = Trial(
        _PRODUCT.validate_python(fields["product"]),
        _MARKS.validate_python(fields["marks"]),
        tuple(event for event in events if isinstance(event, Reading)),
        _TILING.validate_python(fields["tiling"]),
    )
    _check(trial)
    return trial


def _check(trial: Trial) -> None:
    """Raises ValueError for a trial that cannot have been run."""
    product, marks, tiling = trial.product, trial.marks, trial.tiling
    if min(product.m, product.n, product.k) < 1 or not 0 < product.seconds < math.inf:
        raise ValueError("its product has a side or a time that is not above 0")
    if len(marks) < 2 or not all(map(math.isfinite, itertools.chain(*marks))):
        raise ValueError("it has fewer than two marks, or a mark that is not a number")
    if any(b.at <= a.at or b.launches < a.launches for a, b in itertools.pairwise(marks)):
        raise ValueError("its marks are not in order")
    if not 0 <= (tiling.overhead_ratio or 0.0) < math.inf:
        raise ValueError("its overhead is below 0 or infinite")
