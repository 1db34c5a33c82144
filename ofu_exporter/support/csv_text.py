"""Writes rows as CSV that no spreadsheet computes and no terminal obeys, whatever names others chose."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ofu_exporter.values.text import shown

_DANGEROUS = tuple("=+-@\t\r\n＝＋－＠")  # noqa: RUF001 - the wide signs, too
"""What a spreadsheet takes for a formula at the begin of a text (owasp.org/www-community/attacks/CSV_Injection)."""


def csv_text(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] = ()) -> str:
    """A line of names, those of `columns` first, and a line for each row.

    An unknown value is an empty cell; a list or an object is JSON.
    """
    rows = list(rows)
    names = list(dict.fromkeys([*columns, *(name for row in rows for name in row)]))
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(_cell, names))
    writer.writerows([_cell(row.get(name)) for name in names] for row in rows)
    return file.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return f"'{shown(value)}" if value.startswith(_DANGEROUS) else shown(value)
    if isinstance(value, (dict, list, tuple, bool)):
        return json.dumps(value)
    return value
