"""A training job's image needs nothing but Python for the client."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
before = set(sys.modules)
import ofu_exporter.client
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
others = {name for name in sys.modules if name.startswith("ofu_exporter.") and "client" not in name}
print(sorted(loaded - sys.stdlib_module_names), sorted(others))
"""


def test_the_client_loads_the_standard_library_and_itself_alone() -> None:
    command = [sys.executable, "-W", "error", "-c", PROGRAM]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    assert told.stdout.strip() == "['ofu_exporter'] []"
