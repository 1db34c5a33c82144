"""The command line: what it knows, and one clear line for what it can't use."""

from __future__ import annotations

import importlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from pydantic import BaseModel

from ofu_exporter import __version__, sources
from ofu_exporter.cli import cli
from ofu_exporter.cli.settings import flag_of
from ofu_exporter.settings import FILE_ONLY, Settings
from tests.helpers.agent import COMMAND
from tests.helpers.in_process import call, shown

FOLDER = Path(sources.__file__).parents[1] / "cli"
FILES = sorted(FOLDER.glob("[a-z]*.py"))


def test_version() -> None:
    assert shown("--version") == f"ofu-exporter, version {__version__}\n"


@pytest.mark.parametrize("command", ["run", "demo"])
def test_every_setting_is_a_flag_of_a_command_that_serves(command: str) -> None:
    text = shown(command, "--help-all")
    models: list[type[BaseModel]] = [
        Settings,
        *(sources.options(name).Options for name in sources.names()),
    ]
    for model in models:
        for name, field in model.model_fields.items():
            if name not in FILE_ONLY:
                assert flag_of(name, field) in text


@pytest.mark.parametrize("command", ["check", "record", "validate"])
def test_a_command_that_serves_nothing_shows_only_what_it_uses(command: str) -> None:
    text = shown(command, "--help-all")
    assert "--interval" in text
    assert "--dcgm-address" in text
    for flag in ("--listen", "--tls-cert", "--horizon", "--report-socket", "--state-file"):
        assert flag not in text


def every_command() -> Iterator[tuple[str, ...]]:
    waiting: list[tuple[tuple[str, ...], click.Command]] = [((), cli)]
    while waiting:
        words, command = waiting.pop()
        yield words
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                waiting.append(((*words, name), inner))


@pytest.mark.parametrize("command", sorted(every_command()), ids=" ".join)
def test_the_help_of_a_command_is_one_screen(command: tuple[str, ...]) -> None:
    lines = call(*command, "--help", env={"COLUMNS": "80"}).stdout.rstrip("\n").split("\n")
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("name", ["report", "digest", "mcp"])
def test_a_command_of_a_group_is_named_in_full_where_the_group_is_forgotten(name: str) -> None:
    done = call(name)
    assert done.returncode == 2
    assert f"No such command {name!r}: it is 'ofu-exporter fleet {name}'" in done.stderr


def reachable(group: click.Group) -> Iterator[click.Command]:
    for command in group.commands.values():
        yield command
        if isinstance(command, click.Group):
            yield from reachable(command)


def test_every_command_that_is_written_can_be_given() -> None:
    modules = [importlib.import_module(f"ofu_exporter.cli.{path.stem}") for path in FILES]
    written = {
        f"{module.__name__}: {name}": value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, click.Command) and value is not cli
    }
    given = [*reachable(cli)]
    lost = [name for name, command in written.items() if command not in given]
    assert lost == [], "no place in SUBJECTS of cli/__init__.py, or in its group"


@pytest.mark.parametrize(
    ("command", "flag", "default"),
    [
        ("run", "--listen, --web.listen-address HOST:PORT", "0.0.0.0:9846"),
        ("run", "--mfu-above N", "0.02"),
        ("run", "--slurm-poll 1s", "0.25s"),
        ("demo", "--listen, --web.listen-address HOST:PORT", "127.0.0.1:9846"),
        ("demo", "--interval 5s", "1s"),
        ("demo", "--source SOURCE", "replay"),
        ("validate", "--clock-interval 0.5s", "0.05s"),
    ],
)
def test_the_help_shows_the_default_of_this_very_command(
    command: str, flag: str, default: str
) -> None:
    text = " ".join(shown(command, "--help-all").split())
    assert text.split(flag)[1].split(" Default: ")[1].split()[0] == f"{default}."


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["--interval", "45s"], "--interval: 45s is above 30s"),
        (["--interval", "50ms"], "--interval: 0.05s is below 0.1s"),
        (["--interval", "soon"], "--interval: 'soon' is not a duration"),
        (["--listen", "nowhere"], "--listen: 'nowhere' is not HOST:PORT"),
        (["--source", "dcmg"], f"unknown source 'dcmg'; known: auto, {', '.join(sources.names())}"),
        (["--source", "replay"], "source replay needs --path"),
        (["--path", "x"], "--path is an option of source replay, but the source is auto"),
        (["--log-format", "xml"], "--log-format: "),
        (["--config", "/nonexistent.yaml"], "configuration file /nonexistent.yaml: "),
    ],
)
def test_what_cannot_be_used_is_one_line_that_names_it(args: list[str], line: str) -> None:
    done = call("run", *args)
    assert done.returncode == 2
    assert done.stderr.startswith(f"ofu-exporter: {line}")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_key_that_is_no_setting_is_named(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("intervall: 1s\n")
    done = call("run", "--config", str(file))
    assert done.stderr == (
        f"ofu-exporter: unknown setting intervall in {file}; did you mean interval?\n"
    )


def test_a_demonstration_of_a_file_that_is_no_recording_does_not_start(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl.gz"
    done = call("demo", "--path", str(file))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"ofu-exporter: {file}: No such file or directory. ")
    file.write_text("no recording")
    assert call("demo", "--path", str(file)).stderr.startswith(f"ofu-exporter: {file} is not a ")


def test_a_full_disk_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "list", "gpus"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr == "ofu-exporter: cannot write the answer: No space left on device\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "closed", "code"),
    [
        (("fleet", "report", "--prometheus", "http://127.0.0.1:1"), "2>&-", 3),
        (("tail", "-", "--job", "1"), "<&-", 0),
        (("top", "--once", "--source", "simulate", "--interval", "0.1s"), ">&-", 0),
    ],
)
def test_a_closed_standard_stream_changes_no_exit_code(
    command: tuple[str, ...], closed: str, code: int
) -> None:
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh"]
    done = subprocess.run([*shell, *COMMAND, *command], capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)


@pytest.mark.slow
def test_a_letter_that_the_locale_lacks_is_written_as_its_number() -> None:
    done = subprocess.run(
        [*COMMAND, "list", "gpus"],
        env={"PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert r"1380 \u2020" in done.stdout  # a dagger


def test_no_file_of_the_program_takes_the_place_of_a_closed_standard_stream() -> None:
    """Log lines go to descriptor 2: into a socket, if that were the first thing that is opened."""
    program = (
        "import os, sys; sys.argv[1:] = ['--version']\n"
        "from ofu_exporter.__main__ import main\n"
        "try: main()\n"
        "finally: assert all(os.path.samestat(os.fstat(each), os.stat('/dev/null')) for each in range(3))"
    )
    shell = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"]
    done = subprocess.run([*shell, sys.executable, "-c", program], check=False)
    assert done.returncode == 0


def test_an_interrupt_while_it_loads_ends_it_without_a_traceback() -> None:
    program = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from ofu_exporter.__main__ import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_bad_yaml_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("listen: :1\nsource: [nvml\n")
    done = call("check", "--config", str(file))
    assert done.returncode == 2
    assert f"{file}: not YAML, line 3: " in done.stderr


@pytest.mark.slow
def test_no_command_but_those_that_serve_loads_a_server() -> None:
    """FastAPI alone takes 14 MiB and a tenth of a second."""
    commands = [path.stem for path in FILES if path.stem != "run"]
    program = (
        "import importlib, sys\n"
        f"for name in {commands}: importlib.import_module(f'ofu_exporter.cli.{{name}}')\n"
        "print([name for name in ('fastapi', 'starlette', 'uvicorn') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
