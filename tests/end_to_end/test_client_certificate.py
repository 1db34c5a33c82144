"""An agent that demands certificates of its readers is read by the commands that show one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.agent import Agent, call, until
from tests.helpers.certificates import Certificates

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("command", [("events",), ("top", "--once")], ids=lambda each: each[0])
def test_a_certificate_of_the_environment_is_shown(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    made = Certificates(tmp_path / "tls")
    tls = ("--tls-cert", made.cert, "--tls-key", made.key, "--tls-client-ca", made.ca)
    running = Agent(
        ["run", "--source", "simulate", "--interval", "0.2s", "--listen", "127.0.0.1:0"]
        + [str(each) for each in tls]
    )
    trusted = {"OFU_EXPORTER_CA_FILE": str(made.ca)}
    try:
        ask = (*command, "--agent", running.url)
        own = {**trusted, "OFU_EXPORTER_CERT_FILE": str(made.client)}

        def answered() -> bool:
            shown = call(*ask, env=own)
            return shown.returncode == 0 and bool(shown.stdout.strip())

        until(answered, seconds=60)
        unknown = call(*ask, env={"OFU_EXPORTER_CERT_FILE": str(made.client)})
        missing = call(*ask, env=trusted)
        for failed in (unknown, missing):
            assert failed.returncode == 3
            assert "does not answer" in failed.stdout + failed.stderr
    finally:
        assert running.stop() == 0
