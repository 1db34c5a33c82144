"""A digest as text begins with what matters, shames nobody, and no name of others is obeyed by a terminal."""

from __future__ import annotations

from ofu_exporter.fleet.digest.config_file import DigestConfig
from ofu_exporter.fleet.digest.page import page
from ofu_exporter.fleet.digest.result import Digest, Rank
from ofu_exporter.fleet.digest.text import place, subject, text
from ofu_exporter.fleet.reports.fleet_history import JobHistory, JobSums
from tests.fleet.reports.test_fleet_report import job
from tests.helpers.digests import HOSTILE, digest, of
from tests.helpers.every import every

THREE = [
    job("1", "ada", JobSums(80, 80, 16)),
    job("2", "bob", JobSums(80, 80, 2)),
    job("3", "eve", JobSums(80, 80, 40)),
]


def first(*jobs: JobHistory, name: str = "ada", **config: object) -> Digest:
    found = of(*(jobs or THREE), config=DigestConfig.model_validate(config))
    return next(each for each in found if each.name == name)


def test_it_says_what_was_held_what_was_reached_and_what_was_missing() -> None:
    said = text(digest(), 20)
    assert said.startswith("GPU use of ada, 2024-10-04T00:00:00Z to 2024-10-0")
    assert "2 jobs held 120 GPU-hours (240 USD). OFU 23.3%; the target is 40.0%." in said
    assert "They fell 20 GPU-hours (40 USD) short of the target." in said
    assert "Where jobs report, MFU is 50.0%, and OFU over the same time 20.0%." in said
    assert "Likeliest: the peak is the one for 2:4 sparse matrices" in said


def test_places_are_told_with_what_would_help_and_without_anybody_elses_name() -> None:
    said = text(first(), 20)
    assert "2nd of 3 users by GPU-hours short of the target (1st: most)." in said
    assert "2nd of 3 users by OFU (1st: highest)." in said
    assert "The job with the most to gain is a/1 train-ada: 16 GPU-hours (32 USD)." in said
    assert "bob" not in said
    assert "eve" not in said


def test_who_is_above_the_target_is_told_that() -> None:
    said = text(first(name="eve"), 20)
    assert "That is better than the target, by 8.0 GPU-hours." in said
    assert "Most is to be had" not in said


@every(
    [
        (1, "1st"),
        (2, "2nd"),
        (3, "3rd"),
        (4, "4th"),
        (11, "11th"),
        (13, "13th"),
        (21, "21st"),
        (112, "112th"),
    ]
)
def test_places_are_written_as_people_say_them(number: int, said: str) -> None:
    assert place(Rank(place=number, of=200)) == f"{said} of 200"


def test_equal_advice_on_jobs_of_one_name_is_given_once() -> None:
    jobs = [job(str(number), "ada", JobSums(8, 8, 1)) for number in range(20)]
    said = text(first(*jobs), 5)
    assert said.count("Usual reasons are") == 1
    assert "train-ada (and 19 more of this name): OFU 12.5%" in said
    assert "and 15 more, with less waste or exempt." in said


def test_exempt_jobs_are_said_to_be_so() -> None:
    said = text(first(exempt={"partitions": ["gpu"]}), 20)
    assert "exempt: its partition is exempt" in said
    assert "Exempt jobs have 16 of them; there is no advice on these." in said


def test_what_is_not_known_is_a_dash_and_no_zero() -> None:
    said = text(first(job("1", "ada", JobSums(80))), 20)
    assert "OFU -; the target is 40.0%." in said
    assert "OFU was not measured in 100.0% of these GPU-hours; it is not counted as 0." in said
    assert "They fell" not in said
    assert "That is better" not in said


def test_simulated_values_are_said_to_be_so_before_anything_else() -> None:
    made = digest(mark="SIMULATED, no GPU was measured. ")
    assert text(made, 20).startswith("SIMULATED, no GPU was measured.")
    assert subject(made).startswith("[SIMULATED] ")
    assert "SIMULATED" not in text(digest(), 20)


def test_an_account_is_told_whose_jobs_they_are() -> None:
    made = digest().model_copy(update={"by": "account", "name": "lab"})
    assert "  user  " in text(made, 20)
    assert "  user  " not in text(digest(), 20)


@every([HOSTILE, "\x1b[31m", "a\nb", "x" * 5000, "\ud800"])
def test_no_name_is_obeyed_or_fills_the_screen(name: str) -> None:
    made = digest(name)
    assert len(subject(made)) < 160
    for line in [subject(made), *text(made, 20).split("\n")]:
        assert line.isprintable()
    assert text(made, 20).count("\n") == text(digest(), 20).count("\n")


def test_the_site_says_whom_to_ask() -> None:
    made = first(contact="Ask gpu@example.org.\nOr call.")
    assert text(made, 20).endswith("\n\nAsk gpu@example.org.\nOr call.")
    assert "<div>Ask gpu@example.org.</div>\n<div>Or call.</div>" in page(made, 20)


def test_it_says_what_went_to_idle_engines() -> None:
    split = JobSums(80, 80, 16, lost={"no_tensor": 44.0, "idle": 20.0})
    (found,) = of(job("1", "ada", split))
    said = text(found, 5)
    assert "Of 80 measured GPU-hours 25.0% went to idle engines" in said
