"""What a field may be, at the limits of it, and what an error of it says."""

from __future__ import annotations

from collections.abc import Callable

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.fields import LARGEST_SIZE, Fields, is_harmless
from tests.helpers.every import every

FIELDS = {
    "one": 1,
    "zero": 0,
    "minus": -1,
    "uno": 2,
    "true": True,
    "half": 0.5,
    "words": ["a", "b"],
    "none": None,
    "most": LARGEST_SIZE,
    "more": LARGEST_SIZE + 1,
    "layers": 2000,
    "blocks": 2001,
    "long": [1] * 2001,
    "longest": [1] * 2000,
    "empty": "",
    "places": [0, 3],
}


def said(read: Callable[[Fields], object]) -> object:
    try:
        return read(Fields(FIELDS, where="inner."))
    except ConfigError as error:
        return str(error).partition(";")[0]


@every(
    [
        (lambda of: of.size("one"), 1),
        (lambda of: of.size("zero"), "inner.zero 0 is not a whole number of at least 1"),
        (lambda of: of.size("zero", least=0), 0),
        (lambda of: of.size("absent", "one"), 1),
        (lambda of: of.size("one", "uno"), "inner.one=1, inner.uno=2 contradict each other"),
        (lambda of: of.size("none", default=7), 7),
        (lambda of: of.size("absent", "none"), "inner.absent is missing"),
        (lambda of: of.size("true"), "inner.true True is not a whole number of at least 1"),
        (lambda of: of.size("half"), "inner.half 0.5 is not a whole number of at least 1"),
        (lambda of: of.size("most"), LARGEST_SIZE),
        (lambda of: of.size("more"), f"inner.more is above {1 << 53}, and so no size of a model"),
        (lambda of: of.size("layers"), 2000),
        (lambda of: of.size("blocks"), "inner.blocks 2001 is above 2000"),
        (lambda of: of.integer("minus", 3), -1),
        (lambda of: of.integer("absent", -3), -3),
        (lambda of: of.integer("true", 0), "inner.true True is not a whole number"),
        (lambda of: of.optional("none", "one"), 1),
        (lambda of: of.optional("none"), None),
        (lambda of: of.number("half"), 0.5),
        (lambda of: of.number("words"), "inner.words ['a', 'b'] is not a number"),
        (lambda of: of.number("absent"), "inner.absent is missing"),
        (lambda of: of.flag("true"), True),
        (lambda of: of.flag("absent", default=True), True),
        (lambda of: of.flag("one"), "inner.one 1 is neither true nor false"),
        (lambda of: of.refuse(True, "true"), "inner.true true is not known"),
        (lambda of: of.refuse(True, "absent"), None),
        (lambda of: of.refuse(False, "absent", "true"), None),
        (lambda of: of.word("absent", ["b", "a"]), "inner.absent is missing"),
        (lambda of: of.word("absent", ["b", "a"], default="b"), "b"),
        (lambda of: of.words("words", ["a", "b"], 2), ("a", "b")),
        (lambda of: of.words("words", ["a", "b"]), ("a", "b")),
        (lambda of: of.words("words", ["a", "b"], 3), "inner.words has 2 entries for 3 layers"),
        (lambda of: of.words("words", ["a"]), "inner.words 'b' is not known"),
        (lambda of: of.places("places", 4, "one"), frozenset({0, 3})),
        (
            lambda of: of.places("places", 3, "one"),
            "inner.places=[0, 3], inner.one=1: a layer that is not there",
        ),
        (lambda of: (of.is_list("words"), of.is_list("one")), (True, False)),
        (lambda of: len(of.items("longest")), 2000),
        (lambda of: of.items("long"), "inner.long is longer than 2000"),
        (lambda of: of.text("empty"), "inner.empty '' is not text"),
    ]
)
def test_a_field_is_what_it_says_or_an_error_names_it(
    read: Callable[[Fields], object], wanted: object
) -> None:
    assert said(read) == wanted


@every(
    [
        ("vision_act", "silu", True),
        ("vision_act", "swiglu", False),
        ("attn_pdrop", 0.1, True),
        ("pad_token_id", 0, True),
        ("rope_theta", 1e4, True),
        ("rope_head_dim", 64, False),
        ("rotary_dim", 64, True),
        ("window", 64, False),
    ]
)
def test_an_unknown_field_is_harmless_by_its_name_and_value(
    name: str, value: object, harmless: bool
) -> None:
    assert is_harmless(name, value) is harmless
