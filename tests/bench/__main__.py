"""Makes every number of docs/benchmarks.md anew: `python -m tests.bench [NAME...]`, in about half an hour.

With names, such as `scrape` or `memory`, only those tables.
"""

from __future__ import annotations

import sys

from tests.bench.numbers_page import PAGE, measured

PAGE.write_text(measured(PAGE.read_text(), sys.argv[1:]))
