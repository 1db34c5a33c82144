"""Finds the modules of a package by their names. Every module in the package is registered."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any, Generic, TypeVar, cast

from ofu_exporter.errors import ConfigError

ModuleT = TypeVar("ModuleT")


class Registry(Generic[ModuleT]):
    """The modules of one package. `ModuleT` is a protocol: what each of them offers."""

    def __init__(
        self, package: str, kind: str, *, inner: str = "", reserved: Sequence[str] = ()
    ) -> None:
        """`kind` is what errors call one of the modules.

        `inner` is for packages with one folder per module: the file in the folder that is loaded. The public name is
        then the folder's, with dashes. `reserved` are words that a user may give instead of a name.
        """
        self._package = package
        self._kind = kind
        self._inner = inner
        self._reserved = reserved
        self._names: tuple[str, ...] = ()

    def names(self) -> tuple[str, ...]:
        if not self._names:
            import pkgutil  # noqa: PLC0415 - milliseconds to import, and only here

            listed = pkgutil.iter_modules(sys.modules[self._package].__path__)
            names = (module.name for module in listed)
            self._names = tuple(
                sorted(name.replace("_", "-") if self._inner else name for name in names)
            )
        return self._names

    def load(self, name: str) -> ModuleT:
        """One module. Raises ConfigError, which lists the known names."""
        if name not in self.names():
            choices = ", ".join([*self._reserved, *self.names()])
            raise ConfigError(f"unknown {self._kind} {name!r}; known: {choices}")
        inside = f".{name.replace('-', '_')}.{self._inner}" if self._inner else f".{name}"
        return cast(ModuleT, importlib.import_module(self._package + inside))

    def summary(self, name: str) -> str:
        """The first line of a module's docstring."""
        return (self.load(name).__doc__ or "").strip().split("\n", maxsplit=1)[0]

    def automatic(self) -> list[str]:
        """The modules that `auto` tries, by AUTO_RANK, lowest first. A module with the rank None is used only on
        request."""
        ranks = {name: cast(Any, self.load(name)).AUTO_RANK for name in self.names()}
        automatic = [name for name, rank in ranks.items() if rank is not None]
        return sorted(automatic, key=ranks.__getitem__)
