"""ServiceAccounts (pkg/registry/core/serviceaccount/strategy.go)."""

from __future__ import annotations

from hotmap.local.apiserver.columns import AGE, NAME
from hotmap.local.group_version_kind import GroupVersionKind
from hotmap.local.scheme import Kind, Names, Subresource
from hotmap.local.strategy import Strategy


class ServiceAccountStrategy(Strategy):
    columns = (NAME, AGE)
    returns_deleted = True


SERVICEACCOUNTS = Kind(
    "",
    ("v1",),
    Names("serviceaccounts", "ServiceAccount", ("sa",), storage="serviceaccounts"),
    subresources=(
        Subresource(
            "token", ("create",), GroupVersionKind("authentication.k8s.io", "v1", "TokenRequest")
        ),
    ),
    strategy=ServiceAccountStrategy(),
)
