"""The tests mirror the package: a test file stands in its room's folder and has the name of the file that it tests.

A module of some length has such a file, or stands here with what tests it.
"""

from __future__ import annotations

from pathlib import Path

from tests.helpers.every import every

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "ofu_exporter"

MIRROR_NO_ROOM = {
    "end_to_end": "the whole program, in a process of its own or hour after hour",
    "deploy": "what lies in deploy/ and helm/",
}
OF_THE_PROJECT = {
    "architecture",
    "doc_examples",
    "docs",
    "documents",
    "fast",
    "frozen",
    "groups",
    "layers",
    "limits",
    "mirror",
}
"""Tests at the top that are about no file of the package."""
OF_A_SUBJECT = {
    "cli/test_golden_output.py": "what commands print, each in every format",
    "cli/test_words.py": "what commands say of options that cannot be used",
    "client/test_words.py": "what the client says of mistakes",
    "cli/test_recipes.py": "recipes, through every command that reads one",
    "fleet/changes/test_golden_breaks.py": "all that judges a change, on series of many shapes",
    "fleet/pages/test_golden_edges.py": "texts of all reports, with each of their numbers changed",
    "fleet/digest/test_lines.py": "lines of a digest that are there for some jobs alone",
    "fleet/pages/test_golden_reports.py": "all forms of reports, digests and pages of jobs, of one fleet",
    "fleet/simulation/test_golden_fleet.py": "pages and report of one simulated fleet",
    "fleet/pages/test_zoom.py": "the script templates/zoom.js, in a browser",
    "fleet/test_words.py": "what is said of a server that does not answer as wanted",
    "flops/causes/test_cases.py": "all causes, on reports of public threads",
    "flops/causes/test_consistency.py": "all causes, on whatever a job may state",
    "flops/causes/test_golden_hypotheses.py": "all causes, on what may be known of jobs",
    "flops/causes/test_paper.py": "all causes, on the jobs of the paper",
    "flops/causes/test_recovery.py": "all causes, on jobs with known mistakes",
    "flops/test_bounds.py": "all configurations, however large what they say is",
    "flops/test_executed.py": "all families, against what torch executes",
    "flops/test_formulas.py": "all shapes, against the formulas written out",
    "flops/test_golden_changes.py": "all families, with each field of a configuration changed",
    "flops/test_golden_logs.py": "all readers of logs, on lines with each number changed",
    "flops/test_golden_counts.py": "all families and conventions, count by count",
    "flops/test_golden_terms.py": "all terms of all conventions, on all configurations",
    "flops/test_parameters.py": "all families, against published parameters",
    "flops/test_published_configs.py": "all families, on configurations that people bring",
    "flops/trace/test_independent_counts.py": "both passes of models, against another count",
    "sources/dcgm/test_soak.py": "all of the driver, under faults in any order",
    "hardware/test_golden_ratings.py": "the whole table of GPUs, and names of all kinds",
    "hardware/test_recorded.py": "formulas and tiles, on what a real card did",
    "jobs/test_golden_summaries.py": "what is said of a job's totals, each of them changed",
    "reports/test_golden_desk.py": "the tick and the book together, on stories of jobs",
    "reports/tail/test_frameworks.py": "all readers of logs, on what their frameworks print",
    "schedulers/test_golden_documents.py": "files and documents of all schedulers, part by part",
    "serving/test_golden_answers.py": "pages, JSON and terminal of one node",
    "serving/pages/test_golden_edges.py": "the status page, with each value of a node changed",
    "simulator/test_bottlenecks.py": "bounds of bottlenecks, on simulated kernels",
    "simulator/test_servers.py": "the three servers of the simulator",
    "sources/test_codes.py": "what the codes of NVIDIA's libraries stand for",
    "terminal/test_golden_edges.py": "all views, with each value of a node changed",
    "values/test_vocabulary.py": "the words of all labels, JSON and logs",
    "validation/test_golden_findings.py": "all that a validation says, of a simulated card",
    "traces/test_golden_traces.py": "profiles of all formats, part by part, and names of kernels",
    "traces/test_counters.py": "the time of a trace, beside the counters of the same seconds",
}
"""Tests of one subject in many files of a folder."""
AS_A_KIND = {
    "fleet/actions": "fleet/actions/test_actions.py",
    "flops/causes": "flops/causes/test_causes.py",
    "flops/conventions": "flops/test_conventions.py",
    "flops/families": "flops/test_executions.py",
    "flops/readers": "reports/tail/test_frameworks.py",
    "serving/metrics": "serving/test_page.py",
    "traces/findings": "traces/test_planted.py",
}
"""Folders whose files are of one kind, and the file that tests each of them."""
BY_OTHERS = {
    "agent/records.py": "agent/test_daemon.py",
    "cli/profile_time.py": "cli/test_profile.py",
    "client/slow_disk.py": "client/test_steps_file.py",
    "fleet/history/answers.py": "fleet/history/test_history.py",
    "fleet/history/dcgm_queries.py": "fleet/history/test_from_dcgm.py",
    "fleet/history/progress_reader.py": "deploy/test_progress.py",
    "fleet/history/queries.py": "fleet/history/test_history.py",
    "fleet/pages/tables.py": "fleet/pages/test_report_text.py",
    "fleet/simulation/job_hours.py": "fleet/simulation/test_server.py",
    "flops/trace/fitting.py": "flops/trace/test_making.py",
    "flops/trace/grouping.py": "flops/trace/test_making.py",
    "flops/trace/image_inputs.py": "flops/trace/test_transformer_inputs.py",
    "flops/trace/recorder.py": "flops/trace/test_execution.py",
    "traces/rank.py": "traces/test_job.py",
}
"""Longer modules that only a whole of several shows at work, and the test of that."""
LONG = 100
"""Lines from which on a module has a test file."""
ALWAYS = ("cli", "client", "traces/formats")
"""Folders whose files have one however short they are; so has each `driver.py`."""

TEST_FILES = sorted(path.relative_to(TESTS) for path in TESTS.rglob("test_*.py"))


def subject(test: Path) -> str:
    return test.stem.removeprefix("test_")


def is_of_a_file(test: Path) -> bool:
    """Whether there is a file, a folder or a program of the tests' own that it is named after."""
    folder, name = PACKAGE / test.parent, subject(test)
    whole_folder = name == test.parent.name and (folder / "__init__.py").exists()
    its_file = (folder / f"{name}.py").exists() or (folder / name / "__init__.py").exists()
    return whole_folder or its_file or (TESTS / test.parent / f"{name}.py").exists()


@every(TEST_FILES)
def test_a_test_file_has_the_name_of_what_it_tests(test: Path) -> None:
    if test.parts[0] in MIRROR_NO_ROOM or str(test) in OF_A_SUBJECT:
        return
    if test.parent == Path() and subject(test) in OF_THE_PROJECT:
        return
    assert is_of_a_file(test), f"{test}: there is no {test.parent}/{subject(test)}.py to test"


def its_test(module: Path) -> Path:
    return module.with_name(f"test_{module.name}")


@every(sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py")))
def test_a_longer_module_has_a_test_file_or_stands_above(module: Path) -> None:
    is_long = (PACKAGE / module).read_text().count("\n") >= LONG
    is_long |= str(module.parent) in ALWAYS or module.name == "driver.py"
    if (
        is_long
        and module.stem[:2] != "__"
        and str(module.parent) not in AS_A_KIND
        and str(module) not in BY_OTHERS
    ):
        own = its_test(module)
        assert (TESTS / own).exists(), f"{module} has no {own}; or say in BY_OTHERS what tests it"


def test_what_is_tested_by_others_is_there_and_has_no_file_of_its_own() -> None:
    for folder, test in AS_A_KIND.items():
        assert (PACKAGE / folder).is_dir(), folder
        assert Path(test) in TEST_FILES, test
    for module, test in BY_OTHERS.items():
        assert (PACKAGE / module).exists(), module
        assert its_test(Path(module)) not in TEST_FILES, module
        assert Path(test) in TEST_FILES, test


def test_every_exception_is_there_and_is_one() -> None:
    for name in OF_A_SUBJECT:
        assert Path(name) in TEST_FILES, name
        assert not is_of_a_file(Path(name)), name
    top = {subject(test) for test in TEST_FILES if test.parent == Path()}
    assert top >= OF_THE_PROJECT
    for name in OF_THE_PROJECT:
        assert not (PACKAGE / f"{name}.py").exists(), name
    for folder in MIRROR_NO_ROOM:
        assert not (PACKAGE / folder).exists(), folder


def test_every_folder_that_is_no_rooms_is_explained_to_contributors() -> None:
    folders = {path.name for path in TESTS.iterdir() if path.is_dir() and path.name[0] not in "._"}
    page = (TESTS.parent / "CONTRIBUTING.md").read_text()
    others = [name for name in folders if not (PACKAGE / name).exists()]
    assert "doubles" in others
    assert [name for name in others if f"`tests/{name}" not in page] == []


def test_a_file_that_tests_nothing_of_the_package_is_found() -> None:
    for name in ("ofu/test_tick.py", "flops/families/test_families.py", "test_settings.py"):
        assert is_of_a_file(Path(name)), name
    for name in ("ofu/test_tock.py", "tick/test_tick.py", "test_tick.py", "ofu/test_agent.py"):
        assert not is_of_a_file(Path(name)), name
