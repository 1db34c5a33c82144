"""Secrets come from files or the environment, and what cannot be used is refused in one line that shows none."""

from __future__ import annotations

from pathlib import Path

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.credentials import PASSWORD_VARIABLE, TOKEN_VARIABLE, PrometheusAccess
from tests.helpers.every import every


def secret(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "secret"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_without_anything_nothing_is_sent() -> None:
    assert PrometheusAccess().headers({}) == {}
    assert PrometheusAccess().basic({}) is None


def test_a_token_is_read_from_a_file_or_the_environment(tmp_path: Path) -> None:
    wanted = {"Authorization": "Bearer abc"}
    assert PrometheusAccess(bearer_token_file=secret(tmp_path, "abc\n")).headers({}) == wanted
    assert PrometheusAccess().headers({TOKEN_VARIABLE: "abc"}) == wanted


def test_a_password_is_read_from_a_file_or_the_environment(tmp_path: Path) -> None:
    file = secret(tmp_path, "pass word\n")
    assert PrometheusAccess(user="u", password_file=file).basic({}) == ("u", "pass word")
    assert PrometheusAccess(user="u").basic({PASSWORD_VARIABLE: "x"}) == ("u", "x")


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="mode 0644"):
        PrometheusAccess(bearer_token_file=secret(tmp_path, "abc", 0o644)).headers({})


@pytest.mark.parametrize("text", ["", "  \n", "abc\r\nX-Other: 1", "päss"])
def test_a_secret_that_no_header_can_have_is_refused_and_not_shown(
    text: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        PrometheusAccess(bearer_token_file=secret(tmp_path, text)).headers({})
    assert not text.strip() or text.strip() not in str(caught.value)


@every(
    [
        (PrometheusAccess(user="u"), {}, "--user needs"),
        (PrometheusAccess(password_file=Path("x")), {}, "--password-file needs --user"),
        (PrometheusAccess(tenant="a\nb"), {}, "--tenant"),
        (PrometheusAccess(user="u"), {TOKEN_VARIABLE: "t"}, "either a bearer token or a user"),
    ]
)
def test_what_does_not_fit_together_is_refused(
    access: PrometheusAccess, environ: dict[str, str], why: str
) -> None:
    def used() -> None:
        access.headers(environ)
        access.basic(environ)

    with pytest.raises(ConfigError, match=why):
        used()


@pytest.mark.parametrize("field", ["ca", "client_cert"])
def test_a_file_that_is_no_certificate_is_refused(field: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="secret"):
        PrometheusAccess(**{field: secret(tmp_path, "no certificate")}).tls()  # type: ignore[arg-type]


def test_a_key_without_a_certificate_is_refused() -> None:
    with pytest.raises(ConfigError, match="--client-key needs --client-cert"):
        PrometheusAccess(client_key=Path("x")).tls()
