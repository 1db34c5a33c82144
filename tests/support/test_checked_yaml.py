"""A file that cannot be used is refused in one line that names the file's line."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from ofu_exporter.errors import ConfigError
from ofu_exporter.support import checked_yaml


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")

    size: int = 1


class _Whole(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    parts: list[_Part] = []
    other: _Part | int = 0


def written(folder: Path, text: str) -> Path:
    path = folder / "whole.yaml"
    path.write_text(text)
    return path


def test_what_a_file_says_is_checked_and_knows_its_lines(tmp_path: Path) -> None:
    found = checked_yaml.read(
        written(tmp_path, "name: a\nparts:\n  - {size: 2}\n  - size: 3\n"), "whole", _Whole
    )
    assert [part.size for part in found.content.parts] == [2, 3]
    assert str(found.error(("parts", 1, "size"), "is odd")).endswith(
        "whole.yaml, line 4: parts[1].size: is odd"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("name: a\nparts:\n  - {size: 2}\n  - {sise: 2}\n", "line 4: parts[1].sise: is not known"),
        ("name: a\n\nother: {sise: 2}\n", "line 3: other._Part.sise: is not known"),
        ("parts: []\n", "line 1: name: Field required"),
        ("name: a\nname: b\n", "line 2: a key is there twice"),
        ("name: a\n? [name]\n: b\n", "not YAML, line 2: found unhashable key"),
        ("- name\n", "the top level must be `key: value` lines"),
        ("", "the top level must be"),
        ("name: [", "not YAML, line 1"),
        ("name: !!int ''\n", "a value that YAML cannot make (IndexError)"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_line(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        checked_yaml.read(written(tmp_path, text), "whole", _Whole)
    assert why in str(raised.value)
    assert str(tmp_path) in str(raised.value)
