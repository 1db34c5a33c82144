"""Makes every number of tests/measured/benchmarks.md anew: `python -m tests.bench [NAME...]`, in about half an hour.

With names, such as `scrape` or `memory`, only those tables. A measurement that fails leaves its table as it was.
"""

from __future__ import annotations

import subprocess
import sys

from tests.bench.numbers_page import PAGE, measured, sections

known = [section.name for section in sections(PAGE.read_text().splitlines())]
asked = sys.argv[1:] or known
failed = []
if unknown := {*asked} - {*known}:
    raise SystemExit(f"no tables of {', '.join(sorted(unknown))}; there are {', '.join(known)}")
for name in asked:  # one after the other: what is measured stays where a later one fails
    print(name, flush=True)
    try:
        PAGE.write_text(measured(PAGE.read_text(), [name]))
    except subprocess.CalledProcessError:
        failed.append(name)
if failed:
    raise SystemExit(f"not measured, and as they were: {', '.join(failed)}")
