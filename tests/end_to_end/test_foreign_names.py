"""Names that others chose - of jobs, users, GPUs, kernels, nodes, fields - stay text in every form of every answer.

Every command that prints such names is run over ones that mean harm, in each of its formats: none forges a line,
commands a terminal, or is computed by a spreadsheet.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from ofu_exporter.cli import cli, fleet_changes
from ofu_exporter.cli.fleet_mcp import tools
from ofu_exporter.fleet.changes_result import NeighbourRow
from tests.cli.test_tail import megatron
from tests.cli.test_validate import simulated
from tests.fleet.changes.test_text import change, report, slow
from tests.flops.counting import CONFIGS
from tests.flops.test_recipes import RECIPE
from tests.helpers.agent import Agent, page_server, until
from tests.helpers.foreign import HOSTILE, SEEN, hostile_agent, hostile_fleet, hostile_page
from tests.helpers.in_process import call
from tests.traces.formats import tracing
from tests.traces.formats.test_nsys_sqlite import database

pytestmark = [pytest.mark.slow, pytest.mark.prometheus]


class Places(NamedTuple):
    """Where the names come from."""

    folder: Path
    prometheus: str
    agent: str
    page: str


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    folder = tmp_path_factory.mktemp("foreign")
    with (
        hostile_fleet(folder) as prometheus,
        hostile_agent() as agent,
        page_server(hostile_page) as page,
    ):
        yield Places(folder, prometheus.url, agent, page)


FLEET_TIME = ("--since", "4h", "--until", "2026-01-05T04:00Z", "--no-progress")


def asked(*words: str) -> Callable[[Places], Sequence[str]]:
    return lambda places: (*words, "--prometheus", places.prometheus, *FLEET_TIME)


def measured(*words: str) -> Callable[[Places], Sequence[str]]:
    flags = ("--source", "dcgm-exporter", "--interval", "1s", "--collect-interval", "1s")
    return lambda places: (*words, *flags, "--url", places.page, "--scheduler", "none")


def of_recipe(*words: str) -> Callable[[Places], Sequence[str]]:
    """A recipe of another's: its file's name and its notes are any text."""

    def write(places: Places) -> Sequence[str]:
        path = places.folder / f"{HOSTILE}.json"
        path.write_text(json.dumps({**RECIPE, "notes": [HOSTILE]}))
        return [str(path) if word == "RECIPE" else word for word in words]

    return write


def unknown_field(places: Places) -> Sequence[str]:
    path = places.folder / "config.json"
    path.write_text(json.dumps({**json.loads((CONFIGS / "gemma-7b.json").read_text()), HOSTILE: 3}))
    return ("flops", str(path))


def profiled(places: Places) -> Sequence[str]:
    path = places.folder / "profile.sqlite"
    path.unlink(missing_ok=True)
    return ("profile", str(database(path, (f"{HOSTILE} gemm", 0, 10**9))))


def refused_profile(places: Places) -> Sequence[str]:
    kernel = tracing.kernel(tracing.NVJET, 201)
    trace = tracing.write(
        places.folder / "t.json",
        tracing.operator("aten::mm", 201, [3000, 4096], [4096, 2176]),
        kernel,
    )
    return ("profile", str(trace), "--post", "--job", "7", "--agent", places.agent)


def validated(places: Places) -> Sequence[str]:
    path = places.folder / "validation.jsonl"
    if not path.exists():
        simulated("validate", "--quick", "--output", str(path), "--precisions", "bf16")
        head, *rest = path.read_text().splitlines()
        fields = json.loads(head)
        fields["gpu"]["name"] = fields["gpu"]["uuid"] = HOSTILE
        fields["software"] = {HOSTILE: HOSTILE}
        path.write_text("\n".join([json.dumps(fields), *rest, ""]))
    return ("validate", "--report", "--output", str(path))


def tailed(places: Places) -> Sequence[str]:
    log = places.folder / "train.log"
    log.write_text(megatron(1, 12.0))
    return ("tail", str(log), "--once", "--job", "7", "--agent", places.agent)


EXPLAINED = ("--mfu", "0.5", "--ofu", "0.3", "--gpu", "H100", "--precision", "bf16")
WALKS: dict[str, Sequence[Callable[[Places], Sequence[str]]]] = {
    "check": (measured("check"),),
    "top": (
        measured("top", "--once", "--width", "200"),
        lambda places: ("top", "--once", "--agent", places.agent),
    ),
    "flops": (
        of_recipe("flops", "RECIPE"),
        of_recipe("flops", "RECIPE", "RECIPE"),
        unknown_field,
        lambda _: ("flops", HOSTILE),
    ),
    "mfu": (
        of_recipe(
            "mfu",
            "RECIPE",
            "--gpu",
            "H100",
            "--gpus",
            "8",
            "--step-seconds",
            "1",
            "--batch-size",
            "1",
        ),
    ),
    "explain": (of_recipe("explain", *EXPLAINED, "--config", "RECIPE", "--freeze", HOSTILE),),
    "profile": (profiled, refused_profile),
    "tile": (lambda _: ("tile", f"{HOSTILE} gemm", "--m", "1", "--n", "1", "--k", "1"),),
    "validate": (validated,),
    "tail": (tailed,),
    "pause": (
        lambda places: ("pause", "--wait", "1ms", "--pause-file", str(places.folder / HOSTILE)),
    ),
    "job show": (
        lambda places: ("job", "show", "7", "--agent", places.agent),
        lambda places: ("job", "show", HOSTILE, "--agent", places.agent),
    ),
    "job gather": (lambda _: ("job", "gather", "7", "--nodes", f"127.0.0.1,{HOSTILE}"),),
    "record": (
        lambda places: measured("record", str(places.folder / HOSTILE), "--duration", "1s")(places),
    ),
    "fleet report": tuple(
        asked("fleet", "report", "--by", by) for by in ("user", "job", "model", "cluster")
    ),
    "fleet job": (asked("fleet", "job", "7"), asked("fleet", "job", HOSTILE)),
    "fleet digest": (asked("fleet", "digest"), asked("fleet", "digest", "--json")),
}
"""What is run of each command that prints names which others chose."""
WITHOUT = {("profile", "csv"), ("validate", "csv"), ("explain", "json"), ("explain", "csv")}
"""Forms that have none of the names."""
OWN_WORDS = {
    *("completion", "files", "help", "resume", "list architectures", "list conventions"),
    *("list gpus", "list metrics", "list schedulers", "list sources", "fleet simulate"),
    *(
        "job start",
        "job stop",
    ),  # of the hook's environment, which is Slurm's: tests/schedulers/slurm
    "trace",  # tests/end_to_end/test_trace.py
    *("run", "demo", "fleet mcp", "fleet changes"),  # below
}


def commands(of: click.Command, *words: str) -> Iterator[tuple[str, click.Command]]:
    if isinstance(of, click.Group):
        for name in of.list_commands(click.Context(of)):
            below = of.get_command(click.Context(of), name)
            assert below is not None
            yield from commands(below, *words, name)
    else:
        yield " ".join(words), of


def formats(command: click.Command) -> list[str]:
    kinds = [each.type for each in command.params if each.name == "format_"]
    return [str(each) for kind in kinds if isinstance(kind, click.Choice) for each in kind.choices]


COMMANDS = dict(commands(cli))


def test_every_command_is_walked() -> None:
    assert {*WALKS} | OWN_WORDS == {*COMMANDS}


CASES = [
    (name, number, format_)
    for name, walks in WALKS.items()
    for number in range(len(walks))
    for format_ in formats(COMMANDS[name]) or [""]
]


@pytest.mark.parametrize(("name", "number", "format_"), CASES)
def test_names_of_others_stay_text(name: str, number: int, format_: str, places: Places) -> None:
    args = WALKS[name][number](places)
    more = ("--format", format_) if format_ else ()
    run = simulated if name == "validate" else call
    done = run(*args, *more)
    assert "Traceback" not in done.stderr
    if format_ == "parquet":
        return  # binary: a reader's own matter
    if (name, format_) not in WITHOUT:
        assert SEEN in done.stdout + done.stderr, "the name is not there: this tests nothing"
    harmless(done.stderr, "text")
    is_json = format_ == "json" or "--json" in args
    harmless(done.stdout, "json" if is_json else format_ or "text")


def harmless(output: str, format_: str) -> None:
    assert output.replace("\n", "").isprintable(), ascii(output)
    assert not re.search(rf"^\W*{SEEN}", output, re.MULTILINE), output
    if format_ in ("csv", "focus"):
        cells = [cell for row in csv.reader(io.StringIO(output)) for cell in row]
        assert not [cell for cell in cells if cell.startswith(("=", "+", "@", "\t", "\r"))]
    elif format_ == "json":
        for text in [output] if output[1:2] == "\n" else output.splitlines():
            json.loads(text)
    elif format_ == "html":
        assert "<b>[x]" not in output
    elif format_ == "markdown":
        assert not re.search(r"<b>|(?<!\\)\[x\]", output)


@pytest.mark.parametrize("format_", formats(COMMANDS["fleet changes"]))
def test_changes_of_jobs_of_that_name(format_: str) -> None:
    labels = dict.fromkeys(("cluster", "job_name", "user", "model"), HOSTILE)
    neighbour = NeighbourRow(job_id=HOSTILE, begin="2026-01-09", ofu=0.3, gpus=8, gpu_hours=1)
    found = change(labels=labels, before=[neighbour], after=[neighbour])
    slower = slow(cluster=HOSTILE, node=HOSTILE, gpu=HOSTILE)
    written = fleet_changes.rendered(report([found], [slower]), format_, 20).decode()
    assert SEEN in written
    harmless(written, format_)


def test_files_of_a_digest_are_text_and_pages(places: Places) -> None:
    folder = places.folder / "files"
    call(*asked("fleet", "digest", "--output", str(folder))(places))
    for path in folder.iterdir():
        harmless(path.read_text(), "html" if path.suffix == ".html" else "text")


def test_an_assistant_is_told_no_forged_line(places: Places) -> None:
    given = {each: None for each in ("user", "ca", "tenant", "client_cert", "client_key")}
    files = {"bearer_token_file": None, "password_file": None, "progress": False}
    options = {"server": places.prometheus, "since": "4h", "until": FLEET_TIME[3], **given, **files}
    groups, job, changes = tools(options, lambda make: make().decode())
    for answer in (groups(), groups(by="job"), changes()):
        harmless(answer, "markdown")
    harmless(job("7"), "text")
    assert SEEN in job("7")


def test_a_log_and_a_page_of_an_agent_hold_no_forged_line(places: Places) -> None:
    agent = Agent([*measured("run")(places), "--listen", "127.0.0.1:0"])
    try:
        until(lambda: SEEN in agent.get("/")[1])
        harmless(agent.get("/")[1], "html")
        harmless("\n".join(agent.log), "text")
    finally:
        agent.stop()
