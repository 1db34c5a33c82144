"""`pause` and `resume`: make the agent release the GPUs for work that needs them alone, and take them back."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import click
from pydantic import ValidationError

from ofu_exporter.agent.pause_file import NAME, is_pause_name, pause_files
from ofu_exporter.cli.answers import say
from ofu_exporter.cli.local_agents import other_agents
from ofu_exporter.cli.option_types import DURATION, FILE, option, with_options
from ofu_exporter.errors import ConfigError, OfuError, SourceError, file_errors
from ofu_exporter.reports.agent_access import AgentAccess
from ofu_exporter.serving.node_reader import read_node
from ofu_exporter.settings import Settings
from ofu_exporter.sources.dcgm.host_engine import EMBEDDED, HostEngine
from ofu_exporter.sources.dcgm.library import NOT_SUPPORTED, DcgmError, Library
from ofu_exporter.sources.dcgm.options import Options
from ofu_exporter.support.bounded_get import Limits, NoAnswerError, content, shown_url
from ofu_exporter.support.durations import duration
from ofu_exporter.support.whole_file import whole_file

SHARED = (
    "Nothing to do for the host engine: since Hopper a profiler and DCGM can read a GPU at the same time, "
    "and this host engine has no older GPU."
)
OTHERS_SECONDS = 5.0
"""How long `resume` waits for an agent that others may have paused, too: it looks every second."""
ASK_SECONDS = 0.2
"""Time between two questions to the agent."""
PAGE = Limits(seconds=5.0, most_bytes=16 << 20)


_flags = with_options(
    (
        option(
            "--wait",
            "Longest wait for the agent.",
            DURATION,
            parameter="patience",
            default="30s",
            show_default=True,
        ),
        option(
            "--pause-file",
            "The file that the agent looks for. Default: what the agent says, or /run/ofu-exporter/pause.",
            FILE,
            parameter="given",
            envvar="OFU_PAUSE_FILE",
        ),
        option(
            "--by",
            "Name of this pause; if several pause, the GPUs stay free until each has resumed.",
            metavar="NAME",
        ),
        option(
            "--agent",
            "The agent of this node. Default: OFU_AGENT, or http://127.0.0.1:9846.",
            envvar="OFU_AGENT",
            default="http://127.0.0.1:9846",
            metavar="URL",
        ),
        option(
            "--dcgm-address",
            "Host engine that pauses as well (HOST:PORT or unix:/PATH), for all who read it.",
            parameter="address",
            metavar="ADDRESS",
        ),
    )
)
"""The flags of both commands."""


@click.command(short_help="Make the agent let go of the GPUs.")
@option(
    "--for",
    "Longest time of the pause, such as 2h; default: until `resume`.",
    DURATION,
    parameter="longest",
)
@_flags
def pause(
    longest: float | None,
    given: Path | None,
    by: str | None,
    patience: float,
    agent: str,
    address: str | None,
) -> None:
    """Make the agent let go of the GPUs: for a new MIG layout, a reset, another driver, a profiler.

    It then holds no GPU, no driver and no host engine, whatever its source, and keeps serving. This command exits
    with 0 once nothing is held.
    """
    _check(address)
    file, node = _file(agent, given)
    own_file = _of(file, by)
    if own_file.exists():
        say(f"{own_file} is there already: one `resume` ends both pauses (--by tells them apart).")
    _write(own_file, "" if longest is None else duration(longest))
    _await(agent, "ofu_exporter_released", patience, own_file)
    most = "" if longest is None else f", at most for {duration(longest)}"
    say(
        f"Paused: the agent at {shown_url(agent)}{node} holds no GPU until `ofu-exporter resume`{most}."
    )
    for other in other_agents(file, agent):
        say(f"So does, because of {file}: {other}.")
    if address is not None:
        done = f"Paused: the host engine at {address} holds no profiling counters."
        say(_ask(address, HostEngine.pause, done))


@click.command(short_help="Make the agent take the GPUs again.")
@_flags
def resume(
    given: Path | None, by: str | None, patience: float, agent: str, address: str | None
) -> None:
    """Make the agent take the GPUs again after `pause`."""
    _check(address)
    file, node = _file(agent, given)
    own_file = _of(file, by)
    beside = (each for each in pause_files(file) if is_pause_name(each, file))
    others = [str(each) for each in beside if each != own_file and each.exists()]
    if others and _stays_paused(own_file, agent, patience):
        say(f"{own_file} is gone, and the agent{node} stays paused by {', '.join(others)}.")
        return
    if address is not None:
        done = f"Resumed: the host engine at {address} counts again."
        say(_ask(address, HostEngine.resume, done))
    _end(own_file, agent, patience)
    say(f"Resumed: the agent at {shown_url(agent)}{node} takes the GPUs again.")


def _end(own_file: Path, agent: str, patience: float) -> None:
    with file_errors(own_file):
        own_file.unlink(missing_ok=True)
    _await(agent, "ofu_exporter_paused", patience, own_file, wanted=0.0)


def _stays_paused(own_file: Path, agent: str, patience: float) -> bool:
    """End one of several pauses. The others may no longer count."""
    try:
        _end(own_file, agent, min(patience, OTHERS_SECONDS))
    except OfuError:
        is_paused, _ = _value(agent, "ofu_exporter_paused")
        if is_paused != 1.0:
            raise
        return True
    return False


def _check(address: str | None) -> None:
    """Raises ConfigError for an address that no host engine of its own has."""
    if address is None:
        return
    if address == EMBEDDED:
        raise ConfigError(
            "an embedded host engine is part of the agent: pause the agent without this option"
        )
    try:
        Options(dcgm_address=address)
    except ValidationError as error:
        raise ConfigError(f"--dcgm-address: {address!r} is not HOST:PORT or unix:/PATH") from error


def _file(agent: str, given: Path | None) -> tuple[Path, str]:
    """The file that the agent looks for, and the node that it is on. Raises OfuError for another one that was given.

    An agent that does not answer, or is older than what it is asked, may come to look for the file.
    """
    default: Path = Settings.model_fields["pause_file"].default
    try:
        node = read_node(agent)
    except NoAnswerError:
        return given or default, ""
    watched = Path(node.pause_file) if node.pause_file else given or default
    if given is not None and given.absolute() != watched:
        where = f"the agent at {shown_url(agent)} on {node.node} looks for {watched} and not for {given}"
        raise OfuError(f"{where}: name the --agent that is meant, or leave --pause-file out")
    return watched, f" on {node.node}"


def _of(file: Path, by: str | None) -> Path:
    """The file of whoever pauses. Raises ConfigError."""
    if by is not None and not NAME.fullmatch(by):
        raise ConfigError(f"--by: {by!r} is not a name of letters, digits, - and _")
    return file if by is None else file.with_name(f"{file.name}.{by}")


def _write(file: Path, text: str) -> None:
    """Write the pause file; a new one each time, since its age counts. Raises ConfigError."""
    with file_errors(file):
        if not file.parent.exists():
            file.parent.mkdir(parents=True, exist_ok=True)  # another `pause` may begin as well
            file.parent.chmod(0o755)  # whatever the umask: the agent may be another user
        with whole_file(file) as fresh:
            os.fchmod(fresh.fileno(), 0o644)
            fresh.write(text)


def _await(agent: str, name: str, patience: float, file: Path, wanted: float = 1.0) -> None:
    """Wait until a metric of the agent has a value. Raises OfuError; the pause file stays as it is."""
    deadline = time.monotonic() + patience
    while True:
        value, problem = _value(agent, name)
        if value == wanted:
            return
        if time.monotonic() > deadline:
            break
        time.sleep(ASK_SECONDS)
    if not problem:
        problem = (
            f"the agent at {shown_url(agent)} did not follow within {duration(patience)}: it "
            "does not believe the file (its log says so), or a call of the driver does not return"
        )
    raise OfuError(f"{file} is {'written' if wanted else 'gone'}, but {problem}")


def _value(agent: str, name: str) -> tuple[float | None, str]:
    """The value of a metric without labels, or why it is not known. Raises ConfigError."""
    where = shown_url(agent)
    try:
        page = content(agent, "/metrics", "text/plain", PAGE, AgentAccess(os.environ))
    except NoAnswerError as error:
        return None, f"no agent answers: {where} {error}"
    match = re.search(rf"^{name} (\S+)$".encode(), page, re.MULTILINE)
    return float(match[1]) if match else None, ""


def _ask(address: str, call: Callable[[HostEngine], None], done: str) -> str:
    """Make one call; returns the text to print. Raises SourceError."""
    try:
        with closing(Library()) as library, closing(HostEngine(library, address)) as engine:
            call(engine)
    except DcgmError as error:
        if error.code == NOT_SUPPORTED:
            return SHARED
        raise SourceError(error.reason, f"DCGM at {address}: {error}") from error
    return done
