"""Completes a report: with the facts of earlier ones, the recipe that it names, and its MFU against the right peak."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ofu_exporter.reports import model_count
from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.reports.site_recipes import with_recipe
from ofu_exporter.reports.stated import Hardware, Stated, stated_mfu


class TakenReport(NamedTuple):
    """A report, completed with what is known of its job."""

    report: MfuReport
    """The report with the facts of earlier ones."""
    hardware: Hardware
    stated: Stated


def completed(
    report: MfuReport, facts: MfuReport | None, hardware: Hardware, recipes: Path | None
) -> TakenReport:
    """A report with earlier facts, and its MFU against the right peak. It may read a file and count a model.

    Raises ReportError.
    """
    report, unread = with_recipe(report, recipes)
    whole = report if facts is None else report.with_facts(facts)
    stated = stated_mfu(whole, hardware)
    if unread:
        stated = stated._replace(warnings=(*stated.warnings, unread))
    if report.model is not None and (problem := model_count.problem(report.model)):
        # The report's MFU needs no model, so it is compared anyway.
        whole = whole.model_copy(update={"model": None})
        stated = stated._replace(warnings=(*stated.warnings, problem))
    return TakenReport(whole, hardware, stated)
