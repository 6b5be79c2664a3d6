"""Pod specs are kept compressed, and are the same when they are read."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from hotmap.core.model.spec_compression import compress_spec, decompress_spec


@given(st.binary(max_size=4096))
def test_spec_that_was_compressed_comes_back(spec: bytes) -> None:
    """Whatever it is; equal ones are equal when compressed, so that they can be compared."""
    compressed = compress_spec(spec)
    assert decompress_spec(compressed) == spec
    assert compress_spec(bytes(bytearray(spec))) == compressed


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8)))
def test_spec_that_was_not_compressed_stays_as_it_is(spec: dict[str, str]) -> None:
    """No MessagePack looks like something compressed."""
    encoded = msgspec.msgpack.encode(spec)
    assert decompress_spec(encoded) == encoded
