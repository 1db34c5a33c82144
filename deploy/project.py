"""Where the project lives and who keeps it (deploy/project.yaml), as packages, chart and forge want to be told.

    python -m deploy.project            refuses, in one line for each value, while one is not set
    python -m deploy.project --write    writes CODEOWNERS and the links above the issue forms
    python -m deploy.project --outputs dist/v0.1.0    says to a workflow what lies in a release's folder

The metadata of the wheel and of the chart are written by deploy/release.py, into what it builds.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict

HERE = Path(__file__).resolve().parents[1]
FILE = Path("deploy") / "project.yaml"
GENERATED = "# Made from deploy/project.yaml by: python -m deploy.project --write\n"
ICON = "docs/pictures/icon.svg"


class Maintainer(BaseModel):
    """Who answers for the project."""

    model_config = ConfigDict(extra="forbid")
    name: str
    email: str


class Project(BaseModel):
    """The values of deploy/project.yaml; empty is not known."""

    model_config = ConfigDict(extra="forbid")
    home: str = ""
    owners: list[str] = []
    package: str = ""
    registry: str = ""
    maintainers: list[Maintainer] = []


def read(root: Path) -> Project:
    """The project of a checkout. Raises pydantic.ValidationError for a value that is none."""
    return Project.model_validate(yaml.safe_load((root / FILE).read_text()))


def problems(project: Project, name: str) -> list[str]:
    """Why this cannot be published yet; `name` is the package's in pyproject.toml."""
    wrong = {
        "home": not re.fullmatch(r"https://[\w.-]+/[\w./-]+", project.home),
        "owners": not project.owners or not all(each[:1] == "@" for each in project.owners),
        "package": project.package != name,
        "registry": not re.fullmatch(r"[a-z0-9.-]+(:\d+)?(/[a-z0-9._-]+)*", project.registry),
        "maintainers": not project.maintainers
        or not all(each.name and "@" in each.email for each in project.maintainers),
    }
    shown = project.model_dump(mode="json")
    invented = {key for key, value in shown.items() if re.search(r"\bexample\.|OWNER", str(value))}
    return [
        f"{FILE}: {key} is {json.dumps(shown[key])}, "
        + (
            "which is an example"
            if key in invented
            else "not what it must be; see the comment beside it"
        )
        for key in shown
        if wrong[key] or key in invented
    ]


def package_metadata(project: Project, version: str) -> str:
    """What pyproject.toml is told: people as keys of [project], then addresses as a table of their own."""
    lines = []
    if project.maintainers:
        people = ", ".join(
            f"{{ name = {json.dumps(each.name)}, email = {json.dumps(each.email)} }}"
            for each in project.maintainers
        )
        lines += [f"authors = [{people}]", f"maintainers = [{people}]"]
    if project.home:
        lines += ["", "[project.urls]"]
        lines += [
            f"{name} = {json.dumps(url)}" for name, url in addresses(project, version).items()
        ]
    return "\n".join(lines) + "\n"


def addresses(project: Project, version: str) -> dict[str, str]:
    """Where to read what about a version."""
    home = project.home.rstrip("/")
    return {
        "Homepage": home,
        "Documentation": f"{home}/tree/v{version}/docs",
        "Changelog": f"{home}/blob/v{version}/CHANGELOG.md",
        "Issues": f"{home}/issues",
        "Security": f"{home}/blob/v{version}/SECURITY.md",
    }


def chart_metadata(project: Project, version: str) -> str:
    """What Chart.yaml is told; annotations as Artifact Hub reads them (artifacthub.io/docs/topics/annotations/helm)."""
    told: dict[str, object] = {}
    if project.home:
        home = project.home.rstrip("/")
        told |= {"home": home, "sources": [home], "icon": f"{home}/raw/v{version}/{ICON}"}
    if project.maintainers:
        told["maintainers"] = [each.model_dump() for each in project.maintainers]
    notes = {
        "artifacthub.io/category": "monitoring-logging",
        "artifacthub.io/license": "Apache-2.0",
    }
    if project.home:
        links = [{"name": name, "url": url} for name, url in addresses(project, version).items()]
        notes["artifacthub.io/links"] = yaml.safe_dump(links, sort_keys=False)
    if project.registry:
        image = {"name": "ofu-exporter", "image": f"{project.registry}/ofu-exporter:{version}"}
        notes["artifacthub.io/images"] = yaml.safe_dump([image], sort_keys=False)
    return yaml.safe_dump({**told, "annotations": notes}, sort_keys=False)


def forge_files(project: Project) -> dict[str, str]:
    """Files that the forge reads, by their path in the repository."""
    owners = f"* {' '.join(project.owners)}\n" if project.owners else "# No owner is set.\n"
    form = project.home.rstrip("/") + "/security/advisories/new"
    links = [
        {
            "name": "A vulnerability",
            "url": form,
            "about": "Please report it in private: SECURITY.md says what to write.",
        }
    ]
    config = {"blank_issues_enabled": True, "contact_links": links if project.home else []}
    return {
        ".github/CODEOWNERS": GENERATED + owners,
        ".github/ISSUE_TEMPLATE/config.yml": GENERATED + yaml.safe_dump(config, sort_keys=False),
    }


def outputs(project: Project, folder: Path) -> dict[str, str]:
    """What later jobs of a workflow need to know of a release's folder."""
    statement = json.loads((folder / "provenance.intoto.json").read_text())
    asked = statement["predicate"]["buildDefinition"]["externalParameters"]
    return {
        "registry": project.registry,
        "registry_host": project.registry.partition("/")[0],
        "version": asked["tag"].removeprefix("v"),
        "image_digest": asked["imageDigest"] or "",
    }


def main(words: list[str]) -> int:
    project = read(HERE)
    if words[:1] == ["--outputs"]:
        print(
            *(f"{key}={value}" for key, value in outputs(project, Path(words[1])).items()), sep="\n"
        )
        return 0
    if words == ["--write"]:
        for path, text in forge_files(project).items():
            (HERE / path).write_text(text)
        return 0
    name = re.findall(r'^\[project\]\nname = "(.+)"$', (HERE / "pyproject.toml").read_text(), re.M)
    found = problems(project, *name)
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
