"""The messages of PyTorch's daemon, written out by hand as kineto's FabricManager.h has them."""

from __future__ import annotations

import struct

import pytest

from ofu_exporter.traces import daemon_messages as messages
from ofu_exporter.traces.daemon_messages import DaemonQuestion, Registration
from tests.helpers.every import every


def message(kind: bytes, payload: bytes, size: int | None = None) -> bytes:
    length = len(payload) if size is None else size
    return struct.pack("=Q", length) + kind.ljust(32, b"\0") + payload


def question(job: int, *pids: int, kind: int = 3) -> bytes:
    return message(b"req", struct.pack(f"=iiq{len(pids)}i", kind, len(pids), job, *pids))


def registration(gpu: int, pid: int, job: int) -> bytes:
    return message(b"ctxt", struct.pack("=iiq", gpu, pid, job))


def test_a_registration_says_gpu_process_and_job() -> None:
    sent = registration(7, 4711, 1001)
    assert messages.parsed(sent) == Registration(7, 4711, 1001)


def test_a_question_says_the_processes_and_the_job() -> None:
    assert messages.parsed(question(1001, 12, 11, 1)) == DaemonQuestion(3, 1001, (12, 11, 1))


def test_a_question_names_64_processes_at_most() -> None:
    assert messages.parsed(question(1001, *range(64))) == DaemonQuestion(3, 1001, (*range(64),))
    with pytest.raises(ValueError, match="it says 65 processes"):
        messages.parsed(question(1001, *range(65)))


@every(
    [
        b"",
        b"x" * 39,
        b"x" * 5000,
        message(b"req", b""),
        message(b"ctxt", b"123"),
        message(b"other", bytes(16)),
        message(b"\xff" * 32, bytes(16)),
        message(b"req", struct.pack("=iiq", 3, 0, 1)),
        message(b"req", struct.pack("=iiq", 3, -1, 1)),
        message(b"req", struct.pack("=iiqi", 3, 1 << 30, 1, 5)),
        message(b"req", struct.pack("=iiqi", 3, 1, 1, 5), size=1 << 63),
    ]
)
def test_anything_else_is_refused(sent: bytes) -> None:
    with pytest.raises(ValueError, match="it"):
        messages.parsed(sent)


def test_an_answer_carries_its_text() -> None:
    assert messages.answer("A=1") == message(b"req", b"A=1")
    assert messages.answer("") == message(b"req", b"")
    assert messages.registered(3) == message(b"ctxt", struct.pack("=i", 3))
    assert "ACTIVITIES_DURATION_MSECS=800" in messages.configuration("/t/a.json", 800).split("\n")
