"""Traces on demand as the agent runs them: the desk, its socket, its route, and who is traced by itself.

Imported only where traces are on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, HTTPException

from ofu_exporter.agent import trace_files
from ofu_exporter.agent.trace_desk import TraceDesk
from ofu_exporter.agent.trace_socket import TraceSocket
from ofu_exporter.agent.trace_watch import SlowJobs
from ofu_exporter.errors import ConfigError
from ofu_exporter.serving.trace_routes import TraceAsker, TraceOrder, trace_routes
from ofu_exporter.settings import Settings
from ofu_exporter.values.snapshot import Snapshot

log = logging.getLogger(__name__)

BUSY_SECONDS, LOOK_SECONDS = 600.0, 5.0
"""How long a slow job waits for the traces of others to end."""


class Tracing:
    """All of it. Where it cannot be, the reason is logged and served, and the agent goes on."""

    def __init__(
        self,
        settings: Settings,
        snapshot: Callable[[], Snapshot | None],
        submit: Callable[[str, dict[str, Any], Mapping[str, float]], object],
    ) -> None:
        self._settings = settings
        self._desk = TraceDesk(settings.trace_folder, snapshot, submit)
        self._slow = None if settings.trace_below is None else SlowJobs(settings.trace_below)

    def routes(self) -> APIRouter:
        return trace_routes(self._desk)

    def counts(self) -> dict[str, int]:
        return self._desk.counts()

    def start(self) -> None:
        """Bind the socket and answer, from now on."""
        settings = self._settings
        folder = None if settings.trace_abstract_name else settings.trace_socket_folder
        try:
            trace_files.prepare(settings.trace_folder, needs_own=True)
            if problem := trace_files.let_agent_read(settings.trace_folder):
                log.warning("traces: %s", problem)
            TraceSocket(folder, self._desk).start()
        except ConfigError as error:
            self._desk.problem = str(error)
            log.error("no traces can be taken: %s", error)
            return
        where = f"KINETO_IPC_SOCKET_DIR={folder}" if folder else "no KINETO_IPC_SOCKET_DIR"
        log.info("traces are taken of jobs with KINETO_USE_DAEMON=1 and %s", where)
        if settings.trace_below is not None:
            log.info(
                "a job below %g OFU for ten minutes, or below half of its hour's median, is traced unasked",
                settings.trace_below,
            )

    def look(self, snapshot: Snapshot) -> None:
        """Take a trace of jobs that have become slow, on a thread: whose a job is may be a question to a network."""
        if self._slow and (slow := self._slow.take(snapshot)):
            given = self._slow, slow
            threading.Thread(target=self._take, args=given, name="ofu-slow", daemon=True).start()

    def _take(self, jobs: SlowJobs, slow: list[tuple[str, str]]) -> None:
        for job_id, why in slow:
            log.info("job %s: %s: one process is traced", job_id, why)
            try:
                self._ask(job_id)
            except HTTPException as error:
                log.info("job %s cannot be traced: %s", job_id, error.detail)
                if error.status_code in (HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS):
                    jobs.note_untraced(job_id)

    def _ask(self, job_id: str) -> None:
        """Begin a trace, after those that run already."""
        end = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self._desk.ask(job_id, TraceOrder(), TraceAsker(None, True, most=1))
            except HTTPException as error:
                if error.status_code != HTTPStatus.TOO_MANY_REQUESTS or time.monotonic() > end:
                    raise
            else:
                return
            time.sleep(LOOK_SECONDS)
