"""Modules that are found by their names: in a package of files, and in one of folders."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.support.registry import Registry

PACKAGE = "registered"

Make = Callable[..., Registry[Any]]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Writes a package of modules, by path, and gives its registry."""

    def made(modules: dict[str, str], **how: Any) -> Registry[Any]:
        for path, text in {"__init__.py": "", **modules}.items():
            file = tmp_path / PACKAGE / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        importlib.import_module(PACKAGE)
        return Registry(PACKAGE, "thing", **how)

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield made
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def test_to_lie_in_the_package_is_to_be_registered(make: Make) -> None:
    things = make({"second.py": "", "first.py": "", "notes.txt": ""})
    assert things.names() == ("first", "second")
    assert things.load("first").__name__ == "registered.first"


def test_a_module_that_is_not_asked_for_is_not_loaded(make: Make) -> None:
    things = make({"good.py": "", "bad.py": "raise RuntimeError"})
    assert things.names() == ("bad", "good")
    assert things.load("good")
    assert "registered.bad" not in sys.modules


def test_a_module_is_loaded_once(make: Make) -> None:
    things = make({"first.py": ""})
    assert things.load("first") is things.load("first")


def test_a_folders_name_has_dashes_and_its_inner_file_is_what_is_loaded(make: Make) -> None:
    things = make(
        {"two_words/__init__.py": "", "two_words/driver.py": "", "two_words/helper.py": ""},
        inner="driver",
    )
    assert things.names() == ("two-words",)
    assert things.load("two-words").__name__ == "registered.two_words.driver"


def test_a_files_name_is_public_as_it_is(make: Make) -> None:
    assert make({"two_words.py": ""}).names() == ("two_words",)


@pytest.mark.parametrize("name", ["thrid", "", "First", "first.py", "__init__", "../first", "auto"])
def test_an_unknown_name_is_an_error_that_lists_the_known(make: Make, name: str) -> None:
    things = make({"first.py": "", "third.py": ""}, reserved=("auto", "none"))
    with pytest.raises(ConfigError) as caught:
        things.load(name)
    assert str(caught.value) == f"unknown thing {name!r}; known: auto, none, first, third"


def test_a_folder_is_not_known_by_the_name_that_python_gives_it(make: Make) -> None:
    things = make({"two_words/__init__.py": "", "two_words/driver.py": ""}, inner="driver")
    with pytest.raises(ConfigError, match=r"known: two-words$"):
        things.load("two_words")


def test_a_summary_is_the_first_line_of_the_docstring(make: Make) -> None:
    things = make({"told.py": '"""\nReads it.\n\nMore.\n"""', "silent.py": ""})
    assert things.summary("told") == "Reads it."
    assert things.summary("silent") == ""


def test_auto_tries_the_lowest_rank_first_and_none_never(make: Make) -> None:
    ranks = {"last": 9, "never": None, "first": 1, "zero": 0}
    things = make({f"{name}.py": f"AUTO_RANK = {rank}" for name, rank in ranks.items()})
    assert things.automatic() == ["zero", "first", "last"]


def test_a_module_without_a_rank_is_a_mistake_that_is_seen(make: Make) -> None:
    things = make({"first.py": ""})
    with pytest.raises(AttributeError, match="AUTO_RANK"):
        things.automatic()
