"""Posts digests to a webhook: as complete JSON for a program of the site, or as text for Slack's webhooks."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ofu_exporter.errors import ConfigError, HungError
from ofu_exporter.fleet.credentials import ServerAccess
from ofu_exporter.fleet.digest import text
from ofu_exporter.fleet.digest.config_file import WebhookConfig
from ofu_exporter.fleet.digest.result import Digest
from ofu_exporter.fleet.digest.sending import NotSentError
from ofu_exporter.support.patience import within
from ofu_exporter.support.secret_files import read_secret
from ofu_exporter.values.text import shown

if TYPE_CHECKING:
    import httpx

TIMEOUT_SECONDS = 30.0
WHOLE_SECONDS = 60.0
"""Seconds for one complete answer."""
TRIES = 3
"""Most attempts to send a digest while the server asks to try again later."""
LONGEST_PAUSE = 30.0
_DENIED = (401, 403, 404, 410)
"""HTTP statuses with which any other digest would be refused too."""
_PASSED_ON = (502, 504)
"""HTTP statuses of a proxy: the digest may have arrived behind it. Any other digest would get the same answer."""
MOST_BYTES = 64 << 10
"""Most bytes of an answer that are read."""
WORDS_SECONDS = 5.0
"""Seconds to wait for the rest of an answer once its status is known."""
_CUT_SHORT = ("http11.send_request_headers.failed", "http11.send_request_body.failed")
HIDDEN = "..."
_HIGHEST_PORT = 65535
_SHORTEST_SECRET = 6
"""Shorter parts of a URL are words, not secrets."""
_MOST_WORDS = 300
_MOST_SLACK = 3000
"""Most characters of a text; Slack cuts at 40,000."""


class _Posting:
    """How far one attempt has come."""

    def __init__(self) -> None:
        self.has_begun = False
        self.is_cut_short = False
        """Whether the server went away before it had all: then it cannot have taken the digest."""

    def trace(self, event: str, _: object) -> None:
        """See what httpcore does: https://www.python-httpx.org/advanced/extensions/#trace."""
        self.is_cut_short |= event in _CUT_SHORT


class WebhookSender:
    """One URL. Each digest has a connection of its own: of one that is kept, nobody knows whether it still holds."""

    name = "webhook"

    def __init__(
        self,
        config: WebhookConfig,
        most_jobs: int,
        sleep: Callable[[float], None] = time.sleep,
        seconds: float = WHOLE_SECONDS,
    ) -> None:
        """Raises ConfigError for a URL or a file that cannot be used."""
        import httpx  # noqa: PLC0415 - nothing else here needs it

        self._config = config
        self._most_jobs = most_jobs
        self._sleep = sleep
        self._seconds = seconds
        self._url = _url(config)
        access = ServerAccess(bearer_token_file=config.token_file, ca=config.ca)
        headers = access.headers({})
        self._secrets = _secrets(self._url, headers.get("Authorization", ""))
        try:
            self._client = httpx.Client(
                headers=headers,
                verify=access.tls() if self._url.startswith("https") else False,
                timeout=httpx.Timeout(min(seconds, TIMEOUT_SECONDS)),
                limits=httpx.Limits(max_keepalive_connections=0),
            )
            whole = httpx.URL(self._url)
            self._host = whole.host
        except (httpx.InvalidURL, ValueError) as error:
            raise ConfigError(f"webhook: the URL cannot be used: {type(error).__name__}") from error
        if (whole.port or 0) > _HIGHEST_PORT:  # the resolver would use another port instead
            raise ConfigError(f"webhook: the URL has port {whole.port}")

    def to(self, digest: Digest) -> str:  # noqa: ARG002 - all go to one URL
        """The host alone: the rest of the URL may be a secret."""
        return self._host

    def send(self, digest: Digest, to: str) -> None:  # noqa: ARG002
        """Post one digest. Raises NotSentError."""
        body = self.body(digest)
        for last in (*[False] * (TRIES - 1), True):
            pause = self._pause(self._status(body), last)
            if pause is None:
                return
            self._sleep(pause)

    def body(self, digest: Digest) -> dict[str, Any]:
        """What is posted."""
        if self._config.format == "slack":
            return {"text": slack_text(digest)}
        return {
            "subject": text.subject(digest),
            "text": text.text(digest, self._most_jobs),
            "digest": digest.model_dump(mode="json"),
        }

    def close(self) -> None:
        self._client.close()

    def _status(self, body: dict[str, Any]) -> tuple[int, str, str]:
        """The status of an answer, its Retry-After and its first words."""
        import httpx  # noqa: PLC0415

        posting = _Posting()
        try:
            return within(
                self._seconds, f"webhook {self._host}", lambda: self._posted(body, posting)
            )
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol) as error:
            raise NotSentError(f"{self._host}: {_words(error)}", is_down=True) from error
        except HungError as error:
            raise NotSentError(str(error), is_uncertain=posting.has_begun, is_down=True) from error
        except (httpx.HTTPError, OSError) as error:
            raise self._cut_off(error, posting) from error
        except (
            httpx.InvalidURL,
            ValueError,
        ) as error:  # a host that is not a name, or has half a surrogate pair
            said = f"{self._host}: cannot be posted: {type(error).__name__}"
            raise NotSentError(said) from error

    def _cut_off(self, error: Exception, posting: _Posting) -> NotSentError:
        """What is known of a digest that got no answer.

        Where the server had all of it, the next one would be as unsure: after some the rest is left for another run.
        """
        import httpx  # noqa: PLC0415

        if posting.is_cut_short:
            said = f"{self._host}: went away before it had all: {_words(error)}"
            return NotSentError(said, is_down=isinstance(error, httpx.TimeoutException))
        return NotSentError(f"{self._host}: {_words(error)}", is_uncertain=True, is_down=True)

    def _posted(self, body: dict[str, Any], posting: _Posting) -> tuple[int, str, str]:
        posting.has_begun = True
        extensions = {"trace": posting.trace}
        with self._client.stream("POST", self._url, json=body, extensions=extensions) as response:
            # the rest of a successful answer does not matter, and may never end
            said = "" if response.is_success else self._without_secrets(_first(response))
            answer = shown(" ".join(said.split())[:_MOST_WORDS])
            return response.status_code, response.headers.get("retry-after", ""), answer

    def _without_secrets(self, said: str) -> str:
        """The text without the URL's secrets: servers repeat an unknown path, and it may be secret."""
        for secret in self._secrets:
            said = said.replace(secret, HIDDEN)
        return said

    def _pause(self, answer: tuple[int, str, str], last: bool) -> float | None:
        """Seconds after which to try again; None if the digest was accepted. Raises NotSentError."""
        status, retry_after, said = answer
        if 200 <= status < 300:
            return None
        if status in (429, 503) and not last:
            wanted = float(retry_after) if re.fullmatch(r"\d{1,4}", retry_after) else 1.0
            return min(wanted, LONGEST_PAUSE)
        raise NotSentError(
            f"{self._host}: answers {status}: {said}",
            is_uncertain=status in _PASSED_ON,
            is_down=status in _DENIED or status in _PASSED_ON,
        )


def _first(response: httpx.Response) -> str:
    """The first words of an answer; none if they do not come soon, because half of a secret could not be recognised
    in them."""
    import httpx  # noqa: PLC0415

    said, end = b"", time.monotonic() + WORDS_SECONDS
    with suppress(httpx.HTTPError):  # the status is known, and this is only its text
        for piece in response.iter_bytes():
            said += piece
            if len(said) > MOST_BYTES:
                break
            if time.monotonic() > end:
                return ""
        return said[:MOST_BYTES].decode(errors="replace")
    return ""


def _secrets(url: str, authorization: str) -> list[str]:
    """The secret parts of the URL and the header, the longest first."""
    rest = re.sub(r"^https?://[^/]+", "", url)
    parts = {*re.split(r"[/?&=#]+", rest), *authorization.split()[1:]}
    known = {form for part in parts for form in (part, unquote(part), html.escape(part))}
    return sorted((each for each in known if len(each) >= _SHORTEST_SECRET), key=len, reverse=True)


def slack_text(digest: Digest) -> str:
    """A few lines. `&`, `<` and `>` are escaped as Slack requires, so that no name notifies a whole channel."""
    lines = [*_slack_lines(digest)]
    safe = "\n".join(shown(line) for line in lines)
    for letter, escape in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        safe = safe.replace(letter, escape)
    return safe if len(safe) <= _MOST_SLACK else f"{safe[: _MOST_SLACK - 1]}…"


def _slack_lines(digest: Digest) -> Iterator[str]:
    yield from text.facts(digest)
    for job, said in text.to_do(digest)[:5]:
        yield f"• {job}: {said}"
    yield from text.rank_lines(digest)
    if digest.contact:
        yield digest.contact


def _url(config: WebhookConfig) -> str:
    """The URL. Raises ConfigError, which does not quote it."""
    url = config.url or ""
    if config.url_file is not None:
        url = read_secret(config.url_file, "webhook URL file").strip()
    if not re.fullmatch(r"https?://[^\s@/]+(/\S*)?", url):
        raise ConfigError("webhook: the URL is not http(s)://HOST[:PORT]/PATH without a password")
    return url


def _words(error: Exception) -> str:
    return shown(str(error))[:300] or type(error).__name__
