"""Breaks a part of a node for a test: a log that nobody reads, a disk without room. Both need mounts."""

from __future__ import annotations

import functools
import os
import shlex
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_DEVICES = ("null", "zero", "full", "random", "urandom")


@functools.cache
def why_no_mounts() -> str:
    """Why nothing can be mounted here; "" when it can."""
    if os.geteuid() != 0:
        return "only root mounts"
    tried = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    done = subprocess.run(tried, capture_output=True, check=False)
    return "" if done.returncode == 0 else "mounts are forbidden here"


@contextmanager
def full_log(folder: Path) -> Iterator[Sequence[str]]:
    """What to put before a command, for which /dev/log is full and read by nobody.

    The command gets a /dev of its own, in which the log is the socket of this process.
    """
    path, old = folder / "log", folder / "dev"
    old.mkdir()
    steps = [f"mount --bind /dev {old}", "mount -t tmpfs none /dev"]
    for name in _DEVICES:
        steps += [f"touch /dev/{name}", f"mount --bind {old}/{name} /dev/{name}"]
    steps += [f"ln -s {path} /dev/log", "ln -s /proc/self/fd /dev/fd", 'exec "$@"']
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
        log.bind(str(path))
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as writer:
            writer.setblocking(False)
            writer.connect(str(path))
            with suppress(BlockingIOError):
                while True:
                    writer.send(b"<14>nobody reads this")
            yield ("/usr/bin/unshare", "--mount", "/bin/sh", "-ec", " && ".join(steps), "sh")


@contextmanager
def full_disk(place: Path) -> Iterator[Callable[[], None]]:
    """A small disk of its own in a place, and what fills it up."""
    place.mkdir()
    place.chmod(0o755)
    mounted = shlex.split(f"mount -t tmpfs -o size=64k,mode=0755 none {place}")
    subprocess.run(mounted, check=True)

    def fill() -> None:
        with suppress(OSError), (place / ".filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))

    try:
        yield fill
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
