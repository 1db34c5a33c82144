"""The views of the terminal: which tables each has, how these are sorted and filtered, and all of it as plain text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ofu_exporter.serving.node_json import NodeJson
from ofu_exporter.support.durations import lasting
from ofu_exporter.support.percent import percent
from ofu_exporter.terminal import pictures
from ofu_exporter.terminal.cells import STYLES, Line, Segment, fit_line
from ofu_exporter.terminal.gpu_rows import (
    GPU_COLUMNS,
    MOST_NAME,
    NODE,
    NODE_COLUMNS,
    gpu_rows,
    held_idle_seconds,
    holders,
    node_hour,
    node_rows,
)
from ofu_exporter.terminal.job_rows import (
    IDLE_COLUMNS,
    JOB_COLUMNS,
    USER_COLUMNS,
    idle_rows,
    job_rows,
    jobs_of,
    likeliest_cause,
    styled_verdict,
    user_rows,
    worst_verdict,
)
from ofu_exporter.terminal.scene import Scene, SceneAnswer, gpu_label, idle_words, in_words, user_of
from ofu_exporter.terminal.table import (
    TableRow,
    TableSection,
    TerminalColumn,
    lay_out,
    name_cell,
    text_cell,
)
from ofu_exporter.values.clock_limit import known_limits, limit_words
from ofu_exporter.values.job import RECORDED
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.text import first_names

STUCK_SECONDS = 60.0
"""A snapshot older than this means that the agent does not sample: the longest window has 30 s."""
LONG_IDLE_SECONDS = 600.0
"""A GPU that is held without tensor work for longer than this is listed."""
PROBLEM_COLUMNS = (
    TerminalColumn("where", "WHERE", 10, MOST_NAME + 8, sort="n"),
    TerminalColumn("what", "WHAT", 20, 60, sort="d"),
    TerminalColumn("advice", "WHAT TO DO", 24, 200, rank=1),
)
BAD, WORTH_A_LOOK = "bad", "warn"


class _Problem(NamedTuple):
    where: str
    what: str
    advice: str
    style: str = BAD


def problem_rows(scene: Scene) -> list[TableRow]:
    """A row for each problem, with what to do about it: the worst first."""
    problems = [*_of_nodes(scene), *_of_jobs(scene)]
    return [_row(each) for each in sorted(problems, key=lambda each: each.style != BAD)]


def _row(problem: _Problem) -> TableRow:
    where, what, advice, style = problem
    return TableRow(
        subject=f"problem {where} {what}",
        cells={
            "where": name_cell(where, style),
            "what": text_cell(what, style, what),
            "advice": text_cell(advice),
        },
        details=lambda: [("where", where), ("what", what), ("what to do", advice)],
        words=f"{where} {what}",
        style=style,
    )


def _of_nodes(scene: Scene) -> Iterator[_Problem]:
    for answer in scene.answers:
        if answer.node is None:
            what = answer.problem or "no answer yet"
            yield _Problem(
                answer.name, what, "See whether its agent runs and can be reached from here."
            )
        else:
            yield from _of_node(answer, answer.node)
            yield from _of_gpus(answer.name, answer.node)


def _of_node(answer: SceneAnswer, node: NodeJson) -> Iterator[_Problem]:
    if node.paused:
        yield _Problem(answer.name, "the agent is paused", Reason.PAUSED.advice, WORTH_A_LOOK)
    if answer.age > STUCK_SECONDS:
        what = f"its newest sample is {lasting(answer.age)} old"
        yield _Problem(answer.name, what, "The agent answers but does not sample: see its log.")
    source = node.sources[0] if node.sources else None
    if source and source.reason not in (None, Reason.STARTING.value, Reason.PAUSED.value):
        what = f"source {source.source}: {in_words(source.reason, source.detail)}"
        yield _Problem(answer.name, what, source.advice)


def _of_gpus(where: str, node: NodeJson) -> Iterator[_Problem]:
    for gpu in node.gpus:
        place = f"{where} GPU {gpu_label(gpu)}"
        quiet = (Reason.STARTING.value, Reason.PAUSED.value)
        if gpu.unavailable is not None and gpu.unavailable not in quiet:
            what = f"not measured: {in_words(gpu.unavailable, gpu.detail)}"
            yield _Problem(place, what, gpu.advice)
        limits = known_limits(gpu.window.clock_limits if gpu.window else None) or ()
        advice = next((limit.advice for limit in reversed(limits) if limit.advice), "")
        if advice:
            what = f"its clock is held down: {limit_words(limits)}"
            yield _Problem(place, what, advice, WORTH_A_LOOK)
        idle = held_idle_seconds(node, gpu)
        if idle is not None and idle >= LONG_IDLE_SECONDS:
            each = (filter(None, (job.job_id, user_of(job))) for job in holders(node, gpu))
            jobs = ", ".join(map(" of ".join, each))
            what = f"held by job {jobs} without tensor work for {idle_words(idle)}"
            advice = "Ask its user whether the job still needs the GPU."
            yield _Problem(place, what, advice, WORTH_A_LOOK)


def _of_jobs(scene: Scene) -> Iterator[_Problem]:
    for on_nodes in jobs_of(scene):
        verdict = worst_verdict(on_nodes)
        if verdict is None or not verdict.diverged:
            continue
        job = on_nodes[0][1]
        words, style = styled_verdict(on_nodes)
        cause = likeliest_cause(on_nodes)
        likely = f"Likeliest: {cause.cause}, {cause.evidence}" if cause else "No known cause fits."
        where = f"job {job.job_id} on {first_names([name for name, _ in on_nodes], 2)}"
        yield _Problem(where, words, likely, style)


SORTS = {
    "n": "node",
    "g": "GPU",
    "o": "OFU",
    "e": "error",
    "c": "clock",
    "j": "job",
    "u": "user",
    "m": "MFU",
    "d": "difference",
    "i": "idle",
    "h": "GPU-hours",
}
"""What rows can be sorted by, by its letter in `--sort`."""
HOUR_CELLS = 30


class Choice(NamedTuple):
    view: str = "gpus"
    words: str = ""
    """Only rows that contain this are shown."""
    sort: str = ""
    """A letter of SORTS; "" = the node's own order."""
    downward: bool = True
    """Whether the highest comes first."""

    def sorted_by(self, letter: str) -> Choice:
        """Sorted by another letter, or in the opposite order by the same one."""
        return self._replace(sort=letter, downward=letter != self.sort or not self.downward)


class View(NamedTuple):
    key: str
    title: str
    sections: Callable[[Scene], list[TableSection]]


def _gpus(scene: Scene) -> list[TableSection]:
    nodes = scene.nodes
    columns = [*GPU_COLUMNS]
    if len(scene.answers) > 1:
        longest = max(len(answer.name) for answer in scene.answers)
        columns.insert(0, NODE._replace(least=max(NODE.least, min(longest, 10))))
    empty = _why_none(nodes[0]) if nodes else "no node has answered yet"
    gpus = TableSection("GPUs", columns, gpu_rows(scene), empty, pictures.LEGEND)
    return [gpus, *(_jobs(scene) if jobs_of(scene) else [])]


def _why_none(node: NodeJson) -> str:
    """Why a node shows no GPU, and what to do about it."""
    source = node.sources[0] if node.sources else None
    if source is None or source.reason is None:
        return "none is seen"
    why = in_words(source.reason, source.detail)
    return f"source {source.source}: {why}. {source.advice}"


def _jobs(scene: Scene) -> list[TableSection]:
    columns = [each for each in JOB_COLUMNS if each.key != "node" or len(scene.answers) > 1]
    return [TableSection("Jobs", columns, job_rows(scene), "no job is known to hold a GPU")]


def _users(scene: Scene) -> list[TableSection]:
    rows, empty = user_rows(scene), "no job holds a GPU"
    return [TableSection("Users", USER_COLUMNS, rows, empty, pictures.LEGEND)]


def _idle(scene: Scene) -> list[TableSection]:
    empty = "no job holds a GPU without tensor work"
    return [TableSection("Held and idle", IDLE_COLUMNS, idle_rows(scene), empty)]


def _problems(scene: Scene) -> list[TableSection]:
    return [TableSection("What is wrong", PROBLEM_COLUMNS, problem_rows(scene), "nothing is known")]


def _nodes(scene: Scene) -> list[TableSection]:
    return [TableSection("Nodes", NODE_COLUMNS, node_rows(scene), "none")]


VIEWS = {
    "gpus": View("g", "GPUs and jobs", _gpus),
    "jobs": View("j", "jobs", _jobs),
    "users": View("u", "users", _users),
    "idle": View("i", "GPUs held without tensor work", _idle),
    "problems": View("A", "what is wrong", _problems),
    "nodes": View("c", "compact: a line for each node", _nodes),
}


def sections(scene: Scene, choice: Choice) -> list[TableSection]:
    """The tables of a view, filtered and sorted as the user wants."""
    return [
        section._replace(rows=_chosen(section, choice))
        for section in VIEWS[choice.view].sections(scene)
    ]


def _chosen(section: TableSection, choice: Choice) -> list[TableRow]:
    words = choice.words.casefold()
    matching = [row for row in section.rows if words in row.words.casefold()]
    key = next((each.key for each in section.columns if each.sort == choice.sort), None)
    if not choice.sort or key is None:
        return matching

    def order(row: TableRow) -> float | str | None:
        cell = row.cells.get(key)
        return None if cell is None else cell.order

    valued = [row for row in matching if order(row) is not None]
    empty = [row for row in matching if order(row) is None]
    is_text = any(isinstance(order(row), str) for row in valued)
    valued.sort(key=lambda row: _value(order(row)), reverse=choice.downward != is_text)
    return valued + empty  # no value is neither high nor low


def _value(order: float | str | None) -> tuple[float, str]:
    return (0.0, order.casefold()) if isinstance(order, str) else (order or 0.0, "")


def headline(scene: Scene, width: int) -> Line:
    """The line above the tables: the node, its OFU, the age of the data, and important notes."""
    gpus = [gpu for _, _, gpu in scene.gpus]
    measured = sum(gpu.unavailable is None for gpu in gpus)
    names = [answer.name for answer in scene.answers]
    who = names[0] if len(names) == 1 else f"{len(names)} nodes"
    line = [
        Segment(f"{who}  ", "title"),
        *(Segment(f"{mark}  ", "bad") for mark in _marks(scene)),
        Segment(f"OFU {percent(scene.ofu, 'not measured')}", "strong"),
    ]
    hour = node_hour(scene.nodes)
    if width >= 100 and hour:
        line += [Segment("  "), *pictures.spark(hour, HOUR_CELLS)]
    look = "bad" if measured < len(gpus) else ""
    line.append(Segment(f"  {measured} of {len(gpus)} GPUs", look))
    line += [Segment(f"  {words}", "bad") for words in _notes(scene)]
    line.append(Segment(f"  {_about(scene)}", "soft"))
    return fit_line(line, max(width, 1))


def _marks(scene: Scene) -> Iterator[str]:
    """What a reader must know before any number: no narrow terminal cuts it off."""
    first_sources = [source for node in scene.nodes for source in node.sources[:1]]
    if any(source.simulated for source in first_sources):
        yield "SIMULATED"
    if any(source.source == RECORDED for source in first_sources):
        yield "RECORDED"


def _notes(scene: Scene) -> Iterator[str]:
    """What is not whole, and who disagrees."""
    missing = scene.missing
    if missing and len(scene.answers) > 1:
        answered = len(scene.answers) - len(missing)
        names = first_names([answer.name for answer in missing], 2)
        yield f"partial coverage: {answered} of {len(scene.answers)} nodes answer, not {names}"
    elif missing:
        yield missing[0].problem or "no answer yet"
    verdicts = map(worst_verdict, jobs_of(scene))
    apart = sum(verdict is not None and verdict.diverged for verdict in verdicts)
    if apart:
        yield f"{apart} job{'s' * (apart > 1)} disagree{'s' * (apart == 1)}"


def _about(scene: Scene) -> str:
    sources = dict.fromkeys(gpu.source for _, _, gpu in scene.gpus)
    ages = [answer.age for answer in scene.answers if answer.node is not None]
    fresh = f"{lasting(max(ages))} ago" if ages and max(ages) > 0 else ""
    return ", ".join(filter(None, [first_names(list(sources), 3), scene.origin, fresh]))


def page(scene: Scene, choice: Choice, width: int, is_coloured: bool = False) -> str:
    """The scene as lines of at most this width."""
    lines = [
        headline(scene, width),
        *(laid.draw() for laid in lay_out(sections(scene, choice), width)),
    ]
    return "\n".join(_text(line, is_coloured) for line in lines)


def for_encoding(text: str, encoding: str) -> str:
    """The text in characters of this encoding: ASCII replaces those of the pictures if they are missing."""
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        text = text.translate(pictures.PLAIN)
        return text.encode("ascii", "replace").decode("ascii")
    return text


def _text(line: Line, is_coloured: bool) -> str:
    return "".join(_coloured(*each) if is_coloured else each.text for each in line).rstrip(" ")


def _coloured(text: str, style: str) -> str:
    look = STYLES.get(style)
    return f"\x1b[{look.codes}m{text}\x1b[0m" if look and text.strip() else text
