"""A real Prometheus reads an agent that is closed by a web configuration, and only by TLS with a password."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.agent import agent, until
from tests.helpers.certificates import Certificates
from tests.helpers.passwords import hashed, web_file
from tests.helpers.prometheus_server import Prometheus

pytestmark = pytest.mark.slow


def scrape(name: str, target: str, **extra: Any) -> dict[str, Any]:
    targets = [{"targets": [target.removeprefix("https://")]}]
    return {"job_name": name, "scrape_interval": "1s", "static_configs": targets, **extra}


def test_prometheus_scrapes_by_tls_and_password(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "tls")
    web = web_file(
        tmp_path / "web.yml",
        tls_server_config={"cert_file": "tls/cert.pem", "key_file": "tls/key.pem"},
        basic_auth_users={"prometheus": hashed("s3cret", cost=10)},
    )
    trusting = {"scheme": "https", "tls_config": {"ca_file": str(certificates.ca)}}
    right = {"basic_auth": {"username": "prometheus", "password": "s3cret"}}
    wrong = {"basic_auth": {"username": "prometheus", "password": "guess"}}
    flags = ("--source", "simulate", "--scheduler", "none", "--interval", "1s")
    with agent("run", *flags, f"--web.config.file={web}") as running:
        jobs = [
            scrape("right", running.url, **trusting, **right),
            scrape("wrong", running.url, **trusting, **wrong),
            scrape("none", running.url, **trusting),
            scrape("plain", running.url, **right),
        ]
        prometheus = Prometheus(tmp_path, {}, scrape_configs=jobs)
        try:
            until(prometheus.ready)
            until(lambda: len(prometheus.query("up", time.time())) == len(jobs))
            until(lambda: prometheus.query("ofu_gpu_utilization_ratio", time.time()))
            now = time.time()
            up = prometheus.query("max_over_time(up[1m])", now)
            assert {each["metric"]["job"]: each["value"][1] for each in up} == {
                "right": "1",
                "wrong": "0",
                "none": "0",
                "plain": "0",
            }
            refused = 'ofu_exporter_http_requests_total{job="right",path="/metrics",code="401"}'
            until(lambda: prometheus.query(refused, time.time()))
        finally:
            prometheus.stop()
