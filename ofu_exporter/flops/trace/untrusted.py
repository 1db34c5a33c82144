"""Bounds what a configuration may make its library do: it is anybody's text, and may name a repository to load."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.fields import MOST_LAYERS, REPEATED

DEEPEST = 16


def check_layers(config: Mapping[str, Any], depth: int = 0) -> None:
    """Raise ConfigError for a number of layers that would take minutes to build, here or in an inner configuration."""
    for name, value in config.items():
        if isinstance(value, Mapping) and depth < DEEPEST:
            check_layers(value, depth + 1)
        elif (
            type(value) is int
            and value > MOST_LAYERS
            and "size" not in name
            and REPEATED.search(name)
        ):
            raise ConfigError(f"executed: {name} {value} is above {MOST_LAYERS}")


@contextmanager
def without_network(whole: type[socket.socket] = socket.socket) -> Iterator[None]:
    """Let this thread connect to nothing meanwhile. A library that tries fails as on a node without a network."""
    thread, resolve = threading.get_ident(), socket.getaddrinfo

    def refusing(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **more: Any) -> Any:
            if threading.get_ident() == thread:
                raise OSError(errno.ENETUNREACH, "a configuration may not reach the network")
            return call(*args, **more)

        return called

    names = ("connect", "connect_ex")
    for name in names:
        setattr(whole, name, refusing(getattr(whole, name)))
    socket.getaddrinfo = refusing(resolve)
    try:
        yield
    finally:
        socket.getaddrinfo = resolve
        for name in names:
            delattr(whole, name)  # that of the class below
