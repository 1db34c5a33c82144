"""`fleet report --folder`."""

from __future__ import annotations

from pathlib import Path

import pytest

from ofu_exporter.errors import ConfigError
from tests.cli.test_fleet_report import run


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--folder", "here", "--output", "file"), "neither --output nor another --format"),
        (("--folder", "here", "--format", "json"), "neither --output nor another --format"),
        (("--send",), "--send and --config go with --folder"),
        (("--folder", "here", "--send"), "--send needs `send` in the file of --config"),
    ],
)
def test_flags_of_a_folder_that_do_not_go_together_are_refused(
    flags: tuple[str, ...], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("http://127.0.0.1:1", *flags)
    assert isinstance(result.exception, ConfigError)
    assert why in str(result.exception)
    assert list(tmp_path.iterdir()) == []
