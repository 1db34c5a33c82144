"""The settings of the agent: what the model takes, and that nothing changes them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from ofu_exporter.cli.settings import SettingValue, build, flag_of, option_models
from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.digest.config_file import DigestConfig, Exemptions
from ofu_exporter.fleet.history.prices import Prices
from ofu_exporter.fleet.simulation.spec import FaultSpec, FleetSpec
from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.settings import GpuSetting, PullSetting, Settings, host_and_port
from ofu_exporter.support.checked_yaml import YamlSection
from tests.helpers.every import every


@given(st.floats(0.1, 30.0).map(lambda value: round(value, 3)))
def test_every_interval_in_range_is_taken(value: float) -> None:
    assert Settings.model_validate({"interval": f"{value:.3f}s"}).interval == pytest.approx(value)


@pytest.mark.parametrize(
    ("listen", "host", "port"),
    [
        ("127.0.0.1:9846", "127.0.0.1", 9846),
        ("localhost:0", "localhost", 0),
        (":9846", "0.0.0.0", 9846),
        ("[::1]:9846", "::1", 9846),
        ("[::]:65535", "::", 65535),
    ],
)
def test_forms_of_an_address(listen: str, host: str, port: int) -> None:
    assert host_and_port(listen) == (host, port)
    assert Settings(listen=listen).listen == listen


TESTS = Path(__file__).parent


def test_every_setting_is_read_and_is_set_by_a_test() -> None:
    """One that no test sets could be read under another's name."""
    code = "".join(each.read_text() for each in (TESTS.parent / "ofu_exporter").rglob("*.py"))
    tests = "".join(each.read_text() for each in TESTS.rglob("test_*.py"))
    models: list[type[BaseModel]] = [Settings, *option_models().values()]
    fields = {name: field for model in models for name, field in model.model_fields.items()}
    unread = [name for name in fields if not re.search(rf"[.\"]{name}\b", code)]
    unset = [
        name
        for name, field in fields.items()
        if not re.search(rf"\b{name}\b|{flag_of(name, field)}\b|OFU_{name.upper()}\b", tests)
    ]
    assert (unread, unset) == ([], []), "settings that nothing reads, and that no test sets"


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError):
        Settings().interval = 1.0  # type: ignore[misc]


def numbers() -> Iterator[tuple[type[BaseModel], str]]:
    """Every setting that takes a number, of the agent, its sources and schedulers, and the files of `fleet`."""
    models: list[type[BaseModel]] = [Settings, GpuSetting, PullSetting, *option_models().values()]
    for model in (*models, *YamlSection.__subclasses__()):
        for name, shape in model.model_json_schema()["properties"].items():
            kinds = {each.get("type") for each in (shape, *shape.get("anyOf", ()))}
            if kinds & {"number", "integer"}:
                yield model, name


@every(
    [
        *((model, name, True) for model, name in numbers()),
        (GpuSetting, "flops_per_cycle_per_sm", {"bf16": True}),
        (PullSetting, "precision", {"bf16": True}),
        (Prices, "gpu_hour", {"*": True}),
        (DigestConfig, "targets", {"*": True}),
        (DigestConfig, "targets", {"*": {"c": True}}),
        (FaultSpec, "gpus", [True]),
    ]
)
def test_true_is_no_number(model: type[BaseModel], name: str, value: object) -> None:
    assert re.search("rue is not a (number|duration)", " ".join(refused(model, name, value)))


def refused(model: type[BaseModel], name: str, value: object) -> list[str]:
    """What is said of one setting."""
    with pytest.raises(ValidationError) as caught:
        model.model_validate({name: value})
    return [error["msg"] for error in caught.value.errors() if error["loc"][0] == name]


@every(["mfu_above", "mfu_below", "mfu_above_relative", "mfu_below_relative", "trace_below"])
def test_a_ratio_is_none_or_not_tiny(name: str) -> None:
    assert refused(Settings, name, 5e-324) == [
        "Value error, 4.94066e-324 is neither 0 nor at least 1e-06"
    ]
    assert getattr(Settings.model_validate({name: 1e-6}), name) == 1e-6


@every(
    [
        (PullSetting, "precision", {"bf16": 5e-324}),
        (DigestConfig, "low_clock", 5e-324),
        (DigestConfig, "targets", {"*": 5e-324}),
        (DigestConfig, "targets", {"*": {"c": 5e-324}}),
        (Exemptions, "dram_busy", 5e-324),
    ]
)
def test_so_is_one_of_a_file(model: type[BaseModel], name: str, value: object) -> None:
    assert "is neither 0 nor" in " ".join(refused(model, name, value))


@every(["1", "1.0", 1, 1.0])
def test_forms_of_a_number(form: object) -> None:
    """As variables, flags and YAML have them."""
    assert Settings.model_validate({"mfu_above": form}).mfu_above == 1
    given: dict[str, Any] = {"name": "x", "tensor_clock_hz": 1.83e9, "sm_count": form}
    assert GpuSetting.model_validate(given).sm_count == 1


@every([(True, "true is not a number"), (1e-9, "1e-09 is neither 0 nor")])
def test_a_number_that_cannot_be_used_is_named_with_its_place(value: object, says: str) -> None:
    with pytest.raises(ConfigError, match=f"^mfu_above in x.yaml: {says}"):
        build(Settings, {"mfu_above": SettingValue(value, "mfu_above in x.yaml")})


def bounds_under_unknown_names(schema: object) -> Iterator[str]:
    """What pydantic calls ge, gt, le and lt has other names in JSON Schema."""
    if isinstance(schema, dict):
        yield from schema.keys() & {"ge", "gt", "le", "lt"}
    for inner in schema.values() if isinstance(schema, dict) else ():
        for each in inner if isinstance(inner, list) else (inner,):
            yield from bounds_under_unknown_names(each)


@every([MfuReport, Settings, *option_models().values(), DigestConfig, Prices, FleetSpec])
def test_a_schema_has_the_bounds_of_its_numbers(model: type[BaseModel]) -> None:
    durations = ["gt"] * 2 * (model is Settings)  # the chart writes durations as text, without them
    assert [*bounds_under_unknown_names(model.model_json_schema())] == durations
