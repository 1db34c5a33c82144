"""`demo --fleet`: the report of a made-up month names what was planted, with its GPU-hours, in a file or served."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from ofu_exporter.cli.demo_fleet import month_report, route_of
from ofu_exporter.cli.fleet_report import rendered
from ofu_exporter.fleet.reports.result import FleetReport
from ofu_exporter.fleet.simulation.fleet import fleet_of
from ofu_exporter.fleet.simulation.spec import read_spec
from tests.helpers.agent import agent
from tests.helpers.in_process import call

NOW = 1_780_000_000.0
"""2026-05-28, 20:26 UTC."""
MONTH = 720.0
"""Hours."""
NOTEBOOK = 4 * MONTH
"""GPU-hours: four GPUs for the whole month."""
RESTARTS = (60 - 44) * 24 / 6 - 1
"""Of vision-moe, every six hours of its 16 days."""
STARTING, AGAIN = 8 * 10 / 60, 8 * 50 / 60
"""GPU-hours of each: eight GPUs for 10 minutes until it computes, and for 50 of steps that it had reached before."""
HALVED = 8 * (30 - 12) * 24 * 0.5
"""Eight GPUs, for 18 days at half the speed: half of these GPU-hours would have done."""


@pytest.fixture(scope="module")
def month() -> FleetReport:
    return month_report(NOW)


@pytest.mark.slow
def test_what_was_planted_stands_in_do_first_with_its_hours(month: FleetReport) -> None:
    notebook, halved = month.actions[:2]
    assert (notebook.kind, notebook.who) == ("held_idle", "notebook of marie")
    assert notebook.what == "held 4 GPUs and ran nothing"
    assert notebook.gpu_hours == pytest.approx(NOTEBOOK, rel=0.01)
    assert notebook.cost == pytest.approx(2.10 * NOTEBOOK, rel=0.01)
    assert (halved.kind, halved.who) == ("regression", "robot-vla of alan")
    assert halved.what.startswith("lost 50.0% of its OFU on ")
    assert halved.gpu_hours == pytest.approx(HALVED, rel=0.01)
    again = next(row for row in month.actions if row.kind == "restarts")
    assert again.who == "vision-moe of eve"
    assert again.gpu_hours == pytest.approx(RESTARTS * (STARTING + AGAIN), rel=0.01)
    assert again.cost == pytest.approx(2.10 * RESTARTS * (STARTING + AGAIN), rel=0.01)
    assert len(month.restarts) == RESTARTS
    assert month.restarts[0].recovery_hours == pytest.approx(1.0, rel=0.01)
    wrong = next(row for row in month.actions if row.kind == "wrong_number")
    assert wrong.who == "moe-pretrain of grace"
    assert wrong.what == "reported an MFU that the GPUs cannot have done"
    assert "attention is causal, and the count takes every pair" in wrong.why
    assert not any("chat-serving" in row.who for row in month.actions)  # its memory is busy
    hours = [row.gpu_hours for row in month.actions if row.gpu_hours is not None]
    assert hours == sorted(hours, reverse=True)


@pytest.mark.slow
def test_the_report_is_of_whole_gpu_hours_and_lacks_nothing(month: FleetReport) -> None:
    report, changed = month, month.changes
    assert changed is not None
    assert report.time.start == "2026-04-28T00:00:00Z"
    assert report.time.end == "2026-05-28T00:00:00Z"
    assert (report.missing, changed.missing) == ([], [])
    assert len(report.notes) == 2  # what clocks may hide, and what energy is
    assert next(step.gpu_hours for step in report.funnel if step.name == "installed") == 64 * MONTH
    assert [row.labels["job_name"] for row in changed.changes if row.kind == "job"] == ["robot-vla"]
    assert changed.slow == []


@pytest.mark.slow
def test_every_action_has_a_next_step_and_a_link_that_leads_somewhere_in_the_file(
    month: FleetReport,
) -> None:
    page = rendered(month, "html", 0).decode()
    ids = re.findall(r'id="([^"]+)"', page)
    first = re.search(r'<ol class="first">.*?</ol>', page, re.DOTALL)
    assert first is not None
    links = re.findall(r'href="#([^"]+)"', first[0])
    assert len(links) == len(month.actions)
    assert all(ids.count(each) == 1 for each in links)
    assert [each.at for each in month.actions] == links
    assert all(each.next and Path(each.link).is_file() for each in month.actions)
    halved = re.search(r'<tr id="job-demo-1002">.*?</tr>', page, re.DOTALL)
    assert halved is not None
    assert "robot-vla" in halved[0]
    assert f"<code>{html.escape(COMMAND)}</code>" in first[0]


COMMAND = (
    "ofu-exporter fleet job 1002 --prometheus http://prometheus.example:9090 --since 720h "
    "--until 2026-05-28T00:00:00Z"
)


@pytest.mark.slow
def test_the_parts_stand_in_the_order_in_which_people_decide(month: FleetReport) -> None:
    """In the page, in text, in Markdown and in the JSON."""
    titles = [
        "Do first",
        "What became progress",
        "Where the peak went",
        "By user",
        "What changed",
        "Jobs (",
    ]
    for format_ in ("html", "text", "markdown"):
        text = re.sub(
            r"<(style|script)\b.*?</\1>", "", rendered(month, format_, 20).decode(), flags=re.DOTALL
        )
        places = [text.index(title) for title in titles]
        assert places == sorted(places), format_
    keys = list(month.model_dump())
    wanted = ["headline", "periods", "actions", "chain", "waterfall", "groups", "changes", "jobs"]
    assert sorted(wanted, key=keys.index) == wanted


@pytest.mark.slow
def test_what_changed_is_what_the_jobs_truly_did_in_both_months(month: FleetReport) -> None:
    """From the minutes of the planted jobs, without any of the report's sums."""
    jobs = fleet_of(read_spec(Path("month"))).jobs

    def done(first: float, last: float) -> float:
        whole = 64 * (last - first)
        return (
            sum(
                (job.integral(last) - job.integral(first)) * job.gpu_shares * job.mean_share
                for job in jobs
            )
            / whole
        )

    before, now = done(0.0, 3600 * MONTH), done(3600 * MONTH, 7200 * MONTH)
    assert [each.delivered_ratio for each in month.periods] == pytest.approx([before, now])
    assert month.delivered_change == pytest.approx(now - before)
    last = {step.factor: step for step in month.chain}["allocated"]
    held = sum(
        sum(job.is_running[: max(0, 43_200 - job.job.start)]) * job.gpu_shares for job in jobs
    )
    assert last.ratio_before == pytest.approx(held / 60 / (64 * MONTH), rel=1e-6)


def upper_quartile(values: list[float]) -> float:
    """Between the two values around three quarters of the way from the lowest to the highest."""
    ranked = sorted(values)
    at, rest = divmod(3 * (len(ranked) - 1), 4)
    return ranked[at] + rest / 4 * (ranked[min(at + 1, len(ranked) - 1)] - ranked[at])


@pytest.mark.slow
def test_what_can_be_had_back_is_what_its_sentence_says(month: FleetReport) -> None:
    """Counted again from the JSON of the jobs: by nothing of the package. Memory bounds the one that serves."""
    rows = [row for row in month.model_dump()["jobs"] if row["memory_ratio"] is None]
    (serving,) = (row for row in month.jobs if row.memory_ratio is not None)
    assert serving.recoverable_gpu_hours == 0.0

    def rested(row: dict[str, Any]) -> float:
        return float(min(row["idle_gpu_hours"], row["lost_idle_gpu_hours"]))

    def busy(row: dict[str, Any]) -> float:
        return float(row["observed_gpu_hours"] - row["idle_gpu_hours"])

    total = 0.0
    for row in rows:
        alike = [
            each["effective_gpu_hours"] / busy(each)
            for each in rows
            if (each["model"], round(each["gpus"])) == (row["model"], round(row["gpus"]))
            and busy(each) > 0
        ]
        reached = upper_quartile(alike) if len(alike) >= 5 else 0.4
        total += rested(row) + max(0.0, busy(row) - row["effective_gpu_hours"] / reached)
    assert month.total.recoverable_gpu_hours == pytest.approx(total, rel=1e-6)
    assert month.total.recoverable_cost == pytest.approx(2.10 * total, rel=1e-6)


NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?%?")


def told(value: Any) -> Iterator[str]:
    """Every number of a part of the JSON, as people would read it; of GPU-hours their share of the row's too."""
    if isinstance(value, dict):
        for name in ("held_gpu_hours", "observed_gpu_hours"):
            if whole := value.get(name):
                parts = [part for key, part in value.items() if key.endswith("_gpu_hours") and part]
                yield from (f"{abs(part) / whole:.1%}" for part in parts)
        for part in value.values():
            yield from told(part)
    elif isinstance(value, list):
        yield str(len(value))
        for part in value:
            yield from told(part)
    elif isinstance(value, str):
        yield from NUMBER.findall(value)
    elif isinstance(value, (int, float)):
        number = abs(value)
        yield from (f"{number:,.0f}", f"{number:,.1f}", f"{number:.2f}", f"{number:.3f}")
        yield f"{number / 1e9:.2f}"  # tokens, in G
        yield from (f"{number:.1%}", f"{number:.2%}", f"{100 * number:.1f}", f"{number:,.0f}%")


def shown(page: str) -> list[str]:
    """Every number in the words and tables of a page."""
    text = re.sub(r"<(style|script|title|svg)\b.*?</\1>", "", page, flags=re.DOTALL)
    return NUMBER.findall(html.unescape(re.sub(r"<[^>]*>", " ", text)))


@pytest.mark.slow
def test_every_number_of_the_page_is_one_of_the_json(month: FleetReport) -> None:
    numbers = shown(rendered(month, "html", 0).decode())
    assert len(numbers) > 500
    # hours and days are drawn alone: their many ratios would vouch for anything
    known = set(told(month.model_dump(exclude={"hours", "days"})))
    known |= {f"{max(row.held_gpus or 0.0 for row in month.hours):.0f}"}
    known |= {"95", "0.01%"}  # the level of intervals, and the bound of smaller chances
    assert [each for each in numbers if each not in known] == []
    few = set(told(month.model_dump(include={"time", "total", "funnel", "actions"})))
    assert sum(each not in few for each in numbers) > 250  # it can fail


@pytest.mark.slow
def test_what_the_tokens_of_the_month_cost_is_true(month: FleetReport) -> None:
    """Two GPUs of 560 W; each serves 2,400 + 640 tokens/s when busiest, and (0.25 + 1) / 2 of that on average."""
    (chat,) = (row for row in month.jobs if row.job_name == "chat-serving")
    a_second = 3040 * 0.625
    assert chat.joules_per_token == pytest.approx(560 / a_second, rel=0.01)
    assert chat.cost_per_million_tokens == pytest.approx(2.10e6 / 3600 / a_second, rel=0.01)
    assert chat.generation_tokens == pytest.approx(640 * 0.625 * 2 * MONTH * 3600, rel=0.01)
    assert month.total.serving_kwh == pytest.approx(2 * 0.56 * MONTH, rel=0.01)


@pytest.mark.slow
def test_the_chain_is_what_was_planted(month: FleetReport) -> None:
    hours = {step.factor: step.gpu_hours or 0.0 for step in month.chain}
    assert [*hours] == ["capacity", "allocated", "together", "progress", "ofu"]
    starting, again = NOTEBOOK + (RESTARTS + 1) * STARTING, RESTARTS * AGAIN
    assert hours["allocated"] - hours["together"] == pytest.approx(starting, rel=0.01)
    assert hours["together"] - hours["progress"] == pytest.approx(again, rel=0.01)
    whole = month.progress[0]
    assert (whole.held_idle_gpu_hours, whole.alone_gpu_hours) == (0.0, 0.0)
    assert whole.restarts == RESTARTS


@pytest.mark.slow
def test_it_is_written_into_a_file_and_says_that_it_is_simulated(tmp_path: Path) -> None:
    file = tmp_path / "month.html"
    done = call("demo", "--fleet", "--output", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{file}: the report of a simulated fleet, no GPU was measured\n"
    text = re.sub(r"<[^>]*>", " ", file.read_text())
    assert "SIMULATED, no GPU was measured." in text
    assert text.index("notebook of marie") < text.index("robot-vla of alan")


def test_a_file_alone_is_none_of_a_demonstration(tmp_path: Path) -> None:
    done = call("demo", "--output", str(tmp_path / "month.html"))
    assert done.returncode == 2
    assert "--output goes with --fleet" in done.stderr


@pytest.mark.slow
def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    done = call("demo", "--fleet", "--output", str(tmp_path / "none" / "month.html"))
    assert done.returncode == 2
    assert "--output: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_it_is_served_beside_the_demonstration() -> None:
    with agent("demo", "--fleet") as running:
        assert running.logs(f"Fleet report (simulated): {running.url}/fleet-report")
        status, text = running.get("/fleet-report")
        assert status == 200
        assert "SIMULATED, no GPU was measured." in text
        assert running.get("/")[0] == 200
    with agent("demo") as running:
        assert running.get("/fleet-report")[0] == 404


def test_the_page_is_no_part_of_the_api() -> None:
    app = FastAPI()
    app.include_router(route_of(b"a page"))
    assert app.openapi()["paths"] == {}
