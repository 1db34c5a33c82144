"""Reloads come one after the other, however often they are asked for."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from prometheus_client.utils import floatToGoString

from ofu_exporter.agent import reloads
from ofu_exporter.agent.reloads import Reloads
from ofu_exporter.support.small_files import Stamp, stamp
from tests.helpers.agent import Agent, agent, call, until
from tests.helpers.certificates import Certificates
from tests.helpers.passwords import basic, hashed, web_file
from tests.helpers.server import Client
from tests.helpers.slow_tls import SlowTls

pytestmark = pytest.mark.anyio

MANY = 100


class Slow:
    """Reloads that end when they are told to."""

    def __init__(self, file: Path | None = None) -> None:
        self.begun = 0
        self.may_end = asyncio.Semaphore(0)
        self.reloads = Reloads(file, self._reload)

    async def _reload(self) -> None:
        self.begun += 1
        await self.may_end.acquire()


async def turns() -> None:
    for _ in range(MANY):
        await asyncio.sleep(0)


async def test_of_many_that_are_asked_for_during_one_only_one_follows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reloads, "REST_SECONDS", 0.0)
    slow = Slow()
    running = asyncio.create_task(slow.reloads.run())
    for _ in range(MANY):
        slow.reloads.ask()
        await asyncio.sleep(0)
    at_once = slow.begun
    for _ in range(MANY):
        slow.may_end.release()
    await turns()
    running.cancel()
    assert (at_once, slow.begun) == (1, 2)


async def test_after_one_there_is_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reloads, "REST_SECONDS", 3600.0)
    slow = Slow()
    running = asyncio.create_task(slow.reloads.run())
    for _ in range(MANY):
        slow.may_end.release()
        slow.reloads.ask()
        await asyncio.sleep(0)
    await turns()
    running.cancel()
    assert slow.begun == 1


async def test_one_that_fails_in_no_expected_way_ends_no_later_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(reloads, "REST_SECONDS", 0.0)
    begun = 0

    async def fail() -> None:
        nonlocal begun
        begun += 1
        raise IndexError

    asked = Reloads(None, fail)
    running = asyncio.create_task(asked.run())
    for _ in range(2):
        asked.ask()
        await turns()
    running.cancel()
    assert begun == 2
    assert "restart the agent" in caplog.text


async def test_a_changed_file_asks_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reloads, "FILE_CHECK_SECONDS", 0.0)
    monkeypatch.setattr(reloads, "REST_SECONDS", 0.0)
    file = tmp_path / "ofu.yaml"
    file.write_text("a: 1\n")
    looks = 0

    def counted(path: Path) -> Stamp:
        nonlocal looks
        looks += 1
        return stamp(path)

    monkeypatch.setattr(reloads, "stamp", counted)

    async def look_again(slow: Slow) -> int:
        """The reloads after the file has been looked at some more times."""
        until = looks + 3
        while looks < until:
            await asyncio.sleep(0.001)
        return slow.begun

    slow = Slow(file)
    tasks = [asyncio.create_task(slow.reloads.run()), asyncio.create_task(slow.reloads.watch())]
    for _ in range(MANY):
        slow.may_end.release()
    unchanged = await look_again(slow)
    file.write_text("a: 2\nb: 3\n")
    changed = await look_again(slow)
    for task in tasks:
        task.cancel()
    assert (unchanged, changed) == (0, 1)


EXPIRES = "ofu_exporter_tls_certificate_expires_timestamp_seconds"
FAST = ("--source", "simulate", "--scheduler", "none", "--interval", "1s")


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "tls")


def status(running: Agent, user: str, password: str, verify: Any = True) -> int:
    with httpx.Client(verify=verify, auth=(user, password), timeout=60) as client:
        return client.get(f"{running.url}/metrics").status_code


@pytest.mark.slow
def test_passwords_and_certificates_are_renewed_when_their_files_change(
    tmp_path: Path, certificates: Certificates
) -> None:
    path = tmp_path / "web.yml"
    tls = {"cert_file": str(certificates.cert), "key_file": str(certificates.key)}

    def write(password: str) -> None:
        web_file(path, tls_server_config=tls, basic_auth_users={"prom": hashed(password)})

    write("old")
    trust = certificates.context(False)
    with agent("run", *FAST, f"--web.config.file={path}") as running:
        assert running.url.startswith("https://")
        assert running.logs("reading needs one of 1 passwords, TLS from")
        assert status(running, "prom", "old", trust) == 200
        write("new")
        until(lambda: status(running, "prom", "new", trust) == 200)
        assert status(running, "prom", "old", trust) == 401

        before = _serial(running, trust)
        certificates.renew()
        until(lambda: _serial(running, trust) != before)
        assert status(running, "prom", "new", trust) == 200
        soon = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(seconds=5)
        certificates.renew(soon)
        read = partial(httpx.get, f"{running.url}/metrics", verify=False, auth=("prom", "new"))
        until(lambda: f"{EXPIRES} {floatToGoString(soon.timestamp())}\n" in read().text)
        until(lambda: running.logs(f"TLS certificate {certificates.cert} has expired"))


@pytest.mark.slow
def test_a_certificate_of_the_flags_is_renewed_when_its_files_change(
    certificates: Certificates,
) -> None:
    """As the chart gives one: nobody sends a pod a signal."""
    trust = certificates.context(False)
    tls = ("--tls-cert", str(certificates.cert), "--tls-key", str(certificates.key))
    with agent("run", *FAST, *tls) as running:
        before = _serial(running, trust)
        certificates.renew()
        until(lambda: _serial(running, trust) != before)


@pytest.mark.slow
def test_a_handshake_that_was_begun_under_an_authority_ends_with_it(
    tmp_path: Path, certificates: Certificates
) -> None:
    path, other = tmp_path / "web.yml", Certificates(tmp_path / "other")

    def trust(authority: Path) -> None:
        tls = {
            "cert_file": str(certificates.cert),
            "key_file": str(certificates.key),
            "client_ca_file": str(authority),
            "client_auth_type": "RequireAndVerifyClientCert",
        }
        web_file(path, tls_server_config=tls)

    def is_served(client: Path) -> bool:
        context = certificates.context(False)
        context.load_cert_chain(client)
        try:
            return httpx.get(f"{running.url}/healthz", verify=context).status_code == 200
        except httpx.HTTPError:
            return False

    trust(certificates.ca)
    with agent("run", *FAST, f"--web.config.file={path}") as running:
        assert is_served(certificates.client)
        where = urlsplit(running.url)
        with SlowTls((str(where.hostname), where.port or 0), certificates.context(True)) as begun:
            begun.socket.sendall(begun.hello())
            assert begun.heard()
            trust(other.ca)
            until(lambda: is_served(other.client))
            with pytest.raises(ConnectionError):
                begun.asked(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("basic_auth_users:\n", "cannot be opened without a restart"),
        ("basic_auth_users: {prom: plain}\n", "this is no bcrypt hash"),
        ("tls_server_config: {cert_file: a, key_file: b}\n", "cannot be opened without"),
        (None, "No such file"),
    ],
)
def test_a_file_that_is_bad_or_gone_keeps_the_door_closed(
    tmp_path: Path, text: str | None, why: str
) -> None:
    path = web_file(tmp_path / "web.yml", basic_auth_users={"prom": hashed("x")})
    with agent("run", *FAST, f"--web.config.file={path}") as running:
        assert running.logs("whoever listens on the network can read passwords")
        assert status(running, "prom", "x") == 200
        if text is None:
            path.unlink()
        else:
            path.write_text(text)
        until(
            lambda: running.logged(
                "web configuration not applied; the last good one stays in force"
            )
        )
        assert running.logs("not applied")
        (line,) = [each for each in running.log if "not applied" in each]
        assert why in line
        assert running.get("/metrics")[0] == 401
        assert running.get("/readyz")[0] in (200, 503)
        assert status(running, "prom", "x") == 200
        page = httpx.get(f"{running.url}/metrics", auth=("prom", "x")).text
        assert 'ofu_exporter_config_reloads_total{outcome="failed"} 1' in page
        web_file(path, basic_auth_users={"prom": hashed("y")})
        until(lambda: status(running, "prom", "y") == 200)
        assert running.stop() == 0


@pytest.mark.slow
def test_a_stop_in_the_middle_of_a_hash_is_a_clean_one(tmp_path: Path) -> None:
    """A thread that is in the library of another language when the interpreter ends aborts the process."""
    path = web_file(tmp_path / "web.yml", basic_auth_users={"prom": hashed("x", cost=12)})
    with agent("run", *FAST, f"--web.config.file={path}") as running:
        address = urlsplit(running.url).hostname, urlsplit(running.url).port
        guesses = f"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: {basic('prom', 'y')}\r\n\r\n"
        with Client((str(address[0]), int(address[1] or 0))) as client:
            client.send(guesses.encode())
            time.sleep(0.1)  # it is at the hash now, on a machine that is not slower than it is
            assert running.stop() == 0


@pytest.mark.slow
def test_a_contradiction_ends_the_start(tmp_path: Path, certificates: Certificates) -> None:
    tls = {"cert_file": str(certificates.cert), "key_file": str(certificates.key)}
    path = web_file(tmp_path / "web.yml", tls_server_config=tls)
    flags = ("--tls-cert", str(certificates.cert), "--tls-key", str(certificates.key))
    done = call("run", *FAST, "--listen", "127.0.0.1:0", *flags, f"--web.config.file={path}")
    assert done.returncode != 0
    assert "TLS is set twice" in done.stderr
    assert "Traceback" not in done.stderr


def _serial(running: Agent, trust: Any) -> str:
    with (
        httpx.Client(verify=trust) as client,
        client.stream("GET", f"{running.url}/healthz") as answer,
    ):
        stream = answer.extensions["network_stream"].get_extra_info("ssl_object")
        return str(stream.getpeercert()["serialNumber"])
