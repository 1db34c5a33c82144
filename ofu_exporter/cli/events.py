"""`events`: prints what has happened on this node, as its agent noted it, once or continuously."""

from __future__ import annotations

import datetime
import json
import os
import time

import click

from ofu_exporter.cli.answers import csv_text, format_option, json_flag
from ofu_exporter.client.agent_url import default_url
from ofu_exporter.errors import OfuError
from ofu_exporter.serving.event_json import EventJson, EventsJson
from ofu_exporter.support.bounded_get import shown_url
from ofu_exporter.support.json_answer import NoAnswerError, ask
from ofu_exporter.terminal.agent_access import AgentAccess
from ofu_exporter.values.text import shown

POLL_SECONDS = 2.0
"""Time between two questions to the agent."""


@click.command(short_help="What has happened on this node.")
@click.option(
    "--agent",
    envvar="OFU_AGENT",
    metavar="URL",
    help="The agent: http://, https:// or unix:/path. "
    "Default: OFU_AGENT, its Unix socket where that is there, or http://127.0.0.1:9846.",
)
@click.option("--follow", "-f", is_flag=True, help="Keep printing new events until interrupted.")
@click.option(
    "--after",
    default=0,
    metavar="N",
    type=click.IntRange(min=0),
    help="Only events with a number above this one.",
)
@format_option
@json_flag
def events(agent: str | None, follow: bool, after: int, format_: str) -> None:
    """Show what has happened on this node: jobs, verdicts, GPUs lost and back, sources, pauses.

    The agent remembers the last thousand events since its start. With --follow, this command waits for an agent that
    does not answer, and reads a restarted one from its first event on. JSON is one object a line.
    """
    if format_ == "csv":
        click.echo(csv_text([], [*EventJson.model_fields]))
    reader = _Reader(agent or default_url(), after)
    for event in reader.ask():
        _print(event, format_)
    while follow:
        time.sleep(POLL_SECONDS)
        for event in reader.ask_patiently():
            _print(event, format_)


class _Reader:
    """Asks one agent for what is new."""

    def __init__(self, agent: str, after: int) -> None:
        self._agent = agent
        self._after = after
        self._began: float | None = None
        self._is_away = False

    def ask(self) -> list[EventJson]:
        """The events since the last answer. Raises OfuError."""
        try:
            answer = self._ask(f"/v1/events?after={self._after}")
            if self._began not in (None, answer.began):
                self._say("the agent has restarted")
                answer = self._ask("/v1/events")
                self._after = 0
        except NoAnswerError as error:
            raise OfuError(f"the agent at {shown_url(self._agent)} {error}") from error
        self._note_lost(answer)
        self._began, self._after = answer.began, answer.newest
        return answer.events

    def _ask(self, path: str) -> EventsJson:
        return ask(self._agent, path, EventsJson, access=AgentAccess(os.environ))

    def ask_patiently(self) -> list[EventJson]:
        """The same, but an agent that does not answer has no events; it is named once."""
        try:
            found = self.ask()
        except OfuError as error:
            if not self._is_away:
                self._say(f"{error}; asking again until it answers")
            self._is_away = True
            return []
        self._is_away = False
        return found

    def _note_lost(self, answer: EventsJson) -> None:
        first = answer.events[0].number if answer.events else answer.newest + 1
        if self._after < first - 1:
            self._say(f"{first - 1 - self._after} older events are no longer remembered")

    def _say(self, text: str) -> None:
        click.echo(f"ofu-exporter: {shown(text)}", err=True)


def _print(event: EventJson, format_: str) -> None:
    if format_ == "json":
        click.echo(json.dumps(event.model_dump(mode="json")))
    elif format_ == "csv":
        _, _, row = csv_text([event.model_dump(mode="json")]).partition("\n")
        click.echo(row)
    else:
        at = datetime.datetime.fromtimestamp(event.unix).astimezone().isoformat(" ", "seconds")
        click.echo(shown(f"{at}  {event.kind.value:<14}  {event.sentence}"))
