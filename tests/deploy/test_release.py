"""A release is made of a tag alone, whole or not at all, and its folder is enough to install from."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from deploy import release
from ofu_exporter import __version__
from tests.deploy.chart import ROOT, need, run
from tests.deploy.test_project import SET

TAG = f"v{__version__}"
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("release")]


def git(at: Path, *words: str) -> str:
    identity = ("-c", "user.name=tests", "-c", "user.email=tests@example.com")
    done = run("git", "-C", at, *identity, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with what lies here, its version in the changelog, and a tag."""
    if not (ROOT / ".git").exists():
        pytest.skip("not in a repository")
    project = tmp_path_factory.mktemp("checkout") / "project"
    git(ROOT, "init", "--quiet", str(project))
    for name in git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard").splitlines():
        if (ROOT / name).exists():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, project / name)
    changelog = project / "CHANGELOG.md"
    changelog.write_text(changelog.read_text().replace("## Unreleased", f"## {__version__}", 1))
    (project / "deploy" / "project.yaml").write_text(SET.model_dump_json())
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "Release")
    git(project, "tag", TAG)
    return project


def defined(text: str) -> dict[str, object]:
    """The names that a module defines."""
    names: dict[str, object] = {}
    exec(text, names)
    return names


def make(checkout: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "deploy.release", *words],
        cwd=checkout,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def made(checkout: Path) -> Path:
    """The folder of a release without an image."""
    if release.helm() == "helm":
        need("helm")
    (checkout / "ofu_exporter" / "untagged.py").write_text("")
    done = make(checkout, TAG, "--builder", "none")
    assert done.returncode == 0, done.stderr
    return checkout / "dist" / TAG


def test_the_folder_holds_every_part(made: Path) -> None:
    assert sorted(path.name for path in made.iterdir()) == sorted(
        [
            "SHA256SUMS",
            f"ofu-exporter-{__version__}.cdx.json",
            f"ofu-exporter-{__version__}.tgz",
            f"ofu_exporter-{__version__}-py3-none-any.whl",
            f"ofu_exporter-{__version__}.tar.gz",
            "provenance.intoto.json",
        ]
    )


def test_every_file_has_its_checksum_and_its_provenance(made: Path, checkout: Path) -> None:
    done = run("sh", "-c", f"cd '{made}' && sha256sum --check --strict SHA256SUMS")
    assert done.returncode == 0, done.stdout + done.stderr
    listed = dict(line.split("  ")[::-1] for line in (made / "SHA256SUMS").read_text().splitlines())
    assert {*listed, "SHA256SUMS"} == {path.name for path in made.iterdir()}
    statement = json.loads((made / "provenance.intoto.json").read_text())
    subjects = {each["name"]: each["digest"]["sha256"] for each in statement["subject"]}
    assert subjects == {
        name: hashlib.sha256((made / name).read_bytes()).hexdigest()
        for name in listed
        if name != "provenance.intoto.json"
    }
    definition = statement["predicate"]["buildDefinition"]
    commit = git(checkout, "rev-parse", TAG)
    assert {"gitCommit": commit} in [each["digest"] for each in definition["resolvedDependencies"]]
    assert definition["externalParameters"]["tag"] == TAG


def test_the_same_tag_makes_the_same_bytes(made: Path, checkout: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    # The addresses of an equal bill are right where those of the first were: grammars for them take seconds.
    (tmp_path / "rfc3987_syntax.py").write_text("raise ImportError")
    words = (TAG, "--builder", "none", "--output", str(again))
    done = make(checkout, *words, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert (again / "SHA256SUMS").read_text() == (made / "SHA256SUMS").read_text()


def test_the_wheel_has_what_is_tagged_and_nothing_else(made: Path) -> None:
    (wheel,) = made.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        (metadata,) = [name for name in names if name.endswith("/METADATA")]
        text = packed.read(metadata).decode()
    assert "ofu_exporter/untagged.py" not in names
    templates = [path.name for path in (ROOT / "ofu_exporter" / "templates").iterdir()]
    assert {f"ofu_exporter/templates/{name}" for name in templates} <= {*names}
    assert not [name for name in names if name.startswith(("tests", "deploy"))]
    lines = text.splitlines()
    assert f"Project-URL: Changelog, {SET.home}/blob/{TAG}/CHANGELOG.md" in lines
    assert 'Maintainer-email: "Ada L." <ada@ofu.test>' in lines


def test_the_wheel_knows_the_commit_that_it_is_made_of(made: Path, checkout: Path) -> None:
    (wheel,) = made.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read("ofu_exporter/__init__.py").decode()
    commit = git(checkout, "rev-parse", TAG).strip()
    assert defined(text)["__revision__"] == commit


def test_the_source_has_what_a_site_deploys(made: Path) -> None:
    with tarfile.open(next(made.glob("ofu_exporter-*.tar.gz"))) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert {
        "Dockerfile",
        "deploy/systemd/ofu-exporter.service",
        "deploy/slurm/prolog.sh",
        "deploy/image/requirements.txt",
        "helm/ofu-exporter/files/alerts/agent-down.yaml",
        "docs/releases.md",
    } <= names


def test_the_packages_install_from_the_folder_and_run(made: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "fresh")
    python = tmp_path / "fresh" / "bin" / "python"
    install = (sys.executable, "-m", "pip", "--python", python, "install")
    wheel = made / f"ofu_exporter-{__version__}-py3-none-any.whl"
    done = run(*install, "--no-deps", wheel)
    assert done.returncode == 0, done.stderr
    here = (sys.executable, "-m", "pip", "install", "--dry-run", f"{wheel}[auth]")
    asked = run(*here).stdout
    assert re.search(r"^Requirement already satisfied: bcrypt.*from ofu-exporter", asked, re.M), (
        asked
    )
    place = "import importlib.metadata as m; print(m.version('ofu-exporter'))"
    assert run(python, "-c", place).stdout.strip() == __version__


def test_the_chart_renders_from_its_package(made: Path) -> None:
    (chart,) = made.glob("*.tgz")
    done = run(release.helm(), "template", "ofu", chart)
    assert done.returncode == 0, done.stderr
    image = f"image: {SET.registry}/ofu-exporter:{__version__}"
    assert image in done.stdout.replace('"', "")
    assert f"home: {SET.home}" in run(release.helm(), "show", "chart", chart).stdout


def test_the_chart_asks_for_the_image_that_was_built(checkout: Path, tmp_path: Path) -> None:
    digest = "sha256:" + "5" * 64
    target = tmp_path / "target"
    target.mkdir()
    source = tmp_path / "source"
    shutil.copytree(checkout / "helm", source / "helm")
    release.make_chart(release.Release(__version__, "", 0, source, target), tmp_path, digest)
    (chart,) = target.glob("*.tgz")
    shown = run(release.helm(), "template", "ofu", chart).stdout
    assert re.search(rf"image: \"?ofu-exporter(:\S+)?@{digest}\"?$", shown, re.M)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["v9.9.9"], "Needed a single revision"),
        (["--output=/", TAG], "/ is there already; a release is never written over"),
    ],
)
def test_what_cannot_be_made_is_refused_in_one_line(
    checkout: Path, words: list[str], said: str
) -> None:
    done = make(checkout, *words, "--builder", "none")
    assert done.returncode == 1
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (checkout / "dist" / "v9.9.9").exists()


def test_a_tag_whose_files_say_another_version_is_refused(checkout: Path) -> None:
    git(checkout, "tag", "--force", "v0.0.7")
    done = make(checkout, "v0.0.7", "--builder", "none")
    assert done.returncode == 1
    expected = f"release: ofu_exporter/__init__.py says {__version__}, the tag 0.0.7\n"
    assert done.stderr == expected


def test_buildah_makes_an_image_that_the_chart_asks_for(checkout: Path) -> None:
    """With a proxy's certificates: `TEST_IMAGE_BASE=localhost/python-base pytest ...`."""
    base = os.environ.get("TEST_IMAGE_BASE")
    if not base:
        pytest.skip("TEST_IMAGE_BASE names no base for an image")
    need("buildah")
    output = checkout / "dist" / "with-image"
    certificates = ssl.get_default_verify_paths().cafile
    words = ["--ca", certificates] if certificates else []
    done = make(
        checkout, TAG, "--builder", "buildah", "--base", base, "--output", str(output), *words
    )
    assert done.returncode == 0, done.stderr
    with tarfile.open(output / f"ofu-exporter-image-{__version__}.tar") as archive:
        index = archive.extractfile("index.json")
        assert index is not None
        (image,) = json.load(index)["manifests"]
    statement = json.loads((output / "provenance.intoto.json").read_text())
    asked = statement["predicate"]["buildDefinition"]["externalParameters"]
    assert asked["imageDigest"] == image["digest"]
    (chart,) = output.glob("*.tgz")
    assert f"@{image['digest']}" in run(release.helm(), "template", "ofu", chart).stdout


def test_the_documented_steps_make_a_tag_that_is_not_refused(
    tmp_path: Path, checkout: Path
) -> None:
    """As they are printed, on a project whose changelog has no heading of the version yet."""
    project = tmp_path / "project"
    git(ROOT, "clone", "--quiet", str(checkout), str(project))
    git(project, "tag", "--delete", TAG)
    changelog = project / "CHANGELOG.md"
    changelog.write_text(changelog.read_text().replace(f"## {__version__}", "## Unreleased", 1))
    git(project, "commit", "--quiet", "--all", "--message", "Before")
    page = (ROOT / "docs" / "releases.md").read_text()
    steps = re.findall(r"^    (sed .*|git commit .*)$", page, re.M)
    assert len(steps) == 2
    git(project, "config", "user.name", "tests")
    git(project, "config", "user.email", "tests@example.com")
    done = run("sh", "-ec", f"cd '{project}'\n" + "\n".join(steps))
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "made").mkdir()
    opened = run(
        *("sh", "-c", f"cd '{project}' && '{sys.executable}' -c \"$0\" '{tmp_path}'"),
        "import sys; from pathlib import Path; from deploy import release; "
        f"folder = Path(sys.argv[1]); release.opened('{TAG}', folder / 'made', folder)",
    )
    assert opened.returncode == 0, opened.stderr


def test_without_a_builder_nothing_is_left_half_made(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tag is unpacked by then; the image is what fails."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").symlink_to(need("git"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    output = tmp_path / "made"
    done = make(checkout, TAG, "--builder", "buildah", "--output", str(output))
    assert (done.returncode, done.stderr) == (1, "release: buildah is not installed\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin"]
