"""Where a controller is found by default.

Apart from `settings`, which imports what decides: `hotmap status` needs only these.
"""

from __future__ import annotations

__all__ = ["DEFAULT_HOST", "DEFAULT_NAMESPACE", "DEFAULT_PORT"]

#: Default namespace of the key and the records outside of a pod.
DEFAULT_NAMESPACE = "hotmap"

#: Where metrics, health and status are served.
DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 9533
