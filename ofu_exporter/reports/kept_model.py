"""Completes a report with what its job said earlier, and keeps of a model its numbers and a short form of its text.

A model may be a large body, and is one of many jobs'.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from ofu_exporter.errors import ReportError
from ofu_exporter.reports.messages import MfuReport, ModelBody
from ofu_exporter.reports.stated import Hardware, Stated, flops_per_token, stated_mfu, with_recipe
from ofu_exporter.values.reasons import ReportRejection

MOST_KEPT_BYTES = 32 << 10
"""Of a compressed text; a longer one is not kept, and explains nothing. A recipe of a thousand factors has 25 kB."""
MOST_QUOTED = 500
"""Most characters of a sentence that quotes a configuration."""


@dataclass(frozen=True, slots=True)
class KeptModel:
    """A model that was counted. Two are equal if their texts are."""

    digest: bytes
    flops_per_token: float = field(compare=False)
    forward_only: bool = field(compare=False)
    text: bytes = field(compare=False)
    """Compressed JSON; b"" where that is too long."""

    def body(self) -> ModelBody | None:
        """The model as it was reported; None where it was too long to keep."""
        return ModelBody.model_validate_json(zlib.decompress(self.text)) if self.text else None


class ReportedFacts(NamedTuple):
    """What is known of a job from its reports."""

    facts: MfuReport
    """The last report, with the facts of earlier ones that it did not repeat, without its model."""
    model: KeptModel | None = None


class Completed(NamedTuple):
    """A report with what its job said earlier."""

    report: MfuReport
    known: ReportedFacts
    stated: Stated


def keep_model(model: ModelBody) -> KeptModel:
    """Count a model. Raises ReportError for one that cannot be counted."""
    counted = flops_per_token(model)
    text = zlib.compress(model.model_dump_json(exclude_defaults=True).encode())
    compressed = text if len(text) <= MOST_KEPT_BYTES else b""
    return KeptModel(_digest(model), counted, model.forward_only, compressed)


def completed(
    report: MfuReport,
    known: ReportedFacts | None,
    hardware: Hardware,
    recipes: Path | None,
    count: Callable[[ModelBody], KeptModel] = keep_model,
) -> Completed:
    """A report with what was known before, and its MFU against the right peak. It may read a file and count a model.

    A model that the job repeats is not counted again. Raises ReportError.
    """
    report, unread = with_recipe(report, recipes)
    whole = report if known is None else report.with_facts(known.facts)
    model, uncountable = known.model if known else None, None
    if report.model is not None:
        whole = whole.model_copy(update={"model": None})
        try:
            if model is None or model.digest != _digest(report.model):
                model = count(report.model)
        except ReportError as error:
            if report.counts_model or error.reason is ReportRejection.TOO_MANY:
                raise
            # The report's MFU needs no model, so it is compared anyway.
            model, uncountable = (None, f"model: {error.detail[:MOST_QUOTED]}; it explains nothing")
    stated = stated_mfu(whole, hardware, model.flops_per_token if model else None)
    more = filter(None, (unread, uncountable))
    stated = stated._replace(warnings=(*stated.warnings, *more))
    return Completed(report, ReportedFacts(whole, model), stated)


def _digest(model: ModelBody) -> bytes:
    """What tells a model from any other."""
    return blake2b(model.model_dump_json().encode(), digest_size=16).digest()
