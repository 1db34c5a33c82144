"""What every source has in common, asked of whatever modules the package holds."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ofu_exporter import sources
from ofu_exporter.errors import ConfigError


def test_a_sources_name_is_its_files_name_with_dashes() -> None:
    assert {"dcgm", "dcgm-exporter", "nvml", "replay", "simulate"} <= set(sources.names())
    assert not any("_" in name for name in sources.names())


@pytest.mark.slow
def test_the_agent_with_every_source_imports_nothing_that_few_need() -> None:
    program = (
        "import sys; from ofu_exporter import sources\n"
        "import ofu_exporter.agent.daemon\n"
        "for name in sources.names(): sources.load(name)\n"
        "print([name for name in ('pynvml', 'httpx', 'jinja2') if name in sys.modules])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"


def test_auto_never_makes_values_up() -> None:
    assert not {"replay", "simulate"} & set(sources.automatic())


@pytest.mark.parametrize("name", ["dcmg", "", "__init__", "nvml.py", "../config", "NVML"])
def test_an_unknown_source_is_an_error_that_lists_the_known(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        sources.load(name)
    assert repr(name) in str(caught.value)
    assert all(known in str(caught.value) for known in ["auto", *sources.names()])
