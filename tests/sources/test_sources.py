"""What every source has in common, asked of whatever modules the package holds."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import BaseModel

from ofu_exporter import sources
from ofu_exporter.errors import ConfigError

every_source = pytest.mark.parametrize("name", sources.names())


def test_a_sources_name_is_its_files_name_with_dashes() -> None:
    assert {"dcgm", "dcgm-exporter", "nvml", "replay", "simulate"} <= set(sources.names())
    assert not any("_" in name for name in sources.names())


@every_source
def test_a_source_has_options_a_rank_and_a_source(name: str) -> None:
    module, options = sources.load(name), sources.options(name)
    assert issubclass(options.Options, BaseModel)
    assert options.AUTO_RANK is None or isinstance(options.AUTO_RANK, int)
    for member in ("open", "close", "simulated", "rejected"):
        assert hasattr(module.Source, member)


@every_source
def test_options_are_frozen_and_refuse_what_they_do_not_know(name: str) -> None:
    config = sources.options(name).Options.model_config
    assert (config.get("frozen"), config.get("extra")) == (True, "forbid")


@every_source
def test_every_option_says_what_it_is_in_a_sentence(name: str) -> None:
    for key, field in sources.options(name).Options.model_fields.items():
        assert field.description, key
        assert field.description.endswith("."), key


@every_source
def test_a_sources_docstring_begins_with_what_it_reads(name: str) -> None:
    assert sources.summary(name).endswith((".", ";", ","))


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


def test_auto_tries_the_lowest_rank_first() -> None:
    ranks = [sources.options(name).AUTO_RANK for name in sources.automatic()]
    assert ranks == sorted(rank for rank in ranks if rank is not None)
    assert len(ranks) == len(set(ranks)) > 0


@pytest.mark.parametrize("name", ["dcmg", "", "__init__", "nvml.py", "../config", "NVML"])
def test_an_unknown_source_is_an_error_that_lists_the_known(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        sources.load(name)
    assert repr(name) in str(caught.value)
    assert all(known in str(caught.value) for known in ["auto", *sources.names()])
