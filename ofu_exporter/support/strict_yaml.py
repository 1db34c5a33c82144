"""Loads YAML of plain values, and refuses a duplicate key, of which YAML itself would take the last."""

from __future__ import annotations

from typing import Any

import yaml


class _OnceLoader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                problem = "a key is there twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def load(text: str) -> Any:
    """The document. Raises ValueError, whose text names the line but quotes nothing, because the content may be
    secret."""
    try:
        return yaml.load(text, Loader=_OnceLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        raise ValueError(f"not YAML{place}: {_problem(error)}") from None
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise ValueError(f"a value that YAML cannot make ({type(error).__name__})") from None


def _problem(error: yaml.YAMLError) -> str:
    """What is wrong, up to the first quotation."""
    problem = getattr(error, "problem", None) or "it has a character that YAML does not allow"
    return str(problem).partition("'")[0].strip()
