"""Fetches a page of metrics over HTTP in bounded time and size, without redirects."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ofu_exporter.errors import PageError
from ofu_exporter.support.addresses import NO_URL, without_password
from ofu_exporter.support.bounded_body import TooLargeError, whole_body
from ofu_exporter.values.reasons import Reason

if TYPE_CHECKING:
    import ssl

    import httpx


class PageClient:
    """One page, by its URL (http or https). The connection is kept."""

    def __init__(
        self, url: str, timeout: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`timeout` is in seconds and for each step. The whole body may take twice as long."""
        self._url = url
        self._timeout = timeout
        self._clock = clock
        self._client: httpx.Client | None = None
        self.shown_url = without_password(url)

    def fetch(self, max_bytes: int) -> str:
        """The page as text. Raises PageError when there is none, or when it can't be a page of metrics."""
        import httpx  # noqa: PLC0415 - not every agent fetches a page

        try:
            if self._client is None:
                self._client = httpx.Client(
                    timeout=self._timeout,
                    trust_env=False,  # no proxy: the page is on this node
                    verify=self._trust(),
                )
            with self._client.stream("GET", self._url) as response:
                return self._body(response, max_bytes)
        except httpx.InvalidURL as error:  # whose text may quote a part of a password
            raise PageError(Reason.UNREACHABLE, f"{self.shown_url}: {NO_URL}") from error
        except (httpx.HTTPError, OSError, OverflowError) as error:
            detail = f"{self.shown_url}: {str(error) or type(error).__name__}"
            raise PageError(Reason.UNREACHABLE, detail) from error

    def _trust(self) -> ssl.SSLContext | bool:
        """The system's authorities, or those of SSL_CERT_FILE; loading them costs 20 ms."""
        import ssl  # noqa: PLC0415 - most pages need none

        return ssl.create_default_context() if self._url.startswith("https") else False

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _body(self, response: httpx.Response, max_bytes: int) -> str:
        url = self.shown_url
        if response.status_code != 200:
            raise PageError(Reason.UNREACHABLE, f"{url} answers {response.status_code}")
        if "html" in response.headers.get("content-type", ""):
            raise PageError(Reason.NOT_METRICS, f"{url} answers with HTML")
        deadline = self._clock() + 2 * self._timeout
        try:
            body = whole_body(response.iter_bytes(), max_bytes, deadline, self._clock)
        except TooLargeError:
            detail = f"{url} answers with over {max_bytes} bytes"
            raise PageError(Reason.NOT_METRICS, detail) from None
        except TimeoutError:
            detail = f"{url} takes too long to send its page"
            raise PageError(Reason.UNREACHABLE, detail) from None
        if body.lstrip()[:1] == b"<":
            raise PageError(Reason.NOT_METRICS, f"{url} answers with HTML")
        return body.decode("utf-8", "replace")
