"""Every row is measured of the code that it is said to be of, and a code that does not run is named."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench import code_costs, scrape
from tests.bench.code_costs import (
    ROWS,
    SITTINGS,
    CannotRunError,
    Code,
    call,
    pages,
    starts,
    there_and_back,
    windows,
)
from tests.bench.last_release import ROOT, lay_out_today

PAGE = Path("ofu_exporter", "serving", "page.py")


@pytest.fixture
def code(tmp_path: Path) -> Code:
    lay_out_today(ROOT, tmp_path / "one")
    return Code("one", tmp_path / "one")


@pytest.fixture
def other(tmp_path: Path) -> Code:
    lay_out_today(ROOT, tmp_path / "other")
    return Code("other", tmp_path / "other")


@pytest.fixture
def mute() -> Iterator[int]:
    """A port that takes a request and closes the connection; its number."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def close() -> None:
            with server.accept()[0] as connection:
                connection.recv(1 << 16)

        thread = threading.Thread(target=close)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def test_codes_take_turns_there_and_back() -> None:
    codes = [Code(name, Path(name)) for name in "abc"]
    assert [*there_and_back(codes, 3)] == [0, 1, 2, 2, 1, 0, 0, 1, 2]


def test_an_answer_that_ends_early_is_an_error_and_no_wait(mute: int) -> None:
    with (
        socket.create_connection(("127.0.0.1", mute)) as connection,
        pytest.raises(ConnectionResetError),
    ):
        scrape.get(connection, b"GET / HTTP/1.1\r\n\r\n")


@pytest.mark.slow
def test_every_row_is_measured_of_each_code(
    code: Code, other: Code, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_costs, "WINDOWS_SECONDS", 0.5)
    monkeypatch.setattr(code_costs, "STARTS", 1)
    monkeypatch.setattr(code_costs, "PAGES", 10)
    monkeypatch.setattr(code_costs, "GETS", 20)
    found = {what: costs for sitting in SITTINGS for what, costs in sitting([code, other]).items()}
    assert tuple(found) == ROWS
    assert all(len(costs) == 2 and min(costs) > 0 for costs in found.values()), found


@pytest.mark.slow
def test_a_page_that_does_ten_times_the_work_costs_more(
    code: Code, other: Code, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_costs, "PAGES", 10)
    path = code.folder / PAGE
    text = path.read_text()
    inside = "        return of_snapshot(replace(snapshot, unix=unix).fresh(now), self.faults)\n"
    assert inside in text
    path.write_text(text.replace(inside, "        sum(range(400_000))\n" + inside))
    heavy, light = pages([code, other])["page"]
    assert heavy > 2 * light


@pytest.mark.slow
@pytest.mark.parametrize("sitting", [starts, windows], ids=["commands", "agents"])
def test_a_code_whose_library_is_missing_is_named(
    sitting: code_costs.Sitting, code: Code, other: Code
) -> None:
    path = other.folder / "ofu_exporter" / "cli" / "__init__.py"
    path.write_text(f"{path.read_text()}\nimport no_such_library\n")
    with pytest.raises(
        CannotRunError, match=r"other: .*No module named 'no_such_library'"
    ) as caught:
        sitting([code, other])
    assert caught.value.code == other


@pytest.mark.slow
def test_a_page_that_is_called_in_another_way_is_named(code: Code) -> None:
    path = code.folder / PAGE
    path.write_text(path.read_text().replace("def render(", "def draw("))
    with pytest.raises(CannotRunError, match=r"one: .*no attribute 'render'"):
        pages([code])


@pytest.mark.slow
def test_what_a_code_lacks_is_not_taken_from_elsewhere(code: Code) -> None:
    (code.folder / PAGE).unlink()
    with pytest.raises(CannotRunError, match=r"No module named 'ofu_exporter.serving.page'"):
        pages([code])


@pytest.mark.slow
def test_a_command_is_that_of_the_folder(code: Code) -> None:
    path = code.folder / "ofu_exporter" / "__init__.py"
    path.write_text(path.read_text().replace("__version__ =", '__version__ = "9.9.9"  #'))
    assert "9.9.9" in call(code, "--version")
