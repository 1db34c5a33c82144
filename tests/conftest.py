"""What all tests share: --fast and --regenerate, untimed properties, who runs what and when, one Slurm."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import re
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Generator, Iterator, Set
from pathlib import Path

import pytest
from hypothesis import settings

from tests.helpers.early import Early
from tests.helpers.programs import absent, outdated, skipped_by_reason
from tests.helpers.slurm_cluster import Cluster, missing

# Hundreds of processes of the agent start, and each would compile the package again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# What pip installs in a test is hardly imported there. Pip takes a false value of this variable for yes.
os.environ["PIP_NO_COMPILE"] = "0"

# Prometheus and all that is written in Go collect garbage a quarter as often: a sixth of their CPU, for some memory.
os.environ.setdefault("GOGC", "400")

# With it jsonschema builds 38 grammars in each worker, for formats that no schema here is checked for.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]

END_TO_END = Path(__file__).parent / "end_to_end"

settings.register_profile("untimed", deadline=None)
settings.register_profile("repeatable", settings.get_profile("untimed"), derandomize=True)
settings.register_profile("fast", settings.get_profile("untimed"), max_examples=25)
settings.load_profile("repeatable" if os.environ.get("CI") else "untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fast", action="store_true", help="leave out what is marked slow, with fewer examples"
    )
    parser.addoption(
        "--regenerate", action="store_true", help="write what is generated anew, alone"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.option.loadscopereorder = False  # xdist would begin with the groups of most tests
    if sys.version_info < (
        3,
        11,
    ):  # its asyncio says so of each TLS connection that the other side closes
        leftover = "ignore:unclosed transport <asyncio.sslproto:ResourceWarning"
        config.addinivalue_line("filterwarnings", leftover)
    if config.getoption("--fast"):
        settings.load_profile("fast")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """All that is made here stays. Looking for garbage in it would take each worker a second, and more at its end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_make_parametrize_id(val: object) -> str | None:
    """A long text is named by its begin: each worker tells the names of all tests, and its log has them."""
    return str(val[:40]) if isinstance(val, str | bytes) and len(val) > 80 else None


@pytest.hookimpl(tryfirst=True)  # before xdist puts the groups into the names
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Everything in tests/end_to_end is slow; --fast leaves out what is slow, --regenerate what writes nothing.

    A file is of one worker, which makes its fixtures once, unless a mark says otherwise. The slow ones come first, so
    that no worker is left with one of them in the end.
    """
    if config.getoption("--regenerate"):
        items[:] = [item for item in items if "regenerate" in getattr(item, "fixturenames", ())]
    for item in items:
        if str(item.path).startswith(f"{END_TO_END}/"):
            item.add_marker(pytest.mark.slow)
    marks = {item: {mark.name for mark in item.iter_markers()} for item in items}
    for item in items:
        if "prometheus" in marks[item] and outdated():
            item.add_marker(pytest.mark.skip(reason=outdated()))
    if config.getoption("--fast"):
        config.hook.pytest_deselected(items=[item for item in items if "slow" in marks[item]])
        items[:] = [item for item in items if "slow" not in marks[item]]
    else:
        files = {item.path for item in items if "slow" in marks[item]}
        items.sort(key=lambda item: _rank(item, marks[item], item.path in files))
    for item in items:
        if "xdist_group" not in marks[item]:
            group = "early" if "early" in marks[item] else item.nodeid.partition("::")[0]
            item.add_marker(pytest.mark.xdist_group(group))


def _rank(item: pytest.Item, marks: Set[str], is_slow: bool) -> tuple[bool, bool, int]:
    """Slow files are mixed: those of one folder all wait, or all compute, and would leave cores idle.

    What is early begins a quarter of the way, when the rush of the start is over.
    """
    mixed = zlib.crc32(item.path.name.encode())
    if "early" in marks:
        mixed = 1 << 30
    return "slurm" not in marks, not is_slow, mixed if is_slow else 0


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A test that failed in a group is found by its own name when it is to run again, alone."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        report.nodeid = re.sub(r"@[^@\]]*$", "", report.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What fails for want of a program is skipped."""
    report = yield
    why = absent(call.excinfo.value) if call.excinfo else None
    if why:
        report.outcome = "skipped"
        report.longrepr = (str(item.path), 0, f"Skipped: {why}")
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in skipped_by_reason(terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line(line)


@pytest.hookimpl(optionalhook=True)  # also without xdist
def pytest_xdist_auto_num_workers() -> int:
    """Four more than cores: tests of running agents wait for two thirds of their time, the fast ones for one."""
    return (os.cpu_count() or 1) + 4


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter; pytest's own are closed to them, and every run that begins closes them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture
def regenerate(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--regenerate"))


@pytest.fixture
def generated(request: pytest.FixtureRequest, regenerate: bool) -> Callable[[Path, str], None]:
    """Holds a file to the text that is made for it; `--regenerate` writes it there."""

    def check(path: Path, text: str) -> None:
        if regenerate:
            path.write_text(text, encoding="utf-8")
        there = path.read_text(encoding="utf-8") if path.exists() else ""
        tests = request.path.relative_to(Path(__file__).parents[1])
        how = f"`.venv-test/bin/python -m pytest -q --regenerate {tests}`, and read `git diff`"
        assert there == text, f"{path.name} is not what is made for it now: {how}"

    return check


@pytest.fixture
def golden(generated: Callable[[Path, str], None]) -> Callable[[str, str], None]:
    """The same of a file of tests/golden/."""
    return lambda name, text: generated(Path(__file__).parent / "golden" / name, text)


@pytest.fixture
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Shows times as a machine in UTC does."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def anyio_backend() -> str:
    """What runs the tests that are coroutines."""
    return "asyncio"


@pytest.fixture
def own_logging() -> Iterator[None]:
    """A command that runs in this process sets the log as its flags say; later tests want theirs."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The one Slurm that all tests of a real one share: they are of one xdist group."""
    if why := missing():
        pytest.skip(why)
    with Cluster.started() as made:
        yield made


@pytest.fixture(scope="session")
def early(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Early]:
    """All that the chosen tests of this mark begin, side by side."""
    marks = (item.get_closest_marker("early") for item in request.session.items)
    begins = dict.fromkeys(mark.kwargs["begin"] for mark in marks if mark and mark.kwargs)
    with contextlib.closing(Early(begins, lambda: tmp_path_factory.mktemp("early"))) as begun:
        yield begun
