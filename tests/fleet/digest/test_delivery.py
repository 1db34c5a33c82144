"""A name leads to one address, or to none: never to somebody else's."""

from __future__ import annotations

import base64
import socket
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.digest.config_file import ADDRESS, SendConfig
from ofu_exporter.fleet.digest.delivery import (
    AddressBook,
    AppriseSender,
    DigestFate,
    DigestSender,
    NoAddressError,
    delivered,
    planned,
)
from tests.doubles.hook_server import HookAnswer, hook_server
from tests.doubles.mail_server import PASSWORD, USER, MailServer, mail_server
from tests.helpers.certificates import Certificates
from tests.helpers.digests import HOSTILE, digest, many
from tests.helpers.every import every

BY_PATTERN = AddressBook(SendConfig(url="mailto://mx", to="{name}@example.org"))


def config(path: Path, text: str, **more: object) -> SendConfig:
    file = path / "addresses.yaml"
    file.write_text(text)
    return SendConfig.model_validate({"url": "mailto://mx", "addresses": file, **more})


@every(["ada", "Ada.Lovelace", "svc_7", "a+b"])
def test_a_plain_name_is_put_into_the_pattern(name: str) -> None:
    assert BY_PATTERN.of(name) == f"{name}@example.org"


@every(
    [
        *("", "eve@evil.example", "ada,eve", "ada eve", "<ada>", '"ada"', "-f", ".ada"),
        *(
            "ada\r\nBcc: x",
            "ada\x00",
            "ä",
            "x" * 300,
            HOSTILE,
            "{name}",
            "ada%eve",
            "../ada",
            "ada!eve",
        ),
    ]
)
def test_a_name_that_would_lead_elsewhere_has_no_address(name: str) -> None:
    with pytest.raises(NoAddressError, match="no address is made of"):
        BY_PATTERN.of(name)


@every(["ada.", "a..b"])
def test_a_name_that_makes_no_address_has_none(name: str) -> None:
    with pytest.raises(NoAddressError, match="does not make a valid address"):
        BY_PATTERN.of(name)


@given(st.text(st.characters(codec="utf-8")))
def test_every_address_that_a_pattern_gives_is_of_its_domain(name: str) -> None:
    try:
        made = BY_PATTERN.of(name)
    except NoAddressError:
        return
    assert ADDRESS.fullmatch(made)
    assert made == f"{name}@example.org"
    assert made.count("@") == 1


def test_the_file_goes_before_the_pattern_and_can_say_none(tmp_path: Path) -> None:
    text = "ada: lovelace@example.com\n'eve@x': eve@example.com\nbob:\n"
    book = AddressBook(config(tmp_path, text, to="gpu-{name}@example.org"))
    assert book.of("ada") == "lovelace@example.com"
    assert book.of("eve@x") == "eve@example.com"
    assert book.of("carol") == "gpu-carol@example.org"
    with pytest.raises(NoAddressError, match="has none") as raised:
        book.of("bob")
    assert raised.value.is_wish


def test_without_a_pattern_only_the_file_counts(tmp_path: Path) -> None:
    with pytest.raises(NoAddressError, match="not in the file"):
        AddressBook(config(tmp_path, "ada: a@example.com")).of("carol")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("on: a@example.org", "put it in quotes"),
        ("ada: '@nobody'", "'ada' has no address"),
        ('ada: "a@example.org\\nBcc: b@example.org"', "'ada' has no address"),
        ("ada: [a@example.org]", "'ada' has no address"),
        ("ada: a@example..org", "'ada' has no address"),
        ("- ada", "the top level"),
        ("ada: a@x.org\nada: b@x.org", "line 2: a key is there twice"),
    ],
)
def test_a_file_of_addresses_that_cannot_be_used_is_one_line(
    text: str, why: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as raised:
        AddressBook(config(tmp_path, text))
    assert why in str(raised.value)


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates") / "made")


def server_tls(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.cert, certificates.key)
    return context


def secret_file(folder: Path, text: str) -> Path:
    path = folder / "url"
    path.touch(0o600)
    path.write_text(f"{text}\n")
    return path


def sender(url: str, seconds: float = 20.0, **more: Any) -> DigestSender:
    return DigestSender(SendConfig(url=url, **more), 20, seconds)


def by_mail(server: MailServer, **more: Any) -> DigestSender:
    url = f"mailto://127.0.0.1:{server.port}?from=gpu@example.org&to={{to}}"
    return sender(url, **{"to": "{name}@example.org", **more})


def results(by: DigestSender, *names: str) -> dict[str, DigestFate]:
    return {each.digest.name: each for each in delivered(many(*names), by)}


def test_a_mail_has_the_page_and_its_words_as_text() -> None:
    with mail_server() as server:
        assert by_mail(server).send(digest()) == ""
    (mail,) = server.taken
    assert (mail.to, mail.sender) == (["ada@example.org"], "gpu@example.org")
    assert mail.content["Subject"] == "GPU use of ada, 2024-10-04 to 2024-10-06: OFU 23.3%"
    plain, html = mail.content.iter_parts()
    assert "2 jobs held 120 GPU-hours" in plain.get_content()
    assert html.get_content_type() == "text/html"
    assert "<h1" in html.get_content()
    assert "2 jobs held 120 GPU-hours" in html.get_content()


def test_a_chat_gets_a_few_lines() -> None:
    with hook_server() as server:
        assert sender(server.url.replace("http", "json", 1)).send(digest()) == ""
    (posted,) = server.got
    assert posted["title"] == "GPU use of ada, 2024-10-04 to 2024-10-06: OFU 23.3%"
    assert "2 jobs held 120 GPU-hours" in posted["message"]
    assert "\n- a/2 train-ada: It reports an MFU" in posted["message"]


def test_no_name_calls_anybody_in_a_chat() -> None:
    """Mattermost and Discord read @here, Slack <!here>."""
    with hook_server() as server:
        url = server.url.replace("http", "json", 1)
        assert sender(url).send(digest("@everyone <!here> ada@b.org")) == ""
    (posted,) = server.got
    for part in (posted["title"], posted["message"]):
        assert "@\u200beveryone <!\u200bhere> ada@\u200bb.org" in part


def in_base64(*texts: str) -> list[str]:
    """As AUTH LOGIN and AUTH PLAIN send them (RFC 4616)."""
    return [base64.b64encode(text.encode()).decode() for text in texts]


def test_a_login_over_tls_with_the_password_of_a_file(
    certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    with mail_server(starttls=server_tls(certificates)) as server:
        login = f"{USER}:{quote(PASSWORD, safe='')}"
        url = f"mailtos://{login}@127.0.0.1:{server.port}?from=gpu@example.org&to={{to}}"
        config = SendConfig(
            url_file=secret_file(tmp_path, f"{url}&mode=starttls"), to="{name}@example.org"
        )
        assert DigestSender(config, 20).send(digest()) == ""
        for form in (PASSWORD, *in_base64(PASSWORD, f"\0{USER}\0{PASSWORD}")):
            server.refused["ada@example.org"] = f"550 login={form} is too short"
            why = DigestSender(config, 20).send(digest())
            assert "login=... is too short" in why
    (mail,) = server.taken
    assert (mail.with_tls, mail.user) == (True, USER)


def test_tls_from_the_first_byte(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    with mail_server(tls=server_tls(certificates)) as server:
        url = f"mailtos://127.0.0.1:{server.port}?from=gpu@example.org&to={{to}}&mode=ssl"
        assert sender(url, to="{name}@example.org").send(digest()) == ""
    assert [mail.to for mail in server.taken] == [["ada@example.org"]]


def test_a_server_that_no_authority_signed_for_gets_nothing(certificates: Certificates) -> None:
    with mail_server(tls=server_tls(certificates)) as server:
        url = f"mailtos://127.0.0.1:{server.port}?from=gpu@example.org&to={{to}}&mode=ssl"
        why = sender(url, to="{name}@example.org").send(digest())
    assert "certificate verify failed" in why
    assert server.taken == []


def test_a_server_that_offers_no_tls_gets_no_password_and_nothing_else() -> None:
    with mail_server() as server:
        url = f"mailtos://{USER}:{PASSWORD}@127.0.0.1:{server.port}?from=gpu@example.org&to={{to}}"
        why = sender(f"{url}&mode=starttls", to="{name}@example.org").send(digest())
    assert "STARTTLS extension not supported by server" in why
    assert PASSWORD not in why
    assert server.taken == []


def test_one_that_fails_stops_no_other_and_says_why() -> None:
    with mail_server() as server:
        server.refused["bob@example.org"] = "550 5.1.1 no such\x1b[31m user"
        fates = results(by_mail(server), "ada", "bob", "eve")
    assert [each.fate for each in fates.values()] == ["sent", "not sent", "sent"]
    assert fates["bob"].fate == "not sent"
    assert "550" in fates["bob"].why
    assert "no such\\x1b[31m user" in fates["bob"].why.replace("\\\\", "\\")
    assert [mail.to for mail in server.taken] == [["ada@example.org"], ["eve@example.org"]]


def test_a_server_that_is_away_is_not_asked_for_everybody() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # which keeps the port from others; nobody listens there
        fates = results(by_mail(MailServer(port=deaf.getsockname()[1])), *"abcde")
    whys = [each.why for each in fates.values()]
    assert all("Connection refused" in why for why in whys[:3])
    assert whys[3:] == ["not tried after 3 failures in a row"] * 2
    with mail_server() as server:
        server.refused |= {f"{name}@example.org": "550 no such user" for name in "abde"}
        fates = results(by_mail(server), *"abcdef")
    assert [name for name, each in fates.items() if each.fate == "sent"] == ["c", "f"]


def test_a_server_that_never_answers_is_left() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        by = by_mail(MailServer(port=silent.getsockname()[1]), seconds=0.5)
        assert "it may have arrived" in by.send(digest())


def test_a_plan_sends_nothing_and_names_who_has_no_address(tmp_path: Path) -> None:
    addresses = tmp_path / "addresses.yaml"
    addresses.write_text("leave-me:\nada: lovelace@example.com\n")
    with mail_server() as server:
        plan = planned(many("ada", "leave-me", "a b"), by_mail(server, addresses=addresses))
        fates = {each.digest.name: each for each in plan}
        assert server.connections == 0
    assert fates["ada"].to == "mailto to lovelace@example.com"
    assert fates["ada"].fate == "would be sent"
    assert fates["leave-me"].fate == "not wanted"
    assert fates["a b"].fate == "not sent"


@every([HookAnswer(404, b"no s3cret-path here"), HookAnswer(503)])
def test_an_error_names_the_host_and_no_secret_of_the_url(answer: HookAnswer) -> None:
    with hook_server() as server:
        server.answers = [answer]
        url = f"{server.url.replace('http', 'json', 1)}-path?token=t0ken-of-all"
        by = sender(url)
        why = by.send(digest())
    assert by.to(digest()) == "json to 127.0.0.1"
    assert str(answer.status) in why
    away = sender(url).send(digest())
    assert "Connection refused" in away
    for each in (why, away):
        assert "s3cret" not in each
        assert "t0ken" not in each


def test_a_wrong_password_is_named_and_not_shown(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    with mail_server(starttls=server_tls(certificates)) as server:
        url = f"mailtos://{USER}:wr0ngpass@127.0.0.1:{server.port}?from=gpu@example.org&to={{to}}"
        by = sender(f"{url}&mode=starttls", to="{name}@example.org")
        why = by.send(digest())
        assert "535" in why
    assert "wr0ng" not in "".join([why, by.to(digest()), *capsys.readouterr()])


@pytest.mark.parametrize(
    "url", ["s3cret", "nosuch://s3cret", "json://", "mailto://s3cret:@?to=", "slack://s3cret"]
)
def test_a_url_that_cannot_be_used_is_refused_and_not_shown(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError) as raised:
        sender(url)
    assert "s3cret" not in "".join([str(raised.value), *capsys.readouterr()])


@every([("json://h/{to}", None), ("json://h", "{name}@example.org")])
def test_an_address_has_its_place_in_the_url(url: str, to: str | None) -> None:
    with pytest.raises(ConfigError, match="needs `to` or `addresses`"):
        sender(url, to=to)


@every(["mailtos://ada:geheim12@mail.example.org:465/?x=1", "jsons://t0ken@mail.example.org/a@b"])
def test_a_place_is_a_host_without_who_logs_in_there(url: str) -> None:
    assert AppriseSender(url).place("") == f"{url.partition(':')[0]} to mail.example.org"


@pytest.mark.parametrize(
    ("text", "mode", "why"), [("", 0o600, "like this one"), ("x", 0o644, "mode 0644")]
)
def test_a_file_of_the_url_that_cannot_be_used_is_refused(
    text: str, mode: int, why: str, tmp_path: Path
) -> None:
    path = secret_file(tmp_path, text)
    path.chmod(mode)
    with pytest.raises(ConfigError, match=why):
        DigestSender(SendConfig(url_file=path), 20)


@pytest.mark.parametrize(
    "name",
    [
        HOSTILE,
        *("ä" * 200, "\ud800", "x\x00\x1b[31m", "a" * 5000, "<!channel>"),
        "=?utf-8?q?=0d=0aBcc:_eve@example.org?=",
        "=?utf-8?b?DQpCY2M6IGV2ZUBleGFtcGxlLm9yZw==?=",
        "x =?utf-8?q?=0d=0a?= =?utf-8?q?Bcc:_eve@example.org?=",
    ],
    ids=lambda name: repr(name)[:20],
)
def test_no_name_makes_a_header_or_an_element(name: str) -> None:
    usual = {*("From", "To", "Subject", "Date", "Message-ID", "MIME-Version", "Content-Type")}
    with mail_server() as server:
        url = f"mailto://127.0.0.1:{server.port}?from=gpu@example.org&to=eve@example.org"
        assert sender(url).send(digest(name)) == ""
    (mail,) = server.taken
    assert mail.to == ["eve@example.org"]
    assert {*mail.content.keys()} - usual <= {"X-Application"}
    assert len(mail.content["Subject"]) < 200
    _, html = mail.content.iter_parts()
    assert "<script" not in html.get_content()
    assert "<!channel" not in html.get_content()
