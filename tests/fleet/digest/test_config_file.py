"""What a site wants of its digests is refused in one line that names the line of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.digest.config_file import DigestConfig, read_config

SEND = "send:\n  url: mailto://mx.example.org\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "digest.yaml"
    path.write_text(text)
    return path


def test_all_of_it_is_read(tmp_path: Path) -> None:
    text = (
        "exempt:\n  partitions: ['interactive*']\n  shorter_than: 10m\n  dram_busy: 0.6\n"
        "targets: {'gpu*': 0.45, '*': 0.3}\nranks: false\ncontact: Ask us.\n"
        + SEND
        + "  to: '{name}@example.org'\n"
    )
    config = read_config(written(tmp_path, text))
    assert config.exempt.shorter_than == 600.0
    assert config.targets == {"gpu*": 0.45, "*": 0.3}
    assert config.send is not None
    assert config.send.is_personal
    assert not config.ranks


def test_nothing_need_be_said() -> None:
    assert DigestConfig().send is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("exmpt: {}", "line 1: exmpt: is not known"),
        ("ranks: true\nexempt:\n  partition: [x]", "line 3: exempt.partition: is not known"),
        ("exempt:\n  shorter_than: soon", "line 2: exempt.shorter_than: 'soon' is not a duration"),
        ("targets: {gpu: 40}", "line 1: targets.gpu.all clusters: "),
        ("targets:\n  gpu:\n    east: 40", "line 3: targets.gpu.by cluster.east: "),
        ("targets: {gpu: {}}", "line 1: targets.gpu.by cluster: "),
        ("targets: {gpu: [0.4]}", "line 1: targets.gpu.all clusters: "),
        ("exempt: {dram_busy: 0}", "dram_busy"),
        (SEND + "  to: all@example.org", "line 3: send.to: 'all@example.org' is not a pattern"),
        (SEND + "  to: '{name}@{name}.org'", "is not a pattern"),
        (SEND + "  to: '{name}@x.org,all@x.org'", "is not a pattern"),
        ("send: {to: '{name}'}", "needs one of url and url_file"),
        ("send: {url: 'http://x', url_file: /x}", "needs one of url and url_file"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_line(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        read_config(written(tmp_path, text))
    assert why in str(raised.value)
    assert "\n" not in str(raised.value)


def test_prices_stand_in_it_too(tmp_path: Path) -> None:
    path = tmp_path / "digest.yaml"
    path.write_text('prices: {currency: EUR, gpu_hour: {"*H100*": 2.1}}\n')
    found = read_config(path).prices
    assert (found.currency, found.of("NVIDIA H100 80GB HBM3"), found.of("L4")) == ("EUR", 2.1, None)
