"""Serves what the agent keeps: where it listens, who may read, and who may report."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ofu_exporter.agent.build import build_access, connection_limit
from ofu_exporter.agent.records import Records
from ofu_exporter.agent.reloads import WebRenewal
from ofu_exporter.serving.app import create_app
from ofu_exporter.serving.guard import Guard
from ofu_exporter.serving.hosts import Hosts
from ofu_exporter.serving.listeners import Listeners, given_sockets
from ofu_exporter.serving.read_access import ReadAccess
from ofu_exporter.serving.server import Server
from ofu_exporter.serving.web_config import read_web_config
from ofu_exporter.settings import Settings, host_and_port

if TYPE_CHECKING:
    from fastapi import APIRouter, FastAPI

log = logging.getLogger(__name__)


class Front:
    """The listeners, the server on them, and the rules of who is let in."""

    def __init__(
        self,
        settings: Settings,
        records: Records,
        stop: asyncio.Event,
        more: APIRouter | None,
    ) -> None:
        """Bind the listeners. Raises ConfigError for what cannot be served. `more` is served as well."""
        self._access = build_access(settings)
        self._authority = settings.tls_client_ca
        web = read_web_config(settings.web_config_file)
        self._read_access = ReadAccess(web)
        self._listeners = Listeners(settings, web, given_sockets())
        records.page.certificate_expires = self._certificate_expires
        host, _ = host_and_port(settings.listen)
        self._hosts = Hosts(settings.allowed_hosts, [host], settings.telemetry_path)
        app = self._app(records)
        if more is not None:
            app.include_router(more)
        self._server = Server(app, self._listeners, stop, connection_limit())
        self._web = WebRenewal(web, self._read_access, self._server, records.page.count_web_reload)

    def _app(self, records: Records) -> FastAPI:
        reports = records.reports
        guard = Guard(self._access, reports.reject, work=reports.work)
        book = records.job_book()
        app = create_app(records.page, book, reports, guard, self._read_access, self._hosts)
        if records.tracing is not None:
            app.include_router(records.tracing.routes())
        return app

    @property
    def url(self) -> str:
        return self._listeners.url

    def _certificate_expires(self) -> float | None:
        tls = self._listeners.tls
        return tls.expires if tls else None

    def start(self, settings: Callable[[], Settings]) -> asyncio.Task[None]:
        """Serve; the task ends with the server. `settings` gives those that are in force."""
        self._access.start()
        self._hosts.start()
        self._web.start(settings)
        return asyncio.create_task(self._server.serve())

    def begin_stop(self) -> None:
        self._read_access.begin_stop()

    async def renew(self, settings: Settings) -> None:
        """Take the web configuration and certificates as they are now. Raises OfuError, and changes nothing then."""
        await self._web.renew(settings)

    def apply(self, settings: Settings) -> None:
        """Answer under the names of new settings; what else they change was renewed before."""
        self._hosts.allow(settings.allowed_hosts)
        self._authority = settings.tls_client_ca

    def log_writers(self) -> None:
        """Log who may report and who may read: a reload can change both."""
        log.info("reports are accepted from: %s", self._access.describe(self._authority))
        if self._authority is None:
            log.info("everybody who can reach %s may read it", self.url)
        else:
            text = "only clients with a certificate from %s may read %s"
            log.info(text, self._authority, self.url)
