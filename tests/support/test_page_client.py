"""A page over TLS is believed if the system's authorities, or those that SSL_CERT_FILE names, vouch for its server."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from ofu_exporter.errors import PageError
from ofu_exporter.support.page_client import PageClient
from tests.helpers.certificates import Certificates
from tests.helpers.quiet_server import QuietHandler, answering


class Page(QuietHandler):
    def do_GET(self) -> None:
        self.reply(b"a 1\n")


def test_the_authority_of_a_site_is_named_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Certificates(tmp_path / "tls")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.cert, made.key)
    with answering(Page, tls=context) as server:
        url = f"{server.url}/metrics"
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none"))
        with pytest.raises(PageError, match="certificate verify failed"):
            PageClient(url, 5.0).fetch(100)
        monkeypatch.setenv("SSL_CERT_FILE", str(made.ca))
        client = PageClient(url, 5.0)
        assert client.fetch(100) == "a 1\n"
        client.close()
