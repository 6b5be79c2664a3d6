"""How an agent is added to a pod template, as the user asked for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from hotmap.core.errors import ManifestError

__all__ = ["Injection"]


class Injection(NamedTuple):
    """How the agent is added."""

    #: The image of the agent's container: it has hotmap, and the checker if there is a check.
    image: str
    #: The container whose mounts are watched; "" for the only one that has any.
    container: str
    #: Flags of `hotmap agent`.
    flags: tuple[str, ...]
    #: One of those that `agent_addition` describes.
    mode: str = "native-sidecar"
    #: Files are mounted into the application only after they passed their check.
    stage: bool = False
    #: A supervisor leaves the container's environment as it is.
    keep_env: bool = False
    #: The user that the agent runs as; None for the application's.
    user: int | None = None
    #: Whether the image is the agent's own, which has no other program.
    plain_image: bool = False

    @classmethod
    def of_record(cls, fields: Sequence[Any]) -> Injection:
        """Read what the record of an injection has of it.

        Raises:
            ManifestError: another version wrote it.
        """
        if len(fields) != len(cls._fields):
            raise ManifestError(
                "another version of hotmap injected a later agent of the pod; remove all with "
                "--remove, and inject again"
            )
        found = cls(*fields)
        return found._replace(flags=tuple(found.flags))
