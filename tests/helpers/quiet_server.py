"""An HTTP server for tests, which real programs ask and stop asking as they like."""

from __future__ import annotations

import http.server
import sys
from typing import Any


class QuietServer(http.server.ThreadingHTTPServer):
    """Says nothing about a client that has hung up; any other error is printed."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)
