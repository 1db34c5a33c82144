"""Every term of every convention, of each configuration for which it is defined, golden."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from enum import Enum

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from ofu_exporter.flops import Term, conventions
from tests.flops.counting import NAMES, config


def shown(value: object) -> object:
    return value.value if isinstance(value, Enum) else value


def changed(one: object) -> Iterator[str]:
    """The fields that are not as by default, and those within them."""
    for field in fields(one):  # type: ignore[arg-type]
        value = getattr(one, field.name)
        if value == field.default:
            continue
        if hasattr(value, "__dataclass_fields__"):
            yield f"{field.name}({' '.join(changed(value))})"
        else:
            yield f"{field.name}={shown(value)}"


def line(term: Term) -> str:
    return " ".join(changed(term)) + "\n"


def of_model(convention: str, name: str) -> str:
    model = flops.read(config(name))
    try:
        terms = conventions.load(convention).terms(model, flops.Counting())
    except ConfigError as error:
        return f"--- {name}: {error}\n"
    return f"--- {name}\n" + "".join(map(line, terms))


@pytest.mark.parametrize("convention", conventions.names())
def test_the_terms_of_a_convention_are_what_they_were(
    convention: str, golden: Callable[[str, str], None]
) -> None:
    golden(f"terms/{convention}.txt", "".join(of_model(convention, name) for name in NAMES))
