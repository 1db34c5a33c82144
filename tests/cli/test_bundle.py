"""`check --bundle` writes what a report of a fault needs, says what that is, and gives away no secret."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter import __version__
from ofu_exporter.cli.bundle import (
    CONTENTS,
    CUT,
    HIDDEN,
    LINE_LETTERS,
    LOG_BYTES,
    log_tail,
    redacted,
    redacted_data,
)
from ofu_exporter.cli.check import EXIT_GPU
from ofu_exporter.cli.settings import option_models
from ofu_exporter.recordings import recording
from ofu_exporter.settings import PullSetting, Settings
from tests.helpers.agent import COMMAND, bare_environment, call, page_server
from tests.helpers.every import every
from tests.helpers.passwords import hashed

QUICK = ("--duration", "1s", "--interval", "0.2s")
SIMULATED = ("--source", "simulate", "--simulated-gpus", "1", *QUICK)
SECRET = "s3cr3t-"
"""Begins every secret of these tests."""
HASH = hashed("a password")
PAGE = (
    'DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3"} 0.5\n'
    'DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3"} 1464\n'
)


def unpacked(archive: Path) -> dict[str, str]:
    """The text of every file, in the order of the archive."""
    with tarfile.open(archive) as packed:
        read = {each.name: packed.extractfile(each) for each in packed.getmembers()}
        found = {name: file.read() for name, file in read.items() if file is not None}
    return {
        name: (gzip.decompress(content) if name.endswith(".gz") else content).decode()
        for name, content in found.items()
    }


@pytest.mark.slow
def test_the_archive_holds_what_its_manifest_lists_and_the_user_is_told(tmp_path: Path) -> None:
    (tmp_path / "agent.log").write_text("first line\nlast line\n")
    bundle = tmp_path / "b.tar.gz"
    done = call("check", *SIMULATED, "--bundle", str(bundle), "--log", str(tmp_path / "agent.log"))
    assert done.returncode == 0, done.stderr
    texts = unpacked(bundle)
    assert [*texts] == ["MANIFEST", *(name for name in texts if name != "MANIFEST")]
    assert {*texts} == {"MANIFEST", *CONTENTS}
    listed = dict(line.split()[1::-1] for line in texts["MANIFEST"].splitlines())
    with tarfile.open(bundle) as packed:
        sizes = {each.name: str(each.size) for each in packed.getmembers()}
    assert listed == {name: sizes[name] for name in CONTENTS}
    assert texts["MANIFEST"] in done.stderr
    assert "Read it before you send it" in done.stderr
    assert json.loads(texts["check.json"])["gpus"][0]["available"] is True
    assert json.loads(texts["settings.json"])["settings"]["interval"] == 0.2
    versions = json.loads(texts["versions.json"])
    assert versions["ofu-exporter"] == __version__
    assert versions["gpus"] == ["NVIDIA H100 80GB HBM3"]
    assert {"nvidia-ml-py", "fastapi"} <= versions["libraries"].keys()
    assert texts["log.txt"].splitlines() == ["first line", "last line"]
    assert os.stat(bundle).st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir() if ".part" in path.name] == []


@pytest.mark.slow
def test_its_recording_can_be_replayed(tmp_path: Path) -> None:
    bundle = tmp_path / "b.tar.gz"
    call("check", *SIMULATED, "--bundle", str(bundle), "--format", "json")
    with tarfile.open(bundle) as packed:
        content = packed.extractfile("recording.jsonl.gz")
        assert content is not None
        (tmp_path / "recording.jsonl.gz").write_bytes(content.read())
    played = recording.read(tmp_path / "recording.jsonl.gz")
    assert (played.header.source, len([*played.events]) > 1) == ("simulate", True)


def test_no_setting_that_may_hold_a_secret_is_new() -> None:
    """A new one goes into the test below, and into what bundle.py looks for."""
    models: list[Any] = [Settings, PullSetting, *option_models().values()]
    fields = {name for model in models for name in model.model_fields}
    suspicious = {
        name
        for name in fields
        if re.search("token|passw|secret|key|auth|url|credential|web_config", name)
    }
    harmless = {"job_tokens", "pod_tokens"}  # whether there are any
    assert suspicious - harmless == {"url", "report_token_file", "tls_key", "web_config_file"}


@pytest.mark.slow
def test_no_secret_of_any_setting_is_in_it(tmp_path: Path) -> None:
    def write(name: str, text: str) -> str:
        path = tmp_path / name
        path.write_text(text)
        path.chmod(0o600)
        return str(path)

    token, own_token = f"{SECRET}token-of-the-site", f"{SECRET}token-of-pods"
    key = f"-----BEGIN PRIVATE KEY-----\n{SECRET}key\n-----END PRIVATE KEY-----\n"
    tokens = write("tokens", f"{token}\nown-pod {own_token}\n")
    web = write("web.yaml", f"basic_auth_users:\n  ada: {HASH}\n")
    log = write(
        "log",
        f"client sent {token} and {own_token}\nAuthorization: Bearer {SECRET}bearer\n"
        f"GET http://u:{SECRET}userinfo@h/m?t={SECRET}query\nOFU_TOKEN={SECRET}job\n{key}{HASH}\n",
    )
    bundle = tmp_path / "b.tar.gz"
    with page_server(lambda: PAGE) as url:
        address = url.replace("://", f"://ada:{SECRET}password@") + f"?token={SECRET}source"
        config = {
            "source": "dcgm-exporter",
            "url": address,
            "report_token_file": tokens,
            "web_config_file": web,
            "tls_key": write("key.pem", key),
            "pull": [{"job_id": "1", "url": f"http://ada:{SECRET}pull@127.0.0.1:9/m?k={SECRET}k"}],
        }
        words = ("--config", write("c.yaml", json.dumps(config)), "--bundle", str(bundle))
        done = call("check", *words, "--log", log, *QUICK)
    texts = unpacked(bundle)
    assert {*texts} == {"MANIFEST", *CONTENTS}, done.stderr
    for name, text in texts.items():
        assert SECRET not in text, name
        assert HASH not in text, name
    assert "(hidden)" in texts["settings.json"]
    assert texts["log.txt"].startswith("client sent (hidden) and (hidden)\n")


@pytest.mark.slow
def test_a_source_that_cannot_be_read_is_bundled_too(tmp_path: Path) -> None:
    bundle = tmp_path / "b.tar.gz"
    source = ("--source", "dcgm-exporter", "--url", f"http://ada:{SECRET}p@127.0.0.1:9/metrics")
    absent = ("--report-token-file", str(tmp_path / "tokens"))
    done = call("check", *source, *absent, *QUICK, "--bundle", str(bundle))
    assert done.returncode == 3
    texts = unpacked(bundle)
    assert json.loads(texts["check.json"])["reason"]
    assert texts["recording.jsonl.gz"].startswith("(nothing was read: ")
    assert SECRET not in "".join(texts.values())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--bundle", "/dev/null"), "/dev/null exists; a bundle is never overwritten"),
        (("--bundle", "new", "--duration", "soon"), "--duration: "),
    ],
)
def test_what_cannot_be_made_is_refused_before_anything_is_measured(
    words: tuple[str, ...], said: str
) -> None:
    done = call("check", "--source", "simulate", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.slow
def test_a_place_that_cannot_be_written_is_said_in_one_line(tmp_path: Path) -> None:
    done = call("check", *SIMULATED, "--bundle", str(tmp_path / "no" / "b.tar.gz"))
    assert done.returncode == 2
    assert "b.tar.gz: No such file or directory" in done.stderr


def test_of_a_long_log_the_end_is_taken(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("x" * LOG_BYTES + "\n\x1b[31mend\n")
    tail = log_tail(tmp_path / "log")
    assert len(tail) < LOG_BYTES + 10
    assert tail.endswith("\\x1b[31mend")


def test_no_password_is_shown_because_its_address_is_cut(tmp_path: Path) -> None:
    """Wherever the end of a long line, or the beginning of what is read of the log, cuts it."""
    address, log = "https://ada:hunter22@h/m", tmp_path / "log"
    for letters in range(len(address)):
        log.write_text(f"{'a ' * 2000}"[letters:] + f"{address} more\n")
        assert "hunter" not in redacted(log_tail(log)), "at the end of a line"
        log.write_text(f"{address} {'x' * (LOG_BYTES - letters)}\nend\n")
        assert "hunter" not in redacted(log_tail(log)), "at the beginning"


@pytest.mark.parametrize("letters", ["x", "-", "--a", "a://b/"])
def test_of_a_line_without_end_little_is_searched_for_secrets(letters: str, tmp_path: Path) -> None:
    """Searching it whole, with forms that begin at each letter, would take an hour."""
    (tmp_path / "log").write_text(letters * LOG_BYTES + "\nlast --my-token abc")
    tail = log_tail(tmp_path / "log")
    assert max(map(len, tail.splitlines())) <= LINE_LETTERS + len(f" {CUT}")
    assert redacted(tail).endswith(f"\nlast --my-token {HIDDEN}")


def test_without_a_log_it_says_why(tmp_path: Path) -> None:
    assert "No such file" in log_tail(tmp_path / "none")


SOME_HASH = "$2b$12$" + "a" * 53


@every(
    [
        ("http://ada:pa@ss@h:9400/metrics", f"http://{HIDDEN}@h:9400/metrics"),
        ("GET https://h/m?token=abc&x=1 failed", f"GET https://h/m?{HIDDEN} failed"),
        ("Authorization: Bearer abc.def-1=", f"Authorization: Bearer {HIDDEN}"),
        ("authorization: Basic YWRhOng=", f"authorization: Basic {HIDDEN}"),
        ('{"password": "p w"}', f'{{"password": "{HIDDEN}"}}'),
        ("JOB_TOKEN=abc rest", f"JOB_TOKEN={HIDDEN} rest"),
        ("api-key: abc", f"api-key: {HIDDEN}"),
        (f"ada: {SOME_HASH}", f"ada: {HIDDEN}"),
        (
            "a\n-----BEGIN EC PRIVATE KEY-----\nMHc\n-----END EC PRIVATE KEY-----\nb",
            f"a\n{HIDDEN}\nb",
        ),
        ("-----BEGIN PRIVATE KEY-----\nMHc", HIDDEN),
        ("http://ada:pa/ss@h/m", f"http://{HIDDEN}@h/m"),
        ("AWS_SECRET_ACCESS_KEY=wJalr/x", f"AWS_SECRET_ACCESS_KEY={HIDDEN}"),
        ("AWS_SESSION_TOKEN=FwoG x", f"AWS_SESSION_TOKEN={HIDDEN} x"),
        ("PGPASSWORD=abc psql", f"PGPASSWORD={HIDDEN} psql"),
        ("MYSQL_PWD='abc'", f"MYSQL_PWD='{HIDDEN}'"),
        ("train.py --wandb-key=abc -n 2", f"train.py --wandb-key={HIDDEN} -n 2"),
        ("train.py --token abc --lr 1", f"train.py --token {HIDDEN} --lr 1"),
        ("curl --api-key abc", f"curl --api-key {HIDDEN}"),
        ("login with password hunter2 failed", f"login with password {HIDDEN} failed"),
        ("the secret XYZ was refused", f"the secret {HIDDEN} was refused"),
        ("Secret key XYZ, and token=XYZ", f"Secret key {HIDDEN}, and token={HIDDEN}"),
        (
            "the token is a1b2 and the password is hunter2",
            f"the token is {HIDDEN} and the password is {HIDDEN}",
        ),
        ("password: XYZ; api key x1", f"password: {HIDDEN} api key {HIDDEN}"),
        ("credentials: abc", f"credentials: {HIDDEN}"),
        ("got hf_AbCdEfGhIjKlMnOpQrSt", f"got {HIDDEN}"),
        ("got ghp_0123456789abcdefghijABCDEFGHIJ123456", f"got {HIDDEN}"),
        ("got github_pat_11AAAAAAA0aaaaaaaaaaaa_bbb", f"got {HIDDEN}"),
        ("key AKIAIOSFODNN7EXAMPLE", f"key {HIDDEN}"),
        ("sk-proj-abcdefghijklmnop1234", HIDDEN),
        ("xoxb-123456789012-abc", HIDDEN),
        ("nvapi-abcdefghijklmnopqrst", HIDDEN),
        ("x eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln y", f"x {HIDDEN} y"),
        (
            "POST https://hooks.slack.com/services/T0/B0/abc failed",
            f"POST https://hooks.slack.com/services/{HIDDEN} failed",
        ),
        ("https://discord.com/api/webhooks/12/abc", f"https://discord.com/api/webhooks/{HIDDEN}"),
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
        "token 512 of a sequence, one token per second, a secret of the site",
        "a basic thing",
        "the password is wrong; a password of the site, and --token-file is none",
        '{"tokens_per_second": 1e5, "num_key_value_heads": 8, "monkey": 1}',
        "GPU-5f1f2d3e-aaaa-bbbb-cccc-123456789012 at 00000000:1B:00.0",
        "reports are accepted from: this node with a token, each pod for its own job by its token",
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


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
def test_what_a_full_disk_left_of_the_recording_is_in_the_archive(tmp_path: Path) -> None:
    disk, bundle = tmp_path / "disk", tmp_path / "b.tar.gz"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8k", "none", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no disk can be mounted here")
    flags = ("--source", "simulate", "--interval", "0.1s", "--duration", "1m")
    try:
        done = subprocess.run(
            [*COMMAND, "check", *flags, "--bundle", str(bundle)],
            env=bare_environment({"TMPDIR": str(disk)}),
            capture_output=True,
            check=False,
        )
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
    # A machine that is busy with something else may not have looked at each GPU in such short windows.
    assert done.returncode in (0, EXIT_GPU), done.stderr
    assert '"tensor"' in unpacked(bundle)["recording.jsonl.gz"]
