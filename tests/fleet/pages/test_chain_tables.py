"""The chain in a sentence and in tables; what is not known is a dash."""

from __future__ import annotations

from ofu_exporter.fleet.history.progress_sums import ProgressSums
from ofu_exporter.fleet.pages.chain_tables import (
    beside,
    chain_table,
    chain_words,
    progress_section,
)
from ofu_exporter.fleet.reports.chain_rows import ChainStep, Factor
from tests.fleet.reports.test_chain import STEPS, told


def step(factor: Factor, share: float | None, ratio: float | None, **more: float) -> ChainStep:
    hours = None if share is None else 400 * share
    return ChainStep(factor=factor, share=share, ratio=ratio, gpu_hours=hours, cost=None, **more)


CHAIN = (
    step("capacity", 1.0, 1.0),
    step("allocated", 0.5, 0.5, share_before=0.4, ratio_before=0.4),
    step("together", 0.4, 0.8),
    step("ofu", 0.1, 0.25),
)


def test_the_sentence_says_each_share_and_whether_it_was_progress() -> None:
    begin = "Of the capacity, 50.0% was held by jobs, 40.0% had every GPU of the job at work"
    end = "The OFU of that time was 25.0%, so 10.0% of the peak"
    assert chain_words(CHAIN) == f"{begin}. {end} was used."
    progress = step("progress", 0.4, 1.0)
    assert chain_words((*CHAIN[:3], progress, CHAIN[3])).endswith(f"{end} became progress.")
    assert chain_words((*CHAIN[:3], step("ofu", None, None))) == chain_words(()) == ""


def test_a_ratio_stands_beside_that_of_the_last_period_where_there_is_one() -> None:
    assert [beside(each) for each in CHAIN[:3]] == [
        "",
        "50.0% of the step before, in the last period 40.0%",
        "80.0% of the step before",
    ]
    texts = [str(chain_table(steps, "EUR")) for steps in (CHAIN, CHAIN[2:])]
    assert ["last period" in text for text in texts] == [True, False]


def test_reasons_are_shares_of_what_was_held_and_unknown_ones_a_dash() -> None:
    rows = told(ProgressSums(100.0, STEPS, restarts=3.0, step=90.0)).progress
    title, table, meanings = progress_section(rows, "model", "EUR")
    assert title == "Held without progress, by job"
    text = str(table)
    for shown in ("all jobs", "4.0%", "10.0%", "6.0%", "20.0%"):
        assert shown in text
    assert meanings.endswith(".")
