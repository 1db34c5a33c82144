"""Who may report to a running agent: over loopback, from elsewhere, by the Unix socket, with TLS and tokens."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from ofu_exporter.schedulers.slurm import job_tokens
from tests.bench.process import resident_mib
from tests.helpers.agent import COMMAND, SOON, Agent, agent, bare_environment, until
from tests.helpers.certificates import Certificates
from tests.helpers.job_node import WINDOW, Node, seconds
from tests.helpers.server import Client, post

EVERYWHERE = "0.0.0.0"
REPORT = {"job_id": "7", "mfu": 0.4}
TOKEN, OTHER = secrets.token_hex(32), secrets.token_hex(32)


def own_address() -> str | None:
    """An address of this machine that is not loopback, if it has one."""
    told = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False)
    return next((address for address in told.stdout.split() if "." in address), None)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "report-tokens"
    path.touch(0o600)
    path.write_text(f"{TOKEN}\n")
    return path


@pytest.fixture
def elsewhere() -> str:
    """This machine's own address stands for another's: it is no more local to the agent."""
    address = own_address()
    if address is None:
        pytest.skip("this machine has no address but loopback")
    return address


def hook(node: Node, command: str, job_id: str, gpus: str) -> None:
    """Slurm's prolog or epilog, as root runs it."""
    environ = {"SLURM_JOB_GPUS": gpus, "SLURM_JOB_UID": str(os.geteuid())}
    subprocess.run(
        [*COMMAND, "job", command, "--no-ask", "--job-id", job_id, "--job-dir", str(node.jobs)],
        env=bare_environment(environ),
        check=True,
        timeout=300,
    )


def token(node: Node, job_id: str) -> str:
    return (job_tokens.beside(node.jobs) / job_id).read_text().strip()


def send(
    url: str, token: str | None = None, job_id: str = "7", transport: Any = None, **headers: str
) -> tuple[int, str]:
    """The status, and the reason of a refusal."""
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    now = time.time()
    interval = {"start": now - 0.2, "end": now}
    with httpx.Client(transport=transport, timeout=SOON) as client:
        content = {**REPORT, **interval, "job_id": job_id}
        answer = client.post(f"{url}/v1/mfu", json=content, headers=headers)
    reasons = [item["type"] for item in answer.json()["detail"]] if answer.is_error else [""]
    return answer.status_code, reasons[0]


def accepted(url: str, token: str | None = None, job_id: str = "7", transport: Any = None) -> bool:
    """Whether it is let in; one that repeats the seconds of another was let in as well."""
    status, reason = send(url, token, job_id, transport)
    assert status in (200, 401, 403, 409), reason
    return status in (200, 409)


def on(address: str, running: Agent) -> str:
    return f"http://{address}:{running.url.rpartition(':')[2]}"


def ready(running: Agent) -> None:
    until(lambda: seconds(running) > 0)


def test_from_this_node_without_a_token_and_from_elsewhere_not_at_all(
    node: Node, elsewhere: str
) -> None:
    node.start("7", "0")
    with agent(*node.flags(), host=EVERYWHERE) as running:
        ready(running)
        assert accepted(running.url)
        refused = (403, "not_local")
        assert send(on(elsewhere, running)) == refused
        assert send(on(elsewhere, running), TOKEN) == refused
        assert send(running.url, **{"X-Forwarded-For": "192.0.2.9"}) == refused
        assert send(running.url, **{"Origin": running.url}) == refused
        status = httpx.post(f"{on(elsewhere, running)}/v1/nothing", json={}).status_code
        assert status == 403
        assert httpx.post(f"{running.url}/v1/nothing", json={}).status_code == 404
        rejected = running.value("ofu_exporter_rejected_reports_total", reason="not_local")
        assert rejected == 5
        assert httpx.get(f"{on(elsewhere, running)}/v1/jobs").status_code == 200, "all may read"


def test_from_elsewhere_with_the_sites_token_which_is_replaced(
    node: Node, token_file: Path, elsewhere: str
) -> None:
    node.start("7", "0")
    flags = (*node.flags(), "--report-token-file", str(token_file))
    with agent(*flags, host=EVERYWHERE) as running:
        ready(running)
        there = on(elsewhere, running)
        assert send(there) == (401, "no_token")
        assert send(there, OTHER) == (401, "wrong_token")
        assert accepted(there, TOKEN)
        token_file.write_text(f"{OTHER}\n")
        until(lambda: accepted(there, OTHER))
        assert send(there, TOKEN) == (401, "wrong_token")
        token_file.unlink()
        until(lambda: send(there, OTHER) == (401, "wrong_token"))
        assert running.logs("no report token is accepted until this is corrected")
        assert accepted(running.url), "whoever is here needs none"
        assert TOKEN not in "\n".join(running.log)


def test_a_token_file_that_others_can_read_ends_the_start(token_file: Path) -> None:
    token_file.chmod(0o644)
    done = subprocess.run(
        [*COMMAND, "run", "--listen", "127.0.0.1:0", "--report-token-file", str(token_file)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=bare_environment(),
    )
    assert done.returncode == 2
    assert f"report token file {token_file} has mode 0644" in done.stderr


def test_with_job_tokens_a_job_speaks_for_itself_alone(
    node: Node, token_file: Path, tmp_path: Path
) -> None:
    hook(node, "start", "7", "0")
    hook(node, "start", "8", "1")
    path = tmp_path / "reports.sock"
    flags = ("--job-tokens", "--report-token-file", str(token_file), "--report-socket", str(path))
    with agent(*node.flags(), *flags) as running:
        ready(running)
        for transport in (None, httpx.HTTPTransport(uds=str(path))):
            assert send(running.url, transport=transport) == (401, "no_token")
        assert accepted(running.url, token(node, "7"))
        assert accepted("http://agent", token(node, "7"), "7", httpx.HTTPTransport(uds=str(path)))
        assert send(running.url, token(node, "8")) == (403, "not_yours")
        assert send(running.url, OTHER) == (403, "not_yours")
        assert accepted(running.url, TOKEN, "8"), "the site may report for every job"
        before = token(node, "7")
        hook(node, "stop", "7", "0")
        hook(node, "start", "7", "0")
        until(lambda: accepted(running.url, token(node, "7")))
        assert send(running.url, before) == (403, "not_yours"), "a new run has a new token"
        for page in ("/metrics", "/v1/jobs", "/v1/jobs/7", "/"):
            text = running.get(page)[1]
            assert "token_sha256" not in text
            assert not [job for job in ("7", "8") if token(node, job) in text]


def test_the_unix_socket_comes_and_goes_with_the_agent(node: Node, tmp_path: Path) -> None:
    node.start("7", "0")
    path = tmp_path / "reports.sock"
    for _ in range(2):
        with agent(*node.flags(), "--report-socket", str(path)) as running:
            ready(running)
            assert accepted("http://agent", transport=httpx.HTTPTransport(uds=str(path)))
            assert running.stop() == 0
        assert not path.exists()
    with agent(*node.flags(), "--report-socket", str(path)) as running:
        running.kill()
    assert path.is_socket(), "it had no time to tidy up"
    with agent(*node.flags(), "--report-socket", str(path)) as running:
        ready(running)
        assert accepted("http://agent", transport=httpx.HTTPTransport(uds=str(path)))


def test_certificates_are_demanded_and_read_anew(node: Node, tmp_path: Path) -> None:
    node.start("7", "0")
    old, new = Certificates(tmp_path / "old"), Certificates(tmp_path / "new")
    flags = ["--tls-cert", old.cert, "--tls-key", old.key, "--tls-client-ca", old.ca]
    with agent(*node.flags(), *map(str, flags)) as running:
        until(lambda: accepted_by_tls(running.url, old.context(True)))
        assert accepted_by_tls(running.url, old.context(False)) is None
        for name in ("cert", "key", "ca"):
            getattr(new, name).rename(getattr(old, name))
        running.process.send_signal(1)
        new.ca = old.ca
        until(lambda: accepted_by_tls(running.url, new.context(True)))
        mixed = new.context(False)
        mixed.load_cert_chain(old.client)
        assert accepted_by_tls(running.url, mixed) is None, "the old authority is unlearned"
        old.cert.write_text("nonsense")
        running.process.send_signal(1)
        assert running.logs("configuration not applied")
        assert accepted_by_tls(running.url, new.context(True)), "the last good one stays"


def test_a_reload_that_drops_the_authority_makes_nobody_certified(
    node: Node, tmp_path: Path
) -> None:
    node.start("7", "0")
    own = Certificates(tmp_path / "tls")
    file = tmp_path / "ofu.yaml"
    settings = f"tls_cert: {own.cert}\ntls_key: {own.key}\njob_tokens: true\n"
    file.write_text(f"{settings}tls_client_ca: {own.ca}\n")
    flags = (*node.flags(), "--config", str(file))
    with agent(*flags) as running, httpx.Client(verify=own.context(True)) as certified:
        until(
            lambda: certified.post(f"{running.url}/v1/mfu", json=REPORT).status_code in (200, 409)
        )
        file.write_text(settings)
        running.process.send_signal(1)
        assert running.logs("configuration applied")
        assert running.logs(f"everybody who can reach {running.url} may read it")
        who = "reports are accepted from: this node with a token"
        assert any(line.endswith(who) for line in running.log), "nobody else is named any more"
        anybody = own.context(False)
        assert httpx.get(f"{running.url}/healthz", verify=anybody).status_code == 200
        refused = httpx.post(f"{running.url}/v1/mfu", json=REPORT, verify=anybody)
        assert refused.status_code == 401, "nobody without a certificate is certified"
        again = certified.post(f"{running.url}/v1/mfu", json=REPORT)
        assert again.status_code == 401, "the connection of the withdrawn authority has ended"


def accepted_by_tls(url: str, context: ssl.SSLContext) -> bool | None:
    """None when there is no conversation at all."""
    try:
        return httpx.post(f"{url}/v1/mfu", json=REPORT, verify=context).status_code in (200, 409)
    except httpx.HTTPError:
        return None


# What an attacker does.


def unobserved(running: Agent) -> float:
    """GPU-seconds that the job held and that were not measured."""
    totals = httpx.get(f"{running.url}/v1/jobs/7").json()["gpus"]
    return float(sum(gpu["held_seconds"] - gpu["observed_seconds"] for gpu in totals))


def address(running: Agent) -> tuple[str, int]:
    return "127.0.0.1", int(running.url.rpartition(":")[2])


def test_bodies_of_100_mb_are_refused_and_never_in_memory(node: Node) -> None:
    with agent(*node.flags()) as running:
        until(lambda: running.value("ofu_exporter_source_up", source="simulate"))
        before = resident_mib(running.process.pid)
        piece = b" " * (1 << 20)
        for chunked in (False, True) * 3:
            with Client(address(running)) as client:
                client.send(post(None if chunked else 100 << 20))
                with suppress(ConnectionError):
                    for _ in range(100):
                        client.send(*([b"100000\r\n", piece, b"\r\n"] if chunked else [piece]))
                status, _, body = client.answer()
                assert (status, body["detail"][0]["type"]) == (413, "too_large")
                assert resident_mib(running.process.pid) - before < 48
        assert running.value("ofu_exporter_rejected_reports_total", reason="too_large") == 6


@pytest.mark.parametrize("so_far", [b"", b"POST /v1/mfu HTTP/1.1\r\nHost: x\r\n", post(100) + b"{"])
def test_600_slow_connections_keep_nobody_from_reading(node: Node, so_far: bytes) -> None:
    node.start("7", "0")
    with agent(*node.flags()) as running, ExitStack() as stack:
        ready(running)
        before, lost_before = resident_mib(running.process.pid), unobserved(running)
        flood = [stack.enter_context(Client(address(running))) for _ in range(600)]
        for number, slow in enumerate(flood):
            with suppress(ConnectionError):  # those that had to give way
                slow.send(so_far)
            if number % 20 == 0:
                assert running.get("/metrics")[0] == 200
        assert accepted(running.url)
        assert resident_mib(running.process.pid) - before < 64
        until(lambda: unobserved(running) - lost_before < 2 * WINDOW)  # the last is under way


def test_a_reset_connection_is_not_taken_for_the_unix_socket(node: Node, elsewhere: str) -> None:
    """Its peer has no address any more when the agent looks."""
    node.start("7", "0")
    body = json.dumps(REPORT).encode()
    with agent(*node.flags(), host=EVERYWHERE) as running:
        ready(running)
        port = address(running)[1]
        running.process.send_signal(signal.SIGSTOP)
        for _ in range(50):
            with Client((elsewhere, port)) as client:
                client.send(post(len(body)) + body)
                now = b"\1\0\0\0\0\0\0\0"
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, now)
        running.process.send_signal(signal.SIGCONT)
        refused = "ofu_exporter_rejected_reports_total"
        until(lambda: running.value(refused, reason="not_local") == 50)
        assert running.values("ofu_job_reports_total", outcome="accepted") in ([], [0])
