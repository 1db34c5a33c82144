"""A password comes from a file of one's own, or not at all."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.reports.agent_access import AgentAccess

THREADS = 16


def written(path: Path, text: str) -> Path:
    path.touch(0o600)
    path.write_text(text)
    return path


def environ(user: str, file: Path | str) -> dict[str, str]:
    return {"OFU_EXPORTER_USER": user, "OFU_EXPORTER_PASSWORD_FILE": str(file)}


def test_without_a_user_nothing_is_shown() -> None:
    assert AgentAccess({}).basic() is None
    assert AgentAccess(environ("", "")).basic() is None


def test_the_end_of_the_line_is_no_part_of_the_password(tmp_path: Path) -> None:
    file = written(tmp_path / "password", " a b \r\n")
    assert AgentAccess(environ("ada", file)).basic() == ("ada", " a b ")


@pytest.mark.parametrize(
    ("user", "text", "problem"),
    [("", "x", "need each other"), ("ada", None, "need each other"), ("ada", "\n", "is empty")],
)
def test_half_of_it_is_refused(tmp_path: Path, user: str, text: str | None, problem: str) -> None:
    file = "" if text is None else written(tmp_path / "password", text)
    with pytest.raises(ConfigError, match=problem):
        AgentAccess(environ(user, file))


def test_many_threads_may_want_the_file_at_once(tmp_path: Path) -> None:
    known = environ("ada", written(tmp_path / "password", "x"))
    together = threading.Barrier(THREADS)

    def read(_: int) -> object:
        together.wait()
        return [AgentAccess(known).basic() for _ in range(20)]

    with ThreadPoolExecutor(THREADS) as pool:
        assert [*pool.map(read, range(THREADS))] == [[("ada", "x")] * 20] * THREADS


def test_files_that_are_no_certificates_are_named(tmp_path: Path) -> None:
    file = written(tmp_path / "ca.pem", "no certificate")
    with pytest.raises(ConfigError, match=f"OFU_EXPORTER_CA_FILE={file}: "):
        AgentAccess({"OFU_EXPORTER_CA_FILE": str(file)}).trust()
