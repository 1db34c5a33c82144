"""A digest as text begins with what matters, shames nobody, and no name of others is obeyed by a terminal."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.digest.config_file import DigestConfig
from ofu_exporter.fleet.digest.digests import DigestSource, digests
from ofu_exporter.fleet.digest.result import Digest, Rank
from ofu_exporter.fleet.digest.text import (
    file_name,
    page,
    place,
    short,
    subject,
    text,
    to_do,
    write_digests,
)
from ofu_exporter.fleet.history.fleet_history import ClusterJob, JobHistory, JobSums
from tests.fleet.reports.test_fleet_report import history, job, report
from tests.helpers.browser import BROWSER, seen, violations, with_script
from tests.helpers.digests import HOSTILE, NO_SIGNS, digest, many, of
from tests.helpers.every import every
from tests.helpers.screenshots import LOOKS

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
    assert said.startswith("GPU use of ada, 2024-10-04 to 2024-10-0")
    assert "2 jobs held 120 GPU-hours (240 USD). OFU 23.3%; the target is 40.0%." in said
    assert "They fell 20 GPU-hours (40 USD) short of the target." in said
    assert "Where jobs report, MFU is 50.0%, and OFU over the same time 20.0%." in said
    assert "Likeliest: the peak is the one for 2:4 sparse matrices" in said


def test_places_are_told_with_what_would_help_and_without_anybody_elses_name() -> None:
    said = text(first(), 20)
    assert "2nd of 3 users by GPU-hours short of the target (1st: most)." in said
    assert "2nd of 3 users by OFU (1st: highest)." in said
    assert "The job with the most to gain is a/1 train-ada: 16 GPU-hours (32 USD)." in said
    assert "Exempt jobs" not in said
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


def test_each_user_of_an_account_has_advice_whatever_name_the_jobs_share() -> None:
    """And each cluster: the commands that the advice ends with differ."""
    jobs = [job(str(n), user, JobSums(80, 80, 0, idle=80)) for n, user in enumerate(("ada", "bob"))]
    for each, user in zip(jobs, ("ada", "bob"), strict=True):
        each.names = {("bash", user, "lab", "gpu", "", "slurm", ""): 3}
    jobs.append(replace(jobs[1], key=ClusterJob("b", "2")))
    source = DigestSource(report(history(*jobs), by="account"), NO_SIGNS, "")
    (lab,) = digests(source, "account", DigestConfig())
    assert [who for who, _ in to_do(lab)] == ["a/0 bash", "a/1 bash", "b/2 bash"]


def test_twelve_pieces_of_advice_are_given_and_five_in_a_few_lines() -> None:
    sums, others = JobSums(8, 8, 1), ("ada", "lab", "gpu", "", "slurm", "")
    jobs = [job(str(n), "ada", sums, names={(f"run {n}", *others): 3}) for n in range(20)]
    assert text(first(*jobs), 5).count("Usual reasons are") == 12
    assert short(first(*jobs)).count("Usual reasons are") == 5


def test_exempt_jobs_are_said_to_be_so() -> None:
    said = text(first(exempt={"partitions": ["gpu"]}), 20)
    assert "exempt: its partition is exempt" in said
    assert "Exempt jobs have 16 of them; there is no advice on these." in said


def test_exempt_jobs_above_the_target_have_none_of_what_is_short() -> None:
    names = {("notebook", "ada", "lab", "interactive", "", "slurm", ""): 3}
    good = job("2", "ada", JobSums(40, 40, 30), names=names)
    said = text(
        first(job("1", "ada", JobSums(100, 100, 10)), good, exempt={"partitions": ["inter.*"]}), 20
    )
    assert "They fell 16 GPU-hours (32 USD) short of the target.\n" in said
    assert "Exempt jobs have" not in said


def test_what_is_not_known_is_a_dash_and_no_zero() -> None:
    said = text(first(job("1", "ada", JobSums(80))), 20)
    assert "OFU -; the target is 40.0%." in said
    assert "OFU was not measured in 100.0% of these GPU-hours; it is not counted as 0." in said
    assert "They fell" not in said
    assert "That is better" not in said
    (row,) = (line for line in said.splitlines() if line.startswith("a/1"))
    assert row.split()[2:] == ["8", "80", "-", "40.0%", *"-----"]


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


@pytest.mark.parametrize(("gpu_hours", "is_said"), [(1.0, True), (0.9, False)])
def test_less_than_an_idle_gpu_hour_is_no_news(gpu_hours: float, is_said: bool) -> None:
    lost = {"no_tensor": 64 - gpu_hours, "idle": gpu_hours}
    said = text(first(job("1", "ada", JobSums(80, 80, 16, idle=gpu_hours, lost=lost))), 5)
    assert ("went to idle engines" in said, "nothing was computed" in said) == (is_said, is_said)


PHONE = 360
needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="needs Chromium, which tests/run installs on Debian"
)
SIMULATED = digest(mark="SIMULATED, no GPU was measured. ")


class Elements(HTMLParser):
    """The elements of a page, and their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@every(["ada", HOSTILE, "\"><img src=x onerror='x'>", "</style><script>"])
def test_nothing_runs_and_nothing_is_fetched_whatever_names_say(name: str) -> None:
    text = page(digest(name), 20)
    elements = Elements(text).found
    assert {tag for tag, _ in elements} <= {
        *("html", "head", "meta", "title", "style", "body", "div", "h1", "h2", "p", "b", "code"),
        *("ul", "li", "table", "thead", "tbody", "tr", "th", "td"),
    }
    names = {name for _, attributes in elements for name in attributes}
    assert not {each for each in names if each.startswith("on") or each in ("src", "href")}
    assert "url(" not in text
    assert len(elements) == len(Elements(page(digest(), 20)).found)


def test_every_element_has_its_style_so_that_it_is_readable_without_the_sheet() -> None:
    text = re.sub("<style>.*?</style>", "", page(digest(), 20))
    assert "background:#ffffff" in text
    assert all("style" in given for tag, given in Elements(text).found if tag in ("td", "th", "li"))


def test_simulated_values_are_marked_in_title_and_body() -> None:
    assert "<title>[SIMULATED] " in page(SIMULATED, 20)
    assert "SIMULATED, no GPU was measured." in page(SIMULATED, 20).partition("<body")[2]
    assert "SIMULATED" not in page(digest(), 20)


def test_a_thousand_jobs_are_no_large_mail() -> None:
    made = digest()
    whole = made.model_copy(update={"jobs": made.jobs * 500})
    assert len(page(whole, 20)) < 30_000
    assert "and 980 more" in page(whole, 20)


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing(look: str, tmp_path: Path) -> None:
    assert violations(page(SIMULATED, 20), tmp_path, look) == []


@needs_browser
@pytest.mark.slow
def test_it_fits_the_width_of_a_phone(tmp_path: Path) -> None:
    (made,) = many("ada-with-a-name-that-is-longer-than-most-names-are-anywhere-at-all")
    inner = tmp_path / "inner.html"
    measure = "parent.postMessage(String(document.documentElement.scrollWidth), '*')"
    inner.write_text(with_script(page(made, 20), measure))
    outer = tmp_path / "outer.html"
    outer.write_text(
        "<script>onmessage = told => document.title = told.data</script>"
        f'<iframe width="{PHONE}" height="900" src="{inner.as_uri()}"></iframe>'
    )
    width = re.findall("<title>(.*?)</title>", seen(outer))[0]
    assert 0 < int(width) <= PHONE


HOSTILE_NAMES = (
    "../x",
    "..",
    ".",
    "",
    "/etc/passwd",
    "a\x00b",
    "a\nb",
    "x" * 300,
    "\ud800",
    "~root",
    "-rf",
    "a b",
)


@every(["ada", "ada.lovelace", "svc_7", "x-1"])
def test_a_plain_name_is_the_name_of_its_file(name: str) -> None:
    assert file_name(name) == name


@every(HOSTILE_NAMES, repr)
def test_a_hostile_name_is_one_short_plain_part_of_a_path(name: str) -> None:
    made = file_name(name)
    assert PurePosixPath(made).name == made
    assert made.isascii()
    assert made.isprintable()
    assert len(made) <= len("~") + 40 + len(file_name("").partition("~")[2])
    assert made[0].isalnum()


def test_names_that_look_alike_have_files_of_their_own() -> None:
    names = [
        "../x",
        "..x",
        "x",
        "X",
        "x/",
        "x ",
        "x" * 300,
        "x" * 301,
        "Ada",
        "ada",
        *HOSTILE_NAMES,
    ]
    made = {file_name(name) for name in names}
    assert len(made) == len(set(names))


def test_nobody_takes_the_file_of_another_by_being_called_so() -> None:
    wanted = file_name("../x")
    assert file_name(wanted) != wanted


@given(st.text(), st.text())
def test_no_two_names_share_a_file(one: str, other: str) -> None:
    assert (file_name(one) == file_name(other)) == (one == other)


def test_everybody_has_a_text_and_a_page(tmp_path: Path) -> None:
    files = list(write_digests(many("ada", "../eve"), tmp_path / "new" / "out", 20))
    assert [each.fault for each in files] == [None] * 4
    found = sorted(path.name for path in (tmp_path / "new" / "out").iterdir())
    assert [name for name in found if name.startswith("ada")] == ["ada.html", "ada.txt"]
    assert len(found) == 4
    assert not (tmp_path / "new" / "eve.txt").exists()
    assert (tmp_path / "new" / "out" / "ada.txt").read_text().startswith("GPU use of ada, ")


def test_a_link_that_somebody_left_is_replaced_and_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / "out").mkdir()
    for name in ("ada.txt", "ada.txt.part"):
        (tmp_path / "out" / name).symlink_to(precious)
    assert [each.fault for each in write_digests(many("ada"), tmp_path / "out", 20)] == [None, None]
    assert precious.read_text() == "mine"
    assert not (tmp_path / "out" / "ada.txt").is_symlink()


def test_a_file_that_cannot_be_written_costs_no_other(tmp_path: Path) -> None:
    (tmp_path / "ada.txt").mkdir()
    files = {each.path.name: each.fault for each in write_digests(many("ada", "bob"), tmp_path, 20)}
    assert files.pop("ada.txt")
    assert files == {"ada.html": None, "bob.txt": None, "bob.html": None}
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["ada.txt", *files])


def test_a_folder_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"--output: .*file"):
        list(write_digests(many("ada"), tmp_path / "file" / "out", 20))
