"""Sends digests with apprise, which speaks to mail servers, Slack, Teams and many others. A failure stops no other."""

from __future__ import annotations

import html
import logging
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import quote, unquote

from ofu_exporter.errors import ConfigError, HungError, OfuError
from ofu_exporter.fleet.digest import text
from ofu_exporter.fleet.digest.config_file import ADDRESS, NAME, SendConfig
from ofu_exporter.fleet.digest.result import Digest
from ofu_exporter.support.checked_yaml import load_yaml
from ofu_exporter.support.extras import install_command
from ofu_exporter.support.patience import within
from ofu_exporter.support.small_files import read_secret, read_small
from ofu_exporter.values.text import shown

if TYPE_CHECKING:
    from apprise import Apprise


_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,63}")
"""A name that may be put into an address. Names are labels, and somebody may have chosen one to look like an
address."""


class NoAddressError(OfuError):
    """The digest for this name would go nowhere, or to somebody else."""

    def __init__(self, text: str, *, is_wish: bool = False) -> None:
        super().__init__(text)
        self.is_wish = is_wish
        """Whether the site wants no digest for this name."""


class AddressBook:
    def __init__(self, config: SendConfig) -> None:
        """Raises ConfigError for a file that cannot be used."""
        self._pattern = config.to
        self._listed = {} if config.addresses is None else _read(config.addresses)

    def of(self, name: str) -> str:
        """The address of a name. Raises NoAddressError."""
        if name in self._listed:
            if address := self._listed[name]:
                return address
            raise NoAddressError("the file of addresses has none", is_wish=True)
        if self._pattern is None:
            raise NoAddressError("is not in the file of addresses")
        if not _PLAIN.fullmatch(name):
            raise NoAddressError(
                "has characters that no address is made of: give its address in `addresses`"
            )
        address = self._pattern.replace(NAME, name)
        if not ADDRESS.fullmatch(address):
            raise NoAddressError(f"does not make a valid address: {address}")
        return address


def _read(path: Path) -> dict[str, str | None]:
    text = read_small(path, "addresses", most_bytes=16 << 20)
    try:
        loaded = load_yaml(text)
    except ValueError as error:
        raise ConfigError(f"addresses {path}: {error}") from error
    if not isinstance(loaded, dict):
        raise ConfigError(f"addresses {path}: the top level must be `name: address` lines")
    for name, address in loaded.items():
        if not isinstance(name, str):
            raise ConfigError(f"addresses {path}: {name!r} is not text: put it in quotes")
        if address is not None and not (isinstance(address, str) and ADDRESS.fullmatch(address)):
            raise ConfigError(f"addresses {path}: {name!r} has no address such as a@example.org")
    return loaded


Fate = Literal["would be sent", "sent", "not wanted", "not sent"]
TO = "{to}"
"""Stands for the reader's address in the URL."""
WHOLE_SECONDS = 120.0
"""Seconds for one digest, whatever the server does."""
FAILURES_IN_A_ROW = 3
"""After this number the server is taken to be away, and the rest is not tried."""
_MENTION = re.compile(r"(?<=[@!])(?=\w)")
"""Where chats read a mention of somebody, of a channel or of all, such as `@here` and `<!here>`."""
HIDDEN = "..."
_SHORTEST_SECRET = 6
"""Shorter parts of a URL are words, not secrets, but for a password."""
_PASSWORD = re.compile(r"://[^/?]*?:([^/?]+)@")
_MAIL = ("mailto", "mailtos")
_WITH_HOST = (*_MAIL, "json", "jsons", "form", "forms", "xml", "xmls")
"""Kinds of URLs that begin with a host; in others a secret may stand there."""
_BASE64 = re.compile(r"([A-Za-z0-9+/]{6,})={0,2}")
_REASON = re.compile(r"^(?:(?:WARNING|ERROR) |DEBUG Socket Exception: )(.*)")
"""Lines of apprise's log that say why; the others may quote the URL."""


class DigestFate(NamedTuple):
    digest: Digest
    to: str
    """Empty if nobody gets it."""
    fate: Fate
    why: str = ""


class Message(NamedTuple):
    """What is sent to one reader."""

    title: str
    body: str
    is_html: bool = False
    attached: Path | None = None


class AppriseSender:
    """The site's URL of apprise."""

    def __init__(self, url: str, seconds: float = WHOLE_SECONDS) -> None:
        """Raises ConfigError, which does not quote the URL, for a URL that cannot be used."""
        self._seconds = seconds
        self._url = url
        self._kind, _, rest = self._url.partition("://")
        host = re.split(r"[/?]", rest)[0].rpartition("@")[2].partition(":")[0]
        self._host = host if self._kind in _WITH_HOST else ""
        self._service("somebody@example.org")

    @property
    def is_mail(self) -> bool:
        return self._kind in _MAIL

    def place(self, address: str) -> str:
        """Where something for this address goes, without what may be secret; the address is empty where the URL has
        one."""
        place = address or self._host
        return f"{self._kind} to {place}" if place else self._kind

    def deliver(self, message: Message, address: str) -> str:
        """Send to one reader; returns why it did not go out, else nothing."""
        import apprise  # noqa: PLC0415 - an extra, and nothing else here needs it

        notify = partial(
            self._service(address).notify,
            title=_utf8(message.title),
            body=_utf8(message.body),
            body_format=apprise.NotifyFormat.HTML if message.is_html else apprise.NotifyFormat.TEXT,
            attach=str(message.attached) if message.attached else None,
        )
        with apprise.LogCapture(level=logging.DEBUG, fmt="%(levelname)s %(message)s") as log:
            try:
                is_sent = within(self._seconds, f"sending by {self._kind}", notify)
            except HungError as error:
                return f"{error}; it may have arrived"
            return "" if is_sent else self._reason(log.getvalue(), address)

    def _service(self, address: str) -> Apprise:
        try:
            import apprise  # noqa: PLC0415
        except ImportError as error:
            raise ConfigError(f"to send digests: {install_command('digest')}") from error

        asset = apprise.AppriseAsset(app_id="ofu-exporter", async_mode=False)
        service = apprise.Apprise(asset=asset)
        with apprise.LogCapture(level=logging.CRITICAL):  # its errors quote the URL
            if not service.add(self._url.replace(TO, quote(address, safe=""))):
                raise ConfigError("send: apprise does not know a URL like this one")
        return service

    def _reason(self, log: str, address: str) -> str:
        """Why it did not go out, without the parts of the URL that may be secret."""
        reasons = [match[1] for line in log.splitlines() if (match := _REASON.match(line))]
        reason = "; ".join(reasons) or "the server refused it"
        parts = {*re.split(r"[/?&=#:@]+", self._url.partition("://")[2])}
        secrets = {part for part in parts if part not in self._host and part not in address}
        secrets = {part for part in secrets if len(part) >= _SHORTEST_SECRET}
        secrets |= {*_PASSWORD.findall(self._url)}
        forms = {write(each) for each in secrets for write in (str, unquote, html.escape)}
        for form in sorted(forms, key=len, reverse=True):  # one may have another in it
            reason = reason.replace(form, HIDDEN)
        return shown(_BASE64.sub(partial(_without, forms), reason))[:600]


def _without(secrets: Iterable[str], match: re.Match[str]) -> str:
    """A word, or what stands for one with a secret in it in base64, as it was sent to log in."""
    parts = [match[1][start:] for start in range(4)]  # it may begin after other letters
    decoded = [b64decode(part[: -1 if len(part) % 4 == 1 else None] + "==") for part in parts]
    return (
        HIDDEN if any(each.encode() in part for each in secrets for part in decoded) else match[0]
    )


class DigestSender(AppriseSender):
    """The same with the address of each digest's reader."""

    def __init__(self, config: SendConfig, most_jobs: int, seconds: float = WHOLE_SECONDS) -> None:
        """Raises ConfigError, which does not quote the URL, for a URL or a file that cannot be used."""
        self._addresses = AddressBook(config) if config.is_personal else None
        self._most_jobs = most_jobs
        url = url_of(config)
        if (TO in url) != config.is_personal:
            raise ConfigError(f"send: {TO} in the URL needs `to` or `addresses`, and these need it")
        super().__init__(url, seconds)

    def to(self, digest: Digest) -> str:
        """Where a digest goes, without what may be secret. Raises NoAddressError."""
        return self.place(self._address(digest))

    def send(self, digest: Digest) -> str:
        """Send one digest; returns why it did not go out, else nothing."""
        address = self._address(digest)
        subject = text.subject(digest)
        if self.is_mail:
            message = Message(subject, text.page(digest, self._most_jobs), is_html=True)
        else:
            message = Message(_without_mentions(subject), _without_mentions(text.short(digest)))
        return self.deliver(message, address)

    def _address(self, digest: Digest) -> str:
        return self._addresses.of(digest.name) if self._addresses else ""


def url_of(config: SendConfig) -> str:
    """The URL, which may stand in a file. Raises ConfigError."""
    if config.url_file is None:
        return config.url
    return read_secret(config.url_file, "URL file").strip()


def _without_mentions(content: str) -> str:
    """The text for a chat, where no name calls anybody: a space of no width parts what would."""
    return _MENTION.sub("\N{ZERO WIDTH SPACE}", content)


def _utf8(content: str) -> str:
    """The text without half surrogate pairs, which cannot be sent."""
    return content.encode(errors="backslashreplace").decode()


def planned(digests: Iterable[Digest], sender: DigestSender) -> Iterator[DigestFate]:
    for digest in digests:
        try:
            yield DigestFate(digest, sender.to(digest), "would be sent")
        except NoAddressError as error:
            yield DigestFate(digest, "", "not wanted" if error.is_wish else "not sent", str(error))


def delivered(digests: Sequence[Digest], sender: DigestSender) -> Iterator[DigestFate]:
    """Send all of them; returns the result of each as soon as it is known."""
    failures = 0
    for plan in planned(digests, sender):
        if not plan.to:
            yield plan
        elif failures >= FAILURES_IN_A_ROW:
            yield plan._replace(
                fate="not sent", why=f"not tried after {failures} failures in a row"
            )
        else:
            why = sender.send(plan.digest)
            failures = failures + 1 if why else 0
            yield plan._replace(fate="not sent" if why else "sent", why=why)
