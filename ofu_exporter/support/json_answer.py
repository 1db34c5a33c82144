"""Asks a server for JSON of a known shape, in a bounded time and size."""

from __future__ import annotations

import http.client
import re
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from ofu_exporter.errors import OfuError
from ofu_exporter.support.bounded_get import Check, Limits, TooLargeError, get
from ofu_exporter.values.text import shown

ModelT = TypeVar("ModelT", bound=BaseModel)

MOST_BYTES = 8 << 20
ANSWER_SECONDS = 2.0
PROBLEMS = {
    401: "answers 401: reading is closed there. Root may read by the agent's Unix socket, others with "
    "http://USER:PASSWORD@HOST:PORT",
    404: "answers 404: no agent, or an older one",
}


class NoAnswerError(OfuError):
    """A server that gives no such answer; the text says why, and not which server."""


def shown_url(url: str) -> str:
    """The URL without a password, as it may be printed."""
    return shown(re.sub(r"//[^/@]*@", "//", url))


def ask(
    server: str,
    path: str,
    model: type[ModelT],
    seconds: float = ANSWER_SECONDS,
    check: Check = lambda _: None,
) -> ModelT:
    """The answer of `http://HOST:PORT`, `https://HOST:PORT` or `unix:/PATH`. Raises NoAnswerError."""
    try:
        answer = get(server, path, "application/json", Limits(seconds, MOST_BYTES), check)
    except TooLargeError as error:
        raise NoAnswerError(f"answers with over {MOST_BYTES >> 20} MiB") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise NoAnswerError(f"does not answer: {shown(shown_url(why))}") from error
    if answer.status != 200:
        raise NoAnswerError(PROBLEMS.get(answer.status, f"answers {answer.status}"))
    try:
        return model.model_validate_json(answer.body)
    except ValidationError as error:
        raise NoAnswerError(f"answers with something else than {path}") from error
