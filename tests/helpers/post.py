"""Posts a report to a running agent, as a script with nothing but the standard library would."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any, NamedTuple

from tests.helpers.agent import SOON, Agent


class Answer(NamedTuple):
    """What came back."""

    status: int
    body: Any

    @property
    def field(self) -> str:
        """What a refusal names."""
        return ".".join(map(str, self.body["detail"][0]["loc"]))

    @property
    def reason(self) -> str:
        return str(self.body["detail"][0]["type"])

    @property
    def message(self) -> str:
        return str(self.body["detail"][0]["msg"])


def post(running: Agent, body: object, **headers: str) -> Answer:
    """Bytes go as they are, anything else as JSON."""
    request = urllib.request.Request(
        f"{running.url}/v1/mfu",
        body if isinstance(body, bytes) else json.dumps(body).encode(),
        {
            "Content-Type": "application/json",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=SOON) as answer:
            return Answer(answer.status, json.loads(answer.read()))
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, json.loads(error.read()))
