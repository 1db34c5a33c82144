"""Queries to a server that is busy or away are repeated as often as ever, but at once."""

from __future__ import annotations

from unittest import mock

from tests.helpers.warm import PYTHON

AT_ONCE = (0.0, 0.0, 0.0)
PAUSES = "ofu_exporter.fleet.prometheus._PAUSES"

impatient = mock.patch(PAUSES, AT_ONCE)
"""Decorates a test that runs the command in its own process."""

_SCRIPT = f"""
from ofu_exporter import __main__
from ofu_exporter.fleet import prometheus

prometheus._PAUSES = {AT_ONCE}
__main__.main()
"""
IMPATIENT = (*PYTHON, "-c", _SCRIPT)
"""In place of COMMAND, for a process of its own."""
