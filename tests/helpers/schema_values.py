"""Values that a JSON schema describes, and such as it does not, for property-based tests of what is served."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

Schema = Mapping[str, Any]
MOST_ITEMS = 4
LARGEST = 1e15

ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(10**30), 10**30), st.floats(), st.text(max_size=12)
    ),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
"""Any JSON, with NaN and infinities, which Python's parser takes for JSON as well."""


def valid(schema: Schema, root: Schema) -> st.SearchStrategy[Any]:
    """What a schema allows. `root` is the document that its references are into."""
    if "$ref" in schema:
        found: Any = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        return valid(found, root)
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "const" in schema:
        return st.just(schema["const"])
    if "anyOf" in schema:
        return st.one_of(*(valid(each, root) for each in schema["anyOf"]))
    return _typed(schema, root)


def _typed(schema: Schema, root: Schema) -> st.SearchStrategy[Any]:
    kind = schema.get("type")
    if kind == "object":
        return _object(schema, root)
    if kind == "array":
        return _array(schema, root)
    if kind == "string":
        letters = st.characters(exclude_categories=("C", "Z"))
        most = min(schema.get("maxLength", 20), 20)
        return st.text(letters, min_size=schema.get("minLength", 0), max_size=most)
    if kind == "integer":
        least, most = _bounds(schema, 1)
        return st.integers(int(least), int(most))
    if kind == "number":
        least, most = _bounds(schema, 0)
        return st.floats(
            least,
            most,
            exclude_min="exclusiveMinimum" in schema,
            exclude_max="exclusiveMaximum" in schema,
        ) | st.integers(int(least) + 1, max(int(most) - 1, int(least) + 1))
    return {"boolean": st.booleans(), "null": st.none()}.get(str(kind), ANYTHING)


def _array(schema: Schema, root: Schema) -> st.SearchStrategy[Any]:
    if "prefixItems" in schema:
        return st.tuples(*(valid(each, root) for each in schema["prefixItems"])).map(list)
    most = min(schema.get("maxItems", MOST_ITEMS), MOST_ITEMS)
    return st.lists(valid(schema["items"], root), max_size=most)


def _bounds(schema: Schema, beyond: int) -> tuple[float, float]:
    """`beyond`: how far from an exclusive bound a value must be."""
    least = schema.get("minimum", schema.get("exclusiveMinimum", -LARGEST - beyond) + beyond)
    most = schema.get("maximum", schema.get("exclusiveMaximum", LARGEST + beyond) - beyond)
    return least, most


def _object(schema: Schema, root: Schema) -> st.SearchStrategy[Any]:
    fields, needed = schema.get("properties", {}), schema.get("required", [])
    if not fields:
        extra = schema.get("additionalProperties", True)
        values = valid(extra, root) if isinstance(extra, dict) else ANYTHING
        names = valid({"type": "string", **schema.get("propertyNames", {})}, root)
        return st.dictionaries(names, values, max_size=MOST_ITEMS)
    strategies = {name: valid(field, root) for name, field in fields.items()}
    return st.fixed_dictionaries(
        {name: strategies[name] for name in needed},
        optional={name: value for name, value in strategies.items() if name not in needed},
    )


def spoilt(schema: Schema, root: Schema) -> st.SearchStrategy[Any]:
    """An object of a schema of which one field is something else, one is missing, or there is one more."""

    @st.composite
    def one(draw: st.DrawFn) -> Any:
        made = dict(draw(valid(schema, root)))
        names = [*schema["properties"], draw(st.text(max_size=8))]
        made[draw(st.sampled_from(names))] = draw(ANYTHING)
        if draw(st.booleans()):
            made.pop(draw(st.sampled_from(names)), None)
        return made

    return one()
