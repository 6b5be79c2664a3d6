"""The processes of simulated pods: what each has read, and how it loads files when it is told."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable

from tests.simulation.pods import Content, SimulatedPod

from hotmap.core.model.references import Use, UseKind

__all__ = ["REFUSED", "Application"]

#: A value that some applications do not accept.
REFUSED = "2"

#: Seconds from a signal to the reading of the files.
_SLOWNESS = (0.0, 0.0, 0.1, 0.5, 3.0)

_numbers = itertools.count(1)


class Application:
    """One process of a container. It reads all its files when it starts, and when it is told to."""

    def __init__(
        self, pod: SimulatedPod, container: str, chance: random.Random, *, refuses: bool
    ) -> None:
        self._pod = pod
        self._chance = chance
        self._refuses = refuses
        self.uses = [
            use
            for use in pod.template.uses()
            if use.container == container and use.kind is UseKind.LIVE
        ]
        self.pid = next(_numbers)
        self.started = pod.containers[container]
        #: From when on it handles signals.
        self.ready_at = self.started + chance.choice((0.0, 0.0, 0.3, 2.0))
        #: How often it was told to load its files, has loaded them, and did not accept them.
        self.told = self.loads = self.failures = 0
        self.has_failed = False
        self._reads_at: float | None = None

    @property
    def handled(self) -> int:
        """How often it has read its files since its start, accepted or not."""
        return self.loads + self.failures

    def tell(self, now: float) -> None:
        """Make it read its files soon; another call before that changes nothing."""
        self.told += 1
        if self._reads_at is None:
            self._reads_at = now + self._chance.choice(_SLOWNESS)

    def step(self, now: float) -> None:
        """Read the files if that is due; one that is not accepted leaves everything as it was."""
        if self._reads_at is None or self._reads_at > now:
            return
        self._reads_at = None
        files = {use: self._pod.files[use] for use in self.uses}
        self.has_failed = self._refuses and is_refused(files.values())
        if self.has_failed:
            self.failures += 1
        else:
            self._pod.read.update(files)
            self.loads += 1

    def has_loaded(self, volume: str) -> bool:
        """Return whether it has what the files of a volume hold."""
        return all(self._pod.read[use] == self._pod.files[use] for use in self._uses_of(volume))

    def held(self, volume: str) -> str:
        """Say what it has of a volume, and what its files hold."""
        pod = self._pod
        return ", ".join(
            f"holds {pod.read[use]}, not {pod.files[use]}" for use in self._uses_of(volume)
        )

    def _uses_of(self, volume: str) -> list[Use]:
        return [use for use in self.uses if use.path.startswith(f"volumes[{volume}]")]


def is_refused(contents: Iterable[Content]) -> bool:
    """Return whether an application that does not accept everything refuses some content."""
    return any(REFUSED in content.values() for content in contents)
