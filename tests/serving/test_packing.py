"""Parts that are packed apart make one whole member of gzip, for readers of every kind."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.serving.packing import PagePart, joined, packed

PARTS = st.lists(st.binary(max_size=2000), max_size=5)


@given(PARTS)
def test_unpacked_they_are_the_page(contents: list[bytes]) -> None:
    parts = [PagePart(content) for content in contents]
    assert joined(parts) == b"".join(contents)
    assert gzip.decompress(packed(parts)) == joined(parts)


@given(PARTS)
def test_a_reader_that_stops_after_the_first_member_reads_all(contents: list[bytes]) -> None:
    reader = zlib.decompressobj(16 + zlib.MAX_WBITS)
    assert reader.decompress(packed([PagePart(each) for each in contents])) == b"".join(contents)
    assert reader.eof
    assert reader.unused_data == b""


def test_a_part_is_packed_once_and_goes_with_others_later() -> None:
    stays = PagePart(b"the same text " * 500)
    first, second = packed([stays, PagePart(b"1")]), packed([stays, PagePart(b"2")])
    assert stays.packed in first
    assert stays.packed in second
    assert gzip.decompress(second) == stays.plain + b"2"
    assert len(first) < len(stays.plain) / 20


@pytest.mark.skipif(shutil.which("gzip") is None, reason="needs gzip")
def test_the_program_gzip_finds_nothing_wrong() -> None:
    page = packed([PagePart(b"a" * 70_000), PagePart(b""), PagePart(b"b" * 3)])
    done = subprocess.run(["gzip", "-dc"], input=page, capture_output=True, check=True, timeout=20)
    assert done.stdout == b"a" * 70_000 + b"bbb"
    assert done.stderr == b""
