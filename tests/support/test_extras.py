"""What is said to install is what the package asks for, and never the package by a name that nobody holds."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ofu_exporter.cli import fleet_mcp
from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.digest.delivery import AppriseSender
from ofu_exporter.fleet.pages.rows import as_parquet
from ofu_exporter.serving.read_access import bcrypt_check
from ofu_exporter.support.extras import EXTRAS, install_command
from ofu_exporter.validation.findings import Findings
from ofu_exporter.validation.plot import draw
from tests.fleet.reports.test_fleet_report import report
from tests.helpers.every import every

ROOT = Path(__file__).parents[2]
TESTED = ("digest", "auth", "kubernetes", "mcp", "parquet", "top")
"""Extras whose libraries stand in the group of the tests."""
SPREAD = ("ofu_exporter", "docs", "deploy", "helm", "README.md", "SECURITY.md", "CHANGELOG.md")
"""What reaches users."""
BARE = re.compile(
    r"ofu[-_]exporter\[|pip3? install\b[^`#;]*[\s'\"]ofu[-_]exporter(?=[\s'\"`=<>~]|$)"
)
"""The package by its bare name, with an extra or for pip."""


def lists(table: str) -> dict[str, tuple[str, ...]]:
    """A table of pyproject.toml that has but strings in lists: Python 3.10 has no reader of TOML."""
    text = (ROOT / "pyproject.toml").read_text()
    inside = re.split(r"^\[(?!\[)", text.partition(f"[{table}]")[2], maxsplit=1, flags=re.M)[0]
    listed = re.findall(r"^([\w-]+) = \[(.*?)^\]", inside, re.M | re.S)
    return {name: tuple(re.findall(r'^  "(.*?)"', rows, re.M)) for name, rows in listed}


def test_every_extra_is_known_with_what_it_asks_for() -> None:
    assert lists("project.optional-dependencies") == EXTRAS


def test_what_a_checkout_is_worked_on_with_is_no_extra() -> None:
    groups = lists("dependency-groups")
    assert {"test", "test-torch", "docs", "release", "fuzz", "mutation"} <= groups.keys()
    assert not groups.keys() & EXTRAS.keys()
    assert groups["features"] == tuple(library for name in TESTED for library in EXTRAS[name])
    assert groups["test-torch"][:3] == EXTRAS["executed"]


def test_the_first_page_lists_every_extra_with_its_libraries() -> None:
    table = (ROOT / "docs" / "start.md").read_text().partition("| extra | libraries |")[2]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", table.partition("\n\n")[0], re.M)
    names = {name: [re.split("[<>=]", each)[0] for each in asked] for name, asked in EXTRAS.items()}
    assert {name: libraries.split(", ") for name, libraries in rows} == names


def test_a_command_quotes_what_a_shell_would_take_for_a_redirection() -> None:
    assert install_command("top") == "pip install 'textual>=3.1'"
    assert install_command("executed").count("'") == 2 * len(EXTRAS["executed"])


@every(
    [
        ("pip install 'ofu-exporter[top]'", True),
        ("pip install ofu-exporter", True),
        ("pip install --find-links . 'ofu-exporter==0.1.0'", True),
        ("`pip install -U ofu_exporter`", True),
        ("pip install './ofu_exporter-0.1.0-py3-none-any.whl[auth]'", False),
        ("pip install --no-deps ofu_exporter-0.1.0-py3-none-any.whl", False),
        ("/opt/ofu-exporter/bin/pip install .", False),
        ("helm install ofu-exporter helm/ofu-exporter", False),
    ]
)
def test_the_bare_name_is_told_from_a_file(line: str, found: bool) -> None:
    assert bool(BARE.search(line)) == found


def test_nothing_that_users_read_installs_the_package_by_its_bare_name() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *SPREAD],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not in a repository")
    paths = [
        ROOT / name for name in listed.stdout.splitlines() if not name.endswith((".png", ".gz"))
    ]
    assert len(paths) > 500
    bare = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in paths
        if path.exists()
        for line in path.read_text().splitlines()
        if BARE.search(line)
    ]
    assert not bare


def mcp_command() -> None:
    fleet_mcp.mcp.main(["--prometheus", "http://127.0.0.1:9"], standalone_mode=False)


@pytest.mark.parametrize(
    ("library", "extra", "use"),
    [
        ("bcrypt", "auth", bcrypt_check),
        ("apprise", "digest", lambda: AppriseSender("json://127.0.0.1")),
        ("mcp.server", "mcp", mcp_command),
        ("pyarrow", "parquet", lambda: as_parquet(report())),
        ("matplotlib.figure", "plot", lambda: draw(Findings.__new__(Findings), Path())),
    ],
)
def test_what_needs_a_library_that_is_not_there_says_how_to_install_it(
    library: str, extra: str, use: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ConfigError, match=re.escape(install_command(extra))):
        use()
