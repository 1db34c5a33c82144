"""The documentation shows what the commands print, and names every family, convention and reader."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from ofu_exporter.cli import cli
from ofu_exporter.flops import conventions, families, readers

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/flops.md")
COMMAND = "$ ofu-exporter "


def examples(page: str, names: tuple[str, ...] = ("flops", "mfu")) -> list[tuple[str, list[str]]]:
    """Each of some commands that a page shows with `$`, and the lines shown below it."""
    found: list[tuple[str, list[str]]] = []
    shown: list[str] = []
    for line in (ROOT / page).read_text().splitlines():
        text = line.removeprefix("    ")
        if line and text == line:  # not indented: outside of a block
            shown = []
        elif text.startswith("$ "):
            shown = []
            if text.startswith(tuple(f"{COMMAND}{name} " for name in names)):
                found.append((text.removeprefix(COMMAND), shown))
        else:
            shown.append(text)
    return found


def pattern(lines: list[str]) -> str:
    """The lines as they are, with `...` for any lines."""
    text = "\n".join(lines).strip() + "\n"
    return r"(?:.*\n)*?".join(re.escape(part) for part in text.split("...\n"))


def test_there_are_examples() -> None:
    assert [len(examples(page)) for page in PAGES] == [1, 7]


@pytest.mark.parametrize(
    ("command", "lines"), [example for page in PAGES for example in examples(page)]
)
def test_a_command_prints_what_is_shown(
    command: str, lines: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(tmp_path)
    made = re.search(r"\$ echo '(.*)' > 125m\.json", (ROOT / "docs/flops.md").read_text())
    assert made
    (tmp_path / "125m.json").write_text(made[1])
    result = CliRunner().invoke(cli, shlex.split(command))
    assert result.exit_code == 0, result.output
    assert re.fullmatch(pattern(lines), result.output), result.output


def test_everything_is_named() -> None:
    text = (ROOT / "docs/flops.md").read_text()
    for name in (*families.names(), *conventions.names(), *readers.names()):
        assert f"`{name}`" in text
