"""ValidatingAdmissionPolicies and the conditions of webhooks, by the rules of upstream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.local.apiserver.api import CONFIGMAPS, DEPLOYMENTS, MERGE, deployment

from hotmap.local.apiserver.plugins import AdmissionChain
from hotmap.local.apiserver.plugins.admission_policies import AdmissionPolicies

if TYPE_CHECKING:
    from tests.local.apiserver.api import Api

    from hotmap.local.apiserver.registry import Registry

_GROUP = "/apis/admissionregistration.k8s.io/v1"
_POLICIES = f"{_GROUP}/validatingadmissionpolicies"
_BINDINGS = f"{_GROUP}/validatingadmissionpolicybindings"
_RULES = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["*"]}]


@pytest.fixture(autouse=True)
def policies(registry: Registry) -> None:
    plugin = AdmissionPolicies(registry.store, registry.reader)
    registry.writer.plugins = AdmissionChain([plugin])
    registry.deleter.policies = plugin


async def add_policy(
    api: Api, *validations: dict[str, Any], bound: dict[str, Any] | None = None, **spec: Any
) -> None:
    """Create a policy for the core group, and a binding to it."""
    policy = {
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": _RULES},
            "validations": list(validations),
            **spec,
        },
    }
    created = await api.post(_POLICIES, policy)
    assert created.status == 201, created.body
    binding = {"policyName": "p", "validationActions": ["Deny"], **(bound or {})}
    made = await api.post(_BINDINGS, {"metadata": {"name": "b"}, "spec": binding})
    assert made.status == 201, made.body


def configmap(name: str = "a", **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


async def test_write_that_breaks_a_rule_is_refused(api: Api) -> None:
    rule = {"expression": "object.data['k'] != 'bad'", "message": "k is bad"}
    await add_policy(api, rule)
    assert (await api.post(CONFIGMAPS, configmap(k="good"))).status == 201
    refused = await api.post(CONFIGMAPS, configmap("b", k="bad"))
    assert (refused.status, refused.body["reason"]) == (422, "Invalid")
    text = (
        "configmaps \"b\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied "
        "request: k is bad"
    )
    assert refused.message == text
    assert refused.body["details"]["causes"] == [{"message": text.partition("forbidden: ")[2]}]


async def test_write_that_changes_nothing_is_asked_about(api: Api) -> None:
    await api.post(CONFIGMAPS, configmap(k="bad"))
    await add_policy(api, {"expression": "object.data['k'] != 'bad'"})
    assert (await api.patch(f"{CONFIGMAPS}/a", {"data": {"k": "bad"}}, MERGE)).status == 422


async def test_rule_without_message_is_shown_itself(api: Api) -> None:
    await add_policy(api, {"expression": " size(object.data) > 1 ", "reason": "Forbidden"})
    refused = await api.post(CONFIGMAPS, configmap(k="v"))
    assert refused.status == 403
    assert refused.message.endswith("denied request: failed expression: size(object.data) > 1")


async def test_variables_and_message_expression(api: Api) -> None:
    rule = {
        "expression": "variables.twice < 5",
        "messageExpression": "'twice the size is ' + string(variables.twice)",
    }
    variables = [
        {"name": "count", "expression": "size(object.data)"},
        {"name": "twice", "expression": "variables.count * 2"},
    ]
    await add_policy(api, rule, variables=variables)
    assert (await api.post(CONFIGMAPS, configmap(a="1", b="2"))).status == 201
    refused = await api.post(CONFIGMAPS, configmap("c", a="1", b="2", c="3"))
    assert refused.message.endswith("denied request: twice the size is 6")


async def test_parameters_come_from_another_object(api: Api) -> None:
    await api.post(CONFIGMAPS, configmap("limits", most="2"))
    rule = {"expression": "size(object.data) <= int(params.data.most)"}
    reference = {"name": "limits", "parameterNotFoundAction": "Deny"}
    await add_policy(
        api,
        rule,
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        bound={"paramRef": reference},
        matchConditions=[{"name": "no-limits", "expression": "object.metadata.name != 'limits'"}],
    )
    assert (await api.post(CONFIGMAPS, configmap(a="1", b="2"))).status == 201
    assert (await api.post(CONFIGMAPS, configmap("b", a="1", b="2", c="3"))).status == 422


async def test_missing_parameter_denies_or_allows(api: Api) -> None:
    reference = {"name": "missing", "parameterNotFoundAction": "Deny"}
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    await add_policy(api, {"expression": "true"}, paramKind=kind, bound={"paramRef": reference})
    refused = await api.post(CONFIGMAPS, configmap())
    assert "no params found for policy binding with `Deny`" in refused.message
    patch = {"spec": {"paramRef": {"parameterNotFoundAction": "Allow"}}}
    await api.patch(f"{_BINDINGS}/b", patch, "application/merge-patch+json")
    assert (await api.post(CONFIGMAPS, configmap())).status == 201


async def test_failure_policy_decides_about_rules_without_a_value(api: Api) -> None:
    await add_policy(api, {"expression": "object.data.missing == 'x'"})
    refused = await api.post(CONFIGMAPS, configmap(k="v"))
    assert "resulted in error" in refused.message
    patch = {"spec": {"failurePolicy": "Ignore"}}
    await api.patch(f"{_POLICIES}/p", patch, "application/merge-patch+json")
    assert (await api.post(CONFIGMAPS, configmap(k="v"))).status == 201


async def test_action_warn_warns(api: Api) -> None:
    bound = {"validationActions": ["Warn", "Audit"]}
    await add_policy(api, {"expression": "false", "message": "no"}, bound=bound)
    created = await api.post(CONFIGMAPS, configmap())
    assert created.status == 201
    assert created.headers["Warning"] == (
        "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': no\""
    )


async def test_updates_and_deletions_are_asked_about(api: Api) -> None:
    rule = {
        "expression": "request.operation != 'DELETE' && "
        "(request.operation == 'CREATE' || object.data.k != oldObject.data.k)"
    }
    await add_policy(api, rule)
    await api.post(CONFIGMAPS, configmap(k="1"))
    path, merge = f"{CONFIGMAPS}/a", "application/merge-patch+json"
    assert (await api.patch(path, {"data": {"m": "1"}}, merge)).status == 422
    assert (await api.patch(path, {"data": {"k": "2"}}, merge)).status == 200
    assert (await api.request("DELETE", path)).status == 422
    assert (await api.get(path)).status == 200


async def test_selectors_and_namespace(api: Api) -> None:
    selector = {"matchLabels": {"checked": "yes"}}
    constraints = {"resourceRules": _RULES, "objectSelector": selector}
    rule = {"expression": "namespaceObject.metadata.name == 'elsewhere'"}
    await add_policy(api, rule, matchConstraints=constraints)
    assert (await api.post(CONFIGMAPS, configmap())).status == 201
    labelled = configmap("b")
    labelled["metadata"]["labels"] = {"checked": "yes"}
    assert (await api.post(CONFIGMAPS, labelled)).status == 422


async def test_malformed_policies_are_refused(api: Api) -> None:
    refused = await api.post(_POLICIES, {"metadata": {"name": "p"}, "spec": {}})
    assert {cause["field"] for cause in refused.body["details"]["causes"]} == {
        "spec.matchConstraints",
        "spec.validations",
        "spec.auditAnnotations",
    }
    refused = await api.post(_BINDINGS, {"metadata": {"name": "b"}, "spec": {"policyName": "p"}})
    assert "at least one validation action is required" in refused.message


async def test_write_of_a_scale_is_one_of_the_subresource(api: Api) -> None:
    """A rule for deployments is not about their replicas, one for deployments/scale is."""
    await api.post(DEPLOYMENTS, deployment("web"))
    rules = [{**_RULES[0], "apiGroups": ["apps"], "resources": ["deployments"]}]
    for resource, replicas, status in (("deployments", 6, 200), ("deployments/scale", 7, 422)):
        rules[0]["resources"] = [resource]
        rule = {"expression": "object.spec.replicas < 5 && object.kind != 'Scale'"}
        await add_policy(api, rule, matchConstraints={"resourceRules": rules})
        change = {"spec": {"replicas": replicas}}
        reply = await api.patch(f"{DEPLOYMENTS}/web/scale", change, MERGE)
        assert reply.status == status, reply.body
        await api.request("DELETE", f"{_POLICIES}/p")
        await api.request("DELETE", f"{_BINDINGS}/b")
