"""`fleet report` on a real Prometheus: it prints what is there, and says in one line what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ofu_exporter.cli import cli
from ofu_exporter.errors import ConfigError, QueryError
from ofu_exporter.fleet.reports.result import FleetReport
from tests.cli.conftest import JOB, NODE
from tests.doubles.query_server import Question, ServerAnswer, error, query_server, vector
from tests.helpers.impatience import impatient
from tests.helpers.prometheus_server import Prometheus
from tests.helpers.stored_fleet import BEGIN, ScheduledJob, pages, read_in, stored, stored_pages

UNTIL = ("--since", "4h", "--until", "2026-01-05T04:00Z")


def run(url: str, *flags: str) -> Result:
    return CliRunner().invoke(cli, ["fleet", "report", "--prometheus", url, *flags])


@pytest.mark.slow
@pytest.mark.prometheus
class TestOnARealPrometheus:
    def test_text_begins_with_what_matters(self, prometheus: Prometheus) -> None:
        result = run(prometheus.url, *UNTIL)
        assert result.exit_code == 0, result.output
        assert result.stdout.startswith("The fleet delivered 15.0% of its peak.")
        assert "1 job reports a higher MFU than the hardware allows" in result.stdout
        assert "Load helm/ofu-exporter/files/rules/*.yaml" in result.stdout

    def test_json_is_the_report(self, prometheus: Prometheus) -> None:
        found = FleetReport.model_validate_json(
            run(prometheus.url, *UNTIL, "--format", "json").stdout
        )
        (job,) = found.jobs
        assert (job.job_id, job.user, job.gpus) == ("7", "alice", 4.0)
        assert job.held_gpu_hours == pytest.approx(8, rel=0.02)
        assert job.error == pytest.approx(0.3, abs=1e-6)

    @pytest.mark.parametrize(("by", "names"), [("job", ["7"]), ("user", ["alice", "(no job)"])])
    def test_csv_has_a_row_for_each(
        self, prometheus: Prometheus, by: str, names: list[str]
    ) -> None:
        lines = run(prometheus.url, *UNTIL, "--format", "csv", "--by", by).stdout.splitlines()
        assert len(lines) == 1 + len(names)
        assert all(name in line.split(",") for name, line in zip(names, lines[1:], strict=True))

    @pytest.mark.parametrize(
        ("format_", "heading"),
        [("text", "What changed:"), ("markdown", "# What changed"), ("html", "What changed</h2>")],
    )
    def test_what_changed_stands_in_it_unless_it_is_unwanted(
        self, prometheus: Prometheus, format_: str, heading: str
    ) -> None:
        shown = run(prometheus.url, *UNTIL, "--format", format_).stdout
        assert heading in shown
        assert "There is too little data to say whether anything changed." in shown
        without = run(prometheus.url, *UNTIL, "--format", format_, "--no-changes").stdout
        assert "hat changed" not in without

    def test_a_folder_keeps_pages_and_leads_to_them(
        self, prometheus: Prometheus, tmp_path: Path
    ) -> None:
        for until in ("2026-01-05T03:00Z", "2026-01-05T04:00Z"):
            flags = ("--since", "2h", "--until", until, "--folder", str(tmp_path / "pages"))
            result = run(prometheus.url, *flags)
            assert result.exit_code == 0, result.output
            assert Path(result.stdout.strip()).read_text().count("What changed</h2>") == 1
        index = (tmp_path / "pages" / "index.html").read_text()
        names = [f"2026-01-05T0{hour}00Z_2026-01-05T0{hour + 2}00Z" for hour in (2, 1)]
        assert [index.index(f"{name}.html") for name in names] == sorted(
            index.index(f"{name}.html") for name in names
        )

    def test_what_a_file_says_has_changed_is_taken_instead(
        self, prometheus: Prometheus, tmp_path: Path
    ) -> None:
        path = tmp_path / "changes.json"
        asked = [*UNTIL, "--format", "json", "--least", "3", "--output", str(path)]
        made = CliRunner().invoke(cli, ["fleet", "changes", "--prometheus", prometheus.url, *asked])
        assert made.exit_code == 0, made.output
        shown = run(prometheus.url, *UNTIL, "--format", "json", "--changes", str(path)).stdout
        changes = FleetReport.model_validate_json(shown).changes
        assert changes is not None
        assert changes.least_factor == 3

    def test_a_file_is_written_instead(self, prometheus: Prometheus, tmp_path: Path) -> None:
        path = tmp_path / "report.md"
        result = run(prometheus.url, *UNTIL, "--format", "markdown", "--output", str(path))
        assert (result.exit_code, result.stdout) == (0, "")
        assert path.read_text().startswith("# Where the GPU-hours went\n")

    def test_progress_goes_to_standard_error(self, prometheus: Prometheus) -> None:
        result = run(prometheus.url, *UNTIL, "--progress", "--format", "json")
        assert "reading jobs: 0 of 4 hours" in result.stderr
        json.loads(result.stdout)

    def test_a_time_without_data_is_said_with_what_to_check(self, prometheus: Prometheus) -> None:
        result = run(prometheus.url, "--since", "4h", "--until", "2020-01-01")
        assert result.exit_code == 3
        assert "has no series of ofu-exporter from 2019-12-31T20:00:00Z" in result.stderr
        assert "fleet report --from dcgm-exporter" in result.stderr
        assert result.stdout == ""

    def test_half_an_hour_after_the_first_scrape_there_is_a_report_of_it(
        self, tmp_path: Path
    ) -> None:
        """No whole hour has passed, and no hourly rule has run; the rules of minutes have."""
        job = ScheduledJob("7", "alice", (NODE,), 0.0, 3, 0.3)
        target = [f"fleet:ofu_target:ratio 0.4 {BEGIN + 60 * at:.0f}" for at in range(30)]
        page = pages([NODE], [job], 0.5).replace(
            "# EOF", "\n".join(["# TYPE fleet:ofu_target:ratio gauge", *target, "# EOF"])
        )
        with stored_pages(tmp_path, page) as young:
            result = run(young.url, "--since", "14d", "--until", "2026-01-05T00:29:00Z")
        assert result.exit_code == 0, result.output
        assert "1 job on" in result.stdout
        assert "The rules are loaded" in result.stdout
        assert "Load helm" not in result.stdout
        assert "% of it covered" in result.stdout

    def test_a_time_that_has_not_come_is_not_taken_for_now(self, prometheus: Prometheus) -> None:
        result = run(prometheus.url, "--until", "2999-01-01")
        assert isinstance(result.exception, ConfigError)
        assert "--until: 2999-01-01 has not come yet" in str(result.exception)


@pytest.mark.slow
@pytest.mark.prometheus
def test_a_store_behind_the_server_that_is_away_is_a_part_that_was_not_read(tmp_path: Path) -> None:
    """Prometheus answers with what it has itself, and warns."""
    read_in(tmp_path, pages([NODE], [JOB], 4))
    away = [{"url": "http://127.0.0.1:1/read", "read_recent": True}]
    with stored(tmp_path, remote_read=away) as prometheus:
        result = run(prometheus.url, *UNTIL)
    assert result.exit_code == 4
    assert result.stdout.startswith("The fleet delivered 15.0% of its peak.")
    assert result.stdout.count("Not read: ") == 1
    assert (
        "Not read: some series, 2026-01-05T00:00:00Z to 2026-01-05T05:00:00Z: the server warns: remote_read: "
        in result.stdout
    )


def working(asked: Question) -> ServerAnswer:
    """Answers the time, and fails at whatever is asked of jobs."""
    if asked.form["query"] == "time()":
        data = {"resultType": "scalar", "result": [1767585600.0, "1767585600"]}
        return ServerAnswer(200, {"status": "success", "data": data})
    if "job:" in asked.form["query"]:
        return error(422, "execution", "expanding series: block is gone")
    if "build_info" in asked.form["query"]:
        row = {"metric": {}, "values": [[1767585600.0, "1"]]}
        return ServerAnswer(
            200, {"status": "success", "data": {"resultType": "matrix", "result": [row]}}
        )
    return vector()


def test_a_part_that_fails_is_named_and_the_rest_is_reported() -> None:
    with query_server(working) as server:
        result = run(server.url, "--since", "4h")
    assert result.exit_code == 4
    assert "Not read: jobs, " in result.stdout
    assert "block is gone" in result.stdout
    assert "the server's clock is" in result.stderr


@pytest.mark.slow
@impatient
def test_a_server_that_fails_is_not_said_to_have_no_series() -> None:
    def failing(asked: Question) -> ServerAnswer:
        return (
            working(asked) if asked.form["query"] == "time()" else error(500, "internal", "no disk")
        )

    with query_server(failing) as server:
        result = run(server.url, "--since", "2h")
    assert result.exit_code == 3
    assert "500 internal: no disk" in result.stderr
    assert "could not tell what it has" in result.stderr
    assert "has no series" not in result.stderr


@pytest.mark.slow
@impatient
def test_nobody_there_is_one_line() -> None:
    result = run("http://127.0.0.1:1")
    assert isinstance(result.exception, QueryError)
    assert "Check --prometheus" in str(result.exception)


def test_wrong_credentials_are_one_line_with_the_flags_to_look_at() -> None:
    with query_server(lambda _: ServerAnswer(401, b"Unauthorized")) as server:
        result = run(server.url)
    assert isinstance(result.exception, QueryError)
    assert "--bearer-token-file" in str(result.exception)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (
            ("--since", "2 weeks"),
            "--since must be from 1h to 5 years, such as 12h, 14d or 4w: '2 weeks'",
        ),
        (("--since", "10m"), "from 1h to 5 years"),
        (("--until", "1970-01-02"), "less --since is before 1970"),
        (("--until", "yesterday"), "--until must be a time such as 2026-11-22T12:00: 'yesterday'"),
        (("--target", "41"), "target"),
        (("--prices", "/nonexistent"), "prices /nonexistent"),
        (("--output", "/nonexistent/report"), "--output: /nonexistent/report: No such file"),
        (("--bearer-token-file", "/nonexistent"), "bearer token file"),
        (("--changes", "/nonexistent"), "--changes: /nonexistent: No such file"),
        (("--changes", "x", "--no-changes"), "--changes and --no-changes exclude each other"),
        (
            ("--changes", "x", "--format", "csv"),
            "--changes goes with --format text, html, markdown, json",
        ),
    ],
)
def test_flags_that_cannot_be_used_are_refused(flags: tuple[str, ...], why: str) -> None:
    with query_server(working) as server:
        result = run(server.url, *flags)
    assert isinstance(result.exception, ConfigError)
    assert why in str(result.exception)


def test_parquet_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with query_server(working) as server:
        result = run(server.url, "--since", "4h", "--format", "parquet")
    assert isinstance(result.exception, ConfigError)
    assert "pip install 'pyarrow>=15'" in str(result.exception)
