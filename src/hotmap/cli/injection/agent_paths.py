"""Where the agent's container mounts the application's sources.

At the application's own paths, so that absolute paths in the files mean the same to a checker. Not
where that would hide what the agent's image needs to run (`/usr/local/bin`, `/etc`), or what the
injection mounts itself (`/tmp`).
"""

from __future__ import annotations

import posixpath

__all__ = ["SOURCES", "agent_path", "is_below", "is_reserved"]

#: Where sources are mounted whose path the agent's container cannot have.
SOURCES = "/hotmap/source"

#: Directories that programs of an image are in, or that the runtime mounts.
_SYSTEM = (
    "/bin", "/boot", "/dev", "/etc", "/etc/ssl", "/etc/ssl/certs", "/home", "/lib", "/lib64",
    "/opt", "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/usr", "/usr/bin", "/usr/lib",
    "/usr/local", "/usr/local/bin", "/usr/local/lib", "/usr/sbin", "/usr/share", "/var",
    "/var/run", "/var/run/secrets", "/var/run/secrets/kubernetes.io", "/tmp",
)  # fmt: skip

#: Directories without a place for a mount of ours anywhere below them.
_RESERVED = ("/dev", "/proc", "/sys", "/usr/local/lib")


def agent_path(volume: str, path: str) -> str:
    """Choose where the agent's container mounts a volume that the application has at `path`."""
    normal = posixpath.normpath(path)
    if normal in ("/", "//", *_SYSTEM) or any(is_below(normal, item) for item in _RESERVED):
        return f"{SOURCES}/{volume}"
    return path


def is_reserved(path: str) -> bool:
    """Return whether a path belongs to the injection."""
    return posixpath.normpath(path) == "/hotmap" or is_below(path, "/hotmap")


def is_below(path: str, directory: str) -> bool:
    """Return whether a path is inside a directory."""
    return posixpath.normpath(path).startswith(f"{directory}/")
