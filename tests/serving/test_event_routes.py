"""What has happened over HTTP, from a real agent."""

from __future__ import annotations

import json
import urllib.request

import pytest

from tests.helpers.agent import SIMULATED, SOON, agent, until
from tests.helpers.passwords import basic, hashed, web_file

pytestmark = pytest.mark.slow


def test_what_has_happened_is_there_as_json_and_in_the_log() -> None:
    with agent(*SIMULATED) as running:
        until(lambda: "job 1001" in running.get("/v1/events")[1])
        answer = json.loads(running.get("/v1/events")[1])
        numbers = [event["number"] for event in answer["events"]]
        assert numbers == list(range(1, answer["newest"] + 1))
        assert all(event["unix"] >= answer["began"] for event in answer["events"])
        later = json.loads(running.get(f"/v1/events?after={numbers[0]}")[1])
        assert later["events"][0]["number"] == 2
        for event in answer["events"]:
            assert running.logged(event["sentence"]), event
        for wrong in ("-1", "x", "1e3", "9" * 5000):
            assert running.get(f"/v1/events?after={wrong}")[0] == 422
        assert not running.logged("Traceback")
        assert any('path="/v1/events"' in row for row in running.get("/metrics")[1].splitlines())


def test_who_may_not_read_reads_no_events(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = web_file(
        tmp_path_factory.mktemp("web") / "web.yml", basic_auth_users={"ada": hashed("secret")}
    )
    with agent(*SIMULATED, "--web.config.file", str(file)) as running:
        assert running.get("/v1/events")[0] == 401
        headers = {"Authorization": basic("ada", "secret")}
        request = urllib.request.Request(running.url + "/v1/events", headers=headers)
        with urllib.request.urlopen(request, timeout=SOON) as answer:
            assert "newest" in json.loads(answer.read())
