"""An agent that is closed by certificates and a password is read by the commands that show both."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.helpers import agent
from tests.helpers.agent import Agent, until
from tests.helpers.certificates import Certificates
from tests.helpers.in_process import call
from tests.helpers.job_node import Node
from tests.helpers.passwords import hashed, web_file

pytestmark = pytest.mark.slow

PASSWORD = "pass wörd:1"


class Closed(NamedTuple):
    """An agent that lets nobody in without a certificate and a password; job 7 runs and job 8 has ended there."""

    agent: Agent
    node: Node
    pause_file: Path
    environ: dict[str, str]
    """What its readers show."""

    def command(self, name: str) -> Sequence[str]:
        port = self.agent.url.rpartition(":")[2]
        where = ("--agent", self.agent.url)
        return {
            "top": ("top", "--once", "--width", "500", *where),
            "top --hosts": (
                "top",
                "--once",
                "--width",
                "500",
                "--hosts",
                "127.0.0.[1-1]",
                "--port",
                port,
                "--https",
            ),
            "job show": ("job", "show", "7", *where),
            "job gather": ("job", "gather", "7", "--nodes", "127.0.0.1", "--port", port, "--https"),
        }[name]

    def stop(self, environ: dict[str, str]) -> str:
        """What the epilog's command says of job 8, on both streams; its file is there again first."""
        self.node.start("8", "2")
        flags = ("--no-ask", "--job-id", "8", "--job-dir", str(self.node.jobs))
        done = call("job", "stop", *flags, "--agent", self.agent.url, env=environ)
        assert done.returncode == 0
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    folder = tmp_path_factory.mktemp("closed")
    made = Certificates(folder / "tls")
    web = web_file(
        folder / "web.yml",
        tls_server_config={
            "cert_file": "tls/cert.pem",
            "key_file": "tls/key.pem",
            "client_ca_file": "tls/ca.pem",
            "client_auth_type": "RequireAndVerifyClientCert",
        },
        basic_auth_users={"ada": hashed(PASSWORD)},
    )
    password = folder / "password"
    password.touch(0o600)
    password.write_text(f"{PASSWORD}\n")
    environ = {
        "OFU_EXPORTER_CA_FILE": str(made.ca),
        "OFU_EXPORTER_CERT_FILE": str(made.client),
        "OFU_EXPORTER_USER": "ada",
        "OFU_EXPORTER_PASSWORD_FILE": str(password),
    }
    node = Node(folder)
    node.start("7", "0", "1")
    pause_file = folder / "pause"
    where = ("--listen", "127.0.0.1:0", f"--web.config.file={web}", f"--pause-file={pause_file}")
    running = Agent([*node.flags(), *where])
    found = Closed(running, node, pause_file, environ)
    try:
        until(lambda: call(*found.command("job show"), env=environ).returncode == 0, seconds=60)
        yield found
    finally:
        assert running.stop() == 0


COMMANDS = ("top", "top --hosts", "job show", "job gather")


@pytest.mark.parametrize("name", COMMANDS)
def test_who_shows_a_certificate_and_a_password_is_let_in(closed: Closed, name: str) -> None:
    def answered() -> bool:
        shown = call(*closed.command(name), env=closed.environ)
        return shown.returncode == 0 and bool(shown.stdout.strip())

    until(answered, seconds=60)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    ("missing", "problem"),
    [
        (("OFU_EXPORTER_CA_FILE",), "does not answer: "),
        (("OFU_EXPORTER_CERT_FILE",), "does not answer: "),
        (("OFU_EXPORTER_USER", "OFU_EXPORTER_PASSWORD_FILE"), "answers 401"),
    ],
    ids=["authorities", "certificate", "password"],
)
def test_who_lacks_one_of_them_is_told(
    closed: Closed, name: str, missing: Sequence[str], problem: str
) -> None:
    less = {key: value for key, value in closed.environ.items() if key not in missing}
    failed = call(*closed.command(name), env=less)
    assert failed.returncode == 3
    assert problem in failed.stdout + failed.stderr


def test_who_pauses_it_sees_that_it_has_let_go(closed: Closed) -> None:
    flags = ("--agent", closed.agent.url, "--pause-file", str(closed.pause_file), "--wait")
    done = agent.call("pause", *flags, "20s", env=closed.environ)
    assert (done.returncode, done.stderr) == (0, "")
    done = agent.call("resume", *flags, "20s", env=closed.environ)
    assert (done.returncode, done.stderr) == (0, "")
    done = agent.call("resume", *flags, "0.1s", env={})
    assert done.returncode == 3
    assert "no agent answers: https://127.0.0.1:" in done.stderr
    assert "certificate verify failed" in done.stderr


def test_the_epilog_is_let_in_and_says_what_the_job_did(closed: Closed) -> None:
    until(lambda: closed.stop(closed.environ).startswith("Job 8, name llama, user ada (ended)"))


def test_an_epilog_that_is_not_let_in_says_why(closed: Closed) -> None:
    without = {key: closed.environ[key] for key in closed.environ if "FILE" in key}
    del without["OFU_EXPORTER_PASSWORD_FILE"]
    assert "ofu-exporter: the agent answers 401" in closed.stop(without)
    assert "certificate verify failed" in closed.stop({})


@pytest.mark.parametrize("name", ["top", "job show"])
def test_a_password_of_the_url_counts_before_that_of_the_environment(
    closed: Closed, name: str
) -> None:
    stranger = closed.agent.url.replace("//", "//ada:guess@")
    shown = call(*closed.command(name)[:-1], stranger, env=closed.environ)
    assert shown.returncode == 3
    assert "answers 401" in shown.stdout + shown.stderr
    assert "guess" not in shown.stdout + shown.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_that_cannot_be_used_is_named(closed: Closed, name: str, tmp_path: Path) -> None:
    gone = {**closed.environ, "OFU_EXPORTER_CERT_FILE": str(tmp_path / "gone.pem")}
    shown = call(*closed.command(name), env=gone)
    assert shown.returncode != 0
    assert f"OFU_EXPORTER_CERT_FILE={tmp_path}/gone.pem" in shown.stdout + shown.stderr
    readable = tmp_path / "password"
    shutil.copy(closed.environ["OFU_EXPORTER_PASSWORD_FILE"], readable)
    readable.chmod(0o644)
    shown = call(
        *closed.command(name), env={**closed.environ, "OFU_EXPORTER_PASSWORD_FILE": str(readable)}
    )
    assert shown.returncode != 0
    assert f"OFU_EXPORTER_PASSWORD_FILE: file {readable} has mode 0644" in (
        shown.stdout + shown.stderr
    )
