"""`python -m tests.simulated_history`: command.py says what it does."""

from __future__ import annotations

import signal
import sys

from tests.simulated_history.command import main

signal.signal(signal.SIGTERM, signal.default_int_handler)
sys.exit(main())
