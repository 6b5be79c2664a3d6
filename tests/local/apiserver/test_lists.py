"""Lists: order, pages that share one revision, selectors, and what is too old or too new."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.local.apiserver.api import CONFIGMAPS, PODS, configmap, store_of

from hotmap.local.apiserver.continuation import encode_token
from hotmap.local.apiserver.kinds import built_in_scheme
from hotmap.local.apiserver.tables import bookmark_table

if TYPE_CHECKING:
    from tests.local.apiserver.api import Api

    from hotmap.local.apiserver.registry import Registry
    from hotmap.local.scheme import Kind


def names(body: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in body["items"]]


async def test_list_has_store_revision(api: Api) -> None:
    """Not that of its newest item; an empty one has an empty list."""
    await api.post(CONFIGMAPS, configmap("b"))
    await api.post(CONFIGMAPS, configmap("a", k="v"))
    other = await api.post("/api/v1/namespaces", {"metadata": {"name": "later"}})
    body = (await api.get(CONFIGMAPS)).body
    assert (body["kind"], body["apiVersion"]) == ("ConfigMapList", "v1")
    assert body["metadata"] == {"resourceVersion": other.body["metadata"]["resourceVersion"]}
    assert names(body) == ["a", "b"]
    assert list(body["items"][0]) == ["metadata", "data"]
    assert (await api.get(PODS)).body["items"] == []


async def test_pages_share_one_revision(api: Api) -> None:
    """What happens between the pages is not in them."""
    for name in "abcde":
        await api.post(CONFIGMAPS, configmap(name))
    first = (await api.get(CONFIGMAPS, limit="2")).body
    await api.request("DELETE", f"{CONFIGMAPS}/d")
    await api.post(CONFIGMAPS, configmap("bb"))
    second = (
        await api.get(CONFIGMAPS, **{"limit": "2", "continue": first["metadata"]["continue"]})
    ).body
    third = (
        await api.get(CONFIGMAPS, **{"limit": "2", "continue": second["metadata"]["continue"]})
    ).body
    assert [names(page) for page in (first, second, third)] == [["a", "b"], ["c", "d"], ["e"]]
    assert [page["metadata"].get("remainingItemCount") for page in (first, second)] == [3, 1]
    revisions = {page["metadata"]["resourceVersion"] for page in (first, second, third)}
    assert len(revisions) == 1
    assert "continue" not in third["metadata"]


async def test_lists_of_any_version_have_no_pages(api: Api) -> None:
    """Upstream answers resourceVersion 0 from its cache, which ignores the limit."""
    for name in "abc":
        await api.post(CONFIGMAPS, configmap(name))
    whole = (await api.get(CONFIGMAPS, limit="1", resourceVersion="0")).body
    assert names(whole) == ["a", "b", "c"]
    assert "continue" not in whole["metadata"]
    first = (await api.get(CONFIGMAPS, limit="1")).body
    token = {"continue": first["metadata"]["continue"]}
    second = (await api.get(CONFIGMAPS, limit="1", resourceVersion="0", **token)).body
    assert names(second) == ["b"]


async def test_expired_page_has_inconsistent_continue_token(api: Api, registry: Registry) -> None:
    """410 with a token that continues with the newest state."""
    for name in "abc":
        await api.post(CONFIGMAPS, configmap(name))
    first = (await api.get(CONFIGMAPS, limit="1")).body
    await api.post(CONFIGMAPS, configmap("bb"))
    store_of(registry).compact(registry.store.revision)
    token = first["metadata"]["continue"]
    expired = await api.get(CONFIGMAPS, **{"limit": "1", "continue": token})
    assert (expired.status, expired.body["reason"]) == (410, "Expired")
    assert expired.message.startswith("The provided continue parameter is too old to display")
    again = expired.body["metadata"]["continue"]
    rest = await api.get(CONFIGMAPS, **{"continue": again})
    assert names(rest.body) == ["b", "bb", "c"]


async def test_exact_revision_is_served_until_compacted(api: Api, registry: Registry) -> None:
    """resourceVersionMatch=Exact shows the past, or says that it is gone."""
    await api.post(CONFIGMAPS, configmap("a"))
    then = str(registry.store.revision)
    await api.post(CONFIGMAPS, configmap("b"))
    exact = {"resourceVersion": then, "resourceVersionMatch": "Exact"}
    assert names((await api.get(CONFIGMAPS, **exact)).body) == ["a"]
    assert names((await api.get(CONFIGMAPS, resourceVersion=then)).body) == ["a", "b"]
    store_of(registry).compact(registry.store.revision)
    gone = await api.get(CONFIGMAPS, **exact)
    assert (gone.status, gone.message) == (
        410,
        "The resourceVersion for the provided list is too old.",
    )


async def test_future_revision_times_out(api: Api, registry: Registry) -> None:
    """504 with the reason and the pause that clients look for."""
    reply = await api.get(CONFIGMAPS, resourceVersion="99999")
    assert reply.status == 504
    current = registry.store.revision
    assert reply.message == f"Timeout: Too large resource version: 99999, current: {current}"
    assert reply.body["details"]["retryAfterSeconds"] == 1
    assert reply.body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert reply.headers["Retry-After"] == "1"


async def test_continue_token_of_other_server_is_refused(api: Api) -> None:
    """Its revision is one that this server has not reached."""
    token = encode_token(99999, "default/a")
    assert (await api.get(CONFIGMAPS, **{"continue": token})).status == 504


async def test_limits_count_selected_objects(api: Api) -> None:
    """With a selector a page is filled with what it selects, and the rest is not counted."""
    for number in range(9):
        await api.post(CONFIGMAPS, configmap(f"c{number}", {"odd": str(number % 2)}))
    first = (await api.get(CONFIGMAPS, limit="2", labelSelector="odd=1")).body
    assert names(first) == ["c1", "c3"]
    assert "remainingItemCount" not in first["metadata"]
    token = first["metadata"]["continue"]
    rest = (await api.get(CONFIGMAPS, **{"labelSelector": "odd=1", "continue": token})).body
    assert names(rest) == ["c5", "c7"]


async def test_list_by_field_selector(api: Api) -> None:
    """Names everywhere, and what else a kind offers."""
    for name in "ab":
        await api.post(CONFIGMAPS, configmap(name))
    assert names((await api.get(CONFIGMAPS, fieldSelector="metadata.name=b")).body) == ["b"]
    assert names((await api.get(CONFIGMAPS, fieldSelector="metadata.name!=b")).body) == ["a"]
    everywhere = "metadata.namespace=default,metadata.name=a"
    assert names((await api.get("/api/v1/configmaps", fieldSelector=everywhere)).body) == ["a"]


WRONG = [
    ({"resourceVersion": "abc"}, 400, "invalid resource version"),
    ({"resourceVersionMatch": "Exact"}, 422, "is forbidden unless resourceVersion is provided"),
    (
        {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
        422,
        'resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
    ),
    ({"continue": "abc"}, 400, "invalid continue token"),
    (
        {"continue": "abc", "resourceVersion": "3"},
        400,
        "specifying resource version is not allowed when using continue",
    ),
    ({"sendInitialEvents": "true"}, 422, "sendInitialEvents is forbidden for list"),
    ({"limit": "many"}, 400, "invalid syntax"),
    ({"limit": "1_0"}, 400, "invalid syntax"),
    ({"limit": "9" * 19}, 400, "value out of range"),
    ({"limit": "9" * 5000}, 400, "value out of range"),
    ({"timeoutSeconds": "1s"}, 400, "invalid syntax"),
    ({"labelSelector": "a in"}, 400, "found '' expected: '('"),
    ({"fieldSelector": "metadata.name=a=b"}, 400, "unescaped character in value: 61"),
    ({"fieldSelector": "data.k=1"}, 400, '"data.k" is not a known field selector: only'),
]


@pytest.mark.parametrize(("query", "status", "text"), WRONG)
async def test_invalid_list_parameters_are_refused(
    api: Api, query: dict[str, str], status: int, text: str
) -> None:
    """Each has upstream's status and text."""
    reply = await api.get(CONFIGMAPS, **query)
    assert reply.status == status
    assert text in reply.message


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


async def test_list_as_table(api: Api) -> None:
    """as=Table gives columns and rows; a cell that counts is a number."""
    await api.post(CONFIGMAPS, configmap("a", k="1", m="2"))
    body = (await api.request("GET", CONFIGMAPS, accept=TABLE)).body
    assert body["kind"] == "Table"
    assert [column["name"] for column in body["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert body["rows"][0]["cells"] == ["a", 2, "0s"]
    assert body["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


@pytest.mark.parametrize(
    ("path", "form", "text"),
    [
        (
            CONFIGMAPS,
            "PartialObjectMetadata",
            "you requested PartialObjectMetadata, but the requested object is a list "
            "(*core.ConfigMapList)",
        ),
        (
            f"{CONFIGMAPS}/a",
            "PartialObjectMetadataList",
            "you requested PartialObjectMetadataList, but the requested object is not a list "
            "(*core.ConfigMap)",
        ),
    ],
)
async def test_metadata_of_another_form_is_not_acceptable(
    api: Api, path: str, form: str, text: str
) -> None:
    """Even where JSON would do: the first form that is known is the one that is asked for."""
    await api.post(CONFIGMAPS, configmap("a"))
    accept = f"application/json;as={form};v=v1;g=meta.k8s.io,application/json"
    reply = await api.request("GET", path, accept=accept)
    assert (reply.status, reply.body["reason"], reply.message) == (406, "NotAcceptable", text)


async def test_form_without_its_group_is_not_acceptable(api: Api) -> None:
    """A client that leaves out `g` would fail on Kubernetes, too."""
    reply = await api.request("GET", CONFIGMAPS, accept="application/json;as=Table;v=v1")
    assert (reply.status, reply.body["reason"]) == (406, "NotAcceptable")


async def test_watched_table_sends_columns_once(api: Api) -> None:
    """Each event is a Table of one row."""
    await api.post(CONFIGMAPS, configmap("a"))
    await api.post(CONFIGMAPS, configmap("b"))
    async with api.session.get(
        api.url + CONFIGMAPS,
        params={"watch": "1"},
        headers={"Authorization": f"Bearer {api.token}", "Accept": TABLE},
    ) as response:
        first = json.loads(await response.content.readline())
        second = json.loads(await response.content.readline())
    assert first["object"]["columnDefinitions"]
    assert second["object"]["columnDefinitions"] is None
    assert second["object"]["rows"][0]["cells"][0] == "b"


async def test_bookmark_of_a_watched_table_has_a_row(api: Api) -> None:
    """The object of the row says that the initial events have ended."""
    async with api.session.get(
        api.url + CONFIGMAPS,
        params={
            "watch": "1",
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
            "allowWatchBookmarks": "true",
        },
        headers={"Authorization": f"Bearer {api.token}", "Accept": TABLE},
    ) as response:
        event = json.loads(await response.content.readline())
    assert event["type"] == "BOOKMARK"
    (row,) = event["object"]["rows"]
    assert row["cells"] == ["", 0, "<unknown>"]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert event["object"]["metadata"] == {
        "resourceVersion": row["object"]["metadata"]["resourceVersion"]
    }


@pytest.mark.parametrize("kind", list(built_in_scheme()), ids=lambda kind: kind.resource)
def test_bookmark_of_each_kind_has_a_row(kind: Kind) -> None:
    """The columns show an object of which nothing is known but its resourceVersion."""
    bookmark = {"kind": kind.kind, "metadata": {"resourceVersion": "7"}}
    shown = bookmark_table(kind, bookmark, now=0, include="Object")
    (row,) = shown["rows"]
    assert len(row["cells"]) == len(shown["columnDefinitions"])
    assert row["object"] == bookmark
