"""What a job's engines served outlives settings and agents, and belongs to one record of the job; sums by hand."""

from __future__ import annotations

from dataclasses import replace

from ofu_exporter.jobs.kept_served import KeptServed
from ofu_exporter.ofu.ownership.job_state import GRACE_SECONDS
from ofu_exporter.reports import engine_pages
from ofu_exporter.reports.served import MAX_NAMES, ServedTally
from ofu_exporter.reports.served_ledger import Ledger
from ofu_exporter.settings import PullSetting
from ofu_exporter.values.job import Job
from ofu_exporter.values.snapshot import JobView, Snapshot
from tests.helpers.values import health

FIRST, SECOND = (
    PullSetting(job_id="chat", url=f"http://user:secret@127.0.0.1:{n}/metrics") for n in (1, 2)
)


def take(tally: ServedTally, generated: float, started: float = 5.0) -> None:
    """Read a page of an engine that has generated so many tokens since it started."""
    page = engine_pages.read(
        f'vllm:generation_tokens_total{{model_name="m"}} {generated}\n'
        'vllm:num_requests_running{model_name="m"} 1\n'
        f"process_start_time_seconds {started}\n"
    )
    assert page is not None
    tally.take(page, 100.0 + generated)


def generated(ledger: Ledger) -> float:
    return ledger.served()["chat"].tokens["m", "generation"]


def over_a_restart(ledger: Ledger, page: Page | None = None) -> Ledger:
    """The ledger of the next agent, by the bytes that the state file keeps."""
    after = Ledger(page.look if page else lambda: None)
    after.resume(KeptServed.model_validate_json(ledger.kept().model_dump_json()))
    return after


class Page:
    """What the ledger sees of the jobs on the node."""

    def __init__(self, *views: JobView) -> None:
        self.views = views
        self.at = 200.0

    def look(self) -> Snapshot:
        return Snapshot(self.at, (), health(), jobs=self.views)


def view(began: float, *aliases: str, job_id: str = "chat") -> JobView:
    return JobView(Job("kubernetes", job_id, aliases=aliases), began, {}, {}, None, began + 50)


def test_engines_of_one_job_are_added() -> None:
    ledger = Ledger()
    one, other = ledger.begin_tallies([FIRST, SECOND])
    for tally, more in ((one, 5), (other, 7)):
        take(tally, 100)
        take(tally, 100 + more)
    assert generated(ledger) == 12
    assert ledger.served()["chat"].running == {"m": 2.0}


def test_of_engines_of_which_one_cannot_be_read_nobody_knows_what_runs() -> None:
    ledger = Ledger()
    first, second = ledger.begin_tallies([FIRST, SECOND])
    take(first, 1000)
    assert ledger.served()["chat"].running == {}, "the other was not read yet"
    take(second, 2000)
    assert ledger.served()["chat"].running == {"m": 2.0}
    first.lose()
    chat = ledger.served()["chat"]
    assert (chat.running, chat.waiting) == ({}, {})
    assert chat.tokens["m", "generation"] == 0
    take(first, 1010)
    assert ledger.served()["chat"].running == {"m": 2.0}


def test_an_agent_goes_on_where_the_last_one_ended_also_with_what_was_served_in_between() -> None:
    ledger = Ledger()
    (tally,) = ledger.begin_tallies([FIRST])
    take(tally, 1000)
    take(tally, 1030)
    after = over_a_restart(ledger)
    (tally,) = after.begin_tallies([FIRST])
    assert generated(after) == 30
    assert after.served()["chat"].running == {}, "what ran then is not what runs now"
    take(tally, 1100)
    assert generated(after) == 100


def test_an_engine_that_was_restarted_while_no_agent_ran_counts_from_0() -> None:
    ledger = Ledger()
    (tally,) = ledger.begin_tallies([FIRST])
    take(tally, 1000)
    take(tally, 1030)
    after = over_a_restart(ledger)
    (tally,) = after.begin_tallies([FIRST])
    take(tally, 4000, started=1140.0)
    assert generated(after) == 30 + 4000


def test_an_agent_that_is_killed_twice_before_it_pulls_doubles_nothing() -> None:
    ledger = Ledger()
    (tally,) = ledger.begin_tallies([FIRST])
    take(tally, 1000)
    take(tally, 1030)
    for _ in range(2):
        ledger = over_a_restart(ledger)
        ledger.begin_tallies([FIRST])
    assert generated(ledger) == 30


def test_names_of_models_stay_those_that_were_kept() -> None:
    """More names than are told apart: the same ones are after a restart, whichever the page names first."""
    names = [f"m{n}" for n in range(40)]

    def page(order: list[str], value: int) -> str:
        return "".join(f'vllm:generation_tokens_total{{model_name="{m}"}} {value}\n' for m in order)

    def read(tally: ServedTally, text: str) -> None:
        parsed = engine_pages.read(text)
        assert parsed is not None
        tally.take(parsed, 1.0)

    ledger = Ledger()
    (tally,) = ledger.begin_tallies([FIRST])
    read(tally, page(names, 1000))
    read(tally, page(names, 1001))
    after = over_a_restart(ledger)
    (tally,) = after.begin_tallies([FIRST])
    read(tally, page(names[::-1], 1003))
    assert sum(after.served()["chat"].tokens.values()) == 3 * len(names)


def test_an_engine_whose_models_change_gets_no_more_names_by_restarts_of_the_agent() -> None:
    ledger = Ledger()
    for start in range(5):
        (tally,) = ledger.begin_tallies([FIRST])
        for n in range(40):
            parsed = engine_pages.read(
                f'vllm:generation_tokens_total{{model_name="{start}-{n}"}} {n}\n'
            )
            assert parsed is not None
            tally.take(parsed, 1.0)
        ledger = over_a_restart(ledger)
    assert len(ledger.served()["chat"].tokens) == MAX_NAMES + 1, "and one for all others"


def test_other_settings_lose_nothing() -> None:
    page = Page(view(50.0))
    ledger = Ledger(page.look)
    (tally,) = ledger.begin_tallies([FIRST])
    take(tally, 1000)
    take(tally, 1030)
    one, other = ledger.begin_tallies([FIRST, SECOND])
    take(one, 1031)
    take(other, 9)
    take(other, 13)
    assert generated(ledger) == 30 + 1 + 4
    take(tally, 2000)  # a pull of the old setting that ends late
    take(one, 2000)
    assert generated(ledger) == 1000 + 4
    ledger.begin_tallies([])
    assert generated(ledger) == 1004, "the job is still here"
    page.views = ()
    ledger.begin_tallies([])
    assert ledger.served() == {}


def test_a_job_that_is_gone_for_good_is_forgotten_by_the_next_agent() -> None:
    ledger = Ledger()
    (tally,) = ledger.begin_tallies([FIRST])
    take(tally, 1000)
    take(tally, 1030)
    page = Page()
    after = Ledger(lambda: page.look() if page.at > 200.0 else None)
    after.resume(ledger.kept())
    after.begin_tallies([])
    for _ in range(2):
        assert generated(after) == 30, "its scheduler may not have answered yet"
        page.at += GRACE_SECONDS / 2
    page.views = (view(50.0),)
    assert generated(after) == 30
    for passed, known in ((2, {"chat"}), (GRACE_SECONDS, {"chat"}), (2, set())):
        page.at, page.views = page.at + passed, ()
        assert after.served().keys() == known
    assert after.kept() == KeptServed()


def test_the_same_address_twice_counts_once_and_a_gauge_of_it_nothing() -> None:
    gauge = FIRST.model_copy(update={"metric": "mfu"})
    ledger = Ledger()
    for begun, settings in ((1000, [FIRST, gauge]), (1010, [gauge, FIRST])):
        tallies = ledger.begin_tallies(settings)
        for value in (begun, begun + 10):
            for each in tallies:
                take(each, value)
        assert generated(ledger) == begun + 10 - 1000


def test_another_job_of_the_same_id_begins_at_0_as_its_gpu_seconds_do() -> None:
    page = Page(view(50.0))
    ledger = Ledger(page.look)
    (tally,) = ledger.begin_tallies([FIRST])
    take(tally, 1000)
    take(tally, 1030)
    assert generated(ledger) == 30
    page.views = ()
    assert generated(ledger) == 30, "it ended, and is looked at once more"
    ledger = over_a_restart(ledger, page)
    (tally,) = ledger.begin_tallies([FIRST])
    page.views = (view(900.0),)
    assert generated(ledger) == 0
    take(tally, 1031)
    assert generated(ledger) == 1
    page.views = (view(800.0),)
    assert generated(ledger) == 1, "it is the same record, of which more is known"


def test_a_job_is_known_by_the_ids_of_its_pods() -> None:
    page = Page(view(50.0, "chat", job_id="set"))
    ledger = Ledger(page.look)
    (tally,) = ledger.begin_tallies([FIRST])
    take(tally, 1000)
    take(tally, 1030)
    assert {job: each.tokens["m", "generation"] for job, each in ledger.served().items()} == {
        "set": 30
    }, "under the id that the job's other series have"
    assert ledger.served()["set"].engines == {"both": 1.0}
    page.views = (replace(page.views[0], began=60.0),)
    assert ledger.served()["set"].tokens["m", "generation"] == 0


def test_no_address_is_kept() -> None:
    ledger = Ledger()
    (tally,) = ledger.begin_tallies([FIRST])
    take(tally, 1000)
    text = ledger.kept().model_dump_json()
    assert "secret" not in text
    assert "127.0.0.1" not in text


def test_engines_are_counted_by_the_role_that_the_configuration_gives_them() -> None:
    decoding = SECOND.model_copy(update={"role": "decode"})
    gauge = FIRST.model_copy(update={"metric": "mfu", "url": "http://127.0.0.1:3/metrics"})
    ledger = Ledger()
    ledger.begin_tallies([FIRST, decoding, gauge])
    assert ledger.served()["chat"].engines == {"both": 1.0, "decode": 1.0}
