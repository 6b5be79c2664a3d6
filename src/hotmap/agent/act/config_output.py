"""A configuration file as its program reads it: decompressed, with variables in place.

    $(NAME)   becomes the environment variable NAME; an unknown name stays, and is counted

The rules are those of prometheus-config-reloader: a name has letters, digits and `_`, nothing is
escaped, and what was put in is not expanded again.
"""

from __future__ import annotations

from hotmap.agent.act.replace_file import replace_file

__all__ = ["ConfigOutput", "render"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotmap.agent.settings.settings import RenderSettings

_GZIP = b"\x1f\x8b\x08"

#: Bytes of a decompressed file: a small file may decompress to any number of them.
_MAX_SIZE = 64 << 20


class ConfigOutput:
    """Writes the output of one file."""

    def __init__(self, settings: RenderSettings, environment: Mapping[bytes, bytes]) -> None:
        self._settings = settings
        self._environment = environment
        #: References to variables that are not set, in the last file.
        self.unknown = 0

    @property
    def target(self) -> str:
        """The path of the output."""
        return self._settings.target

    def write(self, contents: Mapping[str, Mapping[str, bytes]]) -> None:
        """Write it from the content of all directories; the output is replaced as a whole.

        Raises:
            OSError: it cannot be written.
            ValueError: the file is missing or cannot be decompressed; one sentence.
        """
        data, self.unknown = render(self._find(contents), self._environment)
        target = self._settings.target
        replace_file(target, data, draft=f"{target}.tmp", mode=0o644)

    def _find(self, contents: Mapping[str, Mapping[str, bytes]]) -> bytes:
        source = self._settings.source
        for directory, files in contents.items():
            for path, data in files.items():
                if source in (f"{directory}/{path}", directory):
                    return data
        raise ValueError(f"{source} does not exist")


def render(data: bytes, environment: Mapping[bytes, bytes]) -> tuple[bytes, int]:
    """Decompress if needed and expand; returns the number of unknown variables as well.

    Raises:
        ValueError: it cannot be decompressed; one sentence.
    """
    import re

    unknown = 0

    def expand(found: re.Match[bytes]) -> bytes:
        nonlocal unknown
        value = environment.get(found[1])
        if value is None:
            unknown += 1
        return found[0] if value is None else value

    if data.startswith(_GZIP):
        data = _decompress(data)
    return re.sub(rb"\$\(([a-zA-Z_0-9]+)\)", expand, data), unknown


def _decompress(data: bytes) -> bytes:
    import zlib

    result, rest = b"", data
    try:
        while rest:
            decoder = zlib.decompressobj(wbits=31)
            result += decoder.decompress(rest, _MAX_SIZE + 1 - len(result))
            if len(result) > _MAX_SIZE:
                raise ValueError(f"the file has more than {_MAX_SIZE} bytes when decompressed")
            if not decoder.eof:
                raise ValueError("the compressed file is cut off")
            rest = decoder.unused_data
    except zlib.error:
        raise ValueError("the file is not valid gzip") from None
    return result
