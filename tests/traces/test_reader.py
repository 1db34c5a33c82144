"""Files of a user that a process of its own reads for the agent: what is no trace costs nothing."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = Path(__file__).parent / "example_rank0.json.gz"


def read(*files: Path, uid: int | None = None) -> Any:
    """What the real process prints."""
    user = str(os.getuid() if uid is None else uid)
    command = [sys.executable, "-m", "ofu_exporter.traces.reader", user, *map(str, files)]
    done = subprocess.run(command, capture_output=True, check=True, timeout=600)
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_trace_is_read() -> None:
    copy = read(EXAMPLE, uid=EXAMPLE.stat().st_uid)
    assert copy["unread"] == {}
    assert copy["trace"]["ranks"] == 1
    assert sum(copy["trace"]["parts"].values()) == pytest.approx(1)


@pytest.mark.slow
def test_what_is_no_file_of_the_user_is_not_opened(tmp_path: Path) -> None:
    link, fifo, sparse = (tmp_path / name for name in ("link.json", "fifo.json", "sparse.json"))
    link.symlink_to(EXAMPLE)
    os.mkfifo(fifo)
    with sparse.open("wb") as file:
        file.truncate(4 << 30)
    unread = read(link, fifo, sparse)["unread"]
    assert unread["link.json"] == "Too many levels of symbolic links"
    assert unread["fifo.json"] == "it is no regular file"
    assert "more than a node reads" in unread["sparse.json"]
    own = tmp_path / "own.json"
    own.write_bytes(EXAMPLE.read_bytes())
    assert "belongs to user" in read(own, uid=os.getuid() + 1)["unread"]["own.json"]


@pytest.mark.slow
def test_of_many_files_that_are_no_traces_some_are_named_and_a_trace_among_them_is_read(
    tmp_path: Path,
) -> None:
    files = [tmp_path / f"{number}.json" for number in range(45)]
    for place, each in enumerate(files):
        each.write_text('{"traceEvents": [' + "]}" * (place < 20))
    files[0].write_bytes(EXAMPLE.read_bytes())
    answer = read(*files)
    assert answer["trace"]["ranks"] == 1
    *said, (more, _) = answer["unread"].items()
    assert more == "6 more files, for such reasons"
    assert [name for name, _ in said] == [each.name for each in files[20:39]]
    assert all(why.startswith(f"{name}: ") for name, why in said)


@pytest.mark.slow
def test_a_frame_without_events_is_told_from_a_trace_without_kernels(tmp_path: Path) -> None:
    frame, on_cpus = tmp_path / "frame.json", tmp_path / "cpu.json"
    frame.write_text('{"traceEvents": [{"ph": "M", "name": "process_name", "pid": 1, "ts": 1}]}')
    on_cpus.write_bytes((EXAMPLE.parent / "formats" / "torch_cpu_trace.json").read_bytes())
    assert read(frame) == {"unread": {}, "is_empty": True}
    assert read(on_cpus) == {"unread": {}, "is_empty": False}
    assert read(frame, on_cpus)["is_empty"] is False


@pytest.mark.slow
def test_a_bomb_of_gzip_is_refused_in_a_sentence(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.json"
    with gzip.open(bomb, "wb", compresslevel=1) as file:
        file.write(b'{"traceEvents": [')
        for _ in range(400):
            file.write(b" " * (1 << 20))
    (why,) = read(bomb)["unread"].values()
    assert "bomb.json" in why


@pytest.mark.slow
def test_a_file_that_takes_too_much_memory_costs_the_others_nothing(tmp_path: Path) -> None:
    """One event of 8 MB with a list for every three of them."""
    lists, whole = tmp_path / "lists.json", tmp_path / "whole.json"
    lists.write_text(f'{{"traceEvents": [{{"args": [{",".join(["[]"] * 2_600_000)}]}}]}}')
    whole.write_bytes(EXAMPLE.read_bytes())
    answer = read(lists, whole)
    assert answer["unread"] == {"lists.json": "it takes more memory than there is"}
    assert answer["trace"]["ranks"] == 1
    assert read(lists)["unread"] == {"lists.json": "it takes more memory than a node gives"}
