"""deploy/slurm/install.sh, into the root of an image: everything is where the hooks, the unit and the docs say."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.helpers.agent import until
from tests.helpers.hook_node import HookNode
from tests.helpers.slurm_cluster import DEPLOYED, PROGRAM

pytestmark = pytest.mark.slow

REPOSITORY = DEPLOYED.parents[1]
HOOKS = {path.name for path in DEPLOYED.glob("*.sh")} - {"install.sh"}
CONFIGURED = re.compile(r"(?:Prolog|Epilog|EpilogSlurmctld)=(\S+\.sh)|(/etc/slurm/\S*\.sh)")


class Image:
    """The root of an image of a node."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.hooks = root / "etc/slurm/ofu-exporter"
        self.settings = root / "etc/ofu-exporter/ofu-exporter.yaml"
        self.opt = root / "opt/ofu-exporter"

    def run(
        self, *flags: str, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [DEPLOYED / "install.sh", "--root", self.root, *flags],
            capture_output=True,
            text=True,
            check=False,
            umask=0o077,
            env={**os.environ, **(env or {})},
        )

    def do(self, *flags: str) -> str:
        done = self.run(*flags)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    def install(self, *flags: str) -> str:
        return self.do("--program", str(PROGRAM), *flags)

    def files(self) -> set[str]:
        return {
            str(path.relative_to(self.root))
            for path in self.root.rglob("*")
            if not path.is_dir() or path.is_symlink()
        }


@pytest.fixture
def image(tmp_path: Path) -> Image:
    (tmp_path / "root").mkdir()
    return Image(tmp_path / "root")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_everything_is_where_it_is_looked_for(image: Image) -> None:
    image.install()
    assert {path.name for path in image.hooks.iterdir()} == HOOKS
    assert {mode(path) for path in image.hooks.iterdir()} == {0o755}
    assert os.readlink(image.opt / "bin/ofu-exporter") == str(PROGRAM)
    unit = (image.root / "etc/systemd/system/ofu-exporter.service").read_text()
    assert "/opt/ofu-exporter/bin/ofu-exporter run" in unit
    assert f"--config /{image.settings.relative_to(image.root)}" in unit
    for folder, wanted in (("", 0o755), ("jobs", 0o755), ("tokens", 0o711)):
        assert mode(image.root / "run/ofu-exporter" / folder) == wanted
    made_at_boot = (image.root / "etc/tmpfiles.d/ofu-exporter.conf").read_text()
    assert "d /run/ofu-exporter/jobs 0755 root root -" in made_at_boot
    assert "d /run/ofu-exporter/tokens 0711 root root -" in made_at_boot


def test_the_hooks_work_from_there(image: Image, tmp_path: Path) -> None:
    image.install()
    node = HookNode(tmp_path)
    node.call(image.hooks / "prolog.sh", 7)
    assert node.files() == ["7"]
    node.call(image.hooks / "epilog.sh", 7)
    assert (node.files(), node.ended()) == ([], ["7"])
    until(node.is_quiet)


@pytest.mark.parametrize("flags", [[], ["--remove"]])
def test_a_dry_run_prints_what_a_real_one_does_and_does_nothing(
    image: Image, flags: list[str]
) -> None:
    if flags:
        image.install()
    before = image.files()
    told = image.install("--dry-run", *flags)
    assert image.files() == before
    assert told == image.install(*flags)
    assert image.files() != before
    assert "+ " in told


def test_a_second_time_the_settings_stay_and_the_hooks_are_new(image: Image) -> None:
    image.install()
    image.settings.write_text("listen: 127.0.0.1:1\n")
    (image.hooks / "hook.sh").write_text("old")
    image.install()
    assert image.settings.read_text() == "listen: 127.0.0.1:1\n"
    assert (image.hooks / "hook.sh").read_text() == (DEPLOYED / "hook.sh").read_text()
    assert not list(image.root.rglob("*.new"))


def test_what_was_installed_is_removed_and_the_settings_stay(image: Image) -> None:
    (image.root / "opt").mkdir()
    image.install()
    image.do("--remove")
    assert image.files() == {"etc/ofu-exporter/ofu-exporter.yaml"}
    assert not image.opt.exists()
    assert not image.hooks.exists()
    image.do("--remove")


def test_what_somebody_else_has_installed_stays(image: Image) -> None:
    (image.opt / "bin").mkdir(parents=True)
    (image.opt / "bin/ofu-exporter").touch(0o755)
    image.do("--program", str(image.opt / "bin/ofu-exporter"))
    (image.hooks / "site.sh").touch()
    assert "stays" in image.do("--remove")
    assert (image.opt / "bin/ofu-exporter").is_file()
    assert [path.name for path in image.hooks.iterdir()] == ["site.sh"]


@pytest.mark.parametrize(
    ("file", "line", "refused"),
    [
        ("slurm.conf", "Prolog=/etc/slurm/ofu-exporter/prolog.sh", True),
        ("prolog.d/50-ofu.sh", "exec /etc/slurm/ofu-exporter/prolog.sh --no-ask", True),
        ("slurm.conf", "# Prolog=/etc/slurm/ofu-exporter/prolog.sh", False),
        ("slurm.conf", "Prolog=/etc/slurm/prolog.sh", False),
    ],
)
def test_hooks_that_slurm_calls_are_not_taken_away(
    image: Image, file: str, line: str, refused: bool
) -> None:
    """Slurm drains a node whose prolog is not there."""
    image.install()
    named = image.root / "etc/slurm" / file
    named.parent.mkdir(exist_ok=True)
    named.write_text(f"ClusterName=x\n{line}\n")
    done = image.run("--remove")
    assert done.returncode == int(refused)
    assert (f"{named} still names the hooks" in done.stderr) is refused
    assert (image.hooks / "prolog.sh").exists() is refused


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--what"], "what is --what?"),
        (["--hooks"], "--hooks needs a value"),
        (["--hooks", "here"], "begins with /"),
        (["--program", "/nowhere"], "/nowhere is no program"),
    ],
)
def test_a_mistake_changes_nothing(image: Image, flags: list[str], said: str) -> None:
    done = image.run(*flags)
    assert done.returncode == 1
    assert said in done.stderr
    assert image.files() == set()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_what_pip_installs_works_where_the_image_is_the_root(image: Image, tmp_path: Path) -> None:
    """The unit's program starts, and a hook names the job; the image has moved since it was made."""
    done = image.run()
    assert done.returncode == 0, done
    moved = Image(tmp_path / "a $mo.ved| image")
    image.root.rename(moved.root)
    shown = in_image(moved, "/opt/ofu-exporter/bin/ofu-exporter", "--version")
    assert shown.stdout.startswith("ofu-exporter"), shown
    node = HookNode(tmp_path)
    job = {
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_GPUS": "0",
        "SLURM_JOB_NAME": "train",
        "SLURM_JOB_START_TIME": "1000",
        "OFU_JOB_DIR": str(node.jobs),
        "OFU_EXPORTER_HOOK_SECONDS": "20",
    }
    assert in_image(moved, str(moved.hooks / "prolog.sh"), "--no-ask", env=job).returncode == 0
    until(lambda: "train" in (node.jobs / "7.json").read_text())
    moved.do("--remove")
    assert not moved.opt.exists()


def in_image(
    image: Image, *command: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command where /opt is that of the image, as on a node that has started from it."""
    inner = 'mount --rbind "$0" /opt && exec "$@"'
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", inner, str(image.opt.parent), *command],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], **(env or {})},
    )


@pytest.mark.parametrize("page", ["docs/slurm.md", "deploy/slurm/README.md"])
def test_the_docs_name_the_places_that_it_installs_to(image: Image, page: str) -> None:
    lines = image.install()
    text = (REPOSITORY / page).read_text()
    named = {one or other for one, other in CONFIGURED.findall(text)}
    installed = {f"/etc/slurm/ofu-exporter/{name}" for name in HOOKS}
    installed |= {f"/etc/slurm/ofu-{hook}.sh" for hook in ("prolog", "epilog")}
    assert named <= installed | {"/etc/slurm/ofu-exporter/*.sh"}, named - installed
    for line in ("PrologFlags=Alloc", *re.findall(r"(?:Prolog|Epilog)=\S+", lines)):
        assert line in text
    assert "install.sh" in text


def test_links_and_the_files_of_prolog_are_looked_at_before_hooks_go(image: Image) -> None:
    """A pattern of slurm.conf reaches a hook by a link; another prolog calls one; both would drain the node."""
    image.install()
    slurm, site = image.root / "etc/slurm", image.root / "usr/local/sbin/site-prolog"
    link = slurm / "prolog.d/50-ofu.sh"
    link.parent.mkdir()
    site.parent.mkdir(parents=True)
    for target in ("/etc/slurm/ofu-exporter/prolog.sh", "../ofu-exporter/prolog.sh"):
        link.symlink_to(target)
        refused = image.run("--remove")
        assert (refused.returncode, f"{link} still names" in refused.stderr) == (1, True)
        link.unlink()
    site.write_text("#!/bin/sh\nhooks=/etc/slurm/ofu-exporter\n$hooks/prolog.sh\n")
    for named in ("Prolog=/usr/local/sbin/site-prolog", " epilog = /usr/local/sbin/site-*"):
        (slurm / "slurm.conf").write_text(f"{named}\n")
        refused = image.run("--remove")
        assert (refused.returncode, f"{site} still names" in refused.stderr) == (1, True)
    assert (image.hooks / "prolog.sh").exists()
    (slurm / "slurm.conf").unlink()
    image.do("--remove")


def test_wrappers_that_slurm_names_stay_and_hinder_nothing(image: Image) -> None:
    image.install()
    wrapper = image.root / "etc/slurm/ofu-prolog.sh"
    (image.root / "etc/slurm/slurm.conf").write_text("Prolog=/etc/slurm/ofu-prolog.sh\n")
    assert "stay, because slurm.conf names them" in image.do("--remove")
    assert not image.hooks.exists()
    assert subprocess.run([wrapper], check=False).returncode == 0


def other_python(version: str) -> str:
    found = sorted((Path.home() / ".pyenv/versions").glob(f"{version}.*/bin/python{version}"))
    name = str(found[0]) if found else shutil.which(f"python{version}")
    return name or pytest.skip(f"no Python {version} is installed")


@pytest.mark.parametrize("version", ["3.6", "3.9"])
def test_too_old_a_python_is_named_before_anything_is_made(image: Image, version: str) -> None:
    done = image.run(env={"PYTHON": other_python(version)})
    assert done.returncode == 1
    assert f"is Python {version}, and 3.10 or newer is needed" in done.stderr
    assert image.files() == set()
    assert not (image.root / "opt").exists()


def test_an_environment_of_another_python_is_made_anew(image: Image) -> None:
    old = other_python("3.9")
    subprocess.run([old, "-m", "venv", "--without-pip", image.opt], check=True)
    told = image.run("--dry-run").stdout
    assert f"-m venv --clear {image.opt}" in told
