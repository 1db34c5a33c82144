"""The report goes where `send` says: a few lines, by mail with the page, to every address whatever fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.digest.config_file import SendConfig
from ofu_exporter.fleet.digest.report_mail import ReportSender
from ofu_exporter.fleet.reports.result import FleetReport
from tests.doubles.hook_server import hook_server
from tests.doubles.mail_server import mail_server
from tests.fleet.pages.test_folder import ACTION, week

pytestmark = pytest.mark.slow


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "2026-01-02T0000Z_2026-01-02T0630Z.html"
    path.write_text("<h1>the page</h1>")
    return path


def simulated() -> FleetReport:
    made = week(1)
    action = ACTION.model_copy(update={"who": "notebook of marie\x1b[31m", "cost": 21.0})
    mark = "SIMULATED, no GPU was measured."
    changed = {"mark": mark, "headline": f"{mark} {made.headline}", "actions": [action]}
    return made.model_copy(update=changed)


def test_a_mail_says_what_to_do_first_and_has_the_page(page: Path) -> None:
    with mail_server() as server:
        server.refused["b@example.org"] = "550 5.1.1 no such user"
        url = f"mailto://127.0.0.1:{server.port}?from=gpu@example.org&to={{to}}"
        config = SendConfig(url=url, report_to=("a@example.org", "b@example.org", "c@example.org"))
        fates = list(ReportSender(config).send(simulated(), page))
    assert [bool(fate.why) for fate in fates] == [False, True, False]
    assert fates[1].to == "mailto to b@example.org"
    assert "550" in fates[1].why
    assert [mail.to for mail in server.taken] == [["a@example.org"], ["c@example.org"]]
    content = server.taken[0].content
    assert str(content["Subject"]).startswith(
        "[SIMULATED] GPU fleet, 2026-01-02 to 2026-01-02: OFU "
    )
    parts = {part.get_content_type(): part for part in content.walk()}
    text = parts["text/plain"].get_content()
    assert "SIMULATED, no GPU was measured." in text
    assert (
        "1. notebook of marie\\x1b[31m ran nothing (21 USD, 10 GPU-hours): No kernel ran. End it."
        in text
    )
    assert f"Page: {page}" in text
    assert parts["text/html"].get_filename() == page.name
    assert "the page" in parts["text/html"].get_content()


def test_a_chat_gets_the_lines_alone(page: Path) -> None:
    with hook_server() as server:
        url = server.url.replace("http", "json", 1)
        (fate,) = ReportSender(SendConfig(url=url)).send(simulated(), page)
    assert (fate.to, fate.why) == ("json to 127.0.0.1", "")
    (posted,) = server.got
    assert "1. notebook of marie" in posted["message"]
    assert not posted["attachments"]


@pytest.mark.parametrize(
    "config",
    [
        SendConfig(url="mailto://mx?to={to}"),
        SendConfig(url="json://mx", report_to=("a@example.org",)),
    ],
)
def test_addresses_and_a_url_without_a_place_for_them_are_refused(config: SendConfig) -> None:
    with pytest.raises(ConfigError, match="needs `report_to`"):
        ReportSender(config)
