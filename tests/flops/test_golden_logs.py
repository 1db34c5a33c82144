"""What frameworks print, with each number changed and each line left out: what a reader states of it, golden."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import asdict

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops import readers
from ofu_exporter.flops.readers import JobFacts
from tests.flops import test_readers as texts
from tests.reports.tail.test_frameworks import FORMS

NUMBER = re.compile(r"(?<![\w.])\d[\d.,]*(?:e[+-]?\d+)?")
INSTEAD = ("0", "-7", "nan", "1e400", "1,234.5", "x", "")
WHOLE = {
    "composer": texts.COMPOSER,
    "deepspeed": texts.DEEPSPEED,
    "deepspeed of accumulated steps": texts.ACCUMULATED,
    "verl": texts.VERL,
    "serving": texts.PAGE,
    "torch_npu": texts.KERNELS,
}
JOBS = (
    JobFacts(),
    JobFacts(world_size=8, peak_flops=1e15),
    JobFacts(world_size=8, data_parallel_size=2, peak_flops=1e15, step_seconds=12.0),
)


def stated(reader: str, text: str, job: JobFacts) -> str:
    try:
        found = readers.load(reader).read(text, job)
    except ConfigError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - a fault, which the golden file would show
        return f"FAULT {error!r}"
    usual = asdict(type(found[0])())
    said = [
        {key: value for key, value in asdict(one).items() if value != usual.get(key)}
        for one in found
    ]
    return re.sub(r"\d+\.\d{7,}", lambda number: f"{float(number[0]):.7g}", str(said))


def changed(text: str) -> Iterator[tuple[str, str]]:
    for match in list(NUMBER.finditer(text))[:40]:
        for other in INSTEAD:
            around = text[max(match.start() - 12, 0) : match.start()].replace("\n", " ")
            said = f"{around}[{match[0]}] {other}"
            yield said, f"{text[: match.start()]}{other}{text[match.end() :]}"
    lines = text.splitlines(keepends=True)
    for place, line in enumerate(lines[:40]):
        yield f"without {line.strip()[:30]}", "".join(lines[:place] + lines[place + 1 :])


def outcomes(reader: str, text: str) -> Iterator[str]:
    for job in JOBS:
        yield f"--- {job}: {stated(reader, text, job)[:600]}"
    usual = stated(reader, text, JOBS[1])
    for said, other in changed(text):
        if (outcome := stated(reader, other, JOBS[1])) != usual:
            yield f"{said}: {outcome[:300]}"


LOGS = {
    **{name: (name.split()[0], text) for name, text in WHOLE.items()},
    **{
        name: (reader, "\n".join(map(lines_of, (1, 2, 10))))
        for name, (reader, lines_of) in FORMS.items()
    },
}


@pytest.mark.parametrize("name", LOGS)
def test_a_changed_log_states_what_it_did(name: str, golden: Callable[[str, str], None]) -> None:
    reader, text = LOGS[name]
    file = re.sub("[^a-z0-9]+", "-", name.lower())
    golden(f"logs/{file}.txt", "\n".join(outcomes(reader, text)) + "\n")
