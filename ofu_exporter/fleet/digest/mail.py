"""Sends digests by mail, over one connection to the site's mail server (RFC 5321)."""

from __future__ import annotations

import smtplib
import socket
import threading
from contextlib import suppress
from email.message import EmailMessage

from ofu_exporter.errors import ConfigError, HungError
from ofu_exporter.fleet.credentials import ServerAccess
from ofu_exporter.fleet.digest.addresses import read_addresses
from ofu_exporter.fleet.digest.config_file import MailConfig
from ofu_exporter.fleet.digest.message import message
from ofu_exporter.fleet.digest.result import Digest
from ofu_exporter.fleet.digest.sending import NotSentError
from ofu_exporter.support.patience import within
from ofu_exporter.support.secret_files import read_secret
from ofu_exporter.values.text import shown

PORTS = {"starttls": 587, "tls": 465, "none": 25}
TIMEOUT_SECONDS = 30.0
"""Seconds for one answer of the server."""
MAIL_SECONDS = 120.0
"""Seconds for one mail, with all of its answers."""
_SERVICE_GONE = 421
_LONGEST = 300


class _MailAttempt:
    """One attempt to send a mail, and its connection. Once it is given up, no further step of it begins."""

    def __init__(self, server: smtplib.SMTP | None) -> None:
        self.server = server
        self.is_under_way = False
        """Whether the mail server may have the complete mail."""
        self._lock = threading.Lock()
        self._is_given_up = False

    def connected(self, server: smtplib.SMTP) -> None:
        with self._lock:
            self.server = server
            self._check()

    def begin(self) -> None:
        """Note that the mail itself is sent now."""
        with self._lock:
            self._check()
            self.is_under_way = True

    def give_up(self) -> None:
        """Close the connection, even if a thread waits for an answer on it."""
        with self._lock:
            self._is_given_up = True
            _drop(self.server)

    def _check(self) -> None:
        """Raises SMTPServerDisconnected after the time is over."""
        if self._is_given_up:
            _drop(self.server)
            raise smtplib.SMTPServerDisconnected("took too long")


def _drop(server: smtplib.SMTP | None) -> None:
    if server is not None:
        if server.sock is not None:
            with suppress(OSError):
                server.sock.shutdown(socket.SHUT_RDWR)
        server.close()


class MailSender:
    """One mail server and one sender."""

    name = "mail"

    def __init__(
        self,
        config: MailConfig,
        most_jobs: int,
        answer_seconds: float = TIMEOUT_SECONDS,
        mail_seconds: float = MAIL_SECONDS,
    ) -> None:
        """Raises ConfigError for a file that cannot be used."""
        self._config = config
        self._most_jobs = most_jobs
        self._answer_seconds = answer_seconds
        self._mail_seconds = mail_seconds
        self._addresses = read_addresses(config)
        self._password = _password(config)
        self._tls = ServerAccess(ca=config.ca).tls() if config.tls != "none" else None
        self._port = config.port or PORTS[config.tls]
        self._server: smtplib.SMTP | None = None

    def to(self, digest: Digest) -> str:
        """The address of the digest's reader. Raises NoAddressError."""
        return self._addresses.of(digest.name)

    def send(self, digest: Digest, to: str) -> None:
        """Send one mail to one address. Raises NotSentError."""
        mail = message(digest, self._config.sender, to, self._most_jobs)
        is_reused = self._server is not None
        try:
            self._once(mail, to)
        except NotSentError as error:
            if not is_reused or error.is_uncertain or self._server is not None:
                raise
            self._once(mail, to)  # the server refused the connection, not the mail

    def _once(self, mail: EmailMessage, to: str) -> None:
        attempt, self._server = _MailAttempt(self._server), None
        try:
            within(self._mail_seconds, f"mail to {to}", lambda: self._sent(mail, to, attempt))
            self._server = attempt.server
        except smtplib.SMTPResponseException as error:
            self._server = _after_refusal(attempt, error.smtp_code, self._answer_seconds)
            raise NotSentError(answer(error.smtp_code, error.smtp_error)) from error
        except (smtplib.SMTPException, OSError, ValueError, HungError) as error:
            attempt.give_up()
            said = f"{self._config.host}:{self._port}: {_words(error)}"
            raise NotSentError(
                said,
                is_uncertain=attempt.is_under_way,
                is_down=_is_slow(error),
            ) from error

    def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            with suppress(smtplib.SMTPException, OSError, HungError):
                within(self._answer_seconds, "the end of mail", server.quit)
            _drop(server)

    def _sent(self, mail: EmailMessage, to: str, attempt: _MailAttempt) -> None:
        if attempt.server is None:
            attempt.connected(self._connected())
        assert attempt.server is not None
        _accepted(attempt.server.mail(self._config.sender))
        _accepted(attempt.server.rcpt(to))
        attempt.begin()
        _accepted(attempt.server.data(mail.as_bytes()))

    def _connected(self) -> smtplib.SMTP:
        """A new connection. Raises NotSentError if no mail at all can be sent."""
        try:
            return self._connect()
        except (smtplib.SMTPException, OSError) as error:
            said = f"{self._config.host}:{self._port}: {_words(error)}"
            raise NotSentError(said, is_down=True) from error

    def _connect(self) -> smtplib.SMTP:
        host, timeout = self._config.host, self._answer_seconds
        if self._config.tls == "tls":
            server: smtplib.SMTP = smtplib.SMTP_SSL(
                host, self._port, timeout=timeout, context=self._tls
            )
        else:
            server = smtplib.SMTP(host, self._port, timeout=timeout)
        try:
            if self._config.tls == "starttls":
                server.starttls(context=self._tls)
            if self._config.user is not None and self._password is not None:
                server.login(self._config.user, self._password)
            server.ehlo_or_helo_if_needed()
        except BaseException:
            server.close()
            raise
        return server


def _after_refusal(attempt: _MailAttempt, code: int, seconds: float) -> smtplib.SMTP | None:
    """The connection, ready for the next mail; None if it is closed."""
    server = attempt.server
    if server is not None and code != _SERVICE_GONE:
        with suppress(smtplib.SMTPException, OSError, HungError):
            _accepted(within(seconds, "mail after a refusal", server.rset))
            return server
    attempt.give_up()
    return None


def _accepted(answer: tuple[int, bytes]) -> None:
    """Raises SMTPResponseException for an answer other than 2xx."""
    code, said = answer
    if not 200 <= code < 300:
        raise smtplib.SMTPResponseException(code, said)


def answer(code: int, said: bytes | str) -> str:
    """The words of a server, as one line without control characters."""
    decoded = said.decode(errors="replace") if isinstance(said, bytes) else said
    return f"refused: {code} {shown(' '.join(decoded.split()))[:_LONGEST]}"


def _is_slow(error: BaseException) -> bool:
    """Whether a timeout ended it. The next mail would wait as long. smtplib hides a timeout behind its own error."""
    return isinstance(error, (TimeoutError, HungError)) or isinstance(
        error.__context__, TimeoutError
    )


def _words(error: BaseException) -> str:
    if isinstance(error, smtplib.SMTPResponseException):
        return answer(error.smtp_code, error.smtp_error)
    return shown(str(error))[:_LONGEST] or type(error).__name__


def _password(config: MailConfig) -> str | None:
    if config.password_file is None:
        return None
    password = read_secret(config.password_file, "password file").strip()
    if not password:
        raise ConfigError(f"password file {config.password_file} is empty")
    if not (password + (config.user or "")).isascii():  # smtplib accepts only ASCII
        raise ConfigError(f"password file {config.password_file}: user or password are not ASCII")
    return password
