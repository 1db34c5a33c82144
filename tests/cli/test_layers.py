"""Layers of settings: what a file and the environment set, and which layer wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from ofu_exporter.cli.layers import (
    Given,
    build,
    check_known,
    environment_layer,
    file_layer,
    shown,
)
from ofu_exporter.errors import ConfigError
from ofu_exporter.settings import Settings
from tests.helpers.every import every

KNOWN = ("interval", "listen")


def refusal(file: Path) -> str:
    """What the user is told of a file; always one line."""
    with pytest.raises(ConfigError) as caught:
        file_layer(file)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def test_a_model_takes_its_own_keys_and_names_the_place_of_a_bad_one() -> None:
    layer = {"interval": Given("2s", "--interval"), "seed": Given("x", "--seed")}
    assert build(Settings, layer).interval == 2.0
    with pytest.raises(ConfigError, match=r"^OFU_INTERVAL: '2 weeks' is not a duration"):
        build(Settings, {"interval": Given("2 weeks", "OFU_INTERVAL")})


def test_a_key_that_is_no_setting_is_refused_with_the_nearest_that_is() -> None:
    check_known({"interval": Given(1, "x")}, KNOWN)
    with pytest.raises(ConfigError, match=r"^unknown setting y; did you mean interval\?$"):
        check_known({"interval": Given(1, "x"), "intervals": Given(1, "y")}, KNOWN)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("interval", 0.5, "0.5s"),
        ("horizon", 7200.0, "2h"),
        ("mfu_above", 0.02, "0.02"),
        ("job_tokens", False, "false"),
        ("state_file", None, "none"),
        ("listen", ":1", ":1"),
    ],
)
def test_a_value_is_shown_as_people_write_it(name: str, value: object, text: str) -> None:
    assert shown(Settings.model_fields[name], value) == text


# The environment.


def test_a_variable_sets_what_it_names() -> None:
    layer = environment_layer({"OFU_INTERVAL": "5s", "OFU_CONFIG": "f", "HOME": "/"}, KNOWN)
    assert layer == ({"interval": Given("5s", "OFU_INTERVAL")}, ())


def test_a_variable_that_is_no_setting_is_ignored_and_said_with_the_nearest_that_is() -> None:
    """Kubernetes sets the second one for every pod beside a Service called ofu: an agent must start there."""
    variables = {"OFU_INTERVALL": "5s", "OFU_PORT_9846_TCP_ADDR": "10.0.0.1", "OFU_LISTEN": ":1"}
    assert environment_layer(variables, KNOWN) == (
        {"listen": Given(":1", "OFU_LISTEN")},
        (
            "the variable OFU_INTERVALL is not a setting and is ignored; did you mean OFU_INTERVAL?",
            "the variable OFU_PORT_9846_TCP_ADDR is not a setting and is ignored",
        ),
    )


@every(["OFU_EXPORTER_PORT", "OFU_EXPORTER_SERVICE_HOST", "OFU_EXPORTER_PORT_9846_TCP_ADDR"])
def test_what_kubernetes_sets_for_a_service_is_left_alone(name: str) -> None:
    assert environment_layer({name: "tcp://10.0.0.1:9846"}, KNOWN) == ({}, ())


@every(["PATH", "INTERVAL", "OFUX", "ofu_interval", "OFU_TEST_X"])
def test_variables_of_others_are_left_alone(name: str) -> None:
    assert environment_layer({name: "5s"}, KNOWN) == ({}, ())


# The file.


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n"])
def test_an_empty_file_sets_nothing(file: Path, text: str) -> None:
    file.write_text(text)
    assert file_layer(file) == {}


def test_a_setting_that_is_there_twice_is_refused_with_its_line(file: Path) -> None:
    file.write_text("interval: 5s\nlisten: :1\ninterval: 30s\n")
    assert f"{file}: not YAML, line 3: a key is there twice" in refusal(file)


@pytest.mark.parametrize("text", ["a: b: c", "a: [", "\t- x", "a: &x *y", '"', "a: !python/x y"])
def test_what_is_not_yaml_is_said_with_its_line(file: Path, text: str) -> None:
    file.write_text(f"# one\n{text}\n")
    told = refusal(file)
    assert f"{file}: not YAML" in told
    assert "line 2" in told or "line 3" in told


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("interval: 2025-13-45", id="no such day"),
        pytest.param("interval: !!int x", id="no integer"),
        pytest.param("interval: !!bool x", id="no truth"),
        pytest.param("interval: !!timestamp x", id="no time"),
        pytest.param("interval: " + "9" * 5000, id="too many digits"),
        pytest.param("interval: " + "[" * 5000, id="too deep"),
    ],
)
def test_a_value_that_yaml_cannot_make_is_an_error_of_the_file(file: Path, text: str) -> None:
    file.write_text(text + "\n")
    assert str(file) in refusal(file)


@pytest.mark.parametrize("text", ["- interval", "interval", "5", "true", "[]"])
def test_what_is_not_a_mapping_is_said_to_be_none(file: Path, text: str) -> None:
    file.write_text(text)
    told = refusal(file)
    assert str(file) in told
    assert "`key: value`" in told


def test_a_file_that_is_missing_is_named(file: Path) -> None:
    assert str(file) in refusal(file)


def test_a_file_that_cannot_be_read_is_named(file: Path) -> None:
    file.mkdir()
    assert str(file) in refusal(file)


def test_a_file_that_is_no_text_is_named(file: Path) -> None:
    file.write_bytes(b"\xff\xfe\x00interval")
    assert str(file) in refusal(file)
