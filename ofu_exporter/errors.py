"""The errors of this program, and what the program does about each.

OfuError ├── ConfigError     settings that cannot be used: the start fails (exit 2); at a reload the last good ones stay
├── HungError       a call, mostly of a file system, does not return: the caller goes on without it ├── SourceError
a whole counter source cannot be used: the agent runs on and tries again ├── PageError       a page of metrics cannot be
fetched: the caller goes on without it ├── DriverReplacedError  only a new process can use the new driver: the agent
ends (exit 6) ├── GpuError        one GPU cannot be measured: that GPU is down with a reason, the others go on, it is
tried again ├── SchedulerError  a scheduler does not say who has which GPU: its last answer counts for a while, GPUs
stay measured ├── QueryError      a Prometheus does not answer a query: the caller goes on, and says what is missing └──
ReportError     what a job says of itself is refused: the job is told why, nothing is stored, it is counted
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ofu_exporter.values.reasons import QueryReason, Reason, ReportRejection, SchedulerReason


class OfuError(Exception):
    """Any error this program raises on purpose; its text is one line for the user."""


MOST_CHARS = 4000
"""The text quotes the bad value, which may be of any length; it is cut to this."""


class ConfigError(OfuError):
    """Settings that cannot be used; the text names the setting and where it was set."""

    def __init__(self, text: str) -> None:
        cut = len(text) > MOST_CHARS
        super().__init__(
            f"{text[: MOST_CHARS // 2]} [...] {text[-MOST_CHARS // 2 :]}" if cut else text
        )


class HungError(OfuError):
    """A call that does not return."""

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(
            f"{name}: no answer within {seconds:g} s" if seconds else f"{name}: still no answer"
        )


class SourceError(OfuError):
    """A counter source that cannot be used as a whole."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{detail or reason.value}. {reason.advice}")
        self.reason = reason
        self.detail = detail


class PageError(OfuError):
    """A page of metrics that cannot be fetched."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class DriverReplacedError(OfuError):
    """The driver that this process had loaded is gone: only a new process can use another."""

    def __init__(self) -> None:
        super().__init__(f"the driver was replaced. {Reason.DRIVER_REPLACED.advice}")


class GpuError(OfuError):
    """One GPU that cannot be measured now."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{detail or reason.value}. {reason.advice}")
        self.reason = reason
        self.detail = detail


class SchedulerError(OfuError):
    """A scheduler that does not say now which job has which GPU."""

    def __init__(self, reason: SchedulerReason, detail: str = "") -> None:
        super().__init__(f"{detail or reason.value}. {reason.advice}")
        self.reason = reason
        self.detail = detail


class QueryError(OfuError):
    """A query that a Prometheus, or anything with its query API, does not answer."""

    def __init__(self, reason: QueryReason, detail: str, retry_after: float | None = None) -> None:
        super().__init__(f"{detail}. {reason.advice}")
        self.reason = reason
        self.detail = detail
        self.retry_after = retry_after
        """Seconds after which the server wants to be asked again; None where it does not say."""


class ReportError(OfuError):
    """A report that is refused."""

    def __init__(
        self,
        reason: ReportRejection,
        field: str = "",
        detail: str = "",
        where: str = "body",
        retry_after: float | None = None,
    ) -> None:
        """`field` names what is at fault in `where`: a key of the body (`model.seq_len`), or a header."""
        super().__init__(f"{detail or reason.value}. {reason.advice}")
        self.reason = reason
        self.field = field
        self.detail = detail
        self.where = where
        self.retry_after = retry_after
        """Seconds after which another try makes sense; None = not known."""


@contextmanager
def file_errors(named: object, *others: type[Exception]) -> Iterator[None]:
    """Turns an error of a file that the user named, and others that its content causes, into a ConfigError."""
    expected: tuple[type[Exception], ...] = (OSError, *others)
    try:
        yield
    except expected as error:
        raise ConfigError(f"{named}: {getattr(error, 'strerror', None) or error}") from error
