"""Who may report, and for which job."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from ofu_exporter.errors import ConfigError, ReportError
from ofu_exporter.schedulers.kubernetes.pod_tokens import BURST, PodTokens
from ofu_exporter.serving import access
from ofu_exporter.serving.access import (
    CERTIFIED,
    PEER_UID,
    Access,
    SiteTokens,
    Warrant,
    Writer,
    read_tokens,
    sha256,
    why_not_from,
)
from ofu_exporter.values.job import Job
from ofu_exporter.values.reasons import ReportRejection
from tests.helpers.every import every
from tests.helpers.token_file import token_file

TOKEN = "0123456789abcdef"
OTHER = "fedcba9876543210"
JOB = Job("slurm", "7", token_sha256=hashlib.sha256(OTHER.encode()).hexdigest())


def request(
    peer: str | None = "127.0.0.1", token: str | None = None, scheme: str = "http", **headers: str
) -> dict[str, Any]:
    """A request from an address, or from the Unix socket where that is None."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    if token is not None:
        given["authorization"] = f"Bearer {token}"
    return {
        "scheme": scheme,
        "client": (peer, 40000) if peer else None,
        "server": ("192.0.2.1", 9846) if peer else ("/run/ofu.sock", None),
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }


def reason(access: Access, scope: dict[str, Any]) -> ReportRejection:
    with pytest.raises(ReportError) as refused:
        access.writer(scope)
    return refused.value.reason


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return token_file(tmp_path / "tokens", TOKEN)


# Where a request comes from.


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1", None])
def test_this_node_may_write(peer: str | None) -> None:
    assert Access().writer(request(peer)) == Writer(Warrant.LOCAL)


@pytest.mark.parametrize(
    "peer", ["192.0.2.1", "10.0.0.7", "2001:db8::1", "fe80::1%eth0", "::ffff:10.0.0.7", "::", "a"]
)
def test_nobody_else_may(peer: str) -> None:
    """192.0.2.1 is this node's own address here: what a router masks comes from such a one, too."""
    assert reason(Access(), request(peer)) is ReportRejection.NOT_LOCAL


def test_a_peer_that_has_gone_is_not_taken_for_the_unix_socket() -> None:
    """After a reset the system knows no address of it."""
    for server in (("192.0.2.1", 9846), None):
        gone = {**request(), "client": None, "server": server}
        assert reason(Access(), gone) is ReportRejection.NOT_LOCAL


@pytest.mark.parametrize("header", ["forwarded", "x_forwarded_for", "x_real_ip", "via", "origin"])
@pytest.mark.parametrize("peer", ["127.0.0.1", None])
def test_what_was_passed_on_is_not_local(header: str, peer: str | None) -> None:
    passed_on = request(peer, **{header: "192.0.2.9"})
    assert reason(Access(), passed_on) is ReportRejection.NOT_LOCAL


def test_a_certificate_that_the_connection_has_shown_lets_in() -> None:
    certified = request("10.0.0.7", scheme="https") | {"state": {CERTIFIED: True}}
    assert Access().writer(certified).warrant is Warrant.CERTIFICATE
    certified["state"] = {CERTIFIED: False}
    assert reason(Access(), certified) is ReportRejection.NOT_LOCAL
    assert reason(Access(), request("10.0.0.7", scheme="https")) is ReportRejection.NOT_LOCAL


def test_who_may_report_is_said_in_words(path: Path) -> None:
    assert Access().describe(None) == "this node"
    everything = with_pods(path, job_tokens=True).describe(Path("ca.pem"))
    assert everything == (
        f"this node with a token, whoever has a token of {path}, "
        "each pod for its own job by its token, whoever has a certificate by ca.pem"
    )


# The site's tokens.


def test_a_token_of_the_site_lets_in_from_everywhere(path: Path) -> None:
    access = Access(SiteTokens(path))
    for scope in (request("10.0.0.7", TOKEN), request("10.0.0.7", TOKEN, via="proxy")):
        writer = access.writer(scope)
        assert writer.warrant is Warrant.SITE_TOKEN
        assert writer.is_site
        access.may_speak_for(writer, JOB)


def test_without_one_or_with_another_nobody_from_elsewhere_gets_in(path: Path) -> None:
    access = Access(SiteTokens(path))
    assert reason(access, request("10.0.0.7")) is ReportRejection.NO_TOKEN
    for wrong in (OTHER, TOKEN[:-1], TOKEN + "0", TOKEN.upper(), "é" * 16):
        assert reason(access, request("10.0.0.7", wrong)) is ReportRejection.WRONG_TOKEN
    assert reason(Access(), request("10.0.0.7", TOKEN)) is ReportRejection.NOT_LOCAL


@pytest.mark.parametrize("value", [f"Basic {TOKEN}", "Bearer", "Bearer ", "", TOKEN])
def test_another_kind_of_authorization_is_a_wrong_one(path: Path, value: str) -> None:
    access = Access(SiteTokens(path))
    assert reason(access, request("10.0.0.7", authorization=value)) is ReportRejection.WRONG_TOKEN


def test_two_authorizations_are_a_wrong_one(path: Path) -> None:
    twice = request("10.0.0.7", TOKEN)
    twice["headers"] *= 2
    assert reason(Access(SiteTokens(path)), twice) is ReportRejection.WRONG_TOKEN


def test_the_scheme_is_written_as_one_likes(path: Path) -> None:
    scope = request("10.0.0.7", authorization=f"bEARER  {TOKEN} ")
    assert Access(SiteTokens(path)).writer(scope).warrant is Warrant.SITE_TOKEN


def test_a_token_for_own_pods_is_good_for_the_job_whose_pod_sends_it(tmp_path: Path) -> None:
    """Not for another's, nor by a proxy or the Unix socket, of which nobody knows whose pod uses it."""
    access = Access(SiteTokens(token_file(tmp_path / "tokens", f"{TOKEN} own-pod")))
    own = Job("kubernetes", "default/trainer", addresses=("10.0.0.7",))
    access.may_speak_for(access.writer(request("10.0.0.7", TOKEN)), own)
    another = Job("kubernetes", "default/other", addresses=("10.0.0.8",))
    unknown = Job("kubernetes", "default/new")
    for peer, job in (
        ("10.0.0.7", another),
        ("10.0.0.7", unknown),
        ("10.0.0.9", own),
        ("127.0.0.1", own),
        (None, own),
    ):
        with pytest.raises(ReportError, match=job.job_id) as refused:
            access.may_speak_for(access.writer(request(peer, TOKEN)), job)
        assert refused.value.reason is ReportRejection.NOT_YOURS


# Tokens of pods.

POD_TOKEN = "head.body.signature"


def with_pods(path: Path | None = None, job_tokens: bool = False) -> Access:
    """An agent whose API server knows one token: that of the pod ns/trainer-0."""

    async def pod_of(token: bytes, address: str) -> str | None:
        return "ns/trainer-0" if token == POD_TOKEN.encode() else None

    return Access(SiteTokens(path) if path else None, job_tokens, pod_of)


def admitted(access: Access, scope: dict[str, Any]) -> Writer:
    return asyncio.run(access.admitted(scope))


def test_a_pods_token_is_good_for_the_job_of_the_pod_wherever_it_comes_from() -> None:
    alone = Job("kubernetes", "ns/trainer-0", "trainer-0", namespace="ns")
    of_many = Job("kubernetes", "ns/run", "run", namespace="ns", aliases=("ns/trainer-0",))
    others = (
        Job("kubernetes", "ns/other", "other", namespace="ns", aliases=("ns/other-0",)),
        Job("kubernetes", "evil/trainer-0", "trainer-0", namespace="evil"),
        Job("slurm", "ns/trainer-0", "trainer-0", namespace="ns"),
    )
    for peer in ("10.0.0.7", "127.0.0.1", None):
        access = with_pods(job_tokens=True)
        writer = admitted(access, request(peer, POD_TOKEN))
        assert not writer.is_site
        for job in (alone, of_many):
            access.may_speak_for(writer, job)
        for job in others:
            with pytest.raises(ReportError, match="ns/trainer-0") as refused:
                access.may_speak_for(writer, job)
            assert refused.value.reason is ReportRejection.NOT_YOURS


def test_beside_pods_tokens_others_are_as_good_as_before(path: Path) -> None:
    access = with_pods(path)
    assert admitted(access, request("10.0.0.7", TOKEN)).warrant is Warrant.SITE_TOKEN
    assert admitted(access, request(None)).warrant is Warrant.LOCAL
    for scope, why in (
        (request("10.0.0.7"), ReportRejection.NO_TOKEN),
        (request("10.0.0.7", "head.forged.signature"), ReportRejection.WRONG_TOKEN),
        (request("10.0.0.7", OTHER), ReportRejection.WRONG_TOKEN),
    ):
        for agent in (access, with_pods()):
            with pytest.raises(ReportError) as refused:
                admitted(agent, scope)
            assert refused.value.reason is why


def test_a_site_token_of_a_pods_form_is_the_sites(tmp_path: Path) -> None:
    access = with_pods(token_file(tmp_path / "tokens", POD_TOKEN))
    assert admitted(access, request("10.0.0.7", POD_TOKEN)).is_site


def test_at_the_socket_a_user_who_shows_ever_new_tokens_costs_no_other_user_an_answer() -> None:
    """All pods are one address there, so each would pay for whoever forges tokens."""
    tokens = PodTokens(lambda token: "ns/trainer-0" if token == POD_TOKEN else None, lambda: 0.0)
    access = Access(pod_of=tokens.pod)

    def by(uid: int, token: str) -> dict[str, Any]:
        return {**request(None, token), "state": {PEER_UID: uid}}

    for number in range(BURST):
        assert admitted(access, by(1000, f"head.{number}.forged")).warrant is Warrant.LOCAL
    with pytest.raises(ReportError) as refused:
        admitted(access, by(1000, "head.one-more.forged"))
    assert refused.value.reason is ReportRejection.TOO_MANY
    assert admitted(access, by(1001, POD_TOKEN)).pod == "ns/trainer-0"


# Tokens of jobs.


def test_with_job_tokens_on_nobody_writes_without_one(path: Path) -> None:
    access = Access(SiteTokens(path), job_tokens=True)
    for peer in ("127.0.0.1", None):
        assert reason(access, request(peer)) is ReportRejection.NO_TOKEN
    assert access.writer(request(None, TOKEN)).is_site


def test_a_job_speaks_for_itself_alone(path: Path) -> None:
    access = Access(SiteTokens(path), job_tokens=True)
    writer = access.writer(request(None, OTHER))
    assert not writer.is_site
    access.may_speak_for(writer, JOB)
    another = replace(JOB, job_id="8", token_sha256=hashlib.sha256(b"another").hexdigest())
    for job in (another, replace(JOB, token_sha256="")):
        with pytest.raises(ReportError, match=f"job {job.job_id}") as refused:
            access.may_speak_for(writer, job)
        assert refused.value.reason is ReportRejection.NOT_YOURS


def test_a_job_without_a_token_is_not_spoken_for_by_an_empty_one() -> None:
    with pytest.raises(ReportError):
        Access(job_tokens=True).may_speak_for(Writer(Warrant.LOCAL), Job("slurm", "7"))


def test_the_token_of_a_job_does_not_let_in_from_elsewhere(path: Path) -> None:
    access = Access(SiteTokens(path), job_tokens=True)
    assert reason(access, request("10.0.0.7", OTHER)) is ReportRejection.WRONG_TOKEN


def test_with_job_tokens_off_whoever_is_here_speaks_for_any_job() -> None:
    access = Access()
    for token in (None, OTHER, TOKEN):
        access.may_speak_for(access.writer(request(None, token)), JOB)


def test_a_jobs_token_is_shown_nowhere() -> None:
    assert JOB.token_sha256 not in repr(JOB)


OF_PODS = Job("kubernetes", "default/trainer", addresses=("10.0.0.7", "2001:db8::7"))


@every(["10.0.0.7", "::ffff:10.0.0.7", "2001:DB8:0::7"])
def test_a_pods_own_addresses_are_its_however_they_are_written(address: str) -> None:
    assert why_not_from(address, OF_PODS) == ""


@every(["10.0.0.8", "127.0.0.1", "", "trainer", "10.0.0.7 "])
def test_no_other_address_is_a_pods(address: str) -> None:
    assert "is no address of a pod of job default/trainer" in why_not_from(address, OF_PODS)


def test_nobody_is_a_pod_of_the_job_where_its_addresses_are_not_known() -> None:
    assert "are not known" in why_not_from("10.0.0.7", Job("kubernetes", "default/trainer"))


def knows(tokens: SiteTokens, token: str) -> bool:
    return tokens.find(sha256(token.encode())) is not None


def test_a_file_holds_tokens_and_comments(tmp_path: Path) -> None:
    lines = ("# the training cluster", TOKEN, "", f"  {OTHER}   own-pod ")
    path = token_file(tmp_path / "tokens", *lines)
    first, second = read_tokens(path)
    assert first == (hashlib.sha256(TOKEN.encode()).hexdigest(), False)
    assert second == (hashlib.sha256(OTHER.encode()).hexdigest(), True)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((), "holds no token"),
        (("# nothing",), "holds no token"),
        (("short",), "line 1 is no token"),
        ((TOKEN, f"{TOKEN} {OTHER}"), "line 2 is no token"),
        (("é" * 16,), "line 1 is no token"),
    ],
)
def test_a_file_without_good_tokens_is_refused_and_no_token_is_shown(
    tmp_path: Path, lines: tuple[str, ...], said: str
) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        SiteTokens(token_file(tmp_path / "tokens", *lines))
    assert not [line for line in lines if line in str(refused.value)]


def test_tokens_are_read_anew_when_the_file_changes(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    tokens = SiteTokens(path)
    tokens.refresh()
    assert caplog.messages == []
    token_file(path, OTHER)
    tokens.refresh()
    assert not knows(tokens, TOKEN)
    assert knows(tokens, OTHER)
    token_file(path.with_name("new"), TOKEN).rename(path)
    tokens.refresh()
    assert knows(tokens, TOKEN)


@pytest.mark.parametrize("harm", ["removed", "emptied", "opened to others"])
def test_without_a_good_file_no_token_is_good_until_it_is_back(
    path: Path, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = SiteTokens(path)
    if harm == "removed":
        path.unlink()
    elif harm == "emptied":
        token_file(path)
    else:
        token_file(path, TOKEN, mode=0o644)
    for _ in range(3):
        tokens.refresh()
    assert not knows(tokens, TOKEN)
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1, "it is said once"
    path.unlink(missing_ok=True)
    token_file(path, TOKEN)
    tokens.refresh()
    assert knows(tokens, TOKEN)


def test_what_could_not_be_read_is_tried_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its directory may have been out of reach, and the file itself has not changed."""
    tokens = SiteTokens(path)
    token_file(path, OTHER)
    with monkeypatch.context() as hung:
        hung.setattr(access, "read_secret", Mock(side_effect=ConfigError("it hangs")))
        tokens.refresh()
    assert not knows(tokens, OTHER)
    tokens.refresh()
    assert knows(tokens, OTHER)
    token_file(path, TOKEN)
    tokens.refresh()
    aside = path.with_name("aside")
    path.rename(aside)
    tokens.refresh()
    aside.rename(path)
    tokens.refresh()
    assert knows(tokens, TOKEN)
