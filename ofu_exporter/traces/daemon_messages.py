"""The messages between PyTorch's profiler and the daemon of its node: bytes in, values out. Pure.

A process whose environment has KINETO_USE_DAEMON=1 asks the daemon for work (kineto,
libkineto/src/IpcFabricConfigClient.cpp and dynolog/src/ipcfabric/FabricManager.h). Each message is one datagram: 8
bytes size of the payload and 32 bytes type, in the byte order of the machine, then the payload.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_HEAD = struct.Struct("=Q32s")
_REGISTRATION = struct.Struct("=iiq")
_QUESTION = struct.Struct("=iiq")
_COUNT = struct.Struct("=i")
REGISTER, ASK = "ctxt", "req"
MOST_BYTES = 4096
"""Of a message; a question of a process with forty parents has 216."""
MOST_PARENTS = 64
ACTIVITIES = 2
"""Bit of a question's kind: the process would record activities."""


class Registration(NamedTuple):
    """A process says that it uses a GPU."""

    gpu: int
    """As CUDA numbers it in the process."""
    pid: int
    job: int
    """SLURM_JOB_ID; 0 without Slurm."""


class DaemonQuestion(NamedTuple):
    """A process asks whether there is anything to record."""

    kind: int
    job: int
    pids: tuple[int, ...]
    """Its own, and then those of its parents, as it sees them."""


def parsed(message: bytes) -> Registration | DaemonQuestion:
    """Raises ValueError for what is neither."""
    if not _HEAD.size <= len(message) <= MOST_BYTES:
        raise ValueError(f"it has {len(message)} bytes")
    size, kind = _HEAD.unpack_from(message)
    payload, name = message[_HEAD.size :], kind.rstrip(b"\0").decode("ascii", "replace")
    if size != len(payload):
        raise ValueError(f"it says {size} bytes of payload and has {len(payload)}")
    if name == REGISTER and len(payload) == _REGISTRATION.size:
        return Registration(*_REGISTRATION.unpack(payload))
    if name == ASK and len(payload) >= _QUESTION.size:
        return _question(payload)
    raise ValueError(f"its type is {name[:16]!r}")


def _question(payload: bytes) -> DaemonQuestion:
    kind, count, job = _QUESTION.unpack_from(payload)
    pids = payload[_QUESTION.size :]
    if not 0 < count <= MOST_PARENTS or len(pids) != 4 * count:
        raise ValueError(f"it says {count} processes and has {len(pids)} bytes of them")
    return DaemonQuestion(kind, job, struct.unpack(f"={count}i", pids))


def registered(count: int) -> bytes:
    """The answer to a registration: how many processes of the job have registered."""
    return _message(REGISTER, _COUNT.pack(count))


def answer(configuration: str) -> bytes:
    """The answer to a question; an empty configuration is nothing to do."""
    return _message(ASK, configuration.encode())


def configuration(file: str, milliseconds: int) -> str:
    """What a process is to record: operators with shapes, kernels and annotations, from now on, into a file beside
    whose name it puts its process id."""
    return "\n".join(
        (
            f"ACTIVITIES_LOG_FILE={file}",
            "PROFILE_START_TIME=0",
            f"ACTIVITIES_DURATION_MSECS={milliseconds}",
            "PROFILE_REPORT_INPUT_SHAPES=true",
            "PROFILE_WITH_STACK=false",
        )
    )


def _message(kind: str, payload: bytes) -> bytes:
    return _HEAD.pack(len(payload), kind.encode()) + payload
