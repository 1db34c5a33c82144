"""Flags, environment and file as settings: which place wins, and how what cannot be used is named with its place."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from ofu_exporter.cli.settings import (
    COMMON,
    MEASURE,
    SERVE,
    SettingValue,
    build,
    check_known,
    configure,
    environment_layer,
    file_layer,
    option_models,
    shown,
)
from ofu_exporter.errors import ConfigError
from ofu_exporter.settings import FILE_ONLY, Configured, Settings
from ofu_exporter.sources.dcgm_exporter.driver import Options as DcgmOptions
from ofu_exporter.sources.simulate.driver import Options as SimulateOptions
from tests.helpers.every import every


def loaded(
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    file: Path | None = None,
    preset: Mapping[str, SettingValue] | None = None,
) -> Configured:
    given = {**(flags or {}), **({"config": file} if file else {})}
    return configure(given, preset, environ or {})


def refusal(
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> str:
    """What the user is told; always one line."""
    with pytest.raises(ConfigError) as caught:
        loaded(flags, environ, file)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


# Ranges and addresses.


@every(["0.1", "100ms", "30s", "0.5m"])
def test_both_ends_of_the_interval_are_taken(value: str) -> None:
    assert loaded({"interval": value}).settings.interval in (0.1, 30.0)


@every(
    [
        ("99ms", "below 0.1s", "refreshes its counters"),
        ("0", "below 0.1s", "refreshes its counters"),
        ("31s", "above 30s", "averages of averages"),
        ("1h", "above 30s", "averages of averages"),
    ]
)
def test_an_interval_out_of_range_is_refused_with_the_reason(
    value: str, limit: str, why: str
) -> None:
    text = refusal({"interval": value})
    assert all(part in text for part in ("--interval", limit, why))


@every(["clock_interval", "timeout", "collect_interval"])
def test_no_duration_is_zero(name: str) -> None:
    assert "--" + name.replace("_", "-") in refusal({name: "0"})


def test_a_collection_is_at_most_the_longest_window() -> None:
    assert "--collect-interval" in refusal({"collect_interval": "31s"})


@every(["", "9846", "localhost", "localhost:", "h:http", "h:65536", "h:-1", "h:\u0663", "h: 80"])
def test_what_is_no_address_is_refused(listen: str) -> None:
    text = refusal({"listen": listen})
    assert "--listen" in text
    assert "is not HOST:PORT" in text


# Where a value was set.


@pytest.mark.parametrize(
    ("value", "name"),
    [("soon", "interval"), ("99s", "interval"), ("here", "listen"), ("xml", "log_format")],
)
def test_a_bad_value_is_named_with_where_it_was_set(file: Path, value: str, name: str) -> None:
    file.write_text(f"{name}: {value}\n")
    assert "--" + name.replace("_", "-") in refusal({name: value})
    assert f"OFU_{name.upper()}" in refusal(environ={f"OFU_{name.upper()}": value})
    assert f"{name} in {file}" in refusal(file=file)


@every(["state_file", "pause_file", "web_config_file", "job_dir", "dcgm_job_dir"])
def test_an_empty_path_is_not_the_folder_that_the_agent_is_in(name: str) -> None:
    told = refusal(environ={f"OFU_{name.upper()}": ""})
    assert told == f"OFU_{name.upper()}: it is empty; leave it out, or name a file"


def test_a_bad_option_of_a_source_is_named_with_where_it_was_set(file: Path) -> None:
    file.write_text("source: dcgm-exporter\nunchanged-limit: long\n")
    assert "--url" in refusal({"source": "dcgm-exporter", "url": "localhost:9400"})
    assert "OFU_URL" in refusal(environ={"OFU_SOURCE": "dcgm-exporter", "OFU_URL": "ftp://x/"})
    assert f"unchanged-limit in {file}" in refusal(file=file)


def test_every_bad_value_is_named_at_once() -> None:
    text = refusal({"interval": "99s", "listen": "here"})
    assert "--interval" in text
    assert "--listen" in text


def test_a_source_that_is_not_known_is_named_with_where_it_was_set(file: Path) -> None:
    file.write_text("source: nvlm\n")
    assert "--source" in refusal({"source": "nvlm"})
    assert "OFU_SOURCE" in refusal(environ={"OFU_SOURCE": "nvlm"})
    assert str(file) in refusal(file=file)


def test_a_source_that_is_not_known_is_told_the_known_ones() -> None:
    text = refusal({"source": "nvlm"})
    assert all(name in text for name in ("'nvlm'", "auto", "nvml", "dcgm-exporter"))


def test_a_setting_that_is_missing_says_all_the_ways_to_give_it() -> None:
    text = refusal({"source": "replay"})
    assert all(part in text for part in ("source replay", "--path", "OFU_PATH", "path in the file"))


@pytest.mark.parametrize(
    ("section", "line"),
    [
        ("gpus", "tensor_clock_hz: 1830"),
        ("gpus", "sm_count: 1000000000000"),
        ("gpus", "flops_per_cycle_per_sm: {bf16: -4096}"),
        ("gpus", "flops_per_cycle_per_sm: {bf16: 1000000000000}"),
        ("pull", "scale: 5.0e-324"),
        ("pull", "scale: .nan"),
        ("pull", "precision: {bf16: .inf}"),
    ],
)
def test_a_number_of_the_users_that_cannot_be_is_named_down_to_the_field(
    file: Path, section: str, line: str
) -> None:
    file.write_text(f"{section}:\n- {line}\n")
    text = refusal(file=file)
    assert f"{section} in {file}" in text
    assert f"0.{line.partition(':')[0]}" in text


def test_a_gpu_of_the_users_is_taken(file: Path) -> None:
    file.write_text("gpus:\n- name: X\n  tensor_clock_hz: 1.83e+9\n")
    (row,) = loaded(file=file).settings.gpus
    assert (row.name, row.tensor_clock_hz) == ("X", 1.83e9)


# Names that are no settings.


def test_an_unknown_key_is_named_with_the_nearest_known(file: Path) -> None:
    file.write_text("intervall: 5s\n")
    text = refusal(file=file)
    assert f"intervall in {file}" in text
    assert "did you mean interval?" in text


def test_an_unknown_variable_is_named_with_the_nearest_known() -> None:
    (text,) = loaded(environ={"OFU_INTERVALL": "5s"}).ignored
    assert "OFU_INTERVALL" in text
    assert "did you mean OFU_INTERVAL?" in text


def test_an_unknown_key_like_no_other_is_told_all_that_are_known(file: Path) -> None:
    file.write_text("qqq: 5s\n")
    text = refusal(file=file)
    assert all(name in text for name in ("known:", "interval", "url", "simulated_gpus"))


@pytest.mark.parametrize("spelling", ["clock-interval", "clock_interval"])
def test_a_key_may_have_dashes_or_underscores(file: Path, spelling: str) -> None:
    file.write_text(f"{spelling}: 250ms\n")
    assert loaded(file=file).settings.clock_interval == 0.25


# An option of another source.


@every(
    [
        ("nvml", "url", "dcgm-exporter"),
        ("auto", "path", "replay"),
        ("dcgm-exporter", "seed", "simulate"),
        ("simulate", "timeout", "dcgm-exporter"),
    ]
)
def test_an_option_of_another_source_says_whose_it_is(source: str, option: str, owner: str) -> None:
    text = refusal({"source": source, option: "7"})
    assert f"--{option} is an option of source {owner}" in text
    assert f"the source is {source}" in text


def test_it_says_where_such_an_option_was_set(file: Path) -> None:
    file.write_text("seed: 7\n")
    assert f"seed in {file} is an option of source simulate" in refusal(file=file)
    assert "OFU_SEED is an option" in refusal(environ={"OFU_SEED": "7"})


def test_auto_takes_the_options_of_every_source_it_tries() -> None:
    options = loaded({"url": "http://other:9400/metrics"}).sources["dcgm-exporter"]
    assert isinstance(options, DcgmOptions)
    assert options.url == "http://other:9400/metrics"


def test_only_the_chosen_source_has_options() -> None:
    configured = loaded({"source": "simulate", "seed": 7})
    assert configured.sources == {"simulate": SimulateOptions(seed=7)}


# Which place wins.


def test_a_flag_wins_over_a_preset_that_over_the_environment_that_over_the_file(file: Path) -> None:
    file.write_text("interval: 4s\n")
    environ, preset = {"OFU_INTERVAL": "3s"}, {"interval": SettingValue("2s", "preset")}
    assert loaded({"interval": "1s"}, environ, file, preset).settings.interval == 1.0
    assert loaded({}, environ, file, preset).settings.interval == 2.0
    assert loaded({}, environ, file).settings.interval == 3.0
    assert loaded({}, {}, file).settings.interval == 4.0
    assert loaded().settings.interval == 5.0


def test_each_setting_comes_from_its_own_place(file: Path) -> None:
    file.write_text("listen: :1\nlog_format: json\n")
    configured = loaded({"interval": "1s"}, {"OFU_LISTEN": ":2"}, file).settings
    assert (configured.interval, configured.listen, configured.log_format) == (1.0, ":2", "json")


def test_a_flag_that_was_not_given_hides_nothing() -> None:
    assert loaded({"interval": None}, {"OFU_INTERVAL": "3s"}).settings.interval == 3.0


def test_a_flag_that_says_no_is_given() -> None:
    flags = {"source": "simulate", "simulated_cycles": False}
    environ = {"OFU_SIMULATED_CYCLES": "true"}
    assert loaded(flags, environ).sources == {"simulate": SimulateOptions()}


def test_a_bad_value_that_is_overridden_is_no_error(file: Path) -> None:
    file.write_text("interval: soon\n")
    assert loaded({"interval": "1s"}, {}, file).settings.interval == 1.0


def test_the_file_may_be_named_by_the_environment_and_a_flag_wins(file: Path) -> None:
    file.write_text("interval: 4s\n")
    environ = {"OFU_CONFIG": str(file)}
    assert loaded({}, environ).settings.interval == 4.0
    assert loaded({}, {"OFU_CONFIG": "/nonexistent"}, file).settings.interval == 4.0


@pytest.mark.parametrize("key", ["5", "true", "null", "2025-01-01", "[a]"])
def test_a_key_that_is_no_name_is_an_error_of_the_file(file: Path, key: str) -> None:
    file.write_text(f"{key}: 5s\n")
    assert str(file) in refusal(file=file)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("interval:", "interval"),
        ("interval: [5s]", "interval"),
        ("listen: 9846", "listen"),
        ("source: 5", "source"),
        ("gpus: x", "gpus"),
        ("gpus: [x]", "gpus"),
    ],
)
def test_a_value_of_another_kind_is_named(file: Path, line: str, name: str) -> None:
    file.write_text(line + "\n")
    assert f"{name} in {file}" in refusal(file=file)


def test_a_file_that_is_missing_is_named_however_it_was_given(file: Path) -> None:
    assert str(file) in refusal(file=file)
    assert str(file) in refusal(environ={"OFU_CONFIG": str(file)})


def test_every_setting_that_is_a_flag_has_one_subject() -> None:
    assert sorted(SERVE) == sorted({*Settings.model_fields} - FILE_ONLY)


def test_what_the_help_shows_at_once_and_what_measures_are_settings() -> None:
    owned = {name for model in option_models().values() for name in model.model_fields}
    assert not COMMON - {*SERVE, *owned}
    assert not {*MEASURE} - {*SERVE}


KNOWN = ("interval", "listen")


def refusal_of_file(file: Path) -> str:
    """What the user is told of a file; always one line."""
    with pytest.raises(ConfigError) as caught:
        file_layer(file)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_a_model_takes_its_own_keys_and_names_the_place_of_a_bad_one() -> None:
    layer = {"interval": SettingValue("2s", "--interval"), "seed": SettingValue("x", "--seed")}
    assert build(Settings, layer).interval == 2.0
    with pytest.raises(ConfigError, match=r"^OFU_INTERVAL: '2 weeks' is not a duration"):
        build(Settings, {"interval": SettingValue("2 weeks", "OFU_INTERVAL")})


def test_a_key_that_is_no_setting_is_refused_with_the_nearest_that_is() -> None:
    check_known({"interval": SettingValue(1, "x")}, KNOWN)
    with pytest.raises(ConfigError, match=r"^unknown setting y; did you mean interval\?$"):
        check_known({"interval": SettingValue(1, "x"), "intervals": SettingValue(1, "y")}, KNOWN)


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
    assert layer == ({"interval": SettingValue("5s", "OFU_INTERVAL")}, ())


def test_a_variable_that_is_no_setting_is_ignored_and_said_with_the_nearest_that_is() -> None:
    """Kubernetes sets the second one for every pod beside a Service called ofu: an agent must start there."""
    variables = {"OFU_INTERVALL": "5s", "OFU_PORT_9846_TCP_ADDR": "10.0.0.1", "OFU_LISTEN": ":1"}
    assert environment_layer(variables, KNOWN) == (
        {"listen": SettingValue(":1", "OFU_LISTEN")},
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
    assert f"{file}: not YAML, line 3: a key is there twice" in refusal_of_file(file)


@pytest.mark.parametrize("text", ["a: b: c", "a: [", "\t- x", "a: &x *y", '"', "a: !python/x y"])
def test_what_is_not_yaml_is_said_with_its_line(file: Path, text: str) -> None:
    file.write_text(f"# one\n{text}\n")
    told = refusal_of_file(file)
    assert f"{file}: not YAML" in told
    assert "line 2" in told or "line 3" in told


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("interval: 2025-13-45", id="no such day"),
        pytest.param("interval: !!int x", id="no integer"),
        pytest.param("interval: !!bool x", id="no truth"),
        pytest.param("interval: !!timestamp x", id="no time"),
        pytest.param(
            "interval: " + "9" * 5000,
            id="too many digits",
            marks=pytest.mark.skipif(
                not hasattr(sys, "get_int_max_str_digits"),
                reason="Python before 3.10.7 makes an integer of any digits",
            ),
        ),
        pytest.param("interval: " + "[" * 5000, id="too deep"),
    ],
)
def test_a_value_that_yaml_cannot_make_is_an_error_of_the_file(file: Path, text: str) -> None:
    file.write_text(text + "\n")
    assert str(file) in refusal_of_file(file)


@pytest.mark.parametrize("text", ["- interval", "interval", "5", "true", "[]"])
def test_what_is_not_a_mapping_is_said_to_be_none(file: Path, text: str) -> None:
    file.write_text(text)
    told = refusal_of_file(file)
    assert str(file) in told
    assert "`key: value`" in told


def test_a_file_that_is_missing_is_named(file: Path) -> None:
    assert str(file) in refusal_of_file(file)


def test_a_file_that_cannot_be_read_is_named(file: Path) -> None:
    file.mkdir()
    assert str(file) in refusal_of_file(file)


def test_a_file_that_is_no_text_is_named(file: Path) -> None:
    file.write_bytes(b"\xff\xfe\x00interval")
    assert str(file) in refusal_of_file(file)
