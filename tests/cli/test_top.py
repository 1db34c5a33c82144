"""`top`: one page, JSON, and the screen in a real terminal (tmux)."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import pty
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers.agent import COMMAND, SIMULATED, Agent, agent, bare_environment, call, until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("top")]


@pytest.fixture(scope="module")
def demo() -> Iterator[Agent]:
    with agent(*SIMULATED) as running:
        until(lambda: "1004" in running.get("/v1/jobs")[1])
        until(lambda: len(running.values("ofu_gpu_utilization_ratio")) == 8)
        yield running


class Terminal:
    """A terminal of its own, in which one command runs."""

    def __init__(self, socket: Path) -> None:
        self._tmux = ["tmux", "-f", "/dev/null", "-S", str(socket)]

    def run(self, *args: str) -> str:
        return subprocess.run(
            [*self._tmux, *args], check=True, capture_output=True, text=True, timeout=60
        ).stdout

    @property
    def screen(self) -> str:
        return self.run("capture-pane", "-p", "-t", "top")

    def type(self, *keys: str) -> None:
        self.run("send-keys", "-t", "top", *keys)

    def waits_for(self, *words: str, without: str = "\0") -> None:
        """Wait until all of these words are there, and another one is not."""
        try:
            until(lambda: all(each in self.screen for each in words) and without not in self.screen)
        except AssertionError as error:
            raise AssertionError(f"{words} are not there:\n{self.screen}") from error


@contextmanager
def terminal(folder: Path, *args: str, size: tuple[int, int] = (110, 30)) -> Iterator[Terminal]:
    """`ofu-exporter top` with these arguments in a terminal."""
    shown = Terminal(folder / "tmux")
    command = shlex.join([*COMMAND, "top", *args]) + f"; echo ended with $? > {folder / 'end'}"
    kept = bare_environment({"LC_ALL": "C.UTF-8", "TERM": "xterm-256color"})
    for size_of_another in ("COLUMNS", "LINES"):
        kept.pop(size_of_another, None)
    where = ["new-session", "-d", "-s", "top", "-c", str(folder)]
    subprocess.run(
        [*shown._tmux, "-u", *where, "-x", str(size[0]), "-y", str(size[1]), command],
        check=True,
        env=kept,
        timeout=60,
    )
    try:
        yield shown
    finally:
        subprocess.run([*shown._tmux, "kill-server"], check=False, capture_output=True, timeout=60)


def test_one_page_of_text(demo: Agent) -> None:
    done = call("top", "--once", "--agent", demo.url, "--width", "110")
    assert (done.returncode, done.stderr) == (0, "")
    assert "  SIMULATED  OFU " in done.stdout
    assert "8 of 8 GPUs" in done.stdout
    assert "moe-pretrain" in done.stdout
    assert "\x1b" not in done.stdout, "no colours in a pipe"
    coloured = call("top", "--once", "--agent", demo.url, "--color", "always").stdout
    assert "\x1b[32m" in coloured
    plain = call("top", "--once", "--agent", demo.url, env={"PYTHONIOENCODING": "ascii"})
    assert plain.stdout.isascii(), "a terminal without other characters"
    assert "###" in plain.stdout


def test_everything_as_json_with_what_does_not_answer(demo: Agent) -> None:
    where = demo.url.removeprefix("http://")
    done = call("top", "--format", "json", "--hosts", f"{where},127.0.0.1:[1-2]")
    data = json.loads(done.stdout)
    assert done.returncode == 0
    assert list(data["nodes"]) == [where]
    assert set(data["unanswered"]) == {"127.0.0.1:1", "127.0.0.1:2"}
    assert data["partial_coverage"] is True
    again = call("top", "--format", "json", "--hosts", f"{where},127.0.0.1:[1-2]")
    assert json.loads(again.stdout).keys() == data.keys()


def test_every_gpu_is_a_row_of_csv(demo: Agent) -> None:
    done = call("top", "--format", "csv", "--hosts", demo.url.removeprefix("http://"))
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["gpu"] for row in rows] == [str(number) for number in range(8)]
    assert all(0 <= float(row["utilization_ratio"]) < 1.1 for row in rows)


def test_one_page_is_the_text_format(demo: Agent) -> None:
    done = call("top", "--format", "text", "--agent", demo.url)
    assert "  SIMULATED  OFU " in done.stdout
    assert "8 of 8 GPUs" in done.stdout


def test_a_view_a_filter_and_an_order_are_flags(demo: Agent) -> None:
    done = call(
        *("top", "--once", "--agent", demo.url, "--view", "users", "--filter", "grace"),
        *("--sort", "o"),
    )
    assert "grace" in done.stdout
    assert "alan" not in done.stdout


def test_nobody_there_ends_with_3(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1:1 # nobody\n")
    done = call("top", "--once", "--hosts-file", str(hosts))
    assert done.returncode == 3
    assert "does not answer: Connection refused" in done.stdout


@pytest.mark.parametrize("environ", [{}, {"OFU_AGENT": "http://127.0.0.1:9"}])
def test_with_a_source_it_samples_by_itself(environ: dict[str, str]) -> None:
    """Whatever agent the environment names."""
    flags = ("--source", "simulate", "--interval", "0.2", "--width", "120")
    done = call("top", "--once", *flags, env=environ)
    assert done.returncode == 0, done.stderr
    assert "sampled by top itself" in done.stdout


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--once", "--agent", "a", "--hosts", "b"), "give one of"),
        (("--once", "--hosts", "node["), "a bracket is not closed"),
        (("--once", "--hosts", "a", "--source", "simulate"), "leave out"),
        ((), "the screen needs a terminal: use --once or --format"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(args: tuple[str, ...], words: str) -> None:
    done = call("top", *args)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert words in line


def on_a_terminal(kind: str, *args: str) -> str:
    """What `top` writes to a terminal of this kind."""
    ours, theirs = pty.openpty()
    done = subprocess.Popen(
        [*COMMAND, "top", *args],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=bare_environment({"TERM": kind, "NO_COLOR": ""}),
    )
    os.close(theirs)
    written = b""
    with open(ours, "rb", buffering=0) as terminal, contextlib.suppress(OSError):
        while piece := terminal.read(1 << 16):  # OSError: nobody has it open any more
            written += piece
    done.wait(60)
    return written.decode()


def test_a_dumb_terminal_gets_text_alone(demo: Agent) -> None:
    once = ("--once", "--agent", demo.url)
    assert "\x1b[" in on_a_terminal("xterm", *once)
    page = on_a_terminal("dumb", *once)
    assert "8 of 8 GPUs" in page
    assert "\x1b" not in page
    assert "the screen needs a terminal" in on_a_terminal("dumb", "--agent", demo.url)


def test_without_the_extra_there_is_one_page_and_what_the_screen_needs(demo: Agent) -> None:
    hide = (
        "import sys; sys.modules['textual'] = None; sys.modules['rich'] = None; "
        "from ofu_exporter.__main__ import main; main()"
    )

    def without(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-W", "error", "-c", hide, "top", *args],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env=bare_environment(),
        )

    done = without("--agent", demo.url)
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "ofu-exporter: this is one page; the screen needs textual: pip install 'textual>=3.1'"
    ]
    once = without("--once", "--agent", demo.url)
    assert (once.returncode, once.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == len(once.stdout.splitlines()) > 8
    assert without("--format", "json", "--agent", demo.url).returncode == 0


@pytest.mark.skipif(not shutil.which("tmux"), reason="needs Debian's tmux")
def test_the_screen_in_a_terminal(demo: Agent, tmp_path: Path) -> None:
    with terminal(tmp_path, "--agent", demo.url) as shown:
        shown.waits_for("8 of 8 GPUs")
        shown.type("u")
        shown.waits_for("GPU-hours")
        shown.type("g", "/")
        shown.type("-l", "grace")
        shown.type("Enter")
        shown.waits_for("moe-pretrain", "only with", without="llama")
        shown.type("?")
        shown.waits_for("standard error")
        shown.type("?")
        shown.waits_for("only with", without="standard error")
        shown.type("e")
        until(lambda: list(tmp_path.glob("ofu-top-*.json")))
        shown.type("q")
        until((tmp_path / "end").exists)
    assert (tmp_path / "end").read_text() == "ended with 0\n"


@pytest.mark.skipif(not shutil.which("tmux"), reason="needs Debian's tmux")
def test_an_agent_that_goes_away_goes_from_the_screen(tmp_path: Path) -> None:
    with (
        agent(*SIMULATED) as running,
        terminal(tmp_path, "--agent", running.url, size=(60, 20)) as shown,
    ):
        shown.waits_for("8 of 8 GPUs")
        running.stop()
        shown.waits_for("0 of 0 GPUs")
        assert "%" not in shown.screen.splitlines()[0]
