"""Requests to an API server, in order, by subject; each subject has a namespace of its name.

What a real kube-apiserver answered to them lies in `tests/conformance/answers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance.cases import (
    access,
    apply,
    bodies,
    custom,
    deletion,
    discovery,
    kinds,
    lists,
    patches,
    subresources,
    validation,
    values,
    watches,
)

if TYPE_CHECKING:
    from tests.conformance.cases.call import Call

_MODULES = (
    kinds,
    bodies,
    patches,
    validation,
    values,
    lists,
    watches,
    apply,
    deletion,
    subresources,
    custom,
    access,
    discovery,
)

#: Subject → its requests.
SUBJECTS: dict[str, list[Call]] = {
    subject: calls for module in _MODULES for subject, calls in module.subjects().items()
}
