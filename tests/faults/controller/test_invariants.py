"""The invariants at the end of every scenario detect violations."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from typing import Any

import pytest
from tests.support.invariants import Rollouts, Snapshot, broken, shown_by
from tests.support.leaks import PLANTED, leaks
from tests.support.scenario import Scenario

KEY = {"type": "hotmap.dev/key", "data": {"keys": b64encode(b64encode(bytes(32)) + b"\n").decode()}}
EMPTY = {"type": "hotmap.dev/state", "data": {"state": b64encode(b"hotmap-state/1\n").decode()}}


def _consumer(revision: str = "", manager: str = "hotmap") -> dict[str, Any]:
    template = {"metadata": {"annotations": {"hotmap.dev/revision": revision}}}
    fields: dict[str, Any] = {"f:spec": {"f:template": {}}}
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


def _found(*, consumer: dict[str, Any], times: int = 0) -> str:
    """What is broken after a consumer was rolled so often, one sentence a line."""
    rollouts = Rollouts()
    rollouts.note(_consumer())
    for number in range(times):
        rollouts.note(_consumer(f"k.{number}"))
    snapshot = Snapshot([], [], [consumer], [{"metadata": {"name": "s"}, **EMPTY}, KEY], [])
    return "\n".join(broken(snapshot, rollouts, settled={"web": 1}))


VALUE = f"{PLANTED}-first"
DATA = VALUE.encode()


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(VALUE, id="as it is"),
        pytest.param(VALUE[:7], id="its beginning"),
        pytest.param(b64encode(DATA).decode(), id="in base64"),
        pytest.param(b64encode(b'{"word":"' + DATA).decode(), id="in the base64 of more"),
        pytest.param(b64encode(b"=" + DATA + b"=").decode(), id="in the base64 of more, shifted"),
        pytest.param(b64encode(b"==" + DATA).decode(), id="in the base64 of more, twice shifted"),
        pytest.param(b64encode(b64encode(DATA)).decode(), id="twice in base64"),
        pytest.param(DATA.hex(), id="in hex"),
        pytest.param(hashlib.sha256(DATA).hexdigest(), id="as a digest"),
        pytest.param(b64encode(hashlib.sha1(DATA).digest()).decode(), id="as a digest in base64"),
    ],
)
def test_secret_value_in_output_is_found(shown: str) -> None:
    """In whatever dress, in the middle of anything."""
    assert list(leaks(["nothing", f"x {shown} y"], {VALUE}))
    assert not list(leaks(["the password of Secret shop/login changed"], {VALUE}))


def test_secret_value_in_object_is_found() -> None:
    """What hotmap writes is looked through: consumers, Events, pods, its own records."""
    consumer = _consumer()
    consumer["metadata"]["annotations"]["note"] = b64encode(DATA).decode()
    state = {"type": "hotmap.dev/state", "data": {"state": b64encode(DATA).decode()}}
    event = {"message": f"the password was {VALUE}"}
    for snapshot in (
        Snapshot([], [], [consumer], [], []),
        Snapshot([], [], [], [state], []),
        Snapshot([], [], [], [], [event]),
    ):
        assert list(leaks(shown_by(snapshot), {VALUE}))


async def test_story_checks_invariants(podless_scenario: Scenario) -> None:
    """At the end of every scenario, outputs are searched for every value of a Secret."""
    await podless_scenario.secret(password="first")
    await podless_scenario.edit_secret("second")
    assert podless_scenario.values == {f"{PLANTED}-first", f"{PLANTED}-second"}
    await podless_scenario.check_no_secret_leaks()
    podless_scenario.printed.append(f"the password was {PLANTED}-first")
    with pytest.raises(AssertionError, match="a Secret's value is shown"):
        await podless_scenario.check_no_secret_leaks()
    podless_scenario.printed.clear()


def test_extra_rollout_is_found() -> None:
    """Two rollouts for one change; what another writer put into the template is none."""
    assert "web was rolled 2 times for 1 changes" in _found(consumer=_consumer(), times=2)
    assert "was rolled" not in _found(consumer=_consumer(), times=1)


def test_outdated_template_is_found() -> None:
    """No revision after a change, or that of other content."""
    assert "web carries no revision" in _found(consumer=_consumer())
    assert "web carries k.other" in _found(consumer=_consumer("k.other"))


def test_missing_record_is_found() -> None:
    """An opted-in consumer without a record."""
    assert "nothing is recorded of web" in _found(consumer=_consumer())
