"""Limits of one object: bounds on a pod template, and on what is kept of it.

A user who may create a workload chooses the size of its spec, up to the 1.5 MiB that etcd
accepts. Reading it takes time and memory that all other workloads share, so an object beyond a
bound is left out as a whole: with half of its uses, decisions would be wrong. The bounds are 5 to
50 times what real workloads have, and small enough that reading one takes less than 50 ms and 5 MiB
(tests/core/test_object_limits.py).
"""

from __future__ import annotations

from hotmap.core.model.objects import PodSpec, Volume

__all__ = [
    "MAX_DATA_KEYS",
    "MAX_STEPS",
    "MAX_USES",
    "MAX_USES_SIZE",
    "LimitExceeded",
    "StepCounter",
    "check_data_keys",
    "check_pod_spec",
    "check_selector",
    "check_volumes_size",
    "too_large_message",
]

#: Data keys of a ConfigMap or Secret; each is marked under each key of the keyring.
MAX_DATA_KEYS = 5_000
MAX_CONTAINERS = 500
#: Entries of `env` and `envFrom`, of all containers together.
MAX_VARIABLES = 5_000
MAX_VOLUMES = 2_000
#: Mounts of all containers together.
MAX_MOUNTS = 5_000
#: Sources in projected volumes, and `items` of all volumes.
MAX_PROJECTIONS = 5_000
#: Equal uses of one container count once.
MAX_USES = 1_000
#: Characters in the paths and data keys of all uses.
MAX_USES_SIZE = 256 * 1024
#: Characters of a label selector, and of names and paths in volumes that an agent compares.
MAX_SELECTOR_SIZE = 16 * 1024
MAX_VOLUMES_SIZE = 256 * 1024
#: Pairs that are compared: a mount with a projection, a variable with a prefix or a `$(NAME)`.
MAX_STEPS = 20_000


class LimitExceeded(Exception):
    """Raised when an object exceeds a bound; its text names the bound."""

    def __init__(self, what: str, limit: int, count: int | None = None) -> None:
        found = f"{count:,} {what}" if count is not None else f"too many {what}"
        super().__init__(f"{found} (limit {limit:,})")


class StepCounter:
    """Counts the work that one object has cost.

    Invariant: never more than MAX_STEPS are left, and none once LimitExceeded was raised.
    """

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = MAX_STEPS

    def add(self, steps: int) -> None:
        """Count steps before they are taken.

        Raises:
            LimitExceeded: the object has cost too much.
        """
        self._left -= steps
        if self._left < 0:
            raise LimitExceeded(
                "combinations of mounts, volumes and environment variables", MAX_STEPS
            )


def check_pod_spec(spec: PodSpec) -> None:
    """Check that a pod spec is small enough to be read quickly.

    Raises:
        LimitExceeded: it is not; the text names the first bound that is exceeded.
    """
    containers = [*(spec.init_containers or ()), *(spec.containers or ())]
    volumes = spec.volumes or ()
    variables = mounts = projections = 0
    for container in containers:
        variables += len(container.env or ()) + len(container.env_from or ())
        mounts += len(container.volume_mounts or ())
    for volume in volumes:
        if volume.config_map or volume.secret or volume.projected:
            projections += _projections(volume)
    secrets = len(spec.image_pull_secrets or ())
    _check("containers", len(containers), MAX_CONTAINERS)
    _check("environment variables", variables, MAX_VARIABLES)
    _check("volumes", len(volumes), MAX_VOLUMES)
    _check("volume mounts", mounts, MAX_MOUNTS)
    _check("projected sources and items", projections, MAX_PROJECTIONS)
    _check("imagePullSecrets", secrets, MAX_USES)


def check_data_keys(count: int) -> None:
    """Check that a source has few enough data keys to be read quickly.

    Raises:
        LimitExceeded: it has more.
    """
    _check("data keys", count, MAX_DATA_KEYS)


def check_selector(selector: str) -> None:
    """Check that a label selector, as a query parameter, is short enough to be kept.

    Raises:
        LimitExceeded: it is not.
    """
    _check("characters in its label selector", len(selector), MAX_SELECTOR_SIZE)


def check_volumes_size(size: int) -> None:
    """Check how many characters the names and paths of volumes have that are kept.

    Raises:
        LimitExceeded: there are too many.
    """
    _check("characters in names and paths of volumes", size, MAX_VOLUMES_SIZE)


def _check(what: str, count: int, limit: int) -> None:
    if count > limit:
        raise LimitExceeded(what, limit, count)


def _projections(volume: Volume) -> int:
    """Count the sources and items of a volume."""
    count = 0
    for part in (volume.config_map, volume.secret):
        if part:
            count += len(part.items or ())
    for projection in (volume.projected.sources or ()) if volume.projected else ():
        count += 1
        for source in (projection.config_map, projection.secret):
            count += len(source.items or ()) if source else 0
    return count


def too_large_message(over_budget: str) -> str:
    """Return the message that an object is left out since it exceeds a bound."""
    return f"not tracked: it has {over_budget}"
