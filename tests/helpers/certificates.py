"""Certificates of an authority of the test's own, in files."""

from __future__ import annotations

import ssl
from datetime import datetime
from pathlib import Path

import trustme


class Certificates:
    """An authority, and what it has signed, in files."""

    def __init__(self, path: Path) -> None:
        path.mkdir()
        self.authority = trustme.CA()
        self.ca, self.cert, self.key, self.client = (
            path / name for name in ("ca.pem", "cert.pem", "key.pem", "client.pem")
        )
        self.authority.cert_pem.write_to_path(self.ca)
        self.renew()
        self.authority.issue_cert("client").private_key_and_cert_chain_pem.write_to_path(
            self.client
        )

    def renew(self, end: datetime | None = None) -> None:
        issued = self.authority.issue_cert("127.0.0.1", not_after=end)
        issued.cert_chain_pems[0].write_to_path(self.cert)
        self.key.unlink(missing_ok=True)
        self.key.touch(0o600)
        issued.private_key_pem.write_to_path(self.key)

    def context(self, with_certificate: bool) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca)
        if with_certificate:
            context.load_cert_chain(self.client)
        return context
