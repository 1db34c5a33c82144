"""A configuration reaches no network through the library that builds it, and has no layers without end."""

from __future__ import annotations

import socket
import threading
from typing import Any

import httpx
import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.trace.untrusted import check_layers, without_network
from tests.helpers.agent import page_server
from tests.helpers.every import every


def test_no_library_of_this_thread_reaches_a_server_meanwhile() -> None:
    asked: list[str] = []

    def page() -> str:
        asked.append("asked")
        return "{}"

    with page_server(page) as url:
        with without_network():
            with pytest.raises(httpx.ConnectError):
                httpx.get(url, trust_env=False)
            with pytest.raises(OSError, match="may not reach the network"):
                socket.create_connection(("localhost", 80))
            assert asked == []
            other = threading.Thread(target=httpx.get, args=(url,), kwargs={"trust_env": False})
            other.start()
            other.join()
            assert asked == ["asked"], "other threads go on"
        assert httpx.get(url, trust_env=False).text == "{}"
    assert "connect" not in vars(socket.socket)


@every(
    [
        {"num_hidden_layers": 10**8},
        {"text_config": {"n_layer": 10**8}},
        {"vision_config": {"inner": {"depth": 10**6}}},
    ]
)
def test_layers_without_end_are_refused_before_they_are_built(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="is above 2000"):
        check_layers(config)


def test_sizes_are_no_layers() -> None:
    check_layers({"num_hidden_layers": 2000, "block_size": 1 << 20, "hidden_size": 1 << 20})
