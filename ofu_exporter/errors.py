"""The errors of this program, and what the program does about each.

- ConfigError: settings that cannot be used. The start fails (exit 2); at a reload the last good ones stay.
- HungError: a call, mostly of a file system, does not return. The caller goes on without it.
- SourceError: a whole counter source cannot be used. The agent runs on and tries again.
- PageError: a page of metrics cannot be fetched. The caller goes on without it.
- DriverReplacedError: only a new process can use the new driver. The agent ends (exit 6).
- GpuError: one GPU cannot be measured. It is down with a reason, the others go on, it is tried again.
- SchedulerError: a scheduler does not say who has which GPU. Its last answer counts for a while, GPUs stay measured.
- QueryError: a Prometheus does not answer a query. The caller goes on, and says what is missing.
- ReportError: what a job says of itself is refused. The job is told why, nothing is stored, it is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

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


ReasonT = TypeVar("ReasonT", Reason, SchedulerReason)


class _ReasonedError(OfuError, Generic[ReasonT]):
    """An error that ends with the advice of its reason."""

    def __init__(self, reason: ReasonT, detail: str = "") -> None:
        super().__init__(f"{detail or reason.value}. {reason.advice}")
        self.reason: ReasonT = reason
        self.detail = detail


class SourceError(_ReasonedError[Reason]):
    """A counter source that cannot be used as a whole."""


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


class GpuError(_ReasonedError[Reason]):
    """One GPU that cannot be measured now."""


class SchedulerError(_ReasonedError[SchedulerReason]):
    """A scheduler that does not say now which job has which GPU."""


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
