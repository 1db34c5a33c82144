"""What an agent says of a node that has some of everything, golden: its pages, its JSON, and what `top` shows of it."""

from __future__ import annotations

import string
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import pytest

from ofu_exporter import __version__
from ofu_exporter.cli.job_totals import _rows
from ofu_exporter.jobs.lookup import JobBook
from ofu_exporter.jobs.summary import one_line, summary_text
from ofu_exporter.jobs.totals import JobTotals
from ofu_exporter.reports.book import ReportBook
from ofu_exporter.reports.messages import MfuAnswer, MfuReport
from ofu_exporter.serving.access import Access
from ofu_exporter.serving.app import create_app
from ofu_exporter.serving.guard import Guard
from ofu_exporter.serving.node_json import GpuJson, NodeJson
from ofu_exporter.serving.page import Page
from ofu_exporter.serving.pages.node_page import node_page
from ofu_exporter.serving.read_access import ReadAccess
from ofu_exporter.serving.read_routes import HistoryJson
from ofu_exporter.serving.report_routes import Problems
from ofu_exporter.serving.trace_routes import TraceAnswer, TraceOrder
from ofu_exporter.terminal.scene import Scene, SceneAnswer
from ofu_exporter.terminal.views import VIEWS, Choice, page, sections
from ofu_exporter.values.job import Job
from tests.fleet.pages.test_golden_reports import bare
from tests.helpers.rounding import as_json, rounded, schemas, without_last_digits
from tests.helpers.scenes import GONE
from tests.helpers.shown_node import LINES, LLAMA, MOE, NOTEBOOK, node_after

pytestmark = pytest.mark.xdist_group("shown node")

ANSWERS = (
    NodeJson,
    GpuJson,
    HistoryJson,
    JobTotals,
    MfuReport,
    MfuAnswer,
    Problems,
    TraceOrder,
    TraceAnswer,
)


def node() -> NodeJson:
    return NodeJson.model_validate(rounded(node_after().state().model_dump(mode="json")))


def scene() -> Scene:
    answers = (SceneAnswer(f"node-{n}", node(), age=1.4 + n) for n in (1, 2))
    return Scene((*answers, SceneAnswer("node-3", None, GONE)), "their agents")


def terminal() -> str:
    shown = [
        f"--- {view} {width}\n{page(scene(), Choice(view), width)}"
        for view, width in product(VIEWS, (60, 90, 160))
    ]
    return "\n".join([*shown, page(scene(), Choice("problems"), 120, is_coloured=True)])


def resting() -> NodeJson:
    """The node while two of its jobs compute nothing."""
    idle = {1: 900.0, 2: 3600.0, 4: 90.0}
    whole = node()
    gpus = [
        gpu.model_copy(update={"idle_seconds": idle.get(place, gpu.idle_seconds)})
        for place, gpu in enumerate(whole.gpus)
    ]
    return whole.model_copy(update={"gpus": gpus})


def lengthened(value: Any, name: str = "") -> Any:
    """The same with names that are longer than any column."""
    if isinstance(value, dict):
        return {key: lengthened(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [lengthened(each, name) for each in value]
    is_name = name in ("name", "user", "account", "job_id", "jobs", "job_name") and value
    return f"{value}-{'long' * 20}" if is_name else value


def widths() -> str:
    """What columns there are, and how wide they become."""
    long = NodeJson.model_validate(lengthened(resting().model_dump(mode="json")))
    one = Scene((SceneAnswer("node-1", long, age=0.2),), "its agent")
    two = Scene((*one.answers, SceneAnswer(f"node-{'2' * 30}", long, age=99.0)), "their agents")
    sizes = (40, 55, 75, 100, 125, 150, 200, 300, 500)
    return "\n".join(
        f"--- {view} {width}\n{page(each, Choice(view), width)}"
        for view, each, width in product(VIEWS, (one, two), sizes)
    )


def orders() -> str:
    """The rows of each view by each letter that sorts them, up and down, and those with a word."""
    answers = [SceneAnswer(f"node-{n}", resting(), age=1.4 + n) for n in (1, 2)]
    shown, lines = Scene((*answers, SceneAnswer("node-3", None, GONE)), "their agents"), []
    for view in VIEWS:
        usual = [[row.subject for row in each.rows] for each in sections(shown, Choice(view))]
        lines.append(f"--- {view}: {usual}")
        worded = sections(shown, Choice(view, LLAMA.name.upper()))
        lines.append(f"with a word: {[[row.subject for row in each.rows] for each in worded]}")
        for letter, downward in product(string.ascii_lowercase, (True, False)):
            found = sections(shown, Choice(view, "", letter, downward))
            for names, section in zip(usual, found, strict=True):
                order = [names.index(row.subject) for row in section.rows]
                if order != sorted(order):
                    lines.append(f"{letter} {downward} {section.title}: {order}")
    return "\n".join(lines)


def nothing() -> str:
    """Views of nodes that know nothing yet."""
    bare_node = node().model_copy(update={"gpus": [], "jobs": []})
    empty = Scene((SceneAnswer("node-1", bare_node, age=0.2),), "its agent")
    scenes = (Scene((), "nobody"), empty, Scene((SceneAnswer("n", None, GONE),), "its agent"))
    return "\n".join(page(each, Choice(view), 80) for view, each in product(VIEWS, scenes))


def details() -> str:
    """All that is known of each row, section by section."""
    lines = []
    for view in VIEWS:
        for section in sections(scene(), Choice(view)):
            lines.append(f"--- {view}: {section.title}")
            lines += [f"{row.subject}: {row.words}: {row.details()}" for row in section.rows]
    return "\n".join(lines)


def job_html(job: Job) -> str:
    return bare(node_after().job_page(job.job_id))


def totals() -> str:
    """What is kept of each job, and what the Slurm hooks say and write of it."""
    book = JobBook(lambda: node_after().snapshot, "node-17")
    found = [each for job in (LLAMA, MOE, NOTEBOOK) if (each := book.find(job.job_id))]
    texts = [
        f"{summary_text(each)}\n{one_line(each)}\n{rounded(_rows(each.model_dump(mode='json')))}"
        for each in found
    ]
    return without_last_digits("\n".join([*texts, *map(as_json, found)]))


def requests() -> str:
    """What /openapi.json says of each request, its parameters and its answers."""
    page = Page(time.monotonic)
    book = JobBook(page.snapshot, "node-17")
    reports = ReportBook(page.snapshot)
    app = create_app(page, book, reports, Guard(Access()), ReadAccess())
    lines = []
    for path, ways in app.openapi()["paths"].items():
        for way, said in ways.items():
            words = (said["summary"], said.get("description", ""))
            lines.append(f"{way} {path}: {'. '.join(filter(None, words))}")
            for each in said.get("parameters", ()):
                kind = [each["schema"].get(word) for word in ("type", "default")]
                lines.append(f"  {each['in']} {each['name']}: {each.get('description')} {kind}")
            for code, answer in said["responses"].items():
                lines.append(f"  {code} {[*answer.get('content', ())]}: {answer['description']}")
    return "\n".join(lines)


FORMS: dict[str, Callable[[], str]] = {
    "node.json": lambda: as_json(node()),
    "node.html": lambda: bare(node_page(node(), LINES)),
    **{f"job-{job.name}.html": partial(job_html, job) for job in (LLAMA, MOE, NOTEBOOK)},
    "job-totals.txt": totals,
    "terminal.txt": terminal,
    "terminal-details.txt": details,
    "terminal-widths.txt": widths,
    "terminal-orders.txt": orders,
    "terminal-nothing.txt": nothing,
    "requests.txt": requests,
    "agent-schemas.json": lambda: schemas(*ANSWERS),
}


@pytest.mark.usefixtures("in_utc")
@pytest.mark.parametrize("name", FORMS)
def test_an_answer_is_as_it_was(name: str, golden: Callable[[str, str], None]) -> None:
    golden(name, FORMS[name]().replace(__version__, "VERSION"))
