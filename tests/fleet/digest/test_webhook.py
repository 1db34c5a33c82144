"""Digests are posted to a real HTTP server: as JSON, or as a text that calls nobody's channel."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.digest import webhook
from ofu_exporter.fleet.digest.config_file import WebhookConfig
from ofu_exporter.fleet.digest.delivery import delivered
from ofu_exporter.fleet.digest.result import Digest
from ofu_exporter.fleet.digest.sending import NotSentError
from ofu_exporter.fleet.digest.sent_file import SentFile
from ofu_exporter.fleet.digest.webhook import WebhookSender, slack_text
from tests.doubles.hook_server import HANGS_UP, HookAnswer, hook_server
from tests.helpers.certificates import Certificates
from tests.helpers.digests import digest, many


def sender(
    slept: list[float] | None = None, seconds: float = 20.0, **config: object
) -> WebhookSender:
    pauses = [] if slept is None else slept
    return WebhookSender(WebhookConfig.model_validate(config), 20, pauses.append, seconds)


def send(by: WebhookSender, one: Digest | None = None) -> None:
    one = one or digest()
    try:
        by.send(one, by.to(one))
    finally:
        by.close()


def fault(by: WebhookSender) -> NotSentError:
    with pytest.raises(NotSentError) as raised:
        send(by)
    assert "s3cret" not in str(raised.value)
    return raised.value


def test_json_is_the_whole_digest_with_its_name_and_text() -> None:
    one = digest(mark="SIMULATED, no GPU was measured. ")
    with hook_server() as server:
        send(sender(url=server.url), one)
    (got,) = server.got
    assert Digest.model_validate(got["digest"]) == one
    assert got["digest"]["name"] == "ada"
    assert got["subject"].startswith("[SIMULATED] ")
    assert got["text"].startswith("SIMULATED")
    assert server.paths == ["/hooks/s3cret"]


def test_slack_gets_a_text_and_nothing_else() -> None:
    with hook_server() as server:
        send(sender(url=server.url, format="slack"))
    (got,) = server.got
    assert set(got) == {"text"}
    assert "GPU use of ada" in got["text"]


@pytest.mark.parametrize("name", ["<!channel>", "<@U1>", "a&b", "x\n\n*all*", "y" * 9000])
def test_no_name_calls_a_channel_or_fills_it(name: str) -> None:
    said = slack_text(digest(name))
    assert "<" not in said
    assert ">" not in said
    assert len(said) <= 3000
    assert "x\n" not in said


def test_a_url_and_a_token_from_files(tmp_path: Path) -> None:
    with hook_server() as server:
        for file, text in (("url", server.url), ("token", "t0ken")):
            (tmp_path / file).touch(0o600)
            (tmp_path / file).write_text(f"{text}\n")
        by = sender(url_file=tmp_path / "url", token_file=tmp_path / "token")
        assert by.to(digest()) == "127.0.0.1"
        send(by)
    assert server.tokens == ["Bearer t0ken"]


def test_a_server_with_tls_is_believed_by_its_authority_alone(tmp_path: Path) -> None:
    made = Certificates(tmp_path / "made")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.cert, made.key)
    with hook_server(context) as server:
        send(sender(url=server.url, ca=made.ca))
        assert "certificate verify failed" in str(fault(sender(url=server.url)))
    assert len(server.got) == 1


def test_a_server_that_is_busy_is_asked_again_when_it_says() -> None:
    slept: list[float] = []
    with hook_server() as server:
        server.answers = [HookAnswer(429, headers=(("Retry-After", "7"),)), HookAnswer(503)]
        send(sender(slept, url=server.url))
    assert slept == [7.0, 1.0]
    assert len(server.got) == 3


@pytest.mark.parametrize(
    ("answer", "why", "is_uncertain", "is_down"),
    [
        (HookAnswer(429, headers=(("Retry-After", "9999"),)), "answers 429", False, False),
        (HookAnswer(400, b"no_text\x1b[31m"), "answers 400: no_text\\x1b[31m", False, False),
        (HookAnswer(404, b"no_service"), "answers 404", False, True),
        (
            HookAnswer(302, headers=(("Location", "http://elsewhere/"),)),
            "answers 302",
            False,
            False,
        ),
        (HookAnswer(504), "answers 504", True, True),
        (HANGS_UP, "without sending a response", True, True),
    ],
)
def test_whatever_is_no_success_says_why_and_what_is_known(
    answer: HookAnswer, why: str, is_uncertain: bool, is_down: bool
) -> None:
    with hook_server() as server:
        server.answers = [answer] * 3
        error = fault(sender(url=server.url))
    assert why in str(error)
    assert (error.is_uncertain, error.is_down) == (is_uncertain, is_down)


def test_nobody_there_is_known_not_to_have_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    error = fault(sender(url=f"http://127.0.0.1:{port}/hooks/s3cret"))
    assert (error.is_uncertain, error.is_down) == (False, True)


def test_a_server_that_never_answers_takes_limited_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        error = fault(sender(seconds=0.5, url=f"http://127.0.0.1:{port}/hooks/s3cret"))
    assert (error.is_uncertain, error.is_down) == (True, True)


@pytest.mark.parametrize("status", [200, 500])
def test_words_that_never_end_change_nothing_of_what_the_status_says(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "WORDS_SECONDS", 0.2)
    with hook_server() as server:
        server.answers = [HookAnswer(status, b"no" * 100, drips=True)]
        by = sender(url=server.url)
        if status == 200:
            send(by)
        else:
            error = fault(by)
            assert "answers 500" in str(error)
            assert not error.is_uncertain
    assert len(server.got) == 1


def test_a_digest_that_waited_for_another_in_vain_is_known_not_to_be_sent() -> None:
    with hook_server() as server:
        server.answers = [HookAnswer(200, drips_head=True)]
        by = sender(url=server.url, seconds=1.0)
        errors: list[NotSentError] = []
        for _ in range(2):
            with pytest.raises(NotSentError) as raised:
                by.send(digest(), by.to(digest()))
            errors.append(raised.value)
        by.close()
    first, second = errors
    assert (first.is_uncertain, first.is_down) == (True, True)
    assert (second.is_uncertain, second.is_down) == (False, True)
    assert len(server.got) == 1, "the second never left"


def told(notes: Path, url: str, *names: str) -> list[tuple[str, str, str]]:
    """What became of the digests of these users, and why."""
    by, sent = sender(url=url), SentFile(notes, 1e9, 1000.0)
    try:
        return [
            (each.digest.name, each.fate, each.why) for each in delivered(many(*names), [by], sent)
        ]
    finally:
        sent.close()
        by.close()


def test_each_digest_has_a_connection_of_its_own(tmp_path: Path) -> None:
    """This server takes one request of a connection, does not say so, and hangs up at the second."""
    with hook_server(one_a_connection=True) as server:
        server.answers = [HookAnswer(400), HookAnswer(400)]
        found = told(tmp_path / "sent", server.url, "ada", "bob", "eve", "joe")
    assert [fate for _, fate, _ in found] == ["not sent", "not sent", "sent", "sent"]
    assert all("answers 400" in why for _, _, why in found[:2])


def test_one_that_ends_without_an_answer_leaves_the_next_ones_as_they_were(tmp_path: Path) -> None:
    with hook_server() as server:
        server.answers = [HookAnswer(200), HANGS_UP, HookAnswer(200), HANGS_UP]
        found = told(tmp_path / "sent", server.url, "ada", "bob", "eve", "joe", "zoe")
    fates = [fate for _, fate, _ in found]
    assert fates == ["sent", "not known", "sent", "not known", "sent"]


def test_a_server_that_always_hangs_up_leaves_most_for_another_run(tmp_path: Path) -> None:
    with hook_server() as server:
        server.answers = [HANGS_UP] * 5
        found = told(tmp_path / "sent", server.url, "ada", "bob", "eve", "joe")
        assert [fate for _, fate, _ in found] == ["not known"] * 2 + ["not sent"] * 2
        assert "not tried: 127.0.0.1: Server disconnected" in found[-1][2]
        server.answers.clear()
        again = told(tmp_path / "sent", server.url, "ada", "bob", "eve", "joe")
    assert [fate for _, fate, _ in again] == ["not known"] * 2 + ["sent"] * 2


@contextlib.contextmanager
def resetting() -> Iterator[str]:
    """Reads a little of each request, and resets the connection: RST in the place of FIN, by SO_LINGER of no time."""

    def reset() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection = listening.accept()[0]
                connection.recv(1000)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        thread = threading.Thread(target=reset)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/hooks/s3cret"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_a_server_that_resets_before_it_had_all_is_known_not_to_have_it(tmp_path: Path) -> None:
    """The digests are larger than what the kernel takes on its own."""
    names = [letter * (8 << 20) for letter in "abc"]
    with resetting() as url:
        found = told(tmp_path / "sent", url, *names)
    assert [fate for _, fate, _ in found] == ["not sent"] * 3
    assert all("127.0.0.1: went away before it had all" in why for _, _, why in found)
    with hook_server() as server:
        again = told(tmp_path / "sent", server.url, *names)
    assert [fate for _, fate, _ in again] == ["sent"] * 3


def test_a_host_that_is_no_name_is_a_fault_and_no_fall() -> None:
    error = fault(sender(url="http://a..b/hooks/s3cret"))
    assert "a..b: cannot be posted" in str(error)
    assert not error.is_uncertain


def test_a_server_that_repeats_the_path_and_the_token_does_not_betray_them(tmp_path: Path) -> None:
    (tmp_path / "token").touch(0o600)
    (tmp_path / "token").write_text("t0ken&more\n")
    said = b"Cannot POST /hooks/s3cret. " + b"x" * 250 + b" /hooks/s3cret t0ken&amp;more t0ken&more"
    with hook_server() as server:
        server.answers = [HookAnswer(400, said)]
        error = fault(sender(url=server.url, token_file=tmp_path / "token"))
    assert "answers 400: Cannot POST /hooks/..." in str(error)
    assert "t0k" not in str(error)
    assert "s3c" not in str(error)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x/s3cret",
        "x",
        "http://",
        "http://a:s3cret@h/",
        "http://h h/s3cret",
        "http://h:65536/s3cret",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigError) as raised:
        sender(url=url)
    assert "s3cret" not in str(raised.value)
