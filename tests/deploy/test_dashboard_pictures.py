"""The pictures of the dashboards show what the panels ask for, in the units of the panels."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from xml.etree import ElementTree

import pytest

from deploy.grafana.generate import FOLDER as BOARDS
from deploy.grafana.parts import ONLY_FAULTS
from tests.helpers.dashboard_pictures.__main__ import CHOICES, END, SHOWN, pictures
from tests.helpers.dashboard_pictures.answers import Asked, Series, legend
from tests.helpers.dashboard_pictures.axes import Box, Frame
from tests.helpers.dashboard_pictures.board import Board, NoDataError
from tests.helpers.dashboard_pictures.cells import stretches
from tests.helpers.dashboard_pictures.curves import path, runs, stacked
from tests.helpers.dashboard_pictures.tables import merged
from tests.helpers.dashboard_pictures.units import shown
from tests.helpers.screenshots import FOLDER
from tests.helpers.stored_fleet import stored

NAMES = sorted(path.stem for path in BOARDS.glob("*.json"))
MOST_BYTES = 60_000
GPUS = 8
LOADED = [pytest.mark.prometheus, pytest.mark.slow, pytest.mark.xdist_group("pictures")]


def board(name: str) -> dict[str, object]:
    text = (BOARDS / f"{name}.json").read_text()
    found: dict[str, object] = json.loads(text)
    return found


def titles(name: str) -> Iterator[str]:
    """Those of all panels; one that is repeated is there for each GPU of the node that is shown."""
    for panel in json.loads((BOARDS / f"{name}.json").read_text())["panels"]:
        for gpu in range(GPUS if "repeat" in panel else 1):
            yield panel["title"].replace("$gpu", str(gpu))


@pytest.mark.parametrize("name", NAMES)
def test_the_docs_have_a_picture_with_every_panel_that_says_that_it_is_simulated(name: str) -> None:
    picture = FOLDER / f"dashboard-{name}.svg"
    assert picture.stat().st_size < MOST_BYTES
    elements = list(ElementTree.fromstring(picture.read_text()).iter())
    assert any("SIMULATED" in (one.text or "") for one in elements)
    shown = [one.text or "" for one in elements if one.get("class") == "t"]
    pairs = zip_longest(shown, titles(name), fillvalue="")
    expected = [
        f"{title[: len(cut) - 1]}\u2026" if cut.endswith("\u2026") else title
        for cut, title in pairs
    ]
    assert shown == expected, "python -m tests.helpers.dashboard_pictures draws them again"
    assert f"(pictures/{picture.name})" in (FOLDER.parent / "dashboards.md").read_text()


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.4321, "percentunit", "43.2%"),
        (0.0, "percentunit", "0%"),
        (-0.0077, "percentunit", "-0.770%"),
        (1.0, "percentunit", "100%"),
        (1_830_000_000.0, "hertz", "1.83 GHz"),
        (1234.0, "short", "1.23 K"),
        (8.0, "short", "8"),
        (0.002, "s", "2 ms"),
        (0.0, "s", "0 s"),
        (90.0, "s", "1.50 mins"),
        (0.0667, "cps", "0.0667 c/s"),
        (337.5, "suffix:GPU-h", "338 GPU-h"),
    ],
)
def test_a_value_is_written_as_grafana_writes_it(value: float, unit: str, text: str) -> None:
    assert shown(value, unit) == text


def test_a_unit_that_is_not_known_is_no_number_without_one() -> None:
    with pytest.raises(KeyError):
        shown(1.0, "furlong")


def test_a_label_that_is_not_there_is_empty_in_a_legend() -> None:
    assert legend("GPU {{gpu}} {{gpu_instance}}", {"gpu": "3"}) == "GPU 3"


def test_a_gap_stays_a_gap() -> None:
    frame = Frame(Box(0, 0, 100, 50), 0, 1)
    assert len(runs(frame, [0.1, None, 0.2, 0.3])) == 2
    assert list(stretches([1.0, 1.0, None, 1.0])) == [(1.0, 0, 2), (1.0, 3, 4)]


def test_a_line_goes_through_its_values() -> None:
    frame = Frame(Box(10, 20, 100, 50), 0, 1)
    (run,) = runs(frame, [0.0, 1.0, 0.5])
    assert run == [(10, 70), (60, 20), (110, 45)]
    assert path(run) == "M10 70l50-50 50 25"


def test_areas_add_up_and_hang_below_zero_where_they_are_negative() -> None:
    found = [Series("a", (1.0, -1.0)), Series("b", (2.0, -2.0)), Series("c", (None, 4.0))]
    assert [top for _, top in stacked(found)] == [[1.0, -1.0], [3.0, -3.0], [None, 4.0]]


def test_a_table_has_one_row_for_the_same_labels_of_several_queries() -> None:
    organize = {
        "renameByName": {"Value #A": "GPUs", "Value #B": "OFU"},
        "excludeByName": {"x": True},
    }
    panel = {
        "transformations": [{"id": "merge", "options": {}}, {"id": "organize", "options": organize}]
    }
    first = [({"job": "1", "x": "y"}, 8.0), ({"job": "2", "x": "y"}, 4.0)]
    second = [({"__name__": "n", "job": "1", "x": "y"}, 0.5)]
    assert merged(panel, [first, second]) == [
        {"job": "1", "GPUs": 8.0, "OFU": 0.5},
        {"job": "2", "GPUs": 4.0},
    ]


@pytest.fixture(scope="module")
def drawn() -> Iterator[dict[str, Board]]:
    with pictures(interval=120) as boards:  # as seldom as rates of five minutes allow
        yield boards


class TestOverPrometheus:
    pytestmark = LOADED

    def test_every_dashboard_is_drawn_and_no_panel_is_empty_that_should_not_be(
        self, drawn: dict[str, Board]
    ) -> None:
        assert sorted(drawn) == NAMES
        for name, one in drawn.items():
            text = one.svg()
            empty = text.count(">No data<")
            faults = [panel for panel in one.panels if ONLY_FAULTS in panel.get("description", "")]
            assert empty <= len(faults), name
            assert len(text) < MOST_BYTES, name

    def test_a_panel_shows_the_truth_of_the_fleet(self, drawn: dict[str, Board]) -> None:
        """The job counts all of attention: 1.346 times what its GPUs do, less what tiles add."""
        rows = drawn["reports"]
        (table,) = (one for one in rows.panels if one["title"] == "Jobs by difference")
        (found,) = [row for row in merged(table, rows.asked.rows(table)) if row["job_id"] == "1001"]
        assert float(found["MFU"]) / float(found["OFU"]) == pytest.approx(1.346 * 0.97, rel=0.03)

    def test_a_panel_without_data_ends_the_drawing(self, tmp_path: Path) -> None:
        (tmp_path / "data").mkdir()
        with stored(tmp_path) as prometheus:
            for name, choices in CHOICES.items():
                empty = Board(board(name), Asked(prometheus.url, END, SHOWN, choices))
                with pytest.raises(NoDataError, match="has nothing to show"):
                    empty.svg()

    def test_a_panel_of_faults_says_that_there_is_no_data(self, tmp_path: Path) -> None:
        (tmp_path / "data").mkdir()
        with stored(tmp_path) as prometheus:
            only = board("fleet")
            panels = only["panels"]
            assert isinstance(panels, list)
            only["panels"] = panels[-1:]
            asked = Asked(prometheus.url, END, SHOWN, {})
            assert ">No data<" in Board(only, asked).svg()
