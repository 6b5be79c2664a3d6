"""What a process that holds credentials and reads Secrets asks of the operating system."""

from __future__ import annotations

import ctypes
import logging
import resource
from contextlib import suppress

__all__ = ["disable_core_dumps"]

#: prctl(2).
_PR_SET_DUMPABLE = 4

_log = logging.getLogger(__name__)


def disable_core_dumps() -> None:
    """Keep the memory of this process, which decodes Secrets, from core files and from debuggers.

    RLIMIT_CORE alone does not bind a handler in kernel.core_pattern (core(5)); PR_SET_DUMPABLE
    does, and also keeps processes of the same user from attaching. Where the system has neither,
    nothing happens.
    """
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, AttributeError):
        if ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
            _log.debug("core dumps could not be disabled")
