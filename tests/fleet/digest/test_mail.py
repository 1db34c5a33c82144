"""Mail goes out by a real mail server: each for itself, once, and what fails says why."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.digest.config_file import MailConfig
from ofu_exporter.fleet.digest.mail import MailSender
from ofu_exporter.fleet.digest.sending import NotSentError
from tests.doubles.mail_server import PASSWORD, USER, MailServer, mail_server
from tests.helpers.certificates import Certificates
from tests.helpers.digests import HOSTILE, digest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates") / "made")


def server_tls(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.cert, certificates.key)
    return context


def password_file(folder: Path, text: str = PASSWORD) -> Path:
    path = folder / "password"
    path.touch(0o600)
    path.write_text(f"{text}\n")
    return path


def sender(server: MailServer, seconds: float = 20.0, **more: Any) -> MailSender:
    wanted = {
        "host": "127.0.0.1",
        "port": server.port,
        "tls": "none",
        "from": "gpu@example.org",
        "to": "{name}@example.org",
        **more,
    }
    return MailSender(MailConfig.model_validate(wanted), 20, seconds, 2 * seconds)


def send(by: MailSender, name: str = "ada") -> None:
    one = digest(name)
    by.send(one, by.to(one))


def fault(by: MailSender, name: str = "ada") -> NotSentError:
    with pytest.raises(NotSentError) as raised:
        send(by, name)
    return raised.value


def test_mails_go_out_over_one_connection() -> None:
    with mail_server() as server:
        by = sender(server)
        for name in ("ada", "bob"):
            send(by, name)
        by.close()
    assert [mail.to for mail in server.taken] == [["ada@example.org"], ["bob@example.org"]]
    assert {mail.sender for mail in server.taken} == {"gpu@example.org"}
    assert server.connections == 1
    assert server.taken[0].content["Subject"].startswith("GPU use of ada, ")


def test_starttls_and_a_login_from_a_file(certificates: Certificates, tmp_path: Path) -> None:
    with mail_server(starttls=server_tls(certificates)) as server:
        login: dict[str, Any] = {
            "user": USER,
            "password_file": password_file(tmp_path),
            "ca": certificates.ca,
        }
        by = sender(server, tls="starttls", **login)
        send(by)
        by.close()
    (mail,) = server.taken
    assert (mail.with_tls, mail.user) == (True, USER)


def test_tls_from_the_first_byte(certificates: Certificates) -> None:
    with mail_server(tls=server_tls(certificates)) as server:
        by = sender(server, tls="tls", ca=certificates.ca)
        send(by)
        by.close()
    assert [mail.to for mail in server.taken] == [["ada@example.org"]]


def test_a_server_that_nobody_vouches_for_gets_nothing(
    certificates: Certificates, tmp_path: Path
) -> None:
    with mail_server(starttls=server_tls(certificates)) as server:
        login: dict[str, Any] = {"user": USER, "password_file": password_file(tmp_path)}
        error = fault(sender(server, tls="starttls", **login))
        assert "certificate verify failed" in str(error)
        assert error.is_down
    assert server.taken == []


def test_a_server_without_starttls_gets_nothing() -> None:
    with mail_server() as server:
        error = fault(sender(server, tls="starttls"))
        assert "STARTTLS" in str(error)
        assert error.is_down
        assert not error.is_uncertain
    assert server.taken == []


def test_a_wrong_password_is_named_and_not_shown(
    certificates: Certificates, tmp_path: Path
) -> None:
    with mail_server(starttls=server_tls(certificates)) as server:
        login: dict[str, Any] = {"user": USER, "password_file": password_file(tmp_path, "wr0ng")}
        error = fault(sender(server, tls="starttls", ca=certificates.ca, **login))
        assert "refused: 535" in str(error)
        assert "wr0ng" not in str(error)
        assert error.is_down


def test_a_recipient_that_is_refused_costs_the_next_nothing() -> None:
    with mail_server() as server:
        server.refused["eve@example.org"] = "550 5.1.1 no such\x1b[31m user"
        by = sender(server)
        error = fault(by, "eve")
        assert str(error) == "refused: 550 5.1.1 no such\\x1b[31m user"
        assert not error.is_uncertain
        assert not error.is_down
        send(by, "ada")
        by.close()
    assert [mail.to for mail in server.taken] == [["ada@example.org"]]
    assert server.connections == 1


def test_a_mail_that_is_refused_as_a_whole_did_not_go_out() -> None:
    with mail_server() as server:
        server.answers["eve@example.org"] = "554 5.7.1 spam"
        by = sender(server)
        error = fault(by, "eve")
        assert "refused: 554" in str(error)
        assert not error.is_uncertain
        send(by, "ada")
        by.close()


@pytest.mark.parametrize("how", ["cut_off", "silent"])
def test_without_an_answer_to_the_mail_nobody_knows_and_the_next_goes_on(how: str) -> None:
    with mail_server() as server:
        getattr(server, how).add("eve@example.org")
        by = sender(server, seconds=1.0)
        error = fault(by, "eve")
        assert error.is_uncertain
        assert error.is_down == (how == "silent")
        send(by, "ada")
        by.close()
    assert server.taken[-1].to == ["ada@example.org"]


def test_a_server_that_is_busy_all_day_is_left_and_asked_anew() -> None:
    with mail_server() as server:
        server.answers["eve@example.org"] = "421 4.3.2 shutting down"
        by = sender(server)
        assert "refused: 421" in str(fault(by, "eve"))
        send(by, "ada")
        by.close()
    assert server.connections == 2


def test_a_server_that_takes_one_mail_on_each_connection_gets_all_of_them_once() -> None:
    with mail_server() as server:
        server.one_each = True
        by = sender(server)
        for name in ("ada", "bob", "eve"):
            send(by, name)
        by.close()
    assert [mail.to[0][:3] for mail in server.taken] == ["ada", "bob", "eve"]
    assert server.connections == 3


def test_nobody_there_is_one_line_and_nothing_went_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    error = fault(sender(MailServer(port=port)))
    assert "Connection refused" in str(error)
    assert error.is_down
    assert not error.is_uncertain


def test_a_server_that_never_says_a_word_takes_limited_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        error = fault(sender(MailServer(port=silent.getsockname()[1]), seconds=0.5))
    assert not error.is_uncertain


def test_a_greeting_that_comes_byte_by_byte_for_ever_ends_the_trying() -> None:
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as slow:

        def drip() -> None:
            connection, _ = slow.accept()
            with connection, suppress(OSError):
                while not ended.wait(0.05):
                    connection.send(b"2")

        thread = threading.Thread(target=drip)
        thread.start()
        error = fault(sender(MailServer(port=slow.getsockname()[1]), seconds=0.5))
        ended.set()
        thread.join()
    assert (error.is_uncertain, error.is_down) == (False, True)


@pytest.mark.parametrize(("refused", "slow_at"), [(True, b"RSET"), (False, b"QUIT")])
def test_an_answer_that_never_ends_after_the_mail_holds_up_nothing(
    refused: bool, slow_at: bytes
) -> None:
    """A timeout of the socket alone would wait anew for each byte."""
    ended, reached = threading.Event(), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as lines, suppress(OSError):
                connection.sendall(b"220 hi\r\n")
                for line in lines:
                    if line.upper().startswith(slow_at):
                        reached.set()
                        while not ended.wait(0.05):
                            connection.sendall(b"2")
                        return
                    starts = {b"RCPT": b"550" if refused else b"250", b"DATA": b"354"}
                    if line[:4].upper() in (b"EHLO", b"MAIL", b"RCPT", b"DATA", b".\r\n"):
                        connection.sendall(starts.get(line[:4].upper(), b"250") + b" x\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        by = sender(MailServer(port=listener.getsockname()[1]), seconds=1.0)
        if refused:
            assert "refused: 550" in str(fault(by))
        else:
            send(by)
        by.close()
        assert reached.is_set()
        ended.set()
        thread.join()


def test_a_hostile_name_that_has_an_address_sends_one_plain_mail(tmp_path: Path) -> None:
    names = tmp_path / "addresses.yaml"
    names.write_text(
        '"\\r\\nBcc: all@example.org\\r\\n<script>alert(1)</script>": eve@example.org\n'
    )
    with mail_server() as server:
        by = sender(server, addresses=names)
        send(by, HOSTILE)
        by.close()
    (mail,) = server.taken
    assert mail.to == ["eve@example.org"]
    assert mail.content["Bcc"] is None


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [("", 0o600, "is empty"), ("x", 0o644, "mode 0644"), ("ä", 0o600, "not ASCII")],
)
def test_a_password_file_that_cannot_be_used_is_refused(
    text: str, mode: int, why: str, tmp_path: Path
) -> None:
    path = password_file(tmp_path, text)
    path.chmod(mode)
    with pytest.raises(ConfigError, match=why):
        sender(MailServer(), tls="tls", user=USER, password_file=path)
