"""Every command that a page shows with `$`, and that needs no server and no GPU, prints what the page says it does."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ofu_exporter.cli import cli
from tests.validation.simulation import simulated_place

pytestmark = pytest.mark.usefixtures("own_logging")

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
COMMAND = "$ ofu-exporter "
PYTHON = "$ python -c "
PURE = ("explain", "flops", "mfu", "profile", "tile", "validate")
OUTSIDE = "validate --quick"
"""The simulated card is outside of the bounds, which is exit code 5: raw OFU counts tiles."""
ENVIRONMENT = {"OFU_SOURCE": "simulate"}


def examples(page: Path) -> list[tuple[str, list[str]]]:
    """The page's commands of those, and the lines shown below each."""
    found: list[tuple[str, list[str]]] = []
    shown: list[str] = []
    for line in page.read_text().splitlines():
        text = line.removeprefix("    ").replace("$ .venv/bin/", "$ ")
        if line and text == line:  # not indented: outside of a block
            shown = []
        elif text.startswith("$ "):
            shown = []
            if text.startswith(PYTHON):
                found.append((text, shown))
            if text.startswith(tuple(f"{COMMAND}{name} " for name in PURE)):
                found.append((text.removeprefix(COMMAND), shown))
        else:
            shown.append(text)
    return found


def pattern(lines: list[str]) -> str:
    """The lines as they are, with `...` for any lines."""
    text = "\n".join(lines).strip() + "\n"
    return r"(?:.*\n)*?".join(re.escape(part) for part in text.split("...\n"))


EXAMPLES = [example for page in PAGES for example in examples(page)]
SHOWN = [example for example in EXAMPLES if not example[0].startswith(PYTHON)]
IN_PYTHON = [example for example in EXAMPLES if example[0].startswith(PYTHON)]


def test_every_command_has_an_example() -> None:
    assert {command.split()[0] for command, _ in SHOWN} == {*PURE}


@pytest.mark.parametrize(("command", "lines"), SHOWN)
def test_a_command_prints_what_is_shown(
    command: str, lines: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(tmp_path)
    made = re.search(r"\$ echo '(.*)' > 125m\.json", (ROOT / "docs/flops.md").read_text())
    assert made
    (tmp_path / "125m.json").write_text(made[1])
    words = shlex.split(command)
    result = CliRunner().invoke(cli, words, obj=simulated_place, env=ENVIRONMENT)
    assert result.exit_code == (5 if command == OUTSIDE else 0), result.output
    assert re.fullmatch(pattern(lines), result.stdout), result.output


def test_there_are_examples_in_python() -> None:
    assert len(IN_PYTHON) >= 3


@pytest.mark.parametrize(("command", "lines"), IN_PYTHON)
def test_a_line_of_python_prints_what_is_shown(command: str, lines: list[str]) -> None:
    code = shlex.split(command.removeprefix("$ "))[1:]
    done = subprocess.run(
        [sys.executable, "-W", "error", *code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(pattern(lines), done.stdout), done.stdout


@pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq, which tests/run installs")
def test_jq_passes_over_what_systemd_and_not_the_agent_logs() -> None:
    text = (ROOT / "docs" / "terminal.md").read_text()
    (words,) = re.findall(r"-u ofu-exporter -o cat [|] (jq .*)", text)
    lines = 'Started Prometheus exporter.\n{"event":"job_began"}\n{"event":"job_ended"}\n'
    done = subprocess.run(
        shlex.split(words), input=lines, capture_output=True, text=True, check=True
    )
    assert done.stdout == '{"event":"job_ended"}\n'
