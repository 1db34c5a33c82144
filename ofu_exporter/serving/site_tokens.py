"""Keeps the site's tokens, whose file is read anew when it changes."""

from __future__ import annotations

import hashlib
import hmac
import logging
import threading
import time
from pathlib import Path
from typing import NamedTuple

from ofu_exporter.errors import ConfigError
from ofu_exporter.support.small_files import read_secret, stamp

log = logging.getLogger(__name__)

CHECK_SECONDS = 1.0
"""Time between two looks at the file of the site's tokens."""
SHORTEST_TOKEN = 16
"""Fewest letters of a token; a shorter one can be guessed."""


OWN_POD = "own-pod"
"""The word behind a token that is good only for a pod that reports for its own job."""


class SiteToken(NamedTuple):
    """One token of the site's file."""

    digest: str
    """SHA-256 of the token, in hexadecimal."""
    own_pod: bool = False
    """Whether it is good only for a pod that reports for its own job."""


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
        self._tokens = read_tokens(path)
        self._problem = ""

    def find(self, digest: str) -> SiteToken | None:
        """The token with this SHA-256, if there is one; takes equally long for every answer."""
        tokens = [each for each in self._tokens if hmac.compare_digest(digest, each.digest)]
        return tokens[0] if tokens else None

    def refresh(self) -> None:
        """Read the file again if it has changed, or could not be used before."""
        now = stamp(self.path)
        if now == self._stamp and not self._problem:
            return
        try:
            self._tokens, problem = read_tokens(self.path), ""
            log.info("report tokens read anew from %s", self.path)
        except ConfigError as error:
            self._tokens, problem = (), str(error)
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


def read_tokens(path: Path) -> tuple[SiteToken, ...]:
    """Every token of the file: one a line, perhaps with ` own-pod` behind it, comments after #. Raises ConfigError."""
    tokens = []
    for number, line in enumerate(read_secret(path, "report token file").splitlines(), 1):
        if not line.strip() or line.strip().startswith("#"):
            continue
        token, _, word = line.strip().partition(" ")
        if len(token) < SHORTEST_TOKEN or not token.isascii() or word.strip() not in ("", OWN_POD):
            raise ConfigError(
                f"report token file {path}: line {number} is no token; "
                f"it takes {SHORTEST_TOKEN} letters or more and no space (openssl rand -hex 32), "
                f"and behind it nothing or the word {OWN_POD}"
            )
        tokens.append(SiteToken(sha256(token.encode()), bool(word)))
    if not tokens:
        raise ConfigError(f"report token file {path} holds no token")
    return tuple(tokens)


def sha256(token: bytes) -> str:
    """The form in which a token is kept and compared."""
    return hashlib.sha256(token).hexdigest()
