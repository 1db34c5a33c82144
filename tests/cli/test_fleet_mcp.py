"""`fleet mcp` answers an assistant about a fleet: the SDK's own client asks, over standard input and output.

The SDK is imported by the tests alone that need it: it takes a tenth of the time of collecting all tests.
"""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from tests.helpers.agent import COMMAND, bare_environment, call
from tests.helpers.impatience import IMPATIENT
from tests.helpers.prometheus_server import Prometheus

if TYPE_CHECKING:
    from mcp_types import CallToolResult

TIME = ("--since", "4h", "--until", "2026-01-05T04:00Z")

pytestmark = [pytest.mark.slow, pytest.mark.prometheus]


def asked(
    url: str, *questions: tuple[str, dict[str, Any]], command: Sequence[str] = COMMAND
) -> tuple[Any, list[CallToolResult]]:
    """The tools that a server of its own offers, and its answers."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    words = [*command, "fleet", "mcp", "--prometheus", url, *TIME]
    server = StdioServerParameters(command=words[0], args=words[1:], env=bare_environment())

    async def talk() -> tuple[Any, list[CallToolResult]]:
        async with stdio_client(server) as streams, ClientSession(*streams) as session:
            await session.initialize()
            offered = await session.list_tools()
            answers = [await session.call_tool(name, words) for name, words in questions]
            return offered.tools, answers

    return anyio.run(talk)


def text(answer: CallToolResult) -> str:
    from mcp_types import TextContent

    (content,) = answer.content
    assert isinstance(content, TextContent)
    return content.text


def said(url: str, *words: str) -> str:
    """What the command line says to the same question."""
    return call("fleet", *words, "--prometheus", url, *TIME).stdout


def test_an_assistant_hears_what_the_command_line_says(prometheus: Prometheus) -> None:
    questions = [("report", {"by": "user"}), ("job", {"job_id": "7"}), ("changes", {})]
    tools, answers = asked(prometheus.url, *questions)
    assert [tool.name for tool in tools] == ["report", "job", "changes"]
    assert all(tool.annotations.read_only_hint and tool.description for tool in tools)
    assert [answer.is_error for answer in answers] == [False, False, False]
    report, job, changes = map(text, answers)
    assert _settled(report) == _settled(said(prometheus.url, "report", "--format", "markdown"))
    assert _settled(job) == _settled(said(prometheus.url, "job", "7"))
    assert _settled(changes) == _settled(said(prometheus.url, "changes", "--format", "markdown"))
    assert "alice" in report


def _settled(answer: str) -> str:
    """Without what the reading itself cost, which no two answers share."""
    return re.sub(r"\d[\d.,]* ?(?:s|ms|kB|MB|bytes|queries)\b", "#", answer).strip()


def test_what_is_wrong_is_said_as_the_tools_error(prometheus: Prometheus) -> None:
    questions = [
        ("job", {"job_id": "8"}),
        ("report", {"since": "soon"}),
        ("report", {"by": "colour"}),
    ]
    _, answers = asked(prometheus.url, *questions)
    assert all(answer.is_error for answer in answers)
    unknown, length, group = map(text, answers)
    assert "check --since and --cluster" in unknown
    assert "--since must be from 1h to 5 years" in length
    assert "colour" in group


def test_a_server_that_is_away_is_an_error_of_the_tool_not_the_end() -> None:
    questions = [("changes", dict[str, Any]())] * 2
    _, answers = asked("http://127.0.0.1:9", *questions, command=IMPATIENT)
    assert [answer.is_error for answer in answers] == [True, True]
    assert "127.0.0.1:9" in text(answers[1])


HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


def lines(*questions: dict[str, Any]) -> bytes:
    """Requests as a client writes them, from the first on."""
    fields: tuple[dict[str, Any], ...] = (
        {"id": 1, "method": "initialize", "params": HELLO},
        {"method": "notifications/initialized"},
        *questions,
    )
    return b"".join(json.dumps({"jsonrpc": "2.0", **each}).encode() + b"\n" for each in fields)


def calling(name: str, number: int) -> dict[str, Any]:
    return {"id": number, "method": "tools/call", "params": {"name": name, "arguments": {}}}


CANCELLATION = (
    b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}\n'
)


def test_requests_of_a_script_are_all_answered_before_it_ends() -> None:
    """`echo ... | ofu-exporter fleet mcp`: the input ends at once, and every tool takes its time."""
    unanswerable = {"id": 1.5, "method": "ping"}
    questions = [unanswerable, *(calling("changes", number) for number in range(2, 6))]
    done = subprocess.run(
        [*IMPATIENT, "fleet", "mcp", "--prometheus", "http://127.0.0.1:9"],
        check=True,
        input=lines(*questions)[:-1],
        capture_output=True,
        env=bare_environment(),
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(answer["id"] for answer in answers) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("way", "status"), [("ctrl-c", -signal.SIGINT), ("end of input", 1), ("cancelled", 0)]
)
def test_it_ends_while_a_tool_waits_for_a_server_that_says_nothing(way: str, status: int) -> None:
    """Assistants end their servers so; without it one that nobody uses would stay."""
    words = [*COMMAND, "fleet", "mcp", "--prometheus"]
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        subprocess.Popen(
            [*words, f"http://127.0.0.1:{silent.getsockname()[1]}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=bare_environment(),
        ) as server,
    ):
        assert server.stdin
        server.stdin.write(lines(calling("report", 2)))
        server.stdin.flush()
        with silent.accept()[0]:  # the tool asks
            if way == "ctrl-c":
                server.send_signal(signal.SIGINT)
            else:
                server.stdin.write(CANCELLATION if way == "cancelled" else b"")
                server.stdin.close()
            try:
                assert server.wait(60) == status
            finally:
                server.kill()
        assert server.stderr
        assert (b"what was asked is not answered" in server.stderr.read()) == (status == 1)
