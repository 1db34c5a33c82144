"""The files of deploy/ and the Dockerfile agree with the program they start."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from ofu_exporter import sources
from ofu_exporter.cli import cli
from ofu_exporter.cli.settings import load
from ofu_exporter.config import Settings, host_and_port

ROOT = Path(__file__).parents[2]
SYSTEMD = ROOT / "deploy" / "systemd"
DEFAULT_LISTEN = str(Settings.model_fields["listen"].default)
DEFAULT_PORT = host_and_port(DEFAULT_LISTEN)[1]


def uncommented(sample: str) -> str:
    """The sample with its settings in force: prose has a space after the #, a setting has none."""
    return re.sub(r"^#(?=[^\s#])", "", sample, flags=re.MULTILINE)


def read_yaml(path: Path) -> dict[str, Any]:
    loaded = yaml.safe_load(path.read_text())
    assert isinstance(loaded, dict)
    return loaded


def test_the_sample_changes_nothing_as_it_is() -> None:
    assert yaml.safe_load((SYSTEMD / "ofu-exporter.yaml").read_text()) is None


def test_the_sample_uncommented_is_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "ofu-exporter.yaml"
    file.write_text(uncommented((SYSTEMD / "ofu-exporter.yaml").read_text()))
    sample, default = load({"config": file}, environ={}), load({}, environ={})
    assert sample.settings == default.settings
    assert sample.sources == default.sources


def test_the_sample_shows_every_setting_of_the_default_source() -> None:
    known = set(Settings.model_fields)
    for name in sources.automatic():
        known |= set(sources.load(name).Options.model_fields)
    assert set(yaml.safe_load(uncommented((SYSTEMD / "ofu-exporter.yaml").read_text()))) == known


def test_the_unit_starts_a_command_that_exists_with_flags_that_exist() -> None:
    unit = configparser.RawConfigParser(strict=False, comment_prefixes=("#", ";"))
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(SYSTEMD / "ofu-exporter.service")
    program, command, *arguments = shlex.split(unit["Service"]["ExecStart"])
    assert Path(program).name == "ofu-exporter"
    flags = [word.split("=")[0] for word in arguments if word.startswith("--")]
    assert set(flags) <= flags_of(command)
    assert not {"PrivateDevices", "ProtectClock"} & set(unit["Service"]), "the GPUs would be hidden"


def flags_of(name: str) -> set[str]:
    command = cli.commands[name]
    return {
        flag
        for parameter in command.params
        for flag in (*parameter.opts, *parameter.secondary_opts)
    }


@pytest.mark.parametrize("pattern", [r"^EXPOSE (\d+)$", r"HTTPConnection.*?'127\.0\.0\.1', (\d+)"])
def test_the_image_has_the_default_port(pattern: str) -> None:
    ports = re.findall(pattern, (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    assert ports == [str(DEFAULT_PORT)]


def test_the_image_starts_the_agent_without_a_shell() -> None:
    text = (ROOT / "Dockerfile").read_text()
    (entrypoint,) = re.findall(r"^ENTRYPOINT (.*)$", text, flags=re.MULTILINE)
    (command,) = re.findall(r"^CMD (.*)$", text, flags=re.MULTILINE)
    assert json.loads(entrypoint) == ["ofu-exporter"]
    assert isinstance(cli.commands[json.loads(command)[0]], click.Command)
    (check,) = re.findall(r"^HEALTHCHECK .*?CMD (\[.*?\])$", text, flags=re.MULTILINE | re.DOTALL)
    program, *_, source = json.loads(check)
    assert program == "python"
    compile(source, "HEALTHCHECK", "exec")


def test_the_scrape_examples_name_the_default_port() -> None:
    jobs = read_yaml(ROOT / "deploy" / "prometheus" / "scrape.yaml")["scrape_configs"]
    targets = [
        target for job in jobs for group in job["static_configs"] for target in group["targets"]
    ]
    assert {host_and_port(target)[1] for target in targets} == {DEFAULT_PORT}
