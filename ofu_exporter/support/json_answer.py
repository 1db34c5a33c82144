"""Asks a server for JSON of a known shape, in a bounded time and size."""

from __future__ import annotations

import http.client
import json
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from ofu_exporter.errors import OfuError
from ofu_exporter.support.bounded_get import (
    OPEN,
    PROBLEMS,
    Limits,
    ServerAccess,
    TooLargeError,
    get,
    no_answer,
)

ModelT = TypeVar("ModelT", bound=BaseModel)

MOST_BYTES = 8 << 20
ANSWER_SECONDS = 2.0
LARGEST, MOST_DIGITS = 1e18, 64
"""Numbers up to this size can be added and multiplied without an overflow; the peak of a GPU is a hundredth of it."""


class NoAnswerError(OfuError):
    """A server gave no such answer. The text says why, but does not name the server."""


def ask(
    server: str,
    path: str,
    model: type[ModelT],
    seconds: float = ANSWER_SECONDS,
    access: ServerAccess = OPEN,
) -> ModelT:
    """The answer of `http://HOST:PORT`, `https://HOST:PORT` or `unix:/PATH`.

    Raises NoAnswerError, and whatever `access` raises.
    """
    try:
        answer = get(server, path, "application/json", Limits(seconds, MOST_BYTES), access)
    except TooLargeError as error:
        raise NoAnswerError(f"answers with over {MOST_BYTES >> 20} MiB") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise NoAnswerError(no_answer(error)) from error
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
