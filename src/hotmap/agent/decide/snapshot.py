"""The content of all watched directories at one time."""

from __future__ import annotations

from hotmap.core.value import Value

__all__ = ["Snapshot"]


class Snapshot(Value):
    """One consistent reading of all directories.

    contents: bytes by directory and relative path
    files: digests by absolute path; of every service-account token the same
    directories: digests by directory
    digest: of everything
    payloads: digests of `core.payload_digest` by directory, where they are requested; anyone can
        compute them, so they are compared and never shown
    permissions: permission bits and group by directory and relative path, where they are asked for
    changed_since: since when other content than before may have been visible, in seconds since
        boot: content that was replaced before it was read is in no reading; None where no update
        was seen since the reading before
    replaced: a kubelet has written another revision since the reading before; it never writes the
        same content twice in a row, so there was other content if it is the same
    unreadable: since the reading before, there was content that could not be read
    revisions: names of what a kubelet has written, by directory
    signatures: digests of the names, sizes, times and inodes of other files, by directory
    written: when a kubelet wrote it, by directory, in seconds since boot, as far as the wall clock
        tells
    """

    contents: dict[str, dict[str, bytes]]
    files: dict[str, str]
    directories: dict[str, str]
    digest: str
    payloads: dict[str, str]
    permissions: dict[str, dict[str, tuple[int, int]]] = {}  # noqa: RUF012 - never changed
    changed_since: float | None = None
    replaced: bool = False
    unreadable: bool = False
    revisions: dict[str, str] = {}  # noqa: RUF012 - never changed
    signatures: dict[str, str] = {}  # noqa: RUF012 - never changed
    written: dict[str, float] = {}  # noqa: RUF012 - never changed

    @property
    def names(self) -> dict[str, str]:
        """What identifies the files of each directory, so that it differs after each write."""
        return {**self.revisions, **self.signatures}
