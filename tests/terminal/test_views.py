"""Views: what is filtered and sorted, and the line above that says what a reader must know first."""

from __future__ import annotations

import itertools
import re
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ofu_exporter.serving.node_json import NodeJson, SourceJson
from ofu_exporter.terminal.cells import STYLES, line_width, width_of
from ofu_exporter.terminal.scene import Scene, SceneAnswer
from ofu_exporter.terminal.table import lay_out
from ofu_exporter.terminal.views import (
    SORTS,
    VIEWS,
    Choice,
    for_encoding,
    headline,
    page,
    problem_rows,
    sections,
)
from tests.helpers.every import every
from tests.helpers.scenes import many_nodes, one_node, shown_node
from tests.helpers.schema_values import valid

pytestmark = pytest.mark.xdist_group("shown node")


def subjects(choice: Choice, scene: Scene | None = None, section: int = 0) -> list[str]:
    return [row.subject for row in sections(scene or one_node(), choice)[section].rows]


def head(scene: Scene, width: int = 200) -> str:
    return "".join(segment.text for segment in headline(scene, width)).strip()


def test_the_gpus_have_their_jobs_below() -> None:
    titles = [section.title for section in sections(one_node(), Choice())]
    assert titles == ["GPUs", "Jobs"]
    assert len(subjects(Choice())) == 8


def test_a_filter_finds_users_jobs_and_nodes_in_either_case() -> None:
    assert len(subjects(Choice(words="GRACE"))) == 2
    assert len(subjects(Choice(words="48213"))) == 4
    assert len(subjects(Choice(words="node-18"), many_nodes())) == 8
    assert subjects(Choice(words="nobody")) == []


@every(product(VIEWS, SORTS))
def test_whatever_is_sorted_by_keeps_every_row(view: str, letter: str) -> None:
    scene = many_nodes("node-99")
    rows = sorted(subjects(Choice(view), scene))
    for choice in (Choice(view).sorted_by(letter), Choice(view, "", letter, False)):
        assert sorted(subjects(choice, scene)) == rows


def test_numbers_come_highest_first_and_what_is_not_known_last() -> None:
    found = [row.cells["ofu"].order for row in sections(one_node(), Choice(sort="o"))[0].rows]
    known = [value for value in found if isinstance(value, float)]
    assert known == sorted(known, reverse=True)
    assert found[-1] is None
    upward = [
        row.cells["ofu"].order
        for row in sections(one_node(), Choice(sort="o", downward=False))[0].rows
    ]
    assert upward == [*reversed(known), None]


@pytest.mark.parametrize("view", VIEWS)
def test_each_cell_is_drawn_in_a_style_and_sorted_with_its_column(view: str) -> None:
    for section in sections(many_nodes("node-99"), Choice(view)):
        for column in section.columns:
            cells = [row.cells[column.key] for row in section.rows if column.key in row.cells]
            drawn = [segment for cell in cells for segment in cell.draw(20, False)]
            assert {segment.style for segment in drawn} <= {"", *STYLES}
            orders = {isinstance(cell.order, str) for cell in cells if cell.order is not None}
            assert len(orders) <= 1


def test_names_come_in_the_order_of_letters() -> None:
    found = [row.cells["user"].order for row in sections(one_node(), Choice(sort="u"))[0].rows]
    known = [value for value in found if isinstance(value, str)]
    assert all(one <= two for one, two in itertools.pairwise(known))


def test_the_same_letter_again_turns_the_order_round() -> None:
    once = Choice().sorted_by("o")
    assert (once.sort, once.downward) == ("o", True)
    assert once.sorted_by("o").downward is False
    assert once.sorted_by("o").sorted_by("c").downward is True


def test_the_line_above_says_who_how_well_and_how_fresh() -> None:
    said = head(one_node())
    assert said.startswith("node-17  OFU 32.1%")
    assert "7 of 8 GPUs" in said
    assert "1 job disagrees" in said
    assert said.endswith("nvml, its agent, 1 s ago")


def test_partial_coverage_is_said() -> None:
    said = head(many_nodes("node-98", "node-99"))
    assert "5 nodes" in said
    assert "partial coverage: 3 of 5 nodes answer, not node-98, node-99" in said
    assert "partial" not in head(many_nodes())


@pytest.mark.parametrize(("source", "mark"), [("simulate", "SIMULATED"), ("replay", "RECORDED")])
def test_made_up_data_and_a_replayed_recording_are_marked(source: str, mark: str) -> None:
    made_up = source == "simulate"
    read = SourceJson(source=source, up=True, simulated=made_up, reason=None, detail="", advice="")
    node = shown_node().model_copy(update={"sources": [read]})
    scene = Scene((SceneAnswer("n", node),), "its agent")
    assert head(scene).startswith(f"n  {mark}  OFU"), "at any width"
    assert mark not in head(Scene((SceneAnswer("n", shown_node()),), "its agent"))


def test_no_answer_is_said() -> None:
    assert "no answer yet" in head(Scene((SceneAnswer("n", None),), ""))
    assert "does not answer" in head(Scene((SceneAnswer("n", None, "does not answer"),), ""))
    assert "OFU not measured" in head(Scene((), ""))


@given(st.integers(1, 300))
def test_the_line_above_has_the_width_of_the_screen(width: int) -> None:
    for scene in (one_node(), many_nodes("x"), Scene((), "")):
        assert line_width(headline(scene, width)) == width


SCHEMA = NodeJson.model_json_schema()


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_whatever_an_agent_says_can_be_shown(data: st.DataObject) -> None:
    """All that its schema allows, and that `ask` lets through: no peer may end the screen of the others."""
    body = data.draw(valid(SCHEMA, SCHEMA))
    try:
        node = NodeJson.model_validate(body)
    except ValueError:
        return
    scene = Scene((SceneAnswer("n", node, age=1.0), SceneAnswer("m", shown_node())), "their agents")
    for view in VIEWS:
        for letter in ("", "o", "j"):
            for laid in lay_out(sections(scene, Choice(view, "", letter)), 80):
                line = laid.draw()
                assert line_width(line) == 80
                assert all(segment.text.isprintable() for segment in line)
                assert laid.row is None or laid.row.details() is not None
    assert line_width(headline(scene, 120)) == 120


def test_a_node_without_a_gpu_says_why() -> None:
    source = SourceJson(
        source="nvml", up=False, simulated=False, reason="no_driver", detail="", advice="Load it."
    )
    node = shown_node().model_copy(update={"gpus": [], "jobs": [], "sources": [source]})
    (section,) = sections(Scene((SceneAnswer("n", node),), ""), Choice())
    assert section.empty == "source nvml: no driver. Load it."


SEQUENCE = re.compile(r"\x1b\[[0-9;]*m")


@every(product(VIEWS, [60, 100, 250]))
def test_plain_text_has_no_sequences_and_fits(view: str, width: int) -> None:
    text = page(many_nodes("node-99"), Choice(view), width)
    assert "\x1b" not in text
    assert all(width_of(line) <= width for line in text.splitlines())


def test_colours_change_nothing_but_looks() -> None:
    plain = page(one_node(), Choice(), 120)
    coloured = page(one_node(), Choice(), 120, is_coloured=True)
    assert SEQUENCE.search(coloured)
    without = [line.rstrip() for line in SEQUENCE.sub("", coloured).splitlines()]
    assert without == plain.splitlines()


def test_text_of_another_encoding_is_ascii() -> None:
    text = page(one_node(), Choice(), 100)
    assert for_encoding(text, "utf-8") == text
    for encoding in ("ascii", "latin-1", "no-such-encoding"):
        made = for_encoding(text, encoding)
        assert made.isascii()
        assert "#" in made
        assert "?" not in made


def problems(scene: Scene) -> list[str]:
    """Every problem as one text."""
    return [" | ".join(value for _, value in row.details()) for row in problem_rows(scene)]


def altered(age: float = 1.0, **fields: Any) -> Scene:
    """A node without faults, but for these fields."""
    sound = {"gpus": shown_node().gpus[:2], "jobs": []}
    return Scene((SceneAnswer("n", shown_node().model_copy(update=sound | fields), age=age),), "")


def test_a_sound_node_has_no_problem() -> None:
    assert problems(altered()) == []


def test_the_faults_of_the_shown_node_are_named_worst_first() -> None:
    lost, apart, warm, idle = problems(one_node())
    assert lost.startswith("node-17 GPU 7 | not measured: lost")
    assert "look for Xid messages" in lost
    assert apart.startswith("job 48230 on node-17 | MFU ")
    assert "Likeliest: " in apart
    assert warm == (
        "node-17 GPU 3 | its clock is held down: too warm | "
        "The GPU or its memory is too warm: check the cooling of the node."
    )
    assert idle.startswith("node-17 GPU 6 | held by job 48144 of alan without tensor work for")


def test_a_node_that_does_not_answer_is_a_problem() -> None:
    assert any(
        each.startswith("x | does not answer: timed out") for each in problems(many_nodes("x"))
    )


def test_an_agent_that_answers_and_does_not_sample_is_a_problem() -> None:
    assert problems(altered(age=59.0)) == []
    assert "its newest sample is 61 s old" in problems(altered(age=61.0))[0]


def test_a_pause_and_a_source_that_cannot_be_read_are_problems() -> None:
    assert "the agent is paused" in problems(altered(paused=True))[0]
    source = SourceJson(
        source="nvml", up=False, simulated=False, reason="no_driver", detail="d", advice="Load it."
    )
    assert problems(altered(sources=[source])) == ["n | source nvml: no driver (d) | Load it."]


def test_a_job_that_holds_a_gpu_for_a_few_minutes_without_work_is_no_problem() -> None:
    idle = shown_node().gpus[6].model_copy(update={"idle_seconds": 599.0})
    notebook = [job for job in shown_node().jobs if job.gpus == ("6",)]
    assert problems(altered(gpus=[idle], jobs=notebook)) == []
    longer = idle.model_copy(update={"idle_seconds": 600.0})
    assert len(problems(altered(gpus=[longer], jobs=notebook))) == 1


@pytest.mark.parametrize(
    ("user", "namespace", "seconds", "words"),
    [
        ("alan", "lab", 3569.0, "48144 of alan without tensor work for 59 min"),
        ("", "lab", 3570.0, "48144 of lab without tensor work for 1 h+"),
        ("", "", 3600.0, "48144 without tensor work for 1 h+"),
    ],
)
def test_who_holds_a_gpu_without_work_and_for_how_long_as_far_as_that_is_known(
    user: str, namespace: str, seconds: float, words: str
) -> None:
    idle = shown_node().gpus[6].model_copy(update={"idle_seconds": seconds})
    names = {"user": user, "namespace": namespace}
    jobs = [each.model_copy(update=names) for each in shown_node().jobs if each.gpus == ("6",)]
    (said,) = problems(altered(gpus=[idle], jobs=jobs))
    assert f"held by job {words} |" in said
