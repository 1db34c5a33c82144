"""Where a configuration is found: in a file, a folder, or the local cache of Hugging Face's library."""

from __future__ import annotations

import json
import os
import pwd
import shutil
from pathlib import Path

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.config_file import MOST_BYTES, read_configuration
from tests.flops.counting import CONFIGS, config

LLAMA = config("llama-3-8b")


def test_a_folder_stands_for_the_configuration_in_it(tmp_path: Path) -> None:
    shutil.copy(CONFIGS / "llama-3-8b.json", tmp_path / "config.json")
    assert flops.read_file(tmp_path) == flops.read(LLAMA)


def test_a_pipelines_folder_stands_for_its_denoiser(tmp_path: Path) -> None:
    (tmp_path / "transformer").mkdir()
    shutil.copy(CONFIGS / "qwen-image.json", tmp_path / "transformer" / "config.json")
    assert flops.read_file(tmp_path).architecture == "QwenImageTransformer2DModel"


def test_a_field_that_is_there_twice_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"hidden_size": 2560, "hidden_size": 5120}')
    with pytest.raises(ConfigError, match=r"config\.json: the key 'hidden_size' is there twice$"):
        flops.read_file(tmp_path)


def test_an_empty_folder_says_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no config\.json"):
        flops.read_file(tmp_path)


def saved(cache: Path, revision: str, read: dict[str, object]) -> None:
    """A model as huggingface_hub lays it down: models--ORG--NAME/snapshots/REVISION, refs/main names one."""
    folder = cache / "models--meta-llama--Llama-3" / "snapshots" / revision
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(read))


@pytest.mark.parametrize(
    ("variable", "below"),
    [("HF_HUB_CACHE", ""), ("HF_HOME", "hub"), ("XDG_CACHE_HOME", "huggingface/hub")],
)
def test_a_models_id_is_looked_for_in_the_local_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, below: str
) -> None:
    for each in ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    saved(tmp_path / below, "aaa", {"old": 1})
    saved(tmp_path / below, "bbb", {"new": 1})
    name = Path("meta-llama/Llama-3")
    assert read_configuration(name) == {"old": 1}, "any revision, where none is the main one"
    refs = tmp_path / below / "models--meta-llama--Llama-3" / "refs"
    refs.mkdir()
    (refs / "main").write_text("bbb")
    assert read_configuration(name) == {"new": 1}


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(each, raising=False)

    def nobody(_: int) -> pwd.struct_passwd:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    with pytest.raises(ConfigError, match=r"no such model in ~/\.cache/huggingface/hub"):
        read_configuration(Path("meta-llama/Llama-3"))


def test_a_model_that_is_not_there_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ConfigError, match=r"hf download meta-llama/Llama-3 config\.json"):
        read_configuration(Path("meta-llama/Llama-3"))


def test_a_file_that_is_not_there_is_no_models_id(tmp_path: Path) -> None:
    for name in ("configs/absent.json", str(tmp_path / "absent")):
        with pytest.raises(ConfigError, match="there is no such file"):
            read_configuration(Path(name))


def test_what_is_no_file_or_has_no_end_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_text("[" + " " * MOST_BYTES + "]")
    for name, why in (
        (tmp_path / "pipe", "it is not a file"),
        (Path("/dev/zero"), "it is not a file"),
        (tmp_path / "large", "is larger than 4096 KiB"),
    ):
        with pytest.raises(ConfigError, match=f"the configuration {name}:? {why}"):
            read_configuration(name)
