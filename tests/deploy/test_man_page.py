"""The manual page says what the program's help says, and a reader of such pages takes it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ofu_exporter.cli import COMMANDS
from tests.helpers import man_page


def test_the_page_is_what_the_help_says(generated: Callable[[Path, str], None]) -> None:
    generated(man_page.FILE, man_page.page())


@pytest.mark.skipif(not shutil.which("groff"), reason="needs groff, which tests/run installs")
def test_a_formatter_has_nothing_to_say_against_it() -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z", man_page.FILE],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not shutil.which("groff"), reason="needs groff, which tests/run installs")
def test_every_command_and_an_option_can_be_found_in_it() -> None:
    text = subprocess.run(
        ["groff", "-man", "-Tascii", "-P-cbou", man_page.FILE],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for command in COMMANDS:
        assert command in text
    assert "--web.config.file FILE" in text
