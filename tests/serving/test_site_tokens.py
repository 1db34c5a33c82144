"""The site's tokens: what their file may be, and how one is withdrawn while the agent runs."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.serving.site_tokens import SiteTokens, read_tokens, sha256
from tests.helpers.token_file import token_file

TOKEN = "0123456789abcdef"
OTHER = "fedcba9876543210"


def knows(tokens: SiteTokens, token: str) -> bool:
    return tokens.find(sha256(token.encode())) is not None


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return token_file(tmp_path / "tokens", TOKEN)


def test_a_file_holds_tokens_and_comments(tmp_path: Path) -> None:
    lines = ("# the training cluster", TOKEN, "", f"  {OTHER}   own-pod ")
    path = token_file(tmp_path / "tokens", *lines)
    first, second = read_tokens(path)
    assert first == (hashlib.sha256(TOKEN.encode()).hexdigest(), False)
    assert second == (hashlib.sha256(OTHER.encode()).hexdigest(), True)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((), "holds no token"),
        (("# nothing",), "holds no token"),
        (("short",), "line 1 is no token"),
        ((TOKEN, f"{TOKEN} {OTHER}"), "line 2 is no token"),
        (("é" * 16,), "line 1 is no token"),
    ],
)
def test_a_file_without_good_tokens_is_refused_and_no_token_is_shown(
    tmp_path: Path, lines: tuple[str, ...], said: str
) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        SiteTokens(token_file(tmp_path / "tokens", *lines))
    assert not [line for line in lines if line in str(refused.value)]


def test_tokens_are_read_anew_when_the_file_changes(path: Path) -> None:
    tokens = SiteTokens(path)
    token_file(path, OTHER)
    tokens.refresh()
    assert not knows(tokens, TOKEN)
    assert knows(tokens, OTHER)
    token_file(path.with_name("new"), TOKEN).rename(path)
    tokens.refresh()
    assert knows(tokens, TOKEN)


@pytest.mark.parametrize("harm", ["removed", "emptied", "opened to others"])
def test_without_a_good_file_no_token_is_good_until_it_is_back(
    path: Path, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = SiteTokens(path)
    if harm == "removed":
        path.unlink()
    elif harm == "emptied":
        token_file(path)
    else:
        token_file(path, TOKEN, mode=0o644)
    for _ in range(3):
        tokens.refresh()
    assert not knows(tokens, TOKEN)
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1, "it is said once"
    path.unlink(missing_ok=True)
    token_file(path, TOKEN)
    tokens.refresh()
    assert knows(tokens, TOKEN)


def test_what_could_not_be_read_is_tried_again(path: Path) -> None:
    """Its directory may have been out of reach, and the file itself has not changed."""
    tokens = SiteTokens(path)
    aside = path.with_name("aside")
    path.rename(aside)
    tokens.refresh()
    aside.rename(path)
    tokens.refresh()
    assert knows(tokens, TOKEN)
