"""Runs a real Prometheus: Debian's."""

from __future__ import annotations

import json
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class Prometheus:
    """Debian's Prometheus on a port of its own."""

    def __init__(
        self,
        folder: Path,
        targets: Mapping[str, str],
        flags: Sequence[str] = (),
        /,
        **sections: Any,
    ) -> None:
        """Keeps its data in `folder`/data and scrapes the targets, by job name, every second.

        `sections`: other sections of prometheus.yml, or its own scrape_configs.
        """
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        jobs = [
            {"job_name": name, "scrape_interval": "1s", "static_configs": [{"targets": [target]}]}
            for name, target in targets.items()
        ]
        config = folder / "prometheus.yml"
        config.write_text(json.dumps({"scrape_configs": jobs, **sections}))  # JSON is YAML
        if jobs or sections:
            check = ["promtool", "check", "config", str(config)]
            subprocess.run(check, check=True, capture_output=True)
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
                "--log.level=error",
                *flags,
            ]
        )

    def query(self, expression: str, at: float) -> list[dict[str, Any]]:
        url = f"http://127.0.0.1:{self.port}/api/v1/query?"
        query = urllib.parse.urlencode({"query": expression, "time": at})
        with urllib.request.urlopen(url + query, timeout=60) as answer:
            result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
            return result

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}/-/ready", timeout=5
            ) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)
