"""docs/start.md word by word, on one machine that plays nine: installed, scraped, reported on, timed and removed.

Its commands run as they stand, in order, in namespaces of their own: /etc, /opt and /var/lib are copies, and each node
has an address of its own. Two things are not the page's: the GPUs are simulated, and systemd, which the tests do not
have, is a script that lets `systemd-analyze` check the units and starts their commands.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.agent import until
from tests.helpers.broken_node import why_no_mounts
from tests.helpers.early import Early
from tests.helpers.fleets import fleet
from tests.helpers.simulated_pages import kept

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "start.md"
NODES = 8
PATIENCE = 120.0
pytestmark = [
    pytest.mark.slow,
    pytest.mark.prometheus,
    pytest.mark.skipif(bool(why_no_mounts()), reason=why_no_mounts()),
    pytest.mark.skipif(shutil.which("ip") is None, reason="needs ip, which tests/run installs"),
    pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl, which tests/run installs"),
]

SYSTEMCTL = r"""#!/bin/sh -e
units=/etc/systemd/system
command_of() { sed -n 's/^ExecStart=//p' "$units/$1.service" | sed 's/%%/%/g'; }
case "$*" in
  daemon-reload)
    for unit in "$units"/ofu-*; do
      # a node's uninstall takes the program from the units of all others here
      [ -e "$unit" ] && [ -e /opt/ofu-exporter ] || continue
      said=$said$(systemd-analyze verify --man=no "$unit" 2>&1) || said="$said refused"
    done
    echo "$said"
    [ -z "$said" ] ;;
  "enable --now ofu-exporter")
    for n in 1 2 3 4 5 6 7 8; do
      export OFU_SOURCE=simulate OFU_SCHEDULER=simulate OFU_SEED=$n OFU_LISTEN=127.0.0.$n:9846
      OFU_STATE_FILE=/var/lib/state$n sh -c "exec $(command_of ofu-exporter)" >/dev/null 2>&1 &
      echo $! >>/var/lib/pids
    done ;;
  "enable --now ofu-report.timer")
    systemd-analyze calendar "$(sed -n 's/^OnCalendar=//p' "$units/ofu-report.timer")" ;;
  "start ofu-report") mkdir -p /var/lib/ofu-report && sh -c "$(command_of ofu-report)" ;;
  "disable --now ofu-exporter") kill $(cat /var/lib/pids) ;;
  "disable --now ofu-report.timer") ;;
  *) echo "systemctl $*: not expected" >&2; exit 1 ;;
esac
"""
BEFORE = """\
seed: 1
length: 2h
cluster: before
nodes: [{name: n, count: 8, model: H100, gpus: 8, partition: batch}]
jobs: [{name: train, users: [ada], gpus: 64, mfu: 0.40, report: {}}]
"""
"""The last two hours, so that nobody has to wait for the first five minutes."""


def blocks(heading: str) -> list[str]:
    """The indented blocks below a heading of the page, as they are copied from it."""
    section = re.search(
        rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S
    )
    assert section, heading
    found = re.findall(r"(?:^(?: {4}.*)?\n)+", section[1], re.M)
    return [textwrap.dedent(block).strip() + "\n" for block in found if block.strip()]


class Site:
    """A machine of its own, which has nothing installed and a copy of the repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checkout = folder / "checkout"
        for name in ("opt", "lib", "bin"):
            (folder / name).mkdir()
        (folder / "bin" / "systemctl").write_text(SYSTEMCTL)
        (folder / "bin" / "systemctl").chmod(0o755)
        hosts = "".join(f"127.0.0.{n} node{n}\\n" for n in range(1, NODES + 1))
        script = (
            f"ip link set lo up; cp -a /etc {folder}/etc; mount --bind {folder}/etc /etc; "
            f"mount --bind {folder}/opt /opt; mount --bind {folder}/lib /var/lib; "
            f"printf '127.0.0.1 localhost\\n{hosts}' > /etc/hosts; "
            f"mkdir -p /etc/prometheus; rm -rf /etc/prometheus/*; touch {folder}/ready; exec sleep infinity"
        )
        namespaces = ("--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child")
        self.holder = subprocess.Popen(["unshare", *namespaces, "sh", "-ec", script])
        until((folder / "ready").exists, PATIENCE)
        children = Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children")
        self.inside = children.read_text().split()[0]

    def do(self, script: str, net: bool = True) -> str:
        """What a script prints, all of which must succeed, also what stands before `&&`.

        `net` is the machine's own network, where no index of packages is.
        """
        spaces = ["--root", "--mount", "--pid", *(["--net"] if net else [])]
        shell = ["sh", "-ec", script.replace(" && ", "\n")]
        done = subprocess.run(
            ["nsenter", "--target", self.inside, *spaces, f"--wd={self.checkout}", *shell],
            env={**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def ask(self, query: str) -> list[str]:
        """The values of a query."""
        words = urllib.parse.urlencode({"query": query})
        url = f"http://localhost:9090/api/v1/query?{words}"
        rows = json.loads(self.do(f"curl -s '{url}'"))["data"]["result"]
        return [row["value"][1] for row in rows]

    def install(self, block: str) -> str:
        """Does what needs an index of packages, once, and returns the lines after it."""
        lines = block.splitlines(keepends=True)
        if not (self.folder / "opt" / "ofu-exporter").exists():
            self.do("".join(lines[:2]), net=False)
        return "".join(lines[2:])

    def remember(self) -> None:
        """Puts two hours of a fleet into the folder that the page gives Prometheus."""
        begin = time.time() // 3600 * 3600 - 7200
        (self.folder / "before.om").write_text(kept(fleet(BEFORE, self.folder), begin))
        blocks = "promtool tsdb create-blocks-from openmetrics -q"
        self.do(f"{blocks} {self.folder}/before.om /var/lib/prometheus")


def copy_checkout(target: Path) -> None:
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


@contextlib.contextmanager
def site_in(folder: Path) -> Iterator[Site]:
    copy_checkout(folder / "checkout")
    made = Site(folder)
    try:
        yield made
    finally:
        made.holder.kill()
        made.holder.wait()


def install_agents(site: Site) -> None:
    without_slurm, _, _, _, ready = blocks("1. The agent, on each node")
    rest = site.install(without_slurm)
    check = "/opt/ofu-exporter/bin/ofu-exporter check"
    assert check in rest
    site.do(rest.replace(check, f"{check} --source simulate"))
    until(lambda: succeeds(site, ready), PATIENCE)


def succeeds(site: Site, script: str) -> bool:
    try:
        site.do(script)
    except AssertionError:
        return False
    return True


def start_prometheus(site: Site) -> None:
    (block,) = blocks("2. Prometheus")
    rest, start, end = site.install(block).rpartition("prometheus --config.file=")
    site.do(rest)
    site.remember()
    site.do(f"{start}{end.strip()} --log.level=error >{site.folder}/prometheus.log 2>&1 &")


def see_that_it_measures(site: Site) -> None:
    queries, of_jobs = blocks("3. Is everything measured?")
    count, reasons, ofu = re.findall("'(.*)'", queries)
    until(lambda: succeeds(site, queries), PATIENCE)
    until(lambda: site.ask(count) == [str(8 * NODES)], PATIENCE)
    assert site.ask(reasons) == []
    until(lambda: len(site.ask(ofu)) == 1 and 0.0 < float(site.ask(ofu)[0]) < 1.0, PATIENCE)
    until(lambda: len(site.ask(of_jobs)) > 1, PATIENCE)


def report_and_time_it(site: Site) -> None:
    (first,) = blocks("4. The first report")
    report = site.do(first)
    assert report.startswith("SIMULATED")
    assert re.search(r"^ada +", report, re.M)
    (timer,) = blocks("5. Every Monday")
    (page,) = re.findall(r"^\d{4}-\d\d-.*\.html$", site.do(timer), re.M)
    folder = site.folder / "lib" / "ofu-report"
    assert "ada" in (folder / page).read_text()
    assert f'href="{page}"' in (folder / "index.html").read_text()


def uninstall(site: Site) -> None:
    for block in blocks("Uninstall"):
        site.do(block)
    assert list((site.folder / "opt").iterdir()) == []
    left = {str(path) for name in ("etc", "lib") for path in (site.folder / name).rglob("*ofu-*")}
    assert left == set()
    assert not succeeds(site, "curl -sf localhost:9846/readyz")


@contextlib.contextmanager
def followed(folder: Path) -> Iterator[Site]:
    """A site on which the page has been followed until everything is measured."""
    with site_in(folder) as site:
        install_agents(site)
        start_prometheus(site)
        see_that_it_measures(site)
        yield site


@pytest.mark.early(begin=followed)
def test_the_page_leads_from_eight_nodes_to_a_weekly_report_and_back(early: Early) -> None:
    with early.of(followed) as site:
        report_and_time_it(site)
        uninstall(site)


def test_a_node_without_a_network_is_installed_from_what_was_downloaded(tmp_path: Path) -> None:
    text = " ".join(PAGE.read_text().split())
    download, install = re.findall("`(pip (?:download|install --no-index) [^`]*)`", text)
    copy_checkout(tmp_path)
    python = f'"{sys.executable}" -m'  # its pip, so that none has to be installed
    pip = f'pip() {{ {python} pip --python v/bin/python "$@"; }}; {python} venv --without-pip v'
    shell = ["sh", "-ec", f"{pip}; {download}; {install}; v/bin/ofu-exporter --version"]
    done = subprocess.run(shell, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_lines_for_slurm_are_those_of_its_page() -> None:
    _, script, lines, _, _ = blocks("1. The agent, on each node")
    slurm = (PAGE.parent / "slurm.md").read_text()
    for line in (*script.splitlines(), *lines.splitlines()):
        assert f"    {line}\n" in slurm
