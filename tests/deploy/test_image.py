"""The image is made of locked packages with licences that we may pass on, and needs nothing but itself."""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from packaging.requirements import Requirement

from ofu_exporter.cli import cli
from ofu_exporter.settings import Settings, host_and_port
from tests.deploy import locked
from tests.deploy.chart import ROOT, need, run

DOCKERFILE = (ROOT / "Dockerfile").read_text()
RUNTIME = locked.read(ROOT / "deploy" / "image" / "requirements.txt")
RELEASE = locked.read(ROOT / "deploy" / "image" / "release-requirements.txt")
TESTS = locked.read(ROOT / "tests" / "constraints.txt")
BUILD = locked.read(ROOT / "deploy" / "image" / "build-requirements.txt")
ROOT_NAME = "ofu-exporter (pyproject.toml)"

ALLOWED = frozenset(
    {"MIT", "BSD", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0", "PSF-2.0", "MPL-2.0"}
)
"""Licences under which a package may be in the image. MPL-2.0: certifi, which is not changed."""

LOCKS = (ROOT / "deploy" / "image" / "lock").read_text().splitlines()
(OF_IMAGE,) = [line for line in LOCKS if "--output-file deploy/image/requirements.txt" in line]
EXTRAS = re.findall(r"--extra (\w+)", OF_IMAGE)


def wanted(*extras: str) -> Iterator[Requirement]:
    """What the package and some extras ask for."""
    for text in importlib.metadata.requires("ofu-exporter") or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": name}) for name in ("", *extras)):
            yield requirement


def built_with() -> list[Requirement]:
    (names,) = re.findall(r"^requires = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.M)
    return [Requirement(name) for name in re.findall(r'"(.*?)"', names)]


@pytest.mark.parametrize(
    ("requirements", "packages"),
    [
        ([*wanted(*EXTRAS)], RUNTIME),
        ([*wanted("release")], RELEASE),
        ([each for each in wanted("test") if each.name != "ofu-exporter"], TESTS),
        (built_with(), BUILD),
    ],
    ids=["image", "release", "tests", "build"],
)
def test_what_is_asked_for_is_locked_at_a_version_that_will_do(
    requirements: list[Requirement], packages: dict[str, locked.Locked]
) -> None:
    """Otherwise: deploy/image/lock."""
    assert requirements
    for requirement in requirements:
        assert requirement.specifier.contains(packages[requirement.name].version), requirement


@pytest.mark.parametrize("packages", [RUNTIME, BUILD])
def test_nothing_is_locked_that_nobody_needs(packages: dict[str, locked.Locked]) -> None:
    direct = {requirement.name for requirement in [*wanted(*EXTRAS), *built_with()]}
    for name, package in packages.items():
        assert set(package.wanted_by) <= {*packages, ROOT_NAME}, name
        if ROOT_NAME in package.wanted_by or not package.wanted_by:
            assert name in direct, f"{name} is not asked for any more: deploy/image/lock"


@pytest.mark.parametrize("packages", [RUNTIME, BUILD])
def test_every_locked_package_has_its_hash(packages: dict[str, locked.Locked]) -> None:
    assert all(package.hashes for package in packages.values())


def licences(name: str) -> set[str]:
    """What a package says of itself; the newest of the three ways to say it that it uses."""
    metadata = importlib.metadata.metadata(name).json
    if expression := metadata.get("license_expression"):
        return set(re.split(r"\s+(?:AND|OR)\s+|[()]", str(expression))) - {""}
    classifiers = [text for text in metadata.get("classifier", ()) if "License ::" in text]
    short = {
        "MIT License": "MIT",
        "BSD License": "BSD",
        "Apache Software License": "Apache-2.0",
        "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    }
    names = {text.rpartition(" :: ")[2] for text in classifiers}
    return {short.get(each, each) for each in names} or {str(metadata.get("license"))}


def test_every_package_of_the_image_has_a_licence_that_is_allowed() -> None:
    installed = {each.name.lower().replace("_", "-") for each in importlib.metadata.distributions()}
    direct = {requirement.name for requirement in wanted(*EXTRAS)}
    assert direct <= installed
    # Some are needed from a certain Python on only.
    found = {name: licences(name) for name in RUNTIME if name in installed}
    assert {name: own for name, own in found.items() if not own <= ALLOWED} == {}


@pytest.mark.slow
def test_the_bill_of_materials_has_every_package(tmp_path: Path) -> None:
    """By the command in SECURITY.md, from the repository's root."""
    need("cyclonedx-py")
    text = (ROOT / "SECURITY.md").read_text()
    (arguments,) = re.findall(r"^    cyclonedx-py (.*) --output-file \S+$", text, re.M)
    target = tmp_path / "sbom.json"
    options = [word.replace("deploy/", f"{ROOT}/deploy/") for word in arguments.split()]
    done = run(need("cyclonedx-py"), *options, "--output-file", target)
    assert done.returncode == 0, done.stderr
    bill = json.loads(target.read_text())
    assert bill["bomFormat"] == "CycloneDX"
    listed = {component["name"]: component for component in bill["components"]}
    assert {name: each["version"] for name, each in listed.items()} == {
        name: package.version for name, package in RUNTIME.items()
    }
    for name, package in RUNTIME.items():
        (reference,) = listed[name]["externalReferences"]
        assert {each["content"] for each in reference["hashes"]} == set(package.hashes)


def test_hadolint_has_nothing_to_say() -> None:
    done = run(need("hadolint"), ROOT / "Dockerfile")
    assert done.returncode == 0, done.stdout


def test_nothing_is_installed_unhashed_or_from_elsewhere() -> None:
    commands = re.split(r"&&|^RUN ", DOCKERFILE.replace("\\\n", " "), flags=re.M)
    installing = [each for each in commands if " install " in each or " wheel " in each]
    assert installing
    for each in installing:
        hashed = "--require-hashes" in each and "--only-binary :all:" in each
        assert hashed or ("--no-index" in each and "--no-deps" in each), each


def test_both_stages_take_the_base_that_is_given() -> None:
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.M) == ["${BASE}", "${BASE}"]


def test_the_user_is_a_number_and_not_root() -> None:
    (user,) = re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE, re.M)
    assert "0" not in user


@pytest.mark.parametrize("pattern", [r"^EXPOSE (\d+)$", r"C\('127\.0\.0\.1', (\d+)"])
def test_the_image_has_the_default_port(pattern: str) -> None:
    port = host_and_port(str(Settings.model_fields["listen"].default))[1]
    assert re.findall(pattern, DOCKERFILE, flags=re.M) == [str(port)]


def test_the_image_starts_the_agent_without_a_shell() -> None:
    (entrypoint,) = re.findall(r"^ENTRYPOINT (.*)$", DOCKERFILE, flags=re.M)
    (command,) = re.findall(r"^CMD (.*)$", DOCKERFILE, flags=re.M)
    assert json.loads(entrypoint) == ["ofu-exporter"]
    assert isinstance(cli.commands[json.loads(command)[0]], click.Command)
    (check,) = re.findall(r"^HEALTHCHECK .*?CMD (\[.*?\])$", DOCKERFILE, flags=re.M | re.DOTALL)
    program, *_, source = json.loads(check)
    assert program == "python"
    compile(source, "HEALTHCHECK", "exec")


def test_everything_that_is_copied_is_let_through() -> None:
    let = set(re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.M))
    sources = re.findall(r"^COPY (?!--)(.*) \S+$", DOCKERFILE, re.M)
    for source in " ".join(sources).split():
        assert (ROOT / source).exists()
        assert any(source == each or source.startswith(f"{each}/") for each in let), source
