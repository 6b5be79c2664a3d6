"""What the programs need that the agent runs in its own container: an image, paths, capabilities.

The paths are those of the published images and of Debian's packages. A checker of a program that is
not listed writes to /tmp only, or needs volumes that the user mounts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hotmap.agent.settings.settings import Settings

__all__ = ["CheckerNeeds", "checker_needs", "is_agent_image", "missing_program"]

#: The programs in the image of the agent (deploy/README.md).
_IN_IMAGE = frozenset(("hotmap", "python3"))


class CheckerNeeds(NamedTuple):
    """What a checker needs beside its program."""

    #: Directories that it writes to, also when it only checks.
    paths: tuple[str, ...] = ()
    #: Capabilities, where it runs as root.
    capabilities: tuple[str, ...] = ()


#: `nginx -t` opens its logs, creates its pid file and temporary directories, gives these to the
#: user of its workers (CAP_CHOWN) and binds its ports, also those below 1024 (nginx:
#: ngx_init_cycle).
_NEEDS = {
    "nginx": CheckerNeeds(
        ("/run", "/var/cache/nginx", "/var/lib/nginx", "/var/log/nginx"),
        ("CHOWN", "NET_BIND_SERVICE"),
    ),
}


def checker_needs(settings: Settings) -> CheckerNeeds:
    """Return what the check commands of an agent need."""
    known = [_NEEDS[name] for name in map(_program, settings.checks.commands) if name in _NEEDS]
    return known[0] if known else CheckerNeeds()


def is_agent_image(image: str) -> bool:
    """Return whether an image is the agent's own, in any registry, which has no other program."""
    name, _, _ = image.rpartition("/")[2].partition("@")
    return name.partition(":")[0] == "hotmap-agent"


def missing_program(settings: Settings) -> str:
    """Return a program that the agent runs and the image of hotmap does not have, or ""."""
    programs = (_program(command) for command in _commands(settings))
    return next((name for name in programs if name and name not in _IN_IMAGE), "")


def _commands(settings: Settings) -> Iterator[tuple[str, ...]]:
    yield from settings.checks.commands
    for rule in settings.rules:
        yield from (action.command for action in rule.actions)
        yield from (probe.command for probe in rule.probes)


def _program(command: tuple[str, ...]) -> str:
    return command[0].rpartition("/")[2] if command else ""
