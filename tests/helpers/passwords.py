"""Passwords and their hashes, made by the real library at the lowest cost that it has."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import bcrypt


def hashed(password: str, cost: int = 4) -> str:
    """What `htpasswd -nBC` prints behind the name; its prefix is 2y."""
    text = bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost)).decode()
    return text.replace("$2b$", "$2y$", 1)


def basic(user: str, password: str) -> str:
    """The value of the Authorization header."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def web_file(path: Path, **sections: Any) -> Path:
    """A web configuration of these sections, put in place whole."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(sections))  # JSON is YAML
    new.chmod(0o600)
    new.replace(path)
    return path
