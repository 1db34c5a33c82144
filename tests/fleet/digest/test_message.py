"""The mail of a digest: text and page, and no name gets into its headers as more than shown text."""

from __future__ import annotations

import email
from email.message import EmailMessage
from email.policy import default

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ofu_exporter.fleet.digest.message import message
from ofu_exporter.fleet.digest.result import Digest
from tests.helpers.digests import HOSTILE, digest

HEADERS = {
    *("From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted"),
    *("MIME-Version", "Content-Type"),
}


def arrived(of: Digest, to: str = "ada@example.org") -> EmailMessage:
    """The mail as whoever receives it reads it."""
    content = message(of, "gpu@example.org", to, 20).as_bytes()
    assert max(map(len, content.split(b"\r\n"))) < 998
    assert b"\n" not in content.replace(b"\r\n", b"")
    assert content.isascii()
    return email.message_from_bytes(content, policy=default)


def test_a_mail_has_the_text_and_the_same_as_html() -> None:
    mail = arrived(digest())
    assert mail.get_content_type() == "multipart/alternative"
    plain, html = mail.iter_parts()
    assert plain.get_content_type() == "text/plain"
    assert "2 jobs held 120 GPU-hours" in plain.get_content()
    assert html.get_content_type() == "text/html"
    assert "2 jobs held 120 GPU-hours" in html.get_content()
    assert mail["Auto-Submitted"] == "auto-generated"
    assert (mail["From"], mail["To"]) == ("gpu@example.org", "ada@example.org")
    assert mail["Subject"] == "GPU use of ada, 2024-10-04 to 2024-10-06: OFU 23.3%"


def test_simulated_data_is_marked_in_subject_and_body() -> None:
    mail = arrived(digest(mark="SIMULATED, no GPU was measured. "))
    assert mail["Subject"].startswith("[SIMULATED] ")
    for part in mail.iter_parts():
        assert "SIMULATED, no GPU was measured." in part.get_content()


@pytest.mark.parametrize(
    "name", [HOSTILE, "ä" * 200, "\ud800", "x\x00\x1b[31m", "=?utf-8?q?Bcc?=", "a" * 5000]
)
def test_a_hostile_name_makes_no_header_and_no_element(name: str) -> None:
    mail = arrived(digest(name))
    assert set(mail.keys()) == HEADERS
    assert len(mail["Subject"]) < 200
    _, html = mail.iter_parts()
    assert "<script" not in html.get_content()


@pytest.mark.parametrize(
    "word",
    [
        "=?utf-8?q?=0d=0aBcc:_eve@example.org?=",
        "=?utf-8?b?DQpCY2M6IGV2ZUBleGFtcGxlLm9yZw==?=",
        "==?utf-8?q?=0aReply-To:_eve@example.org=0a=0aPay_here?=",
        "x =?utf-8?q?=0d=0a?= =?utf-8?q?Bcc:_eve@example.org?=",
    ],
)
def test_an_encoded_word_in_a_name_stays_what_it_is(word: str) -> None:
    mail = arrived(digest(word))
    assert set(mail.keys()) == HEADERS
    assert word.replace("=?", "= ?")[:50] in mail["Subject"]


@settings(max_examples=30)
@given(st.text())
def test_no_name_at_all_makes_a_header(name: str) -> None:
    if name:
        assert set(arrived(digest(name)).keys()) == HEADERS


def test_a_copy_has_the_same_id_and_other_digests_have_others() -> None:
    ids = [arrived(digest("ada"))["Message-ID"] for _ in range(2)]
    ids += [
        arrived(digest("eve"))["Message-ID"],
        arrived(digest("ada"), "b@example.org")["Message-ID"],
    ]
    assert len(set(ids)) == 3
    assert all(each.endswith("@example.org>") for each in ids)
