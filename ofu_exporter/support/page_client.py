"""Fetches a page of metrics over HTTP in bounded time and size, without redirects."""

from __future__ import annotations

import http.client

from ofu_exporter.errors import PageError
from ofu_exporter.support.bounded_get import Limits, TooLargeError, get, no_answer, shown_url
from ofu_exporter.values.reasons import Reason


class PageClient:
    """One page, by its URL (http or https)."""

    def __init__(self, url: str, timeout: float) -> None:
        """`timeout` is in seconds, for the whole page."""
        self._url = url
        self._timeout = timeout
        self.shown_url = shown_url(url)

    def fetch(self, max_bytes: int) -> str:
        """The page as text. Raises PageError when there is none, or when it can't be a page of metrics."""
        url = self.shown_url
        try:
            answer = get(self._url, "", "text/plain", Limits(self._timeout, max_bytes))
        except (
            TooLargeError
        ):  # `from None`: the error's frames would keep everything that was read in memory
            detail = f"{url} answers with over {max_bytes} bytes"
            raise PageError(Reason.NOT_METRICS, detail) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise PageError(Reason.UNREACHABLE, f"{url} {no_answer(error)}") from error
        if answer.status != 200:
            raise PageError(Reason.UNREACHABLE, f"{url} answers {answer.status}")
        if "html" in answer.content_type or answer.body.lstrip()[:1] == b"<":
            raise PageError(Reason.NOT_METRICS, f"{url} answers with HTML")
        return answer.body.decode("utf-8", "replace")
