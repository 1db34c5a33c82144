"""What is said to do about a job follows from what is known of it, in the words of `explain` and the alerts."""

from __future__ import annotations

from pathlib import Path

from ofu_exporter.fleet.digest import advice
from ofu_exporter.fleet.digest.config_file import DigestConfig
from ofu_exporter.fleet.digest.signs import JobSigns
from ofu_exporter.fleet.history.fleet_history import JobSums
from ofu_exporter.flops.causes import MfuCause, Side, causes
from tests.fleet.reports.test_fleet_report import history, job, report
from tests.helpers.digests import of
from tests.helpers.every import every

NOTHING = JobSigns()
FINE = JobSums(80, 80, 40, 80, 40, 40)
"""OFU and MFU of 50 %, and the aim is 40 %."""


def said(
    sums: JobSums,
    signs: JobSigns = NOTHING,
    target: float | None = 0.4,
    slower: str = "",
    **known: object,
) -> dict[str, str]:
    fleet = report(history(job("1", "ada", sums, **known)))
    told = advice.of_job(fleet.jobs[0], signs, target, 0.6, fleet, slower)
    return {each.kind: each.text for each in told}


def test_of_a_job_that_does_well_nothing_is_said() -> None:
    assert said(FINE, JobSigns(clock=0.74, compared={1, 2, 3}), verdicts={"agree": 1.0}) == {}


def test_a_job_that_holds_gpus_and_computes_nothing_is_told_so_and_no_more() -> None:
    found = said(JobSums(80, 80, 0, idle=80))
    assert set(found) == {"idle"}
    assert found["idle"].startswith("It held 80 GPU-hours and computed nothing in them.")


def test_a_job_with_one_idle_gpu_of_eight_is_told_which_one() -> None:
    signs = JobSigns(idle_gpus={("n7", "3"): {*range(10)}})
    found = said(JobSums(80, 80, 40, idle=10), signs)["idle"]
    assert found.startswith("In 10 of its 80 GPU-hours a GPU computed nothing")
    assert "GPU 3 of n7 (10 hours)" in found
    assert "It held" not in found


def test_of_many_idle_gpus_the_three_that_were_idle_longest_are_named() -> None:
    signs = JobSigns(idle_gpus={("n7", str(gpu)): {*range(gpu)} for gpu in range(1, 6)})
    named = "GPU 5 of n7 (5 hours), GPU 4 of n7 (4 hours), GPU 3 of n7 (3 hours) and 2 more."
    assert named in said(JobSums(80, 80, 40, idle=15), signs)["idle"]


@every(
    [
        (2.0, 80.0, []),
        (3.0, 80.0, ["one GPU was slower"]),
        (2.0, 79.3, []),
        (2.0, 79.1, ["1.1% of"]),
    ]
)
def test_what_is_not_known_of_the_jobs_is_said(
    gpus: float, measured: float, told: list[str]
) -> None:
    """Whether one of three GPUs is slower, and more than one hour in a hundred without an OFU."""
    (made,) = of(job("1", "ada", JobSums(80, measured, 40), sizes={gpus: 1.0}))
    remarks = [*advice.remarks(made.total, made.jobs)]
    assert len(remarks) == len(told)
    assert all(words in remark for words, remark in zip(told, remarks, strict=True))


@every([(0.0, False), (7.9, False), (8.0, True)])
def test_a_little_idle_time_is_no_matter(idle: float, is_told: bool) -> None:
    assert ("idle" in said(JobSums(80, 80, 40, idle=idle))) == is_told


@every([(0.9, False), (1.0, True)])
def test_nor_is_less_than_an_hour_of_a_short_job(idle: float, is_told: bool) -> None:
    assert ("idle" in said(JobSums(2, 2, 1, idle=idle))) == is_told


@every([(71, "In 71 of its 80 GPU-hours"), (72, "It held 72 GPU-hours and computed nothing")])
def test_a_job_that_was_idle_for_nine_tenths_is_told_as_a_whole(idle: float, words: str) -> None:
    signs = JobSigns(idle_gpus={("n7", "3"): {*range(10)}})
    assert said(JobSums(80, 80, 4, idle=idle), signs)["idle"].startswith(words)


def test_nobody_is_told_to_end_a_job_that_pauses_now_and_then() -> None:
    """Of no GPU a whole hour is known to be idle."""
    found = said(JobSums(80, 80, 40, idle=12))["idle"]
    assert found.startswith("In 12 of its 80 GPU-hours a GPU computed nothing, for five minutes")
    assert "end it" not in found


def test_words_on_idle_jobs_are_those_of_the_alert() -> None:
    alert = Path(__file__).parents[3] / "helm/ofu-exporter/files/alerts/gpus-idle.yaml"
    words = " ".join(alert.read_text().split())
    common = "may have asked for more GPUs than it uses, or be an idle interactive session"
    assert common in words
    assert common in said(JobSums(80, 80, 0, idle=80))["idle"]


@every(causes(), lambda cause: cause.slug)
def test_a_cause_is_told_in_its_own_words(cause: MfuCause) -> None:
    above = cause.side is Side.REPORT
    sums = JobSums(80, 80, 40, 80, 64 if above else 20, 40)
    verdict = "mfu_above_ofu" if above else "mfu_below_ofu"
    (found,) = said(sums, verdicts={verdict: 1.0}, causes={cause.slug: 1.0}).values()
    assert cause.meaning in found
    assert ("Then nothing has to be corrected" in found) != above
    assert f"`ofu-exporter explain --mfu {'80.0%' if above else '25.0%'} --ofu 50.0%`" in found


def test_two_causes_are_told_both_and_an_unknown_one_is_not_made_up() -> None:
    sums, verdicts = JobSums(80, 80, 40, 80, 64, 40), {"mfu_above_ofu": 1.0}
    both = said(sums, verdicts=verdicts, causes={"sparse_peak+activation_recompute": 1.0})["report"]
    assert "2:4 sparse matrices" in both
    assert "recompute activations" in both
    for cause in ("none", "of_another_version", "<b>"):
        found = said(sums, verdicts=verdicts, causes={cause: 1.0})["report"]
        assert "No likeliest cause is known" in found
        assert cause not in found or cause == "none"


@every([(40.5, "agree"), (39.5, "agree"), (45.0, None), (35.0, "insufficient_data")])
def test_of_a_report_that_no_agent_calls_wrong_nothing_is_said(
    mfu: float, verdict: str | None
) -> None:
    verdicts = {verdict: 1.0} if verdict else {}
    assert said(JobSums(80, 80, 40, 80, mfu, 40), verdicts=verdicts) == {}


def test_whoever_reports_nothing_is_told_what_reports_are_for() -> None:
    silent, reporting = job("1", "ada", JobSums(80, 80, 40)), job("2", "ada", FINE)
    assert [len(made.advice) for made in (*of(silent), *of(reporting), *of(silent, reporting))] == [
        *(1, 0, 0)
    ]
    exempt = DigestConfig.model_validate({"exempt": {"users": ["ada"]}})
    (made,) = of(silent, config=exempt)
    assert made.advice == []


def test_a_verdict_that_the_sums_of_the_whole_time_contradict_is_not_told() -> None:
    sums = JobSums(80, 80, 40, 80, 39, 40)
    assert said(sums, verdicts={"mfu_above_ofu": 1.0}) == {}


def test_what_a_trace_showed_is_told() -> None:
    assert said(FINE, findings={"data_loader": 0.255, "host_bound": 0.1}) == {
        "trace": "Traces of it show what cost up to 25.5% of their time: data_loader. docs/where.md says what helps, "
        "and the job's page what proves it."
    }


def test_a_twentieth_of_the_time_of_traces_is_told() -> None:
    assert set(said(FINE, findings={"host_bound": 0.05})) == {"trace"}


@every([{"<b>": 0.5}, {"host_bound": 0.049}])
def test_what_is_no_finding_or_a_small_one_is_not_told(findings: dict[str, float]) -> None:
    assert said(FINE, findings=findings) == {}


@every([(20, 0.4, True), (40, 0.4, False), (20, None, False)])
def test_a_low_ofu_is_told_where_an_aim_is_known(
    ofu: float, target: float | None, is_told: bool
) -> None:
    assert ("low_ofu" in said(JobSums(80, 80, ofu), target=target)) == is_told


def test_what_was_not_measured_is_not_low() -> None:
    assert said(JobSums(80)) == {}


@every([(0.59, True), (0.6, False), (None, False)])
def test_a_low_clock_is_told(clock: float | None, is_told: bool) -> None:
    assert ("low_clock" in said(FINE, JobSigns(clock=clock))) == is_told


@every([(2, 3, True), (1, 1, False), (2, 4, False), (0, 9, False), (0, 0, False)])
def test_slow_gpus_are_told_when_it_is_most_of_the_time(
    slow: int, compared: int, is_told: bool
) -> None:
    signs = JobSigns(slow=set(range(slow)), compared=set(range(compared)))
    found = said(FINE, signs)
    assert ("slow_gpu" in found) == is_told
    if is_told:
        assert found["slow_gpu"].startswith("In 2 of 3 hours")


def test_a_low_ofu_is_told_with_what_the_job_lost_most_to_and_a_command_to_copy() -> None:
    lost = {"no_tensor": 10.0, "idle": 40.0, "clock": 14.0}
    found = said(JobSums(80, 80, 16, lost=lost))["low_ofu"]
    assert "Its largest loss is idle (50.0%). GPUs wait for their host" in found
    fleet = report(history())
    time = f"--since {fleet.time.hours}h --until {fleet.time.end}"
    command = f"`ofu-exporter fleet job 1 --prometheus {fleet.server} {time}`"
    assert f"{command} draws it over time." in found


def test_a_sure_regression_is_told_with_a_command_and_its_low_ofu_is_not_told_again() -> None:
    words = "OFU 41.0% before 2026-11-09, 20.5% after it (sure)."
    found = said(JobSums(80, 80, 16), slower=words)
    assert set(found) == {"regression"}
    assert found["regression"].startswith(f"{words} Compare what changed that day")
    assert "`ofu-exporter fleet job 1 --prometheus" in found["regression"]
    assert "Usual reasons" not in found
    assert "Usual reasons are data loading" in said(JobSums(80, 80, 16))["low_ofu"]


def test_what_jobs_may_have_held_while_their_nodes_were_away_is_said() -> None:
    (made,) = of(job("1", "ada", FINE, away=6.4), job("2", "ada", FINE))
    *_, told = advice.remarks(made.total, made.jobs)
    assert told == "GPU-hours that nobody saw while nodes were away, by job: a/1 (at most 6.4)."
