"""How many files and connections this process may have open."""

from __future__ import annotations

import logging
import resource

__all__ = ["raise_open_files_limit"]

_log = logging.getLogger(__name__)


def raise_open_files_limit() -> None:
    """Raise the soft limit to the hard one, as Go's runtime does for kube-apiserver.

    Each watch holds a connection, and 1,024 are few.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:
        # The kernel of macOS has a lower limit than the one it reports.
        _log.debug("cannot raise the limit of open files above %d: %s", soft, error)
