"""Asks a server for JSON of a known shape, in a bounded time and size."""

from __future__ import annotations

import http.client
import json
import re
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from ofu_exporter.errors import OfuError
from ofu_exporter.support.bounded_get import Check, Limits, TooLargeError, Trust, get
from ofu_exporter.values.text import shown

ModelT = TypeVar("ModelT", bound=BaseModel)

MOST_BYTES = 8 << 20
ANSWER_SECONDS = 2.0
LARGEST, MOST_DIGITS = 1e18, 64
"""Numbers up to this size can be added and multiplied without an overflow; the peak of a GPU is a hundredth of it."""
PROBLEMS = {
    401: "answers 401: reading is closed there. Root may read by the agent's Unix socket, others with "
    "http://USER:PASSWORD@HOST:PORT",
    404: "answers 404: no agent, or an older one",
}


class NoAnswerError(OfuError):
    """A server gave no such answer. The text says why, but does not name the server."""


def shown_url(url: str) -> str:
    """The URL without a password, as it may be printed."""
    return shown(re.sub(r"//[^/@]*@", "//", url))


def ask(
    server: str,
    path: str,
    model: type[ModelT],
    seconds: float = ANSWER_SECONDS,
    check: Check = lambda _: None,
    trust: Trust | None = None,
) -> ModelT:
    """The answer of `http://HOST:PORT`, `https://HOST:PORT` or `unix:/PATH`. Raises NoAnswerError."""
    try:
        answer = get(server, path, "application/json", Limits(seconds, MOST_BYTES), check, trust)
    except TooLargeError as error:
        raise NoAnswerError(f"answers with over {MOST_BYTES >> 20} MiB") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise NoAnswerError(f"does not answer: {shown(shown_url(why))}") from error
    if answer.status != 200:
        raise NoAnswerError(PROBLEMS.get(answer.status, f"answers {answer.status}"))
    try:
        return model.model_validate(_parsed(answer.body))
    except (ValidationError, ValueError, RecursionError) as error:
        raise NoAnswerError(f"answers with something other than {path}") from error


def _parsed(body: bytes) -> object:
    """The JSON of an answer. Raises ValueError for NaN, infinity and numbers larger than any measured value."""
    return json.loads(body, parse_float=_number, parse_int=_number, parse_constant=_number)


def _number(text: str) -> float | int:
    if len(text) > MOST_DIGITS or not abs(number := float(text)) <= LARGEST:
        raise ValueError(f"{text[:MOST_DIGITS]} cannot be a measured number")
    return number if {*text} & set(".eE") else int(text)
