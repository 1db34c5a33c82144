"""Scrapes an agent ten times a second: `python -m tests.attacks.scraper URL SECONDS SOURCE AUTHORIZATION [CA [CERT]]`.

SOURCE is the address to connect from, AUTHORIZATION the header of that name, which may be empty.

It prints one line of JSON per scrape. It imports nothing but the standard library, so it takes little of the agent's
core.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import ssl
import sys
import time
from typing import NamedTuple
from urllib.parse import urlsplit

PERIOD_SECONDS = 0.1
PATIENCE_SECONDS = 10.0
"""Prometheus's own limit by default (`scrape_timeout`)."""


OWN = "127.0.0.1"
"""The address of the attackers."""


class Scrape(NamedTuple):
    """One answer; status 0 = there was none."""

    status: int
    seconds: float
    body: str


def scrape(
    url: str,
    context: ssl.SSLContext | None = None,
    path: str = "/metrics",
    source: str = OWN,
    authorization: str = "",
) -> Scrape:
    """Open a connection, and get one path."""
    where = urlsplit(url)
    assert where.hostname is not None
    began = time.monotonic()
    connection = (
        http.client.HTTPSConnection(
            where.hostname,
            where.port,
            timeout=PATIENCE_SECONDS,
            source_address=(source, 0),
            context=context,
        )
        if where.scheme == "https"
        else http.client.HTTPConnection(
            where.hostname, where.port, timeout=PATIENCE_SECONDS, source_address=(source, 0)
        )
    )
    status, body = 0, ""
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        shown = {"Authorization": authorization} if authorization else {}
        connection.request("GET", path, headers=shown)
        answer = connection.getresponse()
        body = answer.read().decode("utf-8", "replace")
        status = answer.status
    return Scrape(status, time.monotonic() - began, body)


def context_of(ca: str | None, certificate: str | None) -> ssl.SSLContext | None:
    """The TLS context of a client; None without an authority."""
    if ca is None:
        return None
    context = ssl.create_default_context(cafile=ca)
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


def main(
    url: str,
    seconds: str,
    source: str,
    authorization: str = "",
    ca: str | None = None,
    certificate: str | None = None,
) -> None:
    with contextlib.suppress(OSError):
        os.nice(-15)  # the agent is measured, not the wait for a core that the attack has
    context = context_of(ca, certificate)
    end = time.monotonic() + float(seconds)
    while True:
        seen = scrape(url, context, source=source, authorization=authorization)
        print(json.dumps([seen.status, seen.seconds]), flush=True)
        if time.monotonic() >= end:
            return
        time.sleep(PERIOD_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
