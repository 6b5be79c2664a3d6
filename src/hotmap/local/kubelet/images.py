"""Which program an image runs on this node; nothing is pulled.

An entry is a program of this machine, or a directory that is the container's root file system. The
built-in ones are what examples and tests are made of; `hotmap local up --image` and `--images` add
more. An image without an entry runs only with a `command` of its own.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import hotmap
from hotmap.core.errors import HotmapError, SettingsError, os_reason
from hotmap.core.text import quote_short

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Image", "ImageMissing", "Images", "parse_image", "read_images"]

#: Directories of this Python and of this package.
_OWN_PLACES = (Path(sys.prefix), Path(sys.base_prefix), Path(hotmap.__file__).parents[1])
_AGNHOST = Path(hotmap.__file__).parent / "local" / "programs" / "agnhost.py"

#: MiB of a file that names images; a pipe or a device may never end.
_LARGEST_FILE = 16


class ImageMissing(HotmapError):
    """Raised for an image without an entry, where the container has no command either."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f'Container image "{name}" is not present with pull policy of Never: this node has no '
            'images, only the programs of its host; give the container a "command", or start with '
            f"hotmap local up --image {name}=host:PROGRAM"
        )


class Image(NamedTuple):
    """What an image runs (OCI: image configuration, Entrypoint and Cmd).

    A container's `command` replaces both, its `args` only `arguments`.
    """

    entrypoint: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    #: The directory that is its root; "" for this machine's own file system.
    root: str = ""
    #: Directories that no volume of the pod may hide.
    places: tuple[Path, ...] = ()
    #: Whether it is hotmap itself, which has its command on the path.
    is_hotmap: bool = False

    def command_of(self, container: Mapping[str, Any]) -> dict[str, Any]:
        """Return a container's `command` and `args`, with the image's where it has none."""
        if container.get("command"):
            return {"command": container["command"], "args": container.get("args") or ()}
        return {"command": self.entrypoint, "args": container.get("args") or self.arguments}


# -P: a volume may be mounted at /hotmap, and must not shadow the package.
HOTMAP = Image((sys.executable, "-P", "-m", "hotmap"), places=_OWN_PLACES, is_hotmap=True)

BUILT_IN: Mapping[str, Image] = {
    "agnhost": Image((sys.executable, "-I", "-S", str(_AGNHOST)), ("pause",), places=_OWN_PLACES),
    "alpine": Image(arguments=("sh",)),
    "bash": Image(arguments=("bash",)),
    "busybox": Image(arguments=("sh",)),
    "debian": Image(arguments=("bash",)),
    "hotmap": HOTMAP,
    "httpd": Image(arguments=("httpd-foreground",)),
    "nginx": Image(arguments=("nginx", "-g", "daemon off;")),
    "pause": Image(("sleep", "infinity")),
    "python": Image(arguments=("python3",)),
    "redis": Image(arguments=("redis-server",)),
    "ubuntu": Image(arguments=("bash",)),
}


class Images:
    """The images of a node, by name."""

    def __init__(self, entries: Mapping[str, Image] | None = None) -> None:
        self._entries = {**BUILT_IN, **(entries or {})}

    def find(self, reference: str) -> Image | None:
        """Find the image of a reference such as `docker.io/library/nginx:1.27`.

        The whole reference counts first, then its name without tag and digest, then the last part
        of that. A name like hotmap-nginx counts as hotmap with another program, which the machine
        has, too.
        """
        name = reference.partition("@")[0]
        path, slash, last = name.rpartition("/")
        last = last.partition(":")[0]
        for known in (reference, f"{path}{slash}{last}", last):
            if known in self._entries:
                return self._entries[known]
        return self._entries["hotmap"] if last.startswith("hotmap-") else None


def parse_image(text: str) -> tuple[str, Image]:
    """Read `NAME=host[:CMD]` or `NAME=DIR[:CMD]`: a name and what it stands for.

    Raises:
        SettingsError: it is neither, or there is no such directory.
    """
    name, _, target = text.partition("=")
    place, colon, command = target.partition(":")
    if not name or not place or (colon and not command.strip()):
        raise SettingsError(
            f"invalid image {quote_short(text)}: expected NAME=host[:CMD] or NAME=DIR[:CMD]"
        )
    try:
        words = tuple(shlex.split(command))
    except ValueError:
        raise SettingsError(
            f"invalid image {quote_short(text)}: CMD has a quote that is not closed, or ends with "
            "a backslash"
        ) from None
    if place == "host":
        return name, Image(words)
    root = Path(place)
    if not root.is_dir():
        raise SettingsError(f"invalid image {quote_short(text)}: there is no directory {place}")
    return name, Image(words, () if words else ("sh",), root=str(root.resolve()))


def read_images(path: Path) -> list[str]:
    """Read a file with one image per line; empty lines and those that begin with # do not count.

    Raises:
        SettingsError: it cannot be read, is too large, or a line is no image.
    """
    try:
        with path.open() as file:
            text = file.read((_LARGEST_FILE << 20) + 1)
    except OSError as error:
        raise SettingsError(f"cannot read images file {path}: {os_reason(error)}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"cannot read images file {path}: not valid UTF-8") from None
    if len(text) > _LARGEST_FILE << 20:
        raise SettingsError(f"cannot read images file {path}: it has more than {_LARGEST_FILE} MiB")
    images = []
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        if not line or line.startswith("#"):
            continue
        try:
            parse_image(line)
        except SettingsError as error:
            raise SettingsError(f"images file {path}, line {number}: {error}") from None
        images.append(line)
    return images
