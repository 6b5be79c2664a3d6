"""Which paths may be projected into a volume, and in which words the others are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotmap.core.errors import InvalidPayload
from hotmap.core.payload import PayloadFile, check_path, clean_payload

FILE = PayloadFile(b"1", 0o644)
OTHER = PayloadFile(b"2", 0o600)


@pytest.mark.parametrize(
    "path",
    [
        "a",
        "a/b/c",
        ".hidden",
        "a..b",
        "a/..b",
        "a/...",
        "a./b",
        "./a",
        "a//b",
        "a/",
        "with space",
        "ü" * 127,
        "/".join(["x" * 255] * 16),
    ],
)
def test_path_is_accepted(path: str) -> None:
    """Relative paths of any depth and spelling may be projected."""
    check_path(path)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", 'invalid path: must not be empty: ""'),
        ("/etc/passwd", "invalid path: must be relative path: /etc/passwd"),
        ("..", "invalid path: must not contain '..': .."),
        ("../x", "invalid path: must not contain '..': ../x"),
        ("a/../b", "invalid path: must not contain '..': a/../b"),
        ("a/..", "invalid path: must not contain '..': a/.."),
        ("..data", "invalid path: must not start with '..': ..data"),
        ("..a/b", "invalid path: must not start with '..': ..a/b"),
        ("...", "invalid path: must not start with '..': ..."),
        ("./..data", "invalid path: must not start with '..': ./..data"),
        (".", "invalid path: must name a file: ."),
        ("./", "invalid path: must name a file: ./"),
        ("a\0b", "invalid path: must not contain a NUL character: 'a\\x00b'"),
        ("x" * 256, "invalid path: filenames must be less than or equal to 255 characters"),
        ("a/" + "ü" * 128, "invalid path: filenames must be less than or equal to 255 characters"),
        ("a/" * 2048 + "b", "invalid path: must be less than or equal to 4096 characters"),
    ],
)
def test_path_is_refused(path: str, message: str) -> None:
    """Every other path is refused in Kubernetes' words, and before a file is touched."""
    with pytest.raises(InvalidPayload) as raised:
        check_path(path)
    assert str(raised.value) == message
    with pytest.raises(InvalidPayload):
        clean_payload({"good": FILE, path: FILE})


@pytest.mark.parametrize(
    ("path", "cleaned"),
    [("a", "a"), ("./a", "a"), ("a/", "a"), ("a//b", "a/b"), ("a/./b", "a/b"), (".a", ".a")],
)
def test_path_is_cleaned(path: str, cleaned: str) -> None:
    """A payload keeps the shortest spelling of each path."""
    assert clean_payload({path: FILE}) == {cleaned: FILE}


def test_later_spelling_wins() -> None:
    """Two spellings of one path are one file: the later one."""
    assert clean_payload({"a": FILE, "./a": OTHER}) == {"a": OTHER}
    assert clean_payload({"./a": OTHER, "a": FILE}) == {"a": FILE}


@pytest.mark.parametrize("paths", [("a", "a/b"), ("a/b/c", "a/b"), ("x", "a/b", "a", "./x")])
def test_file_cannot_be_a_directory(paths: tuple[str, ...]) -> None:
    """A path cannot lead through another path of the payload."""
    with pytest.raises(InvalidPayload, match="cannot be a file and the directory of a/b"):
        clean_payload(dict.fromkeys(paths, FILE))


@given(st.dictionaries(st.text("a./\0", max_size=6), st.just(FILE)))
def test_cleaning_ends_in_plain_relative_names_or_a_refusal(
    payload: dict[str, PayloadFile],
) -> None:
    """Whatever the paths are, what comes out stays inside the volume and is clean already."""
    try:
        cleaned = clean_payload(payload)
    except InvalidPayload:
        return
    for path in cleaned:
        elements = path.split("/")
        assert all(element not in ("", ".", "..") for element in elements)
        assert not path.startswith("..")
    assert clean_payload(cleaned) == cleaned
