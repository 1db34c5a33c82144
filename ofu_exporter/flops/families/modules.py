"""Models that no other family reads, as a list of their modules.

This package defines the configuration: `{"architectures": ["Modules"], "modules": [{"module": "convolution",
"in_channels": 3, ...}, ...]}`. A module's fields are the arguments of its function in `flops.modules`, which has the
formulas and sources; `repeat` says how often the module occurs. A count per token is one per sample.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops import modules
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.lengths import check_positive
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.terms import Term, merge

ARCHITECTURES = ("Modules",)
MAKERS: tuple[Callable[..., Term], ...] = (
    *(modules.attention, modules.convolution, modules.embedding),
    *(modules.linear, modules.normalisation, modules.recurrent),
)
MODULES = {make.__name__: make for make in MAKERS}


def read(fields: Fields, architecture: str) -> Model:
    listed = fields.items("modules")
    if not listed:
        raise fields.error("modules", "is empty")
    terms = merge(_term(fields, index, module) for index, module in enumerate(listed))
    sample, once = (modules.SAMPLE,), {modules.SAMPLE: 1}
    return Model("modules", architecture, None, terms, counted=sample, lengths=once, streams=())


def _term(fields: Fields, index: int, module: object) -> Term:
    where, kinds = f"modules[{index}]", ", ".join(sorted(MODULES))
    if not isinstance(module, dict) or "module" not in module:
        raise fields.error(where, f"{module!r} is not a module; known: {kinds}")
    arguments = {**module}
    kind, repeat = arguments.pop("module"), arguments.pop("repeat", 1)
    if kind not in MODULES:
        raise fields.error(where, f"{kind!r} is not known; known: {kinds}")
    signature = inspect.signature(MODULES[kind])
    if unknown := sorted(arguments.keys() - signature.parameters.keys()):
        names = ", ".join(signature.parameters)
        raise fields.error(where, f"{', '.join(unknown)} is not known; known: {names}")
    try:
        check_positive("repeat", repeat)
        term = MODULES[kind](**arguments)
    except (ConfigError, TypeError) as error:
        raise fields.error(where, str(error)) from error
    sides = term.linear and replace(
        term.linear, stored=term.linear.stored * repeat, used=term.linear.used * repeat
    )
    return replace(
        term,
        linear=sides,
        flops=term.flops * repeat,
        parameters=term.parameters * repeat,
        active=term.active * repeat,
    )
