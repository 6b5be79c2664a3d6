"""The invariants at the end of every story find what they are there for."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from tests.support.invariants import PLANTED, Rollouts, Snapshot, broken

KEY = {"type": "hotmap.dev/key", "data": {"keys": b64encode(b64encode(bytes(32)) + b"\n").decode()}}
EMPTY = {"type": "hotmap.dev/state", "data": {"state": b64encode(b"hotmap-state/1\n").decode()}}


def _consumer(revision: str = "", manager: str = "hotmap") -> dict[str, Any]:
    template = {"metadata": {"annotations": {"hotmap.dev/revision": revision}}}
    fields = {"f:spec": {"f:template": {}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "web",
            "namespace": "shop",
            "uid": "u",
            "annotations": {"hotmap.dev/follow": "auto"},
            "managedFields": [{"manager": manager, "fieldsV1": fields}],
        },
        "spec": {"selector": {}, "template": template},
    }


def _found(*, consumer: dict[str, Any], times: int = 0, outputs: tuple[str, ...] = ()) -> str:
    """What is broken after a consumer was rolled so often, one sentence a line."""
    rollouts = Rollouts()
    rollouts.note(_consumer())
    for number in range(times):
        rollouts.note(_consumer(f"k.{number}"))
    snapshot = Snapshot([], [], [consumer], [{"metadata": {"name": "s"}, **EMPTY}, KEY], [])
    return "\n".join(broken(snapshot, rollouts, outputs, settled={"web": 1}))


@pytest.mark.parametrize("value", [PLANTED, b64encode(f"{PLANTED}-1".encode()).decode()])
def test_a_value_is_shown(value: str) -> None:
    """In an output, as it is or in base64."""
    assert "a Secret's value is shown" in _found(consumer=_consumer(), outputs=(f"x {value} y",))


def test_a_rollout_too_many() -> None:
    """Two rollouts for one change; what somebody else wrote into the template is none."""
    assert "web was rolled 2 times for 1 changes" in _found(consumer=_consumer(), times=2)
    assert "was rolled" not in _found(consumer=_consumer(), times=1)


def test_a_template_that_is_behind() -> None:
    """No revision after a change, or that of other content."""
    assert "web carries no revision" in _found(consumer=_consumer())
    assert "web carries k.other" in _found(consumer=_consumer("k.other"))


def test_nothing_is_recorded() -> None:
    """An opted-in consumer without a record."""
    assert "nothing is recorded of web" in _found(consumer=_consumer())
