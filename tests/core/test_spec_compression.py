"""Pod specs are kept compressed, and are the same when they are read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hotmap.core.model.spec_compression import compress_spec, decompress_spec


@given(st.binary(max_size=4096))
def test_what_was_compressed_comes_back(spec: bytes) -> None:
    """Whatever it is; equal ones are equal when compressed, so that they can be compared."""
    compressed = compress_spec(spec)
    assert decompress_spec(compressed) == spec
    assert compress_spec(bytes(bytearray(spec))) == compressed
