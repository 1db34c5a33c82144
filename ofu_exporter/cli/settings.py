"""Generates the flags of the settings from the models, and loads settings from flags, environment and file.

These are layers that are merged into one model of settings; unknown settings are refused.
"""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args

import click
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from ofu_exporter import schedulers, sources
from ofu_exporter.cli.answers import say
from ofu_exporter.cli.help import SubjectOption
from ofu_exporter.errors import ConfigError
from ofu_exporter.settings import FILE_ONLY, Configured, Settings
from ofu_exporter.support.durations import duration, seconds
from ofu_exporter.support.logs import configure_logging
from ofu_exporter.support.small_files import read_small


def shown(field: FieldInfo, value: object) -> str:
    """A value of a setting as people write it; only a duration has a unit."""
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    is_duration = any(getattr(each, "func", None) is seconds for each in field.metadata)
    if isinstance(value, float):
        return duration(value) if is_duration else f"{value:g}"
    return str(value)


class SettingValue(NamedTuple):
    """The value of one setting, and where the user set it."""

    value: object
    origin: str
    words: str = ""
    """What help says of the value, where that depends on who asks."""


SettingsLayer = Mapping[str, SettingValue]
ModelT = TypeVar("ModelT", bound=BaseModel)


def file_layer(path: Path) -> dict[str, SettingValue]:
    """The settings of a YAML file. Raises ConfigError, which names the file and, where known, the line."""
    from ofu_exporter.support import checked_yaml

    try:
        loaded = checked_yaml.load_yaml(read_small(path, "configuration file"))
    except ValueError as error:
        raise ConfigError(f"configuration file {path}: {error}") from error
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise ConfigError(f"configuration file {path}: the top level must be `key: value` lines")
    return {
        str(key).replace("-", "_"): SettingValue(value, f"{key} in {path}")
        for key, value in loaded.items()
    }


OTHER_VARIABLES = ("OFU_CONFIG", "OFU_AGENT")
OTHER_PREFIXES = ("OFU_EXPORTER_", "OFU_TEST_")
"""Of variables that a Service called ofu-exporter sets in every pod of a namespace, and of those of tests."""


def environment_layer(
    environ: Mapping[str, str], settings: Iterable[str]
) -> tuple[dict[str, SettingValue], tuple[str, ...]]:
    """The settings of the OFU_... variables, and one sentence for each variable that is no setting.

    The user may not have set such a variable: Kubernetes sets OFU_PORT and others in every pod of a namespace that
    has a Service called ofu. There is no sentence for OTHER_PREFIXES.
    """
    names = sorted(settings)
    layer, ignored = {}, []
    for name, value in environ.items():
        if not name.startswith("OFU_") or name.startswith(OTHER_PREFIXES):
            continue
        key = name.removeprefix("OFU_").lower()
        if key in names:
            layer[key] = SettingValue(value, name)
        elif name not in OTHER_VARIABLES:
            near = difflib.get_close_matches(key, names, 1)
            hint = f"; did you mean OFU_{near[0].upper()}?" if near else ""
            ignored.append(f"the variable {name} is not a setting and is ignored{hint}")
    return layer, tuple(ignored)


def check_known(layer: SettingsLayer, settings: Iterable[str]) -> None:
    """Raise ConfigError for the first key that is no setting; the error names the nearest that is."""
    names = sorted(settings)
    for key, setting in layer.items():
        if key not in names:
            near = difflib.get_close_matches(key, names, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; known: {', '.join(names)}"
            raise ConfigError(f"unknown setting {setting.origin}{hint}")


def build(model: type[ModelT], layer: SettingsLayer, owner: str = "the agent") -> ModelT:
    """Make a model from its own keys. Raises ConfigError, which names the setting and its origin."""
    of_model = {key: setting for key, setting in layer.items() if key in model.model_fields}
    for key, setting in of_model.items():
        kind = model.model_fields[key].annotation
        if setting.value == "" and Path in (kind, *get_args(kind)):
            # It would be the folder that the process happens to be in.
            raise ConfigError(f"{setting.origin}: it is empty; leave it out, or name a file")
    try:
        return model.model_validate({key: setting.value for key, setting in of_model.items()})
    except ValidationError as error:
        raise ConfigError(
            "; ".join(_explain(item, of_model, owner) for item in error.errors())
        ) from error


def _explain(item: Any, of_model: SettingsLayer, owner: str) -> str:
    location = [str(part) for part in item["loc"]]
    setting = of_model.get(location[0]) if location else None
    message = item["msg"].removeprefix("Value error, ")
    if item["type"] == "missing" and setting is None:
        flag = location[0].replace("_", "-")
        return (
            f"{owner} needs --{flag} (or OFU_{location[0].upper()}, or {location[0]} in the file)"
        )
    inner = ".".join(location[1:])
    where = (setting.origin if setting else ".".join(location)) + (f" ({inner})" if inner else "")
    return f"{where}: {message}"


log = logging.getLogger(__name__)

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


_SUBJECTS: Mapping[str, str] = {
    "source": "Counters",
    "scheduler": "Jobs",
    "listen": "Serving",
    "web_config_file": "Who may read and report",
    "horizon": "Reports of MFU",
    "traces": "Traces",
    "log_level": "Log",
}
"""The subjects of the help by the first setting of each; those that follow it in `Settings` are of it too."""


def _by_subject() -> Iterator[tuple[str, str]]:
    subject = ""
    for name in Settings.model_fields:
        if name not in FILE_ONLY:
            subject = _SUBJECTS.get(name, subject)
            yield name, subject


OWNED: Mapping[str, str] = {"source": "One source's own", "scheduler": "One scheduler's own"}
"""The subjects of the options that belong to a source or to a scheduler."""
SUBJECT_OF = dict(_by_subject())
"""The options of sources and schedulers follow."""
SERVE = tuple(SUBJECT_OF)
"""The settings of a command that serves: all of them."""
COMMON = frozenset(
    {
        *("source", "interval", "scheduler", "state_file", "listen", "web_config_file"),
        *("log_level", "url", "path"),
    }
)
"""What --help shows of a command that serves; the rest is shown by --help-all."""
MEASURE = ("source", "interval", "clock_interval", "log_level", "log_format")
"""The settings of a command that measures but does not serve."""

OptionOwner = tuple[str, str]
"""Owner of options: `source` or `scheduler`, and its name."""


def option_models() -> dict[OptionOwner, type[BaseModel]]:
    return {
        **{("source", name): sources.options(name).Options for name in sources.names()},
        **{("scheduler", name): schedulers.options(name).Options for name in schedulers.names()},
    }


def listed_options() -> dict[OptionOwner, type[BaseModel]]:
    """The same with every model once: a source and a scheduler that share their options have the same flags."""
    first = {model: owner for owner, model in reversed(option_models().items())}
    return {owner: model for owner, model in option_models().items() if first[model] == owner}


def setting_names() -> set[str]:
    """Every setting, and every option of a source or scheduler."""
    return {*Settings.model_fields}.union(*(each.model_fields for each in option_models().values()))


def setting_flags(
    command: CommandT,
    preset: SettingsLayer | None = None,
    names: Collection[str] = SERVE,
    owners: Collection[str] = tuple(OWNED),
) -> CommandT:
    """Add --config, and a flag for every setting and every option of a source or scheduler, to a command.

    The help shows the flags of `names` and `owners`, which the command uses. The command accepts the others too, so
    that an agent's flags can be given unchanged. `preset` are the values that the command sets where no flag
    does; its help shows them as the defaults.
    """
    for (kind, owner), model in reversed(listed_options().items()):
        for name, field in reversed(model.model_fields.items()):
            shown_as = {"subject": OWNED[kind], "hidden": kind not in owners}
            command = _flag(name, field, preset or {}, shown_as, owner)(command)
    for name in reversed(SERVE):
        shown_as = {"subject": SUBJECT_OF[name], "hidden": name not in names}
        command = _flag(name, Settings.model_fields[name], preset or {}, shown_as)(command)
    return click.option("--config", type=Path, metavar="FILE", help="YAML file of settings.")(
        command
    )


def flag_of(name: str, field: FieldInfo | None) -> str:
    """The flag of a setting: its name, or the name that other exporters use."""
    return _extra(field, "flag") or "--" + name.replace("_", "-")


def _flag(
    name: str, field: FieldInfo, preset: SettingsLayer, shown_as: Mapping[str, Any], owner: str = ""
) -> Callable[[CommandT], CommandT]:
    shape = {"cls": SubjectOption, "default": None, **shown_as}
    flag = flag_of(name, field)
    help_ = f"[{owner}] {field.description}" if owner else field.description or ""
    if field.annotation is bool:
        return click.option(f"{flag}/--no-{flag[2:]}", name, help=help_, **shape)
    if not field.is_required():
        default = preset[name].value if name in preset else field.default
        text = (name in preset and preset[name].words) or shown(field, default)
        help_ = help_ if text == "none" else f"{help_} Default: {text}."
    number = "N" if field.annotation in {int, float} else name.upper()
    metavar = str(field.examples[0]) if field.examples else number
    flags = (flag, *other_flags(field))
    return click.option(*flags, name, metavar=metavar, help=help_, **shape)


def other_flags(field: FieldInfo) -> tuple[str, ...]:
    """Other flags that set a field, with the names that other exporters use."""
    return tuple(filter(None, [_extra(field, "also")]))


def _extra(field: FieldInfo | None, key: str) -> str:
    extra = field.json_schema_extra if field else None
    return str(extra.get(key, "")) if isinstance(extra, dict) else ""


def configure(
    flags: Mapping[str, Any],
    preset: SettingsLayer | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Configured:
    """Make settings from the given flags, the environment and the file.

    From strongest to weakest: a flag, `preset` (the values that the command itself sets), the environment, the file.
    A flag that is no setting is the command's own. Raises ConfigError, which names what cannot be used.
    """
    models, names = option_models(), setting_names()
    from_flags = {
        name: SettingValue(value, flag_of(name, Settings.model_fields.get(name)))
        for name, value in flags.items()
        if value is not None and name in names
    }
    chosen = flags.get("config") or environ.get("OFU_CONFIG")
    path = Path(chosen) if chosen else None
    from_file = file_layer(path) if path else {}
    check_known(from_file, names)
    from_environment, ignored = environment_layer(environ, names)
    layer = {**from_file, **from_environment, **(preset or {}), **from_flags}
    settings = build(Settings, layer)
    used = {
        "source": _chosen("source", sources, settings.source, layer),
        "scheduler": _chosen("scheduler", schedulers, settings.scheduler, layer),
    }
    _check_used(layer, [models[kind, each] for kind in used for each in used[kind]], settings)
    built = {
        kind: {each: build(models[kind, each], layer, f"{kind} {each}") for each in used[kind]}
        for kind in used
    }
    return Configured(
        settings,
        sources=built["source"],
        schedulers=built["scheduler"],
        ignored=ignored,
        file=path,
        file_is_empty=not from_file,
    )


def start_logging(configured: Configured) -> None:
    """Log as the settings say; the first lines are about ignored variables."""
    configure_logging(configured.settings.log_format, configured.settings.log_level)
    for text in configured.ignored:
        log.warning("%s", text)


def start_quiet_logging(configured: Configured) -> None:
    """The same for a command that prints its findings; its log is off by default."""
    configure_logging(configured.settings.log_format, configured.settings.log_level)
    for text in configured.ignored:
        say(f"ofu-exporter: {text}", err=True)


QUIET = {"log_level": SettingValue("error", "this command")}
"""No log: a command that prints what it finds would otherwise say everything twice."""


def _chosen(kind: str, package: Any, value: str, layer: SettingsLayer) -> Sequence[str]:
    """The sources or schedulers that a setting names, in its order. Raises ConfigError for an unknown name."""
    names: Sequence[str] = package.names()
    if value == "auto":
        automatic: Sequence[str] = package.automatic()
        return automatic
    if kind == "scheduler" and value == "none":
        return []
    chosen = [name.strip() for name in value.split(",")] if kind == "scheduler" else [value]
    for name in chosen:
        if name not in names:
            choices = ", ".join(["auto", *(["none"] if kind == "scheduler" else []), *names])
            raise ConfigError(f"unknown {kind} {name!r}; known: {choices} ({layer[kind].origin})")
    return list(dict.fromkeys(chosen))


def _check_used(layer: SettingsLayer, used: Iterable[type[BaseModel]], settings: Settings) -> None:
    """Raise ConfigError for an option of a source or scheduler that is not in use."""
    usable = {key for model in used for key in model.model_fields}
    for key, setting in layer.items():
        if key in Settings.model_fields or key in usable:
            continue
        owners = [owner for owner, model in listed_options().items() if key in model.model_fields]
        kind = owners[0][0]
        raise ConfigError(
            f"{setting.origin} is an option of {kind} {', '.join(name for _, name in owners)}, "
            f"but the {kind} is {getattr(settings, kind)}"
        )
