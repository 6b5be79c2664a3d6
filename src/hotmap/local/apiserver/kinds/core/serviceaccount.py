"""ServiceAccounts (pkg/registry/core/serviceaccount/strategy.go)."""

from __future__ import annotations

from hotmap.local.scheme import GroupVersionKind, Kind, Names, Subresource
from hotmap.local.strategy import Strategy


class ServiceAccountStrategy(Strategy):
    unconditional_update = False


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
