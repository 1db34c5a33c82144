"""The help has every setting under one subject."""

from __future__ import annotations

import pytest

from ofu_exporter.cli.settings import option_models
from ofu_exporter.cli.subjects import COMMON, MEASURE, SERVE, subject_of
from ofu_exporter.settings import FILE_ONLY, Settings


def test_every_setting_that_is_a_flag_has_one_subject() -> None:
    assert sorted(SERVE) == sorted({*Settings.model_fields} - FILE_ONLY)


def test_what_the_help_shows_at_once_and_what_measures_are_settings() -> None:
    owned = {name for model in option_models().values() for name in model.model_fields}
    assert not COMMON - {*SERVE, *owned}
    assert not {*MEASURE} - {*SERVE}


def test_a_name_that_is_no_setting_has_no_subject() -> None:
    with pytest.raises(KeyError, match="colour"):
        subject_of("colour")
