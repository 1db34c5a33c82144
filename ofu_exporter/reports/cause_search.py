"""Has the causes of divergences looked for, on a thread of its own so that no snapshot waits for them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ofu_exporter.errors import OfuError
from ofu_exporter.reports.cause_question import CauseQuestion
from ofu_exporter.reports.owner import ReportKey
from ofu_exporter.reports.reported_model import MOST_QUOTED
from ofu_exporter.values.reported import Causes

log = logging.getLogger(__name__)


def causes_or_none(job_id: str, question: CauseQuestion) -> Causes:
    """The likely causes of a job's divergence; none if the search fails or cannot be loaded, which is logged."""
    try:
        from ofu_exporter.reports.causes import likely_causes  # noqa: PLC0415 - few jobs diverge

        return likely_causes(question)
    except OfuError as error:
        log.warning("job %s: no causes looked for: %.*s", job_id, MOST_QUOTED, error)
    except ImportError as error:  # the package was removed or replaced since the agent started
        log.warning("job %s: no causes looked for, restart the agent: %s", job_id, error)
    except (
        Exception
    ):  # the configuration comes from outside; without a cause the verdict still holds
        log.exception("job %s: no causes found", job_id)
    return Causes()


class CauseSearch:
    """Looks for causes on a thread of its own, one job after the other, so that no snapshot waits for them."""

    def __init__(self, explain: Callable[[ReportKey], None]) -> None:
        self._explain = explain
        self._asked: dict[ReportKey, None] = {}
        self._news = threading.Condition()

    def start(self) -> None:
        threading.Thread(target=self._run, name="ofu-causes", daemon=True).start()

    def ask(self, key: ReportKey) -> None:
        """Have the causes of a job's divergence looked for; it does not wait."""
        with self._news:
            self._asked[key] = None
            self._news.notify()

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._asked)
                key = next(iter(self._asked))
                del self._asked[key]
            self._explain(key)
