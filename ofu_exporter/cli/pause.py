"""`pause` and `resume`: release the counters of GPUs before Hopper while another profiler needs them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TypeVar

import click
from pydantic import ValidationError

from ofu_exporter.errors import ConfigError, SourceError
from ofu_exporter.sources.dcgm.driver import Options
from ofu_exporter.sources.dcgm.host_engine import EMBEDDED, HostEngine
from ofu_exporter.sources.dcgm.library import NOT_SUPPORTED, DcgmError, Library

CommandT = TypeVar("CommandT", bound=Callable[..., object])

SHARED = (
    "Nothing to do: GPUs since Hopper count for a profiler and for this agent at once, "
    "and this host engine has no other."
)


def _address_flag(command: CommandT) -> CommandT:
    field = Options.model_fields["dcgm_address"]
    return click.option(
        "--dcgm-address",
        "address",
        envvar="OFU_DCGM_ADDRESS",
        default=field.default,
        show_default=True,
        metavar="ADDRESS",
        help="Host engine of this node: HOST:PORT or unix:/PATH.",
    )(command)


@click.command()
@_address_flag
def pause(address: str) -> None:
    """Have the DCGM host engine let go of the profiling counters, for Nsight and the like.

    Only GPUs before Hopper need it, and only where DCGM profiles them. It concerns everybody who reads
    that host engine; until `resume` their activity is blank. With the source nvml nothing is held that
    would have to be let go.
    """
    done = f"Paused: the host engine at {address} holds no profiling counters."
    click.echo(_ask(address, HostEngine.pause, done))


@click.command()
@_address_flag
def resume(address: str) -> None:
    """Have the DCGM host engine take the profiling counters again after `pause`."""
    done = f"Resumed: the host engine at {address} counts again."
    click.echo(_ask(address, HostEngine.resume, done))


def _ask(address: str, call: Callable[[HostEngine], None], done: str) -> str:
    """Make one call; returns the text to print. Raises ConfigError and SourceError."""
    if address == EMBEDDED:
        raise ConfigError("an embedded host engine is part of the agent: stop the agent instead")
    try:
        Options(dcgm_address=address)
    except ValidationError as error:
        raise ConfigError(f"--dcgm-address: {address!r} is not HOST:PORT or unix:/PATH") from error
    try:
        with closing(Library()) as library, closing(HostEngine(library, address)) as engine:
            call(engine)
    except DcgmError as error:
        if error.code == NOT_SUPPORTED:
            return SHARED
        raise SourceError(error.reason, f"DCGM at {address}: {error}") from error
    return done
