"""Reads a model's configuration field by field, and refuses fields that it does not know.

Every field is either read, or known not to change the count, or an error, because an ignored field may be the one
that makes the count wrong. An unknown field that cannot change it, by its name and value (a dropout, a token), is
only named in a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ofu_exporter.errors import ConfigError
from ofu_exporter.values.text import first_names

NEEDED: Any = object()
"""Marks a field without which there is no count."""
MOST_LAYERS = 2_000
"""Most layers of a model, and most that a field may multiply: four times those of the deepest that is known, and a
configuration may be anybody's text."""
LARGEST_SIZE = 1 << 53
"""No size of a model comes near it; above it a float doesn't hold every whole number."""
REPEATED = re.compile("layer|block|depth|repeat", re.IGNORECASE)
"""Names of fields that say how often something is repeated."""
MOST_NAMED = 12
"""Most unknown fields that an error names."""
OFF = ("add_cross_attention", "tie_encoder_decoder")
"""Flags of transformers that change nothing as long as they are false."""
NEUTRAL = Path(__file__).parent / "neutral_fields.txt"


def names_in(text: str) -> frozenset[str]:
    """The names in a text, separated by white space."""
    return frozenset(text.split())


HARMLESS = re.compile(
    r"""
    (.*_)?(act|activation|act_fn|activation_fn|activation_function|hidden_act)   # the name of an activation
    | (.*_)?(dropout|pdrop|droppath|drop_path)(_(p|prob|rate|ratio))?
    | (.*_)?token(_ids?|_index)?
    | (initializer|init)_\w+ | (.*_)?(init_std|initializer|init_method|init_scale)
    | (rope|rotary)_\w+ | (.*_)?(rope_theta|rope_scaling|rotary_emb|rotary_pct|rotary_base|rotary_fraction)
    """,
    re.VERBOSE,
)
"""Names of fields that can't change a count: activations, dropout, tokens, initialisers, rotary positions."""
SIZES = names_in(
    "dim dims rank heads head layers width hidden intermediate experts blocks num gated glu"
)
"""Words in the name of a field that may be a size, whatever else the name says (rope_head_dim)."""


def is_harmless(name: str, value: object) -> bool:
    """Whether an unknown field can't change a count, by its name and its value."""
    # An activation called swiglu or geglu has a gate, which is a third matrix.
    gate = isinstance(value, str) and re.search("glu|gate", value.lower())
    sized = SIZES & {*name.split("_")} and name != "rotary_dim"
    return not gate and not sized and HARMLESS.fullmatch(name) is not None


@cache
def neutral(family: str) -> frozenset[str]:
    """The fields of a family's configurations that change no matrix product, so that it need not read them."""
    text = re.sub("#.*", "", NEUTRAL.read_text(encoding="utf-8"))
    sections = re.findall(r"\[(.+)\]([^[]*)", text)
    wanted = {"every family", family}
    return names_in(" ".join(names for of, names in sections if wanted & {*of.split(", ")}))


class Fields:
    """The fields of one configuration. Every error is a ConfigError that names the field."""

    def __init__(
        self, values: Mapping[str, object], neutral: Iterable[str] = (), where: str = ""
    ) -> None:
        self._values = {name: value for name, value in values.items() if value is not None}
        self._neutral = frozenset(neutral)
        self._where = where
        self._read: dict[str, Fields | None] = {}

    def has(self, name: str) -> bool:
        """Whether a field exists and is not null."""
        self._read.setdefault(name, None)
        return name in self._values

    def size(self, *names: str, default: int = NEEDED, least: int = 1) -> int:
        """A whole number of at least 1 (or `least`), under any of its names, which may not contradict each other."""
        sizes = {
            name: self._whole(name, self._values[name], least) for name in names if self.has(name)
        }
        if len(set(sizes.values())) > 1:
            values = ", ".join(f"{self._where}{name}={value}" for name, value in sizes.items())
            raise ConfigError(f"{values} contradict each other")
        if sizes:
            return next(iter(sizes.values()))
        if default is NEEDED:
            existing = ", ".join(sorted(self._values))
            raise self.error(names[0], f"is missing; fields here: {existing}")
        return int(default)

    def integer(self, name: str, default: int) -> int:
        """A whole number that may be negative (-1 for the last layer)."""
        value = self._values[name] if self.has(name) else default
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(name, f"{value!r} is not a whole number")
        return value

    def optional(self, *names: str) -> int | None:
        """A whole number above 0; None if the field is missing or null."""
        return self.size(*names) if any([self.has(name) for name in names]) else None

    def number(self, name: str) -> float:
        return float(self._of((int, float), name, "a number", "not a number"))

    def flag(self, name: str, default: bool = NEEDED) -> bool:
        if not self.has(name) and default is not NEEDED:
            return bool(default)
        return bool(self._of(bool, name, "true or false", "neither true nor false"))

    def refuse(self, value: bool, *names: str) -> None:
        """Raise ConfigError for a flag with a value for which there is no count; absent, it has the other."""
        for name in names:
            if self.flag(name, default=not value) is value:
                words = ("false", "true")
                raise self.error(name, f"{words[value]} is not known; known: {words[not value]}")

    def word(self, name: str, allowed: Iterable[str], default: str = NEEDED) -> str:
        if not self.has(name) and default is NEEDED:
            raise self.error(name, f"is missing; known: {', '.join(sorted(allowed))}")
        return self._known(name, self._values.get(name, default), allowed)

    def words(self, name: str, allowed: Iterable[str], count: int | None = None) -> tuple[str, ...]:
        """A list of known words, of a given count."""
        words = tuple(self._known(name, value, allowed) for value in self.items(name))
        if count is not None and len(words) != count:
            raise self.error(name, f"has {len(words)} entries for {count} layers")
        return words

    def sizes(self, name: str, least: int = 1, sides: int | None = None) -> tuple[int, ...]:
        """A list of sizes; with `sides` it must have as many, as those of a patch."""
        sizes = tuple(self._whole(name, value, least) for value in self.items(name))
        if sides not in (None, len(sizes)):
            raise self.error(name, f"has {len(sizes)} sizes instead of {sides}")
        return sizes

    def places(self, name: str, number: int, counted: str) -> frozenset[int]:
        """Some of a number of layers, counted from 0; the field `counted` says how many there are."""
        places = frozenset(self.sizes(name, least=0))
        if any(place >= number for place in places):
            raise self.contradiction("a layer that is not there", name, counted)
        return places

    def is_list(self, name: str) -> bool:
        """Whether a field is a list and not one value for all layers."""
        return isinstance(self._values.get(name), list | tuple)

    def items(self, name: str) -> list[object]:
        listed = list(self._of((list, tuple), name, "a list", "not a list"))
        if len(listed) > MOST_LAYERS:
            raise self.error(name, f"is longer than {MOST_LAYERS}")
        return listed

    def mapping(self, name: str) -> Mapping[str, Any]:
        """A mapping that is not a configuration of its own, such as labels."""
        return dict(self._of(Mapping, name, "a mapping", "not a mapping"))

    def text(self, name: str) -> str:
        text = str(self._of(str, name, "text", "not text"))
        if not text:
            raise self.error(name, f"{text!r} is not text")
        return text

    def inner(self, name: str) -> Fields:
        """The fields of a configuration inside this one; `finish` checks for unread fields there, too."""
        values = self._of(Mapping, name, "a configuration of its own", "not a configuration")
        inside = self._read.get(name) or Fields(values, self._neutral, f"{self._where}{name}.")
        self._read[name] = inside
        return inside

    def restates(self, inner: Fields) -> None:
        """Take fields for read that say here what they say in an inner configuration, which is read."""
        for name in self._values.keys() & inner._values.keys():
            if self._values[name] == inner._values[name]:
                self._read.setdefault(name, None)

    def finish(self) -> list[str]:
        """The names of unknown fields that can't change the count, here and in inner configurations.

        Raises ConfigError, which names every field that was neither read nor is known to change nothing.
        """
        harmless, unknown = self._unread()
        if unknown:
            raise _unknown(unknown)
        return harmless

    def _unread(self) -> tuple[list[str], list[_UnknownField]]:
        """Fields that were not read, here and inside: those that can't change the count, and the others."""
        harmless, unknown = list[str](), list[_UnknownField]()
        for name, value in self._values.items():
            is_known = name in self._read or name in self._neutral or name.startswith("_")
            # An empty list or mapping (pruned_heads) has no entry that could change the count.
            if is_known or value in ([], {}) or (value is False and name in OFF):
                continue
            if is_harmless(name, value):
                harmless.append(f"{self._where}{name}")
            else:
                unknown.append(_UnknownField(name, f"{self._where}{name}", self._nearest(name)))
        for inner in self._read.values():
            if inner is not None:
                harmless_inside, unknown_inside = inner._unread()
                harmless, unknown = harmless + harmless_inside, unknown + unknown_inside
        return harmless, unknown

    def _nearest(self, name: str) -> str:
        import difflib  # noqa: PLC0415 - only for a field that is not known

        return next(iter(difflib.get_close_matches(name[:100], self._read, 1)), "")

    def error(self, name: str, message: str) -> ConfigError:
        return ConfigError(f"{self._where}{name} {message}")

    def contradiction(self, message: str, *names: str) -> ConfigError:
        """The error for fields that cannot be true together."""
        values = ", ".join(f"{self._where}{name}={self._values.get(name)!r}" for name in names)
        return ConfigError(f"{values}: {message}")

    def _of(self, kind: Any, name: str, wanted: str, wrong: str) -> Any:
        if not self.has(name):
            raise self.error(name, f"is missing; it must be {wanted}")
        if not isinstance(self._values[name], kind):
            raise self.error(name, f"{self._values[name]!r} is {wrong}")
        return self._values[name]

    def _known(self, name: str, value: object, allowed: Iterable[str]) -> str:
        words = sorted(allowed)
        if value not in words:
            raise self.error(name, f"{value!r} is not known; known: {', '.join(words)}")
        return str(value)

    def _whole(self, name: str, value: object, least: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.error(name, f"{value!r} is not a whole number of at least {least}")
        if value > LARGEST_SIZE:
            raise self.error(name, f"is above {LARGEST_SIZE}, and so no size of a model")
        if value > MOST_LAYERS and REPEATED.search(name):
            raise self.error(name, f"{value} is above {MOST_LAYERS}")
        return value


class _UnknownField(NamedTuple):
    name: str
    path: str
    """The name with those of the objects that it is in."""
    near: str
    """The nearest name that is known; empty where none is."""


def _unknown(fields: Sequence[_UnknownField]) -> ConfigError:
    """The error for unknown fields: all of them at once, with the known ones that they may be meant for."""
    meant = [f"{field.near} for {field.name}" for field in fields if field.near][:MOST_NAMED]
    hint = f"; did you mean {' and '.join(meant)}?" if meant else "."
    if len(fields) == 1:
        hint = f"; did you mean {fields[0].near}?" if meant else "."
    names = first_names([field.path for field in fields], MOST_NAMED)
    verb = "is an unknown field" if len(fields) == 1 else "are unknown fields"
    it, changes = ("it", "changes") if len(fields) == 1 else ("they", "change")
    flags = " ".join(f"--ignore-field {field.name}" for field in fields[:MOST_NAMED])
    return ConfigError(
        f"{names} {verb}, which may change the count{hint} If {it} {changes} no matrix product, ignore "
        f"{'it' if len(fields) == 1 else 'them'} by name ({flags}); --executed counts what torch executes."
    )
