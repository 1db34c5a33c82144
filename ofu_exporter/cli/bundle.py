"""The archive of `check --bundle`: what a report of a fault needs, without secrets, for its sender to read first."""

from __future__ import annotations

import gzip
import importlib.metadata
import io
import json
import os
import platform
import re
import subprocess
import tarfile
import tempfile
import time
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import click

from ofu_exporter import __revision__, __version__
from ofu_exporter.cli.answers import say
from ofu_exporter.cli.record import RecordingSession
from ofu_exporter.errors import ConfigError, OfuError, file_errors
from ofu_exporter.settings import Configured
from ofu_exporter.support.regular_files import opened
from ofu_exporter.support.small_files import read_secret
from ofu_exporter.support.whole_file import unfinished_path
from ofu_exporter.values.text import shown

LOG_BYTES = 256 << 10
LINE_LETTERS = 4000
"""Most letters of a line of the log: the time to look for secrets grows with the square of a line's length."""
JOURNAL = ("journalctl", "--unit=ofu-exporter", "--lines=2000", "--no-pager", "--output=short-iso")
JOURNAL_SECONDS = 10
CONTENTS = {
    "settings.json": "settings in force, with every address's user, password and query hidden",
    "check.json": "every input of every GPU's OFU, the jobs that hold them, and what is wrong",
    "recording.jsonl.gz": "what the source read: counters, clocks, names and UUIDs of GPUs",
    "versions.json": "versions of the agent, its libraries, Python, the kernel and the driver",
    "log.txt": "the end of the agent's log; it may name users and jobs",
}
"""Every file of the archive and what it holds, in its order."""
HIDDEN, CUT = "(hidden)", "(cut)"
_NAMES = r"(?:passw(?:or)?d|passphrase|pwd|secret|token|credentials?|authorization|cookie|api[ _-]?key|[_-]key)"
"""Names of what is secret, or their ends: PG, AWS_SESSION_, wandb- may stand before."""
_NO_WORD = (
    r"(?!(?:is|was|are|were|of|for|in|by|to|from|with|and|or|that|which|has|have|not|no|must|may|can|the|a|an|file|"
    r"files|hash|hashes|given|wrong|right|stands|attempts?|needs?|belongs)\b)"
)
"""What a sentence goes on with after the word "password" where it names none."""
_TOKENS = (
    r"\b(?:hf_\w{16,}|gh[pousr]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|npm_\w{16,}|dckr_pat_[\w-]{16,}|"
    r"nvapi-[\w-]{16,}|sk-[\w-]{16,}|xox[a-z]-[\w-]{8,}|A[KS]IA[0-9A-Z]{12,}|AIza[\w-]{30,}|ya29\.[\w-]{16,}|"
    r"eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?)"
)
"""Tokens by their form: Hugging Face, GitHub, GitLab, npm, Docker, NVIDIA, OpenAI, Slack, AWS, Google, and any JWT.

From https://docs.github.com/en/code-security/secret-scanning (supported patterns); a JWT begins with {" in base64."""
_FORMS = (
    # User and password of an address.
    (re.compile(r"(?<=://)[^\s\"']*@"), f"{HIDDEN}@"),
    # Its query, which may hold a token.
    (re.compile(r"(://[^\s\"'?]*\?)[^\s\"']+"), rf"\1{HIDDEN}"),
    (re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]+", re.I), rf"\1 {HIDDEN}"),
    # PGPASSWORD=, MYSQL_PWD=, AWS_SECRET_ACCESS_KEY=, --wandb-key=, and JSON's "token": ", whose value may have blanks.
    (
        re.compile(rf"({_NAMES}\\?[\"']?\s*[:=]\s*\\?)([\"'])[^\"'\\\n]+", re.I),
        rf"\1\2{HIDDEN}",
    ),
    (
        re.compile(
            rf"({_NAMES})(\\?[\"']?\s*[:=]\s*\\?[\"']?)(?!bearer |basic )[^\s\"',}}\\]+", re.I
        ),
        rf"\1\2{HIDDEN}",
    ),
    # --token X, and a password or secret that a sentence names; of a token only one with letters and digits.
    (re.compile(rf"(--[\w.-]{{0,60}}?{_NAMES}\s+)(?!-)[^\s\"',]+", re.I), rf"\1{HIDDEN}"),
    (
        re.compile(
            rf"\b((?:password|passwd|passphrase|secret(?:\s+key)?)\s+){_NO_WORD}[^\s\"',]+", re.I
        ),
        rf"\1{HIDDEN}",
    ),
    (
        re.compile(
            rf"\b({_NAMES}\s+(?:(?:is|was)\s+)?)(?=[^\s\"',]*\d)(?=[^\s\"',]*[a-z])[^\s\"',]+", re.I
        ),
        rf"\1{HIDDEN}",
    ),
    (re.compile(_TOKENS), HIDDEN),
    # The path of a webhook, which is its password.
    (
        re.compile(r"(://[^\s\"'/]+/(?:[\w.-]+/)*?(?:services|webhooks?|hooks?)/)[^\s\"']+", re.I),
        rf"\1{HIDDEN}",
    ),
    # A bcrypt hash.
    (re.compile(r"\$2[abxy]\$\d\d\$[./A-Za-z0-9]{53}"), HIDDEN),
    (
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S
        ),
        HIDDEN,
    ),
)
"""What has the form of a secret, and what stands in its place."""


class Bundle:
    """An archive that is asked for."""

    def __init__(self, file: Path, log_file: Path | None, seconds: float) -> None:
        """`seconds` is the length of its recording. Raises ConfigError for a file that exists."""
        if os.path.lexists(file):
            raise ConfigError(f"{file} exists; a bundle is never overwritten")
        self._file, self._log_file, self._seconds = file, log_file, seconds

    def write(self, configured: Configured, checked: dict[str, Any] | None) -> None:
        """Record, write the archive, and print what it holds."""
        say(f"Recording for {self._seconds:g} s ...", err=True)
        secrets = secrets_of(configured)
        recorded = _recorded(configured, self._seconds)
        texts = {
            "settings.json": _as_json(redacted_data(settings_of(configured), secrets)),
            "check.json": _as_json(redacted_data(checked, secrets)),
            "versions.json": _as_json(versions(checked)),
            "log.txt": redacted(log_tail(self._log_file), secrets),
        }
        files = {name: text.encode() for name, text in texts.items()}
        files["recording.jsonl.gz"] = gzip.compress(redacted(recorded, secrets).encode(), mtime=0)
        manifest = manifest_of(files)
        with file_errors(self._file):
            _pack(self._file, {"MANIFEST": manifest.encode(), **files})
        click.echo(f"\n{self._file} holds:\n\n{manifest}", err=True)
        say(f"Read it before you send it: mkdir read && tar -xzf {self._file} -C read", err=True)


def manifest_of(files: Mapping[str, bytes]) -> str:
    """One line for each file: its size in bytes, and what it holds."""
    return "".join(f"{len(files[name]):>9}  {name:<19} {what}\n" for name, what in CONTENTS.items())


def settings_of(configured: Configured) -> dict[str, Any]:
    """The settings in force, as plain data. Files that they name are not read."""
    return {
        "config": None if configured.file is None else str(configured.file),
        "ignored": list(configured.ignored),
        "settings": configured.settings.model_dump(mode="json"),
        "sources": {
            name: each.model_dump(mode="json") for name, each in configured.sources.items()
        },
        "schedulers": {
            name: each.model_dump(mode="json") for name, each in configured.schedulers.items()
        },
    }


def secrets_of(configured: Configured) -> set[str]:
    """What files of the settings hold and nobody else may know: a log could repeat it. Nothing where unreadable."""
    secrets: set[str] = set()
    for path in (configured.settings.report_token_file, configured.settings.web_config_file):
        try:
            text = "" if path is None else read_secret(path, str(path))
        except OfuError:
            continue
        secrets.update(word for word in re.split(r"[\s\"',]+", text) if _may_be_secret(word))
    return secrets


def _may_be_secret(word: str) -> bool:
    """A token or a hash; a shorter or plainer word would take whole sentences out of a log."""
    return len(word) >= 12 and not word.endswith(":") and "/" not in word[:1]


def versions(checked: Mapping[str, Any] | None) -> dict[str, Any]:
    """Of everything that could make a difference; None where it is not known."""
    required = importlib.metadata.requires("ofu-exporter") or ()
    names = sorted({re.split(r"[^\w.-]", text)[0] for text in required if "extra ==" not in text})
    gpus = checked["gpus"] if checked else ()
    models = sorted({str(gpu["model"]) for gpu in gpus if gpu["model"]})
    return {
        "ofu-exporter": __version__,
        "revision": __revision__ or None,
        "python": platform.python_version(),
        "system": platform.platform(),
        "driver": _nvidia_driver(),
        "gpus": models,
        "libraries": {name: importlib.metadata.version(name) for name in names},
    }


def _nvidia_driver() -> str | None:
    try:
        return Path("/proc/driver/nvidia/version").read_text(encoding="utf-8").partition("\n")[0]
    except (OSError, UnicodeDecodeError):
        return None


def log_tail(file: Path | None) -> str:
    """The end of the agent's log, or one line that says why there is none."""
    try:
        if file is not None:
            with opened(file) as log:
                log.seek(max(0, os.fstat(log.fileno()).st_size - LOG_BYTES - 1))
                return _whole_words(log.read(LOG_BYTES + 1))
        done = subprocess.run(JOURNAL, capture_output=True, timeout=JOURNAL_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"(no log: {error}; give the agent's with --log FILE)\n"
    return _whole_words(done.stdout) or "(the journal has no line of the unit)\n"


def _whole_words(log: bytes) -> str:
    """The last LOG_BYTES, without the words that are cut: nobody would know a half address's password for one."""
    lines = log[-LOG_BYTES:].decode(errors="replace").splitlines()
    if len(log) > LOG_BYTES:
        lines[0] = CUT
    return "\n".join(
        shown(
            line if len(line) <= LINE_LETTERS else f"{line[:LINE_LETTERS].rpartition(' ')[0]} {CUT}"
        )
        for line in lines
    )


def _recorded(configured: Configured, limit: float) -> str:
    """A recording as text, or one line that says why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "recording.jsonl.gz"
        recording = RecordingSession(file, configured)
        recording.run(limit)
        if recording.count:
            # A full disk may have cut it, whose end `gzip` would not read.
            return zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(file.read_bytes()).decode()
        return f"(nothing was read: {recording.problem or 'no window ended in this time'})\n"


def _as_json(data: Any) -> str:
    return json.dumps(data, indent=2) + "\n"


def _pack(target: Path, files: Mapping[str, bytes]) -> None:
    """Writes a .tar.gz that only its owner may read, whole or not at all."""
    unfinished = unfinished_path(target)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as raw, tarfile.open(fileobj=raw, mode="w:gz") as archive:
            for name, content in files.items():
                member = tarfile.TarInfo(name)
                member.size, member.mode, member.mtime = len(content), 0o644, int(time.time())
                archive.addfile(member, io.BytesIO(content))
        os.link(unfinished, target)  # unlike a rename it replaces nothing that came meanwhile
    finally:
        unfinished.unlink(missing_ok=True)


def redacted(text: str, secrets: Collection[str] = ()) -> str:
    """The text without any of `secrets`, nor what looks like one."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    for form, instead in _FORMS:
        text = form.sub(instead, text)
    return text


def redacted_data(data: Any, secrets: Collection[str]) -> Any:
    """The same for every text within mappings and lists."""
    if isinstance(data, dict):
        return {key: redacted_data(value, secrets) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [redacted_data(each, secrets) for each in data]
    return redacted(data, secrets) if isinstance(data, str) else data
