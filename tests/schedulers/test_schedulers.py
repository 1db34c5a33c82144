"""What every scheduler, and every source, has in common, asked of whatever drivers the package holds."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ofu_exporter import schedulers, sources
from ofu_exporter.errors import ConfigError
from ofu_exporter.settings import Settings
from tests.helpers.every import every

Package = Any
"""`sources` or `schedulers`."""
MEMBERS = {
    sources: ("Source", "open", "close", "simulated", "rejected"),
    schedulers: ("Scheduler", "claims", "close", "poll_seconds", "rejected"),
}
"""The class of a driver, and what it offers."""
every_driver = pytest.mark.parametrize(
    ("package", "name"), [(package, name) for package in MEMBERS for name in package.names()]
)


def test_a_schedulers_name_is_its_folders_name_with_dashes() -> None:
    assert {"kubernetes", "simulate", "slurm"} <= set(schedulers.names())
    assert not any("_" in name for name in schedulers.names())


@every_driver
def test_a_driver_has_options_a_rank_and_its_class(package: Package, name: str) -> None:
    module, options = package.load(name), package.options(name)
    assert issubclass(options.Options, BaseModel)
    assert options.AUTO_RANK is None or isinstance(options.AUTO_RANK, int)
    kind, *members = MEMBERS[package]
    assert all(hasattr(getattr(module, kind), member) for member in members)


@every_driver
def test_options_are_frozen_and_refuse_what_they_do_not_know(package: Package, name: str) -> None:
    config = package.options(name).Options.model_config
    assert (config.get("frozen"), config.get("extra")) == (True, "forbid")


@every_driver
def test_every_option_says_what_it_is_in_a_sentence(package: Package, name: str) -> None:
    for key, field in package.options(name).Options.model_fields.items():
        assert field.description, key
        assert field.description.endswith("."), key


@every_driver
def test_a_drivers_docstring_begins_with_what_it_reads(package: Package, name: str) -> None:
    assert package.summary(name).endswith((".", ":", ";", ","))


def test_no_option_has_the_name_of_a_setting_or_of_another_drivers_option() -> None:
    """They are all flags of one command. Drivers that share a model share its flags."""
    models: set[type[BaseModel]] = {
        Settings,
        *(sources.options(name).Options for name in sources.names()),
        *(schedulers.options(name).Options for name in schedulers.names()),
    }
    uses = Counter(key for model in models for key in model.model_fields)
    assert [key for key, count in uses.items() if count > 1] == []


def test_auto_never_makes_jobs_up() -> None:
    assert "simulate" not in schedulers.automatic()


@every([schedulers, sources])
def test_auto_asks_the_lowest_rank_first(package: Package) -> None:
    ranks = [package.options(name).AUTO_RANK for name in package.automatic()]
    assert ranks == sorted(rank for rank in ranks if rank is not None)
    assert len(ranks) == len(set(ranks)) > 0


@every(["slrum", "", "slurm.driver", "hooks", "Slurm", "none"])
def test_an_unknown_scheduler_is_an_error_that_lists_the_known(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        schedulers.load(name)
    assert repr(name) in str(caught.value)
    assert all(known in str(caught.value) for known in ["auto", "none", *schedulers.names()])


@every(["schedulers", "sources"])
def test_a_drivers_folder_loads_nothing_by_itself(kind: str) -> None:
    """A hook of Slurm's imports a neighbour of its driver, once for every job of the cluster."""
    package = {"schedulers": schedulers, "sources": sources}[kind]
    for found in Path(package.__path__[0]).glob("*/__init__.py"):
        assert found.read_text() == "", found


def test_a_hook_of_slurm_loads_the_standard_library_and_ours_alone() -> None:
    program = (
        "import sys; before = set(sys.modules)\n"
        "import ofu_exporter.schedulers.slurm.hooks\n"
        "loaded = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(loaded - sys.stdlib_module_names))"
    )
    command = [sys.executable, "-W", "error", "-c", program]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    assert told.stdout.strip() == "['ofu_exporter']"
