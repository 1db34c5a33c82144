"""One file says where the project lives; nothing is published while it does not, and nothing invents an address."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from deploy import project
from deploy.project import Maintainer, Project
from tests.deploy.chart import ROOT

SET = Project(
    home="https://git.test/ofu/ofu-exporter",
    owners=["@ofu"],
    package="ofu-exporter",
    registry="registry.test/ofu",
    maintainers=[Maintainer(name="Ada L.", email="ada@ofu.test")],
)


def test_what_is_set_may_be_published() -> None:
    assert project.problems(SET, "ofu-exporter") == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("home", ""),
        ("home", "https://github.com/OWNER/ofu-exporter"),
        ("home", "http://git.test/ofu"),
        ("home", "https://git.example.com/ofu"),
        ("owners", []),
        ("owners", ["ofu"]),
        ("package", ""),
        ("package", "other"),
        ("registry", ""),
        ("registry", "https://registry.test/ofu"),
        ("registry", "ghcr.io/OWNER"),
        ("maintainers", []),
        ("maintainers", [Maintainer(name="Ada", email="")]),
    ],
)
def test_a_value_that_is_empty_or_an_example_is_refused(key: str, value: object) -> None:
    (line,) = project.problems(SET.model_copy(update={key: value}), "ofu-exporter")
    assert line.startswith(f"deploy/project.yaml: {key} is ")


def test_the_command_refuses_each_value_that_is_not_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(project, "HERE", tmp_path)
    (tmp_path / "deploy").mkdir()
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    place = tmp_path / "deploy" / "project.yaml"
    place.write_text("{}")
    assert project.main([]) == 1
    refused = re.findall(r"^deploy/project.yaml: (\w+) is ", capsys.readouterr().err, re.M)
    assert refused == [*Project.model_fields]
    place.write_text(SET.model_dump_json())
    assert (project.main([]), capsys.readouterr().err) == (0, "")


def test_the_file_of_this_checkout_names_every_value() -> None:
    assert yaml.safe_load((ROOT / project.FILE).read_text()).keys() == Project.model_fields.keys()


@pytest.mark.parametrize("path", project.forge_files(SET))
def test_what_the_forge_reads_is_what_the_file_says(path: str) -> None:
    """Otherwise: python -m deploy.project --write."""
    assert (ROOT / path).read_text() == project.forge_files(project.read(ROOT))[path]


def test_the_forge_is_told_owners_and_where_to_report_a_vulnerability() -> None:
    files = project.forge_files(SET)
    assert files[".github/CODEOWNERS"].splitlines()[-1] == "* @ofu"
    (link,) = yaml.safe_load(files[".github/ISSUE_TEMPLATE/config.yml"])["contact_links"]
    assert link["url"] == "https://git.test/ofu/ofu-exporter/security/advisories/new"


def test_without_a_home_no_address_gets_into_the_metadata() -> None:
    assert "http" not in project.package_metadata(Project(), "1") + project.chart_metadata(
        Project(), "1"
    )


def test_the_chart_is_told_what_artifact_hub_reads() -> None:
    told = yaml.safe_load(project.chart_metadata(SET, "1.2.3"))
    assert told["maintainers"] == [{"name": "Ada L.", "email": "ada@ofu.test"}]
    assert told["icon"].startswith(told["home"])
    assert (ROOT / project.ICON).exists()
    (image,) = yaml.safe_load(told["annotations"]["artifacthub.io/images"])
    assert image["image"] == "registry.test/ofu/ofu-exporter:1.2.3"


def test_a_workflow_is_told_what_lies_in_a_releases_folder(tmp_path: Path) -> None:
    asked = {"tag": "v1.2.3", "imageDigest": "sha256:0"}
    statement = {"predicate": {"buildDefinition": {"externalParameters": asked}}}
    (tmp_path / "provenance.intoto.json").write_text(json.dumps(statement))
    assert project.outputs(SET, tmp_path) == {
        "registry": "registry.test/ofu",
        "registry_host": "registry.test",
        "version": "1.2.3",
        "image_digest": "sha256:0",
    }
