"""Command lines of kubectl, by subject; what they print is recorded from a real API server.

A line that begins with `~` is repeated until it prints what was recorded: it shows what a
controller does. Each subject has a namespace of its own, which `NS` stands for.
"""

from __future__ import annotations

from tests.conformance.lines.access import ACCESS
from tests.conformance.lines.administration import ADMINISTRATION
from tests.conformance.lines.apply import APPLY
from tests.conformance.lines.commands import COMMANDS
from tests.conformance.lines.configuration import CONFIGURATION
from tests.conformance.lines.corners import CORNERS
from tests.conformance.lines.discovery import DISCOVERY
from tests.conformance.lines.generators import GENERATORS
from tests.conformance.lines.manifests import MANIFESTS
from tests.conformance.lines.objects import OBJECTS
from tests.conformance.lines.odd_flags import ODD_FLAGS
from tests.conformance.lines.output import OUTPUT
from tests.conformance.lines.volumes import VOLUMES
from tests.conformance.lines.workloads import WORKLOADS

#: Subject → lines.
SUBJECTS: dict[str, tuple[str, ...]] = {
    "configuration": CONFIGURATION,
    "workloads": WORKLOADS,
    "apply": APPLY,
    "output": OUTPUT,
    "access": ACCESS,
    "objects": OBJECTS,
    "discovery": DISCOVERY,
    "generators": GENERATORS,
    "odd-flags": ODD_FLAGS,
    "manifests": MANIFESTS,
    "administration": ADMINISTRATION,
    "volumes": VOLUMES,
    "corners": CORNERS,
    "commands": COMMANDS,
}
