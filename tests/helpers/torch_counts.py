"""Writes tests/flops/executed.jsonl: what torch executes of the small models, so that tests without torch hold to it.

`python -m tests.helpers.torch_counts` builds every model of tests/flops/small_models.py on the meta device, runs it
forward under torch's own counter, and does the same with one field of its configuration changed at a time; a change
that changes neither parameters nor products is left out. `--missing` adds the models that the file has not. `--only
NAME ...` prints what of some is counted otherwise here, and writes nothing. Needs the group `test-torch`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.fields import names_in
from tests.flops.executions import RECORDED, Execution, difference, recorded
from tests.flops.small_models import SMALL, Small

UNCHANGED = names_in(
    """
    chunk_size_feed_forward image_size is_decoder is_encoder_decoder max_position_embeddings output_attentions
    output_hidden_states output_router_logits patch_size return_dict use_cache vocab_size
    """
)
"""Fields whose change says nothing about the count: what is returned, and sizes that would break the inputs."""
TRIED = 2
"""How many values of a size are tried, beside the one that is there."""


def config_of(small: Small) -> dict[str, Any]:
    """The whole configuration of a small model, as transformers writes it."""
    transformers = importlib.import_module("transformers")
    transformers.logging.set_verbosity_error()
    kind = getattr(transformers, small.architecture)
    read = kind.config_class(**small.fields)
    written: dict[str, Any] = json.loads(read.to_json_string(use_diff=False))
    return {**written, "architectures": [small.architecture]}


def execution(small: Small, config: Mapping[str, Any], changed: Mapping[str, Any]) -> Execution:
    """What torch executes of a configuration with changes. Raises ConfigError where it can't."""
    from ofu_exporter.flops.trace import from_config

    whole = Execution(small.name, config, small.streams, changed, small.scans).config_changed()
    found = from_config.executed_of(whole, small.given or small.streams, backward=False)
    return Execution(
        small.name,
        config if not changed else {},
        small.streams,
        changed,
        small.scans,
        found.parameters - small.unused,
        dict(found.forward),
    )


def changes(
    config: Mapping[str, Any], fixed: Sequence[str] = (), inside: str = ""
) -> Iterator[dict[str, Any]]:
    """One field changed at a time: a flag turned, a size made larger or smaller."""
    for name, value in config.items():
        if name in UNCHANGED or name in fixed or name.startswith("_"):
            continue
        path = f"{inside}{name}"
        if isinstance(value, bool):
            yield {path: not value}
        elif isinstance(value, int) and not name.endswith(("token_id", "token_index")):
            yield from ({path: each} for each in (2 * value, value + 1, value // 2)[:TRIED])
        elif isinstance(value, dict) and name.endswith("_config"):
            yield from changes(value, fixed, f"{path}.")


def executions(small: Small, every: bool = False) -> Iterator[Execution]:
    """What torch executes of a small model, and of its changes that change something (or of `every` change)."""
    config = config_of(small)
    base = execution(small, config, {})
    yield base
    for changed in changes(config, small.fixed):
        try:
            found = execution(small, config, changed)
        except ConfigError:
            continue
        different = (found.parameters, found.forward) != (base.parameters, base.forward)
        if different or every:
            yield found


def main() -> None:
    """Write the file, or print differences of some models."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", help="Names of small models.")
    parser.add_argument("--missing", action="store_true", help="Add what the file has not.")
    asked = parser.parse_args()
    wanted, known = asked.only, {each.name for each in recorded()} if asked.missing else set()
    if not wanted and not asked.missing:
        RECORDED.write_text("")
    for small in SMALL:
        if (wanted and not {small.architecture, small.name} & {*wanted}) or small.name in known:
            continue
        lines = list(_lines(small, every=bool(wanted)))
        sys.stderr.write(f"{small.name}: {len(lines)}\n")
        if not wanted:
            with RECORDED.open("a") as file:
                file.writelines(f"{line}\n" for line in lines)


def _lines(small: Small, every: bool) -> Iterator[str]:
    """The lines of a model; what is counted otherwise here goes to stderr."""
    base: Execution | None = None
    for found in executions(small, every):
        base = base or found
        if text := difference(found, base.config):
            sys.stderr.write(f"{small.name} {found.changed}: {text}\n")
        yield found.line()


if __name__ == "__main__":
    main()
