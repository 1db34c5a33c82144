"""The screen, driven by its keys: each does what the help says, at every width, and none ends a process."""

from __future__ import annotations

import ast
import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual import events
from textual.binding import Binding
from textual.pilot import Pilot

import ofu_exporter.terminal
from ofu_exporter.terminal.app import TableView, Top
from ofu_exporter.terminal.cells import width_of
from ofu_exporter.terminal.scene import Feed, Scene, SceneAnswer
from ofu_exporter.terminal.views import VIEWS, Choice
from tests.helpers.captures import captures, svg
from tests.helpers.scenes import StillFeed, many_nodes, one_node, shown_node
from tests.helpers.screenshots import FOLDER

pytestmark = pytest.mark.slow

Act = Callable[["Screen"], Awaitable[None]]


class Screen:
    """The screen as somebody sees it, and the keys."""

    def __init__(self, top: Top, pilot: Pilot[None]) -> None:
        self.top, self.pilot = top, pilot

    async def press(self, *keys: str) -> str:
        """What is there after these keys."""
        await self.pilot.press(*keys)
        await self.pilot.pause()
        return self.text

    async def waits_for(self, words: str) -> None:
        """What a key does may take some turns of the loop."""
        for _ in range(200):
            if words in self.text:
                return
            await self.pilot.pause(0.05)
        raise AssertionError(f"{words!r} is not there:\n{self.text}")

    async def sort_by(self, name: str) -> None:
        """Choose in textual's list of commands."""
        await self.press("o")
        await self.waits_for("Sort by")
        await self.press(*name)
        await self.waits_for("OFU")
        await self.press("down", "enter")
        for _ in range(200):
            if len(self.top.screen_stack) == 1:
                break
            await self.pilot.pause(0.05)
        await self.pilot.pause()

    @property
    def lines(self) -> list[str]:
        strips = self.top.screen._compositor.render_strips()
        return [strip.text.rstrip() for strip in strips]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def drive(
    act: Act,
    feed: Feed | None = None,
    size: tuple[int, int] = (120, 30),
    folder: Path | None = None,
) -> None:
    """Run the screen, and act on it."""

    async def run() -> None:
        top = Top(feed or StillFeed(one_node()), Choice(), folder)
        async with top.run_test(size=size, notifications=True) as pilot:
            screen = Screen(top, pilot)
            await screen.waits_for("? help")
            await act(screen)

    asyncio.run(run())


def test_the_first_view_has_gpus_and_jobs() -> None:
    async def act(screen: Screen) -> None:
        assert screen.lines[0].startswith("node-17  OFU 32.1%")
        assert "VERDICT" in screen.text
        assert "lost" in screen.text
        assert "? help" in screen.lines[-1]

    drive(act)


def test_each_view_has_its_key() -> None:
    async def act(screen: Screen) -> None:
        assert "LIKELIEST CAUSE" in await screen.press("j")
        assert "GPU-hours" in await screen.press("u")
        assert "no tensor work for" in await screen.press("i")
        assert "WHAT TO DO" in await screen.press("A")
        assert "measured" in await screen.press("c")
        assert "last hour" in await screen.press("c"), "compact again goes back"
        assert "VERDICT" in await screen.press("g")

    drive(act)


def test_a_filter_is_typed_and_cleared() -> None:
    async def act(screen: Screen) -> None:
        text = await screen.press("slash", *"grace", "enter")
        assert "moe-pretrain" in text
        assert "llama" not in text
        assert "only with 'grace'" in screen.lines[-2]
        assert "what is wrong; only" in await screen.press("A"), "keys are keys again"
        await screen.press("g")
        assert "llama" in await screen.press("escape")

    drive(act)


def test_a_key_that_is_typed_right_after_the_words_is_no_word() -> None:
    async def act(screen: Screen) -> None:
        await screen.press("slash", *"grace")
        for key, character in (("enter", "\r"), ("question_mark", "?")):
            screen.top.post_message(events.Key(key, character))
        await screen.waits_for("The bar is the peak")
        assert "only with 'grace'" in screen.text

    drive(act)


def test_a_screen_that_gets_another_size_as_it_ends_breaks_nothing() -> None:
    async def act(screen: Screen) -> None:
        await screen.top.query_one(TableView).remove()
        screen.top.post_message(TableView.Resized())
        await screen.pilot.pause()

    drive(act)


def test_rows_are_sorted_by_what_is_chosen_and_back() -> None:
    async def act(screen: Screen) -> None:
        await screen.sort_by("ofu")
        assert screen.lines[2].split()[0] == "4"
        assert "by OFU" in screen.text
        await screen.sort_by("ofu")
        assert screen.lines[2].split()[0] == "6"

    drive(act)


def test_details_of_the_chosen_row_open_and_close() -> None:
    async def act(screen: Screen) -> None:
        text = await screen.press("down", "enter")
        assert "GPU-0001" in text
        assert "tensor pipes active" in text
        assert "GPU-0001" not in await screen.press("escape")
        text = await screen.press("end", "enter")
        assert "moe-pretrain" in text
        assert "mfu above ofu" in text

    drive(act)


def test_the_chosen_row_stays_chosen_when_others_move() -> None:
    async def act(screen: Screen) -> None:
        await screen.press("down", "down")
        await screen.sort_by("ofu")
        assert "GPU-0002" in await screen.press("enter")

    drive(act)


def test_the_page_has_the_key_of_every_view_and_none_that_does_nothing() -> None:
    page = (FOLDER.parent / "terminal.md").read_text()
    table = page.partition("| key | what it shows or does |")[2].partition("\n\n")[0]
    keys = {*re.findall(r"`(.)`", "".join(re.findall(r"^\|[^|]*\|", table, re.MULTILINE)))}
    signs = {"slash": "/", "question_mark": "?"}
    bound = {signs.get(each.key, each.key) for each in Top.BINDINGS if isinstance(each, Binding)}
    assert {view.key for view in VIEWS.values()} <= keys <= bound


def test_the_help_names_every_key() -> None:
    async def act(screen: Screen) -> None:
        await screen.press("question_mark")
        for words in ("what is wrong", "sort", "write to a file", "standard"):
            await screen.waits_for(words)

    drive(act, size=(120, 70))


@pytest.mark.parametrize("width", [60, 80, 250])
def test_nothing_is_wider_than_the_screen(width: int) -> None:
    async def act(screen: Screen) -> None:
        for key in "gjuiAc":
            await screen.press(key)
            assert all(width_of(line) <= width for line in screen.lines)
        assert "? help" in screen.lines[-1]
        await screen.press("g", "enter")
        await screen.waits_for("GPU-0000")

    drive(act, StillFeed(many_nodes("node-99")), (width, 24))


def test_the_screen_follows_its_size() -> None:
    async def act(screen: Screen) -> None:
        before = screen.lines[1]
        await screen.pilot.resize_terminal(200, 20)
        await screen.pilot.pause()
        assert len(screen.lines[1]) > len(before)

    drive(act, size=(80, 20))


def test_every_theme_is_drawn() -> None:
    async def act(screen: Screen) -> None:
        plain = screen.text
        for theme in screen.top.available_themes:
            screen.top.theme = theme
            await screen.waits_for(plain)

    drive(act)


def test_what_is_shown_is_written_to_a_new_file(tmp_path: Path) -> None:
    async def act(screen: Screen) -> None:
        await screen.press("e")
        (file,) = tmp_path.iterdir()
        data = json.loads(file.read_text())
        assert data["unanswered"] == {"node-99": "does not answer: timed out"}
        assert data["partial_coverage"] is True
        assert len(data["nodes"]["node-17"]["gpus"]) == 8

    drive(act, StillFeed(many_nodes("node-99")), folder=tmp_path)


@pytest.mark.parametrize("is_there", [True, False])
def test_the_file_is_named_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """A name in brackets is no markup; a folder that cannot be written is named with why."""
    monkeypatch.chdir(tmp_path)
    if is_there:
        Path("[b]").mkdir()

    async def act(screen: Screen) -> None:
        await screen.press("e")
        await screen.waits_for("written:" if is_there else "No such file")
        await screen.waits_for("[b]/ofu-top-")

    drive(act, folder=Path("[b]"))


def test_nodes_that_stop_to_answer_go_from_the_screen() -> None:
    feed = StillFeed(many_nodes())

    async def act(screen: Screen) -> None:
        assert "node-18" in screen.text
        feed.now = many_nodes("node-18", nodes=1)
        screen.top.redraw()
        await screen.pilot.pause()
        assert "partial coverage: 1 of 2 nodes answer, not node-18" in screen.lines[0]
        assert not any(line.startswith("node-18") for line in screen.lines[1:])

    drive(act, feed, (160, 30))


def test_names_from_outside_do_nothing_to_the_screen() -> None:
    job = shown_node().jobs[0]
    evil = job.model_copy(update={"job_name": "[red]\x1b[2J\u202e[/]", "user": "a\nb"})
    node = shown_node().model_copy(update={"jobs": [evil]})

    async def act(screen: Screen) -> None:
        text = await screen.press("j")
        assert r"[red]\x1b[2J\u202e[/]" in text
        assert r"a\nb" in text
        assert r"a\nb" in await screen.press("enter")

    drive(act, StillFeed(Scene((SceneAnswer("\x1b]0;x", node),), "")), (160, 30))


def test_a_screen_without_any_answer_has_keys_all_the_same() -> None:
    async def act(screen: Screen) -> None:
        for key in ["j", "A", "enter", "down", "c", "enter", "escape", "g"]:
            await screen.press(key)
        assert "no node has answered yet" in screen.text

    drive(act, StillFeed(Scene((SceneAnswer("n", None),), "")))


def test_a_picture_for_the_docs_fetches_nothing() -> None:
    drawn = asyncio.run(svg(captures()["top-narrow"]))
    assert "7 of 8" in drawn.replace("&#160;", " ")
    assert "url(" not in drawn.replace("url(#", "")
    assert len(drawn) < 60_000
    for name in captures():
        assert (FOLDER / f"{name}.svg").exists()


def test_q_ends_the_screen() -> None:
    async def act(screen: Screen) -> None:
        await screen.press("q")
        assert screen.top._exit

    drive(act)


def test_no_file_of_the_terminal_can_end_a_process_or_change_a_node() -> None:
    """No signal is sent, no program started, and the one thing that is asked of an agent is a GET."""
    for file in Path(ofu_exporter.terminal.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = {
                alias.name for alias in getattr(node, "names", ()) if isinstance(alias, ast.alias)
            }
            assert not names & {"signal", "subprocess", "psutil", "http.client"}, file
            assert getattr(node, "attr", "") not in {"kill", "killpg", "terminate", "post"}, file
