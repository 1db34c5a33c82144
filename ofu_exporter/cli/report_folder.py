"""`fleet report --folder`: keeps the page in a folder with an index, and sends it as digests are sent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ofu_exporter.cli.answers import say
from ofu_exporter.cli.option_types import FILE, flag, option, with_options
from ofu_exporter.errors import ConfigError

if TYPE_CHECKING:
    from ofu_exporter.fleet.digest.report_mail import ReportSender
    from ofu_exporter.fleet.reports.result import FleetReport

folder_options = with_options(
    (
        option(
            "--folder",
            "Folder in which to keep the page (html), with an index of all.",
            click.Path(path_type=Path),
        ),
        flag("--send", "With --folder: send the report as `send` of --config says."),
        option("--config", "The YAML of `fleet digest`.", FILE),
    )
)


class ReportFolder:
    """Where the page goes, as the flags say. Raises ConfigError for flags that do not go together."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._folder: Path | None = options.pop("folder")
        config, is_sent = options.pop("config"), options.pop("send")
        if self._folder is None and (is_sent or config):
            raise ConfigError("--send and --config go with --folder")
        self._sender = _sender(config) if is_sent else None

    @property
    def is_wanted(self) -> bool:
        return self._folder is not None

    def take(self, report: FleetReport, page: bytes) -> bool:
        """Keep the page, and send it where that is wanted; whether all of it was sent. Raises ConfigError."""
        from ofu_exporter.fleet.pages.folder import keep_page

        assert self._folder is not None
        path = keep_page(report, page, self._folder)
        say(str(path))
        fates = list(self._sender.send(report, path)) if self._sender else []
        for fate in fates:
            text = f"not sent: {fate.to}: {fate.why}" if fate.why else f"sent: {fate.to}"
            say(text, err=bool(fate.why))
        return not any(fate.why for fate in fates)


def _sender(config: Path | None) -> ReportSender:
    from ofu_exporter.fleet.digest.config_file import read_config
    from ofu_exporter.fleet.digest.report_mail import ReportSender

    sending = None if config is None else read_config(config).send
    if sending is None:
        raise ConfigError("--send needs `send` in the file of --config")
    return ReportSender(sending)
