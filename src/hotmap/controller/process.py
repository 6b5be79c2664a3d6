"""Operating system settings of the controller's own process."""

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
    """Protect the memory of this process, which decodes Secrets, from core dumps and debuggers.

    RLIMIT_CORE alone does not affect a handler in kernel.core_pattern (core(5)); PR_SET_DUMPABLE
    does, and also prevents processes of the same user from attaching. Does nothing on systems that
    have neither.
    """
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, AttributeError):
        if ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
            _log.debug("core dumps could not be turned off")
