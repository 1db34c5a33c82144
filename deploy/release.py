"""Builds everything of a release from its tag into one folder, with checksums and where each file comes from.

    python -m deploy.release v0.1.0 --builder docker --base python:3.12-slim@sha256:...

The folder then holds wheel, source, image, chart, a bill of materials (CycloneDX), provenance (SLSA 1.0, not yet
signed) and SHA256SUMS. Nothing of the working tree gets in: all of it is made of what `git archive` gives for the
tag. Needs the group `release`, git and helm, and docker (with buildx) or buildah for the image.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy import project

HERE = Path(__file__).resolve().parents[1]
BUILD_TYPE = "urn:ofu-exporter:release:1"
"""How the parameters of a release are read: as the options of this program."""
DEFAULT_BASE = "python:3.12-slim"
DATA: Mapping[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
"""How to unpack; Python before 3.10.12 has no filters."""


class ReleaseError(Exception):
    """A release that cannot be made as asked, in one line."""


@dataclass(frozen=True)
class Release:
    """What is released, out of which files, and where to."""

    version: str
    commit: str
    """The commit of the tag, in full."""
    epoch: int
    """When it was committed, in Unix seconds: the time of every file that is made."""
    source: Path
    """The files of the tag."""
    target: Path

    @property
    def image(self) -> str:
        return f"ofu-exporter:{self.version}"


def call(*words: str | Path, at: Path | None = None, epoch: int | None = None) -> str:
    """What a command prints; its own words where it fails."""
    environment = dict(os.environ)
    if epoch is not None:
        environment["SOURCE_DATE_EPOCH"] = str(epoch)
    command = [str(word) for word in words]
    try:
        done = subprocess.run(
            command, cwd=at or HERE, env=environment, capture_output=True, text=True, check=False
        )
    except FileNotFoundError as error:
        raise ReleaseError(f"{command[0]} is not installed") from error
    if done.returncode:
        raise ReleaseError(f"{' '.join(command[:3])}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.strip()


def opened(tag: str, scratch: Path, target: Path) -> Release:
    """The files of a tag, which must all name the version of its name."""
    commit = call("git", "rev-parse", "--verify", "--end-of-options", f"{tag}^{{commit}}")
    source = scratch / "source"
    source.mkdir()
    archive = scratch / "source.tar"
    call("git", "archive", "--output", archive, commit)
    with tarfile.open(archive) as packed:
        packed.extractall(source, **DATA)
    epoch = int(call("git", "show", "--no-patch", "--format=%ct", commit))
    release = Release(tag.removeprefix("v"), commit, epoch, source, target)
    check_versions(release)
    return release


def check_versions(release: Release) -> None:
    """Refuses a tag whose files say another version."""
    places = {
        "ofu_exporter/__init__.py": r'^__version__ = "(.+)"$',
        "helm/ofu-exporter/Chart.yaml": r'^appVersion: "(.+)"$',
        "CHANGELOG.md": rf"^## \[?({re.escape(release.version)})\b",
    }
    for name, pattern in places.items():
        found = re.findall(pattern, (release.source / name).read_text(), re.M)
        if found != [release.version]:
            said = ", ".join(found) or "no such version"
            raise ReleaseError(f"{name} says {said}, the tag {release.version}")


def add_project(release: Release) -> None:
    """Writes into the metadata where the project lives and who keeps it, as deploy/project.yaml of the tag says."""
    known = project.read(release.source)
    people, _, addresses = project.package_metadata(known, release.version).partition("\n\n")
    metadata = release.source / "pyproject.toml"
    text = metadata.read_text().replace("[project]\n", f"[project]\n{people.strip()}\n", 1)
    metadata.write_text(f"{text}\n{addresses}")
    with (release.source / "helm" / "ofu-exporter" / "Chart.yaml").open("a") as chart:
        chart.write(project.chart_metadata(known, release.version))
    set_value(release, "registry", known.registry)


def set_value(release: Release, key: str, value: str) -> None:
    """Sets an empty value of the chart's image."""
    values = release.source / "helm" / "ofu-exporter" / "values.yaml"
    text, count = re.subn(rf'^  {key}: ""$', f'  {key}: "{value}"', values.read_text(), flags=re.M)
    if count != 1:
        raise ReleaseError(f"values.yaml of the chart has no single place for the image's {key}")
    values.write_text(text)


def make_packages(release: Release, scratch: Path) -> None:
    """The source distribution, and the wheel that is made of it, by the locked build tools."""
    environment = scratch / "build"
    call(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / "bin" / "python"
    locked = release.source / "deploy" / "image" / "build-requirements.txt"
    only_these = ("--require-hashes", "--only-binary", ":all:", "--requirement", locked)
    call(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", *only_these)
    backend = "import sys, hatchling.build as b; print(getattr(b, sys.argv[1])(sys.argv[2]))"
    made = scratch / "made"
    made.mkdir()
    call(python, "-c", backend, "build_sdist", made, at=release.source, epoch=release.epoch)
    (sdist,) = made.iterdir()
    unpacked = scratch / "unpacked"
    with tarfile.open(sdist) as packed:
        packed.extractall(unpacked, **DATA)
    (root,) = unpacked.iterdir()
    call(python, "-c", backend, "build_wheel", release.target, at=root, epoch=release.epoch)
    pack(root, release.target / sdist.name, release.epoch)


def pack(folder: Path, target: Path, epoch: int) -> None:
    """A folder as .tar.gz, the same bytes for the same files."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
        member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
        return member

    with (
        target.open("wb") as raw,
        gzip.GzipFile("", "wb", mtime=epoch, fileobj=raw) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        archive.add(folder, folder.name, filter=plain)


def with_docker(release: Release, options: argparse.Namespace) -> str:
    """Builds the image by BuildKit; its digest."""
    said = release.target / ".image.json"
    arguments = ["--output", f"type=oci,dest={archive_of(release)}", "--metadata-file", str(said)]
    if options.platform:
        arguments += ["--platform", options.platform]
    # Signed statements are made of the whole release; BuildKit's own would change the digest with every build.
    arguments += ["--provenance=false", "--sbom=false"]
    call("docker", "buildx", "build", *arguments, *image_words(release, options))
    digest = str(json.loads(said.read_text())["containerimage.digest"])
    said.unlink()
    return digest


def with_buildah(release: Release, options: argparse.Namespace) -> str:
    """Builds the image by buildah, which needs no daemon; its digest."""
    said = release.target / ".image.digest"
    call(
        "buildah",
        "build",
        "--format",
        "oci",
        "--timestamp",
        str(release.epoch),
        *image_words(release, options),
    )
    call(
        "buildah",
        "push",
        "--digestfile",
        said,
        release.image,
        f"oci-archive:{archive_of(release)}:{release.image}",
    )
    digest = said.read_text().strip()
    said.unlink()
    return digest


def archive_of(release: Release) -> Path:
    return release.target / f"ofu-exporter-image-{release.version}.tar"


def image_words(release: Release, options: argparse.Namespace) -> list[str]:
    """The arguments that every builder of images takes."""
    arguments = {"BASE": options.base, "VERSION": release.version, "REVISION": release.commit}
    words = [
        word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")
    ]
    if options.ca is not None:
        words += ["--secret", f"id=ca,src={options.ca}"]
    return [*words, "--tag", release.image, str(release.source)]


BUILDERS: dict[str, Callable[[Release, argparse.Namespace], str]] = {
    "docker": with_docker,
    "buildah": with_buildah,
}


def make_chart(release: Release, scratch: Path, digest: str | None) -> None:
    """The chart, which asks for the very image that was built beside it."""
    chart = release.source / "helm" / "ofu-exporter"
    if digest is not None:
        set_value(release, "digest", digest)
    made = scratch / "chart"
    call(helm(), "package", chart, "--version", release.version, "--destination", made)
    (package,) = made.iterdir()
    unpacked = made / "unpacked"
    with tarfile.open(package) as packed:
        packed.extractall(unpacked, **DATA)
    # Helm packs with the time of now.
    pack(unpacked / chart.name, release.target / package.name, release.epoch)


def helm() -> str:
    """Helm by its usual name, or by the names that the tests install it under."""
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    names = ("helm", "helm4", "helm3")
    return next((path for name in names if (path := shutil.which(name, path=beside))), "helm")


def make_bill(release: Release) -> None:
    """Every Python package of the image, with version and hashes."""
    beside = Path(sys.executable).parent / "cyclonedx-py"
    program = str(beside) if beside.exists() else "cyclonedx-py"
    target = release.target / f"ofu-exporter-{release.version}.cdx.json"
    words = ["requirements", "deploy/image/requirements.txt", "--pyproject", "pyproject.toml"]
    call(program, *words, "--output-reproducible", "--output-file", target, at=release.source)


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def files_of(target: Path) -> dict[str, str]:
    """Name and SHA-256 of what was made."""
    return {path.name: digest_of(path) for path in sorted(target.iterdir())}


def provenance(release: Release, asked: dict[str, str | None]) -> dict[str, Any]:
    """Where the files come from, as an in-toto statement with SLSA's predicate (slsa.dev/spec/v1.0/provenance)."""
    locks = ("requirements.txt", "build-requirements.txt")
    folder = release.source / "deploy" / "image"
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": name, "digest": {"sha256": digest}}
            for name, digest in files_of(release.target).items()
        ],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": asked,
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": release.commit}},
                    *(
                        {"name": name, "digest": {"sha256": digest_of(folder / name)}}
                        for name in locks
                    ),
                ],
            },
            "runDetails": {"builder": {"id": "urn:ofu-exporter:deploy/release.py"}},
        },
    }


def write_papers(release: Release, asked: dict[str, str | None]) -> None:
    """Provenance of all files, then checksums of all files and of the provenance."""
    statement = json.dumps(provenance(release, asked), indent=2, sort_keys=True)
    (release.target / "provenance.intoto.json").write_text(statement + "\n")
    sums = [f"{digest}  {name}\n" for name, digest in files_of(release.target).items()]
    (release.target / "SHA256SUMS").write_text("".join(sums))


def make(options: argparse.Namespace, target: Path) -> None:
    """All parts of a release, in a folder that nobody sees before it is whole."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        release = opened(options.tag, scratch, target)
        add_project(release)
        digest = None
        if options.builder != "none":
            digest = BUILDERS[options.builder](release, options)
        make_chart(release, scratch, digest)
        make_packages(release, scratch)
        make_bill(release)
        asked = {name: getattr(options, name) for name in ("tag", "builder", "base", "platform")}
        write_papers(release, {**asked, "imageDigest": digest})


def parsed(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("tag", help="the tag to release, such as v0.1.0")
    parser.add_argument(
        "--output", type=Path, help="folder to make; must not exist (default: dist/TAG)"
    )
    parser.add_argument(
        "--builder", choices=[*BUILDERS, "none"], default="docker", help="what builds the image"
    )
    parser.add_argument(
        "--base", default=DEFAULT_BASE, help="base of the image, best with its digest"
    )
    parser.add_argument("--ca", type=Path, help="certificates of a proxy that inspects TLS (PEM)")
    parser.add_argument(
        "--platform", help="what docker builds for, such as linux/amd64,linux/arm64"
    )
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> int:
    options = parsed(words)
    target = (options.output or HERE / "dist" / options.tag).resolve()
    unfinished = target.parent / f".{target.name}.unfinished"
    try:
        if target.exists():
            raise ReleaseError(f"{target} is there already; a release is never written over")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        make(options, unfinished)
    except ReleaseError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        print(f"release: {error}", file=sys.stderr)
        return 1
    unfinished.rename(target)
    print(*sorted(path.name for path in target.iterdir()), sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
