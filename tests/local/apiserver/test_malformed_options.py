"""Options and patches of the wrong form: a Status that says why, and the object stays."""

from __future__ import annotations

import pytest
from tests.local.apiserver.api import CONFIGMAPS, JSON_PATCH, Api, configmap


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"preconditions": 5}, "number into Go struct field DeleteOptions.preconditions of type "),
        ({"gracePeriodSeconds": "x"}, "string into Go struct field DeleteOptions.gracePeriodSec"),
        ({"gracePeriodSeconds": True}, "bool into Go struct field DeleteOptions.gracePeriodSecon"),
        ({"dryRun": "All"}, "string into Go struct field DeleteOptions.dryRun of type []string"),
        ({"orphanDependents": 1}, "number into Go struct field DeleteOptions.orphanDependents of"),
    ],
)
async def test_malformed_delete_options_are_bad_requests(
    api: Api, body: dict[str, object], text: str
) -> None:
    assert (await api.post(CONFIGMAPS, configmap("kept"))).status == 201
    reply = await api.request("DELETE", f"{CONFIGMAPS}/kept", body)
    assert reply.status == 400
    assert f"json: cannot unmarshal {text}" in reply.message
    assert (await api.get(f"{CONFIGMAPS}/kept")).status == 200


async def test_patch_that_removes_the_whole_object_does_not_apply(api: Api) -> None:
    assert (await api.post(CONFIGMAPS, configmap("whole"))).status == 201
    steps = [{"op": "remove", "path": ""}]
    reply = await api.patch(f"{CONFIGMAPS}/whole", steps, JSON_PATCH)
    assert (reply.status, reply.body["reason"]) == (422, "Invalid")


async def test_applied_metadata_that_is_not_a_map_is_reported(api: Api) -> None:
    """As upstream's answer is; there is no traceback."""
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": 5}
    kind = "application/apply-patch+yaml"
    reply = await api.patch(f"{CONFIGMAPS}/odd", config, kind, fieldManager="m")
    assert reply.message.startswith("failed to create typed patch object (/odd; /v1, Kind=")


@pytest.mark.parametrize("name", ["limit", "timeoutSeconds"])
async def test_empty_number_of_a_list_is_a_bad_request(api: Api, name: str) -> None:
    reply = await api.get(CONFIGMAPS, **{name: ""})
    assert (reply.status, reply.message) == (400, 'strconv.ParseInt: parsing "": invalid syntax')
