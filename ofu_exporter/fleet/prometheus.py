"""Asks a Prometheus, or anything with its query API (Thanos, Mimir, VictoriaMetrics), and reads its answers."""

from __future__ import annotations

import gc
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from ofu_exporter.errors import ConfigError, QueryError
from ofu_exporter.fleet.credentials import NO_ACCESS, PrometheusAccess
from ofu_exporter.fleet.history_server import HistoryServer
from ofu_exporter.fleet.series import EARLIEST, LATEST, Series, read_series
from ofu_exporter.support.bounded_body import TooLargeError, whole_body
from ofu_exporter.support.bounded_get import shown_url
from ofu_exporter.values.reasons import QueryReason

if TYPE_CHECKING:
    import httpx

MOST_BYTES = 8 << 20
"""Largest answer that is read. Python's objects take some twelve times as much memory as their JSON."""
TIMEOUT_SECONDS = 130.0
"""A little above the two minutes for which Prometheus computes by default."""
_PAUSES = (0.5, 2.0, 8.0)
"""Seconds between the tries of a query while the server is busy or away."""
_LONGEST_PAUSE = 60.0
LOOK_BACK = {"max_lookback": "300s"}
"""VictoriaMetrics would show the last sample for as long as a step, up to an hour, where Prometheus does for five
minutes."""
_ASKED_ONCE = {"stats": "all", "nocache": "1"}
"""VictoriaMetrics would write each day beside those before into its cache, which costs it more than the answers."""
MOMENT = 0.001
"""Seconds beyond an end: in an answer until midnight (UTC), VictoriaMetrics has no series that begins then."""
_NOT_EVERYWHERE = {*LOOK_BACK, *_ASKED_ONCE}
"""Google's Managed Prometheus refuses a query with a parameter that it does not know, where others pass it over."""
_TOO_MUCH = re.compile(
    r"too many|timed? ?out|timeout|deadline|exceed|limit|maximum|maxSamples|maxUniqueTimeseries"
    r"|more than|not enough memory|too long|too large|canceled",
    re.IGNORECASE,
)
"""What Prometheus, Thanos, Mimir and VictoriaMetrics say when a query is more than they compute."""


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pauses Python's collector of circular garbage where millions of small objects are made, none of them in a circle.

    It looks at all of them again and again: to parse a large JSON takes eight times as long with it.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


_PAGES = re.compile(r"/(?:graph|query|alerts|targets|rules|status|classic/graph|vmui)/?$")
"""Where Prometheus and VictoriaMetrics show people something: what somebody copies from a browser."""


class PrometheusClient(HistoryServer):
    """One server, by its URL with the path below which `/api/v1` is. Connections are kept. Any thread may ask."""

    def __init__(
        self,
        url: str,
        access: PrometheusAccess = NO_ACCESS,
        environ: Mapping[str, str] = os.environ,
        sleep: Callable[[float], None] = time.sleep,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        """Raises ConfigError for a URL or a credential that cannot be used."""
        import httpx  # noqa: PLC0415 - the agent needs none of this

        if not _is_url(url):
            raise ConfigError(
                f"{shown_url(url)}: not http(s)://HOST[:PORT][/PATH]; a password belongs into a file"
            )
        super().__init__(url.rstrip("/"), access.tenant or "")
        self._lock = threading.Lock()
        self._partial = ""
        self._is_strict = False
        self._sleep = sleep
        self._timeout = timeout
        try:
            self._client: httpx.Client = httpx.Client(
                headers=access.headers(environ),
                auth=access.basic(environ),
                verify=access.tls() if url.startswith("https") else False,
                timeout=httpx.Timeout(timeout, connect=10.0),
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise ConfigError(f"{shown_url(url)}: {error}") from error

    def close(self) -> None:
        self._client.close()

    def instant(self, expression: str, at: float | None = None) -> list[Series]:
        """The value of an expression at a time, by default the server's own. Raises QueryError."""
        when = {} if at is None else {"time": f"{at:.3f}"}
        return self._asked("query", {"query": expression, **when, **LOOK_BACK})

    def recorded(self, selector: str, start: float, end: float) -> list[Series]:
        """The samples of a series themselves, those after `start` and not after `end`. Raises QueryError.

        A server may or may not count a sample at the very begin as part of a range, so both ends are cut here.
        """
        window = f"[{round(1000 * (end + MOMENT - start))}ms]"
        form = {"query": f"{selector}{window}", "time": f"{end + MOMENT:.3f}"}
        return self._asked("query", form, start, end)

    def steps(self, expression: str, start: float, end: float, step: float) -> list[Series]:
        """The values of an expression at start + step, start + 2 step, ... end. Raises QueryError."""
        times = {
            "start": f"{start + step:.3f}",
            "end": f"{end + MOMENT:.3f}",
            "step": f"{step:.3f}",
        }
        form = {"query": expression, **times, **LOOK_BACK}
        return self._asked("query_range", form, start, end + step / 2)

    def take_partial_answer(self) -> str:
        """Why an answer since the last call of this had only a part of the data; empty where none was so."""
        why, self._partial = self._partial, ""
        return why

    def server_time(self) -> float:
        """The server's clock. Raises QueryError, which says what else the address is of, as far as that can be told."""
        try:
            result = self._data("query", {"query": "time()"})["result"]
        except QueryError as error:
            if error.reason is not QueryReason.NOT_PROMETHEUS:
                raise
            raise self._what_it_is(error) from error
        try:  # a scalar; VictoriaMetrics makes a series of it
            one = result[0]["value"] if isinstance(result[0], dict) else result
            seconds = float(one[1])
        except (TypeError, ValueError, KeyError, IndexError) as error:
            raise self._error(QueryReason.NOT_PROMETHEUS, "gives no time") from error
        if not 0 <= seconds < LATEST:  # NaN is refused, too
            raise self._error(QueryReason.NOT_PROMETHEUS, "gives no time")
        return seconds

    def _what_it_is(self, error: QueryError) -> QueryError:
        """The error, or where the address is of an agent or of a page of Prometheus one that says so."""
        import httpx  # noqa: PLC0415

        if page := _PAGES.search(self.shown_url):
            return self._error(QueryReason.A_PAGE, f"{page[0]} is a page of Prometheus for people")
        with suppress(httpx.HTTPError, OSError, QueryError):
            with self._client.stream("GET", f"{self.shown_url}/v1/node") as response:
                node = _document(self._body(response)) or {}
            if {"node", "version", "gpus", "sources"} <= node.keys():
                return self._error(QueryReason.AN_AGENT, "is an agent and no Prometheus")
        return error

    @collector_paused()
    def _asked(
        self, path: str, form: dict[str, str], start: float = EARLIEST, end: float = LATEST
    ) -> list[Series]:
        """The samples after `start` and not after `end`."""
        data = self._understood(path, {**form, **_ASKED_ONCE})
        try:
            series = [read_series(row, start, end) for row in data["result"]]
            return [one for one in series if one.times]
        except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
            raise self._error(
                QueryReason.NOT_PROMETHEUS, "the answer is not a list of series"
            ) from error

    def _understood(self, path: str, form: dict[str, str]) -> dict[str, Any]:
        """The data of an answer, from a server that refuses unknown parameters without those."""
        plain = {name: value for name, value in form.items() if name not in _NOT_EVERYWHERE}
        try:
            return self._data(path, plain if self._is_strict else form)
        except QueryError as error:
            if "Unknown name" not in error.detail:
                raise
            self._is_strict = True
            return self._data(path, plain)

    def _data(self, path: str, form: dict[str, str]) -> dict[str, Any]:
        """The data of an answer; a server that is busy is asked again."""
        for pause in (*_PAUSES, None):
            began = time.monotonic()
            try:
                return self._once(path, form)
            except QueryError as error:
                if pause is None or error.reason not in (QueryReason.BUSY, QueryReason.UNREACHABLE):
                    raise
                self._sleep(min(max(pause, error.retry_after or 0.0), _LONGEST_PAUSE))
            finally:
                with self._lock:
                    self.cost.queries += 1
                    self.cost.seconds += time.monotonic() - began
        raise AssertionError  # the last try returns or raises

    def _once(self, path: str, form: dict[str, str]) -> dict[str, Any]:
        import httpx  # noqa: PLC0415

        try:
            with self._client.stream(
                "POST", f"{self.shown_url}/api/v1/{path}", data=form
            ) as response:
                body = self._body(response)
                status, headers = response.status_code, response.headers
        except httpx.TimeoutException as error:
            connecting = isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout)
            reason = QueryReason.UNREACHABLE if connecting else QueryReason.SILENT
            raise self._error(reason, f"no answer within {self._timeout:g} s") from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            text = str(error) or type(error).__name__
            is_tls = re.search(r"\bSSL\b|\btls", text) is not None
            raise self._error(
                QueryReason.DENIED if is_tls else QueryReason.UNREACHABLE, text
            ) from error
        document = _document(body)
        if status != 200:
            raise self._refusal(status, document, headers.get("retry-after"))
        if document is None or not isinstance(document.get("data"), dict):
            raise self._error(QueryReason.NOT_PROMETHEUS, "answers, but not as Prometheus does")
        self._note(document)
        data: dict[str, Any] = document["data"]
        return data

    def _body(self, response: httpx.Response) -> bytes:
        try:
            deadline = time.monotonic() + self._timeout
            return whole_body(response.iter_bytes(), MOST_BYTES, deadline)
        except TooLargeError:
            reason, detail = QueryReason.TOO_MUCH, f"an answer of over {MOST_BYTES >> 20} MiB"
        except TimeoutError:
            reason, detail = QueryReason.SILENT, "takes too long to send its answer"
        raise self._error(reason, detail)

    def _refusal(
        self, status: int, document: dict[str, Any] | None, retry_after: str | None
    ) -> QueryError:
        """What an answer that is not 200 means, by its status and the error that it names."""
        text = str((document or {}).get("error") or "")
        kind = str((document or {}).get("errorType") or "")
        detail = f"{status} {kind}: {text}" if text else f"answers {status}"
        wait = float(retry_after) if retry_after and re.fullmatch(r"\d{1,4}", retry_after) else None
        return self._error(_reason(status, kind, text), " ".join(detail.split())[:300], wait)

    def _error(
        self, reason: QueryReason, detail: str, retry_after: float | None = None
    ) -> QueryError:
        return QueryError(reason, f"{self.shown_url}: {detail}", retry_after)

    def _note(self, document: dict[str, Any]) -> None:
        """Of a store that did not answer Thanos, Mimir and remote read warn; VictoriaMetrics marks the answer."""
        if document.get("isPartial") is True:
            self._partial = "the server marks its answer as partial"
        warnings = document.get("warnings")
        for text in map(str, warnings if isinstance(warnings, list) else ()):
            if not text.startswith("PromQL "):  # the others are of the expression, not of the data
                self._partial = f"the server warns: {text[:300]}"
            elif text not in self.cost.warnings and len(self.cost.warnings) < 10:
                self.cost.warnings.append(text[:300])
        with suppress(KeyError, TypeError, ValueError):  # not every server counts
            samples = int(document["data"]["stats"]["samples"]["totalQueryableSamples"])
            with self._lock:
                self.cost.samples += samples


def _reason(status: int, kind: str, text: str) -> QueryReason:
    if status in (401, 403, 407):
        return QueryReason.DENIED
    if kind == "timeout" or status in (413, 504) or _is_too_much(status, text):
        return QueryReason.TOO_MUCH
    if status in (429, 500, 502, 503):
        return QueryReason.BUSY
    if kind or status == 422:
        return QueryReason.REFUSED
    return QueryReason.NOT_PROMETHEUS


def _is_too_much(status: int, text: str) -> bool:
    """Whether a smaller query may be answered. Too many requests at once are no matter of size."""
    text = text.replace(
        "memory for concurrent requests", ""
    )  # VictoriaMetrics says how much it has
    if status == 429 or "concurren" in text or "too many requests" in text.lower():
        return False
    if "parse error" in text:
        return False
    return status in (400, 422, 500, 503) and bool(_TOO_MUCH.search(text))


def _document(body: bytes) -> dict[str, Any] | None:
    try:
        document = from_json(body)  # the same names and texts are one object each
    except ValueError:  # halves of surrogate pairs, too
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            return None
    return document if isinstance(document, dict) else None


def _is_url(url: str) -> bool:
    match = re.fullmatch(
        r"https?://(\[[0-9A-Fa-f:.]+\]|[^/?#@:\s\[\]]+)(:\d{1,5})?(/[^?#\s]*)?", url
    )
    return match is not None and int((match[2] or ":0")[1:]) <= 65535
