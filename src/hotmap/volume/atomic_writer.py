"""Writes a payload into a volume directory atomically, as the kubelet does.

The layout on disk (kubernetes v1.36: pkg/volume/util/atomic_writer.go), on which readers can rely:

    <directory>/a        -> ..data/a                    user-visible link, made once
    <directory>/nested   -> ..data/nested               one link per first path element
    <directory>/..data   -> ..2026_11_21_00_07_04.140   one rename moves every file
    <directory>/..2026_11_21_00_07_04.140/…             the files of this revision

`hotmap.core.payload` makes payloads; `hotmap.volume.watcher` reads them and detects changes.
Standard library only, and only its small modules.
"""

# pathlib would cost the agent the import of re, fnmatch and urllib.

from __future__ import annotations

import errno
import os
import time

from hotmap.core.payload import clean_payload, parents
from hotmap.volume.data_link import DATA_LINK

__all__ = ["AtomicWriter", "remove_contents"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from hotmap.core.payload import Payload

#: The name of the next `..data` until the rename.
_NEXT_LINK = "..data_tmp"

#: Names of revision directories: this UTC time and a random decimal number, as Go appends it.
_TIMESTAMP = "..%Y_%m_%d_%H_%M_%S."


class AtomicWriter:
    """Keeps one directory equal to the last payload written to it.

    The directory must exist. There must be only one writer at a time, as upstream; any number of
    readers is allowed.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def write(
        self, payload: Payload, *, set_permissions: Callable[[str], None] | None = None
    ) -> bool:
        """Publish the payload; return whether a new revision was needed.

        The twelve steps of the kubelet, of which only 9 changes what a reader of existing files
        sees:

         1. check and clean the payload's paths
         2. read the `..data` link: which revision is published
         3. walk that revision for paths that the payload no longer has
         4. compare the bytes of the other files; if nothing differs, go on at step 10
         5. make a directory for the new revision
         6. write the files and set their modes, whatever the umask
         7. `set_permissions(path of that directory)`, for ownership such as fsGroup
         8. link `..data_tmp` to that directory
         9. rename `..data_tmp` to `..data`: published
        10. make the user-visible links that are missing
        11. remove the user-visible paths that step 3 found
        12. remove the directory of the revision before

        Only bytes are compared: a mode or an owner that changed alone is not written. A file
        that was added beside the projected ones stays, unless it has the name of a path
        that is dropped; a file in the place of a user-visible link stays, too.

        Steps 3 and 12 touch nothing but a directory of the form above that lies in the volume,
        wherever `..data` points. A call that is killed between two steps leaves the old or the new
        revision complete, and the next call cleans up the remains: a `..data_tmp` (upstream fails
        with EEXIST there, until a person removes it), directories of revisions that are not
        published, links to paths that the published revision lacks (upstream keeps both forever).
        Nothing is synced to the disk: a volume does not outlive its node's uptime.

        Raises:
            InvalidPayload: a path may not be projected; nothing was touched.
            OSError: the disk is full, the directory is gone, permission is denied, a directory
                with files in it took the place of a dropped path. Up to step 9 the published
                revision is unchanged; after it the new one is published. Call again later.
        """
        wanted = clean_payload(payload)  # 1
        old = self._published()  # 2
        self._remove_remains(old)
        dropped = _paths_below(self._path(old)) - _with_parents(wanted) if old else set()  # 3
        changed = not old or bool(dropped) or self._differs(wanted, old)  # 4
        if changed:
            self._publish(wanted, set_permissions)  # 5 to 9
        names = {path.partition("/")[0] for path in wanted}
        self._make_links(names)  # 10
        try:
            self._remove_paths({path for path in dropped if "/" not in path})  # 11
            self._remove_links(names)
        finally:
            if changed and old:
                _remove_tree(self._path(old))  # 12
        return changed

    def remove_remains(self) -> None:
        """Remove what a call that died left, without writing anything.

        Raises:
            OSError: rights are missing.
        """
        self._remove_remains(self._published())

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def _published(self) -> str:
        """Name the directory that `..data` points to, "" when no revision of ours is there."""
        try:
            name = os.readlink(self._path(DATA_LINK))
        except FileNotFoundError:
            return ""
        # A link in its place is not a revision, and what it points to is not ours.
        return name if _is_revision(name) and not os.path.islink(self._path(name)) else ""

    def _remove_remains(self, published: str) -> None:
        """Remove what a killed call left: the temporary link, unpublished revisions."""
        for name in os.listdir(self.directory):
            if name == _NEXT_LINK:
                os.remove(self._path(name))
            elif _is_revision(name) and name != published:
                _remove_tree(self._path(name))

    def _differs(self, wanted: Payload, published: str) -> bool:
        root = self._path(published)
        return any(_read(os.path.join(root, path)) != file.data for path, file in wanted.items())

    def _publish(self, wanted: Payload, set_permissions: Callable[[str], None] | None) -> None:
        try:
            name = self._make_revision()  # 5
            _write_files(self._path(name), wanted)  # 6
            if set_permissions is not None:
                set_permissions(self._path(name))  # 7
            os.symlink(name, self._path(_NEXT_LINK))  # 8
            os.rename(self._path(_NEXT_LINK), self._path(DATA_LINK))  # 9
        except BaseException:
            # Now rather than at the next call: the disk may be full.
            self._remove_remains(self._published())
            raise

    def _make_revision(self) -> str:
        prefix = time.strftime(_TIMESTAMP, time.gmtime())
        while True:
            name = prefix + str(int.from_bytes(os.urandom(4), "big"))
            try:
                os.mkdir(self._path(name), 0o700)
            except FileExistsError:
                continue
            os.chmod(self._path(name), 0o755)  # whatever the umask
            return name

    def _make_links(self, names: set[str]) -> None:
        for name in sorted(names):
            # Anything with this name stays, other files too: upstream checks for ENOENT only.
            if not os.path.lexists(self._path(name)):
                os.symlink(f"{DATA_LINK}/{name}", self._path(name))

    def _remove_paths(self, names: set[str]) -> None:
        for name in sorted(names):
            path = self._path(name)
            try:
                if os.path.isdir(path) and not os.path.islink(path):
                    os.rmdir(path)
                else:
                    os.remove(path)
            except FileNotFoundError:
                continue  # created by another process or a killed call

    def _remove_links(self, names: set[str]) -> None:
        """Remove our links to paths that are not published, which a killed call left."""
        with os.scandir(self.directory) as entries:
            stale = [
                entry.path
                for entry in entries
                if entry.is_symlink()
                and entry.name not in names
                and os.readlink(entry.path) == f"{DATA_LINK}/{entry.name}"
            ]
        for path in stale:
            os.remove(path)


def _is_revision(name: str) -> bool:
    """Return whether a name is `..2016_02_01_15_04_05.` and a decimal number."""
    stamp, _, number = name[2:].partition(".")
    return (
        name.startswith("..")
        and name.isascii()
        and [len(field) for field in stamp.split("_")] == [4, 2, 2, 2, 2, 2]
        and stamp.replace("_", "").isdecimal()
        and number.isdecimal()
    )


def _paths_below(root: str) -> set[str]:
    """List every file and directory below a directory, relative to it; none if it is gone."""
    paths = set()
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            paths.add(os.path.relpath(os.path.join(folder, name), root))
    return paths


def _with_parents(wanted: Payload) -> set[str]:
    return {each for path in wanted for each in [*parents(path), path]}


def _read(path: str) -> bytes | None:
    """Read a file of the published revision; None if there is nothing to compare with.

    A file that we may not read (mode 0200, not root) is rewritten each time, and so is a link in
    its place.
    """
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise


def _write_files(root: str, wanted: Payload) -> None:
    for path, file in wanted.items():
        target = os.path.join(root, path)
        os.makedirs(os.path.dirname(target), mode=0o777, exist_ok=True)
        mode = file.mode & 0o777
        with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as output:
            output.write(file.data)
        os.chmod(target, mode)  # the umask was applied to the mode above


def remove_contents(root: str) -> None:
    """Remove everything below a directory; links are removed, never followed.

    Also not when `root` itself is one, or when one is put in the place of a directory
    meanwhile: each directory is held by a descriptor.
    """
    if not os.path.isdir(root):
        return
    for _, folders, files, descriptor in os.fwalk(root, topdown=False):
        for name in files:
            os.remove(name, dir_fd=descriptor)
        for name in folders:
            try:
                os.rmdir(name, dir_fd=descriptor)
            except NotADirectoryError:
                os.remove(name, dir_fd=descriptor)


def _remove_tree(root: str) -> None:
    if os.path.islink(root):
        os.remove(root)
        return
    remove_contents(root)
    if os.path.lexists(root):
        os.rmdir(root)
