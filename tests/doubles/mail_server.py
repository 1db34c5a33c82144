"""A mail server for tests: aiosmtpd, which is a real one, told what to refuse."""

from __future__ import annotations

import asyncio
import email
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import default
from typing import Any, cast

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

USER, PASSWORD = "digests", "p:a s"


@dataclass
class TakenMail:
    """What came, and how."""

    sender: str
    to: list[str]
    content: EmailMessage
    with_tls: bool
    user: str | None


@dataclass
class MailServer:
    """What a mail server does, and what it got."""

    port: int = 1
    taken: list[TakenMail] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    """Answers to RCPT by address, as `550 5.1.1 no such user`."""
    connections: int = 0

    async def handle_EHLO(
        self, server: SMTP, session: Session, _envelope: Envelope, name: str, lines: list[str]
    ) -> list[str]:
        session.host_name = name
        self.connections += session.ssl is not None or server.tls_context is None
        return lines

    async def handle_RCPT(
        self,
        _server: SMTP,
        _session: Session,
        envelope: Envelope,
        address: str,
        _options: list[str],
    ) -> str:
        if address in self.refused:
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: SMTP, session: Session, envelope: Envelope) -> str:
        (to,) = envelope.rcpt_tos
        parsed = email.message_from_bytes(cast(bytes, envelope.content), policy=default)
        user = session.auth_data.login.decode() if session.auth_data else None
        mail = TakenMail(str(envelope.mail_from), [to], parsed, session.ssl is not None, user)
        self.taken.append(mail)
        return "250 taken"


def _known(server: SMTP, session: Session, envelope: Envelope, how: str, told: Any) -> AuthResult:
    is_right = isinstance(told, LoginPassword) and told == LoginPassword(
        USER.encode(), PASSWORD.encode()
    )
    return AuthResult(success=is_right, handled=False, auth_data=told)


@contextmanager
def mail_server(
    starttls: ssl.SSLContext | None = None, tls: ssl.SSLContext | None = None
) -> Iterator[MailServer]:
    """A server on a port of its own; with STARTTLS it wants to be logged in to."""
    server = MailServer()
    options: dict[str, Any] = {"hostname": "mx.test"}
    if starttls is not None:
        options |= {
            "tls_context": starttls,
            "require_starttls": True,
            "authenticator": _known,
            "auth_required": True,
        }
    ready, loop = threading.Event(), asyncio.new_event_loop()
    stopped = asyncio.Event()

    async def serve() -> None:
        made = await loop.create_server(
            lambda: SMTP(server, loop=loop, **options), "127.0.0.1", 0, ssl=tls
        )
        server.port = made.sockets[0].getsockname()[1]
        ready.set()
        await stopped.wait()
        made.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(20)
        yield server
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join()
        loop.close()
