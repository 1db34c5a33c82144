"""Keeps the site's tokens, whose file is read anew when it changes."""

from __future__ import annotations

import hashlib
import hmac
import logging
import threading
import time
from pathlib import Path

from ofu_exporter.errors import ConfigError
from ofu_exporter.support.secret_files import read_secret
from ofu_exporter.support.small_files import stamp

log = logging.getLogger(__name__)

CHECK_SECONDS = 1.0
"""Time between two looks at the file of the site's tokens."""
SHORTEST_TOKEN = 16
"""Fewest letters of a token; a shorter one can be guessed."""


class SiteTokens:
    """The site's tokens, read anew when their file changes.

    When the file is gone, empty, or open to others while the agent runs, no token is good any more: a site
    withdraws its tokens in this way. The file has a thread of its own, so a disk that hangs holds up nobody;
    meanwhile the tokens stay as they were.
    """

    def __init__(self, path: Path) -> None:
        """Raises ConfigError when the file cannot be used."""
        self.path = path
        # A file system that hangs is refused here, and nobody waits for its stamp.
        read_tokens(path)
        self._stamp = stamp(path)
        self._digests = read_tokens(path)
        self._problem = ""

    def knows(self, digest: str) -> bool:
        """Whether this is the SHA-256 of one of the tokens; takes equally long for every answer."""
        return any([hmac.compare_digest(digest, known) for known in self._digests])

    def refresh(self) -> None:
        """Read the file again if it has changed, or could not be used before."""
        now = stamp(self.path)
        if now == self._stamp and not self._problem:
            return
        try:
            self._digests, problem = read_tokens(self.path), ""
            log.info("report tokens read anew from %s", self.path)
        except ConfigError as error:
            self._digests, problem = (), str(error)
            if problem != self._problem:
                log.error("no report token is good until this is put right: %s", error)
        self._stamp, self._problem = now, problem

    def start(self) -> None:
        """Watch the file from now on, until the process ends."""
        threading.Thread(target=self._watch, name="report-tokens", daemon=True).start()

    def _watch(self) -> None:
        while True:
            time.sleep(CHECK_SECONDS)
            self.refresh()


def read_tokens(path: Path) -> tuple[str, ...]:
    """The SHA-256 of every token of the file: one a line, comments after #. Raises ConfigError."""
    digests = []
    for number, line in enumerate(read_secret(path, "report token file").splitlines(), 1):
        token = line.strip()
        if not token or token.startswith("#"):
            continue
        if len(token) < SHORTEST_TOKEN or not token.isascii() or " " in token:
            raise ConfigError(
                f"report token file {path}: line {number} is no token; "
                f"it takes {SHORTEST_TOKEN} letters or more and no space (openssl rand -hex 32)"
            )
        digests.append(sha256(token.encode()))
    if not digests:
        raise ConfigError(f"report token file {path} holds no token")
    return tuple(digests)


def sha256(token: bytes) -> str:
    """The form in which a token is kept and compared."""
    return hashlib.sha256(token).hexdigest()
