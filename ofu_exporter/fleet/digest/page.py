"""Writes a digest as HTML for mail: styles inside the elements, no script, nothing fetched, light and dark.

Programs that read mail drop what they do not know, so the page is readable without its style sheet, which has only the
dark colours: https://www.caniemail.com/features/css-at-media-prefers-color-scheme/.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ofu_exporter.fleet.digest import text
from ofu_exporter.fleet.digest.result import Digest, DigestJob
from ofu_exporter.fleet.reports.html import Markup, joined, plain, tag
from ofu_exporter.fleet.reports.tables import job_name

_DARK = (
    "@media(prefers-color-scheme:dark){.b{background:#0f1318!important;color:#e8ecf1!important}"
    ".c{background:#171d24!important;border-color:#2a333d!important}.s{color:#9aa6b4!important}"
    ".l{border-color:#2a333d!important}.r{background:#4a1512!important;color:#ffd9d5!important}}"
)
_BODY = (
    "margin:0;padding:12px;background:#f6f7f9;color:#171b21;"
    "font:15px/1.45 -apple-system,'Segoe UI',Roboto,Arial,sans-serif"
)
_CARD = (
    "max-width:640px;margin:0 auto 12px;padding:12px 14px;background:#ffffff;"
    "border:1px solid #e1e6ec;border-radius:8px;overflow-wrap:anywhere"
)
_MARK = "max-width:640px;margin:0 auto 12px;padding:8px 14px;border-radius:8px;background:#fde8e6;color:#7a1a12"
_SOFT = "color:#56606d;font-size:13px"
_HEAD = "font-size:16px;margin:0 0 6px"
_CELL = "text-align:right;padding:4px 0 4px 8px;border-top:1px solid #e1e6ec;vertical-align:top"
_NAME = (
    "text-align:left;padding:4px 0;border-top:1px solid #e1e6ec;vertical-align:top;font-weight:400"
)


def page(digest: Digest, most_jobs: int) -> str:
    """The whole page."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        '<meta name="supported-color-schemes" content="light dark">'
        f"<title>{plain(text.subject(digest))}</title><style>{_DARK}</style></head>"
        f'<body class="b" style="{plain(_BODY)}">{tag("div", *_parts(digest, most_jobs), role="main")}</body></html>\n'
    )


def _parts(digest: Digest, most_jobs: int) -> Iterator[Markup]:
    """The cards, the most important first."""
    first, *facts = text.facts(digest)
    if digest.mark:
        yield tag("div", tag("b", digest.mark.strip()), style=_MARK, _class="r")
    head = tag("h1", f"GPU use of {text.cut(digest.name)}", style="font-size:19px;margin:0 0 6px")
    yield _card("", head, *_lines(facts), _soft(first))
    yield from _to_do(digest)
    yield from _list_card(text.STAND, text.rank_lines(digest))
    yield _jobs(digest, most_jobs)
    yield from _list_card(text.KNOW, digest.remarks)
    yield from _list_card(text.MEANING, digest.limits)
    if digest.contact:
        yield _card("", *(tag("div", line) for line in digest.contact.splitlines()))


def _card(title: str, *inside: object) -> Markup:
    head = [tag("h2", title, style=_HEAD)] if title else []
    return tag("div", *head, *inside, style=_CARD, _class="c")


def _soft(said: object) -> Markup:
    return tag("div", said, style=_SOFT, _class="s")


def _lines(said: Iterable[str]) -> Iterator[Markup]:
    return (tag("p", each, style="margin:0 0 6px") for each in said)


def _list(said: Iterable[str]) -> Markup:
    items = (tag("li", each, style="margin:0 0 4px") for each in said)
    return tag("ul", *items, style="margin:0;padding-left:18px")


def _list_card(title: str, said: Iterable[str]) -> Iterator[Markup]:
    if every := [*said]:
        yield _card(title, _list(every))


def _to_do(digest: Digest) -> Iterator[Markup]:
    blocks = [
        tag("p", tag("b", job), ": ", _with_commands(said), style="margin:0 0 8px")
        for job, said in text.to_do(digest)
    ]
    blocks += _lines(digest.advice)
    if blocks:
        yield _card(text.DO, *blocks)


def _with_commands(said: str) -> Markup:
    """Our own text, with commands in backticks."""
    parts = said.split("`")
    return joined(tag("code", part) if place % 2 else part for place, part in enumerate(parts))


def _jobs(digest: Digest, most_jobs: int) -> Markup:
    """Four columns, which fit on a phone; the other values are shown below each name."""
    heads = [tag("th", "job", scope="col", style=_NAME, _class="l")]
    heads += [
        tag(
            "th", each, scope="col", style=f"{_CELL};font-weight:400;white-space:nowrap", _class="l"
        )
        for each in ("GPU-hours", "OFU", "wasted")
    ]
    rows = [_row(digest, job) for job in digest.jobs[:most_jobs]]
    body = [tag("thead", tag("tr", *heads)), tag("tbody", *rows)]
    table = tag("table", *body, style="border-collapse:collapse;width:100%", aria_label=text.JOBS)
    return _card(text.JOBS, table, *map(_soft, text.more(digest, most_jobs)))


def _row(digest: Digest, job: DigestJob) -> Markup:
    row, named = job.row, _named(digest, job)
    cells = (named["GPU-hours"], named["OFU"], named["wasted"])
    numbers = [tag("td", each, style=f"{_CELL};white-space:nowrap", _class="l") for each in cells]
    name = tag(
        "th",
        tag("b", job_name(row)),
        " ",
        row.job_name,
        _soft(_more_of(digest, job, named)),
        scope="row",
        style=_NAME,
        _class="l",
    )
    return tag("tr", name, *numbers)


def _named(digest: Digest, job: DigestJob) -> dict[str, str]:
    """The numbers of a job by their heads."""
    return dict(zip(text.HEADS, text.cells(digest, job), strict=True))


def _more_of(digest: Digest, job: DigestJob, named: Mapping[str, str]) -> str:
    said = [f"{named['GPUs']} GPUs", f"aim {named['aim']}"]
    if job.row.mfu is not None:
        said.append(f"MFU {named['MFU']}")
    if digest.by == "account":
        said.insert(0, job.row.user)
    if job.row.wasted_cost is not None:
        said.append(f"waste {named['cost of waste']}")
    if job.exempt or job.row.verdict:
        said.append(text.verdict(job))
    return ", ".join(said)
