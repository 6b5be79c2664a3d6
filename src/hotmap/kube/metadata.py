"""Lists the metadata of objects without their content (PartialObjectMetadataList)."""

from __future__ import annotations

import msgspec

from hotmap.core.errors import ResponseTooLarge
from hotmap.core.model.objects import OwnerReference
from hotmap.kube.client import Client
from hotmap.kube.resources import Resource

__all__ = ["ObjectVersion", "list_versions"]

#: A server that does not know the form sends whole objects.
_ACCEPT = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;q=0.5"

#: Objects on a page, and attempts for each.
_LIMIT, _ATTEMPTS = 2000, 2

#: Bytes of a page of several objects. The usual metadata has 4 KB or less, with annotations a
#: tenant chooses it up to 1.5 MiB.
_LARGEST_PAGE = 16 << 20


class ObjectVersion(msgspec.Struct, rename="camel"):
    """The version of an object, its controller, and whether it is being deleted."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    #: The controller alone: a tenant may name thousands of other owners.
    owner_references: list[OwnerReference] | None = None


class _Item(msgspec.Struct):
    metadata: ObjectVersion


class _ListMeta(msgspec.Struct, rename="camel"):
    continue_token: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[_Item] | None = None


async def list_versions(
    client: Client,
    resource: Resource,
    namespace: str | None,
    *,
    label_selector: str = "",
    field_selector: str = "",
) -> list[ObjectVersion]:
    """List the versions of objects at this moment; `namespace` None lists all.

    A consistent read: without a resourceVersion, no cache may answer with an older state
    (Kubernetes API concepts, "Semantics for get and list"). A page that is too large is asked for
    again with a quarter of the objects.

    Raises:
        ApiError, Unreachable: as the client raises them.
    """
    path = resource.path(namespace)
    selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
    params = {name: value for name, value in selectors.items() if value}
    found: list[ObjectVersion] = []
    token, limit = "", _LIMIT
    while True:
        paging = {"limit": str(limit), **({"continue": token} if token else {})}
        try:
            body = await client.request(
                "GET",
                path,
                params={**params, **paging},
                headers={"Accept": _ACCEPT},
                attempts=_ATTEMPTS,
                at_most=None if limit == 1 else _LARGEST_PAGE,
            )
        except ResponseTooLarge:
            limit = max(1, limit // 4)
            continue
        page = client.decode(body, _List, path)
        found += map(_without_other_owners, page.items or ())
        token = page.metadata.continue_token
        if not token:
            return found


def _without_other_owners(item: _Item) -> ObjectVersion:
    version = item.metadata
    version.owner_references = [
        owner for owner in version.owner_references or () if owner.controller
    ]
    return version
